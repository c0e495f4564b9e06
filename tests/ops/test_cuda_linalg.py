"""The tiled and the vector kernels of products on the emulated device, against NumPy in float64."""

import itertools

import numpy as np
import pytest

from plugrad_ops.linalg.ops import product

ERROR = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}

LAYOUTS = {
    "plain": lambda x: x,
    "transposed": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) if x.ndim > 1 else x,
    "reversed": lambda x: x[(slice(None, None, -1),) * x.ndim].copy()[(slice(None, None, -1),) * x.ndim],
    "stride 0": lambda x: np.broadcast_to(x[..., :1, :], x.shape) if x.ndim > 1 else x,
    "sliced": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
}  # fmt: skip

SHAPES = [
    ((63, 17), (17, 65)),
    ((64, 16), (16, 64)),
    ((65, 33), (33, 31)),
    ((33, 600), (600, 34)),
    ((3, 40, 20), (3, 20, 50)),
    ((2, 2, 40, 20), (2, 1, 20, 3)),
    ((5, 4, 6), (6, 7)),
    ((4, 6), (5, 6, 7)),
    ((1, 700), (700, 5)),
    ((5, 700), (700, 1)),
    ((700,), (700,)),
    ((70, 3), (3,)),
    ((2, 40, 9), (9,)),
    ((9,), (2, 9, 40)),
]


@pytest.fixture
def linalg(cuda, monkeypatch):
    from plugrad_ops.linalg import cuda as kernels

    monkeypatch.setattr(kernels, "blas", lambda: None)
    kernels._planned.cache_clear()  # a test may replace what plans are made with
    yield kernels
    kernels._planned.cache_clear()


def random(shape, dtype, seed=0):
    rng = np.random.default_rng([seed, *shape])
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(-3, 4, shape).astype(dtype)


def assert_product(got, a, b):
    wanted = np.matmul(a.astype(np.float64), b.astype(np.float64))
    error = ERROR[a.dtype.name]
    assert (got.dtype, got.shape) == (a.dtype, wanted.shape)
    np.testing.assert_allclose(got, wanted, rtol=error, atol=2 * error * np.sqrt(a.shape[-1]))


@pytest.mark.parametrize("dtype", ERROR)
@pytest.mark.parametrize("shapes", SHAPES)
def test_floats(linalg, device, shapes, dtype):
    layouts = itertools.product(LAYOUTS.values(), ["plain", "transposed"])
    for one, other in layouts if dtype == "float32" else [(LAYOUTS["plain"], "plain")]:
        a, b = one(random(shapes[0], dtype)), LAYOUTS[other](random(shapes[1], dtype, 1))
        assert_product(device.run(linalg.matmul, a, b), a, b)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "uint64"])
@pytest.mark.parametrize("shapes", [((5, 7), (7, 3)), ((40, 33), (33, 70)), ((7,), (7,)), ((3, 7), (7,))])  # fmt: skip
def test_integers_wrap_as_numpys_do(linalg, device, shapes, dtype):
    a, b = (random(shape, dtype, i) for i, shape in enumerate(shapes))
    got, wanted = device.run(linalg.matmul, a, b), product(a, b)
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("tile", [(128, 8), (64, 4), (32, 2)])
@pytest.mark.parametrize("shape", [(130, 40, 140), (128, 8, 128), (5, 3, 4), (40, 2000, 33)])
def test_every_size_of_tile(linalg, device, monkeypatch, tile, shape):
    monkeypatch.setattr(linalg, "_tile", lambda product, dtype: tile)
    m, k, n = shape
    a, b = random((m, k), "float32"), random((k, n), "float32", 1)
    assert_product(device.run(linalg.matmul, a, b), a, b)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shapes", [((70, 300), 40), ((3,), 5), ((2, 3, 7), 9), ((2, 1000), 3), ((4, 1000), 1), ((4, 0), 3), ((0, 3), 2)])  # fmt: skip
def test_linear(linalg, device, shapes, bias):
    shape, out = shapes
    x, weight = random(shape, "float64"), random((out, shape[-1]), "float64", 1)
    added = [random((2 * out,), "float64", 2)[::2]] if bias else []
    got = device.run(linalg.linear, x, weight, *added)
    np.testing.assert_allclose(
        got, x @ weight.T + (added[0] if bias else 0), rtol=1e-12, atol=1e-12
    )


def test_the_same_product_gives_the_same_bits(linalg, device):
    a, b = (device.up(random(shape, "float32")) for shape in ((8, 5000), (5000, 8)))
    first = device.down(linalg.matmul(a, b))
    np.testing.assert_array_equal(device.down(linalg.matmul(a, b)), first)


def test_leading_dimensions_become_rows(linalg, device):
    a, b = device.up(random((4, 5, 6), "float32")), device.up(random((6, 7), "float32"))
    described = linalg._described("matmul", a, b)
    assert (described.m, described.stack) == (20, ())


def test_dtypes_must_agree(linalg, device):
    with pytest.raises(TypeError, match="one dtype.*float32.*float64"):
        device.run(linalg.matmul, np.ones((2, 2), np.float32), np.ones((2, 2)))
