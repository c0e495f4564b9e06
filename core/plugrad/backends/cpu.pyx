"""The CPU backend: NumPy arrays.

(a) What the engine does to raw arrays in the hot path (compare shape and dtype, accumulate) goes through
    NumPy's C interface; the rest calls NumPy.
(b) Kernels written in Python run with NumPy's floating-point warnings off: NaN and infinity are values here.
    NumPy keeps that state in a context variable, found once by its effect, so that switching it costs two
    C calls; where it cannot be found, numpy.errstate does the same more slowly.
"""
import contextvars

import numpy as np

cimport numpy as cnp
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF

from plugrad.graph.backend cimport BOOL, COMPLEX, FLOATING, INTEGER, OTHER, Backend, Meta
from plugrad.graph.op cimport Kernel

from plugrad.graph.backend import register_array_type

cdef extern from "Python.h":
    object PyContextVar_Set(object var, object value)
    int PyContextVar_Reset(object var, object token) except -1

cnp.import_array()


# ---- NumPy's error state -----------------------------------------------------------------------------------

def _find_error_state():
    """The context variable that numpy.errstate sets and its value for "ignore everything"."""
    before = dict(contextvars.copy_context().items())
    with np.errstate(all="ignore"):
        inside = contextvars.copy_context()
        for variable, value in inside.items():
            if before.get(variable, inside) is not value:
                return variable, value
    return None, None


cdef object _error_state, _quiet
_error_state, _quiet = _find_error_state()


cdef class CpuKernel(Kernel):
    """A Python callable on NumPy arrays, run with floating-point warnings off."""

    cdef object call(self, tuple args, tuple kwnames):
        cdef object token, result
        if _error_state is None:
            with np.errstate(all="ignore"):
                return Kernel.call(self, args, kwnames)
        token = PyContextVar_Set(_error_state, _quiet)
        try:
            result = Kernel.call(self, args, kwnames)
        finally:
            PyContextVar_Reset(_error_state, token)
        return result


# ---- the backend -------------------------------------------------------------------------------------------

cdef int _kind(int type_num) noexcept:
    if type_num == cnp.NPY_FLOAT32 or type_num == cnp.NPY_FLOAT64 or type_num == cnp.NPY_FLOAT16:
        return FLOATING
    if type_num == cnp.NPY_BOOL:
        return BOOL
    if cnp.PyTypeNum_ISINTEGER(type_num):
        return INTEGER
    if type_num == cnp.NPY_LONGDOUBLE:
        return FLOATING
    if cnp.PyTypeNum_ISCOMPLEX(type_num):
        return COMPLEX
    return OTHER


