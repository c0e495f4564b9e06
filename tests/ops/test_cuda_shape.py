"""Copies, joins, casts and the adjoints of views on a CUDA device: every kernel against the reference function."""

import numpy as np
import pytest

import plugrad
from plugrad.contract.samples import collect
from plugrad.registry.cuda import kernel_for

pytestmark = pytest.mark.usefixtures("cuda")

NAMES = (
    "as_strided_adjoint", "as_strided_gather", "cast", "cat", "contiguous_copy", "copy",
    "diagonal_adjoint", "flip", "slice_adjoint", "stack", "zeros_like",
)  # fmt: skip
DTYPES = ("bool", "int8", "int64", "uint16", "float16", "float32", "float64")

LAYOUTS = {
    "plain": lambda x: x,
    "transposed": lambda x: np.asarray(x.T, order="C").T,
    "reversed": lambda x: x[(slice(None, None, -1),) * x.ndim].copy()[(slice(None, None, -1),) * x.ndim],
    "sliced": lambda x: np.repeat(x, 2, axis=-1)[..., ::2] if x.ndim else x,
    "stride 0": lambda x: np.broadcast_to(x[:1], x.shape) if x.ndim and x.shape[0] else x,
}  # fmt: skip


def operator_named(name):
    return getattr(plugrad.ops, name)


def on_device(function, args, constants):
    """`function` on arrays of the device that have the strides of `args`."""
    return host(function(*map(device, args), **constants))


def device(x):
    from plugrad.backends.cuda.array import as_strided, from_host

    low = sum(min(s, 0) * (n - 1) for n, s in zip(x.shape, x.strides))
    high = sum(max(s, 0) * (n - 1) for n, s in zip(x.shape, x.strides))
    if not x.size:
        return from_host(x)
    memory = np.zeros((high - low) // x.itemsize + 1, x.dtype)
    start = memory[-low // x.itemsize :]
    np.lib.stride_tricks.as_strided(start, x.shape, x.strides)[...] = x
    return as_strided(from_host(memory), x.shape, x.strides, -low)


def host(x):
    from plugrad.backends.cuda.array import to_host

    return to_host(x)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_own_samples(name, dtype, layout):
    operator = operator_named(name)
    kernel = kernel_for(operator)
    for sample in collect(operator.sampler, operator.name):
        if sample.raises is not None:
            continue
        lists = isinstance(sample.args[0], list)
        with np.errstate(all="ignore"):
            given = sample.args[0] if lists else sample.args
            if np.dtype(dtype).kind != "c":
                given = [x.real for x in given]
            whole = [np.rint(4 * x).astype(dtype) for x in given]
        args = [LAYOUTS[layout](x) for x in whole]
        constants = {**operator.schema.defaults, **sample.constants}
        with np.errstate(all="ignore"):
            wanted = operator.function(*args, **constants)
        got = on_device(kernel, args, constants)
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)  # sums of small whole numbers are exact


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 1, 4), (0, 2)])
def test_copies_are_laid_out_as_on_the_cpu(shape):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for layout in map(LAYOUTS.get, ("plain", "transposed", "reversed")):
        ours = kernel_for(operator_named("copy"))(device(layout(x)))
        theirs = layout(x).copy("K")
        kept = [axis for axis, n in enumerate(shape) if n > 1 and x.size]
        assert [ours.strides[a] for a in kept] == [theirs.strides[a] for a in kept]
        np.testing.assert_array_equal(host(ours), theirs)


@pytest.mark.parametrize("dtype", ["bool", "int32", "float16", "float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "size", "stride", "offset"),
    [
        ((9,), (7, 3), (1, 1), 0),  # every window of 3
        ((9,), (3, 7), (1, 1), 0),
        ((10,), (4, 3), (2, 1), 1),
        ((4, 5), (3, 4, 2, 2), (5, 1, 5, 1), 0),  # patches of an image
        ((6,), (4, 3), (0, 2), 1),  # one row four times
        ((8,), (2, 3, 2), (3, 1, 2), 0),
        ((3, 1, 4), (2, 1, 5, 3), (4, 7, 1, 1), 0),
    ],
)
def test_overlapping_windows_add_up(shape, size, stride, offset, dtype):
    operator = operator_named("as_strided_adjoint")
    rng = np.random.default_rng(12)
    grad = rng.integers(-9, 10, size).astype(dtype)
    constants = {
        "shape": shape,
        "size": size,
        "stride": stride,
        "storage_offset": offset,
        "input_stride": None,
    }
    wanted = operator.function(grad, **constants)
    kernel = kernel_for(operator)
    for layout in ("plain", "transposed", "reversed"):
        got = on_device(kernel, [LAYOUTS[layout](grad)], constants)
        np.testing.assert_array_equal(got, wanted)


def test_casts_convert_as_numpy_does():
    values = [
        0.0,
        -0.0,
        0.4,
        -1.5,
        2.5,
        1e-8,
        65504.0,
        65519.9,
        70000.0,
        3e38,
        np.inf,
        -np.inf,
        np.nan,
    ]
    kernel = kernel_for(operator_named("cast"))
    with np.errstate(all="ignore"):
        for source in ("float16", "float32", "float64"):
            x = np.array(values, source)
            for target in ("float16", "float32", "float64", "bool"):
                got = on_device(kernel, [x], {"dtype": np.dtype(target)})
                np.testing.assert_array_equal(got, x.astype(target))
        small = np.array([-3.9, -1.0, 0.5, 100.7], np.float32)
        for target in ("int8", "int32", "int64"):
            got = on_device(kernel, [small], {"dtype": np.dtype(target)})
            np.testing.assert_array_equal(got, small.astype(target))
        whole = np.array([-(2**62) - 1, -200, 0, 1, 70000, 2**24 + 1, 2**53 + 1], np.int64)
        for target in ("float16", "float32", "float64", "int8", "uint8", "int32", "uint64", "bool"):
            got = on_device(kernel, [whole], {"dtype": np.dtype(target)})
            np.testing.assert_array_equal(got, whole.astype(target))


def test_a_double_is_rounded_to_half_once():
    x = np.array([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11], np.float64)
    got = on_device(kernel_for(operator_named("cast")), [x], {"dtype": np.dtype(np.float16)})
    np.testing.assert_array_equal(got, x.astype(np.float16))
