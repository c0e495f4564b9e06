cdef class Function:
    cdef readonly object module
    cdef readonly str name
    cdef object handle
    cdef int known
    cdef int offsets[64]
    cdef int sizes[64]
    cdef int n_declared
    cdef char kinds[64]
    cdef char widths[64]
    cdef list types
    cdef Py_ssize_t pack(self, tuple args, char *buffer) except -1
    cdef object mismatch(self, str what, tuple args)
    cdef object refused(self, error, grid, block, args, shared)
