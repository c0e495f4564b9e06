cimport numpy as cnp

# An array with arbitrary values, in C order.
cdef cnp.ndarray new_array(int nd, cnp.npy_intp *dims, int type_num)

# One of the same shape, and order of dimensions in memory, as another; with arbitrary values.
cdef cnp.ndarray new_like(cnp.ndarray array, int type_num)

cdef bint is_dense(cnp.ndarray array) noexcept
