"""DLPack for device arrays: memory shared with other libraries through a capsule.

(a) The structures are those of DLPack 0.8, which every consumer still takes ("dltensor" capsules).
(b) A capsule that nobody took frees what it holds; one that was taken is freed by who took it, from whatever thread.
(c) Who consumes names a stream; the producer makes sure that its work is done before what is queued there.
"""
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New, PyCapsule_SetName
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t

from plugrad.backends.cuda.context cimport current, ensure
from plugrad.backends.cuda.storage cimport c_strides, new_array, pointer_of

import numpy as np

from plugrad.backends.cuda import array as arrays
from plugrad.backends.cuda.dtypes import c_type
from plugrad.backends.cuda.interface import misaligned
from plugrad.backends.dtypes import bfloat16, is_bfloat16

ctypedef struct DLDevice:
    int32_t device_type
    int32_t device_id

ctypedef struct DLDataType:
    uint8_t code
    uint8_t bits
    uint16_t lanes

ctypedef struct DLTensor:
    void *data
    DLDevice device
    int32_t ndim
    DLDataType dtype
    int64_t *shape
    int64_t *strides
    uint64_t byte_offset

ctypedef struct DLManagedTensor

ctypedef void (*Deleter)(DLManagedTensor *) noexcept with gil

ctypedef struct DLManagedTensor:
    DLTensor dl_tensor
    void *manager_ctx
    Deleter deleter

cdef enum:
    HOST = 1
    CUDA = 2

cdef dict _codes = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
cdef dict _kinds = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}
cdef int BFLOAT = 4


# ---- out ---------------------------------------------------------------------------------------------------

def capsule(array, *, stream=None, max_version=None, dl_device=None, copy=None):
    """The array as a DLPack capsule, as ``__dlpack__`` gives it.

    Raises
    ------
    BufferError
        Another device is asked for than the array's or the host, the host without a copy, or DLPack has
        no such dtype.
    """
    cdef DLManagedTensor *managed
    if dl_device is not None and tuple(dl_device) == (HOST, 0):
        if copy is False:
            raise BufferError("__dlpack__(): a tensor on 'cuda' cannot be shared with the host without a copy")
        return arrays.to_host(array).__dlpack__()
    if dl_device is not None and tuple(dl_device) != (CUDA, 0):
        raise BufferError(f"__dlpack__(): a tensor on 'cuda' (2, 0) was asked for on device {tuple(dl_device)}")
    if copy:
        array = arrays.copied(array)
    if stream != -1 and (stream or 1) != (current().ptr or 1):
        current().synchronize()
    managed = filled(array)
    return PyCapsule_New(managed, "dltensor", forget)


cdef DLManagedTensor *filled(object array) except NULL:
    cdef Py_ssize_t i, ndim = len(array.shape), itemsize = array.dtype.itemsize
    cdef int code = code_of(array.dtype)
    cdef DLManagedTensor *managed
    for stride in array.strides:
        if stride % itemsize:
            raise BufferError(f"__dlpack__(): strides of {array.strides} bytes are no whole elements of {itemsize}")
    managed = <DLManagedTensor *>PyMem_Malloc(sizeof(DLManagedTensor) + 2 * ndim * sizeof(int64_t))
    if managed == NULL:
        raise MemoryError()
    managed.dl_tensor.data = <void *>pointer_of(array)
    managed.dl_tensor.device = DLDevice(CUDA, 0)
    managed.dl_tensor.ndim = <int32_t>ndim
    managed.dl_tensor.dtype = DLDataType(<uint8_t>code, <uint8_t>(8 * itemsize), 1)
    managed.dl_tensor.shape = <int64_t *>(managed + 1)
    managed.dl_tensor.strides = managed.dl_tensor.shape + ndim
    managed.dl_tensor.byte_offset = 0
    for i in range(ndim):
        managed.dl_tensor.shape[i] = array.shape[i]
        managed.dl_tensor.strides[i] = array.strides[i] // itemsize
    Py_INCREF(array)
    managed.manager_ctx = <void *>array
    managed.deleter = release
    return managed


cdef int code_of(object dtype) except -1:
    if is_bfloat16(dtype):
        return BFLOAT
    if dtype.kind not in _codes:
        raise BufferError(f"__dlpack__(): DLPack has no dtype {dtype}")
    return _codes[dtype.kind]


cdef void release(DLManagedTensor *managed) noexcept with gil:
    """The deleter: the consumer is done."""
    Py_DECREF(<object>managed.manager_ctx)
    PyMem_Free(managed)


cdef void forget(object unused) noexcept:
    """A capsule goes: one that nobody took still holds the array."""
    cdef DLManagedTensor *managed
    if PyCapsule_IsValid(unused, "dltensor"):
        managed = <DLManagedTensor *>PyCapsule_GetPointer(unused, "dltensor")
        managed.deleter(managed)


# ---- in ----------------------------------------------------------------------------------------------------

cdef class Taken:
    """Memory of another library, given back with the last array on it."""

    cdef DLManagedTensor *managed

    def __dealloc__(self):
        if self.managed != NULL and self.managed.deleter != NULL:
            self.managed.deleter(self.managed)


def taken(source):
    """An array on the memory of an object with ``__dlpack__`` that lies on the device.

    Raises
    ------
    BufferError
        It gives no capsule that can be read, or lies elsewhere.
    """
    cdef DLManagedTensor *managed
    cdef Taken owner
    cdef Py_ssize_t i, size = 1
    ensure()
    given = source.__dlpack__(stream=current().ptr or 1)
    if not PyCapsule_IsValid(given, "dltensor"):
        raise BufferError(f"from_dlpack(): {type(source).__name__} gives no capsule named 'dltensor', or a used one")
    managed = <DLManagedTensor *>PyCapsule_GetPointer(given, "dltensor")
    if managed.dl_tensor.device.device_type != CUDA or managed.dl_tensor.device.device_id != 0:
        raise BufferError(
            f"from_dlpack(): the array lies on DLPack's device ({managed.dl_tensor.device.device_type}, "
            f"{managed.dl_tensor.device.device_id}), not on 'cuda' (2, 0)"
        )
    dtype = dtype_of(managed.dl_tensor.dtype)
    PyCapsule_SetName(given, "used_dltensor")
    owner = Taken.__new__(Taken)
    owner.managed = managed
    shape = tuple([managed.dl_tensor.shape[i] for i in range(managed.dl_tensor.ndim)])
    for length in shape:
        size *= length
    if managed.dl_tensor.strides == NULL:
        strides = c_strides(shape, dtype.itemsize)
    else:
        strides = tuple([managed.dl_tensor.strides[i] * dtype.itemsize for i in range(managed.dl_tensor.ndim)])
    pointer = <unsigned long long>managed.dl_tensor.data + managed.dl_tensor.byte_offset
    why = misaligned(pointer, shape, strides, dtype)
    if why:
        raise BufferError(f"from_dlpack(): an array of dtype {dtype} cannot be a tensor: {why}")
    return new_array(shape, dtype, strides, size, pointer if size else None, owner)


cdef object dtype_of(DLDataType given):
    if given.lanes == 1 and given.bits % 8 == 0:
        if given.code in _kinds:
            try:
                dtype = np.dtype(f"{_kinds[given.code]}{given.bits // 8}")
                c_type(dtype)
                return dtype
            except TypeError:
                pass  # NumPy or no kernel has it
        if given.code == BFLOAT and given.bits == 16:
            return bfloat16()
    raise BufferError(
        f"from_dlpack(): no dtype for DLPack's (code {given.code}, {given.bits} bits, {given.lanes} lanes)"
    )
