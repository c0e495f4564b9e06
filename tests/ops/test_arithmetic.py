"""Arithmetic operators against NumPy in float64, on generated inputs; gradients at points that are easy to get wrong."""

import math

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plugrad
from plugrad import Tensor, ops

FLOATS = st.floats(-50.0, 50.0, allow_subnormal=False)
POSITIVE = st.floats(0.01, 50.0)


def leaf(values, dtype=np.float64):
    return Tensor(np.array(values, dtype=dtype), requires_grad=True)


def grads(function, *leaves):
    """Gradients of the sum of `function` with respect to `leaves`, as arrays."""
    out = function(*leaves)
    return [g.array for g in plugrad.autograd.grad(out.sum(), leaves)]


@st.composite
def pairs(draw, elements=FLOATS, other=FLOATS):
    """Two float64 arrays that broadcast."""
    shapes = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4))
    first, second = shapes.input_shapes
    return (
        draw(hnp.arrays(np.float64, first, elements=elements)),
        draw(hnp.arrays(np.float64, second, elements=other)),
    )


def arrays(elements=FLOATS):
    return hnp.arrays(np.float64, hnp.array_shapes(min_dims=0, max_side=6), elements=elements)


# ------------------------------------------------------------------------------ values

BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}

DIVISION = {"div": np.true_divide, "floor_divide": np.floor_divide, "remainder": np.remainder}

UNARY = {
    "neg": np.negative,
    "positive": np.positive,
    "abs": np.absolute,
    "sign": np.sign,
    "square": np.square,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "logical_not": np.logical_not,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "erfc": np.vectorize(math.erfc, otypes=[np.float64]),
}

UNARY_POSITIVE = {
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": np.reciprocal,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
}


@pytest.mark.parametrize("name", BINARY)
@given(operands=pairs())
@settings(max_examples=25, deadline=None)
def test_binary_values(name, operands):
    a, b = operands
    out = getattr(ops, name)(Tensor(a), Tensor(b))
    expected = BINARY[name](a, b)
    assert out.dtype == expected.dtype
    np.testing.assert_array_equal(out.array, expected)


@pytest.mark.parametrize("name", DIVISION)
@given(operands=pairs(other=POSITIVE))
@settings(max_examples=25, deadline=None)
def test_division_values(name, operands):
    a, b = operands
    out = getattr(ops, name)(Tensor(a), Tensor(b))
    np.testing.assert_array_equal(out.array, DIVISION[name](a, b))


@pytest.mark.parametrize("name", UNARY)
@given(a=arrays(st.floats(-5.0, 5.0)))
@settings(max_examples=25, deadline=None)
def test_unary_values(name, a):
    out = getattr(ops, name)(Tensor(a))
    rtol = 1e-15 if name in ("erf", "erfc") else 4e-16
    np.testing.assert_allclose(out.array, UNARY[name](a), rtol=rtol, atol=1e-300)


@pytest.mark.parametrize("name", ["exp", "erf", "erfc"])
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 2e-15), (np.float32, 5e-7)])
def test_vectorised_functions_from_end_to_end(name, dtype, rtol):
    """Over the whole range, tails and both ends included, in arrays longer than a vector register."""
    finfo = np.finfo(dtype)
    ends = (
        (math.log(finfo.tiny), math.log(finfo.max))
        if name == "exp"
        else (-6.0, 9.0 if dtype == np.float32 else 26.0)
    )
    a = np.linspace(*ends, 4001).astype(dtype)[1:-1]
    out = getattr(ops, name)(Tensor(a))
    assert out.dtype == dtype
    np.testing.assert_allclose(out.array, UNARY[name](a.astype(np.float64)), rtol=rtol)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, finfo.max, -finfo.max], dtype)
    with np.errstate(all="ignore"):
        expected = UNARY[name](special.astype(np.float64)).astype(dtype)
    np.testing.assert_array_equal(getattr(ops, name)(Tensor(special)).array, expected)


