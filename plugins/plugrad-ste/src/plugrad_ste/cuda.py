"""The CUDA kernel of `fake_quantize`, whose ends depend on `bits`."""

from functools import cache

from .quantize import quantization_range

# To refuse a scale that is not positive would be to wait for the device in every call: there the result is NaN.
EXPRESSION = """
    scale > 0 ? min(max(rint(x / scale), low - rint(zero_point)), high - rint(zero_point)) * scale : NAN
"""


@cache
def _kernel():
    from plugrad.backends.cuda.elementwise import Elementwise

    return Elementwise(
        EXPRESSION,
        inputs=("x", "scale", "zero_point"),
        constants=("low", "high"),
        name="ste::fake_quantize",
    )


def fake_quantize(x, scale, zero_point, *, bits=8, signed=True):
    """The kernel of ``ste::fake_quantize``."""
    low, high = quantization_range(bits, signed)
    if isinstance(scale, int | float) and not scale > 0:
        raise ValueError(f"ste::fake_quantize: scale must be greater than 0, got {scale}")
    return _kernel()(x, scale, zero_point, low=float(low), high=float(high))
