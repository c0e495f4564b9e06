cdef bint recording() noexcept nogil
cdef bint set_recording(bint on) noexcept nogil
