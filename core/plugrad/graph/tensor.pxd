from plugrad.graph.backend cimport Backend, Meta
from plugrad.graph.node cimport Counter, Leaf, Node

cdef class Tensor:
    cdef object __weakref__
    cdef object _array
    cdef Meta meta
    cdef Counter counter
    cdef Node fn
    cdef int output_nr
    cdef bint needs_grad
    cdef object _grad
    cdef Tensor base
    cdef Py_ssize_t fn_version
    cdef tuple chain
    cdef bint outside
    cdef bint inference
    cdef object tangent

cdef Tensor make(object array, Meta meta)
cdef Tensor wrap(object array)
cdef bint produced_alone(Tensor tensor) noexcept
cdef Counter counter_of(Tensor tensor)
cdef int bump(Tensor tensor) except -1
cdef int require(Tensor tensor) except -1
