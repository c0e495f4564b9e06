# cython: boundscheck=False, wraparound=False
"""How softmax, log_softmax and logsumexp, and their gradients, go through memory; their loops are in softmax_loops.pxd.

(a) Memory is, for each of `outer` parts, n times `inner` neighbours. With `inner` 1 rows lie in one piece, and a row is
    visited while it is in the cache. Otherwise a block of neighbouring columns is taken at a time, in a copy of it that
    fits the cache: memory is read and written once.
(b) Few long rows are cut into pieces of PIECE elements whose sums are joined in order, so that threads share a row.
(c) Pieces and blocks depend on the shape alone, never on the number of threads: nor do results.
"""

from libc.math cimport INFINITY, NAN, exp, isfinite, isinf, log
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from plugrad.backends.parallel cimport parallel_for
from plugrad_ops.activation.softmax_loops cimport Loops, pg_softmax_double, pg_softmax_float

cdef enum:
    PIECE = 16384         # elements of a long row that are summed by themselves
    LONG = 65536          # elements of a row that several threads share
    GRAIN = 16384         # elements of the rows that a thread takes at a time
    WIDEST = 256          # columns of a block
    NARROWEST = 128       # bytes of a row of a block
    BLOCK = 524288        # bytes that a block should have
    COPIED = 1048576      # and may have, to be copied


# ---- rows ----------------------------------------------------------------------------------------------------

cdef void row_sums(bint wide, const void *x, void *out, Py_ssize_t n, double *found) noexcept nogil:
    (pg_softmax_double.sums if wide else pg_softmax_float.sums)(x, out, n, 1, found)


cdef inline const Loops *loops_of(const Job *job) noexcept nogil:
    return &pg_softmax_float if job.size == sizeof(float) else &pg_softmax_double


cdef inline double value_at(const Job *job, const char *x, Py_ssize_t i) noexcept nogil:
    return (<const float *>x)[i] if job.size == sizeof(float) else (<const double *>x)[i]


cdef inline void put(const Job *job, char *x, Py_ssize_t i, double value) noexcept nogil:
    if job.size == sizeof(float):
        (<float *>x)[i] = <float>value
    else:
        (<double *>x)[i] = value


