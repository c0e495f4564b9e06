"""What a determined user found once: wrong numbers, crashes and leaks that must not come back."""

import gc

import numpy as np
import pytest

import plugrad
from plugrad import ops
from plugrad.graph.node import live_nodes


def leaf(values):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


class TestAliases:
    def test_a_view_operator_that_returns_its_input_is_a_view(self):
        x = leaf([1.0, 2.0])
        a = x * 1
        b = a.squeeze()
        assert b._base is a
        b.mul_(3.0)
        a.sum().backward()
        assert x.grad.tolist() == [3, 3]
        with pytest.raises(RuntimeError, match="view.*leaf that requires grad"):
            x.squeeze().mul_(3.0)

    def test_a_view_operator_that_copied_is_none(self):
        x = plugrad.tensor(np.arange(6.0).reshape(2, 3))
        assert x.T.reshape(6)._base is None or not np.shares_memory(x.T.reshape(6).array, x.array)

    def test_a_gradient_that_repeats_elements_is_not_added_to_in_place(self):
        x = leaf([1.0, 2.0, 3.0])
        x.grad = plugrad.zeros(1, dtype=np.float64).expand(3)
        (x * np.array([1.0, 2.0, 3.0])).sum().backward()
        assert x.grad.tolist() == [1, 2, 3]

    def test_subclasses_of_ndarray(self):
        u = leaf([[1.0, 2.0], [3.0, 4.0]])
        matrix = np.array([[1.0, 2.0], [3.0, 4.0]]).view(np.matrix)  # its * is a matrix product
        ops.tanh(u * matrix).sum().backward()
        product = u.array * np.array([[1.0, 2.0], [3.0, 4.0]])
        expected = (1 - np.tanh(product) ** 2) * np.array([[1.0, 2.0], [3.0, 4.0]])
        assert np.allclose(u.grad.array, expected)
        with pytest.raises(TypeError, match="masked array"):
            plugrad.Tensor(np.ma.array([1.0, 2.0], mask=[True, False]))


class TestRetainedGradients:
    def test_belong_to_the_value_after_a_write(self):
        x = leaf([1.0, 2.0])
        a = x * 1
        a.retain_grad()
        a.mul_(3.0)
        (a * 5).sum().backward()
        assert a.grad.tolist() == [5, 5]

    def test_of_a_view_whose_base_is_written(self):
        x = leaf([1.0, 2.0])
        a = x * 1
        view = a[:1]
        view.retain_grad()
        a.mul_(3.0)
        (view * 5).sum().backward()
        assert view.grad.tolist() == [5]


def test_backward_with_inputs_runs_post_accumulate_hooks():
    x = leaf([1.0])
    seen = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.item()))
    (x * 2).sum().backward(inputs=[x])
    assert seen == [2]


class TestLayouts:
    @pytest.mark.parametrize("order", ["C", "F"])
    def test_a_write_through_a_flat_view_takes_gradients_of_any_layout(self, order):
        x = leaf(np.ones((2, 3)))
        a = x * 1.0
        a.view((6,)).mul_(2.0)
        a.backward(plugrad.Tensor(np.asarray(np.arange(6.0).reshape(2, 3), order=order)))
        assert x.grad.tolist() == [[0, 2, 4], [6, 8, 10]]

    def test_a_base_in_fortran_order(self):
        x = plugrad.from_numpy(np.asfortranarray(np.ones((2, 3)))).requires_grad_()
        a = x.clone().T.contiguous().T
        a.T.view((6,))[1:3].mul_(2.0)
        a.sum().backward()
        assert sorted(x.grad.array.ravel().tolist()) == [1, 1, 1, 1, 2, 2]


class TestUninitialised:
    def test_a_subclass_that_forgot_init_gives_errors(self):
        class Forgot(plugrad.Tensor):
            def __init__(self, array):
                self.given = array

        broken = Forgot(np.ones(2))
        assert broken.shape == ()
        for use in (
            lambda: broken + 1,
            lambda: broken.exp(),
            lambda: broken.numpy(),
            lambda: repr(broken),
        ):
            with pytest.raises((RuntimeError, TypeError, ValueError, NotImplementedError)):
                use()

    def test_hooks_of_nothing(self):
        from plugrad.graph.engine import hooks_of

        with pytest.raises(TypeError):
            hooks_of(None)


class TestChainsThroughPython:
    """Deallocation needs no recursion, whatever stands between the nodes."""

    def test_packed_values(self):
        y = leaf([1.0])
        with plugrad.autograd.graph.saved_tensors_hooks(lambda t: [t], lambda p: p[0]):
            for _ in range(100_000):
                y = y * y
        del y

    def test_contexts_that_hold_tensors(self):
        class Keeps(plugrad.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.x = x
                return x * 1

            @staticmethod
            def backward(ctx, grad):
                return grad

        y = leaf([1.0])
        for _ in range(100_000):
            y = Keeps.apply(y)
        del y

    def test_gradients_of_gradients(self):
        t = plugrad.tensor([1.0])
        for _ in range(700_000):
            u = plugrad.tensor([1.0])
            u.grad = t
            t = u
        del t, u

    def test_tangents(self):
        from plugrad.autograd import forward_ad

        with forward_ad.dual_level():
            y = forward_ad.make_dual(leaf([1.0]), plugrad.ones(1, dtype=np.float64))
            for _ in range(50_000):
                y = y.sin()
            del y


class TestHookCycles:
    def count(self, build):
        gc.collect()
        before = live_nodes()
        for _ in range(5):
            build()
        gc.collect()
        return live_nodes() - before

    def test_a_hook_that_refers_to_what_was_computed_before(self):
        def build():
            x = leaf([1.0, 2.0])
            y = x * 2
            loss = (y * y).sum()
            y.register_hook(lambda g: loss and None)

        assert self.count(build) == 0

    def test_a_hook_that_refers_to_what_is_computed_later(self):
        def build():
            kept = []
            x = leaf([1.0, 2.0])
            y = x * 2
            y.register_hook(lambda g: kept and None)
            kept.append((y * y + x).sum())

        assert self.count(build) == 0


def test_values_pass_through_as_pytorchs_do():
    x = leaf([np.nan, 1.0, -1.0])
    x.relu().sum().backward()
    assert x.grad.tolist() == [1, 1, 0]
    out = ops.normalize(plugrad.tensor([[1.0, np.nan]]))
    assert np.isnan(out.array).all()


def test_shapes_are_integers():
    with pytest.raises(TypeError, match="integers"):
        plugrad.zeros(2.5)
