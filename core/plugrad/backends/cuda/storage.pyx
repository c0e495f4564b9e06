"""GPUArrays as storage: making one in the time of a few dictionary entries.

(a) `GPUArray.__init__` costs more than a launch. An array made here is a `DeviceArray`: a GPUArray whose
    rarely needed attributes are computed when asked for.
(b) An array that owns its memory has the address in `gpudata` and a `Memory` in `base`; a view has the owning array
    there. So "owns its memory" is a comparison of types, and a view keeps the array itself alive, which is what
    the engine counts references to.
(c) `Memory` counts the bytes in use: they fall when the last array on it is gone.
(d) The emulated device is told how many bytes of a pooled block are in use, so that it finds what lies beyond
    them, and in freed blocks, out of bounds.
"""
from cpython.long cimport PyLong_AsUnsignedLongLong, PyLong_Check
from cpython.ref cimport Py_INCREF

from plugrad.backends.cuda.context cimport Stream, current, ensure

import numpy as np

from plugrad.backends.cuda import device, memory

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
        try:
            if _set_extent is not None:
                _set_extent(self.pointer, 0)
            ensure()  # whatever thread this is: a pool that takes a block back aborts without a context
        except Exception:
            block = [self.allocation]
            self.allocation = None
            if not device.free_late(block):
                Py_INCREF(block)  # the process ends, or is a child of the one that has the memory

    def __repr__(self):
        return f"<{self.nbytes} bytes of device memory at {self.pointer:#x}>"


cdef object taken_from_pool(Py_ssize_t nbytes, tuple shape, object dtype):
    cdef Stream stream = current()
    try:
        allocation = stream.pool.allocate(nbytes)
    except device.driver().Error:
        allocation = memory.allocate(stream.pool, nbytes, f"{dtype}{list(shape)}")
    if _set_extent is not None:
        _set_extent(int(allocation), nbytes)
    return allocation


def allocate(nbytes):
    """Memory as PyCUDA's own methods ask for it: they free it themselves."""
    ensure()
    return taken_from_pool(nbytes, (nbytes,), "bytes")


cdef Memory new_memory(Py_ssize_t nbytes, tuple shape, object dtype):
    """Memory from the pool of the current stream."""
    global _allocated, _peak, _blocks
    cdef Memory block = Memory.__new__(Memory)
    block.allocation = taken_from_pool(nbytes, shape, dtype)
    block.pointer = int(block.allocation)
    block.nbytes = nbytes
    _allocated += nbytes
    _blocks += 1
    if _allocated > _peak:
        _peak = _allocated
    return block


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
    cdef Py_ssize_t size = 1, length, itemsize = dtype.itemsize
    cdef Memory block
    ensure()
    for length in shape:
        if length < 0:
            raise ValueError(f"lengths of an array are not negative, got shape {shape}")
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


def owns(array):
    """Whether the array was made with memory of its own."""
    return type(array.base) is Memory
