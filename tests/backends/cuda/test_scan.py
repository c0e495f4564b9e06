"""Scans against NumPy: running sums and products, recurrences, every layout and direction."""

import math

import numpy as np
import pytest

from plugrad.backends.cuda import layout, storage
from plugrad.backends.cuda.array import from_host, to_host, view_by
from plugrad.backends.cuda.scan import CUMPROD, CUMSUM, LINEAR_SCAN, Scan

pytestmark = pytest.mark.usefixtures("cuda")

CUMMAX = Scan(
    acc={"value": "same", "at": "i64"},
    identity={"value": "T(0)", "at": "-1"},
    map={"value": "x", "at": "index"},
    combine="b.at >= 0 && (a.at < 0 || leads_max(b.value, b.at, a.value, a.at)) ? b : a",
    finish={"values": "a.value", "indices": "a.at"},
    out_dtype={"indices": "int64"},
    name="cummax",
)


def recurrence(factor, term, axis):
    """The recurrence step by step, in float64."""
    out = np.moveaxis(term.astype("f8"), axis, 0).copy()
    factors = np.moveaxis(factor, axis, 0)
    for i in range(1, len(out)):
        out[i] += factors[i] * out[i - 1]
    return np.moveaxis(out, 0, axis)


SHAPES = [
    (1,), (31,), (33,), (64,), (65,), (257,), (1000,), (4097,), (9000,),
    (3, 5), (40, 133), (133, 40), (2, 300, 4), (1100, 70), (70, 1100), (0, 3), (3, 0),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["f4", "i2", "bool"])
def test_running_sums(rng, shape, dtype):
    x = rng.integers(0, 2 if dtype == "bool" else 3, size=shape).astype(dtype)
    a = from_host(x)
    for axis in range(-x.ndim, x.ndim):
        found = to_host(CUMSUM(a, axis))
        assert found.dtype == (x.dtype if dtype == "f4" else np.int64)
        np.testing.assert_array_equal(found, np.cumsum(x, axis=axis, dtype="i8"))
        found = to_host(CUMSUM(a, axis, reverse=True))
        wanted = np.flip(np.cumsum(np.flip(x, axis), axis=axis, dtype="i8"), axis)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "view",
    [
        np.transpose,
        lambda a: a[::-1, ::2],
        lambda a: np.broadcast_to(a[:1], (5, 90)),
        lambda a: a[1:, 1:],
    ],
)
@pytest.mark.parametrize("dtype", ["f2", "f4", "u8"])
def test_layouts(rng, view, dtype):
    x = rng.integers(0, 3, size=(7, 90)).astype(dtype)
    a, x = view_by(view, from_host(x)), view(x)
    for axis in (0, 1):
        np.testing.assert_array_equal(to_host(CUMSUM(a, axis)), np.cumsum(x, axis=axis, dtype="i8"))


def test_a_scalar():
    assert to_host(CUMSUM(from_host(np.float32(3)), 0)) == 3


