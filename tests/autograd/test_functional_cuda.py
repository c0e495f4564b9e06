"""Products, Jacobians and Hessians on a CUDA device: results lie there and are the CPU's."""

import numpy as np
import pytest

import plugrad
from plugrad.autograd import functional

pytestmark = pytest.mark.usefixtures("cuda")


def host(value):
    if isinstance(value, tuple):
        return [host(item) for item in value]
    return value.detach().cpu().numpy()


def function(x, y):
    return plugrad.sin(x) * y.sum(), (x * y).exp()


def scalar(x, y):
    return (plugrad.sin(x) * y * y).sum()


def both(call):
    """The result on the CPU and on the device."""
    print("seed 0")
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(3) for _ in range(4)]
    found = []
    for device in ("cpu", "cuda"):
        x, y, v, w = (plugrad.tensor(a, device=device) for a in arrays)
        result = call((x, y), (v, w))
        assert all(t.device == device for t in tensors(result))
        found.append(np.concatenate([host(t).ravel() for t in tensors(result)]))
    return found


def tensors(value):
    return (
        [value]
        if isinstance(value, plugrad.Tensor)
        else [t for item in value for t in tensors(item)]
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda xs, vs: functional.vjp(function, xs, vs),
        lambda xs, vs: functional.jvp(function, xs, vs),
        lambda xs, vs: functional.vhp(scalar, xs, vs),
        lambda xs, vs: functional.hvp(scalar, xs, vs),
        lambda xs, vs: functional.jacobian(function, xs),
        lambda xs, vs: functional.jacobian(function, xs, strategy="forward-mode"),
        lambda xs, vs: functional.hessian(scalar, xs),
        lambda xs, vs: functional.hessian(scalar, xs, outer_jacobian_strategy="forward-mode"),
        lambda xs, vs: functional.jacobian(lambda x, y: x * 1, xs),
    ],
    ids=[
        "vjp", "jvp", "vhp", "hvp", "jacobian", "jacobian-forward", "hessian", "hessian-forward", "independent",
    ],
)  # fmt: skip
def test_as_on_the_cpu(call):
    expected, found = both(call)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_batched_gradients():
    x = plugrad.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    seeds = plugrad.eye(2, device="cuda")
    (found,) = plugrad.autograd.grad(x * x, x, seeds, is_grads_batched=True)
    assert host(found).tolist() == [[2, 0], [0, 4]]


def test_a_gradient_that_nothing_asks_for_is_zeros_on_the_device():
    x, y = (plugrad.ones(2, device="cuda", requires_grad=True) for _ in range(2))
    found = plugrad.autograd.grad(x.sum(), (x, y), materialize_grads=True)
    assert [g.device for g in found] == ["cuda", "cuda"]
    assert host(found[1]).tolist() == [0, 0]
