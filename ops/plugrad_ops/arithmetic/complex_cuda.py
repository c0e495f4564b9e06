"""CUDA launchers for complex numbers and their parts."""

from __future__ import annotations

from plugrad.backends.cuda import storage
from plugrad.backends.cuda.inspection import reals
from plugrad_ops.arithmetic.complex import check_complex, check_pairs, complex_dtype
from plugrad_ops.expressions import kernel


def view_as_real(input):
    """The kernel of ``standard::view_as_real``."""
    check_complex("view_as_real", input.dtype)
    return reals(input)


def view_as_complex(input):
    """The kernel of ``standard::view_as_complex``."""
    dtype = complex_dtype(input.dtype)
    check_pairs(input.shape, input.strides, input.dtype.itemsize)
    return storage.view(input.shape[:-1], dtype, input.strides[:-1], storage.pointer(input), input)


def conj_physical(input):
    """The kernel of ``standard::conj_physical``."""
    text = "conj(input)" if input.dtype.kind == "c" else "input"
    return kernel(text, "input", name="conj_physical")(input)
