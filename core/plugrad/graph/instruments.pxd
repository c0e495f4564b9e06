from plugrad.graph.node cimport Node

cdef enum:
    OBSERVE = 1
    PACK = 2
    WATCH = 4
    DUAL = 8

cdef int instruments

cdef class Packed:
    cdef object content
    cdef object unpack

cdef int notify_observers(object op) except -1
cdef object packed(object tensor)
cdef int notify_recorded(Node node) except -1
cdef int notify_before(Node node) except -1
cdef object notify_after(Node node, object result)
cdef int push_forward(object op, list inputs, tuple constants, list outs) except -1
