"""Loops of softmax and its relatives in C: along a row of neighbours, and down columns that are neighbours.

(a) Sums are partial sums in the type of the elements, of at most 16 terms each, that are added up in double: what a
    large term swallows of small ones is bounded by that.
(b) Exponentials are taken of one vector register at a time (W elements). The end of a row, and what a block of
    columns lacks to whole registers, is filled up: a loop over single exponentials would take longer than the row.
(c) A greatest element need not notice NaN: its exponential makes NaN of the sum.
(d) A loop over columns asks for the memory that it needs AHEAD rows later: rows of a block lie too far apart for a
    processor to foresee.
"""

cimport plugrad_ops.loops  # its macros  # no-cython-lint
cimport plugrad_ops.vector_math  # its macros  # no-cython-lint


cdef extern from *:
    """
    /* A register of 64 bytes, or several that make up one: what compilers do not find by themselves in a loop. */
    #if defined(__GNUC__)
    #define PG_REGISTER(T, I)                                                                                     \\
        typedef T pg_lanes_##T __attribute__((vector_size(64), aligned(sizeof(T)), may_alias));                   \\
        typedef I pg_bits_##T __attribute__((vector_size(64), aligned(sizeof(T)), may_alias));
    #define PG_AT(T, p) (*(const pg_lanes_##T *)(p))
    #define PG_ADD(T, s, p) s += PG_AT(T, p)
    #define PG_ADD_PRODUCT(T, s, p, q) s += PG_AT(T, p) * PG_AT(T, q)
    #define PG_RAISE(T, m, p) do {                                                                                \\
        const pg_lanes_##T v = PG_AT(T, p); const pg_bits_##T more = v > m;                                       \\
        m = (pg_lanes_##T)(((pg_bits_##T)v & more) | ((pg_bits_##T)m & ~more)); } while (0)
    #define PG_LANE(m, k) (m)[k]
    #define PG_ASK(p) __builtin_prefetch(p)
    #define PG_SAME _Pragma("GCC ivdep")
    #else
    #define PG_REGISTER(T, I) typedef struct { T lane[64 / sizeof(T)]; } pg_lanes_##T;
    #define PG_ADD(T, s, p) for (int k = 0; k < W; k++) s.lane[k] += (p)[k]
    #define PG_ADD_PRODUCT(T, s, p, q) for (int k = 0; k < W; k++) s.lane[k] += (p)[k] * (q)[k]
    #define PG_RAISE(T, m, p) for (int k = 0; k < W; k++) m.lane[k] = (p)[k] > m.lane[k] ? (p)[k] : m.lane[k]
    #define PG_LANE(m, k) (m).lane[k]
    #define PG_ASK(p)
    #define PG_SAME
    #endif
    PG_REGISTER(float, int32_t)
    PG_REGISTER(double, int64_t)

    #define PG_ALL for (Py_ssize_t i = 0; i < n; i++)
    #define PG_LANES for (int k = 0; k < W; k++)
    #define PG_ROWS for (Py_ssize_t row = 0; row < rows; row++)
    #define PG_WHOLE(T) enum { W = 64 / sizeof(T) }; const Py_ssize_t tail = n % W, whole = n - tail
    /* What OP makes of the lanes of a register, two by two: a and b. */
    #define PG_JOIN(T, m, OP)                                                                                     \\
        { T l[W]; PG_LANES l[k] = PG_LANE(m, k);                                                                  \\
          if (W > 8) for (int k = 0; k < 8; k++) { const T a = l[k], b = l[(k + 8) % W]; l[k] = OP; }             \\
          for (int k = 0; k < 4; k++) { const T a = l[k], b = l[k + 4]; l[k] = OP; }                              \\
          for (int k = 0; k < 2; k++) { const T a = l[k], b = l[k + 2]; l[k] = OP; }                              \\
          { const T a = l[0], b = l[1]; joined = OP; } }
    /* total += the sum of what STEP adds to the register s at place i; over whole registers of a row. */
    #define PG_ADD_UP(T, STEP)                                                                                    \\
        for (Py_ssize_t i = 0; i < whole;) {                                                                      \\
            const Py_ssize_t end = whole - i > 16 * W ? i + 16 * W : whole;                                       \\
            pg_lanes_##T s = {0}; T joined;                                                                       \\
            for (; i < end; i += W) { STEP; }                                                                     \\
            PG_JOIN(T, s, a + b)                                                                                  \\
            total += joined; }

    enum { PG_AHEAD = 12 };

    typedef struct {
        Py_ssize_t size;
        void (*sums)(const void *x, void *o, Py_ssize_t n, int finite, double *found);
        double (*dot)(const void *g, const void *y, Py_ssize_t n);
        void (*scale)(void *o, Py_ssize_t n, double factor);
        void (*shift)(const void *x, void *o, Py_ssize_t n, double first, double second);
        void (*slopes)(const void *g, const void *y, void *o, Py_ssize_t n, double mean);
        void (*exp_slopes)(const void *g, const void *y, void *o, Py_ssize_t n, double shift, double factor);
        void (*tops)(const void *x, Py_ssize_t x_step, void *c, Py_ssize_t c_step, void *top, Py_ssize_t rows,
                     Py_ssize_t n);
        void (*sums_down)(void *x, Py_ssize_t step, const void *top, void *part, double *total, Py_ssize_t rows,
                          Py_ssize_t n, int keep);
        void (*dots_down)(const void *g, const void *y, Py_ssize_t step, void *part, double *total, Py_ssize_t rows,
                          Py_ssize_t n);
        void (*write_down)(const void *x, Py_ssize_t x_step, void *o, Py_ssize_t o_step, const void *first,
                           const void *second, Py_ssize_t rows, Py_ssize_t n);
        void (*slopes_down)(const void *g, const void *y, void *o, Py_ssize_t step, const void *mean,
                            Py_ssize_t rows, Py_ssize_t n);
        void (*exp_slopes_down)(const void *g, const void *y, void *o, Py_ssize_t step, const void *shift,
                                const void *factor, Py_ssize_t rows, Py_ssize_t n);
    } pg_softmax_loops;

    #define PG_SOFTMAX(T)                                                                                         \\
    /* found: the greatest element, with `finite` 0 in place of an infinite one, and the sum of exp(x - it); o, if
       not NULL: these exponentials. */                                                                           \\
    PG_LOOP pg_sums_##T(const void *vx, void *vo, Py_ssize_t n, int finite, double *found) {                      \\
        const T *x = vx; T *restrict o = vo; PG_WHOLE(T);                                                         \\
        T last[W], e[W], joined; double total = 0; pg_lanes_##T m, m2;                                            \\
        PG_LANES PG_LANE(m, k) = last[k] = k < tail ? x[whole + k] : -(T)INFINITY;                                \\
        Py_ssize_t i = 0; m2 = m;                                                                                 \\
        for (; i + W < whole; i += 2 * W) { PG_RAISE(T, m, x + i); PG_RAISE(T, m2, x + i + W); }                  \\
        for (; i < whole; i += W) PG_RAISE(T, m, x + i);                                                          \\
        PG_LANES e[k] = PG_LANE(m2, k);                                                                           \\
        PG_RAISE(T, m, e);                                                                                        \\
        PG_JOIN(T, m, a > b ? a : b)                                                                              \\
        const T top = finite && !isfinite(joined) ? 0 : joined;                                                   \\
        if (o) {                                                                                                  \\
            PG_ADD_UP(T, PG_LANES o[i + k] = PG_EXP(x[i + k] - top); PG_ADD(T, s, o + i))                         \\
        } else {                                                                                                  \\
            PG_ADD_UP(T, PG_LANES e[k] = PG_EXP(x[i + k] - top); PG_ADD(T, s, e))                                 \\
        }                                                                                                         \\
        if (tail) {                                                                                               \\
            PG_LANES e[k] = PG_EXP(last[k] - top);                                                                \\
            if (o) for (int k = 0; k < tail; k++) o[whole + k] = e[k];                                            \\
            PG_LANES PG_LANE(m, k) = e[k];                                                                        \\
            PG_JOIN(T, m, a + b)                                                                                  \\
            total += joined;                                                                                      \\
        }                                                                                                         \\
        found[0] = top; found[1] = total; }                                                                       \\
    /* The sum of g * y, or of g where y is NULL. */                                                              \\
    PG_LOOP pg_dots_##T(const void *vg, const void *vy, Py_ssize_t n, double *found) {                            \\
        const T *g = vg, *y = vy; PG_WHOLE(T); double total = 0;                                                  \\
        if (y) {                                                                                                  \\
            PG_ADD_UP(T, PG_ADD_PRODUCT(T, s, g + i, y + i))                                                      \\
            for (Py_ssize_t i = whole; i < n; i++) total += g[i] * y[i];                                          \\
        } else {                                                                                                  \\
            PG_ADD_UP(T, PG_ADD(T, s, g + i))                                                                     \\
            for (Py_ssize_t i = whole; i < n; i++) total += g[i];                                                 \\
        }                                                                                                         \\
        *found = total; }                                                                                         \\
    static double pg_dot_##T(const void *g, const void *y, Py_ssize_t n) {                                        \\
        double found; pg_dots_##T(g, y, n, &found); return found; }                                               \\
    PG_LOOP pg_scale_##T(void *vo, Py_ssize_t n, double factor) {                                                 \\
        T *o = vo; const T f = (T)factor; PG_ALL o[i] *= f; }                                                     \\
    PG_LOOP pg_shift_##T(const void *vx, void *vo, Py_ssize_t n, double first, double second) {                   \\
        const T *x = vx, a = (T)first, b = (T)second; T *restrict o = vo;                                         \\
        PG_ALL o[i] = (x[i] - a) - b; }                                                                           \\
    PG_LOOP pg_slopes_##T(const void *vg, const void *vy, void *vo, Py_ssize_t n, double mean) {                  \\
        const T *g = vg, *y = vy, m = (T)mean; T *restrict o = vo;                                                \\
        PG_ALL o[i] = y[i] * (g[i] - m); }                                                                        \\
    /* g - exp(y - shift) * factor, or without the minus where g is NULL. */                                      \\
    PG_LOOP pg_exp_slopes_##T(const void *vg, const void *vy, void *vo, Py_ssize_t n, double shift,               \\
                              double factor) {                                                                    \\
        const T *g = vg, *y = vy, a = (T)shift, f = (T)factor; T *restrict o = vo; PG_WHOLE(T);                   \\
        T last[W], e[W];                                                                                          \\
        if (g) for (Py_ssize_t i = 0; i < whole; i++) o[i] = g[i] - PG_EXP(y[i] - a) * f;                         \\
        else for (Py_ssize_t i = 0; i < whole; i++) o[i] = PG_EXP(y[i] - a) * f;                                  \\
        if (!tail) return;                                                                                        \\
        PG_LANES last[k] = k < tail ? y[whole + k] : 0;                                                           \\
        PG_LANES e[k] = PG_EXP(last[k] - a) * f;                                                                  \\
        for (int k = 0; k < tail; k++) o[whole + k] = g ? g[whole + k] - e[k] : e[k]; }                           \\
    /* Down n columns; steps from row to row are in elements. The greatest element so far, and a copy of all. */  \\
    PG_LOOP pg_tops_##T(const void *vx, Py_ssize_t x_step, void *vc, Py_ssize_t c_step, void *vt,                 \\
                        Py_ssize_t rows, Py_ssize_t n) {                                                          \\
        const T *x = vx; T *restrict c = vc; T *restrict t = vt;                                                  \\
        PG_ROWS {                                                                                                 \\
            for (Py_ssize_t i = 0; i < n; i += 64 / sizeof(T)) PG_ASK(x + PG_AHEAD * x_step + i);                 \\
            if (c) { PG_ALL { c[i] = x[i]; t[i] = x[i] > t[i] ? x[i] : t[i]; } c += c_step; }                     \\
            else PG_ALL t[i] = x[i] > t[i] ? x[i] : t[i];                                                         \\
            x += x_step; } }                                                                                      \\
    /* The sums of exp(x - top), which are kept in place of x if asked for. */                                    \\
    PG_LOOP pg_sums_down_##T(void *vx, Py_ssize_t step, const void *vt, void *vp, double *restrict total,         \\
                             Py_ssize_t rows, Py_ssize_t n, int keep) {                                           \\
        T *restrict x = vx; const T *t = vt; T *restrict p = vp;                                                  \\
        PG_ROWS {                                                                                                 \\
            if (keep) PG_ALL { const T e = PG_EXP(x[i] - t[i]); x[i] = e; p[i] += e; }                            \\
            else PG_ALL p[i] += PG_EXP(x[i] - t[i]);                                                              \\
            if (row % 16 == 15 || row + 1 == rows) PG_ALL { total[i] += p[i]; p[i] = 0; }                         \\
            x += step; } }                                                                                        \\
    PG_LOOP pg_dots_down_##T(const void *vg, const void *vy, Py_ssize_t step, void *vp, double *restrict total,   \\
                             Py_ssize_t rows, Py_ssize_t n) {                                                     \\
        const T *g = vg, *y = vy; T *restrict p = vp;                                                             \\
        PG_ROWS {                                                                                                 \\
            for (Py_ssize_t i = 0; i < n; i += 64 / sizeof(T)) PG_ASK(g + PG_AHEAD * step + i);                   \\
            if (y) {                                                                                              \\
                for (Py_ssize_t i = 0; i < n; i += 64 / sizeof(T)) PG_ASK(y + PG_AHEAD * step + i);               \\
                PG_ALL p[i] += g[i] * y[i];                                                                       \\
                y += step;                                                                                        \\
            } else PG_ALL p[i] += g[i];                                                                           \\
            if (row % 16 == 15 || row + 1 == rows) PG_ALL { total[i] += p[i]; p[i] = 0; }                         \\
            g += step; } }                                                                                        \\
    /* (x - first) - second, or x * second where first is NULL; `x` and `o` may be one. */                        \\
    PG_LOOP pg_write_down_##T(const void *vx, Py_ssize_t x_step, void *vo, Py_ssize_t o_step, const void *vf,     \\
                              const void *vs, Py_ssize_t rows, Py_ssize_t n) {                                    \\
        const T *x = vx, *f = vf, *s = vs; T *o = vo;                                                             \\
        PG_ROWS {                                                                                                 \\
            for (Py_ssize_t i = 0; i < n; i += 64 / sizeof(T)) PG_ASK(o + PG_AHEAD * o_step + i);                 \\
            if (f) PG_SAME PG_ALL o[i] = (x[i] - f[i]) - s[i];                                                    \\
            else PG_SAME PG_ALL o[i] = x[i] * s[i];                                                               \\
            x += x_step; o += o_step; } }                                                                         \\
    PG_LOOP pg_slopes_down_##T(const void *vg, const void *vy, void *vo, Py_ssize_t step, const void *vm,         \\
                               Py_ssize_t rows, Py_ssize_t n) {                                                   \\
        const T *g = vg, *y = vy, *m = vm; T *restrict o = vo;                                                    \\
        PG_ROWS {                                                                                                 \\
            for (Py_ssize_t i = 0; i < n; i += 64 / sizeof(T)) PG_ASK(o + PG_AHEAD * step + i);                   \\
            PG_ALL o[i] = y[i] * (g[i] - m[i]);                                                                   \\
            g += step; y += step; o += step; } }                                                                  \\
    /* g - exp(y) * factor, or exp(y - shift) * factor where g is NULL. */                                        \\
    PG_LOOP pg_exp_slopes_down_##T(const void *vg, const void *vy, void *vo, Py_ssize_t step, const void *va,     \\
                                   const void *vf, Py_ssize_t rows, Py_ssize_t n) {                               \\
        const T *g = vg, *y = vy, *a = va, *f = vf; T *restrict o = vo;                                           \\
        PG_ROWS {                                                                                                 \\
            for (Py_ssize_t i = 0; i < n; i += 64 / sizeof(T)) {                                                  \\
                PG_ASK(o + PG_AHEAD * step + i); PG_ASK(y + PG_AHEAD * step + i); }                               \\
            if (g) { PG_ALL o[i] = g[i] - PG_EXP(y[i]) * f[i]; g += step; }                                       \\
            else PG_ALL o[i] = PG_EXP(y[i] - a[i]) * f[i];                                                        \\
            y += step; o += step; } }                                                                             \\
    static const pg_softmax_loops pg_softmax_##T = {                                                              \\
        sizeof(T), pg_sums_##T, pg_dot_##T, pg_scale_##T, pg_shift_##T, pg_slopes_##T, pg_exp_slopes_##T,         \\
        pg_tops_##T, pg_sums_down_##T, pg_dots_down_##T, pg_write_down_##T, pg_slopes_down_##T,                   \\
        pg_exp_slopes_down_##T };
    PG_SOFTMAX(float)
    PG_SOFTMAX(double)
    """
    ctypedef struct Loops "pg_softmax_loops":
        Py_ssize_t size
        void (*sums)(const void *, void *, Py_ssize_t, int, double *) noexcept nogil
        double (*dot)(const void *, const void *, Py_ssize_t) noexcept nogil
        void (*scale)(void *, Py_ssize_t, double) noexcept nogil
        void (*shift)(const void *, void *, Py_ssize_t, double, double) noexcept nogil
        void (*slopes)(const void *, const void *, void *, Py_ssize_t, double) noexcept nogil
        void (*exp_slopes)(const void *, const void *, void *, Py_ssize_t, double, double) noexcept nogil
        void (*tops)(const void *, Py_ssize_t, void *, Py_ssize_t, void *, Py_ssize_t, Py_ssize_t) noexcept nogil
        void (*sums_down)(
            void *, Py_ssize_t, const void *, void *, double *, Py_ssize_t, Py_ssize_t, int
        ) noexcept nogil
        void (*dots_down)(
            const void *, const void *, Py_ssize_t, void *, double *, Py_ssize_t, Py_ssize_t
        ) noexcept nogil
        void (*write_down)(
            const void *, Py_ssize_t, void *, Py_ssize_t, const void *, const void *, Py_ssize_t, Py_ssize_t
        ) noexcept nogil
        void (*slopes_down)(
            const void *, const void *, void *, Py_ssize_t, const void *, Py_ssize_t, Py_ssize_t
        ) noexcept nogil
        void (*exp_slopes_down)(
            const void *, const void *, void *, Py_ssize_t, const void *, const void *, Py_ssize_t, Py_ssize_t
        ) noexcept nogil
    const Loops pg_softmax_float, pg_softmax_double