@pytest.mark.parametrize("size", [5000, 20001])
def test_running_sums_are_accurate(rng, size):
    x = rng.random(size).astype("f4")
    found = to_host(CUMSUM(from_host(x), 0))
    for i in (0, 100, size // 2, size - 1):
        assert abs(found[i] - math.fsum(x[: i + 1])) <= 1e-6 * math.fsum(x[: i + 1])
    half = x[:3000].astype("f2")
    wanted = np.cumsum(half, dtype="f8")
    np.testing.assert_allclose(to_host(CUMSUM(from_host(half), 0)), wanted, rtol=np.finfo("f2").eps)


def test_running_products(rng):
    x = rng.choice([-1.0, 1.0, 2.0, 0.5], size=(6, 300))
    x[2, 100] = 0
    np.testing.assert_array_equal(to_host(CUMPROD(from_host(x), 1)), np.cumprod(x, axis=1))
    x = rng.integers(-3, 4, size=(6, 40))
    np.testing.assert_array_equal(to_host(CUMPROD(from_host(x), 1)), np.cumprod(x, axis=1))


@pytest.mark.parametrize("shape", [(5,), (300,), (9000,), (40, 133), (1100, 70)], ids=str)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_recurrence(rng, shape, dtype):
    factor, term = (
        (rng.normal(size=shape).astype(dtype) * 0.9).astype(dtype),
        rng.normal(size=shape).astype(dtype),
    )
    tolerance = {"f2": 5e-3, "f4": 1e-4, "f8": 1e-11}[dtype]
    for axis in range(term.ndim):
        found = to_host(LINEAR_SCAN((from_host(factor), from_host(term)), axis))
        assert found.dtype == term.dtype
        wanted = recurrence(factor.astype("f8"), term, axis)
        np.testing.assert_allclose(
            found, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max()
        )


@pytest.mark.parametrize("first", [np.inf, np.nan])
def test_the_first_factor_does_not_matter(first):
    factor = np.full(200, 0.5)
    factor[0] = first
    found = to_host(LINEAR_SCAN((from_host(factor), from_host(np.ones(200))), 0))
    np.testing.assert_allclose(found, recurrence(factor, np.ones(200), 0))


def test_products_of_factors_may_leave_the_range():
    term = np.zeros(500, "f4")
    term[490] = 1
    factor = np.full(500, 3, "f4")  # 3**500 is infinite
    found = to_host(LINEAR_SCAN((from_host(factor), from_host(term)), 0))
    np.testing.assert_array_equal(found, recurrence(factor, term, 0))


def test_several_results(rng):
    x = rng.integers(0, 9, size=(5, 3000)).astype("f4")
    x[1, 500] = np.nan
    values, indices = map(to_host, CUMMAX(from_host(x), 1))
    np.testing.assert_array_equal(values, np.maximum.accumulate(x, axis=1))
    wanted = [[x[r, : i + 1].argmax() for i in range(0, 3000, 7)] for r in range(5)]
    np.testing.assert_array_equal(indices[:, ::7], wanted)


def test_number_of_elements_so_far(rng):
    x = rng.normal(size=(3, 400))
    means = to_host(Scan(finish="a / n", name="running mean")(from_host(x), 1))
    np.testing.assert_allclose(means, np.cumsum(x, axis=1) / np.arange(1, 401))


def launches(shape, axis, strides=None):
    strides = layout.dense_strides(shape, 4) if strides is None else strides
    operand = storage.view(shape, np.dtype("f4"), strides, 2**20, None)
    plan = CUMSUM._make_plan((operand,), axis, False, None, ())
    return [(kernel.name, grid) for kernel, grid, _, _ in plan.launches]


def test_choice_of_kernels(cuda):
    assert launches((100, 50), 1) == [("columns", 1)]
    assert launches((100, 5000), 1) == [("lines", (100, 2)), ("starts", 1), ("lines", (100, 2))]
    assert launches((1000, 5000), 1) == [("lines", (1000, 1))]
    assert launches((5000, 2000), 0) == [("columns", 16)]
    assert launches((5000, 20), 0)[0][0] == "lines"


def test_offsets_of_64_bits(rng, monkeypatch):
    monkeypatch.setattr(layout, "LIMIT", 0)
    own = Scan(name="cumsum")
    x = rng.integers(0, 3, size=(3, 200, 5)).astype("f4")
    for axis in range(3):
        np.testing.assert_array_equal(to_host(own(from_host(x), axis)), np.cumsum(x, axis=axis))


def test_more_dimensions_than_a_kernel_takes(rng):
    x = rng.integers(0, 3, size=(2,) * 12).astype("f4")
    order = (11, 0, 9, 2, 7, 4, 5, 6, 3, 8, 1, 10)
    a = view_by(lambda a: a.transpose(order)[::-1, :, ::-1], from_host(x))
    x = x.transpose(order)[::-1, :, ::-1]
    np.testing.assert_array_equal(to_host(CUMSUM(a, 4)), np.cumsum(x, axis=4))


@pytest.mark.parametrize("shape", [(3, 5000), (300, 80), (2, 9), (20000,)], ids=str)
def test_the_same_bits_in_every_order_of_threads(rng, shape):
    a, b = (
        from_host(rng.normal(size=shape).astype("f4")),
        from_host(rng.normal(size=shape).astype("f4")),
    )
    emulator = pytest.importorskip("plugrad_emulator")
    emulator.in_every_order(
        lambda: (
            to_host(CUMSUM(a, -1)),
            to_host(LINEAR_SCAN((a, b), 0)),
            to_host(CUMSUM(b, 0, reverse=True)),
        )
    )


def test_refused(rng):
    a = from_host(np.zeros((3, 4), "f4"))
    with pytest.raises(ValueError, match="cumsum: axis 2 is out of range"):
        CUMSUM(a, 2)
    with pytest.raises(TypeError, match="linear_scan takes factor, term, got 1 arrays"):
        LINEAR_SCAN(a, 0)
    with pytest.raises(ValueError, match="known names: a, n"):
        Scan(finish="x")
