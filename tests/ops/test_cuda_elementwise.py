"""Elementwise operators on a CUDA device: every kernel against the reference function, at ordinary and at special values.

A kernel computes half precision in single, and C libraries round functions differently, so a value may be that of the
reference in its own dtype or in the next wider one, within a few units in the last place. Integers and bools are equal.
"""

import inspect
import itertools

import numpy as np
import pytest

import plugrad
from plugrad import registry
from plugrad.contract.samples import collect
from plugrad.registry.cuda import kernel_for

pytestmark = pytest.mark.usefixtures("cuda")

FLOATS = ("float16", "float32", "float64")
WIDER = {"float16": "float32", "float32": "float64", "float64": "float64"}
ULPS = {"float16": 2, "float32": 32, "float64": 32, "complex64": 32, "complex128": 32}
# how much of the operands' precision may be lost
CANCELLING = {"standard::tanhshrink": 16, "standard::gaussian_nll": 64}

SPECIAL = {
    "f": [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.0, -7.25, 20.0, 88.0, -800.0, np.inf, -np.inf, np.nan],
    "b": [False, True],
    "i": [0, 1, -1, 2, -2, 3, 7, -8, 100],
    "u": [0, 1, 2, 3, 7, 8, 100, 200],
}  # fmt: skip

OPERATORS = [
    operator
    for operator in registry.operators()
    if getattr(operator, "cuda", None) is not None
    and operator.schema.elementwise
    and not operator.random
]
CALLS = {  # operators whose operands are not all alike, or that refuse something
    "standard::binary_entropy": lambda points: (np.abs(np.clip(np.nan_to_num(points[0]), -1, 1)), points[1]),
    "standard::where": lambda points: (points[0] > 0, points[1], points[0]),
    "ste::fake_quantize": lambda points: (points[0], np.abs(np.nan_to_num(points[1])) + points[1].dtype.type(0.25), 1.0),
}  # fmt: skip
NONZERO = ("standard::floor_divide", "standard::fmod", "standard::remainder")


def takes(operator, kind):
    """Whether an operator takes tensors of a kind of dtype and gives the dtype that it promises."""
    dtype = {"f": "float32", "i": "int32", "u": "uint8", "b": "bool"}[kind]
    ones = [np.ones(1, dtype) for _ in operator.schema.inputs]
    if operator.name == "standard::where":
        ones[0] = np.ones(1, bool)
    allowed = operator.schema.dtypes[-1]
    if kind != "f" and allowed not in ("numeric", "any"):
        return False
    try:
        with np.errstate(all="ignore"):
            out = np.asarray(operator.function(*ones))
    except TypeError:
        return False
    return out.dtype == dtype or operator.schema.out_dtype is not None


def special_points(operator, dtype):
    """Every pair of special values (of a third operand, one)."""
    kind = np.dtype(dtype).kind
    values = list(SPECIAL[kind])
    if kind == "f":
        info = np.finfo(dtype)
        values += [
            info.max,
            -info.max,
            info.tiny,
            float(info.smallest_subnormal),
            -float(info.tiny) / 4,
        ]
    if kind in "iu":
        values += [np.iinfo(dtype).max, np.iinfo(dtype).min]
    values = np.array(values, dtype)
    count = len(operator.schema.inputs)
    if count == 1:
        return (values,)
    pairs = np.array(list(itertools.product(values, values)), dtype).T
    points = [np.ascontiguousarray(pairs[0]), np.ascontiguousarray(pairs[1])]
    if operator.name in NONZERO and kind in "iu":
        points[1] = np.where(points[1] == 0, 1, points[1]).astype(dtype)
    if operator.name == "standard::pow" and kind in "iu":
        points[1] = points[1] % np.asarray(7, dtype)
    if operator.name in CALLS:
        return CALLS[operator.name](points)
    return (*points, *[np.full_like(points[0], 1)] * (count - 2))


def on_device(function, args, constants):
    from plugrad.backends.cuda.array import from_host, to_host

    out = function(*(from_host(x) if isinstance(x, np.ndarray) else x for x in args), **constants)
    return tuple(map(to_host, out)) if isinstance(out, tuple) else to_host(out)


def references(operator, args, constants):
    """What the reference gives in the dtype of the operands, and computed in the next wider one."""
    floating = [x.dtype for x in args if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
    with np.errstate(all="ignore"):
        own = np.asarray(operator.function(*args, **constants))
        if not floating:
            return own, own
        wide = WIDER[floating[0].name]
        raised = [
            x.astype(wide) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for x in args
        ]
        return own, np.asarray(operator.function(*raised, **constants)).astype(own.dtype)


def check(operator, args, constants):
    got = on_device(kernel_for(operator), args, constants)
    own, wide = references(operator, args, constants)
    own = np.broadcast_to(own, got.shape)
    assert got.dtype == own.dtype
    if got.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, own)
        return
    times = CANCELLING.get(operator.name, 1)
    right = close(got, own, times) | close(got, wide, times)
    if not right.all():
        where = np.argwhere(~right)[0]
        operands = [
            x if np.ndim(x) == 0 else np.broadcast_to(x, got.shape)[tuple(where)] for x in args
        ]
        pytest.fail(
            f"{operator.name}{tuple(operands)}: {got[tuple(where)]!r} on the device, "
            f"{own[tuple(where)]!r} by the reference; {np.count_nonzero(~right)} of {right.size} differ"
        )


