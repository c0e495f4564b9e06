"""Fake quantisation: floating numbers that take only the values a small integer can hold.

With v = x / scale, q = rint(v) + zero_point and the range low … high of the integer, the forward
pass is (clip(q, low, high) - zero_point) * scale. The rule takes rint for the identity, and lets the
gradient pass where q lies inside the range, its ends included. Then

==============  ======================  ===========================
derivative by   inside                  outside (nearest end)
==============  ======================  ===========================
x               1                       0
scale           rint(v) - v             end - zero_point
zero_point      0                       -scale
==============  ======================  ===========================

which is the learned step size of Esser et al., arXiv:1902.08153, eq. 3, and the learned offset of
Bhalgat et al., arXiv:2004.09576, eq. 4, with PyTorch's choice of where the range ends
(``torch.fake_quantize_per_tensor_affine`` and ``_fake_quantize_learnable_per_tensor_affine``).
"""

import numpy as np

from plugrad import Tensor, operator, ops

__all__ = ["fake_quantize", "quantization_range"]


def quantization_range(bits, signed=True):
    """Return the smallest and the largest integer of `bits` bits, two's complement if `signed`.

    Raises
    ------
    ValueError
        If `bits` is not a whole number from 1 to 16.
    """
    whole = isinstance(bits, int | np.integer) and not isinstance(bits, bool)
    if not whole or not 1 <= bits <= 16:
        raise ValueError(f"bits must be a whole number from 1 to 16, got {bits!r}")
    bits = int(bits)
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)


def _rint(value):
    """Round; a Python number stays one, so that it leaves the dtype of arrays alone."""
    return np.rint(value) if isinstance(value, np.ndarray | np.generic) else float(np.rint(value))


def _steps(x, scale, zero_point, bits, signed):
    """Return v, what rounding adds to it, the rounded zero point, and both ends relative to it."""
    low, high = quantization_range(bits, signed)
    v, zero = x / scale, _rint(zero_point)
    return v, np.rint(v) - v, zero, low - zero, high - zero


def _learned_step(x, scale, zero_point, *, at, bits, signed):
    # What rounding adds, and on which side of the range a value lies, is read off the point `at`
    # and held there; the rest is differentiable.
    v, residue, zero, low, high = _steps(*at, bits, signed)
    q = v + residue
    moved = zero_point - (at[2] - zero) - zero
    level = np.where(q < low, low - moved, np.where(q > high, high - moved, x / scale + residue))
    return level * scale


def _near_jump(x, scale, zero_point, *, tol, bits, signed):
    """Where a step of relative size `tol` may round `x` or `zero_point` differently."""
    v = x / scale
    half = np.abs(v - np.floor(v) - 0.5) * np.abs(scale) <= tol * (1.0 + np.abs(v))
    return half | (np.abs(zero_point - np.floor(zero_point) - 0.5) <= tol)


@operator(
    "ste::fake_quantize",
    elementwise=True,
    surrogate=_learned_step,
    kinks=_near_jump,
    cuda=".cuda:fake_quantize",
)
def fake_quantize(x, scale, zero_point, *, bits=8, signed=True):
    """Round `x` to the nearest of ``2**bits`` levels, `scale` apart.

    Parameters
    ----------
    x : Tensor
        Values to quantise, of any shape.
    scale : Tensor or float
        Distance of two levels, greater than 0; its gradient is that of a learned step size.
        One number for all of `x`, or a shape that broadcasts, e.g. ``(channels, 1)``.
    zero_point : Tensor or float
        The integer that stands for 0.0, rounded to the nearest; 0 for a symmetric quantiser.
    bits : int, default 8
        Width of the integer, 1 to 16.
    signed : bool, default True
        Integers from ``-2**(bits - 1)`` to ``2**(bits - 1) - 1``, else from 0 to ``2**bits - 1``.

    Returns
    -------
    Tensor
        ``(clip(rint(x / scale) + zero_point, low, high) - zero_point) * scale``.

    Raises
    ------
    ValueError
        If `bits` is out of range, or `scale` is not greater than 0 everywhere; on a CUDA device the
        result is NaN where a scale in a tensor is not.

    Examples
    --------
    >>> import plugrad
    >>> x = plugrad.tensor([-1.0, 0.2, 0.34, 5.0])
    >>> plugrad.ops.ste.fake_quantize(x, 0.25, 0, bits=4).tolist()
    [-1.0, 0.25, 0.25, 1.75]
    """
    if not np.all(np.asarray(scale) > 0):
        smallest = np.min(scale)
        raise ValueError(
            f"ste::fake_quantize: scale must be greater than 0 everywhere, its smallest value is {smallest}"
        )
    low, high = quantization_range(bits, signed)
    zero = _rint(zero_point)
    return np.clip(np.rint(x / scale), low - zero, high - zero) * scale


def _nearest(value):
    """Round a Tensor or a number; nothing flows back, as rounding is flat where it is smooth."""
    return ops.ste.round(value.detach()) if isinstance(value, Tensor) else _rint(value)


@fake_quantize.backward
def _(grad, x, scale, zero_point, bits, signed, needs):
    low, high = quantization_range(bits, signed)
    v, zero = x / scale, _nearest(zero_point)
    rounded = _nearest(v)
    below, above = rounded < low - zero, rounded > high - zero
    by_x = ops.where(below + above, 0.0, grad)
    by_scale = by_zero = None
    if needs.scale:
        inside = ops.where(above, high - zero, rounded - v)
        by_scale = grad * ops.where(below, low - zero, inside)
    if needs.zero_point:
        by_zero = ops.where(below + above, -scale * grad, 0.0)
    return by_x, by_scale, by_zero


@fake_quantize.samples
def _(make):
    # Signed and unsigned, values on both sides of the range, one scale per row, a zero point.
    yield make.call(make.normal(3, 4), make.values(0.4), 0, bits=3)
    yield make.call(
        make.uniform(6, low=-2.0, high=4.0), 0.25, make.values(3.0), bits=4, signed=False
    )
    yield make.call(
        make.uniform(3, 5, low=-3.0, high=3.0),
        make.uniform(3, 1, low=0.2, high=0.9),
        make.values(-1.2),
        bits=2,
    )
    yield make.error(ValueError, "scale", make.normal(3), make.values([0.1, 0.0, 0.1]), 0)
    yield make.error(ValueError, "bits", make.normal(3), make.values(0.1), 0, bits=17)
