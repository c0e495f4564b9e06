"""Forward mode through autograd.Function: by its jvp, or by its backward."""

import pytest

import plugrad
from plugrad import tensor
from plugrad.autograd import Function, grad, once_differentiable
from plugrad.autograd import forward_ad as fw


def doubles(*values, **flags):
    return tensor(values, dtype=plugrad.float64, **flags)


class Product(Function):
    """x² y, with saved inputs."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        gx = grad * 2 * x * y if ctx.needs_input_grad[0] else None
        return gx, grad * x * x if ctx.needs_input_grad[1] else None


class Exp(Function):
    """Saves its output."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


class Straight(Function):
    """round, with the identity for a derivative: what forward does inside must not matter."""

    @staticmethod
    def forward(ctx, x):
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return grad


class Both(Function):
    """Two outputs of which one has no gradient, and a rule of its own for tangents."""

    @staticmethod
    def forward(ctx, x, n):
        ctx.n = n
        ctx.save_for_forward(x)
        kept = x > 0
        ctx.mark_non_differentiable(kept)
        return x * n, kept

    @staticmethod
    def backward(ctx, grad, _):
        return grad * ctx.n, None

    @staticmethod
    def jvp(ctx, tangent, n):
        assert n is None
        (x,) = ctx.saved_tensors
        assert x.tolist() == [1, -2]
        return tangent * ctx.n, None


@pytest.mark.parametrize("flags", [{}, {"requires_grad": True}], ids=["plain", "requires grad"])
@pytest.mark.parametrize("recording", [True, False])
def test_by_backward(flags, recording):
    with plugrad.set_grad_enabled(recording), fw.dual_level():
        x = fw.make_dual(doubles(3, **flags), doubles(1))
        y = fw.make_dual(doubles(5), doubles(10))
        out = Product.apply(x, y)
        primal, tangent = fw.unpack_dual(out)
        assert (primal.tolist(), tangent.tolist()) == ([45], [2 * 3 * 5 + 9 * 10])
        expected = recording and bool(flags)
        assert (out.requires_grad, tangent.requires_grad) == (expected, expected)
        assert fw.unpack_dual(Product.apply(doubles(2), y)).tangent.tolist() == [40]
        assert fw.unpack_dual(Product.apply(doubles(2), doubles(2))).tangent is None


def test_what_forward_does_inside_has_no_tangent():
    with fw.dual_level():
        d = fw.make_dual(doubles(3), doubles(1))
        assert fw.unpack_dual(Straight.apply(d)).tangent.tolist() == [1]


@pytest.mark.parametrize("function", [Exp.apply, lambda x: Product.apply(x, x)])
def test_second_derivatives_in_either_order(function):
    x = doubles(2, requires_grad=True)
    (slope,) = grad(function(x), x, create_graph=True)
    (expected,) = grad(slope, x)
    with fw.dual_level():
        out = function(fw.make_dual(x, doubles(1)))
        (first,) = grad(out, x, retain_graph=True)
        assert fw.unpack_dual(first).tangent.tolist() == pytest.approx(expected.tolist())
        (second,) = grad(fw.unpack_dual(out).tangent, x)
        assert second.tolist() == pytest.approx(expected.tolist())


def test_nested_levels():
    one = doubles(1)
    with fw.dual_level():
        a = fw.make_dual(doubles(2), one)
        with fw.dual_level():
            inner = fw.unpack_dual(Exp.apply(fw.make_dual(a, one))).tangent
        assert fw.unpack_dual(inner).tangent.tolist() == pytest.approx(a.exp().tolist())


def test_its_own_jvp():
    with fw.dual_level():
        d = fw.make_dual(doubles(1, -2), doubles(1, 10))
        out, kept = Both.apply(d, 3)
        assert fw.unpack_dual(out).tangent.tolist() == [3, 30]
        assert fw.unpack_dual(kept).tangent is None


@pytest.mark.parametrize(
    ("returned", "error", "words"),
    [
        (lambda t: (t, t), RuntimeError, "must return 1 tangents, one per output, got 2"),
        (lambda t: t[0], RuntimeError, r"shape \(\)"),
        (lambda t: 1.0, TypeError, "got float"),
    ],
)
def test_a_jvp_that_returns_something_else(returned, error, words):
    class Wrong(Straight):
        @staticmethod
        def jvp(ctx, tangent):
            return returned(tangent)

    with fw.dual_level(), pytest.raises(error, match=f"jvp of Wrong.*{words}"):
        Wrong.apply(fw.make_dual(doubles(1, 2), doubles(1, 2)))


def test_once_differentiable():
    class Once(Straight):
        backward = staticmethod(once_differentiable(Straight.backward))

    class Own(Once):
        @staticmethod
        def jvp(ctx, tangent):
            return tangent

    x = doubles(3, requires_grad=True)
    with fw.dual_level():
        d = fw.make_dual(x, doubles(1))
        with pytest.raises(RuntimeError, match="Once is once_differentiable.*jvp"):
            Once.apply(d)
        y = Own.apply(d)
        assert fw.unpack_dual(y).tangent.tolist() == [1]
        with pytest.raises(RuntimeError, match="Own is once_differentiable"):
            grad((y * y).sum(), x)


def test_an_argument_written_in_place():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

        @staticmethod
        def jvp(ctx, tangent):
            return 2 * tangent

    with fw.dual_level():
        d = fw.make_dual(doubles(1, 2), doubles(1, 10))
        part = d[1:]
        assert Double.apply(part) is part
        assert fw.unpack_dual(part).tangent.tolist() == [20]
        assert fw.unpack_dual(d).tangent.tolist() == [1, 20]


def test_a_tangent_that_would_be_lost():
    class Sum(Function):
        @staticmethod
        def forward(ctx, items):
            return items[0] + items[1]

        @staticmethod
        def backward(ctx, grad):
            return None

    with fw.dual_level():
        d = fw.make_dual(doubles(1), doubles(1))
        with pytest.raises(TypeError, match="tangent was given inside a list"):
            Sum.apply([d, d])
