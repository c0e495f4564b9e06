"""The CUDA backend: GPUArrays, and kernels that the modules beside this one write.

(a) What the engine needs of raw arrays is done by three kernels (`a + b`, `x` written as another dtype, a sum), by
    copies, and by looking at shapes and strides, which GPUArray has as NumPy has them.
(b) An array owns its memory if this library made it; arrays of others are never written by the engine on
    its own account.
(c) The backend is made when the device is first used; importing the module needs neither PyCUDA nor a driver.
"""
import threading

import numpy as np

cimport numpy as cnp

from plugrad.backends.cpu cimport kind_of, look, overlaps_itself
from plugrad.backends.cuda.context cimport ensure
from plugrad.backends.cuda.storage cimport Memory, allocated, pointer_of
from plugrad.graph.backend cimport FLOATING, STORAGE, Backend, Meta, new_meta
from plugrad.graph.op cimport Kernel, vectorcall

from plugrad.backends import CPU
from plugrad.backends.cpu import promoted
from plugrad.backends.cuda import array as arrays
from plugrad.backends.cuda import device, interface
from plugrad.backends.cuda.elementwise import Elementwise
from plugrad.backends.dtypes import check_number
from plugrad.graph.backend import register_array_type

cnp.import_array()

cdef object _add = Elementwise("a + b", inputs=("a", "b"), name="add")
cdef dict _casts = {}
cdef object _sum = None
cdef object _gpu_array = None
cdef object _device_array = None
cdef object _backend = None
cdef object _lock = threading.Lock()


cdef class CudaKernel(Kernel):
    """A callable on GPUArrays; Python numbers may stand in for arrays, as on the CPU."""

    cdef object call1(self, object a):
        ensure()
        return self.function(a)

    cdef object call2(self, object a, object b):
        ensure()
        if type(a) is complex or type(b) is complex:
            a, b = placed((a, b))
        return self.function(a, b)

    cdef object call(self, tuple args, tuple kwnames):
        ensure()
        for x in args:
            if type(x) is complex:
                args = placed(args)
                break
        return vectorcall(self.function, args, kwnames)


cdef tuple placed(tuple args):
    """Complex numbers among the operands as 0-d arrays: kernels take real numbers only by value."""
    dtype = next((x.dtype for x in args if hasattr(x, "gpudata") and x.dtype.kind == "c"), np.complex128)
    return tuple([arrays.from_host(np.array(x, dtype)) if type(x) is complex else x for x in args])


cdef inline int kind_of_device(int type_num) noexcept:
    """As on the CPU, but kernels take every dtype."""
    cdef int kind = kind_of(type_num)
    return FLOATING if kind == STORAGE else kind


