"""Inference mode: tensors that can never be part of a graph."""

import threading

import numpy as np
import pytest

import plugrad
from plugrad.autograd import Function


def leaf(values):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


def inferred(values):
    with plugrad.inference_mode():
        return plugrad.tensor(values, dtype=np.float64)


def test_what_is_made_inside_is_marked():
    x = leaf([1.0, 2.0])
    with plugrad.inference_mode():
        assert plugrad.is_inference_mode_enabled()
        assert not plugrad.is_grad_enabled()
        made = [x * 2, x.exp().sum(), x @ x, plugrad.ones(3), plugrad.Tensor(np.ones(2))]
        made += [plugrad.cat([x, x]), x.clone()]
    assert not plugrad.is_inference_mode_enabled()
    assert plugrad.is_grad_enabled()
    assert all(t.is_inference() and not t.requires_grad for t in made)
    assert not (x * 2).is_inference()


def test_enable_grad_inside_changes_nothing():
    x = leaf([1.0])
    with plugrad.inference_mode(), plugrad.enable_grad():
        assert not plugrad.is_grad_enabled()
        assert not (x * 2).requires_grad
    with plugrad.no_grad(), plugrad.inference_mode(False):
        assert plugrad.is_grad_enabled()
    with plugrad.inference_mode(), plugrad.inference_mode(mode=False):
        assert (x * 2).requires_grad
        assert not plugrad.ones(2).is_inference()


def test_views_are_what_their_base_is():
    x, z = leaf([1.0, 2.0]) * 1, inferred([1.0, 2.0])
    with plugrad.inference_mode():
        assert not x[0:1].is_inference()
        assert not x.detach().is_inference()
        assert not x.data.is_inference()
    assert z[0:1].is_inference()
    assert z.detach().is_inference()
    assert z.data.is_inference()


def test_a_decorator_of_functions_and_generators():
    @plugrad.inference_mode
    def double(x):
        return x * 2

    @plugrad.inference_mode()
    def several(x):
        for k in range(2):
            got = yield x * k
            assert got is None

    assert double(leaf([1.0])).is_inference()
    for y in several(leaf([1.0])):
        assert y.is_inference()
        assert plugrad.is_grad_enabled()


def test_it_is_left_after_an_error_and_in_other_threads():
    with pytest.raises(KeyError), plugrad.inference_mode():
        raise KeyError
    assert plugrad.is_grad_enabled()
    seen = []
    with plugrad.inference_mode():
        thread = threading.Thread(target=lambda: seen.append((leaf([1.0]) * 2).requires_grad))
        thread.start()
        thread.join()
    assert seen == [True]


class TestOutside:
    def test_it_cannot_be_saved_for_backward(self):
        with pytest.raises(RuntimeError, match="inference tensor.*cannot be saved.*clone"):
            leaf([1.0]) * inferred([2.0])
        with pytest.raises(RuntimeError, match="cannot be saved"):
            plugrad.cat([leaf([1.0]), inferred([2.0])]) * inferred([1.0, 2.0])

    def test_a_function_cannot_save_it(self):
        class Product(Function):
            @staticmethod
            def forward(ctx, x, y):
                ctx.save_for_backward(y)
                return plugrad.tensor(x.detach().numpy() * y.numpy())

        with pytest.raises(RuntimeError, match="cannot be saved"):
            Product.apply(leaf([1.0]), inferred([2.0]))

    def test_it_cannot_require_grad(self):
        with pytest.raises(RuntimeError, match="cannot require grad"):
            inferred([1.0]).requires_grad_()
        with pytest.raises(RuntimeError, match="cannot require grad"), plugrad.inference_mode():
            leaf([1.0])

    def test_it_cannot_take_a_recorded_value(self):
        z = inferred([1.0, 2.0])
        for write in (lambda: z.copy_(leaf([1.0, 2.0])), lambda: z.add_(leaf([1.0, 2.0]))):
            with pytest.raises(RuntimeError, match="inference tensor.*in-place"):
                write()
        with pytest.raises(RuntimeError, match="inference tensor"):
            z[0:1] = leaf([3.0])

    def test_a_clone_is_an_ordinary_tensor(self):
        x = leaf([3.0])
        (x * inferred([2.0]).clone()).sum().backward()
        assert x.grad.tolist() == [2]

    def test_what_saves_nothing_of_it_is_fine(self):
        x = leaf([3.0])
        (x + inferred([2.0])).sum().backward()
        assert x.grad.tolist() == [1]

    def test_it_can_be_computed_with_and_changed(self):
        z = inferred([2.0])
        z.mul_(3)
        assert (z * z).tolist() == [36]


def test_writing_inside_to_an_ordinary_tensor_is_noticed():
    x = leaf([1.0, 2.0])
    y = x * x
    z = y * y
    with plugrad.inference_mode():
        y.add_(1)
    with pytest.raises(RuntimeError, match="in-place"):
        z.sum().backward()


def test_a_view_keeps_its_graph_when_it_is_looked_at_inside():
    x = leaf([1.0, 2.0])
    base = x * 1
    view = base[0:1]
    base.mul_(3)
    with plugrad.inference_mode():
        assert view.requires_grad
    view.sum().backward()
    assert x.grad.tolist() == [3, 0]


def test_backward_inside():
    x = leaf([1.0, 2.0])
    loss = (x * x).sum()
    with plugrad.inference_mode():
        loss.backward()
        with pytest.raises(RuntimeError, match="create_graph=True in inference_mode"):
            plugrad.autograd.grad((x * 2).sum(), x, create_graph=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [4, 8]
