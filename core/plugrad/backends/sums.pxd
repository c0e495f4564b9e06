"""Sums and means over the dimensions that are marked; see sums.pyx."""

cimport numpy as cnp

# Whether `sums` takes an array.
cdef bint summable(cnp.ndarray x) noexcept

cdef cnp.ndarray sums(cnp.ndarray x, const bint *summed, bint keep, bint mean)
