"""Normalisation over batches, layers, groups and instances, and attention."""

from plugrad_ops.normalization import attention, batch, layers, rows

MODULES = (rows, batch, layers, attention)
