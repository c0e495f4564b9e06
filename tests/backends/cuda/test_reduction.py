"""Reductions against NumPy in float64: axes, layouts, dtypes, accumulators of several fields, accuracy."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plugrad.backends.cuda import layout, reduction, storage
from plugrad.backends.cuda.array import from_host, to_host, view_by
from plugrad.backends.cuda.reduction import SUM, Reduction

pytestmark = pytest.mark.usefixtures("cuda")

MEAN = Reduction(finish="a / n", name="mean")
PROD = Reduction(combine="a * b", identity="1", name="prod")
MAX = Reduction(combine="nan_max(a, b)", identity="lowest<T>()", acc="same", name="max")
MIN = Reduction(combine="nan_min(a, b)", identity="highest<T>()", acc="same", name="min")
ANY = Reduction(map="x != 0", combine="a || b", acc="bool", out_dtype="bool", name="any")
ALL = Reduction(
    map="x != 0", combine="a && b", identity="true", acc="bool", out_dtype="bool", name="all"
)
NORM = Reduction(map="pow(abs(x), p)", finish="pow(a, 1 / p)", constants=("p",), name="norm")
DOT = Reduction(map="x * y", inputs=("x", "y"), name="dot")
ARGMAX, ARGMIN = (
    Reduction(
        acc={"value": "same", "at": "i64"},
        identity={"value": "T(0)", "at": "-1"},
        map={"value": "x", "at": "index"},
        combine=f"b.at >= 0 && (a.at < 0 || leads_{which}(b.value, b.at, a.value, a.at)) ? b : a",
        finish="a.at",
        out_dtype="int64",
        name=f"arg{which}",
    )
    for which in ("max", "min")
)
MOMENTS = Reduction(
    acc={"count": "same", "mean": "same", "square": "same"},
    identity={"count": "0", "mean": "0", "square": "0"},
    map={"count": "1", "mean": "x", "square": "0"},
    combine={
        "count": "a.count + b.count",
        "mean": "a.mean + (b.mean - a.mean) * (b.count / nan_max(a.count + b.count, 1))",
        "square": "a.square + b.square + square(b.mean - a.mean) * (a.count * b.count"
        " / nan_max(a.count + b.count, 1))",
    },
    finish={"var": "a.square / (n - correction)", "mean": "a.mean"},
    constants=("correction",),
    name="moments",
)
LOGSUMEXP = Reduction(
    acc={"top": "same", "sum": "same"},
    identity={"top": "-INF", "sum": "0"},
    map={"top": "x", "sum": "1"},
    combine={
        "top": "nan_max(a.top, b.top)",
        "sum": "(a.top >= b.top ? a.sum : a.sum * exp(a.top - b.top)) + "
        "(b.top >= a.top ? b.sum : b.sum * exp(b.top - a.top))",
    },
    finish="log(a.sum) + a.top",
    name="logsumexp",
)


# Chosen so that every way of sharing the work occurs: a thread, a warp, a block, several blocks per result.
SHAPES = [
    (), (1,), (5,), (31,), (32,), (33,), (255,), (257,), (1000,), (1025,), (4097,), (70000,),
    (3, 5), (5, 3), (40, 33), (257, 31), (2, 3000), (3000, 2), (300, 40), (5, 40, 37), (3, 1, 2, 40, 2),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f2", "i4"])
def test_sums_over_any_axes(rng, shape, dtype):
    x = rng.integers(0, 3, size=shape).astype(dtype)  # sums are exact
    a = from_host(x)
    choices = (
        [None, ()] + list(range(-len(shape), len(shape))) + ([(0, -1)] if len(shape) > 1 else [])
    )
    for axes in choices:
        for keepdim in (False, True):
            found = to_host(SUM(a, axes, keepdim, np.float32 if dtype == "f2" else None))
            wanted = np.sum(x, axis=axes, keepdims=keepdim, dtype="i8")
            assert found.shape == wanted.shape
            np.testing.assert_array_equal(found, wanted, err_msg=f"{axes} {keepdim}")


@pytest.mark.parametrize("dtype", ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_integers_are_summed_in_64_bits(rng, dtype):
    x = rng.integers(0, 2 if dtype == "bool" else 120, size=(40, 50)).astype(dtype)
    for axes in (0, 1, None):
        found = to_host(SUM(from_host(x), axes))
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, x.sum(axis=axes, dtype="i8"))
    product = to_host(PROD(from_host(x[:1, :3]), 1))
    np.testing.assert_array_equal(product, np.prod(x[:1, :3], axis=1, dtype="i8"))


@pytest.mark.parametrize("size", [1000, 4097, 100_000, 300_001])
def test_sums_are_as_accurate_as_numpys(rng, size):
    x = rng.random(size).astype("f4")
    exact = math.fsum(x)
    for array in (x.reshape(1, -1), x.reshape(-1, 1), np.repeat(x[:, None], 3, 1)):
        axis = int(array.shape[0] > 1)
        found = to_host(SUM(from_host(array), 1 - axis)).ravel()
        assert abs(found[0] - exact) <= 2e-6 * exact
    half = x.astype("f2")
    found = to_host(MEAN(from_host(half)))
    assert abs(found - math.fsum(half) / size) <= np.finfo("f2").eps
    double = rng.normal(size=size)
    assert abs(to_host(SUM(from_host(double))) - math.fsum(double)) <= 1e-10


def test_dtype_of_the_sum(rng):
    x = (rng.random(5000) * 9).astype("f4")
    a = from_host(x)
    assert abs(to_host(SUM(a, out_dtype="f8")) - math.fsum(x)) < 1e-9 * 5000
    np.testing.assert_array_equal(to_host(SUM(a, out_dtype="i4")), np.sum(x.astype("i8")))
    np.testing.assert_allclose(to_host(SUM(from_host(np.arange(9)), out_dtype="f4")), 36)
    assert SUM(from_host(np.arange(9)), out_dtype="f2").dtype == np.float16


VIEWS = {
    "plain": lambda a: a,
    "transposed": lambda a: a.T,
    "turned": lambda a: a.transpose(1, 2, 0),
    "reversed": lambda a: a[::-1, :, ::-1],
    "sliced": lambda a: a[1:, ::2, 3::2],
    "expanded": lambda a: np.broadcast_to(a[:, :1], (6, 40, 70)),
    "offset": lambda a: a[:, :, 1:],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("dtype", ["f4", "f2", "u1"])
def test_layouts(rng, view, dtype):
    x = rng.integers(0, 4, size=(6, 40, 70)).astype(dtype)
    a, x = view_by(view, from_host(x)), view(x)
    for axes in (0, 1, 2, (0, 1), (0, 2), (1, 2), None):
        found = to_host(SUM(a, axes, out_dtype="f4"))
        np.testing.assert_array_equal(found, x.sum(axis=axes, dtype="f8"))
        np.testing.assert_array_equal(to_host(MAX(a, axes)), x.max(axis=axes))
        if not isinstance(axes, tuple):
            np.testing.assert_array_equal(to_host(ARGMAX(a, axes)), x.argmax(axis=axes))
            np.testing.assert_array_equal(to_host(ARGMIN(a, axes)), x.argmin(axis=axes))


@st.composite
def views(draw):
    ndim = draw(st.integers(1, 5))
    base = draw(st.lists(st.integers(1, 7), min_size=ndim, max_size=ndim))
    order = draw(st.permutations(range(ndim)))
    steps = draw(st.lists(st.sampled_from([1, 1, 2, -1]), min_size=ndim, max_size=ndim))
    axes = draw(st.sets(st.integers(0, ndim - 1)))

    def view(a):
        return a.transpose(order)[tuple(slice(None, None, step) for step in steps)]

    return base, view, tuple(sorted(axes))


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(given_view=views(), keepdim=st.booleans())
def test_any_strides_and_axes(cuda, given_view, keepdim):
    base, view, axes = given_view
    x = (np.arange(np.prod(base)) % 13).reshape(base).astype("f4")
    found = to_host(SUM(view_by(view, from_host(x)), axes, keepdim))
    np.testing.assert_array_equal(found, view(x).sum(axis=axes, keepdims=keepdim))


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("dtype", ["f4", "f2", "f8"])
def test_floating_reductions(rng, axis, dtype):
    x = rng.normal(size=(300, 700)).astype(dtype)
    a, x = from_host(x), x.astype("f8")
    tolerance = {"f2": 2e-3, "f4": 2e-5, "f8": 1e-11}[dtype]

    def close(found, wanted):
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_allclose(to_host(found), wanted, rtol=tolerance, atol=tolerance)

    close(MEAN(a, axis), x.mean(axis=axis))
    close(LOGSUMEXP(a, axis), np.log(np.exp(x).sum(axis=axis)))
    close(NORM(a, axis, p=3), (np.abs(x) ** 3).sum(axis=axis) ** (1 / 3))
    close(NORM(a, axis, p=1.5), (np.abs(x) ** 1.5).sum(axis=axis) ** (1 / 1.5))
    variance, mean = MOMENTS(a, axis, correction=1)
    close(variance, x.var(axis=axis, ddof=1))
    close(mean, x.mean(axis=axis))


def test_variance_around_a_large_mean(rng):
    x = (rng.normal(size=(4, 20000)) + 1000).astype("f4")
    variance, _ = MOMENTS(from_host(x), 1, correction=0)
    np.testing.assert_allclose(to_host(variance), x.astype("f8").var(axis=1), rtol=1e-4)


def test_logsumexp_of_infinities():
    x = np.array([[-np.inf] * 40, [*[-np.inf] * 39, 800.0], [*[1.0] * 39, np.inf]], "f4")
    x = np.concatenate([x, np.where(np.arange(40) == 7, np.nan, 1)[None].astype("f4")])
    np.testing.assert_array_equal(
        to_host(LOGSUMEXP(from_host(x), 1)), [-np.inf, 800, np.inf, np.nan]
    )


@pytest.mark.parametrize("dtype", ["bool", "i1", "u8", "i8", "f2", "f4", "f8"])
def test_extremes_and_their_places(rng, dtype):
    x = rng.integers(0, 2 if dtype == "bool" else 6, size=(9, 333)).astype(dtype)
    if dtype in ("u8", "i8"):
        x[0, 5] = np.iinfo(dtype).max
    a = from_host(x)
    for axis in (0, 1, None):
        np.testing.assert_array_equal(to_host(MAX(a, axis)), x.max(axis=axis))
        np.testing.assert_array_equal(to_host(MIN(a, axis)), x.min(axis=axis))
        np.testing.assert_array_equal(to_host(ARGMAX(a, axis)), x.argmax(axis=axis))
        np.testing.assert_array_equal(to_host(ARGMIN(a, axis)), x.argmin(axis=axis))
        np.testing.assert_array_equal(to_host(ANY(a, axis)), x.any(axis=axis))
        np.testing.assert_array_equal(to_host(ALL(a, axis)), x.all(axis=axis))
    assert MAX(a).dtype == x.dtype
    assert ANY(a).dtype == bool


def test_nan_wins_and_the_first_of_it(rng):
    x = rng.normal(size=(50, 600)).astype("f4")
    x[rng.random(x.shape) < 0.003] = np.nan
    x[7, :] = -np.inf
    a = from_host(x)
    for axis in (0, 1):
        np.testing.assert_array_equal(to_host(MAX(a, axis)), x.max(axis=axis))
        np.testing.assert_array_equal(to_host(MIN(a, axis)), x.min(axis=axis))
        np.testing.assert_array_equal(to_host(ARGMAX(a, axis)), x.argmax(axis=axis))
        np.testing.assert_array_equal(to_host(ARGMIN(a, axis)), x.argmin(axis=axis))
    np.testing.assert_array_equal(to_host(ANY(a, 1)), x.any(axis=1))


def test_several_operands_broadcast(rng):
    x, y = rng.integers(0, 5, size=(20, 30)).astype("f4"), rng.integers(0, 5, size=30).astype("f4")
    a, b = from_host(x), from_host(y)
    np.testing.assert_array_equal(to_host(DOT((a, b), 1)), x @ y)
    np.testing.assert_array_equal(to_host(DOT((a, b), 0)), (x * y).sum(axis=0))
    np.testing.assert_array_equal(to_host(DOT((a, a))), (x * x).sum())
    mask = rng.random((20, 30)) < 0.5
    counted = Reduction(map="mask ? x : T(0)", inputs=("x", "mask"), name="masked")
    np.testing.assert_array_equal(to_host(counted((a, from_host(mask)), 1)), (x * mask).sum(axis=1))


def test_complex_sums(rng):
    x = (rng.normal(size=(30, 40)) + 1j * rng.normal(size=(30, 40))).astype("c8")
    np.testing.assert_allclose(to_host(SUM(from_host(x), 1)), x.sum(axis=1), rtol=1e-4)
    np.testing.assert_allclose(to_host(SUM(from_host(x), 0)), x.sum(axis=0), rtol=1e-4)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_nothing_to_reduce(shape):
    x = np.zeros(shape, "f4")
    a = from_host(x)
    for axes in (None, 0, -1):
        np.testing.assert_array_equal(to_host(SUM(a, axes)), x.sum(axis=axes))
        np.testing.assert_array_equal(to_host(PROD(a, axes)), x.prod(axis=axes))
        np.testing.assert_array_equal(to_host(ALL(a, axes)), x.all(axis=axes))
    assert np.isnan(to_host(MEAN(a)))


# ---- how the work is shared ----------------------------------------------------------------------


def shared(shape, axes, dtype="f4", strides=None):
    """The kernel and the number of blocks per result that a layout gets."""
    strides = layout.dense_strides(shape, np.dtype(dtype).itemsize) if strides is None else strides
    plan = SUM._make_plan(
        (storage.view(shape, np.dtype(dtype), strides, 2**20, None),), axes, False, None, ()
    )
    return plan.kernel.name, plan.grid[1], plan.block


def test_choice_of_kernels(cuda):
    assert shared((1000, 8), 1) == ("columns", 1, (128, 1))
    assert shared((1000, 100), 1) == ("rows_packed", 1, (32, 4))
    assert shared((1000, 10000), 1) == ("rows_packed", 2, (256, 1))
    assert shared((10000, 10000), 1) == ("rows_packed", 1, (256, 1))
    assert shared((10**8,), None) == ("rows_packed", 1024, (256, 1))
    assert shared((1000, 1000), 0)[0] == "columns"
    assert shared((100, 10**6), 0) == ("columns", 1, (32, 8))
    assert shared((10**6, 4), 0)[1] > 500
    assert shared((1000, 1000), 1, strides=(4, 4000)) == shared((1000, 1000), 0)
    assert shared((1000, 1000), 1, strides=(8000, 8)) == ("rows", 1, (32, 4))


def offsets(shape, axes):
    operand = storage.view(shape, np.dtype("f4"), layout.dense_strides(shape, 4), 2**20, None)
    return len(SUM._make_plan((operand,), axes, False, None, ()).more[2])


def test_choice_of_64_bits(cuda):
    assert offsets((2**14, 2**14), 1) < offsets((2**15, 2**14), 1)
    # Neither the results' loops nor an element's leave 32 bits, but their sum does.
    assert offsets((2**14, 2**15), 0) == offsets((2**15, 2**14), 1)


def test_offsets_of_64_bits(rng, monkeypatch):
    monkeypatch.setattr(layout, "LIMIT", 0)
    own = Reduction(name="sum")
    x = rng.integers(0, 5, size=(7, 40, 300)).astype("f4")
    for axes in (0, 1, 2, (0, 2), None):
        np.testing.assert_array_equal(to_host(own(from_host(x), axes)), x.sum(axis=axes))


def test_more_dimensions_than_a_kernel_takes(rng):
    shape = (2, 3) * 9
    x = rng.integers(0, 2, size=shape).astype("i1")[..., :1, :1]
    a = view_by(
        lambda a: a[..., :1, :1], from_host(np.ascontiguousarray(np.broadcast_to(x, shape)))
    )
    axes = tuple(range(0, 18, 2))
    np.testing.assert_array_equal(to_host(SUM(a, axes)), x.sum(axis=axes, dtype="i8"))
    np.testing.assert_array_equal(
        to_host(SUM(a, axes, True)), x.sum(axis=axes, keepdims=True, dtype="i8")
    )
    np.testing.assert_array_equal(to_host(MAX(a, axes)), x.max(axis=axes))


@pytest.mark.parametrize("shape", [(3, 5000), (5000, 3), (2, 40000), (33, 40), (70, 9)], ids=str)
def test_the_same_bits_in_every_order_of_threads(rng, shape):
    a = from_host(rng.normal(size=shape).astype("f4"))
    for axes in (0, 1, None):
        emulator = pytest.importorskip("plugrad_emulator")
        emulator.in_every_order(
            lambda axes=axes: (
                to_host(SUM(a, axes)),
                *map(to_host, MOMENTS(a, axes, correction=1)),
                to_host(ARGMAX(a, axes)),
            )
        )


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"map": "y"}, "'y', which is unknown"),
        ({"combine": "a + c"}, "'c', which is unknown; known names: a, b"),
        ({"finish": "a / b"}, "known names: a, n"),
        ({"identity": "x"}, "unknown"),
        ({"acc": "floatt"}, "acc is one of"),
        ({"acc": {"u": "same"}, "map": "x"}, "map must have an expression for each field"),
        ({"inputs": ()}, "no input"),
        ({"inputs": ("a",)}, "taken"),
    ],
)
def test_declarations_refused(arguments, words):
    with pytest.raises(ValueError, match=f"my::op: .*{words}"):
        Reduction(**arguments, name="my::op")


def test_calls_refused(rng):
    a = from_host(np.zeros((3, 4), "f4"))
    for call, error, words in (
        (lambda: SUM(a, 2), ValueError, "axis 2 is out of range for 2 dimensions"),
        (lambda: SUM(a, (0, -2)), ValueError, "twice"),
        (lambda: SUM((a, a)), TypeError, "takes x, got 2 arrays"),
        (lambda: SUM(a, p=2), TypeError, "no constant 'p'"),
        (lambda: NORM(a), TypeError, "'p' is missing"),
        (lambda: NORM(a, p="2"), TypeError, "must be a number"),
        (lambda: NORM(a, p=2**70), OverflowError, "64 bits"),
        (lambda: DOT((a, from_host(np.zeros(3, "f4")))), ValueError, "broadcast"),
    ):
        with pytest.raises(error, match=words):
            call()


def test_little_work_stays_in_one_block():
    assert reduction.share_work(1, 1000, ([1], [[0, 0]]), ([1000], [[4]]), [4]).splits == 1
