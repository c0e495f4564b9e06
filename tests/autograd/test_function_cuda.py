"""Functions on a CUDA device: what forward saves, gradients of any order, tangents, and arguments of two devices."""

import numpy as np
import pytest

import plugrad
from plugrad.autograd import Function, forward_ad, once_differentiable

pytestmark = pytest.mark.usefixtures("cuda")


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad


class Both(Function):
    """Two outputs, of which one may stay unused."""

    @staticmethod
    def forward(ctx, x):
        out = x.exp()
        ctx.save_for_backward(out)
        return out, -x

    @staticmethod
    def backward(ctx, grad_exp, grad_minus):
        (out,) = ctx.saved_tensors
        assert (grad_minus.device, grad_minus.shape) == (out.device, out.shape)
        return grad_exp * out - grad_minus


def leaf(values=(1.0, 2.0, -0.5), device="cuda"):
    return plugrad.tensor(values, dtype=np.float64, device=device, requires_grad=True)


def host(tensor):
    return tensor.detach().cpu().numpy()


def test_gradients_of_first_and_second_order():
    x = leaf()
    (slope,) = plugrad.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
    slope.sum().backward()
    assert slope.device == x.grad.device == "cuda"
    np.testing.assert_allclose(host(slope), 3 * host(x) ** 2)
    np.testing.assert_allclose(host(x.grad), 6 * host(x))


def test_a_missing_gradient_is_zeros_on_the_device():
    x = leaf()
    _ = x - x  # a private backward alone calls it here, where nothing can be verified any more
    Both.apply(x)[0].sum().backward()
    np.testing.assert_allclose(host(x.grad), np.exp(host(x)))


def test_a_saved_tensor_that_changed_is_found():
    x = leaf() * 1
    y = Cube.apply(x)
    with plugrad.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="Cube saved for backward was changed"):
        y.sum().backward()


def test_once_differentiable():
    class Once(Cube):
        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 3 * x * x * grad

    x = leaf()
    (slope,) = plugrad.autograd.grad(Once.apply(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


def test_a_dirty_argument():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            with plugrad.no_grad():
                x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

    x = leaf()
    y = x * 1
    Double.apply(y)
    (y * y).sum().backward()
    np.testing.assert_allclose(host(x.grad), 8 * host(x))


def test_tangents_follow_from_backward():
    x, v = leaf(), plugrad.ones(3, dtype=np.float64, device="cuda")
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(Cube.apply(forward_ad.make_dual(x, v))).tangent
    assert tangent.device == "cuda"
    np.testing.assert_allclose(host(tangent), 3 * host(x) ** 2)


def test_a_function_may_move_between_devices():
    class OnHost(Function):
        """The cube, computed by NumPy."""

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return plugrad.from_numpy(x.cpu().numpy() ** 3).to(x.device)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return plugrad.from_numpy(3 * host(x) ** 2 * host(grad)).to(x.device)

    x = leaf()
    OnHost.apply(x).sum().backward()
    assert x.grad.device == "cuda"
    np.testing.assert_allclose(host(x.grad), 3 * host(x) ** 2)


def test_a_gradient_of_another_device_is_refused():
    class Lost(Cube):
        @staticmethod
        def backward(ctx, grad):
            return (3 * grad).cpu()

    with pytest.raises(RuntimeError, match=r"cpu.*cuda|cuda.*cpu"):
        Lost.apply(leaf()).sum().backward()
