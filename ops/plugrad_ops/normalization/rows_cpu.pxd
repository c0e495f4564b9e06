cimport numpy as cnp

from plugrad_ops.normalization.loops cimport Loops

cdef const Loops *loops_of(cnp.ndarray x) noexcept
