from plugrad.graph.backend cimport Backend, Meta
from plugrad.graph.op cimport Op
from plugrad.graph.tensor cimport Tensor

cdef bint is_operand(object value)
cdef bint keeps_dtype(Meta meta, object number)
cdef Backend gather(Op op, list inputs)
cdef int promote(Op op, list inputs, Backend backend) except -1
cdef Meta broadcast_meta(Op op, list inputs, Backend backend)
cdef str describe_inputs(list inputs)
