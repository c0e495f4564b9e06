"""The CPU backend: NumPy arrays.

(a) What the engine does to raw arrays in the hot path (compare shape and dtype, accumulate) goes through
    NumPy's C interface; the rest calls NumPy.
(b) Kernels written in Python run with NumPy's floating-point warnings off: NaN and infinity are values here.
    NumPy keeps that state in a context variable, found once by its effect, so that switching it costs two
    C calls; where it cannot be found, numpy.errstate does the same more slowly.
(c) float16 and bfloat16 are for storage only: kernels get float32, and what they return is rounded.
"""
import contextvars
import sys

import numpy as np

cimport numpy as cnp
from cpython.object cimport PyObject

cimport plugrad.backends.simd  # its macros  # no-cython-lint
from plugrad.backends cimport recycling
from plugrad.backends.copies cimport copy_in_order, copy_laid_out_as, is_flat, lie_alike
from plugrad.backends.memory cimport is_dense
from plugrad.backends.parallel cimport parallel_for
from plugrad.graph.backend cimport (
    BOOL, COMPLEX, FLOATING, INTEGER, OTHER, STORAGE, Backend, Meta, new_meta, note_storage
)
from plugrad.graph.op cimport Kernel, vectorcall

from plugrad.backends.dtypes import as_dtype, check_number, finfo, is_bfloat16, kind, rounded, wide
from plugrad.backends.sums import add_reduce
from plugrad.graph.backend import register_array_type

cdef extern from "Python.h":
    object PyContextVar_Set(object var, object value)
    int PyContextVar_Reset(object var, object token) except -1
    Py_ssize_t Py_REFCNT(PyObject *)

cnp.import_array()

# Releasing and taking the GIL, or asking for another thread, costs more than adding this many numbers.
cdef enum:
    NOGIL_FROM = 16384
    FIRST_OF_OTHERS = 256  # the numbers of types that are not NumPy's own

cdef int _bfloat16 = -1


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
        return quietly(self.function, args, kwnames)


cdef object quietly(object function, tuple args, tuple kwnames):
    """Call `function` with NumPy's floating-point warnings off."""
    cdef object token
    if _error_state is None:
        with np.errstate(all="ignore"):
            return vectorcall(function, args, kwnames)
    token = PyContextVar_Set(_error_state, _quiet)
    try:
        return vectorcall(function, args, kwnames)
    finally:
        PyContextVar_Reset(_error_state, token)


# ---- the backend -------------------------------------------------------------------------------------------

cdef int kind_of(int type_num) noexcept:
    if type_num == cnp.NPY_FLOAT32 or type_num == cnp.NPY_FLOAT64:
        return FLOATING
    if type_num == cnp.NPY_FLOAT16:
        note_storage()
        return STORAGE
    if type_num == cnp.NPY_BOOL:
        return BOOL
    if cnp.PyTypeNum_ISINTEGER(type_num):
        return INTEGER
    if type_num == cnp.NPY_LONGDOUBLE:
        return FLOATING
    if cnp.PyTypeNum_ISCOMPLEX(type_num):
        return COMPLEX
    return STORAGE if type_num >= FIRST_OF_OTHERS and type_num == number_of_bfloat16() else OTHER


cdef int number_of_bfloat16() noexcept:
    """The number that NumPy gave the type; -1 while nobody has imported it."""
    global _bfloat16
    if _bfloat16 < 0:
        module = sys.modules.get("ml_dtypes")
        if module is not None and hasattr(module, "bfloat16"):
            _bfloat16 = np.dtype(module.bfloat16).num
            note_storage()
    return _bfloat16


