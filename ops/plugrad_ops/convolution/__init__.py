"""Convolution, pooling, and what moves windows over an image."""

from plugrad_ops.convolution import (
    convolutions,
    interpolation,
    maxima,
    ops,
    pooling,
    resampling,
    sampling,
    windows,
)

MODULES = (ops, convolutions, windows, resampling, maxima, pooling, interpolation, sampling)
