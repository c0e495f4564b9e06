cdef class Role:
    cdef readonly str name
    cdef object target

cdef object target_of(Role role)
cdef object binary(Role role, object a, object b)
cdef object update(Role role, object a, object b)
cdef object unary(Role role, object a)
cdef object array_ufunc(object ufunc, str method, tuple inputs, dict kwargs)
cdef object missing_attribute(object tensor, str name)

cdef Role ADD, SUB, MUL, DIV, FLOOR_DIVIDE, REMAINDER, MATMUL, POW, AND, OR, XOR, LEFT_SHIFT, RIGHT_SHIFT
cdef Role NEG, POSITIVE, ABS, INVERT, EQ, NE, LT, LE, GT, GE
cdef Role GETITEM, SETITEM, PERMUTE, TRANSPOSE, BROADCAST_TO, SUM_TO, CAST, COPY, CONJ, REAL, IMAG
