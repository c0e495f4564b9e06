from plugrad.graph.node cimport Node

cdef bint wants_any(Node node, set wanted)
cdef set reachable(list roots)
cdef set leading_to(list roots, list targets)
cdef dict edges_into_hooked_leaves(list roots)
