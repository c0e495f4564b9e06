from plugrad.graph.op cimport Op

cdef class CustomOp(Op):
    pass
