from cpython.object cimport PyObject

from plugrad.graph.node cimport Node

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

cdef Run new_run(object retain_graph, bint create_graph)
cdef int push(Run run, Node node) except -1
cdef Node pop(Run run)
