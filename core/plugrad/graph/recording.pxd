from plugrad.graph.node cimport Node
from plugrad.graph.op cimport Op
from plugrad.graph.tensor cimport Tensor

cdef int record_simple(Op op, Tensor x, Tensor y, object number, Tensor out) except -1
cdef object hooked(Tensor tensor)
cdef int record(Op op, list inputs, tuple constants, list outs) except -1
cdef int connect(Op op, Node node, list inputs, tuple constants) except -1
cdef int save_values(Op op, Node node, list inputs, list outs) except -1
cdef int complete(Op op, Node node, list outs) except -1
cdef int replace_saved(Node node, int slot, Tensor value) except -1