cdef class CpuBackend(Backend):
    """NumPy arrays in host memory."""

    cdef Meta meta(self, object array):
        cdef cnp.ndarray a = <cnp.ndarray>array
        cdef cnp.dtype dtype = <cnp.dtype>cnp.PyArray_DESCR(a)
        return new_meta(shape_of(a), dtype, self, kind_of(dtype.type_num))

    cdef Meta describe(self, tuple shape, object dtype):
        dtype = np.dtype(dtype)
        return new_meta(shape, dtype, self, kind_of((<cnp.dtype>dtype).type_num))

    cdef bint fits(self, object array, Meta meta) except -1:
        cdef cnp.ndarray a
        cdef int i
        if not cnp.PyArray_Check(array):
            return False
        a = <cnp.ndarray>array
        if cnp.PyArray_NDIM(a) != meta.nd:
            return False
        if <void *>cnp.PyArray_DESCR(a) != <void *>meta.dtype:
            if <object><PyObject *>cnp.PyArray_DESCR(a) != meta.dtype:
                return False
        if meta.nd > 8:
            return shape_of(a) == meta.shape
        for i in range(meta.nd):
            if cnp.PyArray_DIM(a, i) != meta.dims[i]:
                return False
        return True

    cdef object adopt(self, object result):
        if cnp.PyArray_Check(result):
            if not cnp.PyArray_CheckExact(result):
                result = plain_array(result)
            if not cnp.PyArray_ISNOTSWAPPED(<cnp.ndarray>result):
                raise TypeError(
                    f"arrays must have the machine's byte order, got dtype {result.dtype}; "
                    "astype(dtype.newbyteorder('=')) converts"
                )
            return result
        if isinstance(result, (np.generic, float, int, complex)):
            return np.asarray(result)
        raise TypeError(f"a CPU kernel must return a NumPy array, got {type(result).__name__}")

    cdef bint sole(self, object array) except -1:
        cdef cnp.ndarray a = <cnp.ndarray>array
        cdef PyObject *base
        if not cnp.PyArray_CHKFLAGS(a, cnp.NPY_ARRAY_WRITEABLE):
            return False
        if cnp.PyArray_CHKFLAGS(a, cnp.NPY_ARRAY_OWNDATA):
            return True
        # All of an array that nothing but this view holds, as kernels return that compute a transposed result.
        base = cnp.PyArray_BASE(a)
        return (
            base != NULL and Py_REFCNT(base) == 1 and cnp.PyArray_CheckExact(<object>base)
            and cnp.PyArray_CHKFLAGS(<cnp.ndarray>base, cnp.NPY_ARRAY_OWNDATA)
            and cnp.PyArray_NBYTES(a) == cnp.PyArray_NBYTES(<cnp.ndarray>base) and is_dense(a)
        )

    cdef bint recycle(self, PyObject *array) noexcept:
        return recycling.recycle(array)

    cdef object add(self, object a, object b):
        cdef cnp.ndarray x = <cnp.ndarray>a
        cdef object out
        if plain(a, b):
            out = recycling.fresh_like(x, cnp.PyArray_TYPE(x))
            add_plain(x, <cnp.ndarray>b, <cnp.ndarray>out)
            return out
        return self.adopt(quietly(np.add, (a, b), ()))

    cdef int add_into(self, object a, object b) except -1:
        if plain(a, b) and cnp.PyArray_ISWRITEABLE(<cnp.ndarray>a):
            add_plain(<cnp.ndarray>a, <cnp.ndarray>b, <cnp.ndarray>a)
        else:
            quietly(np.add, (a, b, a), ())
        return 0

    cdef object sum_to(self, object array, tuple shape):
        """Sum over the dimensions that broadcasting `shape` to the array's shape added or stretched."""
        cdef Py_ssize_t added = array.ndim - len(shape)
        cdef list axes = list(range(added))
        cdef Py_ssize_t i
        for i in range(len(shape)):
            if shape[i] == 1 and array.shape[added + i] != 1:
                axes.append(added + i)
        cdef int type_num = cnp.PyArray_TYPE(<cnp.ndarray>array)
        with np.errstate(all="ignore"):
            if type_num == cnp.NPY_FLOAT16 or type_num >= FIRST_OF_OTHERS:
                summed = array.sum(axis=tuple(axes), keepdims=True, dtype=np.float64).astype(array.dtype)
            else:
                summed = add_reduce(array, tuple(axes), array.dtype, True)
        return summed.reshape(shape)

    cdef object cast(self, object array, object dtype):
        with np.errstate(all="ignore"):
            if array.dtype.kind == "c" and np.dtype(dtype).kind != "c":
                array = array.real
            return rounded(array, np.dtype(dtype))

    cdef object full(self, Meta meta, object value):
        return np.full(meta.shape, value, meta.dtype)

    cdef object copy(self, object array):
        cdef cnp.ndarray a = <cnp.ndarray>array
        return copy_in_order(a) if plain_dtype(a) else cnp.PyArray_NewCopy(a, cnp.NPY_CORDER)

    cdef object copy_like(self, object array, object like):
        if not plain_dtype(<cnp.ndarray>array) or not is_dense(<cnp.ndarray>like):
            return self.copy(array)
        return copy_laid_out_as(<cnp.ndarray>array, <cnp.ndarray>like)

    cdef object view(self, object array):
        return array.view()

    cdef bint shares(self, object a, object b) except -1:
        return np.may_share_memory(a, b)

    cdef object layout(self, object array):
        return array.strides

    cdef object in_layout(self, object array, object like_layout):
        if array.strides == like_layout:
            return array
        # The same order of dimensions, without gaps: what can be viewed there can be viewed here.
        order = sorted(range(array.ndim), key=lambda i: -abs(like_layout[i]))
        out = np.empty([array.shape[i] for i in order], array.dtype).transpose(np.argsort(order))
        np.copyto(out, array)
        return out

    cdef bint overlaps(self, object array) except -1:
        cdef cnp.ndarray a = <cnp.ndarray>array
        cdef int i
        if cnp.PyArray_ISCONTIGUOUS(a):
            return False
        for i in range(cnp.PyArray_NDIM(a)):
            if cnp.PyArray_STRIDE(a, i) == 0 and cnp.PyArray_DIM(a, i) > 1:
                return True
        return overlaps_itself(a)

    cdef int copy_into(self, object target, object values) except -1:
        np.copyto(target, values)
        return 0

    cdef object cleared(self, object array, list steps):
        cdef object out = cnp.PyArray_NewCopy(<cnp.ndarray>array, cnp.NPY_KEEPORDER)
        cdef object seen = look(out, steps)
        if np.may_share_memory(seen, out):
            seen[...] = 0
        else:
            # Some step had to copy in this layout; what it read is known by position.
            out = out.copy("C")
            out.reshape(-1)[look(np.arange(out.size).reshape(out.shape), steps)] = 0
        return out

    cdef bint same_layout(self, object a, object b) except -1:
        cdef cnp.ndarray x = <cnp.ndarray>a
        cdef cnp.ndarray y = <cnp.ndarray>b
        cdef int i
        if cnp.PyArray_IS_C_CONTIGUOUS(x) and cnp.PyArray_IS_C_CONTIGUOUS(y):
            return True
        if not is_dense(y):
            return cnp.PyArray_IS_C_CONTIGUOUS(x)
        for i in range(cnp.PyArray_NDIM(x)):
            if cnp.PyArray_DIM(x, i) > 1 and cnp.PyArray_STRIDE(x, i) != cnp.PyArray_STRIDE(y, i):
                return False
        return True

    def result_dtype(self, list dtypes, list numbers, bint floating):
        return promoted(dtypes, numbers, floating)

    def kernel(self, function):
        return function if isinstance(function, Kernel) else CpuKernel(function)

    def dtype_named(self, value):
        try:
            return as_dtype(value)
        except TypeError:
            return None

    def render(self, array, str prefix):
        shown = self.widened(array)
        text = np.array2string(shown, separator=", ", prefix=prefix, threshold=1000, precision=4)
        return text, array.dtype in (np.float32, np.int64, np.bool_)

    def widened_dtype(self, dtype):
        return wide(dtype)

    def widened(self, array):
        if not cnp.PyArray_Check(array):
            return array
        dtype = wide(array.dtype)
        return array if dtype is array.dtype else array.astype(dtype)

    def rounded(self, array, dtype, bint limits=False):
        if wide(dtype) is dtype:
            return array
        array = self.adopt(array)
        if array.dtype.kind != "f":
            return array
        if limits:
            array = np.where(np.abs(array) == np.finfo(array.dtype).max, np.copysign(finfo(dtype).max, array), array)
        return quietly(rounded, (array, dtype), ())

    def is_scalar(self, value):
        return isinstance(value, np.generic)

    def check_number(self, str name, value, dtype):
        check_number(name, value, dtype)

    def to_numpy(self, array):
        return array

    def from_numpy(self, array):
        return array

    def as_numpy(self, array):
        return array

    def filled(self, tuple shape, dtype, value):
        if type(value) is int and value == 0:
            return np.zeros(shape, dtype)  # memory that the system hands out zeroed
        return np.full(shape, value, dtype)

    def uninitialised(self, tuple shape, dtype):
        return np.empty(shape, dtype)

    def to_dlpack(self, array, dict wishes):
        if not is_bfloat16(array.dtype):
            return array.__dlpack__(**wishes)
        from plugrad.backends.capsules import exported

        return exported(array, **wishes)

    def from_dlpack(self, source):
        from plugrad.backends.capsules import imported

        return imported(source)

    def dlpack_device(self):
        return 1, 0