cdef class CpuBackend(Backend):
    """NumPy arrays in host memory."""

    cdef Meta meta(self, object array):
        cdef cnp.ndarray a = <cnp.ndarray>array
        cdef cnp.dtype dtype = <cnp.dtype>cnp.PyArray_DESCR(a)
        cdef Meta meta = Meta.__new__(Meta)
        meta.shape = shape_of(a)
        meta.dtype = dtype
        meta.backend = self
        meta.kind = _kind(dtype.type_num)
        return meta

    cdef Meta describe(self, tuple shape, object dtype):
        dtype = np.dtype(dtype)
        return Meta(shape, dtype, self, _kind((<cnp.dtype>dtype).type_num))

    cdef bint fits(self, object array, Meta meta) except -1:
        cdef cnp.ndarray a
        cdef Py_ssize_t i
        cdef int nd
        if not cnp.PyArray_Check(array):
            return False
        a = <cnp.ndarray>array
        nd = cnp.PyArray_NDIM(a)
        if nd != len(meta.shape):
            return False
        dtype = <object>cnp.PyArray_DESCR(a)
        if dtype is not meta.dtype and dtype != meta.dtype:
            return False
        for i in range(nd):
            if cnp.PyArray_DIM(a, <int>i) != <Py_ssize_t>meta.shape[i]:
                return False
        return True

    cdef object adopt(self, object result):
        if cnp.PyArray_Check(result):
            return result
        if isinstance(result, (np.generic, float, int, complex)):
            return np.asarray(result)
        raise TypeError(f"a CPU kernel must return a NumPy array, got {type(result).__name__}")

    cdef bint sole(self, object array) except -1:
        cdef cnp.ndarray a = <cnp.ndarray>array
        return (
            cnp.PyArray_CHKFLAGS(a, cnp.NPY_ARRAY_OWNDATA)
            and cnp.PyArray_CHKFLAGS(a, cnp.NPY_ARRAY_WRITEABLE)
        )

    cdef object add(self, object a, object b):
        token = None if _error_state is None else PyContextVar_Set(_error_state, _quiet)
        try:
            return self.adopt(np.add(a, b))
        finally:
            if token is not None:
                PyContextVar_Reset(_error_state, token)

    cdef int add_into(self, object a, object b) except -1:
        token = None if _error_state is None else PyContextVar_Set(_error_state, _quiet)
        try:
            np.add(a, b, out=a)
        finally:
            if token is not None:
                PyContextVar_Reset(_error_state, token)
        return 0

    cdef object sum_to(self, object array, tuple shape):
        """Sum over the dimensions that broadcasting `shape` to the array's shape added or stretched."""
        cdef Py_ssize_t added = array.ndim - len(shape)
        cdef list axes = list(range(added))
        cdef Py_ssize_t i
        for i in range(len(shape)):
            if shape[i] == 1 and array.shape[added + i] != 1:
                axes.append(added + i)
        with np.errstate(all="ignore"):
            if array.dtype == np.float16:
                summed = array.sum(axis=tuple(axes), keepdims=True, dtype=np.float32).astype(np.float16)
            else:
                summed = array.sum(axis=tuple(axes), keepdims=True, dtype=array.dtype)
        return summed.reshape(shape)

    cdef object cast(self, object array, object dtype):
        with np.errstate(all="ignore"):
            if array.dtype.kind == "c" and np.dtype(dtype).kind != "c":
                array = array.real
            return array.astype(dtype)

    cdef object full(self, Meta meta, object value):
        return np.full(meta.shape, value, meta.dtype)

    cdef object copy(self, object array):
        return cnp.PyArray_NewCopy(<cnp.ndarray>array, cnp.NPY_CORDER)

    cdef object copy_like(self, object array, object like):
        cdef object out = np.empty_like(like, dtype=array.dtype, order="K", subok=False)
        if not _dense(like):
            out = np.empty(array.shape, array.dtype)
        np.copyto(out, array)
        return out

    cdef bint same_layout(self, object a, object b) except -1:
        cdef cnp.ndarray x = <cnp.ndarray>a
        cdef cnp.ndarray y = <cnp.ndarray>b
        cdef int i
        if cnp.PyArray_IS_C_CONTIGUOUS(x) and cnp.PyArray_IS_C_CONTIGUOUS(y):
            return True
        if not _dense(b):
            return cnp.PyArray_IS_C_CONTIGUOUS(x)
        for i in range(cnp.PyArray_NDIM(x)):
            if cnp.PyArray_DIM(x, i) > 1 and cnp.PyArray_STRIDE(x, i) != cnp.PyArray_STRIDE(y, i):
                return False
        return True

    def result_dtype(self, list dtypes, list numbers, bint floating):
        return promoted(dtypes, numbers, floating)

    def kernel(self, function):
        return function if isinstance(function, Kernel) else CpuKernel(function)

    def to_numpy(self, array):
        return array


cdef tuple shape_of(cnp.ndarray a):
    cdef int i, nd = cnp.PyArray_NDIM(a)
    if nd == 1:
        return (cnp.PyArray_DIM(a, 0),)
    if nd == 2:
        return (cnp.PyArray_DIM(a, 0), cnp.PyArray_DIM(a, 1))
    return tuple([cnp.PyArray_DIM(a, i) for i in range(nd)])


cdef bint _dense(object array):
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


def promoted(dtypes, numbers, floating=False):
    """The common dtype of operands.

    NumPy's promotion, except that an integer or bool next to a floating tensor takes the floating dtype, and
    that integers become float32 where a floating dtype is needed. Python numbers are weak: they raise
    the kind (to int64, float32 or complex64) but never the width.

    Parameters
    ----------
    dtypes : list of numpy.dtype
    numbers : list of bool, int, float or complex
    floating : bool
        Whether the result must be floating.

    Returns
    -------
    numpy.dtype
    """
    inexact = [dtype for dtype in dtypes if dtype.kind in "fc"]
    result = np.result_type(*(inexact or dtypes))
    if any(isinstance(number, complex) for number in numbers) and result.kind != "c":
        return np.dtype(np.complex128 if result == np.float64 else np.complex64)
    if any(isinstance(number, float) for number in numbers) and result.kind not in "fc":
        return np.dtype(np.float32)
    if result.kind == "b" and any(
        isinstance(number, int) and not isinstance(number, bool) for number in numbers
    ):
        result = np.dtype(np.int64)
    if floating and result.kind not in "fc":
        return np.dtype(np.float32)
    return result


CPU = CpuBackend("cpu")
register_array_type(np.ndarray, CPU)
register_array_type(np.generic, CPU)