def close(got, wanted, times=1):
    """Where two arrays agree: NaN with NaN, infinity with infinity, numbers to some units in the last place."""
    name = got.dtype.name
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        info = np.finfo(name)
        allowed = times * ULPS[name] * (np.abs(wanted.astype(wide)) * float(info.eps))
        allowed = allowed + float(info.smallest_subnormal)
        apart = np.abs(got.astype(wide) - wanted.astype(wide))
        return (got == wanted) | (np.isnan(got) & np.isnan(wanted)) | (apart <= allowed)


def name_of(operator):
    return operator.name


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("operator", OPERATORS, ids=name_of)
def test_special_values(operator, dtype):
    if not takes(operator, "f"):
        pytest.skip("takes no floats")
    check(operator, special_points(operator, dtype), operator.schema.defaults)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64", "bool"])
@pytest.mark.parametrize(
    "operator", [each for each in OPERATORS if takes(each, "i") or takes(each, "b")], ids=name_of
)
def test_integers_and_bools(operator, dtype):
    if not takes(operator, np.dtype(dtype).kind):
        pytest.skip(f"takes no {dtype}")
    check(operator, special_points(operator, dtype), operator.schema.defaults)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("operator", OPERATORS, ids=name_of)
def test_own_samples(operator, dtype):
    for sample in collect(operator.sampler, operator.name):
        if sample.raises is not None:
            continue
        args = tuple(
            x.astype(dtype) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x
            for x in sample.args
        )
        kinds = {x.dtype for x in args if isinstance(x, np.ndarray) and x.dtype.kind != "b"}
        if len(kinds) > 1 or not takes(operator, "f") or (kinds and min(kinds).kind in "iu"):
            continue  # dispatch promotes before a kernel is called
        check(operator, args, {**operator.schema.defaults, **sample.constants})


# ------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("name", "args", "error"),
    [
        ("neg", ([True],), TypeError),
        ("sub", ([True], [False]), TypeError),
        ("square", ([True],), TypeError),
        ("bitwise_and", ([1.0], [2.0]), TypeError),
        ("floor_divide", ([1], [0]), ZeroDivisionError),
        ("remainder", ([1], 0), ZeroDivisionError),
        ("fmod", ([1], 0), ZeroDivisionError),
        ("pow", ([2, 3], [1, -1]), ValueError),
        ("pow", ([2, 3], -1), ValueError),
        ("clamp", ([1.0],), ValueError),
    ],
)
def test_what_numpy_refuses_is_refused(name, args, error):
    operator = getattr(plugrad.ops, name)
    arrays = tuple(np.array(x) if isinstance(x, list) else x for x in args)
    with pytest.raises(error, match=name):
        on_device(kernel_for(operator), arrays, {})


def test_what_only_the_device_knows_to_be_wrong_is_nan():
    """Raising would wait for the device in every call."""
    bad = np.array([0.5, -0.1, 1.5, np.inf])
    entropy = on_device(kernel_for(plugrad.ops.binary_entropy), (bad, np.array(0.0)), {})
    np.testing.assert_array_equal(np.isnan(entropy), [False, True, True, True])
    scale = np.array([0.5, 0.0, -1.0, np.nan])
    pytest.importorskip("plugrad_ste")
    quantized = on_device(kernel_for(plugrad.ops.ste.fake_quantize), (np.ones(4), scale, 0), {})
    np.testing.assert_array_equal(np.isnan(quantized), [False, True, True, True])


# ------------------------------------------------------------------------- backward in one pass

FUSED = [each for each in OPERATORS if each.cuda_backward is not None]


def backward_arguments(operator, function, values):
    """What a backward kernel takes, by name."""
    names = getattr(operator.cuda_backward, "names", None)
    if names is None:
        return [values[name] for name in inspect.signature(function).parameters]
    several = ["needs"] if len(operator.schema.inputs) > 1 else []
    return [values[name] for name in ("grad", *names, *several)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("operator", FUSED, ids=name_of)
def test_backward_kernels_follow_the_rule(operator, dtype):
    function = operator.make_backward_kernel(operator.cuda_backward, "cuda")
    schema = operator.schema
    points = special_points(operator, dtype)
    for constants in [schema.defaults, *([{"approximate": "tanh"}] if schema.defaults else [])]:
        if not set(constants) <= set(schema.constants):
            continue
        tensors = [plugrad.tensor(x, requires_grad=True) for x in points]
        out = operator(*tensors, **constants)
        grad = np.linspace(-1.5, 2.0, out.array.size).astype(dtype).reshape(out.shape)
        wanted = plugrad.autograd.grad(out, tensors, plugrad.tensor(grad), create_graph=True)
        values = dict(zip(schema.inputs, points)) | dict(constants)
        values |= {"out": out.array, "grad": grad, "needs": (True,) * len(points)}
        args = backward_arguments(operator, function, values)
        got = on_device(function, args, {})
        for ours, theirs in zip(got if isinstance(got, tuple) else (got,), wanted):
            # 1 - out * out may be contracted to one rounding: an error relative to 1, not to the difference.
            rounding = 4 * np.finfo(dtype).eps * np.abs(grad)
            with np.errstate(invalid="ignore"):
                right = close(ours, theirs.array) | (np.abs(ours - theirs.array) <= rounding)
            assert right.all(), (points[0][~right], ours[~right], theirs.array[~right])
