"""exp, tanh, erf and erfc as plain arithmetic, so that the compiler can vectorise a loop around them.

(a) exp: with x = n ln 2 + r and r in [-ln 2 / 2, ln 2 / 2], exp(x) = 2**n * exp(r). exp(r) is a polynomial (of degree
    11 for double, 6 for float: an eighth of the last place off), and 2**n is put together from bits, in two halves so
    that results near overflow and subnormal ones come out right. Within 1.1 units in the last place.
(b) erfc: for x >= 0, exp(x*x) erfc(x) is a quotient of polynomials with positive coefficients, in which nothing
    cancels: of degree 9 and 10 for double, 4 and 5 for float. x*x is split so that its rounding does not reach the
    exponential; below 0.5 it is 1 - erf(x). Within 7 units in the last place, tails included.
(c) erf is an odd polynomial on [-1, 1] and 1 - erfc(x) beyond; tanh one on [-0.625, 0.625] and a quotient of
    exponentials beyond. Within 2 units in the last place (erf of floats: 3).
(d) Coefficients: Chebyshev expansions computed with 50 digits, as monomials; those of erfc have the least relative
    error on [0, 27.6] and [0, 10.5], 5e-17 and 6e-9, found by reweighted least squares with 60 digits.
(e) exp takes some 2 ns an element in double and 0.6 in float with AVX2, half of that with AVX-512; erfc two and a half
    times as long.
(f) Nothing here depends on a product being rounded before a sum: compilers may contract the two.
"""


