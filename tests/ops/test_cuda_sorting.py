"""Sorting, selecting, scattering and padding on the emulated device, against the CPU: sizes beyond a block, layouts."""

import numpy as np
import pytest

import plugrad

RNG = np.random.default_rng(5)
INDEX = RNG.integers(0, 40, (40, 40))


def both(function, *arrays):
    """The results of `function` on the CPU and on the device, and the gradients of the floating inputs."""
    found = []
    for device in ("cpu", "cuda"):
        given = [plugrad.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
        out = function(*(x.to(device) for x in given))
        outs = [out] if hasattr(out, "array") else list(out)
        live = [x for x in outs if x.requires_grad]
        leaves = [x for x in given if x.requires_grad]
        if live:
            total = sum((x * x).sum() for x in live)
            outs += plugrad.autograd.grad(total, leaves, allow_unused=True)
        found.append([x.detach().cpu().numpy() for x in outs if x is not None])
    for got, wanted in zip(*reversed(found), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, 1e-12, 1e-12)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sort(0),
        lambda x: x.sort(1, descending=True),
        lambda x: x.T.argsort(0),
        lambda x: x.topk(3, 0),
        lambda x: x.flip(1).topk(2, largest=False),
        lambda x: x.nonzero(),
        lambda x: x.T.nonzero(as_tuple=True),
        lambda x: x.masked_select(x > 0),
        lambda x: x[x > 0],
        lambda x: plugrad.unique(x, return_inverse=True, return_counts=True),
        lambda x: plugrad.unique(x[:, :2], dim=0, return_inverse=True, return_counts=True),
        lambda x: plugrad.unique_consecutive(x, return_counts=True),
        lambda x: plugrad.isin(x, x[0]),
        lambda x: plugrad.searchsorted(x[0].sort().values, x),
        lambda x: plugrad.searchsorted(x.sort().values, x.T, right=True),
        lambda x: x.roll((3, -7), (0, 1)),
        lambda x: x.T.tril(-2),
        lambda x: x.triu(3),
        lambda x: plugrad.pad(x, (3, 2, 0, 7), "reflect"),
        lambda x: plugrad.pad(x, (3, 2), "circular"),
        lambda x: plugrad.pad(x.flip(0), (30, 2, 1, 1), "replicate"),
        lambda x: plugrad.pad(x, (3, -2, 1, 1), value=2.0),
    ],
)
def test_one_tensor(cuda, function):
    both(function, np.round(RNG.standard_normal((40, 40)) * 10))
    both(function, RNG.standard_normal((40, 40)))


@pytest.mark.parametrize("fold", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce(cuda, fold, include_self):
    def function(x, index, src):
        return x.scatter_reduce(0, index, src, fold, include_self=include_self)

    x, src = np.round(RNG.standard_normal((2, 40, 40)))  # with zeros and ties
    both(function, x[:, :20], INDEX[:, :20], src)
    both(function, x.astype(np.int64), INDEX, src.astype(np.int64))


def test_scatter_and_slices(cuda):
    x, src = RNG.standard_normal((2, 40, 40))
    both(lambda x, index, src: x.scatter(1, index, src), x, INDEX, src)
    both(lambda x, index, src: x.T.scatter(0, index[:3], src), x, INDEX, src)
    both(lambda x, index, src: x.index_add(1, index[0], src), x, INDEX, src)
    both(lambda x, index, src: x.index_copy(0, index[0], src.T), x, INDEX, src)
    both(lambda x, mask, src: x.masked_scatter(mask, src), x, x > 0, src)


def test_long_rows(cuda):
    x = np.round(RNG.standard_normal(5000) * 100)
    both(lambda x: x.sort(), x)
    both(lambda x: plugrad.unique(x, return_inverse=True), x)