cdef inline bint plain(object a, object b):
    """Whether two arrays can be added element by element as they lie: same shape, dtype and places, no gaps."""
    cdef cnp.ndarray x = <cnp.ndarray>a
    cdef cnp.ndarray y = <cnp.ndarray>b
    cdef int type_num = cnp.PyArray_TYPE(x)
    return (
        (type_num == cnp.NPY_FLOAT32 or type_num == cnp.NPY_FLOAT64)
        and cnp.PyArray_TYPE(y) == type_num
        and cnp.PyArray_ISBEHAVED_RO(x)
        and cnp.PyArray_ISBEHAVED_RO(y)
        and cnp.PyArray_SAMESHAPE(x, y)
        and lie_alike(x, y) and is_flat(x)
    )


cdef extern from *:
    """
    PG_VECTOR static void pg_sum_float(const void *a, const void *b, void *o, Py_ssize_t n) {
        const float *x = (const float *)a, *y = (const float *)b; float *out = (float *)o;
        for (Py_ssize_t i = 0; i < n; i++) out[i] = x[i] + y[i]; }
    PG_VECTOR static void pg_sum_double(const void *a, const void *b, void *o, Py_ssize_t n) {
        const double *x = (const double *)a, *y = (const double *)b; double *out = (double *)o;
        for (Py_ssize_t i = 0; i < n; i++) out[i] = x[i] + y[i]; }
    """
    void pg_sum_float(const void *a, const void *b, void *o, Py_ssize_t n) noexcept nogil
    void pg_sum_double(const void *a, const void *b, void *o, Py_ssize_t n) noexcept nogil

