# cython: boundscheck=False, wraparound=False
"""Dropout in one pass: the words of a block are compared where they were made.

A word depends on its place alone, so threads may share an array in any way.
"""

cimport numpy as cnp
from libc.stdint cimport uint32_t, uint64_t

from plugrad.backends.copies cimport copy_over
from plugrad.backends.parallel cimport parallel_for
from plugrad.backends.philox cimport AT_ONCE, Stream, bound, words
from plugrad.backends.recycling cimport fresh
cimport plugrad.backends.simd  # its macros  # no-cython-lint

import numpy as np

cnp.import_array()

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* A mask of bits: a choice between two floats would be a branch, taken at random. */
    #define PG_DROP(T, WORD)                                                                                   \\
        PG_VECTOR static void pg_drop_##T(const uint32_t *w, uint32_t last, const T *x, T scale,               \\
                                          T *restrict out, Py_ssize_t n) {                                     \\
            for (Py_ssize_t i = 0; i < n; i++) {                                                               \\
                T y = x[i] * scale;                                                                            \\
                WORD bits;                                                                                     \\
                memcpy(&bits, &y, sizeof(T));                                                                  \\
                bits &= (WORD)0 - (WORD)(w[i] > last);                                                         \\
                memcpy(&y, &bits, sizeof(T));                                                                  \\
                out[i] = y;                                                                                    \\
            }                                                                                                  \\
        }
    PG_DROP(float, uint32_t)
    PG_DROP(double, uint64_t)
    """
    void pg_drop_float(const uint32_t *, uint32_t, const float *, float, float *, Py_ssize_t) noexcept nogil
    void pg_drop_double(const uint32_t *, uint32_t, const double *, double, double *, Py_ssize_t) noexcept nogil

cdef enum:
    GRAIN = 8 * AT_ONCE  # elements that a thread takes at a time: whole blocks of words


cdef struct Job:
    uint64_t seed, offset
    uint32_t last               # the greatest word that drops
    bint double
    double scale
    const char *x
    char *out


cdef void drop(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef uint32_t w[AT_ONCE]
    cdef Py_ssize_t i = begin, count
    while i < end:
        count = min(end - i, <Py_ssize_t>AT_ONCE)
        words(job.seed, job.offset, i, count, w)
        if job.double:
            pg_drop_double(
                w, job.last, <const double *>job.x + i, job.scale, <double *>job.out + i, count
            )
        else:
            pg_drop_float(
                w, job.last, <const float *>job.x + i, <float>job.scale, <float *>job.out + i, count
            )
        i += count


def dropout(cnp.ndarray input not None, *, double p, Stream generator not None):
    """Zero with probability `p`, else the input times ``1 / (1 - p)``."""
    cdef int number = cnp.PyArray_TYPE(input)
    cdef double scale = 1.0 / (1.0 - p) if p < 1.0 else 0.0
    cdef Py_ssize_t n = cnp.PyArray_SIZE(input)
    cdef cnp.ndarray out
    cdef uint64_t dropped = bound(p)
    cdef Job job
    if not dropped:
        return input.copy()
    if not cnp.PyArray_ISBEHAVED_RO(input) or number not in (cnp.NPY_FLOAT, cnp.NPY_DOUBLE):
        return dropped_of(input, p, scale, generator)
    if not cnp.PyArray_IS_C_CONTIGUOUS(input):  # words are counted in C order
        out = fresh(cnp.PyArray_NDIM(input), cnp.PyArray_DIMS(input), number)
        copy_over(out, input)
        input = out
    out = fresh(cnp.PyArray_NDIM(input), cnp.PyArray_DIMS(input), number)
    job.seed, job.offset, job.last = generator.seed, generator.offset, <uint32_t>(dropped - 1)
    job.double, job.scale = number == cnp.NPY_DOUBLE, scale
    job.x, job.out = cnp.PyArray_BYTES(input), cnp.PyArray_BYTES(out)
    with nogil:
        parallel_for(n, GRAIN, drop, &job)
    return out


def dropped_of(input, p, scale, generator):
    """The same in NumPy."""
    number = input.dtype.type
    kept = np.where(generator.chance(input.shape, p), number(0), input * number(scale))
    return kept.astype(input.dtype, copy=False)
