"""autograd.Function: arguments that forward changes in place."""

import numpy as np
import pytest

import plugrad
from plugrad.autograd import Function, grad


def leaf(values):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


def values(array):
    return plugrad.tensor(array, dtype=np.float64)


class AddSquareInPlace(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        ctx.save_for_backward(y)
        x.add_(y * y)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad, grad * 2 * ctx.saved_tensors[0]


class ExpInPlace(Function):
    @staticmethod
    def forward(ctx, x):
        x.exp_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


class TestMarkDirty:
    def test_the_same_object_with_a_new_version_and_the_right_gradient(self):
        a, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
        x = a * 2
        before = x._version
        out = AddSquareInPlace.apply(x, y)
        assert out is x
        assert x._version > before
        assert x.tolist() == [11, 20]
        (x * values([1.0, 10.0])).sum().backward()
        assert (a.grad.tolist(), y.grad.tolist()) == ([2, 20], [6, 80])

    def test_a_written_tensor_that_did_not_require_grad(self):
        x, y = values([1.0]), leaf([3.0])
        out = AddSquareInPlace.apply(x, y)
        assert out is x
        assert x.requires_grad
        x.sum().backward()
        assert y.grad.tolist() == [6]

    def test_what_was_saved_is_the_output(self):
        a = leaf([1.0, 2.0])
        x = a * 1
        ExpInPlace.apply(x)
        (g,) = grad(x.sum(), a, create_graph=True)
        np.testing.assert_allclose(g.detach().numpy(), np.exp([1.0, 2.0]))
        (h,) = grad(g.sum(), a)
        np.testing.assert_allclose(h.numpy(), np.exp([1.0, 2.0]))

    def test_a_view_takes_its_base_along(self):
        a, y = leaf([1.0, 2.0]), leaf([3.0])
        x = a * 2
        part = x[1:]
        out = AddSquareInPlace.apply(part, y)
        assert out is part
        (x * values([1.0, 10.0])).sum().backward()
        assert (a.grad.tolist(), y.grad.tolist()) == ([2, 20], [60])

    def test_an_earlier_use_notices(self):
        a, y = leaf([2.0]), leaf([3.0])
        x = a * 1
        square = x * x
        AddSquareInPlace.apply(x, y)
        with pytest.raises(RuntimeError, match="in-place"):
            square.sum().backward()

    def test_a_leaf_is_refused_before_it_is_written(self):
        x, y = leaf([1.0]), leaf([3.0])
        with pytest.raises(RuntimeError, match="AddSquareInPlace: a leaf that requires grad"):
            AddSquareInPlace.apply(x, y)
        assert x.tolist() == [1]

    def test_without_a_graph(self):
        x, y = leaf([1.0]), leaf([3.0])
        with plugrad.no_grad():
            assert AddSquareInPlace.apply(x, y) is x
        assert x.tolist() == [10]

    def test_it_must_be_returned(self):
        class Keeps(AddSquareInPlace):
            @staticmethod
            def forward(ctx, x, y):
                return AddSquareInPlace.forward(ctx, x, y) * 1

        with pytest.raises(RuntimeError, match="Keeps: a dirty input must be an output"):
            Keeps.apply(leaf([1.0]) * 1, leaf([3.0]))

    def test_it_must_be_an_argument(self):
        class Marks(Function):
            @staticmethod
            def forward(ctx, x):
                y = x * 2
                ctx.mark_dirty(y)
                return y

        with pytest.raises(RuntimeError, match="marked dirty must be an argument"):
            Marks.apply(leaf([1.0]))
