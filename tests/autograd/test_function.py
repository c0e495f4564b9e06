"""autograd.Function: private forward and backward."""

import gc
import weakref

import numpy as np
import pytest

import plugrad
from plugrad.autograd import Function, once_differentiable


def leaf(values):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = plugrad.exp(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


class Pair(Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor, x * x

    @staticmethod
    def backward(ctx, first, second):
        Pair.seen = second.tolist()
        return first * ctx.factor, None


def test_gradient_and_second_order():
    x = leaf([2.0])
    (g,) = plugrad.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    (h,) = plugrad.autograd.grad(g.sum(), x)
    assert (g.tolist(), h.tolist()) == ([12], [12])


def test_a_saved_output_is_differentiable_again():
    x = leaf([1.0])
    (g,) = plugrad.autograd.grad(Exp.apply(x).sum(), x, create_graph=True)
    (h,) = plugrad.autograd.grad(g.sum(), x)
    assert h.tolist() == pytest.approx([np.e])


def test_needs_input_grad_and_non_tensor_arguments():
    seen = []

    class Scale(Function):
        @staticmethod
        def forward(ctx, x, factor, y):
            return x * factor + y

        @staticmethod
        def backward(ctx, grad):
            seen.append(ctx.needs_input_grad)
            return grad * 2, None, grad

    x, y = leaf([1.0]), plugrad.tensor([1.0], dtype=np.float64)
    Scale.apply(x, 2, y).sum().backward()
    assert seen == [(True, False, False)]
    assert x.grad.tolist() == [2]


def test_unused_outputs_get_zeros():
    x = leaf([3.0])
    first, _second = Pair.apply(x, 2.0)
    first.sum().backward()
    assert Pair.seen == [0]
    assert x.grad.tolist() == [2]


def test_without_materialized_grads_they_are_none():
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, first, second):
            assert second is None
            return first

    x = leaf([3.0])
    Two.apply(x)[0].sum().backward()
    assert x.grad.tolist() == [1]


def test_setup_context_and_keywords():
    class Power(Function):
        @staticmethod
        def forward(x, *, n):
            return x**n

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            return grad * 2 * ctx.saved_tensors[0]

    x = leaf([3.0])
    Power.apply(x, n=2).sum().backward()
    assert x.grad.tolist() == [6]


def test_non_differentiable_outputs():
    class SortedWithOrder(Function):
        @staticmethod
        def forward(ctx, x):
            order = plugrad.tensor(np.argsort(x.detach().numpy()))
            ctx.mark_non_differentiable(order)
            return x * 1, order

        @staticmethod
        def backward(ctx, grad, _):
            return grad

    y, order = SortedWithOrder.apply(leaf([2.0, 1.0]))
    assert y.requires_grad
    assert not order.requires_grad


def test_returning_an_input_gives_a_tensor_of_its_own():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 5

    x = leaf([1.0])
    y = Same.apply(x)
    assert y is not x
    y.sum().backward()
    assert x.grad.tolist() == [5]


def test_once_differentiable_always_raises_at_second_order():
    class OnceExp(Function):
        @staticmethod
        def forward(ctx, x):
            y = plugrad.exp(x)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

    x = leaf([1.0])
    y = OnceExp.apply(2 * x) * x
    (g,) = plugrad.autograd.grad(y.sum(), x, create_graph=True)
    assert g.item() == pytest.approx(22.16716829679195)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        plugrad.autograd.grad(g.sum(), x)


class TestRefused:
    def check(self, backward, match, error=RuntimeError):
        body = {
            "forward": staticmethod(lambda ctx, x: x * 2),
            "backward": staticmethod(backward),
        }
        with pytest.raises(error, match=match):
            type("Broken", (Function,), body).apply(leaf([1.0, 2.0])).sum().backward()

    def test_wrong_number_of_gradients(self):
        self.check(lambda ctx, g: (g, g), "Broken returned 2 gradients, expected 1")

    def test_wrong_shape(self):
        self.check(lambda ctx, g: plugrad.ones(5), r"Broken.*\(5,\).*input 0.*\(2,\)")

    def test_a_shape_that_would_sum_is_not_summed(self):
        self.check(lambda ctx, g: plugrad.ones(4, 2), r"Broken.*\(4, 2\).*\(2,\)")

    def test_not_a_tensor(self):
        self.check(lambda ctx, g: 3.0, "Broken.*float", TypeError)

    def test_forward_that_returns_an_array(self):
        class Raw(Function):
            @staticmethod
            def forward(ctx, x):
                return x.numpy()

        with pytest.raises(TypeError, match=r"Raw.forward.*ndarray"):
            Raw.apply(plugrad.tensor([1.0]))

    def test_save_for_backward_takes_tensors(self):
        class Bad(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(3)

        with pytest.raises(TypeError, match="takes Tensors and None"):
            Bad.apply(leaf([1.0]))


def test_a_second_backward_says_retain_graph():
    y = Cube.apply(leaf([1.0])).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="Cube a second time.*retain_graph"):
        y.backward()


def test_a_changed_saved_tensor_is_an_error():
    x = leaf([1.0])
    y = Cube.apply(x).sum()
    x.detach()[0] = 9.0
    with pytest.raises(RuntimeError, match="Cube saved.*in-place"):
        y.backward()


def test_nothing_is_kept_alive():
    x = leaf([1.0])
    y = Exp.apply(x)
    alive = weakref.ref(y.array)
    total = y.sum()
    del y
    total.backward()
    gc.disable()
    try:
        del total
        assert alive() is None
    finally:
        gc.enable()
