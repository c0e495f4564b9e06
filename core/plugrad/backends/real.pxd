"""Which arrays a compiled loop takes: those of float32 or float64 numbers."""

cimport numpy as cnp


cdef inline int real_type(object array) noexcept:
    """The number of the dtype of a float32 or float64 array; -1 of anything else."""
    cdef int number
    if not cnp.PyArray_CheckExact(array):
        return -1
    number = cnp.PyArray_TYPE(<cnp.ndarray>array)
    return number if number == cnp.NPY_FLOAT or number == cnp.NPY_DOUBLE else -1


cdef inline bint is_real(object array) noexcept:
    """Whether it is a float32 or float64 array that a loop may read as it lies: aligned, in native byte order."""
    return real_type(array) >= 0 and cnp.PyArray_ISBEHAVED_RO(<cnp.ndarray>array)
