cdef bint recording() noexcept nogil
cdef bint set_recording(bint on) noexcept nogil
cdef bint inferring() noexcept nogil
cdef int swap_mode(int mode) noexcept nogil
cdef int inference_blocks
