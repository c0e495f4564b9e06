"""Views of device arrays, made by the functions that make views of NumPy arrays.

(a) The function runs on a *ghost*: a host array of the same shape and strides, in memory that is mapped but never
    filled. Shape, strides and offset of what it returns are read off. So an operator that is declared a view needs
    no kernel.
(b) A function that had to copy returns memory of its own, which is told by its address.
"""
cimport numpy as cnp
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF

from plugrad.backends.cuda.storage cimport Memory, new_array, pointer_of

import numpy as np

cdef extern from "numpy/arrayobject.h":
    ctypedef struct Descr "PyArray_Descr":
        pass
    object PyArray_NewFromDescr(
        PyTypeObject *subtype, Descr *descr, int nd, cnp.npy_intp *dims, cnp.npy_intp *strides, void *data,
        int flags, PyObject *obj
    )
    int PyArray_SetBaseObject(cnp.ndarray array, PyObject *base) except -1

cnp.import_array()

cdef enum:
    MOST = 64  # dimensions of a NumPy array


class Ghost(np.ndarray):
    """Gives a view where NumPy would read the one element that an index names."""

    def __getitem__(self, index):
        found = np.ndarray.__getitem__(self, index)
        if isinstance(found, np.ndarray):
            return found
        return np.ndarray.__getitem__(self, (*index, ...) if isinstance(index, tuple) else (index, ...))


def seen_by(function, array, tuple args, dict constants):
    """What a function that makes views gives for a device array: views, or None where it had to copy."""
    cdef cnp.ndarray ghost = ghost_of(array)
    cdef object result = function(ghost, *args, **constants)
    cdef list views
    if not isinstance(result, (tuple, list)):
        return one_view(result, ghost, array)
    views = [one_view(each, ghost, array) for each in result]
    return None if any([view is None for view in views]) else tuple(views)


cdef cnp.ndarray ghost_of(object array):
    """A host array of the same shape and strides; its base is the block of bytes that it lies in."""
    cdef cnp.npy_intp dims[MOST]
    cdef cnp.npy_intp strides[MOST]
    cdef cnp.npy_intp below = 0, above = 0, reach, nbytes
    cdef tuple shape = tuple(array.shape), steps = tuple(array.strides)
    cdef object dtype = array.dtype
    cdef int i, nd = <int>len(shape)
    cdef cnp.ndarray block, ghost
    if nd > MOST:
        raise ValueError(f"an array has at most {MOST} dimensions, got shape {shape}")
    for i in range(nd):
        dims[i] = shape[i]
        strides[i] = steps[i]
        reach = (dims[i] - 1) * strides[i]
        if reach < 0:
            below -= reach
        else:
            above += reach
    if array.size == 0:
        below = above = 0
    nbytes = below + above + <cnp.npy_intp>dtype.itemsize
    block = cnp.PyArray_EMPTY(1, &nbytes, cnp.NPY_UINT8, 0)
    Py_INCREF(dtype)  # the call takes a reference over
    ghost = PyArray_NewFromDescr(
        <PyTypeObject *>Ghost, <Descr *>dtype, nd, dims, strides, <char *>cnp.PyArray_DATA(block) + below,
        cnp.NPY_ARRAY_WRITEABLE, NULL
    )
    Py_INCREF(block)
    PyArray_SetBaseObject(ghost, <PyObject *>block)
    return ghost


cdef object one_view(object result, cnp.ndarray ghost, object array):
    """The view of `array` that `result` is of the ghost; None where it is none."""
    cdef cnp.ndarray found, block
    cdef char *data
    cdef char *start
    cdef tuple shape, strides
    cdef int i
    if not isinstance(result, np.ndarray):
        raise TypeError(f"a view function must return an array, got {type(result).__name__}")
    found = <cnp.ndarray>result
    block = <cnp.ndarray>cnp.PyArray_BASE(ghost)
    data, start = <char *>cnp.PyArray_DATA(found), <char *>cnp.PyArray_DATA(block)
    shape = tuple([found.shape[i] for i in range(cnp.PyArray_NDIM(found))])
    strides = tuple([found.strides[i] for i in range(cnp.PyArray_NDIM(found))])
    owner = array if type(array.base) is Memory or array.base is None else array.base
    if cnp.PyArray_SIZE(found) == 0:
        return new_array(shape, found.dtype, strides, 0, None, owner)
    if data < start or data >= start + cnp.PyArray_SIZE(block):
        return None  # both are alive, so that memory of its own lies elsewhere
    pointer = pointer_of(array) + <Py_ssize_t>(data - <char *>cnp.PyArray_DATA(ghost))
    return new_array(shape, found.dtype, strides, cnp.PyArray_SIZE(found), pointer, owner)
