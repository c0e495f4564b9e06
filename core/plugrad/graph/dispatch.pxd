from plugrad.graph.backend cimport Backend
from plugrad.graph.op cimport Kernel, Op

cdef Kernel kernel_for(Op op, Backend backend)
cdef object apply1(Op op, object a)
cdef object apply2(Op op, object a, object b)
cdef object dispatch(Op op, list inputs, tuple constants)
