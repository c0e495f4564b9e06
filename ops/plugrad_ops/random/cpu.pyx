# cython: boundscheck=False, wraparound=False
"""Dropout in one pass: the words of a block are compared where they were made."""

cimport numpy as cnp
from libc.stdint cimport uint32_t, uint64_t

from plugrad.backends.philox cimport AT_ONCE, Stream, bound, words
from plugrad.backends.recycling cimport fresh

import numpy as np

cnp.import_array()

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
    #define PG_LOOP __attribute__((target_clones("avx2", "default"))) static void
    #else
    #define PG_LOOP static void
    #endif
    /* A mask of bits: a choice between two floats would be a branch, taken at random. */
    #define PG_DROP(T, WORD)                                                                                        \\
        PG_LOOP pg_drop_##T(const uint32_t *w, uint32_t last, const T *x, T scale, T *restrict out, Py_ssize_t n) { \\
            for (Py_ssize_t i = 0; i < n; i++) {                                                                    \\
                T y = x[i] * scale;                                                                                 \\
                WORD bits;                                                                                          \\
                memcpy(&bits, &y, sizeof(T));                                                                       \\
                bits &= (WORD)0 - (WORD)(w[i] > last);                                                              \\
                memcpy(&y, &bits, sizeof(T));                                                                       \\
                out[i] = y;                                                                                         \\
            }                                                                                                       \\
        }
    PG_DROP(float, uint32_t)
    PG_DROP(double, uint64_t)
    """
    void pg_drop_float(const uint32_t *, uint32_t, const float *, float, float *, Py_ssize_t) noexcept nogil
    void pg_drop_double(const uint32_t *, uint32_t, const double *, double, double *, Py_ssize_t) noexcept nogil

ctypedef fused real:
    float
    double


cdef int drop(Stream stream, uint64_t dropped, const real *x, double scale, real *out, Py_ssize_t n) except -1:
    cdef uint32_t w[AT_ONCE]
    cdef Py_ssize_t i = 0, count
    with nogil:
        while i < n:
            count = n - i if n - i < AT_ONCE else AT_ONCE
            words(stream.seed, stream.offset, i, count, w)
            if real is float:
                pg_drop_float(w, <uint32_t>(dropped - 1), x + i, <float>scale, out + i, count)
            else:
                pg_drop_double(w, <uint32_t>(dropped - 1), x + i, scale, out + i, count)
            i += count
    return 0


def dropout(cnp.ndarray input not None, *, double p, Stream generator not None):
    """Zero with probability `p`, else the input times ``1 / (1 - p)``."""
    cdef int number = cnp.PyArray_TYPE(input)
    cdef double scale = 1.0 / (1.0 - p) if p < 1.0 else 0.0
    cdef Py_ssize_t n = cnp.PyArray_SIZE(input)
    cdef cnp.ndarray out
    cdef uint64_t dropped = bound(p)
    if not dropped:
        return input.copy()
    if not cnp.PyArray_ISCARRAY_RO(input) or number not in (cnp.NPY_FLOAT, cnp.NPY_DOUBLE):
        return dropped_of(input, p, scale, generator)
    out = fresh(cnp.PyArray_NDIM(input), cnp.PyArray_DIMS(input), number)
    if number == cnp.NPY_FLOAT:
        drop[float](
            generator, dropped, <const float *>cnp.PyArray_DATA(input), scale, <float *>cnp.PyArray_DATA(out), n
        )
    else:
        drop[double](
            generator, dropped, <const double *>cnp.PyArray_DATA(input), scale, <double *>cnp.PyArray_DATA(out), n
        )
    return out


def dropped_of(input, p, scale, generator):
    """The same in NumPy."""
    number = input.dtype.type
    kept = np.where(generator.chance(input.shape, p), number(0), input * number(scale))
    return kept.astype(input.dtype, copy=False)
