from plugrad.graph.node cimport Node
from plugrad.graph.op cimport Op
from plugrad.graph.tensor cimport Tensor

cdef int refresh(Tensor view) except -1
cdef int check_target(str name, Tensor target, bint records) except -1
cdef int rebind(Tensor target, Node node, int nr) except -1
cdef Tensor absorb(str name, Tensor target, Tensor result)
cdef Tensor inplace(object target, Tensor tensor, tuple args, dict kwargs)
