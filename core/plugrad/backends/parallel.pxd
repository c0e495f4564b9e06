"""Loops that several threads share; see parallel.pyx."""

ctypedef void (*Chunk)(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil

# Calls chunk(context, begin, end) until [0, n) is done, in pieces that are multiples of `grain` but for the last.
cdef void parallel_for(Py_ssize_t n, Py_ssize_t grain, Chunk chunk, void *context) noexcept nogil

# How many threads share a loop at most.
cdef int threads() noexcept nogil

# Another number once set_num_threads was called: whoever gives BLAS one thread for a while then leaves it what it has.
cdef unsigned int times_limited() noexcept nogil