@pytest.mark.parametrize("name", UNARY_POSITIVE)
@given(a=arrays(POSITIVE))
@settings(max_examples=25, deadline=None)
def test_unary_values_of_positive_numbers(name, a):
    out = getattr(ops, name)(Tensor(a))
    np.testing.assert_allclose(out.array, UNARY_POSITIVE[name](a), rtol=4e-16, atol=1e-300)


@given(operands=pairs(elements=POSITIVE, other=st.floats(-3.0, 3.0)))
@settings(max_examples=25, deadline=None)
def test_pow_values(operands):
    a, b = operands
    np.testing.assert_allclose((Tensor(a) ** Tensor(b)).array, np.power(a, b), rtol=1e-14)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum", "lt", "ge"])
@pytest.mark.parametrize("number", [3, 2.5, -0.0, math.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_python_numbers_are_weak(name, number, dtype):
    a = np.linspace(-2, 2, 12, dtype=dtype).reshape(3, 4)
    reference = (BINARY | DIVISION)[name]
    operator = getattr(ops, name)
    with np.errstate(all="ignore"):
        right, left = reference(a, number), reference(number, a)
    for got, expected in (
        (operator(Tensor(a), number), right),
        (operator(number, Tensor(a)), left),
    ):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got.array, expected)


@pytest.mark.parametrize("name", ["add", "mul", "div", "maximum", "gt"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((6, 20), (20,)),
        ((20,), (6, 20)),
        ((6, 20), (1, 20)),
        ((2, 3, 20), (3, 20)),
        ((2, 3, 20), (1, 1, 20)),
        ((0, 20), (20,)),
        ((6, 20), (6, 1)),
        ((20, 1), (20,)),
        ((), (3, 4)),
        ((200, 100), (200, 100)),
    ],
)
def test_kernels_broadcast_as_numpy(name, dtype, first, second):
    rng = np.random.default_rng(0)
    a, b = rng.uniform(1, 2, first).astype(dtype), rng.uniform(1, 2, second).astype(dtype)
    out = getattr(ops, name)(Tensor(a), Tensor(b))
    np.testing.assert_array_equal(out.array, (BINARY | DIVISION)[name](a, b))


@pytest.mark.parametrize("name", ["mul", "sub", "lt", "exp", "sqrt", "erf"])
def test_layouts(name):
    base = np.random.default_rng(0).uniform(0.5, 2, (6, 8))
    reference = (BINARY | UNARY | UNARY_POSITIVE)[name]
    for a in (
        base.T,
        base[::2, ::-1],
        np.broadcast_to(base[0], (3, 8)),
        base[:0],
    ):
        operands = (a, a[..., ::-1]) if name in BINARY else (a,)
        out = getattr(ops, name)(*map(Tensor, operands))
        np.testing.assert_allclose(out.array, reference(*operands), rtol=4e-16)


def test_integers_keep_their_dtype_and_division_gives_float32():
    a, b = Tensor(np.array([7, -7])), Tensor(np.array([2, 2]))
    assert (a + b).dtype == np.int64
    assert (a // b).tolist() == [3, -4]
    assert (a % b).tolist() == [1, 1]
    quotient = a / b
    assert quotient.dtype == np.float32
    assert quotient.tolist() == [3.5, -3.5]
    assert (a / 2).dtype == np.float32
    assert (a * 0.5).dtype == np.float32
    assert ops.exp(b).dtype == np.float32
    assert (a + Tensor(np.ones(2, np.float16))).dtype == np.float16


def test_integers_divided_by_zero_are_refused():
    a = Tensor(np.array([1, 2]))
    with pytest.raises(ZeroDivisionError, match="floor_divide"):
        a // 0
    with pytest.raises(ZeroDivisionError, match="remainder"):
        a % Tensor(np.array([1, 0]))


def test_nan_and_infinity_never_warn():
    x = Tensor(np.array([0.0, -1.0, np.inf, np.nan]))
    for name in ("log", "sqrt", "rsqrt", "reciprocal", "exp", "asin", "pow", "div", "remainder"):
        operator = getattr(ops, name)
        for dtype in (np.float16, np.float32, np.float64):
            y = ops.cast(x, dtype=dtype)
            operator(y, y * 0) if name in ("pow", "div", "remainder") else operator(y)
            operator(y[::2], y[::2] * 0) if name in ("pow", "div", "remainder") else operator(
                y[::2]
            )


def test_bits():
    a, b = np.array([12, 5, -1]), np.array([10, 3, 7])
    assert (Tensor(a) & Tensor(b)).tolist() == (a & b).tolist()
    assert (Tensor(a) | 3).tolist() == (a | 3).tolist()
    assert (Tensor(a) ^ Tensor(b)).tolist() == (a ^ b).tolist()
    assert (~Tensor(a)).tolist() == (~a).tolist()
    assert (~Tensor(a > 5)).tolist() == (~(a > 5)).tolist()
    with pytest.raises(TypeError, match="bitwise_and"):
        Tensor(a) & Tensor(np.ones(3))


def test_shapes_that_do_not_broadcast():
    with pytest.raises(RuntimeError, match=r"mul.*\(2, 3\).*\(4,\)"):
        Tensor(np.ones((2, 3))) * Tensor(np.ones(4))


# ---------------------------------------------------------------- gradients, known numbers


def test_broadcast_gradients_are_summed():
    a, b = leaf([[1], [2]]), leaf([10, 20, 30])
    to_a, to_b = grads(ops.mul, a, b)
    assert to_a.tolist() == [[60], [60]]
    assert to_b.tolist() == [3, 3, 3]


def test_zero_size_gradients():
    a, b = leaf(np.empty((0, 3))), leaf([1, 2, 3])
    product = (a * b).sum()
    assert product.item() == 0
    to_a, to_b = plugrad.autograd.grad(product, [a, b])
    assert to_a.shape == (0, 3)
    assert to_b.tolist() == [0, 0, 0]


def test_mixed_dtypes_give_each_leaf_its_own():
    a, b = leaf([1, 2], np.float32), leaf([3, 4])
    assert (a * b).dtype == np.float64
    to_a, to_b = grads(ops.mul, a, b)
    assert (to_a.dtype, to_b.dtype) == (np.float32, np.float64)
    assert to_a.tolist() == [3, 4]
    assert to_b.tolist() == [1, 2]


def test_sqrt_at_zero():
    x = leaf([0, 4])
    assert grads(ops.sqrt, x)[0].tolist() == [math.inf, 0.25]
    assert np.isnan(grads(lambda x: ops.sqrt(x) * 0, x)[0][0])
    y = leaf([0, 0])
    assert np.isnan(grads(lambda x: (x * x).sum().sqrt(), y)[0]).all()


def test_pow_at_zero_and_negative_bases():
    a, b = leaf([0, 0, 0, 2, -2]), leaf([0, 1, 2, 3, 2])
    assert (a**b).tolist() == [1, 0, 0, 8, 4]
    to_a, to_b = grads(ops.pow, a, b)
    assert to_a.tolist() == [0, 1, 0, 12, -4]
    np.testing.assert_allclose(to_b, [0, 0, 0, 5.545177444479562, math.nan])


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.0, 2.0])
def test_pow_of_a_number_at_zero(exponent):
    x = leaf([0, 2])
    (to_x,) = grads(lambda x: x**exponent, x)
    expected = [1.0 if exponent == 1 else 0.0, exponent * 2.0 ** (exponent - 1)]
    assert to_x.tolist() == expected


