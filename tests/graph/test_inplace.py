"""Writing in place: on tensors, through views, with gradients that stay right."""

import numpy as np
import pytest

import plugrad


def leaf(values):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


class TestThroughViews:
    def test_a_view_writes_into_its_base(self):
        a = leaf([1.0, 2.0, 3.0])
        b = a * 2
        b[1:].mul_(10)
        assert b.tolist() == [2, 40, 60]
        assert b.grad_fn.name() == "CopySlices"
        b.sum().backward()
        assert a.grad.tolist() == [2, 20, 20]

    def test_a_base_that_did_not_require_grad(self):
        base = plugrad.zeros(3, dtype=np.float64)
        w = leaf([5.0, 6.0])
        base[1:] = w
        assert base.requires_grad
        (base * np.array([1.0, 2.0, 3.0])).sum().backward()
        assert w.grad.tolist() == [2, 3]

    def test_a_view_of_a_view_read_through_a_third(self):
        a = leaf([1.0, 2.0, 3.0, 4.0])
        b = (a * 1).view(2, 2)
        b[0].mul_(10)
        (b.t() * np.array([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
        assert a.grad.tolist() == [10, 30, 2, 4]

    def test_a_view_taken_before_its_base_was_written(self):
        a = leaf([1.0, 2.0, 3.0])
        b = a * 1
        view = b[1:]
        b.mul_(2)
        (view * view).sum().backward()
        assert a.grad.tolist() == [0, 16, 24]

    def test_overlapping_views(self):
        a = leaf([1.0, 2.0, 3.0])
        b = a * 1
        first, second = b[:2], b[1:]
        first.mul_(2)
        second.mul_(3)
        first.sum().backward()
        assert b.tolist() == [2, 12, 9]
        assert a.grad.tolist() == [2, 6, 0]

    def test_negative_strides_and_transposes(self):
        a = leaf(np.arange(6.0).reshape(2, 3))
        b = a * 1
        b.T[::2].mul_(10)
        (b * b).sum().backward()
        expected = 2 * a.array * np.array([100.0, 1.0, 100.0])
        assert a.grad.tolist() == expected.tolist()

    def test_second_order(self):
        a = leaf([1.0, 2.0, 3.0])
        b = a * a
        b[1:].mul_(a[1:])
        (g,) = plugrad.autograd.grad(b.sum(), a, create_graph=True)
        (h,) = plugrad.autograd.grad(g.sum(), a)
        assert g.tolist() == [2, 12, 27]
        assert h.tolist() == [2, 12, 18]


class TestEveryOperatorHasAForm:
    def test_methods_end_in_an_underscore(self):
        x = plugrad.tensor([1.0, 4.0])
        array = x.array
        assert x.sqrt_() is x
        assert x.array is array
        assert x.add_(1).tolist() == [2, 3]
        assert x.clamp_(max=2.5).tolist() == [2, 2.5]
        assert x.relu_().neg_().tolist() == [-2, -2.5]

    def test_augmented_assignment_writes(self):
        x = plugrad.tensor([4.0, 6.0])
        same = x
        x += 2
        x *= 3
        x -= plugrad.tensor([8.0, 4.0])
        x /= 2
        x **= 2
        assert same is x
        assert x.tolist() == [25, 100]

    def test_exp_and_its_saved_output(self):
        a = leaf([0.0, 1.0])
        b = a * 1
        b.exp_()
        b.sum().backward()
        assert a.grad.tolist() == pytest.approx([1, np.e])

    def test_a_factor_that_requires_grad(self):
        a, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
        b = a * 1
        b.mul_(y)
        b.sum().backward()
        assert a.grad.tolist() == [3, 4]
        assert y.grad.tolist() == [1, 2]

    def test_zero_fill_and_copy(self):
        a = leaf([1.0, 2.0])
        b = a * 1
        b.zero_()
        b.sum().backward()
        assert a.grad.tolist() == [0, 0]
        c = plugrad.zeros(2, 2)
        assert c.fill_(3).tolist() == [[3, 3], [3, 3]]
        c.copy_(plugrad.tensor([1, 2]))
        assert c.tolist() == [[1, 2], [1, 2]]

    def test_assignment_by_index(self):
        a, v = leaf([1.0, 2.0, 3.0]), leaf([10.0, 20.0])
        b = a * 1
        b[[0, 2]] = v
        (b * np.array([1.0, 2.0, 3.0])).sum().backward()
        assert a.grad.tolist() == [0, 2, 0]
        assert v.grad.tolist() == [1, 3]


class TestRefused:
    def test_a_leaf_that_requires_grad(self):
        with pytest.raises(RuntimeError, match="leaf that requires grad.*in-place"):
            leaf([1.0]).add_(1)
        with pytest.raises(RuntimeError, match="view.*of a leaf that requires grad"):
            leaf([1.0, 2.0])[0].add_(1)

    def test_both_are_fine_under_no_grad(self):
        a = leaf([1.0, 2.0])
        with plugrad.no_grad():
            a.add_(1)
            a[0].add_(1)
        assert a.tolist() == [3, 3]
        assert a._version == 2
        assert a.requires_grad

    def test_a_view_made_under_no_grad(self):
        a = leaf([1.0, 2.0])
        b = a * 1
        with plugrad.no_grad():
            view = b[1:]
        with pytest.raises(RuntimeError, match="made under no_grad"):
            view.mul_(2)

    def test_elements_that_share_memory(self):
        x = plugrad.ones(1).expand(3)
        with pytest.raises(RuntimeError, match="share memory"):
            x[0] = 5
        with pytest.raises(RuntimeError, match="share memory"):
            x.add_(1)
        windows = plugrad.Tensor(np.lib.stride_tricks.sliding_window_view(np.zeros(4), 2))
        with pytest.raises(RuntimeError, match="share memory"):
            windows.add_(1)

    def test_a_saved_value_that_was_overwritten(self):
        b = leaf([2.0]) * 1
        b *= b
        with pytest.raises(RuntimeError, match="in-place"):
            b.backward()

    def test_a_result_of_a_higher_kind(self):
        with pytest.raises(RuntimeError, match="float32 result.*int64"):
            plugrad.tensor([1, 2]).add_(0.5)

    def test_a_result_of_another_shape(self):
        with pytest.raises(RuntimeError, match="shape"):
            plugrad.ones(2).add_(plugrad.ones(3, 2))

    def test_a_refused_write_changes_nothing(self):
        x = plugrad.tensor([1, 2])
        with pytest.raises(RuntimeError):
            x.add_(0.5)
        assert x.tolist() == [1, 2]
        assert x._version == 0
