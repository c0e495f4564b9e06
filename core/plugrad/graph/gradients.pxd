from cpython.object cimport PyObject

from plugrad.graph.backend cimport Meta
from plugrad.graph.node cimport Leaf, Node
from plugrad.graph.run cimport Run
from plugrad.graph.tensor cimport Tensor

cdef int deliver(Run run, Node node, int nr, Tensor grad) except -1
cdef bint deliver_array(Run run, Node node, object array) except -1
cdef object take(Run run, Node node)
cdef bint waits(Run run, Node node)
cdef bint by_operators(Run run, Tensor a, Tensor b) noexcept
cdef Tensor zeros(Meta meta)
cdef int accumulate(Run run, Leaf leaf, Tensor grad) except -1
cdef int add_to_grad(Run run, Tensor tensor, Tensor grad) except -1
cdef int note_captures(Run run, Node node, object pending) except -1
