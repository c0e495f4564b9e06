# cython: boundscheck=False, wraparound=False
"""Broadcasting a view and cutting out triangles, in C: NumPy takes ten times as long over either.

(a) Every reduction's gradient is a broadcast view. It keeps its source alive as its base, has stride 0 where an
    element repeats, and can be written only where its source can. Sizes that do not fit are left to
    `expanded_shape`, which says what is wrong.
(b) A triangle is a copy in which the end, or the beginning, of each row is cleared: zeros are zero bytes in every
    dtype.
"""

from libc.string cimport memset

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


# ---- triangles -----------------------------------------------------------------------------------------------


cdef void clear_rows(
    char *data, Py_ssize_t stack, Py_ssize_t m, Py_ssize_t n, Py_ssize_t size, bint upper, Py_ssize_t diagonal
) noexcept nogil:
    """Clear what lies outside a triangle of matrices in C order, whose elements have `size` bytes."""
    cdef Py_ssize_t row, edge
    for row in range(stack * m):
        edge = max(0, min(n, row % m + diagonal + (not upper)))  # the first column that is of the other kind
        if upper:
            memset(data, 0, edge * size)
        else:
            memset(data + edge * size, 0, (n - edge) * size)
        data += n * size


cpdef cnp.ndarray triangle(cnp.ndarray array, bint upper, Py_ssize_t diagonal=0):
    """A copy of matrices in C order with zeros but where ``j >= i + diagonal``, or, not `upper`, ``j <= i + diagonal``.

    Raises
    ------
    ValueError
        There are less than two dimensions.
    """
    cdef int nd = cnp.PyArray_NDIM(array)
    cdef Py_ssize_t m, n, stack = 1
    cdef cnp.ndarray out
    cdef int i
    if nd < 2:
        raise ValueError(f"expected matrices, got {nd} dimensions")
    m, n = cnp.PyArray_DIM(array, nd - 2), cnp.PyArray_DIM(array, nd - 1)
    for i in range(nd - 2):
        stack *= cnp.PyArray_DIM(array, i)
    out = cnp.PyArray_NewCopy(array, cnp.NPY_CORDER)
    diagonal = max(-m, min(n, diagonal))
    with nogil:
        clear_rows(<char *>cnp.PyArray_DATA(out), stack, m, n, cnp.PyArray_ITEMSIZE(out), upper, diagonal)
    return out


cdef class Triangle(Kernel):
    """The kernel of ``standard::tril`` and ``standard::triu``; the reference says what is wrong with an array."""

    cdef bint upper

    def __init__(self, reference, bint upper):
        super().__init__(reference)
        self.upper = upper

    cdef object call(self, tuple args, tuple kwnames):
        cdef cnp.ndarray array = <cnp.ndarray>args[0]
        diagonal = args[1] if len(args) > 1 else 0
        if cnp.PyArray_NDIM(array) < 2 or type(diagonal) is not int:
            return self.function(array, diagonal=diagonal)
        return triangle(array, self.upper, diagonal)
