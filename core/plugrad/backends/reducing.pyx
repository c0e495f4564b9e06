# cython: boundscheck=False, wraparound=False, cdivision=True
"""Reductions over any dimensions of an array of any layout: how memory is walked, and how threads share it.

(a) Dimensions are sorted by their steps in memory, and those that are one run of memory merged. Where the innermost one
    is reduced, a run of neighbours at a time goes into one result (`along`); where it stays, rows of neighbours go into
    as many results at once (`across`). Nothing is copied but neighbours with gaps between them, a thousand at a time.
(b) States of results are doubles. What is added to them, and how exactly, is the loops' business.
(c) A task is up to TILE results. Where there are few tasks and many elements, the longest reduced dimension is cut into
    at most PARTS parts, whose states are joined pairwise. How depends on shape and strides alone: results are the same
    bits with any number of threads.
(d) Gradients of reductions are functions of an element and one or two numbers of its result, mostly found by another
    reduction: both walk the same way, a task after the other, so that elements are in the cache the second time.
"""

cimport numpy as cnp
from cpython.long cimport PyLong_AsSsize_t, PyLong_CheckExact
from libc.stdlib cimport free, malloc

cimport plugrad.backends.simd  # its macros  # no-cython-lint
from plugrad.backends.parallel cimport parallel_for
from plugrad.backends.recycling cimport fresh

cnp.import_array()

cdef extern from *:
    """
    #define PG_MULTIPLY(T)                                                                          \\
    PG_STREAM static void pg_multiply_##T(const void *vx, const void *vy, Py_ssize_t n, void *to) { \\
        const T *x = vx, *y = vy; T *restrict out = to;                                             \\
        for (Py_ssize_t i = 0; i < n; i++) out[i] = x[i] * y[i]; }
    PG_MULTIPLY(float)
    PG_MULTIPLY(double)
    """
    void pg_multiply_float(const void *x, const void *y, Py_ssize_t n, void *out) noexcept nogil
    void pg_multiply_double(const void *x, const void *y, Py_ssize_t n, void *out) noexcept nogil

cdef enum:
    MOST_FIELDS = 4
    WORK = 32_768       # elements that are worth a thread's attention
    FEW_TASKS = 16
    ROWS = 128          # of a part, at least, where a row meets as many states, whose joining counts
    NEAR = 2048         # products that are reduced together
    LINE = 16           # elements of a line of the cache
    PARTS = 64
    CACHED = 65_536     # elements of a task that is gone through twice


# ---- the plan ------------------------------------------------------------------------------------------------

cdef void plan(Walk *walk, cnp.ndarray x, const bint *summed) noexcept:
    cdef int nd = cnp.PyArray_NDIM(x), d, i, at = 0, found = 0, first_kept = -1, first_summed = -1
    cdef Py_ssize_t place = 1, n, step
    cdef Dim[66] dims
    cdef bint[66] gone
    walk.size, walk.factor = cnp.PyArray_ITEMSIZE(x), NULL
    if cnp.PyArray_ISCOMPLEX(x):
        walk.size //= 2
        dims[0].n, dims[0].step, dims[0].place, gone[0] = 2, walk.size, 1, False
        at, place = 1, 2
    # From the last dimension to the first, each sorted in behind those with smaller steps.
    walk.count = 1
    for d in range(nd - 1, -1, -1):
        n, step = cnp.PyArray_DIM(x, d), cnp.PyArray_STRIDE(x, d)
        if summed[d]:
            walk.count *= n
        if n != 1:
            i = at
            while i > 0 and abs(dims[i - 1].step) > abs(step):
                dims[i], gone[i] = dims[i - 1], gone[i - 1]
                i -= 1
            dims[i].n, dims[i].step, dims[i].place, gone[i] = n, step, 0 if summed[d] else place, summed[d]
            at += 1
        if not summed[d]:
            place *= n
    for i in range(at):
        if (
            found and gone[i] == gone[found - 1] and dims[i].step == dims[found - 1].step * dims[found - 1].n
            and dims[i].place == dims[found - 1].place * dims[found - 1].n
        ):
            dims[found - 1].n *= dims[i].n
        else:
            dims[found], gone[found] = dims[i], gone[i]
            found += 1
    walk.along = found > 0 and gone[0]
    for i in range(found - 1, -1, -1):
        if gone[i]:
            first_summed = i
        else:
            first_kept = i
    walk.rows.n, walk.rows.step, walk.rows.place = 1, walk.size, 0
    walk.lanes.n, walk.lanes.step, walk.lanes.place = 1, walk.size, 1
    if first_summed >= 0:
        walk.rows = dims[first_summed]
    if first_kept >= 0:
        walk.lanes = dims[first_kept]
    walk.reduced = walk.kept = 0
    walk.places = 1
    for i in range(found - 1, -1, -1):
        if i == first_summed or i == first_kept:
            continue
        if gone[i]:
            walk.over[walk.reduced] = dims[i]
            walk.reduced += 1
        else:
            walk.at[walk.kept] = dims[i]
            walk.places *= dims[i].n
            walk.kept += 1


