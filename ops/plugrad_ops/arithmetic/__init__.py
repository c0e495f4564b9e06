"""Arithmetic, powers, transcendental functions, comparison and selection, element by element."""

from plugrad_ops.arithmetic import aliases, comparison, ops, rounding, selection, transcendental

MODULES = (ops, transcendental, rounding, comparison, selection, aliases)
