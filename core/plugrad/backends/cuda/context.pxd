cdef class Stream:
    cdef readonly object handle
    cdef readonly object pool
    cdef object __weakref__

cdef int ensure() except -1
cdef Stream current()
cdef bint several_streams() noexcept