cdef struct Sum:
    const char *a
    const char *b
    char *out
    Py_ssize_t size


cdef void sum_chunk(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Sum *the = <Sum *>context
    cdef Py_ssize_t at = begin * the.size
    if the.size == 4:
        pg_sum_float(the.a + at, the.b + at, the.out + at, end - begin)
    else:
        pg_sum_double(the.a + at, the.b + at, the.out + at, end - begin)


cdef void add_plain(cnp.ndarray a, cnp.ndarray b, cnp.ndarray out) noexcept:
    cdef Sum the
    cdef Py_ssize_t n = cnp.PyArray_SIZE(a)
    the.a, the.b, the.out = cnp.PyArray_BYTES(a), cnp.PyArray_BYTES(b), cnp.PyArray_BYTES(out)
    the.size = cnp.PyArray_ITEMSIZE(a)
    if n < NOGIL_FROM:
        sum_chunk(&the, 0, n)
    else:
        with nogil:
            parallel_for(n, NOGIL_FROM, sum_chunk, &the)


cdef inline bint plain_dtype(cnp.ndarray a) noexcept:
    """Whether the number of the dtype says all about it."""
    return cnp.PyArray_TYPE(a) == cnp.NPY_FLOAT32 or cnp.PyArray_TYPE(a) == cnp.NPY_FLOAT64


cdef tuple shape_of(cnp.ndarray a):
    cdef int i, nd = cnp.PyArray_NDIM(a)
    if nd == 1:
        return (cnp.PyArray_DIM(a, 0),)
    if nd == 2:
        return (cnp.PyArray_DIM(a, 0), cnp.PyArray_DIM(a, 1))
    return tuple([cnp.PyArray_DIM(a, i) for i in range(nd)])


cdef object plain_array(object array):
    """A subclass of ndarray as an ndarray: its operators may mean something else (np.matrix multiplies)."""
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            "a masked array cannot be a tensor: its mask would be ignored; use filled(), or the data and the mask"
        )
    return np.asarray(array)


cdef object look(object array, list steps):
    """What a chain of view kernels shows of an array."""
    for kernel, constants, names in steps:
        array = (<Kernel>kernel).call((array,) + constants, names)
    return array


cdef bint overlaps_itself(object array):
    """Whether two elements share memory, for strides that are not zero (sliding windows)."""
    if array.size < 2:
        return False
    reach = array.itemsize
    for stride, length in sorted((abs(stride), n) for stride, n in zip(array.strides, array.shape) if n > 1):
        if stride < reach:
            return True
        reach += stride * (length - 1)
    return False


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
    inexact = [dtype for dtype in dtypes if kind(dtype) in "fc"]
    result = common(inexact or dtypes or [np.dtype(np.bool_)])
    if any(isinstance(number, complex) for number in numbers) and result.kind != "c":
        return np.dtype(np.complex128 if result == np.float64 else np.complex64)
    if any(isinstance(number, float) for number in numbers) and kind(result) not in "fc":
        return np.dtype(np.float32)
    if result.kind == "b" and any(
        isinstance(number, int) and not isinstance(number, bool) for number in numbers
    ):
        result = np.dtype(np.int64)
    if floating and kind(result) not in "fc":
        return np.dtype(np.float32)
    return result


cdef object common(list dtypes):
    """NumPy's common dtype; float32 for bfloat16 and float16, which have none to it."""
    if len(dtypes) > 1 and any(is_bfloat16(dtype) for dtype in dtypes) and any(
        dtype != dtypes[0] for dtype in dtypes
    ):
        dtypes = [wide(dtype) for dtype in dtypes]
    return np.result_type(*dtypes)


CPU = CpuBackend("cpu")
register_array_type(np.ndarray, CPU)
register_array_type(np.generic, CPU)
