"""GPUArrays as storage: making one in the time of a few dictionary entries.

(a) `GPUArray.__init__` costs more than a launch. An array made here is a `DeviceArray`: a GPUArray whose
    rarely needed attributes are computed when asked for.
(b) An array that owns its memory has the address in `gpudata` and a `Memory` in `base`; a view has the owning array
    there. So "owns its memory" is a comparison of types, and a view keeps the array itself alive, which is what
    the engine counts references to.
(c) `Memory` counts the bytes in use: they fall when the last array on it is gone.
(d) The emulated device is told how many bytes of a pooled block are in use, so that it finds what lies beyond
    them, and in freed blocks, out of bounds.
(e) A block belongs to the stream that it was allocated on, whose pool gives it away again in the order of that stream
    alone. A launch on another stream leaves a note in the block (one comparison of pointers per array, none before a
    stream is made). A block with notes waits, when it is freed, for events on the streams in them before its pool
    gets it back. What a kernel reads through an address that it was not given as an array, the user has to tell:
    `record_stream`.
"""
cimport cython
from cpython.long cimport PyLong_AsUnsignedLongLong, PyLong_Check
from cpython.ref cimport Py_INCREF

from collections import deque

from plugrad.backends.cuda.context cimport Stream, current, ensure, several_streams

import numpy as np

from plugrad.backends.cuda import device, memory
from plugrad.backends.cuda.context import failed

cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX

cdef extern from *:
    """
    static PyObject *plugrad_plain_new(PyObject *type, PyObject *empty) {
        return ((PyTypeObject *)type)->tp_new((PyTypeObject *)type, empty, NULL);
    }
    """
    object plugrad_plain_new(object type, tuple empty)

cdef object _array_class = None
cdef object _set_extent = None
cdef Py_ssize_t _allocated = 0, _peak = 0, _blocks = 0
cdef object _waiting = deque()  # of Freed, the oldest first


@cython.no_gc  # never part of a cycle; a collector that cleared it would free the memory behind the counters
cdef class Memory:
    """A block of device memory; it goes back to its pool with the last array on it.

    Attributes
    ----------
    pointer : int
    nbytes : int
        What was asked for.
    """

    def __dealloc__(self):
        global _allocated, _blocks
        if self.allocation is None:
            return
        _allocated -= self.nbytes
        _blocks -= 1
        if self.used is not None:
            put_aside(self)
            return
        try:
            if _set_extent is not None:
                _set_extent(self.pointer, 0, self.stream.ptr)
            ensure()  # whatever thread this is: a pool that takes a block back aborts without a context
        except Exception:
            block = [self.allocation]
            self.allocation = None
            if not device.free_late(block):
                Py_INCREF(block)  # the process ends, or is a child of the one that has the memory

    def __repr__(self):
        return f"<{self.nbytes} bytes of device memory at {self.pointer:#x}>"


# ---- blocks that other streams used ------------------------------------------------------------------------

@cython.no_gc
cdef class Freed:
    """A block that nobody holds any more, and the streams that may still read it."""

    cdef object allocation, events
    cdef list used
    cdef Stream stream
    cdef unsigned long long pointer

    cdef int mark(self) except -1:
        """Record an event on each of the streams."""
        if self.events is None:
            self.events = [(<Stream>stream).record_event() for stream in self.used]
        return 0

    cdef int release(self) except -1:
        """Give the block to its pool."""
        if _set_extent is not None:
            _set_extent(self.pointer, 0, self.stream.ptr)
        self.allocation = None
        return 0


cdef int put_aside(Memory block) except -1:
    cdef Freed freed = Freed.__new__(Freed)
    freed.allocation, freed.used = block.allocation, block.used
    freed.stream, freed.pointer = block.stream, block.pointer
    block.allocation = None
    _waiting.append(freed)
    try:
        freed.mark()
    except Exception:
        pass  # this thread is ending: the next one that needs memory does it
    return 0


cpdef int reclaim(bint wait=False) except -1:
    """Give the blocks to their pools that no other stream reads any more; with `wait` all of them."""
    cdef Freed freed
    ensure()
    with device.peeking():
        while _waiting:
            try:
                freed = _waiting.popleft()
            except IndexError:  # another thread was here
                return 0
            try:
                freed.mark()
                done = all([event.synchronize() is None if wait else event.query() for event in freed.events])
            except BaseException as error:
                _waiting.appendleft(freed)
                if isinstance(error, device.driver().Error):
                    raise failed(error) from error
                raise
            if not done:
                _waiting.appendleft(freed)
                return 0
            freed.release()
    return 0


cdef int note_stream(object array, Stream stream) except -1:
    """Remember that work on a stream uses an array's memory, if the memory is another stream's."""
    base = getattr(array, "base", None)
    while type(base) is _array_class:  # what is looked at is a view
        base = base.base
    if type(base) is not Memory:
        return 0
    cdef Memory block = <Memory>base
    if block.stream is stream:
        return 0
    if block.used is None:
        block.used = [stream]
        return 0
    for known in block.used:
        if known is stream:
            return 0
    block.used.append(stream)
    return 0


