"""C loops of reductions and their gradients (see folds.pyx), for float32 [0] and float64 [1]."""

cimport plugrad.backends.reducing_loops  # its macros  # no-cython-lint
from plugrad.backends.reducing cimport Loops, Slopes


cdef extern from *:
    """
    #include <stdint.h>
    #define PG_ITSELF(e) (e)
    #define PG_WIDENED(e) ((double)(e))
    #define PG_SQUARED(e) ((e) * (e))
    #define PG_EQUAL(e) (((e) == top) | (((e) != (e)) & (top != top)))
    #define PG_TOP(T) const T top = (T)given[j];
    #define PG_BOTH(name, FIELDS, AF, AD, OP, START, V, GIVEN)                                                    \\
        PG_REDUCTION_OF(name, float, AF, OP, START, V, GIVEN)                                                     \\
        PG_REDUCTION_OF(name, double, AD, OP, START, V, GIVEN)                                                    \\
        static const pg_reduction name[2] = {                                                                     \\
            {FIELDS, START, name##_along_float, name##_across_float, pg_join_##OP},                               \\
            {FIELDS, START, name##_along_double, name##_across_double, pg_join_##OP}};
    PG_JOIN(times)
    PG_JOIN_SUMS
    /* Sums for means that elements are compared with: of differences from the first, so that a large mean costs no
       digits. */
    #define PG_SHIFTED(e) ((e) - first)
    PG_VECTOR static void pg_shifted_along(const void *vx, Py_ssize_t n, Py_ssize_t lines, Py_ssize_t step,
                                           const double *given, double *s, Py_ssize_t apart) {
        (void)given;
        for (Py_ssize_t j = 0; j < lines; j++, s++) {
            const float *x = (const float *)((const char *)vx + j * step), first = isfinite(x[0]) ? x[0] : 0;
            PG_ALONG(float, float, plus, 0, PG_SHIFTED, PG_COMMIT_plus)
            PG_COMMIT_plus(total);
            PG_COMMIT_plus((double)n * first);
        }
    }
    PG_VECTOR static void pg_shifted_across(const void *vx, Py_ssize_t rows, Py_ssize_t step, Py_ssize_t n,
                                            const double *given, double *restrict s, Py_ssize_t apart) {
        const char *x = vx;
        const float *firsts = vx;
        const double many = (double)rows;
        double was[1024];
        (void)given; (void)apart;
        for (Py_ssize_t j = 0; j < n; j++) was[j] = s[j];
        PG_ACROSS(s, float, float, plus, PG_SHIFTED, const float first = isfinite(firsts[j]) ? firsts[j] : 0;, was[j])
        for (Py_ssize_t j = 0; j < n; j++) s[j] += many * (isfinite(firsts[j]) ? firsts[j] : 0);
    }
    static const pg_reduction pg_shifted_sums[1] = {{2, 0, pg_shifted_along, pg_shifted_across, pg_join_plus}};
    PG_BOTH(pg_product, 1, double, double, times, 1, PG_WIDENED, PG_NOTHING)
    PG_BOTH(pg_squares, 2, float, double, plus, 0, PG_SQUARED, PG_NOTHING)
    PG_BOTH(pg_ties, 2, float, double, plus, 0, PG_EQUAL, PG_TOP)

    /* Deviations from a mean that is a double: in float32 in two parts, unless something may leave the range. */
    PG_SLOPES_OF(pg_apart, float, double, (x - a) * b)
    PG_SLOPES_OF(pg_apart, double, double, (x - a) * b)
    PG_VECTOR static void pg_apart_near(const void *vx, void *vo, Py_ssize_t n, double a, double b) {
        const float *x = vx, high = (float)a, low = (float)(a - high), f = (float)b; float *restrict o = vo;
        for (Py_ssize_t i = 0; i < n; i++) o[i] = (x[i] - high - low) * f;
    }
    static void pg_apart_any(const void *x, void *o, Py_ssize_t n, double a, double b) {
        if (fabs(a) < 1e30 && fabs(b) < 1e30 && (fabs(b) > 1e-30 || b == 0)) pg_apart_near(x, o, n, a, b);
        else pg_apart_along_float(x, o, n, a, b);
    }
    static const pg_slopes pg_centered[2] = {{pg_apart_any, pg_apart_across_float, 1},
                                             {pg_apart_along_double, pg_apart_across_double, 1}};
    PG_SLOPES(pg_tied, (x == a) | ((x != x) & (a != a)) ? b : 0)
    PG_SLOPES(pg_ratio, x / a * b)
    PG_SLOPES(pg_others, a / x * b)
    PG_SLOPES_OF(pg_exact_others, float, double, a / x * b)
    static const pg_slopes pg_any_others[2] = {{pg_exact_others_along_float, pg_exact_others_across_float, 1},
                                               {pg_others_along_double, pg_others_across_double, 1}};

    /* Extremes by the comparison CMP; I is an integer of T's size. A NaN is kept aside, since no comparison takes it.
       What is left of a run is looked at together with what is before it: twice the same changes nothing. */
    #define PG_LANES_OF(T, I, CMP, W)                                                                             \\
        T m[W]; I none[W];                                                                                        \\
        PG_KEPT_LOOP for (int k = 0; k < W; k++) { m[k] = x[k]; none[k] = 0; }                                    \\
        for (Py_ssize_t i = 0; i < n; i += W) {                                                                   \\
            const T *e = x + (i + W <= n ? i : n - W);                                                            \\
            PG_KEPT_LOOP for (int k = 0; k < W; k++) {                                                            \\
                none[k] |= e[k] != e[k] ? -1 : 0;                                                                 \\
                m[k] = e[k] CMP m[k] ? e[k] : m[k];                                                               \\
            }                                                                                                     \\
        }                                                                                                         \\
        for (int w = W / 2; w; w /= 2)                                                                            \\
            PG_KEPT_LOOP for (int k = 0; k < w; k++) {                                                            \\
                none[k] |= none[k + w];                                                                           \\
                m[k] = m[k + w] CMP m[k] ? m[k + w] : m[k];                                                       \\
            }                                                                                                     \\
        best = none[0] ? NAN : m[0];
    #define PG_EXTREME_OF(name, T, I, CMP)                                                                        \\
    PG_VECTOR static void name##_along_##T(const void *vx, Py_ssize_t n, Py_ssize_t lines, Py_ssize_t step,       \\
                                           const double *given, double *s, Py_ssize_t apart) {                    \\
        (void)given; (void)apart;                                                                                 \\
        for (Py_ssize_t j = 0; j < lines; j++) {                                                                  \\
            const T *x = (const T *)((const char *)vx + j * step);                                                \\
            double best;                                                                                          \\
            if (n >= 4 * PG_LANES(T)) { PG_LANES_OF(T, I, CMP, (4 * PG_LANES(T))) }                               \\
            else if (n >= 8) { PG_LANES_OF(T, I, CMP, 8) }                                                        \\
            else { PG_LANES_OF(T, I, CMP, 1) }                                                                    \\
            s[j] = (best CMP s[j]) | (best != best) ? best : s[j];                                                \\
        }                                                                                                         \\
    }                                                                                                             \\
    PG_VECTOR static void name##_across_##T(const void *vx, Py_ssize_t rows, Py_ssize_t step, Py_ssize_t n,       \\
                                            const double *given, double *restrict s, Py_ssize_t apart) {          \\
        const char *x = vx;                                                                                       \\
        (void)given; (void)apart;                                                                                 \\
        for (; rows > 0; rows -= 4, x += 4 * step) {                                                              \\
            const T *e0 = (const T *)x, *e1 = (const T *)(x + (rows > 1) * step);                                 \\
            const T *e2 = (const T *)(x + (rows > 2 ? 2 : 0) * step);                                             \\
            const T *e3 = (const T *)(x + (rows > 3 ? 3 : 0) * step);                                             \\
            for (Py_ssize_t k = 0; k < n; k++) {                                                                  \\
                const T a = e0[k], b = e1[k], c = e2[k], d = e3[k];                                               \\
                const T p = a CMP b ? a : b, q = c CMP d ? c : d;                                                 \\
                const I none = (a != a) | (b != b) | (c != c) | (d != d);                                         \\
                const double best = none ? (T)NAN : p CMP q ? p : q;                                              \\
                s[k] = (best CMP s[k]) | (best != best) ? best : s[k];                                            \\
            }                                                                                                     \\
        }                                                                                                         \\
    }
    #define PG_EXTREME(name, CMP, START)                                                                          \\
    PG_EXTREME_OF(name, float, int32_t, CMP) PG_EXTREME_OF(name, double, int64_t, CMP)                            \\
    static void name##_join(double *s, const double *later, Py_ssize_t n, Py_ssize_t apart) {                     \\
        name##_across_double(later, 1, 0, n, NULL, s, apart); }                                                   \\
    static const pg_reduction name[2] = {{1, START, name##_along_float, name##_across_float, name##_join},        \\
                                         {1, START, name##_along_double, name##_across_double, name##_join}};
    PG_EXTREME(pg_largest, >, -INFINITY)
    PG_EXTREME(pg_smallest, <, INFINITY)

    /* n more numbers with the mean base + off and this sum of squared deviations from it. State: n, base, off, the sum.
       In two parts a mean is known as closely as the numbers' deviations from it. Where means are not finite any more,
       the sum says so already. */
    PG_INLINE_LOOP void pg_merge(double *s, Py_ssize_t apart, double n, double base, double off, double squares) {
        const double all = s[0] + n, part = n / all, delta = (base - s[apart]) + (off - s[2 * apart]);
        const double more = delta * delta * s[0] * part;
        s[3 * apart] += squares + (s[0] > 0 && more > 0 ? more : 0);
        s[2 * apart] = s[0] > 0 ? s[2 * apart] + delta * part : off;
        s[apart] = s[0] > 0 ? s[apart] : base;
        s[0] = all;
    }
    /* Squares about a number, less what the mean's distance from it adds. They may be infinite where `off` is too. */
    PG_INLINE_LOOP double pg_left(double squares, double off, double n) {
        const double left = squares - off * (off / n);
        return squares > 1.7976931348623157e308 ? squares : left < 0 ? 0 : left;
    }
    /* Whether squares in float32 have vanished in part, or are mostly the distance of the mean. */
    PG_INLINE_LOOP int pg_doubtful(double squares, double left, double n) {
        return (left < 0.5 * squares) | (squares < 1e-36 * n);
    }
    #define PG_APART(e) ((e) - middle)
    #define PG_APART_SQUARED(e) (((e) - middle) * ((e) - middle))
    #define PG_IGNORED(v)
    #define PG_MOMENTS(T)                                                                                         \\
    PG_INLINE_LOOP double pg_sum_of_##T(const T *x, Py_ssize_t n) {                                               \\
        PG_ALONG(T, T, plus, 0, PG_ITSELF, PG_IGNORED) return total; }                                            \\
    PG_INLINE_LOOP double pg_apart_of_##T(const T *x, Py_ssize_t n, T middle) {                                   \\
        PG_ALONG(T, T, plus, 0, PG_APART, PG_IGNORED) return total; }                                             \\
    PG_INLINE_LOOP double pg_squares_of_##T(const T *x, Py_ssize_t n, T middle) {                                 \\
        PG_ALONG(T, T, plus, 0, PG_APART_SQUARED, PG_IGNORED) return total; }                                     \\
    PG_INLINE_LOOP double pg_wide_squares_of_##T(const T *x, Py_ssize_t n, T middle) {                            \\
        double lane[PG_LANES(T)] = {0}, total;                                                                    \\
        Py_ssize_t i = 0;                                                                                         \\
        PG_REST(T, double, plus, 0, PG_APART_SQUARED, n)                                                          \\
        PG_JOINED(T, double, plus, lane)                                                                          \\
        return total;                                                                                             \\
    }                                                                                                             \\
    /* A mean whose sum is not finite, as a sum of parts of it. */                                                \\
    static T pg_mean_of_##T(const char *x, Py_ssize_t n, Py_ssize_t step) {                                       \\
        double mean = 0;                                                                                          \\
        for (Py_ssize_t i = 0; i < n; i++) mean += *(const T *)(x + i * step) * (1.0 / n);                        \\
        return (T)mean;                                                                                           \\
    }                                                                                                             \\
    PG_VECTOR static void pg_moments_along_##T(const void *vx, Py_ssize_t length, Py_ssize_t lines, Py_ssize_t step,\\
                                               const double *given, double *s, Py_ssize_t apart) {                \\
        enum { MANY = 16384 / sizeof(T) / sizeof(T) };                                                            \\
        (void)given;                                                                                              \\
        for (Py_ssize_t j = 0; j < lines; j++, s++)                                                               \\
            for (Py_ssize_t i = 0; i < length; i += MANY) {                                                       \\
                const T *x = (const T *)((const char *)vx + j * step) + i;                                        \\
                const Py_ssize_t n = length - i < MANY ? length - i : MANY;                                       \\
                T middle = (T)(pg_sum_of_##T(x, n) / n);                                                          \\
                if (sizeof(T) == 8 && !isfinite(middle)) middle = pg_mean_of_##T((const char *)x, n, sizeof(T));  \\
                const double off = pg_apart_of_##T(x, n, middle), squares = pg_squares_of_##T(x, n, middle);      \\
                double left = pg_left(squares, off, n);                                                           \\
                if (sizeof(T) == 4 && pg_doubtful(squares, left, n))                                              \\
                    left = pg_left(pg_wide_squares_of_##T(x, n, middle), off, n);                                 \\
                pg_merge(s, apart, n, middle, off / n, left);                                                     \\
            }                                                                                                     \\
    }                                                                                                             \\
    PG_VECTOR static void pg_moments_across_##T(const void *vx, Py_ssize_t length, Py_ssize_t step, Py_ssize_t n, \\
                                                const double *given, double *restrict all, Py_ssize_t apart) {    \\
        const char *start = vx;                                                                                   \\
        double s[3][1024]; T center[1024];                                                                        \\
        (void)given;                                                                                              \\
        for (Py_ssize_t i = 0; i < length; i += 32, start += 32 * step) {                                         \\
            const Py_ssize_t many = length - i < 32 ? length - i : 32;                                            \\
            const char *x = start; Py_ssize_t rows = many, j;                                                     \\
            int doubtful = 0;                                                                                     \\
            for (j = 0; j < n; j++) s[0][j] = s[1][j] = s[2][j] = 0;                                              \\
            PG_SUM_ROWS(T, T, s[0], PG_ITSELF, )                                                                  \\
            for (j = 0; j < n; j++) center[j] = (T)(s[0][j] / many);                                              \\
            if (sizeof(T) == 8)                                                                                   \\
                for (j = 0; j < n; j++)                                                                           \\
                    if (!isfinite(center[j])) center[j] = pg_mean_of_##T(start + j * sizeof(T), many, step);      \\
            PG_SUM_ROWS(T, T, s[1], PG_APART, const T middle = center[j];)                                        \\
            PG_SUM_ROWS(T, T, s[2], PG_APART_SQUARED, const T middle = center[j];)                                \\
            for (j = 0; sizeof(T) == 4 && j < n; j++)                                                             \\
                doubtful |= pg_doubtful(s[2][j], pg_left(s[2][j], s[1][j], many), many);                          \\
            if (sizeof(T) == 4 && doubtful) {                                                                     \\
                for (j = 0; j < n; j++) s[2][j] = 0;                                                              \\
                PG_SUM_ROWS(T, double, s[2], PG_APART_SQUARED, const T middle = center[j];)                       \\
            }                                                                                                     \\
            for (j = 0; j < n; j++)                                                                               \\
                pg_merge(all + j, apart, many, center[j], s[1][j] / many, pg_left(s[2][j], s[1][j], many));       \\
        }                                                                                                         \\
    }
    #define PG_SUM_ROWS(T, A, where, V, BEFORE) {                                                                 \\
        double *restrict sum = where; x = start; rows = many; PG_ACROSS(sum, T, A, plus, V, BEFORE, 0) }
    PG_MOMENTS(float)
    PG_MOMENTS(double)
    static void pg_join_moments(double *s, const double *later, Py_ssize_t n, Py_ssize_t apart) {
        for (Py_ssize_t j = 0; j < n; j++)
            if (later[j] > 0)
                pg_merge(s + j, apart, later[j], later[j + apart], later[j + 2 * apart], later[j + 3 * apart]);
    }
    static const pg_reduction pg_moments[2] = {
        {4, 0, pg_moments_along_float, pg_moments_across_float, pg_join_moments},
        {4, 0, pg_moments_along_double, pg_moments_across_double, pg_join_moments}};
    """
    const Loops[1] pg_shifted_sums
    const Loops[2] pg_largest, pg_smallest, pg_product, pg_squares, pg_ties, pg_moments
    const Slopes[2] pg_centered, pg_tied, pg_ratio, pg_others, pg_any_others
    double pg_plus_of(const double *s, Py_ssize_t apart) noexcept nogil
    bint isnormal(double x) noexcept nogil
