"""exp, tanh, erf and erfc as plain arithmetic, so that the compiler can vectorise a loop around them.

(a) exp: with x = n ln 2 + r and r in [-ln 2 / 2, ln 2 / 2], exp(x) = 2**n * exp(r). The Taylor polynomial gives exp(r)
    (degree 13 for double, 7 for float: the remainder is far below the last place), and 2**n is put together from bits,
    in two halves so that results near overflow and subnormal ones come out right. Within 1 unit in the last place.
(b) erfc: for x >= 0, (1 + 2x) exp(x*x) erfc(x) is a polynomial in (x - k) / (x + k), with k = 3.75 for double and 2.5
    for float (the form of Shepherd and Laframboise, Math. Comp. 36 (1981), 249-253). x*x is split so that its rounding
    does not reach the exponential; below 0.5 it is 1 - erf(x). Within 4 units in the last place, tails included.
(c) erf is an odd polynomial on [-1, 1] and 1 - erfc(x) beyond; tanh one on [-0.625, 0.625] and a quotient of
    exponentials beyond. Within 2 units in the last place (erf of floats: 3).
(d) Coefficients: Chebyshev expansions computed with 50 digits, as monomials.
(e) exp takes some 2 ns an element in double and 0.6 in float with AVX2, half of that with AVX-512; erfc three times as
    long.
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

    PG_INLINE double pg_exp2_of_bits(double shifted) {
        int64_t k; double out;
        memcpy(&k, &shifted, 8);
        k = (int64_t)((uint64_t)(k - 0x4338000000000000LL + 1023) << 52);
        memcpy(&out, &k, 8);
        return out;
    }

    PG_INLINE double pg_exp(double x) {
        const double round = 6755399441055744.0;            /* 1.5 * 2**52: adding it rounds to an integer */
        x = x < -746.0 ? -746.0 : x;                        /* NaN passes through */
        x = x > 710.0 ? 710.0 : x;
        const double n = (x * 1.4426950408889634 + round) - round;
        const double half = n * 0.5 + round, rest = (n - (half - round)) + round;
        const double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
        double p = 1.0 / 6227020800.0;
        p = p * r + 1.0 / 479001600.0;
        p = p * r + 1.0 / 39916800.0;
        p = p * r + 1.0 / 3628800.0;
        p = p * r + 1.0 / 362880.0;
        p = p * r + 1.0 / 40320.0;
        p = p * r + 1.0 / 5040.0;
        p = p * r + 1.0 / 720.0;
        p = p * r + 1.0 / 120.0;
        p = p * r + 1.0 / 24.0;
        p = p * r + 1.0 / 6.0;
        p = p * r + 0.5;
        p = p * r * r + r;
        return (p + 1.0) * pg_exp2_of_bits(half) * pg_exp2_of_bits(rest);
    }

    PG_INLINE float pg_exp2_of_bitsf(float shifted) {
        int32_t k; float out;
        memcpy(&k, &shifted, 4);
        k = (int32_t)((uint32_t)(k - 0x4b400000 + 127) << 23);
        memcpy(&out, &k, 4);
        return out;
    }

    PG_INLINE float pg_expf(float x) {
        const float round = 12582912.0f;                    /* 1.5 * 2**23 */
        x = x < -105.0f ? -105.0f : x;
        x = x > 89.0f ? 89.0f : x;
        const float n = (x * 1.44269504f + round) - round;
        const float half = n * 0.5f + round, rest = (n - (half - round)) + round;
        const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
        float p = 1.0f / 5040.0f;
        p = p * r + 1.0f / 720.0f;
        p = p * r + 1.0f / 120.0f;
        p = p * r + 1.0f / 24.0f;
        p = p * r + 1.0f / 6.0f;
        p = p * r + 0.5f;
        p = p * r * r + r;
        return (p + 1.0f) * pg_exp2_of_bitsf(half) * pg_exp2_of_bitsf(rest);
    }

    /* The 12 leading bits, whose square is exact; by bits, since a product may be contracted with a difference. */
    PG_INLINE float pg_upper_halff(float x) {
        uint32_t k; float out;
        memcpy(&k, &x, 4);
        k &= 0xfffff000u;
        memcpy(&out, &k, 4);
        return out;
    }

    /* erfc of x in [0, 28], and beyond. */
    PG_INLINE double pg_erfc_positive(double x) {
        x = x > 28.0 ? 28.0 : x;
        const double u = (x - 3.75) / (x + 3.75), high = (double)(float)x, d = (x - high) * (x + high);
        double p = 3.11143338097992545e-10;
        p = p * u - 2.62310734713347593e-09; p = p * u - 3.74421008096201827e-09;
        p = p * u + 3.19792667166680421e-08; p = p * u + 2.32635087088591238e-08;
        p = p * u - 2.48571262480167447e-07; p = p * u - 5.72182306032240859e-08;
        p = p * u + 1.74198215862248163e-06; p = p * u - 9.73559896736774970e-07;
        p = p * u - 1.14380480333468935e-05; p = p * u + 2.23842391550822306e-05;
        p = p * u + 5.16465297417741622e-05; p = p * u - 2.90154080540841724e-04;
        p = p * u + 2.93714378044958009e-04; p = p * u + 1.75562585289529543e-03;
        p = p * u - 9.74657968326526208e-03; p = p * u + 2.83622774189564060e-02;
        p = p * u - 5.86933985766493402e-02; p = p * u + 9.23043211603774838e-02;
        p = p * u - 1.08803930142444619e-01; p = p * u + 8.22767384901452042e-02;
        p = p * u + 3.58541548547902569e-03; p = p * u - 1.40240598585546966e-01;
        p = p * u + 1.23751263083782748e+00;
        return pg_exp(-high * high) * (1.0 - d * (1.0 - d * (0.5 - d / 6.0))) * p / (1.0 + 2.0 * x);
    }

    PG_INLINE float pg_erfc_positivef(float x) {
        x = x > 10.5f ? 10.5f : x;
        const float u = (x - 2.5f) / (x + 2.5f), high = pg_upper_halff(x), d = (x - high) * (x + high);
        float p = -6.190753097e-05f;
        p = p * u - 6.391786604e-05f; p = p * u + 5.757346293e-04f; p = p * u + 4.633375206e-04f;
        p = p * u - 4.350492340e-03f; p = p * u + 9.467596303e-04f; p = p * u + 3.275205257e-02f;
        p = p * u - 1.029705384e-01f; p = p * u + 1.576309944e-01f; p = p * u - 9.902424166e-02f;
        p = p * u - 1.223568007e-01f; p = p * u + 1.264838180e+00f;
        /* high has 12 bits only, so d reaches 0.05 */
        const float rest = 1.0f - d * (1.0f - d * (0.5f - d * (1.0f / 6.0f - d / 24.0f)));
        return pg_expf(-high * high) * rest * p / (1.0f + 2.0f * x);
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

    PG_INLINE double pg_erf(double x) {
        const double far = 1.0 - pg_erfc_positive(fabs(x)), near = pg_erf_small(x);
        return fabs(x) < 1.0 ? near : x < 0 ? -far : far;
    }

    PG_INLINE float pg_erff(float x) {
        const float far = 1.0f - pg_erfc_positivef(fabsf(x)), near = pg_erf_smallf(x);
        return fabsf(x) < 1.0f ? near : x < 0 ? -far : far;
    }

    PG_INLINE double pg_tanh(double x) {
        const double y = x * x, e = pg_exp(-2.0 * fabs(x)), far = (1.0 - e) / (1.0 + e);
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
        const float y = x * x, e = pg_expf(-2.0f * fabsf(x)), far = (1.0f - e) / (1.0f + e);
        float p = -5.664775360e-03f;
        p = p * y + 2.059567996e-02f; p = p * y - 5.372267935e-02f; p = p * y + 1.333115016e-01f;
        p = p * y - 3.333326164e-01f; p = p * y + 9.999999962e-01f;
        return fabsf(x) < 0.625f ? x * p : x < 0 ? -far : far;
    }
    """