cdef extern from *:
    """
    #include <math.h>
    #include <stdint.h>
    #include <string.h>

    #if defined(__GNUC__)
    #define PG_INLINE static inline __attribute__((always_inline, unused))   /* no loop vectorises around a call */
    #else
    #define PG_INLINE static inline
    #endif
    #define PG_EXP(x) _Generic((x), float: pg_expf, default: pg_exp)(x)
    #define PG_TANH(x) _Generic((x), float: pg_tanhf, default: pg_tanh)(x)
    #define PG_ERF(x) _Generic((x), float: pg_erff, default: pg_erf)(x)
    #define PG_ERFC(x) _Generic((x), float: pg_erfcf, default: pg_erfc)(x)

    /* condition ? x : y, where the compiler would make two ways through a loop of it, and then cannot vectorise. */
    #define PG_PICK(condition, x, y) _Generic((x), float: pg_pickf, default: pg_pick)(condition, x, y)

    PG_INLINE double pg_pick(int condition, double x, double y) {
        const uint64_t mask = -(uint64_t)condition; uint64_t a, b; double out;
        memcpy(&a, &x, 8); memcpy(&b, &y, 8);
        a = (a & mask) | (b & ~mask);
        memcpy(&out, &a, 8);
        return out;
    }

    PG_INLINE float pg_pickf(int condition, float x, float y) {
        const uint32_t mask = -(uint32_t)condition; uint32_t a, b; float out;
        memcpy(&a, &x, 4); memcpy(&b, &y, 4);
        a = (a & mask) | (b & ~mask);
        memcpy(&out, &a, 4);
        return out;
    }

    PG_INLINE double pg_exp2_of_bits(double shifted) {
        int64_t k; double out;
        memcpy(&k, &shifted, 8);
        k = (int64_t)((uint64_t)(k - 0x4338000000000000LL + 1023) << 52);
        memcpy(&out, &k, 8);
        return out;
    }

    /* exp(r) - 1 for r in [-0.35, 0.35] */
    PG_INLINE double pg_expm1_small(double r) {
        double p = 2.51004241570050668e-08;
        p = p * r + 2.76201387197339956e-07; p = p * r + 2.75572683786841929e-06;
        p = p * r + 2.48015211902177277e-05; p = p * r + 1.98412698631059687e-04;
        p = p * r + 1.38888889172817933e-03; p = p * r + 8.33333333333005135e-03;
        p = p * r + 4.16666666666239915e-02; p = p * r + 1.66666666666666675e-01;
        p = p * r + 5.00000000000000103e-01;
        return p * r * r + r;
    }

    /* 2**n exp(r) */
    PG_INLINE double pg_exp_part(double r, double n) {
        const double round = 6755399441055744.0;            /* 1.5 * 2**52: adding it rounds to an integer */
        const double half = n * 0.5 + round, rest = (n - (half - round)) + round;
        return (pg_expm1_small(r) + 1.0) * pg_exp2_of_bits(half) * pg_exp2_of_bits(rest);
    }

    /* exp(x) * 2**shift; its argument has to be below 710 + shift ln 2 for that to be finite */
    PG_INLINE double pg_exp_shifted(double x, double shift) {
        const double round = 6755399441055744.0;
        x = x < -746.0 ? -746.0 : x;                        /* NaN passes through */
        x = x > 712.0 ? 712.0 : x;
        const double n = (x * 1.4426950408889634 + round) - round;
        return pg_exp_part((x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10, n + shift);
    }

    /* exp(-|x|): there is no overflow, and one factor is a constant. `shifted` is n + PG_BELOW, where adding PG_BELOW
       has rounded n to an integer. */
    #define PG_BELOW (6755399441055744.0 + 512.0)
    PG_INLINE double pg_exp_part_below(double r, double shifted) {
        return (pg_expm1_small(r) + 1.0) * pg_exp2_of_bits(shifted) * 0x1p-512;
    }

    PG_INLINE double pg_decay(double x) {
        x = -fabs(x);
        x = x < -746.0 ? -746.0 : x;
        const double shifted = x * 1.4426950408889634 + PG_BELOW, n = shifted - PG_BELOW;
        return pg_exp_part_below((x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10, shifted);
    }

    PG_INLINE double pg_exp(double x) { return pg_exp_shifted(x, 0.0); }
    PG_INLINE double pg_exp_half(double x) { return pg_exp_shifted(x, -1.0); }

    PG_INLINE float pg_exp2_of_bitsf(float shifted) {
        int32_t k; float out;
        memcpy(&k, &shifted, 4);
        k = (int32_t)((uint32_t)(k - 0x4b400000 + 127) << 23);
        memcpy(&out, &k, 4);
        return out;
    }

    PG_INLINE float pg_expm1_smallf(float r) {
        float p = 1.392621347e-03f;
        p = p * r + 8.363202972e-03f; p = p * r + 4.166655444e-02f; p = p * r + 1.666657685e-01f;
        p = p * r + 5.000000000e-01f;
        return p * r * r + r;
    }

    PG_INLINE float pg_exp_partf(float r, float n) {
        const float round = 12582912.0f;                    /* 1.5 * 2**23 */
        const float half = n * 0.5f + round, rest = (n - (half - round)) + round;
        return (pg_expm1_smallf(r) + 1.0f) * pg_exp2_of_bitsf(half) * pg_exp2_of_bitsf(rest);
    }

    PG_INLINE float pg_exp_shiftedf(float x, float shift) {
        const float round = 12582912.0f;
        x = x < -105.0f ? -105.0f : x;
        x = x > 91.0f ? 91.0f : x;
        const float n = (x * 1.44269504f + round) - round;
        return pg_exp_partf((x - n * 0.693359375f) - n * -2.12194440e-4f, n + shift);
    }

    PG_INLINE float pg_expf(float x) { return pg_exp_shiftedf(x, 0.0f); }
    PG_INLINE float pg_exp_halff(float x) { return pg_exp_shiftedf(x, -1.0f); }

    #define PG_BELOWF (12582912.0f + 64.0f)
    PG_INLINE float pg_exp_part_belowf(float r, float shifted) {
        return (pg_expm1_smallf(r) + 1.0f) * pg_exp2_of_bitsf(shifted) * 0x1p-64f;
    }

    PG_INLINE float pg_decayf(float x) {
        x = -fabsf(x);
        x = x < -105.0f ? -105.0f : x;
        const float shifted = x * 1.44269504f + PG_BELOWF, n = shifted - PG_BELOWF;
        return pg_exp_part_belowf((x - n * 0.693359375f) - n * -2.12194440e-4f, shifted);
    }

    /* The 12 leading bits, whose square is exact; by bits, since a product may be contracted with a difference. */
    PG_INLINE float pg_upper_halff(float x) {
        uint32_t k; float out;
        memcpy(&k, &x, 4);
        k &= 0xfffff000u;
        memcpy(&out, &k, 4);
        return out;
    }

    /* exp(-scale x*x) for scale 1 or 1/2 and x from 0 to 40, of floats to 15; x*x is t, which is exact, and d. */
    PG_INLINE double pg_gaussian(double x, double scale) {
        const double high = (double)(float)x, t = high * high, d = (x - high) * (x + high);
        const double shifted = (t + d) * (-1.4426950408889634 * scale) + PG_BELOW, n = shifted - PG_BELOW;
        const double part = -t - n * (6.93147180369123816490e-01 / scale);
        return pg_exp_part_below((part - (n * (1.90821492927058770002e-10 / scale) + d)) * scale, shifted);
    }

    PG_INLINE float pg_gaussianf(float x, float scale) {
        const float high = pg_upper_halff(x), t = high * high, d = (x - high) * (x + high);
        const float shifted = (t + d) * (-1.44269504f * scale) + PG_BELOWF, n = shifted - PG_BELOWF;
        const float part = -t - n * (0.693359375f / scale);
        return pg_exp_part_belowf((part - (n * (-2.12194440e-4f / scale) + d)) * scale, shifted);
    }

    /* exp(x*x) erfc(x) for such x. */
    PG_INLINE double pg_erfc_scaled(double x) {
        double p = 6.27219714279321657e-05, q = 1.11171799794152371e-04;
        p = p * x + 1.19234201867840224e-03; q = q * x + 2.11337120255489491e-03;
        p = p * x + 1.10985838754815175e-02; q = q * x + 1.97273136327690626e-02;
        p = p * x + 6.54376646038722365e-02; q = q * x + 1.17041926096508986e-01;
        p = p * x + 2.67286872380272100e-01; q = q * x + 4.83533927606972169e-01;
        p = p * x + 7.81665074345845201e-01; q = q * x + 1.44240113970196893e+00;
        p = p * x + 1.63682561099461332e+00; q = q * x + 3.12837875626177553e+00;
        p = p * x + 2.37629922968842022e+00; q = q * x + 4.84925125038255267e+00;
        p = p * x + 2.19173133793451536e+00; q = q * x + 5.12264275601988750e+00;
        p = p * x + 1.00000000000000000e+00; q = q * x + 3.32011050503001348e+00;
        return p / (q * x + 1.0);
    }

    PG_INLINE float pg_erfc_scaledf(float x) {
        float p = 3.314545003e-02f, q = 5.874813657e-02f;
        p = p * x + 2.308791451e-01f; q = q * x + 4.092474506e-01f;
        p = p * x + 7.350839495e-01f; q = q * x + 1.331864770e+00f;
        p = p * x + 1.241728100e+00f; q = q * x + 2.409454391e+00f;
        p = p * x + 1.000000006e+00f; q = q * x + 2.370107882e+00f;
        return p / (q * x + 1.0f);
    }

    PG_INLINE double pg_erfc_positive(double x) {
        x = x > 27.5 ? 27.5 : x;        /* beyond, it is 0, and NaN passes through */
        return pg_gaussian(x, 1.0) * pg_erfc_scaled(x);
    }

    PG_INLINE float pg_erfc_positivef(float x) {
        x = x > 10.5f ? 10.5f : x;
        return pg_gaussianf(x, 1.0f) * pg_erfc_scaledf(x);
    }

    /* erf of x in [-1, 1], where 1 - erfc(x) would cancel. */
    PG_INLINE double pg_erf_small(double x) {
        const double y = x * x;
        double p = 5.95893074313494137e-11;
        p = p * y - 1.13739022964309114e-09; p = p * y + 1.46600519983948480e-08;
        p = p * y - 1.63503544619596547e-07; p = p * y + 1.64610044809620340e-06;
        p = p * y - 1.49255955195060431e-05; p = p * y + 1.20553311222992658e-04;
        p = p * y - 8.54832698112966555e-04; p = p * y + 5.22397762482322298e-03;
        p = p * y - 2.68661706450773335e-02; p = p * y + 1.12837916709548819e-01;
        p = p * y - 3.76126389031837483e-01; p = p * y + 1.12837916709551256e+00;
        return x * p;
    }

    PG_INLINE float pg_erf_smallf(float x) {
        const float y = x * x;
        float p = 7.882497110e-05f;
        p = p * y - 8.018854993e-04f; p = p * y + 5.189311943e-03f; p = p * y - 2.685432880e-02f;
        p = p * y + 1.128359746e-01f; p = p * y - 3.761262690e-01f; p = p * y + 1.128379166e+00f;
        return x * p;
    }

    PG_INLINE double pg_erfc(double x) {
        const double far = pg_erfc_positive(fabs(x)), near = 1.0 - pg_erf_small(x);
        return fabs(x) < 0.5 ? near : x < 0 ? 2.0 - far : far;
    }

    PG_INLINE float pg_erfcf(float x) {
        const float far = pg_erfc_positivef(fabsf(x)), near = 1.0f - pg_erf_smallf(x);
        return fabsf(x) < 0.5f ? near : x < 0 ? 2.0f - far : far;
    }

    /* The standard normal distribution function, and exp(-x*x / 2) at no further cost. */
    PG_INLINE double pg_cdf(double x, double *decay) {
        const double size = fabs(x) > 38.9 ? 38.9 : fabs(x);
        *decay = pg_gaussian(size, 0.5);
        const double tail = 0.5 * *decay * pg_erfc_scaled(size * 0.70710678118654752440);
        return x > 0 ? 1.0 - tail : tail;
    }

    PG_INLINE float pg_cdff(float x, float *decay) {
        const float size = fabsf(x) > 14.8f ? 14.8f : fabsf(x);
        *decay = pg_gaussianf(size, 0.5f);
        const float tail = 0.5f * *decay * pg_erfc_scaledf(size * 0.707106781f);
        return x > 0 ? 1.0f - tail : tail;
    }

    PG_INLINE double pg_erf(double x) {
        const double far = 1.0 - pg_erfc_positive(fabs(x)), near = pg_erf_small(x);
        return fabs(x) < 1.0 ? near : x < 0 ? -far : far;
    }

    PG_INLINE float pg_erff(float x) {
        const float far = 1.0f - pg_erfc_positivef(fabsf(x)), near = pg_erf_smallf(x);
        return fabsf(x) < 1.0f ? near : x < 0 ? -far : far;
    }

    PG_INLINE double pg_tanh(double x) {
        const double y = x * x, e = pg_decay(2.0 * x), far = (1.0 - e) / (1.0 + e);
        double p = -1.60231102056922440e-05;
        p = p * y + 7.70321387180230476e-05; p = p * y - 2.28453410935818403e-04;
        p = p * y + 5.86254139711473430e-04; p = p * y - 1.45493679485866694e-03;
        p = p * y + 3.59198407483042820e-03; p = p * y - 8.86322023043860027e-03;
        p = p * y + 2.18694875009796813e-02; p = p * y - 5.39682539268069306e-02;
        p = p * y + 1.33333333332474185e-01; p = p * y - 3.33333333333326320e-01;
        p = p * y + 1.00000000000000000e+00;
        return fabs(x) < 0.625 ? x * p : x < 0 ? -far : far;
    }

    PG_INLINE float pg_tanhf(float x) {
        const float y = x * x, e = pg_decayf(2.0f * x), far = (1.0f - e) / (1.0f + e);
        float p = -5.664775360e-03f;
        p = p * y + 2.059567996e-02f; p = p * y - 5.372267935e-02f; p = p * y + 1.333115016e-01f;
        p = p * y - 3.333326164e-01f; p = p * y + 9.999999962e-01f;
        return fabsf(x) < 0.625f ? x * p : x < 0 ? -far : far;
    }
    """
