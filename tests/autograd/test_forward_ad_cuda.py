"""Forward mode on a CUDA device: tangents stay there, and agree with backward."""

import numpy as np
import pytest

import plugrad
from plugrad.autograd import forward_ad

pytestmark = pytest.mark.usefixtures("cuda")


def tensor(values, device="cuda", **options):
    return plugrad.tensor(values, dtype=np.float64, device=device, **options)


def host(tensor):
    return tensor.detach().cpu().numpy()


def function(x, w):
    return (plugrad.tanh(x @ w) * x.exp()).sum(dim=0)


def draw():
    print("seed 0")
    rng = np.random.default_rng(0)
    return rng.standard_normal((2, 3)), rng.standard_normal((3, 3)), rng.standard_normal((2, 3))


def test_the_tangent_is_that_of_the_cpu():
    x, w, v = draw()
    found = []
    for device in ("cpu", "cuda"):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(tensor(x, device), tensor(v, device))
            primal, tangent = forward_ad.unpack_dual(function(dual, tensor(w, device)))
        assert primal.device == tangent.device == device
        found.append((host(primal), host(tangent)))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)


def test_tangents_of_gradients():
    x, _, v = draw()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(tensor(x, requires_grad=True), tensor(v))
        (slope,) = plugrad.autograd.grad((dual**3).sum(), dual)
        product = forward_ad.unpack_dual(slope).tangent
    np.testing.assert_allclose(host(product), 6 * x * v, rtol=1e-12)


def test_tangents_move_with_their_tensors():
    x, _, v = draw()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(tensor(x, "cpu"), tensor(v, "cpu"))
        tangent = forward_ad.unpack_dual((dual.to("cuda") * 2).cpu() * 2).tangent
    assert tangent.device == "cpu"
    np.testing.assert_allclose(tangent.numpy(), 4 * v)


def test_a_tangent_on_another_device_is_refused():
    x, _, v = draw()
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match=r"cuda.*cpu|cpu.*cuda"):
        forward_ad.make_dual(tensor(x), tensor(v, "cpu"))
