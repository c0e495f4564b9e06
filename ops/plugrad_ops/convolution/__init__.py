"""Convolution, pooling, and what moves windows over an image."""

MODULES = ()
