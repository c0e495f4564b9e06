from plugrad.graph.backend cimport Backend
from plugrad.graph.op cimport Kernel

cdef class CpuBackend(Backend):
    pass

cdef class CpuKernel(Kernel):
    pass

cdef CpuBackend CPU
