# cython: boundscheck=False, wraparound=False
"""Random numbers by counting: Philox4x32-10 on the CPU, the same numbers as on a CUDA device.

(a) A *stream* is two integers, (seed, offset), and stands for 2**64 blocks of four 32-bit words: block b is the
    Philox cipher of the counter (b, offset) under the key `seed` (Salmon, Moraes, Dror and Shaw, "Parallel random
    numbers: as easy as 1, 2, 3", SC 2011). A number depends on its place in the stream alone, so neither threads nor
    the order of computation matter, and two integers bring a whole mask back.
(b) Element i, counted in C order, takes word i % 4 of block i // 4. What needs 64 bits takes its low half from the
    same word of block i // 4 + 2**63. So numbers of different dtypes agree: a float32 is the float64 of the same
    element with the bits cut off that it has no room for, and an operator's gradient can be checked in every dtype.
(c) Uniform numbers are k * 2**-n with n = 53, 24, 11 or 8 bits (float64, float32, float16, bfloat16), never 1. Normal
    ones come in pairs by Box and Muller: of elements 2j and 2j + 1 the first gives the radius, the second the angle.
    Logarithm and sine are plain arithmetic here, so that loops vectorise and the bits are the same on every machine; on
    a device they are equal to rounding.
(d) Integers below a bound are the high half of a product with 64 random bits: one of n comes up too often by n / 2**64
    at most. A chance p is rounded to float32 and compared with one word.
"""
import operator

import numpy as np

cimport numpy as cnp
from libc.math cimport ceilf
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from plugrad.backends.philox_loops cimport (
    PG_LANES, PG_NEXT, pg_below, pg_exponential_double, pg_exponential_float, pg_integers, pg_normal_double,
    pg_normal_float, pg_uniform_double, pg_uniform_float, pg_uniform_half, pg_words
)

from plugrad.backends.dtypes import as_dtype, is_bfloat16

cnp.import_array()

cdef uint64_t LOW_BLOCKS = <uint64_t>1 << 63


# ---- words -------------------------------------------------------------------------------------------------

