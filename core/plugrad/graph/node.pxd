from plugrad.graph.backend cimport Meta

cdef class Counter:
    cdef Py_ssize_t version

cdef class Node

cdef class Edge:
    cdef Node node
    cdef int nr

cdef class Saved:
    cdef object value
    cdef Counter counter
    cdef Py_ssize_t version

cdef class Node:
    cdef object __weakref__
    cdef object op
    cdef long long seq
    cdef Node edge0
    cdef Node edge1
    cdef tuple more_edges
    cdef int nr0
    cdef int nr1
    cdef int n_inputs
    cdef unsigned char freed
    cdef unsigned char is_leaf
    cdef unsigned char hooked
    cdef object saved0
    cdef object saved1
    cdef Counter counter0
    cdef Counter counter1
    cdef Counter counter
    cdef Py_ssize_t version0
    cdef Py_ssize_t version1
    cdef list more_saved
    cdef tuple constants
    cdef Meta meta
    cdef tuple metas
    cdef object input_metas
    cdef object state
    cdef object hooks
    cdef object pending
    cdef long long run

cdef class Leaf(Node):
    cdef object tensor_ref

cdef Node new_node(object op)
cdef void number_node(Node node) noexcept
cdef Leaf new_leaf(object tensor_ref, Meta meta)
cdef Node edge_node(Node node, Py_ssize_t i)
cdef int edge_nr(Node node, Py_ssize_t i) noexcept
cdef Meta output_meta(Node node, int nr)
cdef Counter UNSHARED
cdef Counter saved_counter(Node node, int code, Counter counter)
cdef int release(Node node) except -1
cdef object already_freed(Node node)
cdef int track(Node node) except -1
cdef void push_dying(object thing) noexcept
cdef void drain_dying() noexcept
