cdef enum Kind:
    SOFTMAX, LOG_SOFTMAX, LOGSUMEXP

cdef struct Job:
    Kind kind
    Py_ssize_t size                 # bytes of an element, which is a float or a double
    const char *x                   # the input; backward: what was saved
    const char *g                   # the incoming gradient
    const char *value               # backward of logsumexp: its results
    char *out
    Py_ssize_t outer, n, inner
    # `run` sets these: columns of a block, and blocks of a part; pieces of a row, and top and sum of each
    Py_ssize_t width, blocks
    Py_ssize_t pieces
    double *found

# Fill `job.out`, of at least one element, with results or gradients.
cdef int run(Job *job, bint back) except -1

# The greatest element of a row of floats or (`wide`) doubles, 0 in place of an infinite one; the sum of exp(x - it).
# These exponentials go to `out` unless it is NULL.
cdef void row_sums(bint wide, const void *x, void *out, Py_ssize_t n, double *found) noexcept nogil
