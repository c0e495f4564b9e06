cimport numpy as cnp
from cpython.object cimport PyObject

cdef cnp.ndarray fresh(int nd, cnp.npy_intp *dims, int type_num)
cdef bint recycle(PyObject *array) noexcept
