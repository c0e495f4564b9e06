"""C loops that find extremes and where they stand (see cpu.pyx), for float32 [0] and float64 [1].

(a) `sign` is 1 for the greatest and -1 for the smallest. Positions are counted in integers of the numbers' size, so
    that a vector holds as many of them.
(b) A running extreme changes seldom, unless the numbers ascend: the next PG_AHEAD numbers are compared with it
    together, and gone through one by one only if one of them takes over. The gradient is summed up likewise, from the
    far end.
"""

cimport numpy as cnp
cimport plugrad.backends.simd  # its macros  # no-cython-lint


cdef extern from *:
    """
    #include <stdint.h>
    enum { PG_COLUMNS = 512, PG_AHEAD = 16 };   /* PG_COLUMNS extremes and positions stay in the nearest cache */

    #define PG_POSITIONS_OF(T, I)                                                                                 \\
    /* the first extreme, or the first NaN, of each of up to PG_COLUMNS columns of n rows */                      \\
    PG_STREAM static void pg_first_##T(const void *vx, int64_t *out, Py_ssize_t n, Py_ssize_t step,               \\
                                       Py_ssize_t many, double sign) {                                            \\
        const T *x = vx, s = (T)sign; T best[PG_COLUMNS]; I at[PG_COLUMNS];                                       \\
        for (Py_ssize_t j = 0; j < many; j++) { best[j] = x[j]; at[j] = 0; }                                      \\
        for (I i = 1; i < (I)n; i++) {                                                                            \\
            x += step;                                                                                            \\
            for (Py_ssize_t j = 0; j < many; j++) {                                                               \\
                const T e = x[j], b = best[j];                                                                    \\
                const I leads = (s * e > s * b) | ((e != e) & (b == b));                                          \\
                best[j] = leads ? e : b;                                                                          \\
                at[j] = leads ? i : at[j];                                                                        \\
            }                                                                                                     \\
        }                                                                                                         \\
        for (Py_ssize_t j = 0; j < many; j++) out[j] = at[j];                                                     \\
    }                                                                                                             \\
    static void pg_running_along_##T(const void *vx, void *vo, int64_t *restrict at, Py_ssize_t n,                \\
                                     double sign) {                                                               \\
        const T *x = vx, s = (T)sign; T *restrict o = vo; T best = x[0]; int64_t place = 0;                       \\
        for (Py_ssize_t i = 0; i < n;) {                                                                          \\
            if (n - i >= PG_AHEAD) {                                                                              \\
                I leads = 0;                                                                                      \\
                for (int k = 0; k < PG_AHEAD; k++) leads |= !(s * x[i + k] < s * best);                           \\
                if (!leads) {                                                                                     \\
                    for (int k = 0; k < PG_AHEAD; k++) o[i + k] = best;                                           \\
                    for (int k = 0; k < PG_AHEAD; k++) at[i + k] = place;                                         \\
                    i += PG_AHEAD;                                                                                \\
                    continue;                                                                                     \\
                }                                                                                                 \\
            }                                                                                                     \\
            for (const Py_ssize_t end = n - i < PG_AHEAD ? n : i + PG_AHEAD; i < end; i++) {                      \\
                const T e = x[i];                                                                                 \\
                if (s * e >= s * best || e != e) { best = e; place = i; }                                         \\
                o[i] = best; at[i] = place;                                                                       \\
            }                                                                                                     \\
        }                                                                                                         \\
    }                                                                                                             \\
    PG_STREAM static void pg_running_across_##T(const void *vx, void *vo, int64_t *restrict at, Py_ssize_t n,     \\
                                                Py_ssize_t step, Py_ssize_t many, double sign) {                  \\
        const T *x = vx, s = (T)sign; T *restrict o = vo; T best[PG_COLUMNS]; I place[PG_COLUMNS];                \\
        for (Py_ssize_t j = 0; j < many; j++) { best[j] = x[j]; place[j] = 0; }                                   \\
        for (I i = 0; i < (I)n; i++, x += step, o += step, at += step)                                            \\
            for (Py_ssize_t j = 0; j < many; j++) {                                                               \\
                const T e = x[j];                                                                                 \\
                const I leads = (s * e >= s * best[j]) | (e != e);                                                \\
                best[j] = leads ? e : best[j];                                                                    \\
                place[j] = leads ? i : place[j];                                                                  \\
                o[j] = best[j];                                                                                   \\
                at[j] = place[j];                                                                                 \\
            }                                                                                                     \\
    }                                                                                                             \\
    /* An extreme keeps what comes back to it from where it was met until the next one takes over. */             \\
    static void pg_return_along_##T(const void *vg, void *vo, const int64_t *at, Py_ssize_t n) {                  \\
        const T *g = vg; T *restrict o = vo; double sum = 0;                                                      \\
        for (Py_ssize_t i = n; i > 0;) {                                                                          \\
            if (i >= PG_AHEAD) {                                                                                  \\
                const Py_ssize_t first = i - PG_AHEAD;                                                            \\
                if (at[i - 1] < first) {        /* positions ascend: none of these was met here */                \\
                    double part[4] = {0, 0, 0, 0};                                                                \\
                    for (int k = 0; k < PG_AHEAD; k++) part[k % 4] += g[first + k];                               \\
                    for (int k = 0; k < PG_AHEAD; k++) o[first + k] = 0;                                          \\
                    sum += (part[0] + part[1]) + (part[2] + part[3]);                                             \\
                    i = first;                                                                                    \\
                    continue;                                                                                     \\
                }                                                                                                 \\
            }                                                                                                     \\
            for (const Py_ssize_t end = i < PG_AHEAD ? 0 : i - PG_AHEAD; i > end;) {                              \\
                i--;                                                                                              \\
                sum += g[i];                                                                                      \\
                o[i] = at[i] == i ? (T)sum : 0;                                                                   \\
                sum = at[i] == i ? 0 : sum;                                                                       \\
            }                                                                                                     \\
        }                                                                                                         \\
    }                                                                                                             \\
    PG_STREAM static void pg_return_across_##T(const void *vg, void *vo, const int64_t *at, Py_ssize_t n,         \\
                                               Py_ssize_t step, Py_ssize_t many) {                                \\
        double sum[PG_COLUMNS];                                                                                   \\
        for (Py_ssize_t j = 0; j < many; j++) sum[j] = 0;                                                         \\
        for (int64_t i = n - 1; i >= 0; i--) {                                                                    \\
            const T *g = (const T *)vg + i * step; T *restrict o = (T *)vo + i * step;                            \\
            const int64_t *place = at + i * step;                                                                 \\
            for (Py_ssize_t j = 0; j < many; j++) {                                                               \\
                const double all = sum[j] + g[j];                                                                 \\
                o[j] = (T)(place[j] == i ? all : 0.0);                                                            \\
                sum[j] = place[j] == i ? 0.0 : all;                                                               \\
            }                                                                                                     \\
        }                                                                                                         \\
    }
    PG_POSITIONS_OF(float, int32_t)
    PG_POSITIONS_OF(double, int64_t)

    typedef struct {
        void (*first)(const void *, int64_t *, Py_ssize_t, Py_ssize_t, Py_ssize_t, double);
        void (*along)(const void *, void *, int64_t *, Py_ssize_t, double);
        void (*across)(const void *, void *, int64_t *, Py_ssize_t, Py_ssize_t, Py_ssize_t, double);
        void (*return_along)(const void *, void *, const int64_t *, Py_ssize_t);
        void (*return_across)(const void *, void *, const int64_t *, Py_ssize_t, Py_ssize_t, Py_ssize_t);
    } pg_positions;
    #define PG_POSITIONS(T) {pg_first_##T, pg_running_along_##T, pg_running_across_##T, pg_return_along_##T, \\
                             pg_return_across_##T}
    static const pg_positions pg_positions_of[2] = {PG_POSITIONS(float), PG_POSITIONS(double)};
    """
    enum: PG_COLUMNS
    ctypedef struct Positions "pg_positions":
        void (*first)(
            const void *x, cnp.int64_t *at, Py_ssize_t n, Py_ssize_t step, Py_ssize_t many, double sign
        ) noexcept nogil
        void (*along)(const void *x, void *out, cnp.int64_t *at, Py_ssize_t n, double sign) noexcept nogil
        void (*across)(
            const void *x, void *out, cnp.int64_t *at, Py_ssize_t n, Py_ssize_t step, Py_ssize_t many, double sign
        ) noexcept nogil
        void (*return_along)(const void *grad, void *out, const cnp.int64_t *at, Py_ssize_t n) noexcept nogil
        void (*return_across)(
            const void *grad, void *out, const cnp.int64_t *at, Py_ssize_t n, Py_ssize_t step, Py_ssize_t many
        ) noexcept nogil
    const Positions[2] pg_positions_of


