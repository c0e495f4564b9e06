"""autograd.Function: arguments by name, and what backward may do with what it is handed."""

import numpy as np
import pytest

import plugrad
from plugrad.autograd import Function, grad, gradcheck, gradgradcheck


def leaf(values):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


def values(array):
    return plugrad.tensor(array, dtype=np.float64)


# ---- a backward that writes into its gradient ----------------------------------------------------


class DoubleInPlace(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad.mul_(2)


class TestWritingIntoTheIncomingGradient:
    def test_neither_another_gradient_nor_the_seed_changes(self):
        x, z, seed = leaf([1.0, 2.0]), leaf([1.0, 2.0]), values([1.0, 1.0])
        w = z.exp()
        (DoubleInPlace.apply(x) + w).backward(seed)
        assert seed.tolist() == [1, 1]
        assert x.grad.tolist() == [2, 2]
        np.testing.assert_allclose(z.grad.numpy(), np.exp([1.0, 2.0]))

    def test_a_seed_of_its_own(self):
        x, seed = leaf([1.0, 2.0]), values([1.0, 1.0])
        DoubleInPlace.apply(x).backward(seed)
        assert (seed.tolist(), x.grad.tolist()) == ([1, 1], [2, 2])

    def test_a_retained_or_hooked_gradient(self):
        x, seen = leaf([3.0]), []
        y = DoubleInPlace.apply(x)
        y.retain_grad()
        y.register_hook(seen.append)
        (y * 5).sum().backward()
        assert (y.grad.tolist(), seen[0].tolist(), x.grad.tolist()) == ([5], [5], [10])

    def test_a_captured_gradient(self):
        x = leaf([3.0])
        y = DoubleInPlace.apply(x)
        gy, gx = grad((y * 5).sum(), [y, x])
        assert (gy.tolist(), gx.tolist()) == ([5], [10])

    def test_while_recorded(self):
        x, z = leaf([1.0, 2.0]), leaf([1.0, 3.0])
        seed = leaf([1.0, 1.0])
        gx, gz = grad(DoubleInPlace.apply(x) + z * z, [x, z], seed, create_graph=True)
        assert (gx.tolist(), gz.tolist(), seed.tolist()) == ([2, 2], [2, 6], [1, 1])
        (gs,) = grad(gx.sum() + gz.sum(), seed)
        assert gs.tolist() == [4, 8]

    def test_through_the_array(self):
        class Raw(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                grad.array[...] *= 2
                return grad

        x, z, seed = leaf([1.0]), leaf([1.0]), values([1.0])
        (Raw.apply(x) + z).backward(seed)
        assert (x.grad.tolist(), z.grad.tolist(), seed.tolist()) == ([2], [1], [1])

    def test_several_outputs(self):
        class Twice(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2, x * 3

            @staticmethod
            def backward(ctx, first, second):
                return first.mul_(2) + second.mul_(3)

        x, seed = leaf([1.0]), values([1.0])
        first, second = Twice.apply(x)
        plugrad.autograd.backward([first, second], [seed, seed])
        assert (x.grad.tolist(), seed.tolist()) == ([5], [1])

    def test_a_gradient_that_is_nobody_elses_is_not_copied(self):
        class Look(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, grad):
                seen.append(grad.array.ctypes.data)
                return grad

        seen = []
        x = leaf(np.ones(10))
        Look.apply(Look.apply(x)).backward(values(np.ones(10)))
        assert seen[0] == seen[1]


# ---- intermediates -------------------------------------------------------------------------------


def fourfold_square(keep, fetch):
    """y = (2x)², whose backward uses 2x."""

    class FourfoldSquare(Function):
        @staticmethod
        def forward(ctx, x):
            t = x * 2
            keep(ctx, t)
            return t * t

        @staticmethod
        def backward(ctx, grad):
            return 4 * fetch(ctx) * grad

    return FourfoldSquare


KEPT = {
    "attribute": (lambda ctx, t: setattr(ctx, "t", t), lambda ctx: ctx.t),
    "private attribute": (lambda ctx, t: setattr(ctx, "_t", t), lambda ctx: ctx._t),
    "in a list": (lambda ctx, t: setattr(ctx, "t", [1, t]), lambda ctx: ctx.t[1]),
    "in a dict": (lambda ctx, t: setattr(ctx, "t", {"t": (t,)}), lambda ctx: ctx.t["t"][0]),
    "saved": (lambda ctx, t: ctx.save_for_backward(t), lambda ctx: ctx.saved_tensors[0]),
}


@pytest.mark.parametrize("how", KEPT)
class TestIntermediates:
    def test_first_order_is_untouched(self, how):
        x = leaf([3.0])
        function = fourfold_square(*KEPT[how])
        function.apply(x).sum().backward()
        assert x.grad.tolist() == [24]
        assert gradcheck(function.apply, (x,))

    def test_second_order_is_refused_by_name(self, how):
        x = leaf([3.0])
        y = fourfold_square(*KEPT[how]).apply(x)
        (g,) = grad(y.sum(), x, create_graph=True)
        assert g.tolist() == [24]
        where = r"saved_tensors\[0\]" if how == "saved" else r"ctx\._?t"
        with pytest.raises(RuntimeError, match=rf"FourfoldSquare.*{where}.*mark_constant"):
            grad(g.sum() + (x * x).sum(), x)

    def test_a_second_backward_that_does_not_reach_it_works(self, how):
        x, seed = leaf([3.0]), leaf([1.0])
        y = fourfold_square(*KEPT[how]).apply(x)
        (g,) = grad(y, x, seed, create_graph=True)
        (gs,) = grad(g.sum(), seed)
        assert gs.tolist() == [24]

    def test_declared_constant(self, how):
        keep, fetch = KEPT[how]

        def keep_as_constant(ctx, t):
            keep(ctx, t)
            ctx.mark_constant(t)

        x = leaf([3.0])
        y = fourfold_square(keep_as_constant, fetch).apply(x)
        (g,) = grad(y.sum(), x, create_graph=True)
        (h,) = grad(g.sum() + (x * x).sum(), x)
        assert h.tolist() == [6]


def test_returned_as_an_output_it_is_differentiable():
    class WithFactor(Function):
        @staticmethod
        def forward(ctx, x):
            t = x * 2
            ctx.save_for_backward(t)
            return t * t, t

        @staticmethod
        def backward(ctx, grad, grad_t):
            (t,) = ctx.saved_tensors
            return 4 * t * grad + 2 * grad_t

    x = leaf([3.0, 1.0])
    assert gradgradcheck(lambda x: WithFactor.apply(x)[0], (x,))


def test_arguments_outputs_and_what_has_a_graph_may_be_attributes():
    outside = leaf([2.0])

    class Product(Function):
        @staticmethod
        def forward(ctx, x, factor):
            y = x * x * factor
            ctx.x, ctx.factor, ctx.y, ctx.outside = x, factor, y, outside
            ctx.mask = x > 0
            return y

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.y / ctx.x * grad * ctx.outside / 2, None

    x = leaf([3.0])
    (g,) = grad(Product.apply(x, values([5.0])).sum(), x, create_graph=True)
    assert g.tolist() == [30]
    assert grad(g.sum(), x, retain_graph=True)[0].tolist() == [10]
    assert grad(g.sum(), outside)[0].tolist() == [15]


def test_an_attribute_that_forward_did_not_set():
    class Forgot(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor

    with pytest.raises(AttributeError, match="ctx of Forgot has no attribute 'factor'"):
        Forgot.apply(leaf([1.0])).sum().backward()


# ---- arguments -----------------------------------------------------------------------------------


class Affine(Function):
    @staticmethod
    def forward(ctx, x, weight=None, shift=None, *, scale=1.0):
        ctx.scale = scale
        y = x * scale
        y = y if weight is None else y * weight
        ctx.save_for_backward(x, weight)
        return y if shift is None else y + shift

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        gx = grad * ctx.scale if weight is None else grad * ctx.scale * weight
        gw = grad * x * ctx.scale if weight is not None else None
        return gx, gw, grad if ctx.needs_input_grad[2:] == (True,) else None


class TestArguments:
    def test_tensors_by_name_get_their_gradients(self):
        x, w, s = leaf([2.0]), leaf([5.0]), leaf([1.0])
        Affine.apply(x, shift=s, weight=w, scale=3.0).sum().backward()
        assert [t.grad.tolist() for t in (x, w, s)] == [[15], [6], [1]]

    def test_defaults_fill_the_gap(self):
        x, s = leaf([2.0]), leaf([1.0])
        Affine.apply(shift=s, x=x).sum().backward()
        assert [t.grad.tolist() for t in (x, s)] == [[1], [1]]

    def test_what_is_missing_or_given_twice(self):
        with pytest.raises(TypeError, match="missing argument 'x'"):
            Affine.apply(weight=leaf([1.0]))
        with pytest.raises(TypeError, match="'x' twice"):
            Affine.apply(leaf([1.0]), x=leaf([1.0]))

    def test_a_keyword_only_tensor_that_requires_grad_is_refused(self):
        with pytest.raises(TypeError, match="keyword-only argument 'scale'"):
            Affine.apply(leaf([1.0]), scale=leaf([1.0]))
        with plugrad.no_grad():
            Affine.apply(leaf([1.0]), scale=leaf([1.0]))

    def test_a_tensor_that_requires_grad_inside_a_list_is_refused(self):
        with pytest.raises(TypeError, match="inside a list"):
            Affine.apply([leaf([1.0])])

    def test_keyword_only_arguments_reach_setup_context(self):
        class Power(Function):
            @staticmethod
            def forward(x, *, n):
                return x**n

            @staticmethod
            def setup_context(ctx, inputs, keyword_only_inputs, output):
                ctx.save_for_backward(*inputs)
                ctx.n = keyword_only_inputs["n"]

            @staticmethod
            def backward(ctx, grad):
                return grad * ctx.n * ctx.saved_tensors[0] ** (ctx.n - 1)

        x = leaf([2.0])
        Power.apply(x, n=3).sum().backward()
        assert x.grad.tolist() == [12]


def test_one_tensor_returned_twice():
    class Both(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            return y, y

        @staticmethod
        def backward(ctx, first, second):
            return 2 * first + 20 * second

    x = leaf([1.0])
    first, second = Both.apply(x)
    (first * 1 + second * 10).sum().backward()
    assert x.grad.tolist() == [202]
