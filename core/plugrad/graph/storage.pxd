from cpython.object cimport PyObject

from plugrad.graph.backend cimport Backend, Meta
from plugrad.graph.node cimport Node
from plugrad.graph.op cimport Fused, Kernel, Op

cdef bint any_storage(list inputs)
cdef object call_widened(
    Op op, Kernel kernel, list inputs, list arrays, tuple constants, Meta expected, Backend backend
)
cdef int mutate_widened(Op op, Kernel kernel, list arrays, tuple constants, Backend backend) except -1
cdef bint node_has_storage(Node node) except -1
cdef object backward_widened(Fused fused, Node node, PyObject **args, int n)
