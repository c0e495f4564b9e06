cimport numpy as cnp

# An array in C order, copied if it has to be.
cdef cnp.ndarray contiguous(cnp.ndarray array)
