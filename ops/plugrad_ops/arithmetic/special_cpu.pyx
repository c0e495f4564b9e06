# cython: boundscheck=False, wraparound=False
"""CPU loops of the special functions that NumPy lacks; `special.cuh` holds the formulas."""

cimport numpy as cnp
import numpy as np

cnp.import_array()


cdef extern from "special.cuh":
    double special_digamma(double x) noexcept nogil
    double special_polygamma(int order, double x) noexcept nogil
    double special_erfinv(double x) noexcept nogil
    double special_sinc(int order, double x) noexcept nogil
    double special_bessel(int order, double x) noexcept nogil
    double special_bessel_scaled(int order, double x) noexcept nogil

cdef extern from "<math.h>":
    double c_lgamma "lgamma"(double x) noexcept nogil

ctypedef double (*function)(double) noexcept nogil
ctypedef double (*family)(int, double) noexcept nogil


cdef tuple work_of(object input):
    """The elements as doubles in C order, and room for as many results."""
    cdef object x = np.asarray(input)
    return np.ascontiguousarray(x, dtype=np.float64).reshape(x.shape), np.empty(x.shape), x.dtype


cdef object apply(object input, function f):
    x, out, dtype = work_of(input)
    cdef const double *source = <const double *>cnp.PyArray_DATA(<cnp.ndarray>x)
    cdef double *target = <double *>cnp.PyArray_DATA(<cnp.ndarray>out)
    cdef Py_ssize_t i, n = cnp.PyArray_SIZE(<cnp.ndarray>x)
    with nogil:
        for i in range(n):
            target[i] = f(source[i])
    return out.astype(dtype, copy=False)


cdef object apply_order(object input, int order, family f):
    x, out, dtype = work_of(input)
    cdef const double *source = <const double *>cnp.PyArray_DATA(<cnp.ndarray>x)
    cdef double *target = <double *>cnp.PyArray_DATA(<cnp.ndarray>out)
    cdef Py_ssize_t i, n = cnp.PyArray_SIZE(<cnp.ndarray>x)
    with nogil:
        for i in range(n):
            target[i] = f(order, source[i])
    return out.astype(dtype, copy=False)


def lgamma(input):
    """The logarithm of the absolute value of the gamma function."""
    return apply(input, c_lgamma)


def digamma(input):
    """The logarithmic derivative of the gamma function."""
    return apply(input, special_digamma)


def polygamma(input, int order):
    """The derivative number `order` of `digamma`."""
    return apply_order(input, order, special_polygamma)


def erfinv(input):
    """The inverse of the error function."""
    return apply(input, special_erfinv)


def sinc(input, int order):
    """The derivative number `order` of sin(pi x) / (pi x)."""
    return apply_order(input, order, special_sinc)


def bessel(input, int order, bint scaled):
    """The modified Bessel function of the first kind; `scaled`: times exp(-|x|)."""
    return apply_order(input, order, special_bessel_scaled if scaled else special_bessel)