cdef void words(uint64_t seed, uint64_t offset, uint64_t first, Py_ssize_t n, uint32_t *out) noexcept nogil:
    """The words of elements `first` (a multiple of 4) and the n - 1 after it; `out` has room for AT_ONCE."""
    pg_words(seed, offset, first // 4, (n + 4 * PG_LANES - 1) // (4 * PG_LANES), out)


cdef void low_words(uint64_t seed, uint64_t offset, uint64_t first, Py_ssize_t n, uint32_t *out) noexcept nogil:
    """The low halves of the same elements."""
    pg_words(seed, offset, LOW_BLOCKS + first // 4, (n + 4 * PG_LANES - 1) // (4 * PG_LANES), out)


cdef uint64_t bound(double p) noexcept nogil:
    """How many of the 2**32 words mean yes for a chance of p."""
    return <uint64_t>ceilf(<float>p * <float>4294967296.0)


# ---- filling arrays ----------------------------------------------------------------------------------------

ctypedef void (*FloatLoop)(const uint32_t *, const uint32_t *, float *, Py_ssize_t) noexcept nogil
ctypedef void (*DoubleLoop)(const uint32_t *, const uint32_t *, double *, Py_ssize_t) noexcept nogil


cdef int fill_floats(Stream stream, FloatLoop loop, float *out, Py_ssize_t n) except -1:
    cdef uint32_t w[AT_ONCE]
    cdef float last[AT_ONCE]
    cdef Py_ssize_t i = 0, count
    with nogil:
        while i < n:
            count = n - i if n - i < AT_ONCE else AT_ONCE
            words(stream.seed, stream.offset, i, count, w)
            if count % 2 == 0:
                loop(w, w, out + i, count)
            else:  # the last pair ends behind the array
                loop(w, w, last, count + 1)
                memcpy(out + i, last, count * sizeof(float))
            i += count
    return 0


cdef int fill_doubles(Stream stream, DoubleLoop loop, double *out, Py_ssize_t n) except -1:
    cdef uint32_t w[AT_ONCE]
    cdef uint32_t v[AT_ONCE]
    cdef double last[AT_ONCE]
    cdef Py_ssize_t i = 0, count
    with nogil:
        while i < n:
            count = n - i if n - i < AT_ONCE else AT_ONCE
            words(stream.seed, stream.offset, i, count, w)
            low_words(stream.seed, stream.offset, i, count, v)
            if count % 2 == 0:
                loop(w, v, out + i, count)
            else:  # the last pair ends behind the array
                loop(w, v, last, count + 1)
                memcpy(out + i, last, count * sizeof(double))
            i += count
    return 0


cdef cnp.ndarray filled(Stream stream, object shape, object dtype, FloatLoop loop, DoubleLoop wide, FloatLoop half):
    """An array of floats; float16 and bfloat16 are computed in float."""
    cdef object asked = as_dtype(dtype)
    cdef cnp.ndarray out
    if asked != np.float64 and asked != np.float32 and asked != np.float16 and not is_bfloat16(asked):
        raise TypeError(f"random numbers of dtype {asked} are not offered; float16, float32, float64 and bfloat16 are")
    out = np.empty(shape, np.float64 if asked == np.float64 else np.float32)
    fill(stream, out, loop if asked == np.float32 else half, wide)
    return out if asked == out.dtype else out.astype(asked)


cdef int fill(Stream stream, cnp.ndarray out, FloatLoop loop, DoubleLoop wide) except -1:
    """Fill an array of floats or doubles in C order."""
    if cnp.PyArray_TYPE(out) == cnp.NPY_DOUBLE:
        return fill_doubles(stream, wide, <double *>cnp.PyArray_DATA(out), cnp.PyArray_SIZE(out))
    return fill_floats(stream, loop, <float *>cnp.PyArray_DATA(out), cnp.PyArray_SIZE(out))


cdef bint fits(cnp.ndarray out) noexcept:
    """Whether an array can be filled where it is."""
    cdef int number = cnp.PyArray_TYPE(out)
    return cnp.PyArray_ISCARRAY(out) and (number == cnp.NPY_FLOAT or number == cnp.NPY_DOUBLE)


# ---- streams -----------------------------------------------------------------------------------------------

cdef class Stream:
    """Random numbers that two integers stand for: what a Generator's draw gives, and what a random operator is passed.

    Immutable and hashable; every method gives the same numbers each time, whatever the device, the number of threads
    or what was asked before. Methods of one stream share their bits: an operator that needs several independent
    numbers per element asks for an array with one more dimension.

    Parameters
    ----------
    seed, offset : int
        From 0 to 2**64 - 1.

    Examples
    --------
    >>> stream = plugrad.Generator().manual_seed(7).draw()
    >>> kept = stream.chance((3, 4), 0.9)
    """

    def __init__(self, seed, offset=0):
        self.seed = in_64_bits("seed", seed)
        self.offset = in_64_bits("offset", offset)

    def bits(self, shape):
        """Words: uint32 with all bits random."""
        cdef cnp.ndarray out = np.empty(shape, np.uint32)
        cdef uint32_t w[AT_ONCE]
        cdef uint32_t *to = <uint32_t *>cnp.PyArray_DATA(out)
        cdef Py_ssize_t i = 0, count, n = cnp.PyArray_SIZE(out)
        with nogil:
            while i < n:
                count = n - i if n - i < AT_ONCE else AT_ONCE
                words(self.seed, self.offset, i, count, w)
                memcpy(to + i, w, count * sizeof(uint32_t))
                i += count
        return out

    def block(self, number):
        """The four words of one block, as integers."""
        cdef uint32_t w[AT_ONCE]
        pg_words(self.seed, self.offset, in_64_bits("block", number), 1, w)
        return w[0], w[1], w[2], w[3]

    def uniform(self, shape, dtype=np.float32):
        """Uniform in [0, 1)."""
        if is_bfloat16(as_dtype(dtype)):  # cut off, not rounded
            return (np.floor(self.uniform(shape) * 256) / 256).astype(as_dtype(dtype))
        return filled(self, shape, dtype, pg_uniform_float, pg_uniform_double, pg_uniform_half)

    def normal(self, shape, dtype=np.float32):
        """Standard normal, by Box and Muller."""
        return filled(self, shape, dtype, pg_normal_float, pg_normal_double, pg_normal_float)

    def exponential(self, shape, dtype=np.float32):
        """Exponential with mean 1; 0 in float16 only."""
        return filled(self, shape, dtype, pg_exponential_float, pg_exponential_double, pg_exponential_float)

    def fill_uniform(self, cnp.ndarray out not None):
        """Write `uniform` into an array of any layout."""
        if fits(out):
            fill(self, out, pg_uniform_float, pg_uniform_double)
        else:
            out[...] = self.uniform((<object>out).shape, out.dtype)

    def fill_normal(self, cnp.ndarray out not None):
        """Write `normal` into an array of any layout."""
        if fits(out):
            fill(self, out, pg_normal_float, pg_normal_double)
        else:
            out[...] = self.normal((<object>out).shape, out.dtype)

    def integers(self, shape, low, high, dtype=np.int64):
        """Integers from `low` up to, but not including, `high`; the same numbers in every dtype.

        Raises
        ------
        ValueError
            `low` is not below `high`, or the two are further apart than 2**64.
        """
        low, high = operator.index(low), operator.index(high)
        if not 0 < high - low <= 2**64:
            raise ValueError(f"integers are drawn from low up to high, got low={low} and high={high}")
        cdef cnp.ndarray out = np.empty(shape, np.uint64)
        cdef uint32_t w[AT_ONCE]
        cdef uint32_t v[AT_ONCE]
        cdef uint64_t *to = <uint64_t *>cnp.PyArray_DATA(out)
        cdef uint64_t start = low % 2**64, span = (high - low) % 2**64
        cdef Py_ssize_t i = 0, count, n = cnp.PyArray_SIZE(out)
        with nogil:
            while i < n:
                count = n - i if n - i < AT_ONCE else AT_ONCE
                words(self.seed, self.offset, i, count, w)
                low_words(self.seed, self.offset, i, count, v)
                pg_integers(w, v, start, span, to + i, count)
                i += count
        dtype = np.dtype(dtype)
        return out if dtype == np.uint64 else out.view(np.int64).astype(dtype, copy=False)

    def chance(self, shape, p):
        """True with probability `p`, which is a number or an array that broadcasts to `shape`.

        `p` is rounded to float32; at 0 and below, and for NaN, never true, at 1 and above always.
        """
        if isinstance(p, np.ndarray):
            limit = np.ceil(p.astype(np.float32) * np.float32(2**32))
            return self.bits(shape) < np.nan_to_num(limit, nan=0.0).clip(0, 2**32).astype(np.uint64)
        cdef cnp.ndarray out = np.empty(shape, np.bool_)
        cdef uint32_t w[AT_ONCE]
        cdef uint8_t *to = <uint8_t *>cnp.PyArray_DATA(out)
        cdef double chance = p
        cdef uint64_t yes = bound(1.0 if chance > 1 else chance if chance > 0 else 0.0)
        cdef Py_ssize_t i = 0, count, n = cnp.PyArray_SIZE(out)
        with nogil:
            while i < n:
                count = n - i if n - i < AT_ONCE else AT_ONCE
                words(self.seed, self.offset, i, count, w)
                pg_below(w, yes, to + i, count)
                i += count
        return out

    @property
    def packed(self):
        """Its 16 bytes as a CUDA kernel takes them."""
        cdef uint64_t[2] both
        both[0] = self.seed
        both[1] = self.offset
        return (<char *>both)[:16]

    def __eq__(self, other):
        if type(other) is not Stream:
            return NotImplemented
        return self.seed == (<Stream>other).seed and self.offset == (<Stream>other).offset

    def __hash__(self):
        return hash((self.seed, self.offset))

    def __reduce__(self):
        return Stream, (self.seed, self.offset)

    def __repr__(self):
        return f"Stream(seed={self.seed}, offset={self.offset})"


cdef class Counter:
    """The state of a generator: a seed, and how many streams were drawn under it."""

    def draw(self):
        """The next stream. Threads that draw at the same time get different ones."""
        cdef uint64_t offset = PG_NEXT(&self._offset)
        cdef Stream stream = Stream.__new__(Stream)
        stream.seed = self._seed
        stream.offset = offset
        return stream

    def _get(self):
        """(seed, offset)."""
        return self._seed, self._offset

    def _set(self, seed, offset):
        self._seed = in_64_bits("seed", seed)
        self._offset = in_64_bits("offset", offset)


cdef uint64_t in_64_bits(str name, object value) except? 0:
    value = operator.index(value)
    if not 0 <= value < 2**64:
        raise ValueError(f"a stream's {name} is from 0 to 2**64 - 1, got {value}")
    return value
