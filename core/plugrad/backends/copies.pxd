cimport numpy as cnp

# Writes an array over another of the same dtype, to whose shape it broadcasts; the two share no memory.
cdef int copy_over(cnp.ndarray out, cnp.ndarray array) except -1

# Whether the elements fill their memory without gaps, in some order of dimensions.
cdef bint is_flat(cnp.ndarray array) noexcept

# Whether two arrays of one shape have their elements in the same order, with the same gaps.
cdef bint lie_alike(cnp.ndarray x, cnp.ndarray y) noexcept

# An array as it is, or a copy if it has to be: without gaps; in C order; where the elements of `x` lie, to whose shape
# it broadcasts. Copies are aligned.
cdef cnp.ndarray flat(cnp.ndarray array)
cdef cnp.ndarray contiguous(cnp.ndarray array)
cdef cnp.ndarray laid_out_as(cnp.ndarray array, cnp.ndarray x)

# The same as copies in any case, which own their memory.
cdef cnp.ndarray copy_in_order(cnp.ndarray array)
cdef cnp.ndarray copy_laid_out_as(cnp.ndarray array, cnp.ndarray x)