cdef class CudaBackend(Backend):
    """GPUArrays in the memory of the device."""

    cdef Meta meta(self, object array):
        cdef object dtype = array.dtype
        return new_meta(array.shape, dtype, self, kind_of_device((<cnp.dtype?>dtype).type_num))

    cdef Meta describe(self, tuple shape, object dtype):
        dtype = np.dtype(dtype)
        return new_meta(shape, dtype, self, kind_of_device((<cnp.dtype>dtype).type_num))

    cdef bint fits(self, object array, Meta meta) except -1:
        if type(array) is not _device_array and not isinstance(array, _gpu_array):
            return False
        dtype = array.dtype
        return (dtype is meta.dtype or dtype == meta.dtype) and array.shape == meta.shape

    cdef object adopt(self, object result):
        if isinstance(result, _gpu_array):
            return result
        raise TypeError(f"a CUDA kernel must return a GPUArray, got {type(result).__name__}")

    cdef bint sole(self, object array) except -1:
        return type(array.base) is Memory

    cdef object add(self, object a, object b):
        return _add(a, b)

    cdef int add_into(self, object a, object b) except -1:
        _add(a, b, out=a)
        return 0

    cdef object sum_to(self, object array, tuple shape):
        """Sum over the dimensions that broadcasting `shape` to the array's shape added or stretched."""
        global _sum
        cdef Py_ssize_t added = len(array.shape) - len(shape)
        cdef list axes = list(range(added))
        cdef Py_ssize_t i
        for i in range(len(shape)):
            if shape[i] == 1 and array.shape[added + i] != 1:
                axes.append(added + i)
        if _sum is None:
            from plugrad.backends.cuda.reduction import Reduction

            _sum = Reduction(map="x", combine="a + b", identity="0", finish="a", name="sum_to")
        summed = _sum(array, tuple(axes), True, out_dtype=array.dtype)
        return reshaped(summed, shape)

    cdef object cast(self, object array, object dtype):
        return cast_to(array, np.dtype(dtype), None)

    cdef object full(self, Meta meta, object value):
        out = allocated(meta.shape, meta.dtype)
        if type(value) is complex:
            arrays.copy_into(out, arrays.from_host(np.array(value, meta.dtype)))
        else:
            arrays.fill(out, value)
        return out

    cdef object copy(self, object array):
        return arrays.copied(array)

    cdef object copy_like(self, object array, object like):
        out = empty_like(array, like.strides if dense(like) else None, like.dtype.itemsize)
        arrays.copy_into(out, array)
        return out

    cdef object view(self, object array):
        return arrays.as_strided(array, array.shape, array.strides)

    cdef bint shares(self, object a, object b) except -1:
        first, last = extent(a)
        other_first, other_last = extent(b)
        return first < other_last and other_first < last

    cdef object layout(self, object array):
        return array.strides

    cdef object in_layout(self, object array, object like_layout):
        if array.strides == like_layout:
            return array
        # The same order of dimensions, without gaps: what can be viewed there can be viewed here.
        order = sorted(range(len(array.shape)), key=lambda i: -abs(like_layout[i]))
        strides, step = [0] * len(order), array.dtype.itemsize
        for i in reversed(order):
            strides[i] = step
            step *= max(array.shape[i], 1)
        out = arrays.restrided(allocated(tuple(array.shape), array.dtype), tuple(strides))
        arrays.copy_into(out, array)
        return out

    cdef bint overlaps(self, object array) except -1:
        if arrays.is_contiguous(array):
            return False
        for stride, length in zip(array.strides, array.shape):
            if stride == 0 and length > 1:
                return True
        return overlaps_itself(array)

    cdef int copy_into(self, object target, object values) except -1:
        if values.dtype != target.dtype:
            values = self.cast(values, target.dtype)
        if self.shares(target, values):
            values = self.copy(values)
        arrays.copy_into(target, values)
        return 0

    cdef object cleared(self, object array, list steps):
        cdef object out = self.copy_like(array, array)
        cdef object seen = look(out, steps)
        if self.shares(seen, out):
            arrays.fill(seen, 0)
            return out
        # Some step had to copy in this layout; what it read is known by position.
        out = arrays.to_host(out).copy("C")
        positions = look(arrays.from_host(np.arange(out.size).reshape(out.shape)), steps)
        out.reshape(-1)[arrays.to_host(positions)] = 0
        return arrays.from_host(out)

    cdef bint same_layout(self, object a, object b) except -1:
        cdef bint in_order = arrays.is_contiguous(a)
        if in_order and arrays.is_contiguous(b):
            return True
        if not dense(b):
            return in_order
        for length, mine, other in zip(a.shape, a.strides, b.strides):
            if length > 1 and mine != other:
                return False
        return True

    def result_dtype(self, list dtypes, list numbers, bint floating):
        return promoted(dtypes, numbers, floating)

    def kernel(self, function):
        return function if isinstance(function, Kernel) else CudaKernel(function)

    def dtype_named(self, value):
        return CPU.dtype_named(value)

    def render(self, array, str prefix):
        return CPU.render(arrays.to_host(array), prefix)

    def check_number(self, str name, value, dtype):
        check_number(name, value, dtype)

    def to_numpy(self, array):
        return arrays.to_host(array)

    def from_numpy(self, array):
        return arrays.from_host(array)

    def uninitialised(self, tuple shape, dtype):
        return allocated(shape, np.dtype(dtype))

    def cuda_array_interface(self, array):
        return interface.exported(array)

    def to_dlpack(self, array, dict wishes):
        from plugrad.backends.cuda.dlpack import capsule

        return capsule(array, **wishes)

    def from_dlpack(self, source):
        from plugrad.backends.cuda.dlpack import taken

        return taken(source)

    def dlpack_device(self):
        return 2, 0


cdef object cast_to(object array, object dtype, object out):
    """The values as another dtype; the imaginary part goes where the other is real, as on the CPU."""
    cdef tuple key = (array.dtype.kind == "c" and dtype.kind != "c", dtype)
    kernel = _casts.get(key)
    if kernel is None:
        kernel = _casts[key] = Elementwise("real(x)" if key[0] else "x", inputs=("x",), out_dtype=dtype, name="cast")
    return kernel(array) if out is None else kernel(array, out=out)


cdef object empty_like(object array, object strides, Py_ssize_t itemsize):
    """A new array of the shape and dtype of `array`, with strides like those of elements of another size."""
    out = allocated(tuple(array.shape), array.dtype)
    if strides is None:
        return out
    own = array.dtype.itemsize
    return arrays.restrided(out, tuple([stride // itemsize * own for stride in strides]))


cdef object reshaped(object array, tuple shape):
    """An array in C order as one of another shape."""
    if array.shape == shape:
        return array
    strides, step = [], array.dtype.itemsize
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return arrays.restrided(array, tuple(reversed(strides)), shape)


cdef tuple extent(object array):
    """The first address that the array uses, and the one after its last."""
    cdef long long low = 0, high = 0, reach
    cdef unsigned long long start = pointer_of(array)
    if array.size == 0:
        return 0, 0
    for length, stride in zip(array.shape, array.strides):
        reach = (length - 1) * stride
        if reach < 0:
            low += reach
        else:
            high += reach
    return start + low, start + high + array.dtype.itemsize


def backend():
    """The one CUDA backend; made on the first call.

    Raises
    ------
    NotAvailableError
        There is no device.
    """
    global _backend, _gpu_array, _device_array
    with _lock:
        if _backend is None:
            device.require()
            from pycuda.gpuarray import GPUArray

            from plugrad.backends.cuda.device_array import DeviceArray

            _gpu_array, _device_array = GPUArray, DeviceArray
            _backend = CudaBackend("cuda")
            register_array_type(GPUArray, _backend)
            register_array_type(DeviceArray, _backend)
    return _backend


cdef bint dense(object array):
    """Whether the elements fill their memory without gaps or overlap, in some order of dimensions."""
    expected = array.itemsize
    for stride, length in sorted(zip(array.strides, array.shape)):
        if length == 0:
            return True
        if length > 1:
            if stride != expected:
                return False
            expected *= length
    return True
