"""Convolutions of given shapes, made once and kept: oneDNN chooses an implementation and the layouts it wants.

Arrays go in and come out in C order; where the implementation wants another layout, they are reordered before and after.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock

import numpy as np

from plugrad_onednn import library
from plugrad_onednn.library import call, handle, numbers

__all__ = ["Convolution", "Shape", "made"]

FLOAT32 = 3
ANY = 1
TRAINING = 64
DIRECT = 1
OWN_MEMORY = ctypes.c_void_p(-1)

# Numbers of arguments, and of the questions for their layouts.
SOURCE, RESULT, KERNEL, BIAS = 1, 17, 33, 41
GRAD_SOURCE, GRAD_RESULT, GRAD_KERNEL = 129, 145, 161
QUESTIONS = {
    SOURCE: 129,
    GRAD_SOURCE: 130,
    KERNEL: 131,
    GRAD_KERNEL: 132,
    RESULT: 133,
    GRAD_RESULT: 134,
}
REORDERED, INTO = 1, 17


@dataclass(frozen=True)
class Shape:
    """The numbers of a convolution; tuples have one entry per spatial dimension.

    Attributes
    ----------
    images, channels, size
        Of the source, (images, channels, *size).
    results, out
        Channels and spatial shape of the result.
    kernel, stride, dilation, groups
    before, behind
        Padding at both ends.
    biased : bool
    """

    images: int
    channels: int
    size: tuple[int, ...]
    results: int
    out: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    behind: tuple[int, ...]
    groups: int
    biased: bool = False

    @property
    def of_kernel(self) -> tuple[int, ...]:
        shape = (self.results // self.groups, self.channels // self.groups, *self.kernel)
        return shape if self.groups == 1 else (self.groups, *shape)


class _Argument(ctypes.Structure):
    _fields_ = (("number", ctypes.c_int), ("memory", ctypes.c_void_p))


def _described(shape, tag=None):
    """The layout of an array in C order, or whichever the implementation likes best."""
    if tag is not None:
        return handle("dnnl_memory_desc_create_with_tag", len(shape), numbers(shape), FLOAT32, tag)
    steps = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    return handle(
        "dnnl_memory_desc_create_with_strides", len(shape), numbers(shape), FLOAT32, numbers(steps)
    )


def _run(primitive, arguments):
    given = (_Argument * len(arguments))(*arguments)
    call("dnnl_primitive_execute", primitive, library.stream, len(arguments), given)


class _Array:
    """An argument: its memory in C order and, if the implementation wants another layout, one in that."""

    def __init__(self, chosen, number, shape, is_result):
        plain = _described(shape)
        self.number = number
        self.is_result = is_result
        self.outer = handle("dnnl_memory_create", plain, library.engine, None)
        self.inner = self.outer
        self.reorder = None
        wanted = (
            library.query_description(chosen, QUESTIONS[number]) if number in QUESTIONS else plain
        )
        if not library.is_equal(plain, wanted):
            self.inner = handle("dnnl_memory_create", wanted, library.engine, OWN_MEMORY)
            ends = (wanted, plain) if is_result else (plain, wanted)
            how = handle(
                "dnnl_reorder_primitive_desc_create",
                ends[0],
                library.engine,
                ends[1],
                library.engine,
                None,
            )
            self.reorder = handle("dnnl_primitive_create", how)

    def begin(self, array):
        call("dnnl_memory_set_data_handle", self.outer, ctypes.c_void_p(array.ctypes.data))
        if self.reorder and not self.is_result:
            _run(self.reorder, [(REORDERED, self.outer), (INTO, self.inner)])

    def end(self):
        if self.reorder and self.is_result:
            _run(self.reorder, [(REORDERED, self.inner), (INTO, self.outer)])


class Convolution:
    """One of the three passes for arrays of one shape.

    Parameters
    ----------
    what : {"forward", "input", "weight"}
    shape : Shape

    Raises
    ------
    OneDNNError
        oneDNN does not compute such a convolution.
    """

    def __init__(self, what: str, shape: Shape) -> None:
        self._lock = Lock()  # memory and scratch space belong to the primitive
        source = (shape.images, shape.channels, *shape.size)
        result = (shape.images, shape.results, *shape.out)
        how = (
            numbers(shape.stride),
            numbers(d - 1 for d in shape.dilation),
            numbers(shape.before),
            numbers(shape.behind),
        )
        ends = [_described(each, ANY) for each in (source, shape.of_kernel)]
        bias = _described((shape.results,)) if shape.biased else None
        chosen = handle(
            "dnnl_convolution_forward_primitive_desc_create",
            library.engine, TRAINING, DIRECT, *ends, bias, _described(result, ANY), *how, None,
        )  # fmt: skip
        if what == "forward":
            arrays = [(SOURCE, source), (KERNEL, shape.of_kernel), (RESULT, result)]
            if shape.biased:
                arrays.insert(2, (BIAS, (shape.results,)))
        elif what == "input":
            chosen = handle(
                "dnnl_convolution_backward_data_primitive_desc_create",
                library.engine, DIRECT, *ends, _described(result, ANY), *how, chosen, None,
            )  # fmt: skip
            arrays = [(GRAD_RESULT, result), (KERNEL, shape.of_kernel), (GRAD_SOURCE, source)]
        else:
            chosen = handle(
                "dnnl_convolution_backward_weights_primitive_desc_create",
                library.engine, DIRECT, *ends, None, _described(result, ANY), *how, chosen, None,
            )  # fmt: skip
            arrays = [(GRAD_RESULT, result), (SOURCE, source), (GRAD_KERNEL, shape.of_kernel)]
        self._primitive = handle("dnnl_primitive_create", chosen)
        last = len(arrays) - 1
        self._arrays = [_Array(chosen, *each, i == last) for i, each in enumerate(arrays)]

    def __call__(self, *arrays: np.ndarray) -> None:
        """Compute the last array from the others; all are float32 in C order."""
        with self._lock:
            for kept, array in zip(self._arrays, arrays, strict=True):
                kept.begin(array)
            _run(self._primitive, [(kept.number, kept.inner) for kept in self._arrays])
            self._arrays[-1].end()
            call("dnnl_stream_wait", library.stream)


@lru_cache(maxsize=256)
def made(what: str, shape: Shape) -> Convolution | None:
    """The pass for a shape, or None where oneDNN has none."""
    try:
        return Convolution(what, shape)
    except library.OneDNNError:
        return None