cdef void forward_rows(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef const Job *job = <const Job *>context
    cdef const Loops *loops = loops_of(job)
    cdef Py_ssize_t step = job.n * job.size, row
    cdef const char *x
    cdef char *out
    cdef double[2] found
    for row in range(begin, end):
        x, out = job.x + row * step, job.out + row * step
        if job.kind == SOFTMAX:
            loops.sums(x, out, job.n, 0, found)
            loops.scale(out, job.n, 1.0 / found[1])
        elif job.kind == LOG_SOFTMAX:
            loops.sums(x, NULL, job.n, 0, found)
            loops.shift(x, out, job.n, found[0], log(found[1]))
        else:
            loops.sums(x, NULL, job.n, 1, found)
            put(job, job.out, row, found[0] + log(found[1]))


cdef void backward_rows(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef const Job *job = <const Job *>context
    cdef const Loops *loops = loops_of(job)
    cdef Py_ssize_t step = job.n * job.size, row
    cdef const char *x
    cdef const char *g
    cdef char *out
    for row in range(begin, end):
        x, g, out = job.x + row * step, job.g + row * step, job.out + row * step
        if job.kind == SOFTMAX:
            loops.slopes(g, x, out, job.n, loops.dot(g, x, job.n))
        elif job.kind == LOG_SOFTMAX:
            loops.exp_slopes(g, x, out, job.n, 0.0, loops.dot(g, NULL, job.n))
        else:
            spread(job, x, out, job.n, row)


cdef void spread(const Job *job, const char *x, char *out, Py_ssize_t n, Py_ssize_t row) noexcept nogil:
    """Part of a row of the gradient of logsumexp."""
    cdef double top = value_at(job, job.value, row), grad = value_at(job, job.g, row)
    if isinf(top):
        share(job, job.x + row * job.n * job.size, job.n, 1, top, grad, x, out, n)
    else:
        loops_of(job).exp_slopes(NULL, x, out, n, top, grad)


cdef void share(
    const Job *job, const char *line, Py_ssize_t length, Py_ssize_t step, double top, double grad,
    const char *x, char *out, Py_ssize_t n
) noexcept nogil:
    """The gradient where the result is infinite: what is inf in the line shares it; n elements, from x on."""
    cdef Py_ssize_t i, count = 0
    if top > 0:
        for i in range(length):
            count += value_at(job, line, i * step) == top
    for i in range(n):
        put(job, out, i * step, grad * (1.0 / count if count and value_at(job, x, i * step) == top else 0.0))


# ---- pieces of long rows -------------------------------------------------------------------------------------

cdef void sum_pieces(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef const Job *job = <const Job *>context
    cdef Py_ssize_t piece, at, n
    for piece in range(begin, end):
        n = piece_at(job, piece, &at)
        loops_of(job).sums(job.x + at, job.out + at if job.kind == SOFTMAX else NULL, n, 1, job.found + 2 * piece)


cdef void write_pieces(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef const Job *job = <const Job *>context
    cdef Py_ssize_t piece, at, n
    cdef double *found
    for piece in range(begin, end):
        n = piece_at(job, piece, &at)
        found = job.found + 2 * piece
        if job.kind == SOFTMAX:
            loops_of(job).scale(job.out + at, n, found[1])
        else:
            loops_of(job).shift(job.x + at, job.out + at, n, found[0], found[1])


cdef void dot_pieces(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef const Job *job = <const Job *>context
    cdef Py_ssize_t piece, at, n
    for piece in range(begin, end):
        n = piece_at(job, piece, &at)
        job.found[piece] = loops_of(job).dot(job.g + at, job.x + at if job.kind == SOFTMAX else NULL, n)


cdef void slope_pieces(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef const Job *job = <const Job *>context
    cdef Py_ssize_t piece, at, n
    for piece in range(begin, end):
        n = piece_at(job, piece, &at)
        if job.kind == SOFTMAX:
            loops_of(job).slopes(job.g + at, job.x + at, job.out + at, n, job.found[piece])
        elif job.kind == LOG_SOFTMAX:
            loops_of(job).exp_slopes(job.g + at, job.x + at, job.out + at, n, 0.0, job.found[piece])
        else:
            spread(job, job.x + at, job.out + at, n, piece // job.pieces)


cdef inline Py_ssize_t piece_at(const Job *job, Py_ssize_t piece, Py_ssize_t *at) noexcept nogil:
    """How many elements a piece has; `at`: its place in bytes."""
    cdef Py_ssize_t first = piece % job.pieces * PIECE
    at[0] = (piece // job.pieces * job.n + first) * job.size
    return PIECE if job.n - first > PIECE else job.n - first


cdef void join(const Job *job) noexcept nogil:
    """From tops and sums of pieces to what `write_pieces` takes, or to the results of logsumexp."""
    cdef Py_ssize_t row, i
    cdef double *found
    cdef double top, total
    for row in range(job.outer):
        found = job.found + 2 * row * job.pieces
        top, total = -INFINITY, 0.0
        for i in range(job.pieces):
            if found[2 * i + 1] != 0.0 and found[2 * i] > top:  # a sum is 0 where all is -inf
                top = found[2 * i]
        for i in range(job.pieces):
            if isfinite(found[2 * i + 1]):
                total += found[2 * i + 1] * exp(found[2 * i] - top) if found[2 * i + 1] != 0.0 else 0.0
            else:
                total += found[2 * i + 1]
        if job.kind == LOGSUMEXP:
            put(job, job.out, row, log(total) if not isfinite(top) else top + log(total))
            continue
        if isinf(total) or total == 0.0:
            total = NAN
        for i in range(job.pieces):
            if job.kind == SOFTMAX:
                found[2 * i + 1] = exp(found[2 * i] - top) / total
            else:
                found[2 * i], found[2 * i + 1] = top, log(total)


cdef void total_dots(const Job *job) noexcept nogil:
    cdef Py_ssize_t row, i
    cdef double total
    for row in range(job.outer):
        total = 0.0
        for i in range(row * job.pieces, (row + 1) * job.pieces):
            total += job.found[i]
        for i in range(row * job.pieces, (row + 1) * job.pieces):
            job.found[i] = total


# ---- columns -------------------------------------------------------------------------------------------------

cdef struct Columns:
    # Numbers of each column, in the type of the elements but for the sums.
    double[256] total
    double[256] top
    double[256] part


cdef void forward_columns(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef const Job *job = <const Job *>context
    cdef const Loops *loops = loops_of(job)
    cdef Py_ssize_t size = job.size, step = job.inner, lanes = 64 // size
    cdef Py_ssize_t block, i, j, first, count, padded, held, at
    cdef const char *x
    cdef char *out
    cdef char *copy = NULL
    cdef char *work
    cdef char *top
    cdef Columns columns
    cdef double total
    if job.n * job.width * size <= COPIED:
        copy = <char *>malloc(job.n * job.width * size)
    top = <char *>columns.top
    for block in range(begin, end):
        first = block % job.blocks * job.width
        count = min(job.width, job.inner - first)
        at = (block // job.blocks * job.n * job.inner + first) * size
        x, out = job.x + at, job.out + at
        # Exponentials are written to the copy, or to the result itself, or not at all.
        padded, held, work = count, step, out
        if copy != NULL:
            padded = (count + lanes - 1) // lanes * lanes
            held, work = padded, copy
            if padded > count:
                for i in range(job.n):
                    memset(copy + (i * held + count) * size, 0, (padded - count) * size)
        elif job.kind != SOFTMAX:
            work = NULL
        memset(&columns, 0, sizeof(Columns))
        memcpy(top, x, count * size)
        loops.tops(x, step, work, held, top, job.n, count)
        if work == NULL:
            work = <char *>x
        if job.kind == LOGSUMEXP:
            for j in range(count):
                if not isfinite(value_at(job, top, j)):
                    put(job, top, j, 0.0)
        loops.sums_down(work, held, top, columns.part, columns.total, job.n, padded, job.kind == SOFTMAX)
        for j in range(count):
            total = columns.total[j]
            if job.kind == LOGSUMEXP:
                put(job, job.out, block // job.blocks * job.inner + first + j, value_at(job, top, j) + log(total))
            else:
                put(job, <char *>columns.part, j, 1.0 / total if job.kind == SOFTMAX else log(total))
        if job.kind != LOGSUMEXP:
            loops.write_down(work, held, out, step, NULL if job.kind == SOFTMAX else top, columns.part, job.n, count)
    free(copy)


cdef void backward_columns(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef const Job *job = <const Job *>context
    cdef const Loops *loops = loops_of(job)
    cdef Py_ssize_t size = job.size, step = job.inner
    cdef Py_ssize_t block, j, first, count, at
    cdef const char *x
    cdef const char *g
    cdef char *out
    cdef Columns columns
    cdef double top
    for block in range(begin, end):
        first = block % job.blocks * job.width
        count = min(job.width, job.inner - first)
        at = (block // job.blocks * job.n * job.inner + first) * size
        x, out = job.x + at, job.out + at
        if job.kind == LOGSUMEXP:
            at = block // job.blocks * job.inner + first
            loops.exp_slopes_down(NULL, x, out, step, job.value + at * size, job.g + at * size, job.n, count)
            for j in range(count):
                top = value_at(job, job.value, at + j)
                if isinf(top):
                    share(
                        job, x + j * size, job.n, step, top, value_at(job, job.g, at + j),
                        x + j * size, out + j * size, job.n
                    )
            continue
        g = job.g + at
        memset(&columns, 0, sizeof(Columns))
        loops.dots_down(g, x if job.kind == SOFTMAX else NULL, step, columns.part, columns.total, job.n, count)
        for j in range(count):
            put(job, <char *>columns.part, j, columns.total[j])
        if job.kind == SOFTMAX:
            loops.slopes_down(g, x, out, step, columns.part, job.n, count)
        else:
            loops.exp_slopes_down(g, x, out, step, NULL, columns.part, job.n, count)


# ---- running a job -------------------------------------------------------------------------------------------

cdef int run(Job *job, bint back) except -1:
    """Fill `job.out`; shapes have at least one element."""
    cdef Py_ssize_t size = job.size
    if job.inner > 1:
        job.width = BLOCK // (job.n * size) // 16 * 16  # whole registers
        job.width = max(NARROWEST // size, min(job.width, <Py_ssize_t>WIDEST))
        job.blocks = (job.inner + job.width - 1) // job.width
        with nogil:
            parallel_for(
                job.outer * job.blocks, GRAIN // (job.n * min(job.width, job.inner)) + 1,
                backward_columns if back else forward_columns, job
            )
        return 0
    if job.n < LONG or job.outer > 16:
        if job.n * job.outer < GRAIN:
            (backward_rows if back else forward_rows)(job, 0, job.outer)
        else:
            with nogil:
                parallel_for(job.outer, GRAIN // job.n + 1, backward_rows if back else forward_rows, job)
        return 0
    job.pieces = (job.n + PIECE - 1) // PIECE
    job.found = <double *>malloc(2 * job.outer * job.pieces * sizeof(double))
    if job.found == NULL:
        raise MemoryError("softmax: no memory for the sums of pieces")
    with nogil:
        if not back:
            parallel_for(job.outer * job.pieces, 1, sum_pieces, job)
            join(job)
            if job.kind != LOGSUMEXP:
                parallel_for(job.outer * job.pieces, 1, write_pieces, job)
        else:
            if job.kind != LOGSUMEXP:
                parallel_for(job.outer * job.pieces, 1, dot_pieces, job)
                total_dots(job)
            parallel_for(job.outer * job.pieces, 1, slope_pieces, job)
    free(job.found)
    return 0
