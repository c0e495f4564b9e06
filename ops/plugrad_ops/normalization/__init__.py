"""Normalisation over batches, layers, groups and instances, and attention."""

MODULES = ()
