from plugrad.graph.node cimport Node
from plugrad.graph.run cimport Run

cdef object run_tensor_hooks(Run run, Node node, object pending)
cdef object run_pre_hooks(Node node, object pending)
cdef object run_post_hooks(Node node, object result, object pending)
