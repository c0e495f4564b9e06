"""Loops over rows and channels in C, for float32 and float64, and what both kinds of normalisation share.

(a) Loops take C-contiguous arrays; other layouts are copied, float16 goes to NumPy.
(b) Statistics are sums of differences from the first element and of their squares: a large mean costs no digits. Where
    the mean turns out to lie more than two deviations from that element, a second pass starts from the mean.
(c) In float32 a mean is subtracted in two parts, so that its rounding does not reach the difference.
(d) A thousand elements are added up in their own type, as many partial sums that are joined pairwise, and these sums in
    double. The order is the loop's: it vectorises, and gives the same bits on every machine.
"""

cimport numpy as cnp

from plugrad.backends.recycling cimport fresh
cimport plugrad_ops.loops  # its macros  # no-cython-lint


cdef extern from *:
    """
    #define PG_SPLIT(T) const T high = (T)mean, low = (T)(mean - high)
    #define PG_XHAT(i) ((x[i] - high - low) * r)
    #define PG_XHATS(i) (((double)x[i] - mean[i]) * rstd[i])    /* neighbours belong to n channels */
    #define PG_ALL for (Py_ssize_t i = 0; i < n; i++)
    /* sums += the sums of A and of B, which use the index j. */
    #define PG_SUMS(T, A, B)                                                                                      \\
        enum { W = 128 / sizeof(T) };                                                                             \\
        for (Py_ssize_t i = 0; i < n;) {                                                                          \\
            const Py_ssize_t end = n - i > 1024 ? i + 1024 : n;                                                   \\
            T s[W] = {0}, q[W] = {0};                                                                             \\
            for (; i + W <= end; i += W)                                                                          \\
                for (int k = 0; k < W; k++) { const Py_ssize_t j = i + k; s[k] += A; q[k] += B; }                 \\
            for (int k = 0; i < end; i++, k++) { const Py_ssize_t j = i; s[k] += A; q[k] += B; }                  \\
            for (int w = W / 2; w; w /= 2)                                                                        \\
                for (int k = 0; k < w; k++) { s[k] += s[k + w]; q[k] += q[k + w]; }                               \\
            sums[0] += s[0]; sums[1] += q[0]; }

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
        void (*moments_across)(const void *x, Py_ssize_t n, const double *shift, double *s, double *q);
        void (*apply_across)(const void *x, void *y, Py_ssize_t n, const double *mean, const double *scale,
                             const double *shift);
        void (*dots_across)(const void *g, const void *x, Py_ssize_t n, const double *mean, const double *rstd,
                            double *s, double *q);
        void (*slopes_across)(const void *g, const void *x, void *dx, Py_ssize_t n, const double *mean,
                              const double *rstd, const double *scale, const double *m1, const double *m2);
    } pg_norm_loops;

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
    PG_LOOP pg_moments_across_##T(const void *vx, Py_ssize_t n, const double *shift, double *restrict s,          \\
                                  double *restrict q) {                                                           \\
        const T *x = vx; PG_ALL { const double d = (double)x[i] - shift[i]; s[i] += d; q[i] += d * d; } }         \\
    PG_LOOP pg_apply_across_##T(const void *vx, void *vy, Py_ssize_t n, const double *mean, const double *rstd,   \\
                                const double *shift) {                                                            \\
        const T *x = vx; T *restrict y = vy; PG_ALL y[i] = (T)(PG_XHATS(i) + shift[i]); }                         \\
    PG_LOOP pg_dots_across_##T(const void *vg, const void *vx, Py_ssize_t n, const double *mean,                  \\
                               const double *rstd, double *restrict s, double *restrict q) {                      \\
        const T *g = vg, *x = vx; PG_ALL { s[i] += g[i]; q[i] += g[i] * PG_XHATS(i); } }                          \\
    PG_LOOP pg_slopes_across_##T(const void *vg, const void *vx, void *vdx, Py_ssize_t n, const double *mean,     \\
                                 const double *rstd, const double *w, const double *m1, const double *m2) {       \\
        const T *g = vg, *x = vx; T *restrict dx = vdx;                                                           \\
        PG_ALL dx[i] = (T)(g[i] * w[i] - m1[i] - PG_XHATS(i) * m2[i]); }                                          \\
    static const pg_norm_loops pg_norm_##T = {                                                                    \\
        sizeof(T), pg_at_##T, pg_rounded_##T, pg_put_##T, pg_moments_##T, pg_apply_##T, pg_apply_each_##T,        \\
        pg_dots_##T, pg_dots_each_##T, pg_weights_##T, pg_flush_##T, pg_slopes_##T, pg_slopes_each_##T,           \\
        pg_moments_across_##T, pg_apply_across_##T, pg_dots_across_##T, pg_slopes_across_##T };
    PG_NORM(float)
    PG_NORM(double)
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
        void (*moments_across)(const void *, Py_ssize_t, const double *, double *, double *) noexcept nogil
        void (*apply_across)(
            const void *, void *, Py_ssize_t, const double *, const double *, const double *
        ) noexcept nogil
        void (*dots_across)(
            const void *, const void *, Py_ssize_t, const double *, const double *, double *, double *
        ) noexcept nogil
        void (*slopes_across)(
            const void *, const void *, void *, Py_ssize_t, const double *, const double *, const double *,
            const double *, const double *
        ) noexcept nogil
    const Loops pg_norm_float, pg_norm_double


cdef inline const Loops *loops_of(cnp.ndarray x):
    """The loops for a float32 or float64 array; NULL for any other."""
    cdef int kind = cnp.PyArray_TYPE(x)
    return &pg_norm_float if kind == cnp.NPY_FLOAT else &pg_norm_double if kind == cnp.NPY_DOUBLE else NULL


cdef inline cnp.ndarray plain(object x):
    """`x` itself if it is C-contiguous and aligned, else such a copy."""
    return <cnp.ndarray>cnp.PyArray_FROM_OTF(x, cnp.PyArray_TYPE(<cnp.ndarray>x), cnp.NPY_ARRAY_IN_ARRAY)


cdef inline cnp.ndarray like(cnp.ndarray x):
    return fresh(cnp.PyArray_NDIM(x), cnp.PyArray_DIMS(x), cnp.PyArray_TYPE(x))


cdef inline const char *data_of(object array):
    if array is None:
        return NULL
    return <const char *>cnp.PyArray_DATA(<cnp.ndarray>array)


cdef inline bint is_far(double apart, double variance) noexcept nogil:
    """Whether a mean lies so far from where its squares were counted that their difference has lost digits."""
    return apart * apart > 4.0 * variance