def test_pow_mixed_second_derivative_where_the_exponent_is_zero():
    # d2/dx dy of x**y at y = 0 is 1/x; masking the whole first derivative there would give 0.
    x, y = leaf([2.0]), leaf([0.0])
    (to_x,) = plugrad.autograd.grad((x**y).sum(), [x], create_graph=True)
    (mixed,) = plugrad.autograd.grad(to_x.sum(), [y])
    assert mixed.tolist() == [0.5]


def test_where_is_the_documented_trap():
    x = leaf([0, -1, 4])
    unsafe = ops.where(x > 0, ops.sqrt(x), 0)
    assert unsafe.sum().item() == 2
    np.testing.assert_array_equal(
        grads(lambda x: ops.where(x > 0, ops.sqrt(x), 0), x)[0], [math.nan, math.nan, 0.25]
    )
    safe = grads(lambda x: ops.where(x > 0, ops.sqrt(ops.where(x > 0, x, 1)), 0), x)[0]
    assert safe.tolist() == [0, 0, 0.25]
    y = leaf([0, 2, 3])
    np.testing.assert_allclose(
        grads(lambda x: ops.where(x > 2, ops.log2(x), 2 * x), y)[0],
        [math.nan, 2, 0.48089834696298783],
        rtol=1e-15,
    )


