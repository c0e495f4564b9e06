"""Macros for the C loops of a reduction (see reducing.pxd), in float and double.

(a) Eight elements at a time are combined as a tree in the type A, mostly their own, before they meet a state, a double:
    three roundings in float32, and as fast as without conversion. What leaves the range of float32 on the way is
    combined again in double, so that 3e38 + 1e38 - 2e38 is 2e38.
(b) A run of neighbours goes into many lanes, which are joined pairwise; every few thousand elements these are committed
    to the state, for sums with what rounding takes away kept in a second double (Knuth's TwoSum).
"""

cimport plugrad.backends.simd  # its macros  # no-cython-lint
from plugrad.backends cimport reducing  # its structs  # no-cython-lint


cdef extern from *:
    """
    #include <math.h>
    #if defined(__GNUC__)
    #define PG_INLINE_LOOP static inline __attribute__((always_inline, unused))
    #else
    #define PG_INLINE_LOOP static inline
    #endif
    #define PG_PAIRS(T)                                                                                           \\
    PG_INLINE_LOOP T pg_plus_##T(T a, T b) { return a + b; }                                                      \\
    PG_INLINE_LOOP T pg_times_##T(T a, T b) { return a * b; }
    PG_PAIRS(float)
    PG_PAIRS(double)

    PG_INLINE_LOOP void pg_commit_plus(double *s, Py_ssize_t apart, double v) {
        const double t = s[0] + v, z = t - s[0];
        s[apart] += (s[0] - (t - z)) + (v - z);
        s[0] = t;
    }
    PG_INLINE_LOOP double pg_plus_of(const double *s, Py_ssize_t apart) {
        return isfinite(s[0]) ? s[0] + s[apart] : s[0];
    }
    #define PG_COMMIT(OP) PG_INLINE_LOOP void pg_commit_##OP(double *s, Py_ssize_t apart, double v) {             \\
        (void)apart; s[0] = pg_##OP##_double(s[0], v); }
    PG_COMMIT(times)

    #if defined(__GNUC__) && !defined(__clang__)
    #define PG_KEPT_LOOP _Pragma("GCC unroll 1")    /* a short loop that is unrolled is not vectorised any more */
    #else
    #define PG_KEPT_LOOP
    #endif
    #define PG_LANES(T) (64 / (int)sizeof(T))       /* a line of the cache: memory is read in order */

    #define PG_TREE(A, OP, V0, V1, V2, V3, V4, V5, V6, V7)                                                        \\
        pg_##OP##_##A(pg_##OP##_##A(pg_##OP##_##A(V0, V1), pg_##OP##_##A(V2, V3)),                                \\
                      pg_##OP##_##A(pg_##OP##_##A(V4, V5), pg_##OP##_##A(V6, V7)))
    /* The lanes of one line, joined. */
    #define PG_JOINED(T, B, OP, lane)                                                                             \\
        if (sizeof(T) == 4)                                                                                       \\
            PG_KEPT_LOOP for (int k = 0; k < 8; k++) lane[k] = pg_##OP##_##B(lane[k], lane[k + 8 % PG_LANES(T)]); \\
        PG_KEPT_LOOP for (int k = 0; k < 4; k++) lane[k] = pg_##OP##_##B(lane[k], lane[k + 4]);                   \\
        total = (double)pg_##OP##_##B(pg_##OP##_##B(lane[0], lane[2]), pg_##OP##_##B(lane[1], lane[3]));
    /* What is left of the elements up to `end`, a line at a time, into lanes of type B. */
    #define PG_REST(T, B, OP, START, V, end)                                                                      \\
        for (; i + PG_LANES(T) <= end; i += PG_LANES(T))                                                          \\
            PG_KEPT_LOOP for (int k = 0; k < PG_LANES(T); k++) lane[k] = pg_##OP##_##B(lane[k], (B)V((B)x[i + k]));\\
        if (i < end) {                                                                                            \\
            const int rest = (int)(end - i);                                                                      \\
            PG_KEPT_LOOP for (int k = 0; k < PG_LANES(T); k++)                                                    \\
                lane[k] = pg_##OP##_##B(lane[k], k < rest ? (B)V((B)x[i + k]) : (B)(START));                      \\
        }

    /* total = what V(e) of n elements e = x[0], ... comes to; START is what does nothing to OP. A long run is taken
       in parts, of which all but the last are committed. What is not finite in float is done again in double. */
    #define PG_ALONG(T, A, OP, START, V, COMMIT)                                                                  \\
        double total = START;                                                                                     \\
        if (n < 4)                                                                                                \\
            for (Py_ssize_t i = 0; i < n; i++) total = pg_##OP##_double(total, (double)V((double)x[i]));          \\
        else if (n < 8 * PG_LANES(T)) {                                                                           \\
            Py_ssize_t i = 0;                                                                                     \\
            A lane[PG_LANES(T)];                                                                                  \\
            PG_KEPT_LOOP for (int k = 0; k < PG_LANES(T); k++) lane[k] = START;                                   \\
            PG_REST(T, A, OP, START, V, n)                                                                        \\
            PG_JOINED(T, A, OP, lane)                                                                             \\
        }                                                                                                         \\
        if (n >= 8 * PG_LANES(T) || (sizeof(A) == 4 && n >= 4 && !isfinite(total))) {                             \\
            enum { LONG = 65536 / sizeof(T) / sizeof(T) };                                                        \\
            for (Py_ssize_t begin = 0, end; begin < n; begin = end) {                                             \\
                int again = sizeof(A) == 4 && n >= 8 * PG_LANES(T), trees = n >= 8 * PG_LANES(T);                 \\
                end = begin + LONG < n ? begin + LONG : n;                                                        \\
                for (;; trees = again = 0) {                                                                      \\
                    Py_ssize_t i = begin;                                                                         \\
                    double lane[PG_LANES(T)];                                                                     \\
                    PG_KEPT_LOOP for (int k = 0; k < PG_LANES(T); k++) lane[k] = START;                           \\
                    for (; trees && i + 8 * PG_LANES(T) <= end; i += 8 * PG_LANES(T))                             \\
                        PG_KEPT_LOOP for (int k = 0; k < PG_LANES(T); k++) {                                      \\
                            const T *e = x + i + k;                                                               \\
                            lane[k] = pg_##OP##_double(lane[k], (double)PG_TREE(A, OP,                            \\
                                V(e[0]), V(e[PG_LANES(T)]), V(e[2 * PG_LANES(T)]), V(e[3 * PG_LANES(T)]),         \\
                                V(e[4 * PG_LANES(T)]), V(e[5 * PG_LANES(T)]), V(e[6 * PG_LANES(T)]),              \\
                                V(e[7 * PG_LANES(T)])));                                                          \\
                        }                                                                                         \\
                    PG_REST(T, double, OP, START, V, end)                                                         \\
                    PG_JOINED(T, double, OP, lane)                                                                \\
                    if (!again || isfinite(total)) break;                                                         \\
                }                                                                                                 \\
                if (end < n) COMMIT(total);                                                                       \\
            }                                                                                                     \\
        }

    #define PG_AT(T, A, i) ((A)((const T *)(x + (i) * step))[j])
    #define PG_EIGHT(T, A, OP, V)                                                                                 \\
        PG_TREE(A, OP, V(PG_AT(T, A, 0)), V(PG_AT(T, A, 1)), V(PG_AT(T, A, 2)), V(PG_AT(T, A, 3)),                \\
                       V(PG_AT(T, A, 4)), V(PG_AT(T, A, 5)), V(PG_AT(T, A, 6)), V(PG_AT(T, A, 7)))
    /* s[j] = OP(s[j], V(e)) for the elements j of `rows` rows of n at x, which moves on; BEFORE is done for each j.
       Where trees in float leave results that are not finite, all starts again at WAS, row by row in double. */
    #define PG_ACROSS(s, T, A, OP, V, BEFORE, WAS)                                                                \\
        const char *const top_row = x;                                                                            \\
        const Py_ssize_t all_rows = rows;                                                                         \\
        for (int trees = 1, odd = 0;; trees = 0) {                                                                \\
            for (; trees && rows >= 8; rows -= 8, x += 8 * step)                                                  \\
                for (Py_ssize_t j = 0; j < n; j++) {                                                              \\
                    BEFORE s[j] = pg_##OP##_double(s[j], (double)PG_EIGHT(T, A, OP, V)); }                        \\
            for (; rows > 0; rows--, x += step)                                                                   \\
                for (Py_ssize_t j = 0; j < n; j++) {                                                              \\
                    BEFORE s[j] = pg_##OP##_double(s[j], (double)V(PG_AT(T, double, 0))); }                       \\
            if (sizeof(A) == 8 || !trees || all_rows < 8) break;                                                  \\
            for (Py_ssize_t j = 0; j < n; j++) odd |= !isfinite(s[j]);                                            \\
            if (!odd) break;                                                                                      \\
            for (Py_ssize_t j = 0; j < n; j++) s[j] = WAS;                                                        \\
            x = top_row; rows = all_rows;                                                                         \\
        }

    #define PG_COMMIT_plus(v) pg_commit_plus(s, apart, v)
    #define PG_COMMIT_times(v) pg_commit_times(s, apart, v)

    /* A reduction by OP of the values V(e) of type A; GIVEN: what V uses of `given`, whose number j is of result j. */
    #define PG_REDUCTION_OF(name, T, A, OP, START, V, GIVEN)                                                      \\
    PG_VECTOR static void name##_along_##T(const void *vx, Py_ssize_t n, Py_ssize_t lines, Py_ssize_t step,       \\
                                           const double *given, double *s, Py_ssize_t apart) {                    \\
        (void)given;                                                                                              \\
        for (Py_ssize_t j = 0; j < lines; j++, s++) {                                                             \\
            const T *x = (const T *)((const char *)vx + j * step);                                                \\
            GIVEN(T)                                                                                              \\
            PG_ALONG(T, A, OP, START, V, PG_COMMIT_##OP)                                                          \\
            PG_COMMIT_##OP(total);                                                                                \\
        }                                                                                                         \\
    }                                                                                                             \\
    PG_VECTOR static void name##_across_##T(const void *vx, Py_ssize_t rows, Py_ssize_t step, Py_ssize_t n,       \\
                                            const double *given, double *restrict s, Py_ssize_t apart) {          \\
        const char *x = vx;                                                                                       \\
        double was[sizeof(A) == 4 ? 1024 : 1];                                                                    \\
        (void)given; (void)apart; (void)was;                                                                      \\
        if (sizeof(A) == 4 && rows >= 8)                                                                          \\
            for (Py_ssize_t j = 0; j < n; j++) was[j] = s[j];                                                     \\
        PG_ACROSS(s, T, A, OP, V, GIVEN(T), was[j])                                                               \\
    }
    #define PG_NOTHING(T)
    #define PG_JOIN(OP) static void pg_join_##OP(double *s, const double *later, Py_ssize_t n, Py_ssize_t apart) { \\
        for (Py_ssize_t j = 0; j < n; j++, s++) PG_COMMIT_##OP(later[j]); }
    /* Of sums, and of what rounding took from them. */
    #define PG_JOIN_SUMS                                                                                          \\
    PG_STREAM static void pg_join_plus(double *restrict s, const double *later, Py_ssize_t n, Py_ssize_t apart) { \\
        double *restrict lost = s + apart;                                                                        \\
        for (Py_ssize_t j = 0; j < n; j++) {                                                                      \\
            const double v = later[j], t = s[j] + v, z = t - s[j];                                                \\
            lost[j] = lost[j] + ((s[j] - (t - z)) + (v - z)) + later[j + apart];                                  \\
            s[j] = t;                                                                                             \\
        }                                                                                                         \\
    }

    /* Slopes f(x, a, b) of elements x; `real` is the type of all three, which is at least the elements'. */
    #define PG_SLOPES_OF(name, T, R, expr)                                                                        \\
    PG_VECTOR static void name##_along_##T(const void *vx, void *vo, Py_ssize_t n, double va, double vb) {        \\
        typedef R real; const T *xs = vx; const real a = (real)va, b = (real)vb; T *restrict o = vo; (void)a;     \\
        for (Py_ssize_t i = 0; i < n; i++) { const real x = xs[i]; o[i] = (T)(expr); } }                          \\
    PG_VECTOR static void name##_across_##T(const void *vx, void *vo, Py_ssize_t n, const void *va,               \\
                                            const void *vb) {                                                     \\
        typedef R real; const T *xs = vx; const real *as = va, *bs = vb; T *restrict o = vo; (void)as;            \\
        for (Py_ssize_t i = 0; i < n; i++) {                                                                      \\
            const real x = xs[i], a = as[i], b = bs[i]; (void)a; o[i] = (T)(expr); } }
    #define PG_SLOPES(name, expr) PG_SLOPES_OF(name, float, float, expr) PG_SLOPES_OF(name, double, double, expr) \\
        static const pg_slopes name[2] = {{name##_along_float, name##_across_float, 0},                           \\
                                          {name##_along_double, name##_across_double, 1}};
    """
