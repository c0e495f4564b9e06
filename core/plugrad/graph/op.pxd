from cpython.object cimport PyObject

from plugrad.graph.backend cimport Backend
from plugrad.graph.node cimport Node

cdef enum:
    UNVERIFIED_STATE = 0
    VERIFYING_STATE = 1
    READY_STATE = 2
    REFUSED_STATE = 3

cdef enum ArgKind:
    GRAD, INPUT, OUTPUT, CONSTANT, NEEDS, LIKE

cdef class Kernel:
    cdef readonly object function
    cdef object call1(self, object a)
    cdef object call2(self, object a, object b)
    cdef object call(self, tuple args, tuple kwnames)
    cdef object call_all(self, PyObject **args, Py_ssize_t n)

cdef class RulePlan:
    cdef readonly object function
    cdef readonly tuple plan
    cdef int n_args
    cdef int kinds[32]
    cdef int slots[32]

cdef class Fused:
    cdef RulePlan plan
    cdef object function
    cdef Kernel kernel

cdef class Op:
    cdef readonly str name
    cdef public int state
    cdef bint differentiable
    cdef public bint once_differentiable
    cdef bint elementwise
    cdef bint simple
    cdef readonly bint widens
    cdef bint variadic
    cdef bint uses_like
    cdef bint uses_constants
    cdef int n_inputs
    cdef int n_outputs
    cdef int view_of
    cdef int kinds_allowed
    cdef object out_dtype
    cdef list kernels
    cdef Kernel first_kernel
    cdef RulePlan rule_plan
    cdef dict fused_of
    cdef list fused
    cdef list saves
    cdef dict saved_when
    cdef int n_saves
    cdef int save_codes[64]
    cdef long long save_masks[64]
    cdef bint conjugates
    cdef bint real_result
    cdef dict variants
    cdef list needs_cache
    cdef object needs_type
    cdef object like_type
    cdef tuple inputs
    cdef tuple optional
    cdef tuple outputs
    cdef tuple nondifferentiable_outputs
    cdef tuple allowed
    cdef tuple joined
    cdef tuple constants
    cdef tuple default_constants
    cdef tuple mutates
    cdef dict defaults
    cdef object needs_of(self, Node node, set wanted)
    cdef object gradients(self, Node node, object grad, object needs, bint record)
    cdef list complete_grads(self, Node node, list pending)
    cdef int forget(self, Node node) except -1

cdef Fused fused_for(Op op, Backend backend)
cdef object vectorcall(object function, tuple args, tuple kwnames)
cdef object ensure_ready(Op op)
