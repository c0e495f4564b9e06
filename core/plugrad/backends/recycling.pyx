# cython: boundscheck=False, wraparound=False
"""Recycling of small NumPy arrays.

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


cdef inline Bucket *bucket_of(int nd, cnp.npy_intp *dims, int type_num) noexcept:
    cdef size_t key = <size_t>(7 * type_num + nd)
    cdef int i
    for i in range(nd):
        key = 31 * key + <size_t>dims[i]
    return &_buckets[(key ^ (key >> 6)) % BUCKETS]


cdef inline bint matches(cnp.ndarray array, int nd, cnp.npy_intp *dims, int type_num) noexcept:
    cdef int i
    if cnp.PyArray_TYPE(array) != type_num or cnp.PyArray_NDIM(array) != nd:
        return False
    for i in range(nd):
        if cnp.PyArray_DIM(array, i) != dims[i]:
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
            if matches(<cnp.ndarray>top, nd, dims, type_num):
                bucket.count -= 1
                array = <cnp.ndarray>top
                Py_DECREF(array)
                return array
    return <cnp.ndarray>cnp.PyArray_EMPTY(nd, dims, type_num, 0)


cdef bint recycle(PyObject *given) noexcept:
    """Keep an array for `fresh` if the caller's reference, which stays the caller's to drop, is the only one."""
    cdef Bucket *bucket
    cdef PyObject *descr
    cdef cnp.ndarray array
    cdef int nd
    if not PLUGRAD_RECYCLES or not plugrad_like_new(given):
        return False
    array = <cnp.ndarray>given
    descr = <PyObject *>cnp.PyArray_DESCR(array)
    if descr != <PyObject *>_float32 and descr != <PyObject *>_float64 and descr != <PyObject *>_bool:
        return False
    if cnp.PyArray_NBYTES(array) > LARGEST:
        return False
    nd = cnp.PyArray_NDIM(array)
    bucket = bucket_of(nd, cnp.PyArray_DIMS(array), cnp.PyArray_TYPE(array))
    if bucket.count > 0:
        if not matches(<cnp.ndarray>bucket.arrays[0], nd, cnp.PyArray_DIMS(array), cnp.PyArray_TYPE(array)):
            bucket.count -= 1
            Py_DECREF(<object>bucket.arrays[bucket.count])
            return False
        if bucket.count == DEPTH:
            return False
    Py_INCREF(array)
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
