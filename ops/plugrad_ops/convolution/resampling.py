"""Maps along the last dimensions of a tensor: what averages, nearest neighbours and interpolation are made of.

`resample` and `resample_adjoint` are linear and each other's rule.
"""

import math
from functools import lru_cache

import numpy as np

from plugrad import operator, ops
from plugrad.backends.dtypes import wide
from plugrad_ops.convolution import pooling_cpu
from plugrad_ops.convolution.columns import computable
from plugrad_ops.convolution.maps import lengths, map_of, transposed_map


def checked(name, shape, maps, adjoint):
    """The shape of the result of maps, or of their adjoints.

    Raises
    ------
    RuntimeError
        The last dimensions do not have the lengths that the maps are for.
    """
    size, out = lengths(maps)
    if adjoint:
        size, out = out, size
    n = len(maps)
    if len(shape) < n or tuple(shape[len(shape) - n :]) != size:
        raise RuntimeError(
            f"{name}: the last {n} dimensions must have the lengths {size}, got shape {tuple(shape)}"
        )
    return (*shape[: len(shape) - n], *out)


def _by_matrices(name, input, maps, adjoint):
    """One product with a dense matrix after the other."""
    checked(name, input.shape, maps, adjoint)
    out = input.astype(wide(input.dtype), copy=False)
    for i, told in enumerate(maps):
        axis = input.ndim - len(maps) + i
        matrix = map_of(told).dense.astype(out.dtype)
        out = np.moveaxis(np.tensordot(out, matrix, ([axis], [0 if adjoint else 1])), -1, axis)
    return np.ascontiguousarray(out.astype(input.dtype, copy=False))


def _by_loops(name, input, maps, adjoint):
    """One sparse map after the other: what shrinks most comes first, and the last dimension where there is least."""
    shape = checked(name, input.shape, maps, adjoint)
    (out,) = computable(input)
    for i in _order(maps, adjoint):
        step = transposed_map(maps[i]) if adjoint else map_of(maps[i])
        axis = input.ndim - len(maps) + i
        source = out.reshape(
            math.prod(out.shape[:axis]), step.size, math.prod(out.shape[axis + 1 :])
        )
        found = pooling_cpu.map_along(
            source, step.offsets, step.taps, step.uneven_weights, step.divisors
        )
        out = found.reshape(*out.shape[:axis], step.out, *out.shape[axis + 1 :])
    return out.reshape(shape).astype(input.dtype, copy=False)


@lru_cache(maxsize=1024)
def _order(maps, adjoint):
    """In which order maps are applied. Along the last dimension elements are added one by one, not as rows."""
    sizes, outs = lengths(maps)
    if adjoint:
        sizes, outs = outs, sizes
    growth = [out / max(size, 1) for size, out in zip(sizes, outs)]
    last = len(maps) - 1
    return sorted(range(len(maps)), key=lambda i: (growth[i], (i == last) == (growth[i] < 1), i))


def _meta(input, *, maps):
    return checked("resample", input.shape, maps, False), input.dtype


def _on_host(input, *, maps):
    return _by_loops("resample", input, maps, False)


@operator("standard::resample", infer=_meta, cpu=_on_host, cuda=".resampling_cuda:resample")
def resample(input, *, maps):
    """A sparse linear map along each of the last dimensions.

    Parameters
    ----------
    input : (…, *sizes)
    maps : tuple of tuple
        One per dimension, as `maps.map_of` takes it.

    Raises
    ------
    RuntimeError
        The dimensions do not have the lengths that the maps are for.
    """
    return _by_matrices("resample", input, maps, False)


@resample.backward
def _(grad, maps):
    return ops.resample_adjoint(grad, maps=maps)


PAIR = (("average", 5, 2, 2, 1, True, False, None), ("adaptive", 3, 2))
LINES = (("linear", 3, 5, False, None),)
TRIPLE = (("nearest", 2, 3, None), ("cubic", 2, 3, False, None), ("linear", 2, 3, True, None))


@resample.samples
def _(make):
    yield make.call(make.normal(2, 5, 3), maps=PAIR)
    yield make.call(make.normal(3), maps=LINES)
    yield make.call(make.normal(1, 2, 2, 2), maps=TRIPLE)
    yield make.call(make.normal(0, 3), maps=LINES)
    yield make.error(RuntimeError, "must have the lengths (3,)", make.normal(2, 4), maps=LINES)


def _adjoint_meta(input, *, maps):
    return checked("resample_adjoint", input.shape, maps, True), input.dtype


def _adjoint_on_host(input, *, maps):
    return _by_loops("resample_adjoint", input, maps, True)


@operator(
    "standard::resample_adjoint",
    infer=_adjoint_meta,
    cpu=_adjoint_on_host,
    cuda=".resampling_cuda:resample_adjoint",
)
def resample_adjoint(input, *, maps):
    """The adjoint of `resample`: from (…, *outs) to (…, *sizes)."""
    return _by_matrices("resample_adjoint", input, maps, True)


@resample_adjoint.backward
def _(grad, maps):
    return ops.resample(grad, maps=maps)


@resample_adjoint.samples
def _(make):
    yield make.call(make.normal(2, 3, 2), maps=PAIR)
    yield make.call(make.normal(5), maps=LINES)
    yield make.call(make.normal(1, 3, 3, 3), maps=TRIPLE)
    yield make.error(RuntimeError, "must have the lengths (5,)", make.normal(2, 4), maps=LINES)
