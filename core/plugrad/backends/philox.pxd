from libc.stdint cimport uint32_t, uint64_t


cdef class Stream:
    cdef readonly uint64_t seed
    cdef readonly uint64_t offset


cdef class Counter:
    cdef uint64_t _seed
    cdef uint64_t _offset


cdef enum:
    AT_ONCE = 1024   # a multiple of the words that are made together

cdef void words(uint64_t seed, uint64_t offset, uint64_t first, Py_ssize_t n, uint32_t *out) noexcept nogil
cdef void low_words(uint64_t seed, uint64_t offset, uint64_t first, Py_ssize_t n, uint32_t *out) noexcept nogil
cdef uint64_t bound(double p) noexcept nogil
