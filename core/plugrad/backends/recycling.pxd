cimport numpy as cnp
from cpython.object cimport PyObject

# Results and temporaries of kernels: arrays with arbitrary values, in C order, or laid out as another array.
cdef cnp.ndarray fresh(int nd, cnp.npy_intp *dims, int type_num)
cdef cnp.ndarray fresh_like(cnp.ndarray array, int type_num)
cdef bint recycle(PyObject *array) noexcept
