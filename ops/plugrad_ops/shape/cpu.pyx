# cython: boundscheck=False, wraparound=False
"""Broadcasting a view, in C: every reduction's gradient is one, and NumPy takes ten times as long over it.

(a) The view keeps its source alive as its base, has stride 0 where an element repeats, and can be written only where
    its source can.
(b) Sizes that do not fit are left to `expanded_shape`, which says what is wrong.
"""

cimport numpy as cnp
from cpython.long cimport PyLong_AsSsize_t
from cpython.ref cimport Py_INCREF

from plugrad.graph.op cimport Kernel

from plugrad_ops.shape.dims import expanded_shape

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    object PyArray_NewFromDescr(
        type subtype, cnp.PyArray_Descr *descr, int nd, cnp.npy_intp *dims, cnp.npy_intp *strides,
        void *data, int flags, void *like
    )

cdef enum:
    MAX_DIMS = 64


cpdef cnp.ndarray expanded(cnp.ndarray array, tuple size):
    """`array` seen with the shape `size`; -1 keeps a length.

    Raises
    ------
    RuntimeError
        The two do not broadcast to `size`.
    """
    cdef cnp.npy_intp dims[MAX_DIMS]
    cdef cnp.npy_intp strides[MAX_DIMS]
    cdef int nd = <int>len(size), own = cnp.PyArray_NDIM(array), extra = nd - own, i, flags
    cdef cnp.npy_intp n, have
    cdef cnp.ndarray out
    cdef cnp.PyArray_Descr *descr
    if extra < 0 or nd > MAX_DIMS:
        expanded_shape((<object>array).shape, size)
        raise RuntimeError(f"expand: {nd} dimensions are more than the {MAX_DIMS} that NumPy has")
    for i in range(nd):
        n = PyLong_AsSsize_t(size[i])
        if i < extra:
            if n < 0:
                expanded_shape((<object>array).shape, size)
            dims[i] = n
            strides[i] = 0
            continue
        have = cnp.PyArray_DIM(array, i - extra)
        if n == have or n == -1:
            dims[i] = have
            strides[i] = cnp.PyArray_STRIDE(array, i - extra)
        elif have == 1 and n >= 0:
            dims[i] = n
            strides[i] = 0
        else:
            expanded_shape((<object>array).shape, size)
    descr = cnp.PyArray_DESCR(array)
    Py_INCREF(<object>descr)  # which the call takes over
    flags = cnp.NPY_ARRAY_WRITEABLE if cnp.PyArray_ISWRITEABLE(array) else 0
    out = <cnp.ndarray>PyArray_NewFromDescr(
        cnp.ndarray, descr, nd, dims, strides, cnp.PyArray_DATA(array), flags, NULL
    )
    cnp.set_array_base(out, array)
    return out


cdef class Expand(Kernel):
    """The kernel of ``standard::expand``."""

    cdef object call(self, tuple args, tuple kwnames):
        size = args[1]
        return expanded(<cnp.ndarray>args[0], size if type(size) is tuple else (size,))


expand = Expand(expanded)