cdef extern from "numpy/arrayobject.h":
    ctypedef int (*Search "PyArray_ArgFunc *")(void *data, cnp.npy_intp n, cnp.npy_intp *at, void *array) noexcept nogil
    ctypedef struct Functions "PyArray_ArrFuncs":
        Search argmax
        Search argmin
    Functions *PyDataType_GetArrFuncs(cnp.PyArray_Descr *descr)


cdef struct Columns:
    # `outer` times n rows of `inner` neighbours, as they lie in memory: `tiles` of them next to each other.
    const Positions *loops
    Search search               # NumPy's, for the first extreme of a line
    void *array
    const char *x
    char *out
    cnp.int64_t *at
    Py_ssize_t outer, n, inner, size, tiles
    double sign


cdef inline Py_ssize_t place_of(
    const Columns *the, Py_ssize_t index, Py_ssize_t *first, Py_ssize_t *many
) noexcept nogil:
    """Where a tile begins, the number of its first result, and how many columns it has."""
    cdef Py_ssize_t outer = index // the.tiles, start = index % the.tiles * PG_COLUMNS
    first[0] = outer * the.inner + start
    many[0] = min(<Py_ssize_t>PG_COLUMNS, the.inner - start)
    return outer * the.n * the.inner + start


cdef inline void find_chunk(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef const Columns *the = <const Columns *>context
    cdef Py_ssize_t index, place, first, many
    cdef cnp.npy_intp found
    for index in range(begin, end):
        place = place_of(the, index, &first, &many)
        if the.inner == 1:
            the.search(<void *>(the.x + place * the.size), the.n, &found, the.array)
            the.at[first] = found
        else:
            the.loops.first(the.x + place * the.size, the.at + first, the.n, the.inner, many, the.sign)


cdef inline void run_on_chunk(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef const Columns *the = <const Columns *>context
    cdef Py_ssize_t index, place, first, many
    for index in range(begin, end):
        place = place_of(the, index, &first, &many)
        if the.inner == 1:
            the.loops.along(the.x + place * the.size, the.out + place * the.size, the.at + place, the.n, the.sign)
        else:
            the.loops.across(
                the.x + place * the.size, the.out + place * the.size, the.at + place, the.n, the.inner, many, the.sign
            )


cdef inline void return_chunk(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef const Columns *the = <const Columns *>context
    cdef Py_ssize_t index, place, first, many
    for index in range(begin, end):
        place = place_of(the, index, &first, &many)
        if the.inner == 1:
            the.loops.return_along(the.x + place * the.size, the.out + place * the.size, the.at + place, the.n)
        else:
            the.loops.return_across(
                the.x + place * the.size, the.out + place * the.size, the.at + place, the.n, the.inner, many
            )
