from plugrad.graph.node cimport Node

cdef enum:
    OBSERVE = 1
    PACK = 2
    WATCH = 4
    DUAL = 8
    RESULTS = 16

cdef int instruments

cdef class Packed:
    cdef object content
    cdef object unpack
    cdef object meta
    cdef object tangents

cdef class Tangents:
    cdef object __weakref__
    cdef readonly dict levels

cdef class SavedDual:
    cdef readonly object array
    cdef readonly Tangents tangents

cdef int notify_observers(object op) except -1
cdef object packed(object tensor)
cdef int notify_recorded(Node node) except -1
cdef int notify_before(Node node) except -1
cdef object notify_after(Node node, object result)
cdef int notify_failed(Node node, object error) except -1
cdef int notify_results(object op, list inputs, tuple constants, list outs) except -1
cdef int push_forward(object op, list inputs, tuple constants, list outs) except -1
cdef int push_written(object target, object tangents) except -1
cdef int push_refreshed(object view) except -1
cdef bint concerns_tangents(list records) except -1
