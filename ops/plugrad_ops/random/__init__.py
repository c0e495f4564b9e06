"""Random numbers: fills, choices, and operators that drop."""

from plugrad_ops.random import choices, dropout, fills

MODULES = (fills, choices, dropout)
