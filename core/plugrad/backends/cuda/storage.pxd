from plugrad.backends.cuda.context cimport Stream


cdef class Memory:
    cdef readonly unsigned long long pointer
    cdef readonly Py_ssize_t nbytes
    cdef object allocation
    cdef Stream stream
    cdef list used

cdef object new_array(tuple shape, object dtype, tuple strides, Py_ssize_t size, object pointer, object base)
cdef object allocated(tuple shape, object dtype)
cdef tuple c_strides(tuple shape, Py_ssize_t itemsize)
cdef unsigned long long pointer_of(object array) except? 0
cdef int note_use(object array) except -1
