from plugrad.graph.backend cimport Meta
from plugrad.graph.instruments cimport Packed
from plugrad.graph.node cimport Node
from plugrad.graph.op cimport Fused, Op, RulePlan
from plugrad.graph.tensor cimport Tensor

cdef object run_plan(Op op, RulePlan plan, Node node, object grad, object needs, bint record)
cdef object run_on_arrays(Fused fused, Op op, Node node, object grad, object needs)
cdef Tensor tensor_like(object array, Meta meta)
cdef object run_fused(Fused fused, Op op, Node node, object grad, object needs)
cdef object run_once(Op op, Node node, object grad, object needs)
cdef bint has_tangents(Node node, object grad)
cdef Tensor unpacked(Packed saved, str name)
