"""Arithmetic, powers, transcendental and special functions, comparison and selection, element by element."""

from plugrad_ops.arithmetic import (
    aliases,
    angles,
    bessel,
    blending,
    closeness,
    comparison,
    complex,
    division,
    ops,
    rounding,
    scaled,
    selection,
    signs,
    special,
    transcendental,
    whole,
)

MODULES = (
    ops,
    complex,
    division,
    scaled,
    transcendental,
    special,
    bessel,
    angles,
    rounding,
    whole,
    comparison,
    closeness,
    signs,
    selection,
    blending,
    aliases,
)