def test_clamp_at_its_bounds():
    assert grads(lambda x: ops.clamp(x, min=0), leaf([-1, 0, 1]))[0].tolist() == [0, 0, 1]
    x = leaf([-1, 0, 0.5, 1, 2])
    assert grads(lambda x: ops.clamp(x, 0, 1), x)[0].tolist() == [0, 0, 1, 0, 0]
    low, high = leaf(np.zeros(5)), leaf(np.ones(5))
    to_x, to_low, to_high = grads(ops.clamp, x, low, high)
    assert to_x.tolist() == [0, 0.5, 1, 0.5, 0]
    assert to_low.tolist() == [1, 0.5, 0, 0, 0]
    assert to_high.tolist() == [0, 0, 0, 0.5, 1]
    with pytest.raises(ValueError, match="min, max or both"):
        ops.clamp(x)


def test_abs_and_sign_at_zero():
    x = leaf([-2, 0, 3])
    assert grads(ops.abs, x)[0].tolist() == [-1, 0, 1]
    assert grads(ops.sign, x)[0].tolist() == [0, 0, 0]
    assert grads(lambda x: ops.sign(x) * math.inf, x)[0].tolist() == [0, 0, 0]


def test_ties_share_the_gradient():
    a, b = leaf([1, 2, 3]), leaf([2, 2, 2])
    for operator, to_first in ((ops.maximum, [0, 0.5, 1]), (ops.minimum, [1, 0.5, 0])):
        to_a, to_b = grads(operator, a, b)
        assert to_a.tolist() == to_first
        assert to_b.tolist() == to_first[::-1]
    assert grads(lambda x: ops.maximum(x, 2), a)[0].tolist() == [0, 0, 1]


def test_cast_returns_the_gradient_in_the_dtype_of_its_input():
    x = leaf([1, 2], np.float32)
    y = ops.cast(x, dtype=np.float64)
    assert y.dtype == np.float64
    (to_x,) = grads(lambda x: ops.cast(x, dtype=np.float64) * 3, x)
    assert to_x.dtype == np.float32
    assert to_x.tolist() == [3, 3]
    assert not ops.cast(x, dtype=np.int64).requires_grad


