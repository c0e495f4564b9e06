"""Complex numbers: their parts, as views and as values, and complex numbers made of parts."""

from __future__ import annotations

import math

import numpy as np

from plugrad import composite, operator, ops
from plugrad.backends.dtypes import kind
from plugrad_ops.sampling import unary

# ---------------------------------------------------------------------- pairs of real numbers


def real_dtype(dtype):
    """The dtype of the parts of complex numbers."""
    return dtype.type(0).real.dtype


def complex_dtype(dtype):
    """The dtype of complex numbers whose parts are of this one.

    Raises
    ------
    TypeError
        There is none.
    """
    if dtype not in (np.float32, np.float64):
        raise TypeError(
            f"view_as_complex: parts of complex numbers are float32 or float64, got {dtype}"
        )
    return np.result_type(dtype, np.complex64)


def check_complex(name, dtype):
    """Raise RuntimeError where a dtype is not complex."""
    if dtype.kind != "c":
        raise RuntimeError(f"{name}: the input must be complex, got {dtype}")


def check_pairs(shape, strides, itemsize):
    """Raise RuntimeError where real numbers do not lie in memory as the parts of complex ones.

    Parameters
    ----------
    strides : tuple of int
        In bytes.
    """
    if not shape or shape[-1] != 2:
        raise RuntimeError(
            f"view_as_complex: the last dimension holds the two parts, so its size must be 2; got shape {shape}"
        )
    if math.prod(shape) and (
        strides[-1] != itemsize or any(s % (2 * itemsize) for s in strides[:-1])
    ):
        raise RuntimeError(
            "view_as_complex: the two parts must lie side by side in memory, pairs behind one another; got shape "
            f"{shape}, strides {strides} (bytes); contiguous() makes it so"
        )


def _parts_meta(input):
    check_complex("view_as_real", input.dtype)
    return (*input.shape, 2), real_dtype(input.dtype)


@operator(
    "standard::view_as_real",
    dtypes="complex",
    infer=_parts_meta,
    view_of="input",
    cuda=".complex_cuda:view_as_real",
)
def view_as_real(input):
    """The same memory as real numbers, with a last dimension for real and imaginary part.

    Raises
    ------
    RuntimeError
        The input is not complex.
    """
    check_complex("view_as_real", input.dtype)
    return input[..., None].view(real_dtype(input.dtype))


@view_as_real.backward
def _(grad):
    return ops.view_as_complex(ops.contiguous(grad))


@view_as_real.samples
def _(make):
    yield make.call(make.complex(2, 3))
    yield make.call(make.complex())
    yield make.call(make.complex(0, 3))
    yield make.error(RuntimeError, "must be complex", make.normal(3))


def _pairs_meta(input):
    return input.shape[:-1], complex_dtype(input.dtype)


@operator(
    "standard::view_as_complex",
    infer=_pairs_meta,
    view_of="input",
    cuda=".complex_cuda:view_as_complex",
)
def view_as_complex(input):
    """The same memory as complex numbers, whose two parts are in the last dimension.

    Raises
    ------
    RuntimeError
        The last dimension is not of size 2, or the pairs do not lie in memory as complex numbers do.
    TypeError
        There are no complex numbers of such parts.
    """
    dtype = complex_dtype(input.dtype)
    check_pairs(input.shape, input.strides, input.itemsize)
    return input.view(dtype)[..., 0] if input.size else np.empty(input.shape[:-1], dtype)


@view_as_complex.backward
def _(grad):
    return ops.view_as_real(grad)


@view_as_complex.samples
def _(make):
    yield make.call(make.normal(3, 2))
    yield make.call(make.normal(2, 3, 2))
    yield make.call(make.normal(2))
    yield make.error(RuntimeError, "size must be 2", make.normal(2, 3))


@composite("standard::real")
def real(input):
    """The real parts: a view of a complex tensor, a real one itself."""
    return ops.select(ops.view_as_real(input), -1, 0) if input.dtype.kind == "c" else input


@real.samples
def _(make):
    yield make.call(make.complex(2, 3))
    yield make.call(make.complex())
    yield make.call(make.normal(3))


@composite("standard::imag")
def imag(input):
    """The imaginary parts, a view.

    Raises
    ------
    RuntimeError
        The input is not complex.
    """
    check_complex("imag", input.dtype)
    return ops.select(ops.view_as_real(input), -1, 1)