cdef int note_use(object array) except -1:
    """Remember the current stream where an array of another one is used on it."""
    return note_stream(array, current()) if several_streams() else 0


# ---- allocating --------------------------------------------------------------------------------------------

cdef object taken_from_pool(Py_ssize_t nbytes, tuple shape, object dtype):
    cdef Stream stream = current()
    if _waiting:
        reclaim()
    try:
        allocation = stream.pool.allocate(nbytes)
    except device.driver().Error:
        allocation = memory.allocate(stream.pool, nbytes, f"{dtype}{list(shape)}")
    if _set_extent is not None:
        _set_extent(int(allocation), nbytes, stream.ptr)
    return allocation


cdef Memory new_memory(Py_ssize_t nbytes, tuple shape, object dtype):
    """Memory from the pool of the current stream."""
    global _allocated, _peak, _blocks
    cdef Memory block = Memory.__new__(Memory)
    block.allocation = taken_from_pool(nbytes, shape, dtype)
    block.pointer = int(block.allocation)
    block.stream = current()
    block.nbytes = nbytes
    _allocated += nbytes
    _blocks += 1
    if _allocated > _peak:
        _peak = _allocated
    return block


def allocate(Py_ssize_t nbytes):
    """A block that belongs to no array."""
    ensure()
    return new_memory(nbytes, (nbytes,), "bytes")


def counters():
    """(bytes that arrays hold, the most there were, number of blocks)."""
    return _allocated, _peak, _blocks


def reset_peak():
    """Let the peak start from what is held now."""
    global _peak
    _peak = _allocated


cdef object array_class():
    """The class of arrays; made on first use, since PyCUDA's needs a driver."""
    global _array_class, _set_extent
    ensure()
    _set_extent = device.extent_setter()
    from plugrad.backends.cuda.device_array import DeviceArray

    _array_class = DeviceArray
    return DeviceArray


cdef object new_array(tuple shape, object dtype, tuple strides, Py_ssize_t size, object pointer, object base):
    """A GPUArray on memory that `base` keeps alive."""
    cdef object array = plugrad_plain_new(array_class() if _array_class is None else _array_class, ())
    array.__dict__ = {
        "shape": shape, "dtype": dtype, "strides": strides, "size": size, "gpudata": pointer, "base": base,
    }
    return array


cdef tuple c_strides(tuple shape, Py_ssize_t itemsize):
    """Strides of an array in C order; as NumPy's, they count a length of 0 as 1."""
    cdef Py_ssize_t n = len(shape), length
    cdef list strides = [None] * n
    while n > 0:
        n -= 1
        strides[n] = itemsize
        length = shape[n]
        itemsize *= length if length > 0 else 1
    return tuple(strides)


cdef object allocated(tuple shape, object dtype):
    """A new array in C order; `shape` consists of Python ints, `dtype` is a numpy.dtype."""
    cdef Py_ssize_t size = 1, length, itemsize = dtype.itemsize, limit = PY_SSIZE_T_MAX // max(itemsize, 1)
    cdef Memory block
    ensure()
    for length in shape:
        if length < 0:
            raise ValueError(f"lengths of an array are not negative, got shape {shape}")
        if length > 0 and size > limit // length:
            raise ValueError(f"an array of shape {shape} and dtype {dtype} has more bytes than can be addressed")
        size *= length
    if size == 0:
        return new_array(shape, dtype, c_strides(shape, itemsize), 0, None, None)
    block = new_memory(size * itemsize, shape, dtype)
    return new_array(shape, dtype, c_strides(shape, itemsize), size, block.pointer, block)


cdef unsigned long long pointer_of(object array) except? 0:
    """The address of an array's first element; 0 where it has none."""
    cdef object data = array.gpudata
    if data is None:
        return 0
    return PyLong_AsUnsignedLongLong(data if PyLong_Check(data) else int(data))


# ---- for Python --------------------------------------------------------------------------------------------

def empty(shape, dtype):
    """A new array in C order with whatever the memory held, from the current stream's pool.

    Raises
    ------
    OutOfMemoryError
        The device has not enough memory.
    """
    if type(shape) is not tuple:
        shape = tuple([int(length) for length in shape]) if hasattr(shape, "__iter__") else (int(shape),)
    return allocated(shape, np.dtype(dtype))


def view(tuple shape, dtype, tuple strides, unsigned long long pointer, base):
    """An array on memory that `base` keeps alive; nothing is checked."""
    cdef Py_ssize_t size = 1, length
    for length in shape:
        size *= length
    return new_array(shape, dtype, strides, size, pointer if size else None, base)


def pointer(array):
    """The address of an array's first element; 0 where it has none."""
    return pointer_of(array)


def used(*arrays):
    """Say that the current stream is given addresses of arrays, as a launch says of its arguments."""
    for array in arrays:
        note_use(array)


def record_stream(array, Stream stream not None):
    """Say that work on a stream uses an array: its memory is not used again before that is done."""
    note_stream(array, stream)


def owns(array):
    """Whether the array was made with memory of its own."""
    return type(array.base) is Memory
