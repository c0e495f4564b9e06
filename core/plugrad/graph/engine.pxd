from cpython.object cimport PyObject
from plugrad.graph.node cimport Node
from plugrad.graph.tensor cimport Tensor

cdef class Run:
    cdef long long id
    cdef bint keep
    cdef bint create
    cdef bint accumulate
    cdef set wanted
    cdef dict captures
    cdef dict side
    cdef object result
    cdef PyObject **heap
    cdef Py_ssize_t size
    cdef Py_ssize_t room
    cdef list starts
    cdef set reached
    cdef dict noted
    cdef list at_end
    cdef dict expected
    cdef list ready