@imag.samples
def _(make):
    yield make.call(make.complex(2, 3))
    yield make.call(make.complex())
    yield make.call(make.complex(0, 2))
    yield make.error(RuntimeError, "must be complex", make.normal(3))


@composite("standard::complex")
def complex(real, imag):
    """Complex numbers of these parts, which broadcast.

    Raises
    ------
    RuntimeError
        The two dtypes differ.
    """
    if real.dtype != imag.dtype:
        raise RuntimeError(
            f"complex: real and imag must be of one dtype, got {real.dtype} and {imag.dtype}"
        )
    return ops.view_as_complex(ops.stack(ops.broadcast_tensors(real, imag), -1))


@complex.samples
def _(make):
    yield make.call(make.normal(2, 3), make.normal(2, 3))
    yield make.call(make.normal(3), make.normal(2, 1))
    yield make.call(make.normal(), make.normal())
    yield make.error(RuntimeError, "one dtype", make.normal(3), make.integers(3))


# ------------------------------------------------------------------------ size, angle, conjugate


@operator(
    "standard::conj_physical",
    elementwise=True,
    dtypes={"input": "number"},
    cuda=".complex_cuda:conj_physical",
    method=True,
)
def conj_physical(input):
    """The complex conjugate, in a new tensor."""
    return np.conjugate(input)


@conj_physical.backward
def _(grad):
    return ops.conj_physical(grad)


@conj_physical.samples
def _(make):
    yield from unary(make)
    yield make.call(make.complex(2, 3))


@composite("standard::conj")
def conj(input):
    """The complex conjugate; a real tensor itself."""
    return input.conj()


@composite("standard::resolve_conj", method=True)
def resolve_conj(input):
    """The tensor itself: a conjugate is always carried out."""
    return input


@composite("standard::resolve_neg", method=True)
def resolve_neg(input):
    """The tensor itself: a change of sign is always carried out."""
    return input


def _real_and_complex(make):
    yield make.call(make.complex(2, 3))
    yield make.call(make.complex())
    yield make.call(make.normal(3))


conj.samples(_real_and_complex)
resolve_conj.samples(_real_and_complex)
resolve_neg.samples(_real_and_complex)


@operator(
    "standard::sgn",
    elementwise=True,
    dtypes={"input": "number"},
    kinks={0.0: 0.0},
    cuda="sign(input)",
    method=True,
)
def sgn(input):
    """Each number divided by its size, 0 for 0; of real numbers the sign. The derivative at 0 is 0."""
    return np.sign(input)


@sgn.backward
def _(grad, input, out):
    if input.dtype.kind != "c":
        return ops.zeros_like(grad)
    # What of the gradient points along the circle: (g - out**2 conj(g)) / 2, over the radius.
    size = ops.abs(input)
    none = size == 0
    along = (grad - out * out * grad.conj()) * 0.5
    return ops.where(none, 0, along / ops.where(none, 1, size))


@sgn.samples
def _(make):
    yield from unary(make)
    yield make.call(make.values([-1.0, 0.0, 2.0]))
    yield make.call(make.complex(2, 3))


@composite("standard::angle", method=True, kinks=lambda input, *, tol: np.abs(input) <= tol)
def angle(input):
    """The angle of a complex number in (-pi, pi]; of a real one 0 or pi, and NaN for NaN. The derivative at 0 is 0."""
    if input.dtype.kind == "c":
        return ops.atan2(ops.imag(input), ops.real(input))
    if kind(input.dtype) != "f":
        input = ops.cast(input, dtype=np.dtype(np.float32))
    return ops.where(ops.isnan(input), input.detach(), ops.where(input < 0, math.pi, input * 0))


@angle.samples
def _(make):
    yield make.call(make.complex(2, 3))
    yield make.call(make.complex())
    yield make.call(make.distinct(3))
    yield make.call(make.integers(3, low=-3))


@composite("standard::polar")
def polar(abs, angle):
    """Complex numbers of these sizes and angles."""
    return ops.complex(abs * ops.cos(angle), abs * ops.sin(angle))


@polar.samples
def _(make):
    yield make.call(make.positive(2, 3), make.normal(2, 3))
    yield make.call(make.positive(3), make.normal(2, 1))
    yield make.call(make.positive(), make.normal())
