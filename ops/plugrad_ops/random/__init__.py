"""Random numbers: fills, choices, and operators that drop."""

MODULES = ()
