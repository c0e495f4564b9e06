"""Elementwise kernels against NumPy: dtypes, numbers, layouts, results in place, and what is refused."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plugrad.backends.cuda import layout, storage
from plugrad.backends.cuda.array import from_host, to_host, view_by
from plugrad.backends.cuda.elementwise import COPY, FILL, Elementwise
from plugrad.backends.cuda.errors import CompileError

pytestmark = pytest.mark.usefixtures("cuda")

INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
FLOATS = ["f2", "f4", "f8"]
SIZES = [1, 31, 32, 33, 255, 256, 257, 1000, 4097]

AXPY = Elementwise("alpha * x + y", inputs=("x", "y"), constants=("alpha",), name="axpy")
ADD = Elementwise("x + y", inputs=("x", "y"), name="add")


def numbers(rng, shape, dtype):
    """Small numbers, so that sums are exact in every dtype."""
    return rng.integers(0, 50, size=shape).astype(dtype)


# ---- dtypes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_sizes(rng, size, dtype):
    x, y = numbers(rng, size, dtype), numbers(rng, size, dtype)
    found = to_host(AXPY(from_host(x), from_host(y), alpha=2.0))
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, 2 * x + y)


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, *FLOATS])
def test_dtypes(rng, dtype):
    x, y = numbers(rng, 70, dtype), numbers(rng, 70, dtype)
    a, b = from_host(x), from_host(y)
    found = to_host(ADD(a, b))
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, x + y)
    less = to_host(Elementwise("x < y", inputs=("x", "y"), out_dtype="bool")(a, b))
    assert less.dtype == bool
    np.testing.assert_array_equal(less, x < y)


@pytest.mark.parametrize("target", ["bool", *INTEGERS, *FLOATS])
def test_casts(rng, target):
    for source in ["bool", "i1", "u8", "f2", "f8"]:
        x = numbers(rng, 40, source)
        found = to_host(COPY(from_host(x), dtype=target))
        assert found.dtype == np.dtype(target)
        np.testing.assert_array_equal(found, x.astype(target))


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_numbers(rng, dtype):
    x = (rng.normal(size=(5, 6)) + 1j * rng.normal(size=(5, 6))).astype(dtype)
    y = x[::-1].copy()
    a, b = from_host(x), from_host(y)
    np.testing.assert_array_equal(to_host(COPY(view_by(lambda a: a.T[::-1], a))), x.T[::-1])
    found = Elementwise("-x * conj(y) + 2.0 * x - y", inputs=("x", "y"))(a, b)
    np.testing.assert_allclose(to_host(found), -x * y.conj() + 2 * x - y, rtol=1e-5)


def test_integers_of_several_types_meet_as_in_numpy(rng):
    x, y = rng.integers(-9, 9, 50).astype("i4"), rng.integers(0, 9, 50).astype("u4")
    a, b = from_host(x), from_host(y)
    np.testing.assert_array_equal(to_host(ADD(a, b)), x.astype("i8") + y)
    less = Elementwise("x < y", inputs=("x", "y"), out_dtype="bool")
    np.testing.assert_array_equal(to_host(less(a, b)), x.astype("i8") < y)


def test_masks_and_indices_keep_their_types(rng):
    mask, at = rng.random(60) < 0.5, rng.integers(0, 3, 60)
    x = rng.normal(size=60).astype("f4")
    kernel = Elementwise("mask ? x : T(at == 1)", inputs=("mask", "at", "x"))
    found = to_host(kernel(from_host(mask), from_host(at), from_host(x)))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.where(mask, x, (at == 1).astype("f4")))


def test_floating_numbers_are_of_the_computed_type(rng):
    x = rng.normal(size=100).astype("f4")
    found = to_host(Elementwise("x * 0.1 + 1e-3f")(from_host(x)))
    np.testing.assert_array_equal(found, x * np.float32(0.1) + np.float32(1e-3))
    x = x.astype("f8")
    found = to_host(Elementwise("x * 0.1 + 1e-3f")(from_host(x)))
    np.testing.assert_array_equal(found, x * 0.1 + 1e-3)


def test_quotients_are_never_rounded_down():
    x = from_host(np.arange(6, dtype="f4"))
    kernel = Elementwise("(1 / n) * x + 1 / 2", constants=("n",))
    np.testing.assert_allclose(to_host(kernel(x, n=4)), np.arange(6) / 4 + 0.5)
    whole = from_host(np.arange(6))
    halves = Elementwise("x / 4", out_dtype="f4")(whole)
    np.testing.assert_allclose(to_host(halves), np.arange(6) / 4)


# ---- numbers in place of arrays, constants -------------------------------------------------------


def test_numbers_in_place_of_arrays(rng):
    x = rng.normal(size=(3, 4)).astype("f4")
    a = from_host(x)
    for number in (2, -0.5, True, np.float32(1.5), np.int64(3)):
        np.testing.assert_array_equal(to_host(ADD(a, number)), x + np.float32(number))
        np.testing.assert_array_equal(to_host(ADD(number, a)), x + np.float32(number))
    assert len(ADD._modules) < 30


def test_values_of_numbers_compile_nothing_new(rng):
    kernel = Elementwise("x * s", constants=("s",))
    a = from_host(rng.normal(size=5).astype("f4"))
    for s in (0.5, 1.5, 2.5):
        kernel(a, s=s)
    assert len(kernel._modules) == 1
    kernel(a, s=2)
    assert len(kernel._modules) == 2


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_numbers_are_weak(rng, dtype):
    x = numbers(rng, 20, dtype)
    a, info = from_host(x), np.iinfo(dtype)
    found = to_host(ADD(a, 3))
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, x + 3)
    np.testing.assert_array_equal(to_host(ADD(a, int(info.max))), x + info.max)
    for beyond in (int(info.max) + 1, int(info.min) - 1):
        with pytest.raises(OverflowError, match="add: the number"):
            ADD(a, beyond)
    if dtype != "u8":
        equal = Elementwise("x == y", inputs=("x", "y"), out_dtype="bool")
        assert not to_host(equal(a, -1000 if info.min == 0 else 10**10)).any()


def test_bools_next_to_integers_become_int64():
    x = from_host(np.array([True, False]))
    found = to_host(ADD(x, 2))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, [3, 2])


def test_numbers_alone(cuda):
    assert to_host(ADD(2, 3)) == 5
    assert to_host(ADD(2, 0.5)) == 2.5
    assert ADD(2, 0.5).dtype == np.float32
    assert ADD(2, 3, dtype="f8").dtype == np.float64


def test_fill_and_index(cuda):
    np.testing.assert_array_equal(
        to_host(FILL(shape=(2, 3), dtype="f2", value=0.1)), np.full((2, 3), 0.1, "f2")
    )
    np.testing.assert_array_equal(to_host(FILL(shape=(), dtype="u1", value=7)), np.uint8(7))
    count = Elementwise("index", inputs=(), out_dtype="i8")
    np.testing.assert_array_equal(to_host(count(shape=(30, 40))), np.arange(1200).reshape(30, 40))
    x = np.arange(12.0).reshape(3, 4)
    plus = Elementwise("x + index")
    turned = view_by(np.transpose, from_host(x))
    np.testing.assert_array_equal(to_host(plus(turned)), x.T + np.arange(12).reshape(4, 3))


def test_constants_by_kind(cuda):
    kernel = Elementwise("flag ? x * n : x * s", constants=("n", "s", "flag"))
    x = from_host(np.arange(4, dtype="f8"))
    np.testing.assert_array_equal(to_host(kernel(x, n=3, s=0.5, flag=True)), np.arange(4) * 3)
    np.testing.assert_array_equal(to_host(kernel(x, n=3, s=0.5, flag=False)), np.arange(4) / 2)


# ---- layouts -------------------------------------------------------------------------------------

VIEWS = {
    "plain": lambda a: a,
    "transposed": lambda a: a.T,
    "reversed": lambda a: a[::-1, ::-1],
    "sliced": lambda a: a[1:, 2::3],
    "row": lambda a: a[:1],
    "column": lambda a: a[:, 5:6],
    "expanded": lambda a: np.broadcast_to(a[3], (4, *a[3].shape)),
    "offset": lambda a: a.ravel()[1:],
    "empty": lambda a: a[:0],
    "corner": lambda a: a[2, 3],
    "folded": lambda a: a.reshape(4, 6, 4, 4)[:, ::2, :, 1].transpose(2, 0, 1),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("dtype", ["f4", "f2", "i8"])
def test_layouts(rng, view, dtype):
    x, y = numbers(rng, (24, 16), dtype), numbers(rng, (24, 16), dtype)
    a, b = view_by(view, from_host(x)), view_by(view, from_host(y))
    x, y = view(x), view(y)
    np.testing.assert_array_equal(to_host(ADD(a, b)), x + y)
    contiguous = from_host(np.ascontiguousarray(y))
    np.testing.assert_array_equal(to_host(ADD(a, contiguous)), x + y)
    np.testing.assert_array_equal(to_host(ADD(a, 3)), x + 3)
    np.testing.assert_array_equal(to_host(COPY(a)), x)


@pytest.mark.parametrize(
    "shapes",
    [
        ((4, 1), (1, 5)),
        ((256, 8), (8,)),
        ((256, 8), (256, 1)),
        ((7, 3), ()),
        ((2, 1, 4), (3, 1)),
        ((0, 3), (1, 3)),
        ((1,), (1, 1, 1)),
        ((5, 1, 12), (1, 6, 12)),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["f4", "f2", "bool"])
def test_broadcasting(rng, shapes, dtype):
    x, y = (numbers(rng, shape, dtype) for shape in shapes)
    found = to_host(ADD(from_host(x), from_host(y)))
    assert found.shape == np.broadcast_shapes(*shapes)
    np.testing.assert_array_equal(found, x + y)


@st.composite
def operands(draw):
    """Two arrays that broadcast, as views of any kind, and the functions that made the views."""
    ndim = draw(st.integers(0, 4))
    shape = draw(st.lists(st.integers(0, 6), min_size=ndim, max_size=ndim))
    made = []
    for _ in range(2):
        own = [draw(st.sampled_from([n, n, 1])) for n in shape]
        order = draw(st.permutations(range(ndim)))
        steps = draw(st.lists(st.sampled_from([1, 1, 2, -1]), min_size=ndim, max_size=ndim))
        base = [own[d] * abs(step) for d, step in zip(order, steps)]

        def view(a, order=order, steps=steps):
            picked = a[tuple(slice(None, None, step) for step in steps)]
            return picked.transpose(np.argsort(order))

        made.append((tuple(base), view))
    return made


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(made=operands(), data=st.randoms(use_true_random=False))
def test_any_strides(cuda, made, data):
    rng = np.random.default_rng(data.randrange(2**32))
    arrays, hosts = [], []
    for base, view in made:
        host = numbers(rng, base, "f4")
        arrays.append(view_by(view, from_host(host)))
        hosts.append(view(host))
    np.testing.assert_array_equal(to_host(ADD(*arrays)), hosts[0] + hosts[1])


def test_results_lie_as_their_operands_do(rng):
    x = numbers(rng, (3, 4, 5), "f4")
    turn = lambda a: a.transpose(2, 0, 1)  # noqa: E731
    a = view_by(turn, from_host(x))
    assert ADD(a, a).strides == turn(x).strides
    assert ADD(a, a).size == 60
    assert storage.owns(ADD(a, a))
    assert Elementwise("x > 0", out_dtype="bool")(a).strides == tuple(
        s // 4 for s in turn(x).strides
    )
    assert ADD(a, from_host(np.ascontiguousarray(turn(x)))).strides == (48, 16, 4)
    assert ADD(a, 1.0).strides == turn(x).strides
    single = from_host(numbers(rng, (1, 4), "f4"))
    assert ADD(single, single).strides == (16, 4)


def kernel_of(kernel, *operands):
    return kernel.make_plan(operands, (), None, None, None).function.name


def test_choice_of_kernels(rng):
    def fake(shape, strides, dtype="f4"):
        return storage.view(shape, np.dtype(dtype), strides, 2**20, None)

    plain = fake((64, 64), (256, 4))
    assert kernel_of(ADD, plain, plain) == "flat"
    assert kernel_of(ADD, plain, fake((64,), (4,))) == "rows"
    assert kernel_of(ADD, plain, fake((64, 1), (4, 4))) == "rows"
    assert kernel_of(ADD, plain, fake((64, 64), (4, 256))) == "strided32"
    assert kernel_of(ADD, fake((63, 63), (252, 4)), fake((63,), (4,))) == "strided32"
    assert kernel_of(ADD, fake((2**31,), (4,)), 1.0) == "flat"
    assert kernel_of(ADD, fake((2**31,), (0,)), 1.0) == "strided64"
    assert kernel_of(ADD, fake((2**16, 2**16), (4, 2**18)), 1.0) == "flat"
    assert kernel_of(ADD, fake((2**16, 2**16), (2**18, 4)), fake((2**16,), (4,))) == "strided64"
    assert kernel_of(ADD, fake((2**12, 2**12), (2**20, 8)), 1.0) == "strided64"
    assert kernel_of(ADD, fake((2**12, 2**12), (2**16, 8)), 1.0) == "strided32"


def test_offsets_of_64_bits(rng, monkeypatch):
    monkeypatch.setattr(layout, "LIMIT", 0)
    kernel = Elementwise("x + y", inputs=("x", "y"))
    x, y = numbers(rng, (5, 6, 7), "f4"), numbers(rng, (7, 1, 5), "f4")
    a, b = view_by(lambda a: a[::-1].T, from_host(x)), from_host(y)
    assert kernel_of(kernel, a, b) == "strided64"
    np.testing.assert_array_equal(to_host(kernel(a, b)), x[::-1].T + y)


def test_more_dimensions_than_a_kernel_takes(rng):
    shape = (2, 3, 2, 1, 2, 2, 2, 3, 2, 2)
    x = numbers(rng, shape, "f4")
    order = (9, 1, 7, 3, 5, 0, 8, 2, 6, 4)
    a, y = view_by(lambda a: a.transpose(order), from_host(x)), numbers(rng, (2, 1, 1), "f4")
    wanted = x.transpose(order) + y
    contiguous = from_host(np.zeros(wanted.shape, "f4"))
    np.testing.assert_array_equal(to_host(ADD(a, from_host(y), out=contiguous)), wanted)
    np.testing.assert_array_equal(to_host(ADD(a, contiguous)), x.transpose(order) + wanted)
    with pytest.raises(NotImplementedError, match="8 dimensions"):
        Elementwise("x + index")(a)


# ---- results in given arrays ---------------------------------------------------------------------


def test_in_place(rng):
    x, y = numbers(rng, (6, 8), "f4"), numbers(rng, 8, "f4")
    a, b = from_host(x), from_host(y)
    assert ADD(a, b, out=a) is a
    np.testing.assert_array_equal(to_host(a), x + y)
    c = view_by(lambda a: a.T[::2], from_host(x))
    ADD(c, 1.0, out=c)
    np.testing.assert_array_equal(to_host(c), x.T[::2] + 1)


def test_operands_that_overlap_the_result(rng):
    x = numbers(rng, 3000, "f4")
    a = from_host(x)
    ADD(view_by(lambda a: a[:-1], a), 1.0, out=view_by(lambda a: a[1:], a))
    np.testing.assert_array_equal(to_host(a), np.concatenate([x[:1], x[:-1] + 1]))
    square = numbers(rng, (40, 40), "f4")
    a = from_host(square)
    ADD(a, view_by(np.transpose, a), out=a)
    np.testing.assert_array_equal(to_host(a), square + square.T)
    a = from_host(square)
    ADD(a, view_by(lambda a: a[5], a), out=a)
    np.testing.assert_array_equal(to_host(a), square + square[5])


def test_out_may_be_of_another_dtype_and_layout(rng):
    x = numbers(rng, (3, 4), "f4")
    out = from_host(np.zeros((3, 4), "f8"))
    COPY(from_host(x), out=out)
    np.testing.assert_array_equal(to_host(out), x)
    out = view_by(np.transpose, from_host(np.zeros((4, 3), "f2")))
    COPY(from_host(x), out=out)
    np.testing.assert_array_equal(to_host(out), x)
    out = from_host(np.zeros((2, 3, 4), "f4"))
    COPY(from_host(x), out=out, shape=(2, 3, 4))
    np.testing.assert_array_equal(to_host(out), np.broadcast_to(x, (2, 3, 4)))


def test_several_results(rng):
    x, y = rng.normal(size=(2, 9, 5)).astype("f4")
    kernel = Elementwise({"x": "x * y", "y": "x > y"}, inputs=("x", "y"), out_dtype={"y": "bool"})
    product, greater = kernel(from_host(x), from_host(y))
    np.testing.assert_array_equal(to_host(product), x * y)
    np.testing.assert_array_equal(to_host(greater), x > y)
    a, b = from_host(x), from_host(y)
    both = Elementwise({"a": "x + y", "b": "x - y"}, inputs=("x", "y"))
    assert both(a, b, out=(a, b)) == (a, b)
    np.testing.assert_array_equal(to_host(a), x + y)
    np.testing.assert_array_equal(to_host(b), x - y)


def test_nothing_is_launched_for_no_elements(cuda):
    empty = from_host(np.zeros((0, 3), "f4"))
    assert ADD(empty, 1.0).shape == (0, 3)
    assert ADD(empty, from_host(np.zeros((1, 3), "f4"))).shape == (0, 3)


# ---- threads in any order ------------------------------------------------------------------------


def test_order_of_threads_does_not_matter(rng):
    x, y = numbers(rng, (40, 36), "f4"), numbers(rng, 36, "f4")
    a, b, turned = from_host(x), from_host(y), view_by(np.transpose, from_host(x.T.copy()))

    def run():
        return to_host(ADD(a, b)), to_host(ADD(a, a)), to_host(ADD(a, turned))

    emulator = pytest.importorskip("plugrad_emulator")
    emulator.in_every_order(run)


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"expression": "x + z"}, "'z', which is unknown; known names: x"),
        ({"expression": "x ** 2"}, "pow"),
        ({"expression": {}}, "at least one"),
        ({"expression": "x", "inputs": ("x", "x")}, "twice"),
        ({"expression": "x", "inputs": ("x", "out")}, "taken"),
        ({"expression": "x", "constants": ("class",)}, "meaning of its own"),
    ],
)
def test_declarations_refused(arguments, words):
    with pytest.raises(ValueError, match=f"my::op: .*{words}"):
        Elementwise(**arguments, name="my::op")


def test_calls_refused(rng):
    a = from_host(np.zeros((3, 4), "f4"))
    for call, error, words in (
        (lambda: ADD(a), TypeError, "add takes 2 operands"),
        (lambda: ADD(a, "1"), TypeError, "'y' must be an array on the device or a number, got str"),
        (lambda: ADD(a, np.zeros(4)), TypeError, "got ndarray"),
        (lambda: ADD(a, None), TypeError, "got NoneType"),
        (lambda: ADD(a, a, beta=1), TypeError, "no constant 'beta'"),
        (lambda: AXPY(a, a), TypeError, "'alpha' is missing"),
        (lambda: AXPY(a, a, alpha="x"), TypeError, "'alpha' must be"),
        (lambda: ADD(a, from_host(np.zeros(3, "f4"))), ValueError, "cannot be broadcast"),
        (lambda: ADD(a, a, shape=(4, 4)), ValueError, "broadcast"),
        (lambda: ADD(a, a, out=from_host(np.zeros(4, "f4"))), ValueError, "out= has shape"),
        (lambda: ADD(a, a, out=from_host(np.zeros((3, 4), "i4"))), TypeError, "cannot take"),
        (lambda: ADD(a, a, out=(a, a)), ValueError, "2 arrays"),
        (lambda: ADD(from_host(np.arange(3)), 0.5), TypeError, "floating number"),
        (
            lambda: ADD(
                1.0, 1.0, out=view_by(lambda a: np.broadcast_to(a[:1], (3, 4)), a), shape=(3, 4)
            ),
            ValueError,
            "expanded",
        ),
    ):
        with pytest.raises(error, match=words):
            call()


def test_compiler_speaks_of_the_authors_line(cuda):
    kernel = Elementwise("x +\n  nosuchfunction(x)", origin="swish.py", line=41, name="my::op")
    with pytest.raises(CompileError, match=r"swish\.py:42.*nosuchfunction") as error:
        kernel(from_host(np.zeros(3, "f4")))
    assert "my::op" in str(error.value)


def test_results_that_share_memory_are_refused():
    x, block = from_host(np.zeros(4, "f4")), from_host(np.zeros(10, "f4"))
    both = Elementwise({"p": "x + 1", "q": "x + 2"}, inputs=("x",), name="both")

    def at(first, step=4):
        return view_by(lambda a: np.lib.stride_tricks.as_strided(a[first:], (4,), (step,)), block)

    for first, second in [(at(0), at(0)), (at(0), at(2)), (at(0, 8), at(2, 8))]:
        with pytest.raises(ValueError, match="0 and 1 of out= share memory"):
            both(x, out=(first, second))
    for first, second in [(at(0), at(4)), (at(0, 8), at(1, 8))]:
        p, q = both(x, out=(first, second))
        assert to_host(p).tolist() == [1.0] * 4
        assert to_host(q).tolist() == [2.0] * 4
    window = view_by(lambda a: np.lib.stride_tricks.as_strided(a, (3, 2), (4, 4)), block)
    with pytest.raises(ValueError, match="elements of out= share memory"):
        Elementwise("x + 1", inputs=("x",))(from_host(np.zeros((3, 2), "f4")), out=window)
