from plugrad.graph.backend cimport Backend
from plugrad.graph.op cimport Kernel

cdef class CpuBackend(Backend):
    pass

cdef class CpuKernel(Kernel):
    pass

cdef CpuBackend CPU
cdef int kind_of(int type_num) noexcept
cdef object look(object array, list steps)
cdef bint overlaps_itself(object array)
