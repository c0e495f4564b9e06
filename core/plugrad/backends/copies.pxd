cimport numpy as cnp

# Writes an array over another of the same dtype, to whose shape it broadcasts; the two share no memory.
cdef int copy_over(cnp.ndarray out, cnp.ndarray array) except -1
