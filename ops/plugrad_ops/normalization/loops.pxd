"""Loops over rows and channels in C, for float32 and float64, and what both kinds of normalisation share.

(a) Loops run through memory. Rows are taken from arrays in C order, others are copied to that; channels are found in
    any array without gaps, as it lies. float16 goes to NumPy.
(b) Statistics are sums of differences from the first element, or the mean of the first few, and of their squares: a
    large mean costs no digits. Where the mean turns out to lie more than two deviations from that, a second pass starts
    from it.
(c) In float32 a mean is subtracted in two parts, so that its rounding does not reach the difference.
(d) A thousand elements are added up in their own type, as many partial sums that are joined pairwise, and these sums in
    double. Of channels that lie side by side, eight rows are. The order is the loop's, so that it vectorises, and parts
    of threads are added in the order of memory: the same bits each time. Where products are contracted, another
    generation of processors may round otherwise.
"""

cimport numpy as cnp

from plugrad.backends.recycling cimport fresh
cimport plugrad.backends.reducing_loops  # its macros  # no-cython-lint
cimport plugrad_ops.loops  # its macros  # no-cython-lint


cdef extern from *:
    """
    #define PG_SPLIT(T) const T high = (T)mean, low = (T)(mean - high)
    #define PG_XHAT(i) ((x[i] - high - low) * r)
    #define PG_XHATS(i, j) ((x[i] - high[j] - low[j]) * r[j])   /* neighbours belong to n channels */
    #define PG_ALL for (Py_ssize_t i = 0; i < n; i++)
    /* sums += the sums of A and of B, which use the index j. */
    #define PG_SUMS(T, A, B)                                                                                      \\
        enum { W = 128 / sizeof(T) };                                                                             \\
        for (Py_ssize_t i = 0; i < n;) {                                                                          \\
            const Py_ssize_t end = n - i > 1024 ? i + 1024 : n;                                                   \\
            T s[W] = {0}, q[W] = {0};                                                                             \\
            for (; i + W <= end; i += W)                                                                          \\
                PG_KEPT_LOOP for (int k = 0; k < W; k++) {                                                        \\
                    const Py_ssize_t j = i + k; s[k] += A; q[k] += B; }                                           \\
            for (int k = 0; i < end; i++, k++) { const Py_ssize_t j = i; s[k] += A; q[k] += B; }                  \\
            for (int w = W / 2; w; w /= 2)                                                                        \\
                PG_KEPT_LOOP for (int k = 0; k < w; k++) { s[k] += s[k + w]; q[k] += q[k + w]; }                  \\
            sums[0] += s[0]; sums[1] += q[0]; }

    /* s[j] += A and q[j] += B, which use j and the place i, of rows of n. */
    #define PG_NEXT(A, B) i += n; some += A; more += B;
    #define PG_SUMS_ACROSS(T, A, B)                                                                               \\
        Py_ssize_t row = 0;                                                                                       \\
        for (; row + 8 <= rows; row += 8)                                                                         \\
            for (Py_ssize_t j = 0; j < n; j++) {                                                                  \\
                Py_ssize_t i = row * n + j;                                                                       \\
                T some = A, more = B;                                                                             \\
                PG_NEXT(A, B) PG_NEXT(A, B) PG_NEXT(A, B) PG_NEXT(A, B) PG_NEXT(A, B) PG_NEXT(A, B) PG_NEXT(A, B) \\
                s[j] += some; q[j] += more;                                                                       \\
            }                                                                                                     \\
        for (; row < rows; row++)                                                                                 \\
            for (Py_ssize_t j = 0; j < n; j++) { const Py_ssize_t i = row * n + j; s[j] += A; q[j] += B; }

    typedef struct {
        Py_ssize_t size;
        double (*at)(const void *x, Py_ssize_t i);
        double (*rounded)(double x);
        void (*put)(const double *from, void *x, Py_ssize_t n);
        void (*moments)(const void *x, Py_ssize_t n, double shift, double *sums);
        void (*apply)(const void *x, void *y, Py_ssize_t n, double mean, double scale, double shift);
        void (*apply_each)(const void *x, void *y, Py_ssize_t n, double mean, double rstd, const void *w,
                           const void *b);
        void (*dots)(const void *g, const void *x, Py_ssize_t n, double mean, double rstd, double *sums);
        void (*dots_each)(const void *g, const void *w, const void *x, Py_ssize_t n, double mean, double rstd,
                          double *sums);
        void (*weights)(const void *g, const void *x, Py_ssize_t n, double mean, double rstd, void *dw, void *db);
        void (*flush)(void *part, double *total, Py_ssize_t n);
        void (*slopes)(const void *g, const void *x, void *dx, Py_ssize_t n, double mean, double rstd, double scale,
                       double m1, double m2);
        void (*slopes_each)(const void *g, const void *w, const void *x, void *dx, Py_ssize_t n, double mean,
                            double rstd, double m1, double m2);
        void (*split)(const double *x, void *high, void *low, Py_ssize_t n);
        void (*moments_across)(const void *x, Py_ssize_t rows, Py_ssize_t n, const void *shift, double *s, double *q);
        void (*dots_across)(const void *g, const void *x, Py_ssize_t rows, Py_ssize_t n, const void *high,
                            const void *low, const void *r, double *s, double *q);
        void (*apply_across)(const void *x, void *y, Py_ssize_t n, const void *high, const void *low, const void *r,
                             const void *shift);
        void (*slopes_across)(const void *g, const void *x, void *dx, Py_ssize_t n, const void *high, const void *low,
                              const void *r, const void *w, const void *m1, const void *m2);
    } pg_norm_loops;

    /* Made once, in rows_cpu.pyx, whose `loops_of` gives them to the other modules. */
    #define PG_NORM(T)                                                                                            \\
    static double pg_at_##T(const void *x, Py_ssize_t i) { return ((const T *)x)[i]; }                            \\
    static double pg_rounded_##T(double x) { return (T)x; }                                                       \\
    PG_LOOP pg_put_##T(const double *from, void *vx, Py_ssize_t n) { T *x = vx; PG_ALL x[i] = (T)from[i]; }       \\
    PG_LOOP pg_moments_##T(const void *vx, Py_ssize_t n, double shift, double *sums) {                            \\
        const T *x = vx, c = (T)shift;                                                                            \\
        PG_SUMS(T, x[j] - c, (x[j] - c) * (x[j] - c)) }                                                           \\
    PG_LOOP pg_apply_##T(const void *vx, void *vy, Py_ssize_t n, double mean, double scale, double shift) {       \\
        const T *x = vx, r = (T)scale, b = (T)shift; T *restrict y = vy; PG_SPLIT(T);                             \\
        PG_ALL y[i] = PG_XHAT(i) + b; }                                                                           \\
    PG_LOOP pg_apply_each_##T(const void *vx, void *vy, Py_ssize_t n, double mean, double rstd, const void *vw,   \\
                              const void *vb) {                                                                   \\
        const T *x = vx, *w = vw, *b = vb, r = (T)rstd; T *restrict y = vy; PG_SPLIT(T);                          \\
        if (b) PG_ALL y[i] = PG_XHAT(i) * w[i] + b[i]; else PG_ALL y[i] = PG_XHAT(i) * w[i]; }                    \\
    PG_LOOP pg_dots_##T(const void *vg, const void *vx, Py_ssize_t n, double mean, double rstd, double *sums) {   \\
        const T *g = vg, *x = vx, r = (T)rstd; PG_SPLIT(T);                                                       \\
        PG_SUMS(T, g[j], g[j] * PG_XHAT(j)) }                                                                     \\
    PG_LOOP pg_dots_each_##T(const void *vg, const void *vw, const void *vx, Py_ssize_t n, double mean,           \\
                             double rstd, double *sums) {                                                         \\
        const T *g = vg, *w = vw, *x = vx, r = (T)rstd; PG_SPLIT(T);                                              \\
        PG_SUMS(T, g[j] * w[j], g[j] * w[j] * PG_XHAT(j)) }                                                       \\
    PG_LOOP pg_weights_##T(const void *vg, const void *vx, Py_ssize_t n, double mean, double rstd, void *vdw,     \\
                           void *vdb) {                                                                           \\
        const T *g = vg, *x = vx, r = (T)rstd; T *restrict dw = vdw; T *restrict db = vdb; PG_SPLIT(T);           \\
        PG_ALL { dw[i] += g[i] * PG_XHAT(i); db[i] += g[i]; } }                                                   \\
    PG_LOOP pg_flush_##T(void *vpart, double *restrict total, Py_ssize_t n) {                                     \\
        T *restrict part = vpart; PG_ALL { total[i] += part[i]; part[i] = 0; } }                                  \\
    PG_LOOP pg_slopes_##T(const void *vg, const void *vx, void *vdx, Py_ssize_t n, double mean, double rstd,      \\
                          double scale, double m1, double m2) {                                                   \\
        const T *g = vg, *x = vx, r = (T)rstd, w = (T)scale, a = (T)m1, b = (T)m2;                                \\
        T *restrict dx = vdx; PG_SPLIT(T);                                                                        \\
        PG_ALL dx[i] = g[i] * w - a - PG_XHAT(i) * b; }                                                           \\
    PG_LOOP pg_slopes_each_##T(const void *vg, const void *vw, const void *vx, void *vdx, Py_ssize_t n,           \\
                               double mean, double rstd, double m1, double m2) {                                  \\
        const T *g = vg, *w = vw, *x = vx, r = (T)rstd, a = (T)m1, b = (T)m2; T *restrict dx = vdx; PG_SPLIT(T);  \\
        PG_ALL dx[i] = g[i] * w[i] * r - a - PG_XHAT(i) * b; }                                                    \\
    PG_LOOP pg_split_##T(const double *x, void *vhigh, void *vlow, Py_ssize_t n) {                                \\
        T *restrict high = vhigh; T *restrict low = vlow;                                                         \\
        PG_ALL { high[i] = (T)x[i]; low[i] = (T)(x[i] - high[i]); } }                                             \\
    PG_LOOP pg_moments_across_##T(const void *vx, Py_ssize_t rows, Py_ssize_t n, const void *vc,                  \\
                                  double *restrict s, double *restrict q) {                                       \\
        const T *x = vx, *c = vc;                                                                                 \\
        PG_SUMS_ACROSS(T, x[i] - c[j], (x[i] - c[j]) * (x[i] - c[j])) }                                           \\
    PG_LOOP pg_dots_across_##T(const void *vg, const void *vx, Py_ssize_t rows, Py_ssize_t n, const void *vh,     \\
                               const void *vl, const void *vr, double *restrict s, double *restrict q) {          \\
        const T *g = vg, *x = vx, *high = vh, *low = vl, *r = vr;                                                 \\
        PG_SUMS_ACROSS(T, g[i], g[i] * PG_XHATS(i, j)) }                                                          \\
    PG_LOOP pg_apply_across_##T(const void *vx, void *vy, Py_ssize_t n, const void *vh, const void *vl,           \\
                                const void *vr, const void *vb) {                                                 \\
        const T *x = vx, *high = vh, *low = vl, *r = vr, *b = vb; T *restrict y = vy;                             \\
        PG_ALL y[i] = PG_XHATS(i, i) + b[i]; }                                                                    \\
    PG_LOOP pg_slopes_across_##T(const void *vg, const void *vx, void *vdx, Py_ssize_t n, const void *vh,         \\
                                 const void *vl, const void *vr, const void *vw, const void *va, const void *vb) { \\
        const T *g = vg, *x = vx, *high = vh, *low = vl, *r = vr, *w = vw, *a = va, *b = vb; T *restrict dx = vdx; \\
        PG_ALL dx[i] = g[i] * w[i] - a[i] - PG_XHATS(i, i) * b[i]; }                                              \\
    static const pg_norm_loops pg_norm_##T = {                                                                    \\
        sizeof(T), pg_at_##T, pg_rounded_##T, pg_put_##T, pg_moments_##T, pg_apply_##T, pg_apply_each_##T,        \\
        pg_dots_##T, pg_dots_each_##T, pg_weights_##T, pg_flush_##T, pg_slopes_##T, pg_slopes_each_##T,           \\
        pg_split_##T, pg_moments_across_##T, pg_dots_across_##T, pg_apply_across_##T, pg_slopes_across_##T };
    """
    ctypedef struct Loops "pg_norm_loops":
        Py_ssize_t size
        double (*at)(const void *, Py_ssize_t) noexcept nogil
        double (*rounded)(double) noexcept nogil
        void (*put)(const double *, void *, Py_ssize_t) noexcept nogil
        void (*moments)(const void *, Py_ssize_t, double, double *) noexcept nogil
        void (*apply)(const void *, void *, Py_ssize_t, double, double, double) noexcept nogil
        void (*apply_each)(
            const void *, void *, Py_ssize_t, double, double, const void *, const void *
        ) noexcept nogil
        void (*dots)(const void *, const void *, Py_ssize_t, double, double, double *) noexcept nogil
        void (*dots_each)(
            const void *, const void *, const void *, Py_ssize_t, double, double, double *
        ) noexcept nogil
        void (*weights)(const void *, const void *, Py_ssize_t, double, double, void *, void *) noexcept nogil
        void (*flush)(void *, double *, Py_ssize_t) noexcept nogil
        void (*slopes)(
            const void *, const void *, void *, Py_ssize_t, double, double, double, double, double
        ) noexcept nogil
        void (*slopes_each)(
            const void *, const void *, const void *, void *, Py_ssize_t, double, double, double, double
        ) noexcept nogil
        void (*split)(const double *, void *, void *, Py_ssize_t) noexcept nogil
        void (*moments_across)(
            const void *, Py_ssize_t, Py_ssize_t, const void *, double *, double *
        ) noexcept nogil
        void (*dots_across)(
            const void *, const void *, Py_ssize_t, Py_ssize_t, const void *, const void *, const void *, double *,
            double *
        ) noexcept nogil
        void (*apply_across)(
            const void *, void *, Py_ssize_t, const void *, const void *, const void *, const void *
        ) noexcept nogil
        void (*slopes_across)(
            const void *, const void *, void *, Py_ssize_t, const void *, const void *, const void *, const void *,
            const void *, const void *
        ) noexcept nogil


cdef inline cnp.ndarray like(cnp.ndarray x):
    return fresh(cnp.PyArray_NDIM(x), cnp.PyArray_DIMS(x), cnp.PyArray_TYPE(x))


cdef inline const char *data_of(object array):
    if array is None:
        return NULL
    return <const char *>cnp.PyArray_DATA(<cnp.ndarray>array)


cdef inline bint is_far(double apart, double variance) noexcept nogil:
    """Whether a mean lies so far from where its squares were counted that their difference has lost digits."""
    return apart * apart > 4.0 * variance