# ---- tasks ---------------------------------------------------------------------------------------------------

cdef struct Job:
    const Walk *walk
    const Loops *loops
    const char *x
    const double *given
    Finish finish
    void *context
    const Slopes *slopes
    const double *a
    const double *b
    char *out
    double *partial             # states of all parts of all tasks; NULL where they are whole
    Py_ssize_t tile, tiles, parts, part
    int cut                     # which of `over` is cut in parts; -1: the rows

# The elements of a task.
cdef struct Place:
    Py_ssize_t begin, end       # of the dimension that is cut
    Py_ssize_t width            # results
    Py_ssize_t first            # the number of the first of them
    const char *x


cdef void lay_out(Job *job) noexcept nogil:
    """Cut the work into tasks."""
    cdef const Walk *walk = job.walk
    cdef Py_ssize_t longest = walk.rows.n, most = TILE, unit, enough
    cdef int d
    if walk.along or job.slopes != NULL:
        most = max(<Py_ssize_t>(1 if walk.along else 64), min(most, CACHED // max(<Py_ssize_t>1, walk.count)))
    job.tile = max(<Py_ssize_t>1, min(walk.lanes.n, most))
    job.tiles = (walk.lanes.n + job.tile - 1) // job.tile
    if job.tiles > 1 and most > LINE:  # as wide as each other, in whole lines of the cache
        job.tile = ((walk.lanes.n + job.tiles - 1) // job.tiles + LINE - 1) // LINE * LINE
        job.tiles = (walk.lanes.n + job.tile - 1) // job.tile
    job.cut = -1
    for d in range(walk.reduced):
        if walk.over[d].n > longest:
            longest, job.cut = walk.over[d].n, d
    job.parts, job.part = 1, longest
    if walk.places * job.tiles >= FEW_TASKS or walk.count * job.tile < 2 * WORK:
        return
    unit = walk.count // longest * job.tile
    enough = 1024 if walk.along and job.cut < 0 else 8
    job.part = max(WORK // unit, (longest + PARTS - 1) // PARTS)
    if not walk.along and job.cut < 0:
        job.part = max(job.part, <Py_ssize_t>ROWS)
    job.part = (job.part + enough - 1) // enough * enough
    job.parts = (longest + job.part - 1) // job.part


cdef inline Place find(const Job *job, Py_ssize_t task, Py_ssize_t part) noexcept nogil:
    cdef const Walk *walk = job.walk
    cdef Place the
    cdef Py_ssize_t tile = task % job.tiles, rest = task // job.tiles, i
    cdef int d
    the.x = job.x + tile * job.tile * walk.lanes.step
    the.first = tile * job.tile * walk.lanes.place
    the.width = min(job.tile, walk.lanes.n - tile * job.tile)
    for d in range(walk.kept - 1, -1, -1):
        i = rest % walk.at[d].n
        rest //= walk.at[d].n
        the.x += i * walk.at[d].step
        the.first += i * walk.at[d].place
    the.begin = part * job.part
    the.end = min(the.begin + job.part, walk.rows.n if job.cut < 0 else walk.over[job.cut].n)
    return the


cdef void gathered(const char *x, Py_ssize_t step, Py_ssize_t n, Py_ssize_t size, void *out) noexcept nogil:
    cdef Py_ssize_t i
    if size == 4:
        for i in range(n):
            (<float *>out)[i] = (<const float *>(x + i * step))[0]
    else:
        for i in range(n):
            (<double *>out)[i] = (<const double *>(x + i * step))[0]


cdef void multiplied(const Walk *walk, const char *x, Py_ssize_t n, void *out) noexcept nogil:
    """The products of n neighbours and those of the factor."""
    cdef const char *y = walk.factor + (x - walk.first)
    if walk.size == 4:
        pg_multiply_float(x, y, n, out)
    else:
        pg_multiply_double(x, y, n, out)


cdef void take_products(
    const Job *job, const char *x, Py_ssize_t rows, Py_ssize_t width, double *states
) noexcept nogil:
    """What `take_rows` does with elements, with products, eight rows or runs of some length at a time."""
    cdef const Walk *walk = job.walk
    cdef double[NEAR] near
    cdef Py_ssize_t i, j, k, many, wide
    if walk.along:
        for j in range(width):
            i = 0
            while i < rows:
                many = min(<Py_ssize_t>NEAR, rows - i)
                multiplied(walk, x + j * walk.lanes.step + i * walk.size, many, near)
                job.loops.along(near, many, 1, 0, NULL, states + j, job.tile)
                i += many
        return
    for i in range(0, rows, 8):
        many = min(<Py_ssize_t>8, rows - i)
        k = 0
        while k < width:
            wide = min(width - k, <Py_ssize_t>(NEAR // 8))
            for j in range(many):
                multiplied(
                    walk, x + (i + j) * walk.rows.step + k * walk.size, wide, <char *>near + j * wide * walk.size
                )
            job.loops.across(near, many, wide * walk.size, wide, NULL, states + k, job.tile)
            k += wide


cdef void take_rows(
    const Job *job, const char *x, Py_ssize_t rows, Py_ssize_t width, const double *given, double *states
) noexcept nogil:
    """Rows, or runs of neighbours, into the states of a tile."""
    cdef const Walk *walk = job.walk
    cdef double[TILE] near
    cdef Py_ssize_t step = walk.rows.step, apart = walk.lanes.step, j, i, many
    cdef bint with_given = given != NULL
    if not walk.along:
        if apart == walk.size or width == 1:
            job.loops.across(x, rows, step, width, given, states, job.tile)
            return
        for i in range(rows):
            gathered(x + i * step, apart, width, walk.size, near)
            job.loops.across(near, 1, 0, width, given, states, job.tile)
        return
    if step == walk.size:
        job.loops.along(x, rows, width, apart, given, states, job.tile)
        return
    for j in range(width):
        i = 0
        while i < rows:
            many = min(<Py_ssize_t>TILE, rows - i)
            gathered(x + j * apart + i * step, step, many, walk.size, near)
            job.loops.along(near, many, 1, 0, given + j if with_given else NULL, states + j, job.tile)
            i += many


cdef void take(
    const Job *job, const Place *the, int d, const char *x, const double *given, double *states
) noexcept nogil:
    """Whatever dimensions d and following span into the states of a tile."""
    cdef const Walk *walk = job.walk
    cdef Py_ssize_t i, begin = 0, end
    if d < walk.reduced:
        end = walk.over[d].n
        if d == job.cut:
            begin, end = the.begin, the.end
        for i in range(begin, end):
            take(job, the, d + 1, x + i * walk.over[d].step, given, states)
        return
    end = walk.rows.n
    if job.cut < 0:
        begin, end = the.begin, the.end
    x += begin * walk.rows.step
    if walk.factor != NULL:
        take_products(job, x, end - begin, the.width, states)
    else:
        take_rows(job, x, end - begin, the.width, given, states)


cdef void put_rows(
    const Job *job, const Place *the, int d, Py_ssize_t at, const void *a, const void *b
) noexcept nogil:
    """Write what dimensions d and following span, from `at` bytes on."""
    cdef const Walk *walk = job.walk
    cdef Py_ssize_t i, begin = 0, end
    if d < walk.reduced:
        end = walk.over[d].n
        if d == job.cut:
            begin, end = the.begin, the.end
        for i in range(begin, end):
            put_rows(job, the, d + 1, at + i * walk.over[d].step, a, b)
        return
    end = walk.rows.n
    if job.cut < 0:
        begin, end = the.begin, the.end
    if walk.along:
        at += begin * walk.rows.step
        for i in range(the.width):
            job.slopes.along(
                job.x + at, job.out + at, end - begin, (<const double *>a)[i], (<const double *>b)[i]
            )
            at += walk.lanes.step
        return
    for i in range(begin, end):
        job.slopes.across(job.x + at + i * walk.rows.step, job.out + at + i * walk.rows.step, the.width, a, b)


cdef void numbers_of(const Job *job, const Place *the, const double *all, bint wide, void *out) noexcept nogil:
    """The numbers of a tile's results, as doubles (`wide`) or in the type of the elements."""
    cdef Py_ssize_t step = job.walk.lanes.place, i
    cdef double value
    for i in range(the.width):
        value = 0.0 if all == NULL else all[the.first + i * step]
        if wide or job.walk.size == 8:
            (<double *>out)[i] = value
        else:
            (<float *>out)[i] = <float>value


cdef void put(const Job *job, const Place *the) noexcept nogil:
    cdef double[TILE] a
    cdef double[TILE] b
    cdef bint wide = job.walk.along or job.slopes.wide
    numbers_of(job, the, job.a, wide, a)
    numbers_of(job, the, job.b, wide, b)
    put_rows(job, the, 0, the.x - job.x, a, b)


cdef inline double *states_of(const Job *job, Py_ssize_t index) noexcept nogil:
    return job.partial + index * job.loops.fields * job.tile


cdef void reduce_chunk(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """Parts of tasks."""
    cdef const Job *job = <const Job *>context
    cdef double[MOST_FIELDS * TILE] own
    cdef double[TILE] given
    cdef double *states = own
    cdef Py_ssize_t index, i
    cdef Place the
    for index in range(begin, end):
        the = find(job, index // job.parts, index % job.parts)
        if job.partial != NULL:
            states = states_of(job, index)
        for i in range(job.loops.fields * job.tile):
            states[i] = job.loops.start
        if job.given != NULL:
            numbers_of(job, &the, job.given, True, given)
        take(job, &the, 0, the.x, NULL if job.given == NULL else given, states)
        if job.partial == NULL:
            job.finish(job.context, states, job.tile, the.first, job.walk.lanes.place, the.width)
            if job.slopes != NULL:
                put(job, &the)


cdef void join_chunk(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """Tasks whose parts are done."""
    cdef const Job *job = <const Job *>context
    cdef Py_ssize_t task, part, gap
    cdef Place the
    for task in range(begin, end):
        the = find(job, task, 0)
        gap = 1
        while gap < job.parts:
            part = 0
            while part + gap < job.parts:
                job.loops.join(
                    states_of(job, task * job.parts + part), states_of(job, task * job.parts + part + gap),
                    the.width, job.tile
                )
                part += 2 * gap
            gap *= 2
        job.finish(
            job.context, states_of(job, task * job.parts), job.tile, the.first, job.walk.lanes.place, the.width
        )


cdef void put_chunk(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef const Job *job = <const Job *>context
    cdef Py_ssize_t index
    cdef Place the
    for index in range(begin, end):
        the = find(job, index // job.parts, index % job.parts)
        put(job, &the)


cdef bint reduce(
    const Walk *walk, const Loops *loops, const char *x, const double *given, Finish finish, void *context
) noexcept nogil:
    return reduce_and_spread(walk, loops, x, given, finish, context, NULL, NULL, NULL, NULL)


cdef bint reduce_and_spread(
    const Walk *walk, const Loops *loops, const char *x, const double *given, Finish finish, void *context,
    const Slopes *slopes, const double *a, const double *b, char *out
) noexcept nogil:
    cdef Job job
    cdef Py_ssize_t tasks, grain
    job.walk, job.loops, job.x, job.given, job.finish, job.context = walk, loops, x, given, finish, context
    job.slopes, job.a, job.b, job.out = slopes, a, b, out
    job.partial = NULL
    lay_out(&job)
    tasks = walk.places * job.tiles
    grain = max(<Py_ssize_t>1, WORK // max(<Py_ssize_t>1, walk.count * job.tile // job.parts))
    if loops == NULL:
        parallel_for(tasks * job.parts, grain, put_chunk, &job)
        return True
    if job.parts > 1:
        job.partial = <double *>malloc(tasks * job.parts * loops.fields * job.tile * sizeof(double))
        if job.partial == NULL:
            return False
    parallel_for(tasks * job.parts, grain, reduce_chunk, &job)
    if job.parts > 1:
        parallel_for(tasks, max(<Py_ssize_t>1, WORK // (job.parts * job.tile)), join_chunk, &job)
        free(job.partial)
        if slopes != NULL:
            parallel_for(tasks * job.parts, grain, put_chunk, &job)
    return True


# ---- arguments and results -----------------------------------------------------------------------------------

cdef bint mark(object dim, int nd, bint *summed) except -1:
    cdef Py_ssize_t d
    cdef int i
    for i in range(nd):
        summed[i] = False
    if PyLong_CheckExact(dim):
        d = PyLong_AsSsize_t(dim)
        if d < 0:
            d += nd
        if d < 0 or d >= nd:
            return False
        summed[d] = True
        return True
    if dim is None or (type(dim) is tuple and len(<tuple>dim) == 0):
        for i in range(nd):
            summed[i] = True
        return True
    if type(dim) is not tuple:
        return False
    for one in <tuple>dim:
        if not PyLong_CheckExact(one):
            return False
        d = PyLong_AsSsize_t(one)
        if d < 0:
            d += nd
        if d < 0 or d >= nd or summed[d]:
            return False
        summed[d] = True
    return True


cdef cnp.ndarray results(cnp.ndarray x, const bint *summed, bint keep, int type_num):
    cdef cnp.npy_intp[64] dims
    cdef int d, kept = 0
    for d in range(cnp.PyArray_NDIM(x)):
        if not summed[d] or keep:
            dims[kept] = 1 if summed[d] else cnp.PyArray_DIM(x, d)
            kept += 1
    return fresh(kept, dims, type_num)
