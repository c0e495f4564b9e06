"""Sums and means over the dimensions that are marked; see sums.pyx."""

cimport numpy as cnp

from plugrad.backends.real cimport real_type
from plugrad.backends.reducing cimport Loops

# Whether `sums` takes an array.
cdef bint summable(cnp.ndarray x) noexcept


# Whether `summable` holds of an object that is a float32 or float64 array.
cdef inline bint summable_real(object array) noexcept:
    return real_type(array) >= 0 and summable(<cnp.ndarray>array)


cdef cnp.ndarray sums(cnp.ndarray x, const bint *summed, bint keep, bint mean)

# The sums of the products of two such arrays of one type and shape, with dimensions of 1 in place of those that are
# summed; None where they lie differently or with gaps.
cdef object sums_of_products(cnp.ndarray x, cnp.ndarray y, const bint *summed)

# The loops of sums of float32 or float64 numbers, and what a state of theirs comes to.
cdef const Loops *sum_loops(bint wide) noexcept nogil
cdef double sum_of(const double *state, Py_ssize_t apart) noexcept nogil
