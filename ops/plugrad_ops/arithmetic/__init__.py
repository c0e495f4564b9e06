"""Arithmetic, powers, transcendental functions, comparison and selection, element by element."""

from plugrad_ops.arithmetic import aliases, comparison, ops, selection, transcendental

MODULES = (ops, transcendental, comparison, selection, aliases)
