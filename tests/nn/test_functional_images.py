"""Functions of images: each hands PyTorch's arguments, in PyTorch's order, to its operator."""

import numpy as np
import pytest

import plugrad
import plugrad.nn.functional as F
from plugrad import Tensor

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape)


X1, X2, X3 = normal(2, 4, 9), normal(2, 4, 7, 6), normal(1, 4, 5, 4, 5)

CALLS = [
    ("conv1d", (X1, normal(6, 2, 3), normal(6), 2, 1, 1, 2)),
    ("conv2d", (X2, normal(6, 4, 3, 2), normal(6), (2, 1), "valid", (1, 2))),
    ("conv3d", (X3, normal(2, 4, 3, 1, 3), None, 1, "same")),
    ("conv_transpose1d", (X1, normal(4, 3, 3), normal(6), 3, 1, 2, 2, 1)),
    ("conv_transpose2d", (X2, normal(4, 3, 3, 2), normal(3), (2, 1), 1, (1, 0))),
    ("conv_transpose3d", (X3, normal(4, 1, 2, 2, 2), None, 2, 0, 1, 1, 2)),
    ("unfold", (X2, (3, 2), 2, (0, 1), 1)),
    ("fold", (normal(2, 24, 20), (6, 5), 2, 1, 0, 1)),
    ("max_pool1d", (X1, 3, 2, 1, 1, True)),
    ("max_pool2d", (X2, (3, 2), None, 1, 2)),
    ("max_pool3d", (X3, 2, 1)),
    ("avg_pool1d", (X1, 3, 2, 1, True, False)),
    ("avg_pool2d", (X2, 3, 2, 1, False, True, 5)),
    ("avg_pool3d", (X3, 2, 1, 1, True, False)),
    ("adaptive_avg_pool1d", (X1, 4)),
    ("adaptive_avg_pool2d", (X2, (3, None))),
    ("adaptive_avg_pool3d", (X3, (3, 2, 4))),
    ("adaptive_max_pool1d", (X1, 4)),
    ("adaptive_max_pool2d", (X2, (3, None))),
    ("adaptive_max_pool3d", (X3, 2)),
    ("lp_pool2d", (np.abs(X2), 3.0, 2, 1)),
    ("interpolate", (X2, (5, 9), None, "bilinear", True)),
    ("interpolate", (X2, None, 1.7, "bicubic", False, True)),
    ("interpolate", (X3, None, (1.5, 2.0, 0.5), "trilinear")),
    ("interpolate", (X1, 5, None, "nearest-exact")),
    ("pixel_shuffle", (X2, 2)),
    ("pixel_unshuffle", (normal(2, 1, 4, 6), 2)),
    ("channel_shuffle", (X2, 2)),
    ("grid_sample", (X2, RNG.uniform(-1.4, 1.4, (2, 3, 2, 2)), "bilinear", "zeros", False)),
    ("grid_sample", (X3, RNG.uniform(-1.4, 1.4, (1, 2, 3, 1, 3)), "bilinear", "border", True)),
    ("affine_grid", (normal(2, 2, 3), (2, 1, 3, 4), False)),
    ("affine_grid", (normal(1, 3, 4), (1, 1, 3, 2, 4), True)),
]


@pytest.mark.parametrize(
    ("name", "args"), CALLS, ids=[f"{name}-{i}" for i, (name, _) in enumerate(CALLS)]
)
def test_values_and_gradients_are_pytorchs(name, args):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    def outcome(function, tensor, gradient):
        given = [tensor(v) if isinstance(v, np.ndarray) else v for v in args]
        out = function(*given)
        return out, gradient((out * out).sum(), [t for t in given if hasattr(t, "requires_grad")])

    wanted, wanted_grads = outcome(
        getattr(torch.nn.functional, name),
        lambda v: torch.from_numpy(v.copy()).requires_grad_(),
        torch.autograd.grad,
    )
    found, found_grads = outcome(
        getattr(F, name), lambda v: Tensor(v.copy(), requires_grad=True), plugrad.autograd.grad
    )
    np.testing.assert_allclose(found.array, wanted.detach().numpy(), rtol=1e-9, atol=1e-11)
    for mine, other in zip(found_grads, wanted_grads):
        np.testing.assert_allclose(mine.array, other.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["max_pool2d", "adaptive_max_pool2d"])
def test_indices_on_request(name):
    x = Tensor(X2.copy())
    values, indices = getattr(F, name)(x, 2, return_indices=True)
    np.testing.assert_array_equal(values.array, getattr(F, name)(x, 2).array)
    assert indices.shape == values.shape


def test_upsample_is_interpolate():
    x = Tensor(X1.copy())
    wanted = F.interpolate(x, scale_factor=2.0, mode="linear", align_corners=True)
    np.testing.assert_array_equal(F.upsample(x, None, 2.0, "linear", True).array, wanted.array)
