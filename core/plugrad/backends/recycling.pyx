# cython: boundscheck=False, wraparound=False
"""Recycling of small NumPy arrays; others are made by memory.pyx.

(a) Making a small array costs NumPy some 750 instructions and freeing it 300, several times the arithmetic on its
    elements. The graph gives back the arrays that it alone still holds, and kernels take them for their results.
(b) Given back is only what no one can tell from a new array: exactly an ndarray, owner of its memory, writable, in C
    order, of a common dtype, with no weak reference and no exported buffer. Its values are whatever they were.
(c) Each bucket holds arrays of one shape and dtype; another shape that falls into it empties it step by step, so
    that shapes no longer used go. What is held at any time is at most BUCKETS * DEPTH * LARGEST bytes (512 KiB).
(d) Without the GIL the buckets would need a lock, which costs what they save: nothing is recycled there.
"""
cimport numpy as cnp
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF

from plugrad.backends.memory cimport new_array, new_like

cnp.import_array()

cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define PLUGRAD_RECYCLES 0
    #else
    #define PLUGRAD_RECYCLES 1
    #endif
    #define PLUGRAD_LIKE_NEW (NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_OWNDATA | NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE)

    static int plugrad_like_new(PyObject *object)
    {
        PyArrayObject_fields *a = (PyArrayObject_fields *)object;
        return Py_IS_TYPE(object, &PyArray_Type) && Py_REFCNT(object) == 1
            && (a->flags & PLUGRAD_LIKE_NEW) == PLUGRAD_LIKE_NEW
            && a->base == NULL && a->weakreflist == NULL && a->_buffer_info == NULL;
    }
    """
    bint PLUGRAD_RECYCLES
    bint plugrad_like_new(PyObject *)

cdef enum:
    BUCKETS = 64
    DEPTH = 16
    LARGEST = 512

cdef struct Bucket:
    int count
    PyObject *arrays[DEPTH]

cdef Bucket _buckets[BUCKETS]

# The dtype objects that a new array of these types has; one with metadata, or of another byte order, is not among them.
cdef object _float32 = cnp.PyArray_DescrFromType(cnp.NPY_FLOAT32)
cdef object _float64 = cnp.PyArray_DescrFromType(cnp.NPY_FLOAT64)
cdef object _bool = cnp.PyArray_DescrFromType(cnp.NPY_BOOL)


cdef inline Bucket *bucket_of(int nd, const cnp.npy_intp *dims, int type_num) noexcept:
    cdef size_t key = <size_t>(7 * type_num + nd)
    cdef int i
    for i in range(nd):
        key = 31 * key + <size_t>dims[i]
    return &_buckets[(key ^ (key >> 6)) % BUCKETS]


cdef inline bint matches(PyObject *array, int nd, const cnp.npy_intp *dims, int type_num) noexcept:
    cdef const cnp.npy_intp *own = cnp.PyArray_DIMS(<cnp.ndarray>array)
    cdef int i
    if cnp.PyArray_NDIM(<cnp.ndarray>array) != nd or cnp.PyArray_TYPE(<cnp.ndarray>array) != type_num:
        return False
    for i in range(nd):
        if own[i] != dims[i]:
            return False
    return True


cdef cnp.ndarray fresh(int nd, cnp.npy_intp *dims, int type_num):
    """An array in C order with arbitrary values, recycled or new."""
    cdef Bucket *bucket
    cdef PyObject *top
    cdef cnp.ndarray array
    if PLUGRAD_RECYCLES:
        bucket = bucket_of(nd, dims, type_num)
        if bucket.count > 0:
            top = bucket.arrays[bucket.count - 1]
            if matches(top, nd, dims, type_num):
                bucket.count -= 1
                array = <cnp.ndarray>top
                Py_DECREF(array)
                return array
    return new_array(nd, dims, type_num)


cdef cnp.ndarray fresh_like(cnp.ndarray array, int type_num):
    """One of the same shape and order of dimensions in memory as `array`."""
    if cnp.PyArray_IS_C_CONTIGUOUS(array):
        return fresh(cnp.PyArray_NDIM(array), cnp.PyArray_DIMS(array), type_num)
    return new_like(array, type_num)


cdef bint recycle(PyObject *given) noexcept:
    """Keep an array for `fresh` if the caller's reference, which stays the caller's to drop, is the only one."""
    cdef Bucket *bucket
    cdef PyObject *descr
    cdef const cnp.npy_intp *dims
    cdef int nd, type_num, i
    cdef size_t size
    if not PLUGRAD_RECYCLES or not plugrad_like_new(given):
        return False
    descr = <PyObject *>cnp.PyArray_DESCR(<cnp.ndarray>given)
    if descr == <PyObject *>_float32:
        type_num, size = cnp.NPY_FLOAT32, 4
    elif descr == <PyObject *>_float64:
        type_num, size = cnp.NPY_FLOAT64, 8
    elif descr == <PyObject *>_bool:
        type_num, size = cnp.NPY_BOOL, 1
    else:
        return False
    nd = cnp.PyArray_NDIM(<cnp.ndarray>given)
    dims = cnp.PyArray_DIMS(<cnp.ndarray>given)
    for i in range(nd):
        if <size_t>dims[i] > LARGEST:
            return False
        size *= <size_t>dims[i]
        if size > LARGEST:
            return False
    bucket = bucket_of(nd, dims, type_num)
    if bucket.count > 0:
        if not matches(bucket.arrays[0], nd, dims, type_num):
            bucket.count -= 1
            Py_DECREF(<object>bucket.arrays[bucket.count])
            return False
        if bucket.count == DEPTH:
            return False
    Py_INCREF(<object>given)
    bucket.arrays[bucket.count] = given
    bucket.count += 1
    return True


def recycled():
    """How many arrays wait to be used again."""
    cdef int i, found = 0
    for i in range(BUCKETS):
        found += _buckets[i].count
    return found


def forget():
    """Free all arrays that wait."""
    cdef int i
    for i in range(BUCKETS):
        while _buckets[i].count > 0:
            _buckets[i].count -= 1
            Py_DECREF(<object>_buckets[i].arrays[_buckets[i].count])
