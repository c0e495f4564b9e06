"""Loops over special functions, and over their derivatives, that compilers vectorise; of double, as `special.cuh`.

(a) digamma and its derivative always take ten steps up where there are any to take, with one division for all of them:
    the sum of 1 / (x + k) is kept as a fraction of two products. Series and reflections are those of `special.cuh`.
(b) erfinv(x) / x is a polynomial in w = -log(1 - x*x) up to 6.25, that is |x| = 0.99903 (its coefficients: see note (d)
    of vector_math.pxd). The few numbers beyond are left to `special.cuh`.
(c) The derivative of sinc is the Taylor series below pi x = 1.5, where the formula would cancel.
(d) Within 3 units in the last place of erfinv and sinc; else see `special.cuh`.
"""

cimport plugrad_ops.vector_angles  # its macros  # no-cython-lint
cimport plugrad_ops.vector_logs  # its macros  # no-cython-lint
from plugrad_ops.loops cimport pg_unary


cdef extern from "special.cuh":
    """
    #define PG_PI 3.14159265358979323846

    /* sin(pi x) and cos(pi x), exact at whole numbers and at the halves between them */
    PG_INLINE void pg_half_turns(double x, double *sine, double *cosine) {
        const double whole = rint(x), d = x - whole, a = fabs(d), half = 0.5 * whole;
        const double sign = half == floor(half) ? 1.0 : -1.0, r = PG_PI * (a > 0.25 ? 0.5 - a : a);
        const double s = pg_sin_small(r), c = pg_cos_small(r);
        *sine = sign * copysign(a > 0.25 ? c : s, d);
        *cosine = sign * (a > 0.25 ? s : c);
    }

    PG_INLINE double pg_sinc_of(double x) {
        double s, c;
        pg_half_turns(x, &s, &c);
        return x == 0 ? 1.0 : s / (PG_PI * x);
    }

    PG_INLINE double pg_sinc_slope_of(double x) {
        const double z = PG_PI * x, y = z * z;
        double s, c, p = -8.50997437538750488e-22;
        pg_half_turns(x, &s, &c);
        p = p * y + 3.91458821267825225e-19; p = p * y - 1.47971434439237935e-16;
        p = p * y + 4.49833160695283322e-14; p = p * y - 1.07060292247437431e-11;
        p = p * y + 1.92708526043851875e-09; p = p * y - 2.50521083854417188e-07;
        p = p * y + 2.20458553791887125e-05; p = p * y - 1.19047619047619048e-03;
        p = p * y + 3.33333333333333333e-02; p = p * y - 3.33333333333333333e-01;
        return PG_PI * (y < 2.25 ? z * p : (c - s / z) / z);
    }

    /* for k from 1 to 9, without a loop, around which none would be vectorised */
    #define PG_STEP(n, step) { const double k = n; step; }
    #define PG_STEPS(step) PG_STEP(1, step) PG_STEP(2, step) PG_STEP(3, step) PG_STEP(4, step) PG_STEP(5, step) \\
        PG_STEP(6, step) PG_STEP(7, step) PG_STEP(8, step) PG_STEP(9, step)

    PG_INLINE double pg_digamma_of(double x) {
        const double d = x - rint(x), up = x < 0 ? 1.0 - x : x, low = up < 10.0 ? up : 1.0;
        double s, c, p = low, q = 1.0, series = 1.0 / 12.0;
        PG_STEPS(q = q * (low + k) + p; p *= low + k)
        const double z = up < 10.0 ? up + 10.0 : up, y = 1.0 / (z * z);
        series = 691.0 / 32760.0 - y * series;
        series = 1.0 / 132.0 - y * series;
        series = 1.0 / 240.0 - y * series;
        series = 1.0 / 252.0 - y * series;
        series = 1.0 / 120.0 - y * series;
        series = 1.0 / 12.0 - y * series;
        pg_half_turns(d, &s, &c);
        const double above = pg_log(z) - 0.5 / z - y * series, steps = up < 10.0 ? q / p : 0.0;
        const double out = (above - steps) - (x < 0 ? PG_PI * c / s : 0.0);
        return x == 0 ? copysign((double)INFINITY, -x) : (x < 0) & (d == 0) ? (double)NAN : out;
    }

    PG_INLINE double pg_trigamma_of(double x) {
        const double d = x - rint(x), up = x < 0 ? 1.0 - x : x, low = up < 12.0 ? up : 1.0;
        double s, c, p = low * low, q = 1.0, series = 7.0 / 6.0;
        PG_STEPS(q = q * ((low + k) * (low + k)) + p; p *= (low + k) * (low + k))
        const double z = up < 12.0 ? up + 10.0 : up, inverse = 1.0 / z, y = inverse * inverse;
        series = 691.0 / 2730.0 - y * series;
        series = 5.0 / 66.0 - y * series;
        series = 1.0 / 30.0 - y * series;
        series = 1.0 / 42.0 - y * series;
        series = 1.0 / 30.0 - y * series;
        series = 1.0 / 6.0 - y * series;
        pg_half_turns(d, &s, &c);
        const double sum = (inverse + 0.5 * y + inverse * y * series) + (up < 12.0 ? q / p : 0.0);
        const double turned = (PG_PI / s) * (PG_PI / s) - sum;
        return (x <= 0) & !(fabs(d) > 0) ? (double)INFINITY : x < 0 ? turned : sum;
    }

    /* Stirling's series, ten steps up where x < 10; for x > 0. Near 1 and 2 right to 1e-15, not in the last place. */
    PG_INLINE double pg_lgamma_of(double x) {
        const double low = x < 10.0 ? x : 1.0, z = x < 10.0 ? x + 10.0 : x, inverse = 1.0 / z, y = inverse * inverse;
        double p = low, series = 691.0 / 360360.0;
        PG_STEPS(p *= low + k)
        series = 1.0 / 1188.0 - y * series;
        series = 1.0 / 1680.0 - y * series;
        series = 1.0 / 1260.0 - y * series;
        series = 1.0 / 360.0 - y * series;
        series = 1.0 / 12.0 - y * series;
        const double out = (z - 0.5) * pg_log(z) - z + (0.91893853320467274178 + inverse * series);
        return out - pg_log(PG_PICK(x < 10.0, p, 1.0));
    }

    PG_INLINE double pg_erfinv_middle(double x) {
        const double a = fabs(x);
        double f;
        const double k = pg_log_parts_normal((1.0 - a) * (1.0 + a), &f) - (4503599627370496.0 + 1023.0);
        const double u = -3.125 - pg_log_sum(k, f, 0.0);
        double p = 3.24070445937990191e-21;
        p = p * u - 1.11348376983270194e-21; p = p * u - 3.49960443547541778e-19;
        p = p * u + 1.15002225206625297e-18; p = p * u + 1.55743202462332522e-17;
        p = p * u - 1.30169280167964449e-16; p = p * u - 4.02821543276617422e-17;
        p = p * u + 6.59640771242083411e-15; p = p * u - 4.00123773509189586e-14;
        p = p * u - 8.11839944307435319e-14; p = p * u + 2.63048347405604415e-12;
        p = p * u - 1.29768855265320756e-11; p = p * u - 5.41428719808471606e-11;
        p = p * u + 1.05121815398041267e-09; p = p * u - 4.11266082002324008e-09;
        p = p * u - 2.90703822629272664e-08; p = p * u + 4.23478817378233926e-07;
        p = p * u - 1.36546918506035751e-06; p = p * u - 1.38825233944053167e-05;
        p = p * u + 1.86734208024648377e-04; p = p * u - 7.40702534154476987e-04;
        p = p * u - 6.03367087142784988e-03; p = p * u + 2.40158182425588324e-01;
        p = p * u + 1.65365456268310275e+00;
        return x * p;
    }

    PG_UNARY_OF(pg_erfinv_most, double, pg_erfinv_middle(x))

    #undef PG_LOOP                          /* two versions of the others, which are fast enough */
    #define PG_LOOP PG_STREAM static void
    PG_UNARY_OF(pg_sinc, double, pg_sinc_of(x))
    PG_UNARY_OF(pg_sinc_slope, double, pg_sinc_slope_of(x))
    PG_UNARY_OF(pg_digamma, double, pg_digamma_of(x))
    PG_UNARY_OF(pg_trigamma, double, pg_trigamma_of(x))
    /* from the value of erfinv */
    PG_UNARY_OF(pg_erfinv_slope, double, pg_exp(x * x) * 0.88622692545275801365)

    static void pg_erfinv(const void *x, void *out, Py_ssize_t n) {
        pg_erfinv_most_double(x, out, n);
        for (Py_ssize_t i = 0; i < n; i++)
            if (!(fabs(((const double *)x)[i]) < 0.999)) ((double *)out)[i] = special_erfinv(((const double *)x)[i]);
    }

    PG_UNARY_OF(pg_lgamma_most, double, pg_lgamma_of(x))

    static void pg_lgamma_narrow(const void *x, void *out, Py_ssize_t n) {
        pg_lgamma_most_double(x, out, n);
        for (Py_ssize_t i = 0; i < n; i++) {
            const double e = ((const double *)x)[i];
            if (!(e > 0) | (e == 1) | (e == 2) | (e == (double)INFINITY)) ((double *)out)[i] = lgamma(e);
        }
    }

    static void pg_lgamma(const void *x, void *out, Py_ssize_t n) {
        for (Py_ssize_t i = 0; i < n; i++) ((double *)out)[i] = lgamma(((const double *)x)[i]);
    }

    /* What `special_cpu` names. */
    typedef struct { const char *name; pg_unary loop, narrow; double (*plain)(double); double (*ordered)(int, double);
    } pg_special;
    static const pg_special pg_specials[9] = {
        {"lgamma", pg_lgamma, pg_lgamma_narrow, lgamma, NULL},
        {"digamma", pg_digamma_double, pg_digamma_double, special_digamma, NULL},
        {"polygamma", pg_trigamma_double, pg_trigamma_double, NULL, special_polygamma},
        {"erfinv", pg_erfinv, pg_erfinv, special_erfinv, NULL},
        {"erfinv_slope", pg_erfinv_slope_double, pg_erfinv_slope_double, NULL, NULL},
        {"sinc", pg_sinc_double, pg_sinc_double, NULL, special_sinc},
        {"sinc_derivative", pg_sinc_slope_double, pg_sinc_slope_double, NULL, special_sinc},
        {"bessel", NULL, NULL, NULL, special_bessel},
        {"bessel_scaled", NULL, NULL, NULL, special_bessel_scaled}};
    """
    ctypedef struct Entry "pg_special":
        const char *name
        pg_unary loop, narrow       # of double, for order 1 where there are orders; `narrow` for floats
        double (*plain)(double) noexcept nogil          # either of these, one number at a time
        double (*ordered)(int, double) noexcept nogil
    const Entry[9] pg_specials
