"""Macros for the C loops of a reduction (see reducing.pxd), in float and double.

(a) Eight elements at a time are combined as a tree in the type A, mostly their own, before they meet a state, a double:
    three roundings in float32, and as fast as without conversion.
(b) A run of neighbours goes into many lanes, which are joined pairwise; every few thousand elements these are committed
    to the state, for sums with what rounding takes away kept in a second double (Knuth's TwoSum).
"""

cimport plugrad.backends.simd  # its macros  # no-cython-lint


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
    PG_INLINE_LOOP T pg_times_##T(T a, T b) { return a * b; }                                                     \\
    PG_INLINE_LOOP T pg_most_##T(T a, T b) { return a >= b || a != a ? a : b; }                                   \\
    PG_INLINE_LOOP T pg_least_##T(T a, T b) { return a <= b || a != a ? a : b; }
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
    PG_COMMIT(most)
    PG_COMMIT(least)

    enum { PG_WIDE = 32, PG_NARROW = 16, PG_LONG = 2048 };

    #define PG_TREE(A, OP, V0, V1, V2, V3, V4, V5, V6, V7)                                                        \\
        pg_##OP##_##A(pg_##OP##_##A(pg_##OP##_##A(V0, V1), pg_##OP##_##A(V2, V3)),                                \\
                      pg_##OP##_##A(pg_##OP##_##A(V4, V5), pg_##OP##_##A(V6, V7)))
    #define PG_JOIN_LANES(OP, lane, n)                                                                            \\
        for (int w = n / 2; w; w /= 2) for (int k = 0; k < w; k++) lane[k] = pg_##OP##_double(lane[k], lane[k + w]);

    /* COMMIT(total) of each part of V(e) for n elements e = x[0], ...; START is what does nothing to OP. */
    #define PG_ALONG(T, A, OP, START, V, COMMIT)                                                                  \\
        while (n > 0) {                                                                                           \\
            Py_ssize_t i = 0;                                                                                     \\
            if (n >= 8 * PG_WIDE) {                                                                               \\
                const Py_ssize_t many = n < PG_LONG ? n : PG_LONG;                                                \\
                double lane[PG_WIDE];                                                                             \\
                for (int k = 0; k < PG_WIDE; k++) lane[k] = START;                                                \\
                for (; i + 8 * PG_WIDE <= many; i += 8 * PG_WIDE)                                                 \\
                    for (int k = 0; k < PG_WIDE; k++) {                                                           \\
                        const T *e = x + i + k;                                                                   \\
                        lane[k] = pg_##OP##_double(lane[k], (double)PG_TREE(A, OP,                                \\
                            V(e[0]), V(e[PG_WIDE]), V(e[2 * PG_WIDE]), V(e[3 * PG_WIDE]), V(e[4 * PG_WIDE]),      \\
                            V(e[5 * PG_WIDE]), V(e[6 * PG_WIDE]), V(e[7 * PG_WIDE])));                            \\
                    }                                                                                             \\
                PG_JOIN_LANES(OP, lane, PG_WIDE)                                                                  \\
                COMMIT(lane[0]);                                                                                  \\
            } else {                                                                                              \\
                double total = START;                                                                             \\
                if (n >= PG_NARROW) {                                                                             \\
                    double lane[PG_NARROW];                                                                       \\
                    for (int k = 0; k < PG_NARROW; k++) lane[k] = (double)V(x[k]);                                \\
                    for (i = PG_NARROW; i + PG_NARROW <= n; i += PG_NARROW)                                       \\
                        for (int k = 0; k < PG_NARROW; k++)                                                       \\
                            lane[k] = pg_##OP##_double(lane[k], (double)V(x[i + k]));                             \\
                    PG_JOIN_LANES(OP, lane, PG_NARROW)                                                            \\
                    total = lane[0];                                                                              \\
                }                                                                                                 \\
                for (; i < n; i++) total = pg_##OP##_double(total, (double)V(x[i]));                              \\
                COMMIT(total);                                                                                    \\
            }                                                                                                     \\
            x += i;                                                                                               \\
            n -= i;                                                                                               \\
        }

    /* s[j] = OP(s[j], V(e)) for the elements j of `rows` rows of n; BEFORE is done for each j. */
    #define PG_ACROSS(T, A, OP, V, BEFORE)                                                                        \\
        for (; rows >= 8; rows -= 8, x += 8 * step) {                                                             \\
            const T *e0 = (const T *)x, *e1 = (const T *)(x + step), *e2 = (const T *)(x + 2 * step);             \\
            const T *e3 = (const T *)(x + 3 * step), *e4 = (const T *)(x + 4 * step);                             \\
            const T *e5 = (const T *)(x + 5 * step), *e6 = (const T *)(x + 6 * step);                             \\
            const T *e7 = (const T *)(x + 7 * step);                                                              \\
            for (Py_ssize_t j = 0; j < n; j++) {                                                                  \\
                BEFORE                                                                                            \\
                s[j] = pg_##OP##_double(s[j], (double)PG_TREE(A, OP, V(e0[j]), V(e1[j]), V(e2[j]), V(e3[j]),      \\
                                                              V(e4[j]), V(e5[j]), V(e6[j]), V(e7[j])));           \\
            }                                                                                                     \\
        }                                                                                                         \\
        for (; rows >= 2; rows -= 2, x += 2 * step) {                                                             \\
            const T *e0 = (const T *)x, *e1 = (const T *)(x + step);                                              \\
            for (Py_ssize_t j = 0; j < n; j++) {                                                                  \\
                BEFORE                                                                                            \\
                s[j] = pg_##OP##_double(s[j], (double)pg_##OP##_##A(V(e0[j]), V(e1[j])));                         \\
            }                                                                                                     \\
        }                                                                                                         \\
        if (rows) {                                                                                               \\
            const T *e0 = (const T *)x;                                                                           \\
            for (Py_ssize_t j = 0; j < n; j++) { BEFORE s[j] = pg_##OP##_double(s[j], (double)V(e0[j])); }        \\
        }

    #define PG_COMMIT_plus(v) pg_commit_plus(s, apart, v)
    #define PG_COMMIT_times(v) pg_commit_times(s, apart, v)
    #define PG_COMMIT_most(v) pg_commit_most(s, apart, v)
    #define PG_COMMIT_least(v) pg_commit_least(s, apart, v)

    typedef struct {
        int fields;
        double start;
        void (*along)(const void *, Py_ssize_t, const double *, double *, Py_ssize_t);
        void (*across)(const void *, Py_ssize_t, Py_ssize_t, Py_ssize_t, const double *, double *, Py_ssize_t);
        void (*join)(double *, const double *, Py_ssize_t, Py_ssize_t);
    } pg_reduction;
    typedef struct {
        void (*along)(const void *, void *, Py_ssize_t, double, double);
        void (*across)(const void *, void *, Py_ssize_t, const void *, const void *);
    } pg_slopes;

    /* A reduction by OP of the values V(e) of type A; GIVEN: what V uses of `given`, where `given[j]` is of result j. */
    #define PG_REDUCTION_OF(name, T, A, OP, START, V, GIVEN)                                                      \\
    PG_VECTOR static void name##_along_##T(const void *vx, Py_ssize_t n, const double *given, double *s,          \\
                                           Py_ssize_t apart) {                                                    \\
        const T *x = vx; const int j = 0; (void)given; (void)j;                                                   \\
        GIVEN(T)                                                                                                  \\
        PG_ALONG(T, A, OP, START, V, PG_COMMIT_##OP)                                                              \\
    }                                                                                                             \\
    PG_VECTOR static void name##_across_##T(const void *vx, Py_ssize_t rows, Py_ssize_t step, Py_ssize_t n,       \\
                                            const double *given, double *restrict s, Py_ssize_t apart) {          \\
        const char *x = vx; (void)given; (void)apart;                                                             \\
        PG_ACROSS(T, A, OP, V, GIVEN(T))                                                                          \\
    }
    #define PG_NOTHING(T)

    /* Slopes f(x, a, b) of elements x; `real` is their type. */
    #define PG_SLOPES_OF(name, T, expr)                                                                           \\
    PG_VECTOR static void name##_along_##T(const void *vx, void *vo, Py_ssize_t n, double va, double vb) {        \\
        typedef T real; const real *xs = vx, a = (real)va, b = (real)vb; real *restrict o = vo; (void)a;          \\
        for (Py_ssize_t i = 0; i < n; i++) { const real x = xs[i]; o[i] = (expr); } }                             \\
    PG_VECTOR static void name##_across_##T(const void *vx, void *vo, Py_ssize_t n, const void *va,               \\
                                            const void *vb) {                                                     \\
        typedef T real; const real *xs = vx, *as = va, *bs = vb; real *restrict o = vo; (void)as;                 \\
        for (Py_ssize_t i = 0; i < n; i++) { const real x = xs[i], a = as[i], b = bs[i]; (void)a; o[i] = (expr); } }
    #define PG_SLOPES(name, expr) PG_SLOPES_OF(name, float, expr) PG_SLOPES_OF(name, double, expr)                \\
        static const pg_slopes name[2] = {{name##_along_float, name##_across_float},                              \\
                                          {name##_along_double, name##_across_double}};
    """
