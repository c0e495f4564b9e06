"""A checksum of an array's values: fast enough to be taken of everything that is saved.

(a) Eight lanes of 64 bits, each ``h = rotate((h ^ word) * odd)``: for equal rest, every change of one word changes
    the result, and the rotation keeps changes of high bits (signs) from cancelling. About as fast as memory is read.
(b) It tells values apart, not authors: it finds accidents, and is no protection against somebody who wants a collision.
(c) The value depends on the order of elements in memory, so equal values in another layout have another checksum.
    Elements that share memory (stride 0) count once.
(d) Of long arrays each block has a value of its own, so that threads can share them, and these are mixed in turn.
"""
from importlib import import_module

import numpy as np

cimport numpy as cnp
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from plugrad.backends.parallel cimport parallel_for
from plugrad.graph.backend cimport Backend, backend_of

cnp.import_array()

# Releasing and taking the GIL costs more than this many bytes.
cdef enum:
    NOGIL_FROM = 65536
    BLOCK = 131072


def checksum(array):
    """64 bits that differ, with all but certainty, when the values of two arrays of one layout do.

    Parameters
    ----------
    array : array of a known backend
        Of any dtype and layout. An array that is not in host memory is summed where it is, in the order of its
        elements; its checksum has nothing to do with that of the same values on the host.

    Returns
    -------
    int
    """
    cdef Backend backend
    if not isinstance(array, np.ndarray):
        backend = backend_of(array)
        if backend is None:
            raise TypeError(f"checksum() takes an array, got {type(array).__name__}")
        return import_module(f"plugrad.backends.{backend.name}.inspection").checksum(array)
    cdef cnp.ndarray found = <cnp.ndarray>packed_in_memory(array)
    cdef const uint8_t *data = <const uint8_t *>cnp.PyArray_DATA(found)
    cdef Py_ssize_t size = cnp.PyArray_NBYTES(found)
    cdef uint64_t value
    if size < NOGIL_FROM:
        return mixed(data, size)
    with nogil:
        value = mixed_in_blocks(data, size)
    return value


cdef object packed_in_memory(cnp.ndarray array):
    """The array if its elements lie without gaps, in C or Fortran order; else a copy that does."""
    if cnp.PyArray_IS_C_CONTIGUOUS(array) or cnp.PyArray_IS_F_CONTIGUOUS(array):
        return array
    if 0 in (<object>array).strides:
        array = array[tuple([slice(0, 1) if step == 0 else slice(None) for step in (<object>array).strides])]
    return np.ascontiguousarray(array)


cdef inline uint64_t rotated(uint64_t x) noexcept nogil:
    return (x << 29) | (x >> 35)


cdef uint64_t ODD = 0x9E3779B97F4A7C15u


cdef uint64_t mixed(const uint8_t *data, Py_ssize_t size) noexcept nogil:
    cdef uint64_t odd = 0x9E3779B97F4A7C15u
    cdef uint64_t lanes[8]
    cdef uint64_t words[8]
    cdef uint64_t result = <uint64_t>size * odd
    cdef Py_ssize_t i, left
    cdef int k
    for k in range(8):
        lanes[k] = odd * (k + 1)
    for i in range(0, size - 63, 64):
        memcpy(words, data + i, 64)
        for k in range(8):
            lanes[k] = rotated((lanes[k] ^ words[k]) * odd)
    left = size & 63
    if left:
        for k in range(8):
            words[k] = 0
        memcpy(words, data + size - left, left)
        for k in range(8):
            lanes[k] = rotated((lanes[k] ^ words[k]) * odd)
    for k in range(8):
        result = rotated((result ^ lanes[k] ^ (lanes[k] >> 32)) * odd)
    return result ^ (result >> 31)


cdef struct Blocks:
    const uint8_t *data
    Py_ssize_t size
    uint64_t *values


cdef void mix_some(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Blocks *blocks = <Blocks *>context
    cdef Py_ssize_t i
    for i in range(begin, end):
        blocks.values[i] = mixed(blocks.data + i * BLOCK, min(<Py_ssize_t>BLOCK, blocks.size - i * BLOCK))


cdef uint64_t mixed_in_blocks(const uint8_t *data, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t many = (size + BLOCK - 1) // BLOCK
    cdef Blocks blocks
    cdef uint64_t result
    cdef Py_ssize_t i
    blocks.data, blocks.size = data, size
    blocks.values = <uint64_t *>malloc(many * sizeof(uint64_t))
    if blocks.values == NULL:  # one after the other then, to the same result
        result = 0
        for i in range(many):
            result = rotated((result ^ mixed(data + i * BLOCK, min(<Py_ssize_t>BLOCK, size - i * BLOCK))) * ODD)
        return result
    parallel_for(many, 1, mix_some, &blocks)
    result = 0
    for i in range(many):
        result = rotated((result ^ blocks.values[i]) * ODD)
    free(blocks.values)
    return result
