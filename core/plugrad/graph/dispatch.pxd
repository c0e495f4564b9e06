from plugrad.graph.backend cimport Backend
from plugrad.graph.node cimport Node
from plugrad.graph.op cimport Kernel, Op
from plugrad.graph.tensor cimport Tensor

cdef Kernel kernel_for(Op op, Backend backend)
cdef bint is_operand(object value)
cdef object apply1(Op op, object a)
cdef object apply2(Op op, object a, object b)
cdef object dispatch(Op op, list inputs, tuple constants)
cdef int connect(Op op, Node node, list inputs, tuple constants) except -1
cdef int complete(Op op, Node node, list outs) except -1
cdef object hooked(Tensor tensor)