@pytest.mark.parametrize(
    "name", ["exp", "log", "sqrt", "rsqrt", "square", "sin", "tan", "atan", "erf", "log1p"]
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtype_is_kept_forward_and_backward(name, dtype):
    x = leaf([0.5, 0.75, 1.25], dtype)
    out = getattr(ops, name)(x)
    assert out.dtype == dtype
    assert grads(getattr(ops, name), x)[0].dtype == dtype


@pytest.mark.parametrize(
    "name", ["subtract", "multiply", "divide", "negative", "absolute", "arcsin"]
)
def test_second_names(name):
    first = {"subtract": "sub", "multiply": "mul", "divide": "div", "negative": "neg",
             "absolute": "abs", "arcsin": "asin"}[name]  # fmt: skip
    args = (leaf([0.5, -0.25]), leaf([2.0, 4.0]))[
        : 1 if name in ("negative", "absolute", "arcsin") else 2
    ]
    assert getattr(ops, name)(*args).tolist() == getattr(ops, first)(*args).tolist()


@pytest.mark.parametrize("shape", [(40,), (1, 40), (30, 1), (2, 1, 40), (1, 1, 1)])
@pytest.mark.parametrize("whole", [(40, 30), (300, 400)], ids=["small", "threads"])
@pytest.mark.parametrize("turn", [False, True])
def test_a_row_or_column_repeats_along_a_transposed_array(whole, shape, turn):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(whole).T
    shape = tuple(n if n < 30 else x.shape[1] if n == 40 else x.shape[0] for n in shape)
    y = rng.standard_normal(shape)
    a, b = (y, x) if turn else (x, y)
    found = (plugrad.from_numpy(a) - plugrad.from_numpy(b)).numpy()
    assert np.array_equal(found, a - b)


# How the incoming gradient and the other factor lie: alike without gaps, alike with gaps, and differently.
LIES = {
    "C": (lambda g: g, lambda x: x),
    "turned": (np.asfortranarray, np.asfortranarray),
    "gaps": (lambda g: np.repeat(g, 2, -1)[..., ::2], lambda x: np.repeat(x, 2, -1)[..., ::2]),
    "differently": (np.asfortranarray, lambda x: x),
    "repeated": (lambda g: np.broadcast_to(g[:1], g.shape), lambda x: x),
}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("whole", [(7, 5), (4, 3, 5), (1, 9), (300, 257), (3, 100_000), (9000, 3)])
def test_the_gradient_of_a_factor_that_is_repeated_is_summed(whole, lie, dtype):
    seed = int(np.random.default_rng().integers(2**31))
    print("seed", seed)
    rng = np.random.default_rng(seed)
    g, x = (f(rng.standard_normal(whole).astype(dtype)) for f in LIES[lie])
    for shape in {whole[-1:], (whole[0], *(1,) * (len(whole) - 1)), (1,), whole[1:], (), whole}:
        other = leaf(rng.standard_normal(shape), dtype)
        (Tensor(x) * other).backward(Tensor(g))
        terms = g.astype("f8") * x
        summed = tuple(d for d in range(-len(whole), 0) if -d > len(shape) or shape[d] != whole[d])
        expected = terms.sum(summed).reshape(shape)
        close = (2e-7 if dtype == "f4" else 1e-15) * np.abs(terms).sum(summed).reshape(shape)
        assert np.all(np.abs(other.grad.array - expected) <= close)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(("dtype", "least"), [(np.float32, 1e-40), (np.float64, 1e-310)])
def test_the_gradient_of_a_tiny_divisor_does_not_overflow_on_the_way(dtype, least, create_graph):
    # What is divided, the divisor, the incoming gradient, the gradient of the divisor.
    cases = [(0.0, least, 5.0, 0.0), (least, least, least, -1.0), (4.0, 2.0, 3.0, -3.0)]
    if dtype == np.float32:
        cases += [
            (1e-20, 1e-20, 1e-10, -1e10),
            (1e30, 1e20, 1e25, -1e15),
            (1e-30, 1e-20, 1e-30, -1e-20),
        ]
    x, z, g, wanted = np.array(cases).T
    divisor = Tensor(z.astype(dtype), requires_grad=True)
    (Tensor(x.astype(dtype)) / divisor).backward(Tensor(g.astype(dtype)), create_graph=create_graph)
    np.testing.assert_allclose(divisor.grad.detach().numpy(), wanted, rtol=1e-5)


def test_a_quotient_of_complex_numbers_has_the_gradients_of_its_real_parts():
    rng = np.random.default_rng(3)
    x, z, g = (rng.standard_normal(4) + 1j * rng.standard_normal(4) for _ in range(3))
    divisor = Tensor(z, requires_grad=True)
    (Tensor(x) / divisor).backward(Tensor(g), create_graph=True)
    np.testing.assert_allclose(divisor.grad.detach().numpy(), -g * np.conj(x / z**2), rtol=1e-12)
