"""Complex numbers on the emulated device: as on the CPU."""

import numpy as np
import pytest

import plugrad
from plugrad import tensor

RNG = np.random.default_rng(5)
Z = RNG.normal(size=(3, 4)) + 1j * RNG.normal(size=(3, 4))


@pytest.mark.parametrize(
    "function",
    [
        lambda z: z * z.conj() / (z + 2),
        lambda z: z.abs(),
        lambda z: z.exp() - z.sqrt(),
        lambda z: (z * 1j + (2 - 1j)) ** (0.5 + 1j),
        lambda z: z.real * z.imag,
        lambda z: z.sum(1) * z.mean(),
        lambda z: z.H @ z,
        lambda z: plugrad.view_as_real(z)[..., 1],
        lambda z: plugrad.polar(z.abs(), z.angle()),
        lambda z: z[:, [0, 2, 2]],
    ],
)
def test_values_and_gradients(cuda, function):
    results = []
    for device in ("cpu", "cuda"):
        z = tensor(Z, device=device, requires_grad=True)
        out = function(z)
        out.backward(out.detach().conj())
        results.append((out.detach().cpu().numpy(), z.grad.detach().cpu().numpy()))
    for found, wanted in zip(results[1], results[0]):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


def test_views_of_parts_share_memory(cuda):
    z = tensor(Z, device="cuda")
    z.imag.zero_()
    np.testing.assert_array_equal(z.cpu().numpy(), Z.real)
