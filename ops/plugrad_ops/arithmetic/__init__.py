"""Arithmetic, powers, transcendental functions, comparison and selection, element by element."""

from plugrad_ops.arithmetic import (
    aliases,
    comparison,
    division,
    ops,
    rounding,
    selection,
    transcendental,
)

MODULES = (ops, division, transcendental, rounding, comparison, selection, aliases)
