"""Logarithms, powers, exp2, expm1 and hyperbolic functions as plain arithmetic; see vector_math.pxd for the why.

(a) x = 2**k * m with m in [sqrt(1/2), sqrt(2)), f = m - 1 and s = f / (2 + f): log(m) = 2 atanh(s), written as
    f - f*f/2 + s * (f*f/2 + R(s*s)) so that f, which is exact, carries the leading digits. R: see note (d) there.
(b) log1p(x) is the logarithm of 1 + x as rounded, and what the rounding lost divided by it. expm1 takes the 1 from
    2**k.
(c) pow of doubles needs the logarithm to 64 bits: s, s*s and their products are sums of two doubles, by fma().
    Without an instruction for it that is a slow call, on processors from before 2013. Floats are computed in double.
(d) Within 1 unit in the last place; pow, log2 and hyperbolic functions within 2, the inverse ones within 3.
"""

cimport plugrad_ops.vector_math  # its macros  # no-cython-lint


cdef extern from *:
    """
    #define PG_LOG(x) _Generic((x), float: pg_logf, default: pg_log)(x)
    #define PG_LOG2(x) _Generic((x), float: pg_log2f, default: pg_log2)(x)
    #define PG_LOG10(x) _Generic((x), float: pg_log10f, default: pg_log10)(x)
    #define PG_LOG1P(x) _Generic((x), float: pg_log1pf, default: pg_log1p)(x)
    #define PG_EXP2(x) _Generic((x), float: pg_exp2f, default: pg_exp2)(x)
    #define PG_EXPM1(x) _Generic((x), float: pg_expm1f, default: pg_expm1)(x)
    #define PG_POW(x, y) _Generic((x), float: pg_powf, default: pg_pow)(x, y)
    #define PG_POW_OF(x, y) _Generic((x), float: pg_pow_off, default: pg_pow_of)(x, y)

    /* x = 2**k * (1 + f) for x > 0, finite and not subnormal; k + 1023 + 2**52 */
    PG_INLINE double pg_log_parts_normal(double x, double *f) {
        const uint64_t root = 0x3fe6a09e667f3bcdULL, mantissa = 0xfffffffffffffULL;   /* root: sqrt(1/2) */
        uint64_t bits; double m, k;
        memcpy(&bits, &x, 8);
        bits += 0x3ff0000000000000ULL - root;
        const uint64_t top = (bits >> 52) | 0x4330000000000000ULL;          /* 2**52 and the exponent */
        bits = (bits & mantissa) + root;
        memcpy(&m, &bits, 8); memcpy(&k, &top, 8);
        *f = m - 1.0;
        return k;
    }

    /* The same with subnormal numbers; k itself */
    PG_INLINE double pg_log_parts(double x, double *f) {
        const int tiny = x < 2.2250738585072014e-308;
        const double k = pg_log_parts_normal(tiny ? x * 18014398509481984.0 : x, f);
        return k - (tiny ? 4503599627370496.0 + 1077.0 : 4503599627370496.0 + 1023.0);
    }

    PG_INLINE float pg_log_partsf(float x, float *f) {
        const uint32_t root = 0x3f3504f3u;
        const int tiny = x < 1.17549435e-38f;
        const float scaled = tiny ? x * 33554432.0f : x;
        uint32_t bits; float m;
        memcpy(&bits, &scaled, 4);
        bits += 0x3f800000u - root;
        const int32_t k = (int32_t)(bits >> 23) - (tiny ? 152 : 127);
        bits = (bits & 0x7fffffu) + root;
        memcpy(&m, &bits, 4);
        *f = m - 1.0f;
        return (float)k;
    }

    /* k ln 2 + log(1 + f) + c */
    PG_INLINE double pg_log_sum(double k, double f, double c) {
        const double s = f / (2.0 + f), z = s * s, h = 0.5 * f * f;
        double p = 1.46164496850434059e-01;
        p = p * z + 1.53317216005560413e-01; p = p * z + 1.81828891252617221e-01;
        p = p * z + 2.22222111347950799e-01; p = p * z + 2.85714286259754849e-01;
        p = p * z + 3.99999999998995045e-01; p = p * z + 6.66666666666666969e-01;
        return k * 6.931471806019545e-01 + (f - (h - (s * (h + z * p) + (k * -4.2009150726810846e-11 + c))));
    }

    PG_INLINE float pg_log_sumf(float k, float f, float c) {
        const float s = f / (2.0f + f), z = s * s, h = 0.5f * f * f;
        float p = 2.333046722e-01f;
        p = p * z + 2.855082082e-01f; p = p * z + 4.000012184e-01f; p = p * z + 6.666666655e-01f;
        return k * 6.93115234375e-01f + (f - (h - (s * (h + z * p) + (k * 3.1946184945309415e-05f + c))));
    }

    /* What a logarithm is where its argument is no positive number. */
    #define PG_LOG_ENDS(x, value) ((x) > 0 ? ((x) < (INFINITY) ? (value) : (x)) : (x) == 0 ? -(INFINITY) : (NAN))

    PG_INLINE double pg_log(double x) {
        double f; const double k = pg_log_parts(x, &f), out = pg_log_sum(k, f, 0.0);
        return PG_LOG_ENDS(x, out);
    }

    PG_INLINE float pg_logf(float x) {
        float f; const float k = pg_log_partsf(x, &f), out = pg_log_sumf(k, f, 0.0f);
        return PG_LOG_ENDS(x, out);
    }

    PG_INLINE double pg_log2(double x) {
        double f; const double k = pg_log_parts(x, &f), out = k + pg_log_sum(0.0, f, 0.0) * 1.4426950408889634;
        return PG_LOG_ENDS(x, out);
    }

    PG_INLINE float pg_log2f(float x) {
        float f; const float k = pg_log_partsf(x, &f), out = k + pg_log_sumf(0.0f, f, 0.0f) * 1.44269504f;
        return PG_LOG_ENDS(x, out);
    }

    /* The first product is exact, the second small: a power of ten gives a whole number. */
    PG_INLINE double pg_log10(double x) {
        double f; const double k = pg_log_parts(x, &f), part = pg_log_sum(0.0, f, 0.0) * 0.4342944819032518;
        const double out = k * 0.3010299956658855 + (k * -1.9043128467164274e-12 + part);
        return PG_LOG_ENDS(x, out);
    }

    PG_INLINE float pg_log10f(float x) {
        float f; const float k = pg_log_partsf(x, &f), part = pg_log_sumf(0.0f, f, 0.0f) * 0.43429448f;
        const float out = k * 0.301025390625f + (k * 4.6050389811952e-06f + part);
        return PG_LOG_ENDS(x, out);
    }

    PG_INLINE double pg_log1p(double x) {
        const double u = 1.0 + x, c = x - (u - 1.0);
        double f; const double k = pg_log_parts(u, &f), out = pg_log_sum(k, f, c / u);
        return copysign(PG_LOG_ENDS(u, out), x);
    }

    PG_INLINE float pg_log1pf(float x) {
        const float u = 1.0f + x, c = x - (u - 1.0f);
        float f; const float k = pg_log_partsf(u, &f), out = pg_log_sumf(k, f, c / u);
        return copysignf(PG_LOG_ENDS(u, out), x);
    }

    /* log1p of x in [0, 1] with neither exponent nor correction: what softplus needs */
    PG_INLINE double pg_log1p_unit(double x) {
        const double s = x / (2.0 + x), z = s * s, h = 0.5 * x * x;
        double p = 1.61649381694713386e-01;
        p = p * z + 8.80031765086877347e-02; p = p * z + 1.20011551828577787e-01;
        p = p * z + 1.33141355508811629e-01; p = p * z + 1.53855705929122436e-01;
        p = p * z + 1.81817894173264479e-01; p = p * z + 2.22222227178017817e-01;
        p = p * z + 2.85714285671050609e-01; p = p * z + 4.00000000000145966e-01;
        p = p * z + 6.66666666666666586e-01;
        return x - (h - s * (h + z * p));
    }

    PG_INLINE float pg_log1p_unitf(float x) {
        const float s = x / (2.0f + x), z = s * s, h = 0.5f * x * x;
        float p = 2.322492177e-01f;
        p = p * z + 2.170646100e-01f; p = p * z + 2.859236480e-01f; p = p * z + 3.999970621e-01f;
        p = p * z + 6.666666732e-01f;
        return x - (h - s * (h + z * p));
    }

    PG_INLINE double pg_exp2(double x) {
        const double round = 6755399441055744.0;
        x = x < -1076.0 ? -1076.0 : x;
        x = x > 1025.0 ? 1025.0 : x;
        const double n = (x + round) - round;
        return pg_exp_part((x - n) * 0.6931471805599453, n);
    }

    PG_INLINE float pg_exp2f(float x) {
        const float round = 12582912.0f;
        x = x < -151.0f ? -151.0f : x;
        x = x > 129.0f ? 129.0f : x;
        const float n = (x + round) - round;
        return pg_exp_partf((x - n) * 0.693147181f, n);
    }

    /* 2**n (exp(r) - 1) + (2**n - 1), the whole divided by 2**rest and multiplied by it */
    PG_INLINE double pg_expm1(double x) {
        const double round = 6755399441055744.0, start = x;
        x = x < -746.0 ? -746.0 : x;
        x = x > 710.0 ? 710.0 : x;
        const double n = (x * 1.4426950408889634 + round) - round;
        const double half = n * 0.5 + round, rest = (n - (half - round)) + round;
        const double p = pg_expm1_small((x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10);
        const double a = pg_exp2_of_bits(half), b = pg_exp2_of_bits(rest), c = pg_exp2_of_bits(round - (rest - round));
        return n == 0 ? (start == 0 ? start : p) : (p * a + (a - c)) * b;
    }

    PG_INLINE float pg_expm1f(float x) {
        const float round = 12582912.0f, start = x;
        x = x < -105.0f ? -105.0f : x;
        x = x > 89.0f ? 89.0f : x;
        const float n = (x * 1.44269504f + round) - round;
        const float half = n * 0.5f + round, rest = (n - (half - round)) + round;
        const float p = pg_expm1_smallf((x - n * 0.693359375f) - n * -2.12194440e-4f);
        const float a = pg_exp2_of_bitsf(half), b = pg_exp2_of_bitsf(rest);
        const float c = pg_exp2_of_bitsf(round - (rest - round));
        return n == 0 ? (start == 0 ? start : p) : (p * a + (a - c)) * b;
    }

    /* ---- powers ------------------------------------------------------------------------------------------------- */

    /* log(x) for x > 0 and finite as a sum of two doubles */
    PG_INLINE double pg_log_wide(double x, double *low) {
        double f; const double k = pg_log_parts(x, &f);
        const double d = 2.0 + f, lost = f - (d - 2.0), inverse = 1.0 / d;
        const double s = f * inverse, s_low = (fma(-s, d, f) - s * lost) * inverse;
        const double z = s * s, z_low = fma(s, s, -z) + 2.0 * s * s_low;
        double p = 1.29134960668031517e-01;
        p = p * z + 1.32859672738906154e-01; p = p * z + 1.53855745004588283e-01;
        p = p * z + 1.81818082516073991e-01; p = p * z + 2.22222222710774492e-01;
        p = p * z + 2.85714285713385607e-01; p = p * z + 4.00000000000000270e-01;
        p = p * z;
        const double t = 0.6666666666666666 + p, t_low = ((0.6666666666666666 - t) + p) + 3.700743415417188e-17;
        const double u = z * t, u_low = fma(z, t, -u) + (z * t_low + z_low * t);
        const double v = s * u, v_low = fma(s, u, -v) + (s * u_low + s_low * u);
        const double whole = k * 6.931471806019545e-01, whole_low = k * -4.2009150726810846e-11;
        const double head = 2.0 * s + v, tail = ((2.0 * s - head) + v) + (2.0 * s_low + v_low);
        const double out = whole + head;
        *low = ((whole - out) + head) + (tail + whole_low);
        return out;
    }

    PG_INLINE double pg_pow_ends(double x, double y, double size) {
        const double half = y * 0.5;
        const int whole = rint(y) == y, odd = whole && rint(half) != half;
        double out = odd ? copysign(size, x) : size;
        out = x < 0 && !whole && x > -(INFINITY) ? NAN : out;
        out = x == -1 && fabs(y) == (INFINITY) ? 1.0 : out;
        out = x != x || y != y ? NAN : out;
        return y == 0 || x == 1 ? 1.0 : out;
    }

    /* x**y for x > 0, both finite; of floats, with what could leave a float or a double clamped */
    PG_INLINE double pg_pow_of(double x, double y) {
        const double round = 6755399441055744.0;
        double low; const double wide = pg_log_wide(x, &low);
        double p = y * wide, p_low = fma(y, wide, -p) + y * low;
        p_low = fabs(p) < 1e3 ? p_low : 0.0;
        p = p < -746.0 ? -746.0 : p;
        p = p > 710.0 ? 710.0 : p;
        const double n = (p * 1.4426950408889634 + round) - round;
        return pg_exp_part((p - n * 6.93147180369123816490e-01) - (n * 1.90821492927058770002e-10 - p_low), n);
    }

    PG_INLINE float pg_pow_off(float xf, float yf) {
        const double round = 6755399441055744.0, x = xf, y = yf;
        double f; const double k = pg_log_parts_normal(x, &f) - (4503599627370496.0 + 1023.0);
        const double s = f / (2.0 + f), z = s * s;
        double q = 2.79344044919295047e-1;
        q = q * z + 3.20154239282653031e-1; q = q * z + 4.12203285784605794e-1;
        q = q * z + 5.77077999004834352e-1; q = q * z + 9.61796693936195995e-1;
        double t = y * (k + s * (q * z + 2.88539008177792681));     /* to the base 2 */
        t = t < -200.0 ? -200.0 : t;
        t = t > 200.0 ? 200.0 : t;
        const double n = (t + round) - round;
        return pg_exp_partf((float)((t - n) * 0.6931471805599453), (float)n);
    }

    PG_INLINE double pg_pow(double x, double y) {
        const double size = fabs(x), big = y > 0 ? (INFINITY) : 0.0;
        const int inside = (size > 0) & (size < (INFINITY)) & (fabs(y) < (INFINITY));
        const double small = y > 0 ? 0.0 : (INFINITY);
        const double out = pg_pow_of(pg_pick(inside, size, 1.0), pg_pick(inside, y, 0.0));
        return pg_pow_ends(x, y, pg_pick(inside, out, pg_pick(size > 1, big, small)));
    }

    PG_INLINE float pg_powf(float x, float y) {
        const float size = fabsf(x), big = y > 0 ? (INFINITY) : 0.0f;
        const int inside = (size > 0) & (size < (INFINITY)) & (fabsf(y) < (INFINITY));
        const float small = y > 0 ? 0.0f : (INFINITY);
        const float out = pg_pow_off(pg_pickf(inside, size, 1.0f), pg_pickf(inside, y, 0.0f));
        return (float)pg_pow_ends(x, y, pg_pickf(inside, out, pg_pickf(size > 1, big, small)));
    }

    /* ---- hyperbolic functions; the inverse ones of floats in double --------------------------------------------- */

    PG_INLINE double pg_sinh(double x) {
        const double t = pg_expm1(fabs(x)), near = 0.5 * (t + t / (t + 1.0)), far = pg_exp_half(fabs(x));
        return copysign(fabs(x) < 22.0 ? near : far, x);
    }

    PG_INLINE float pg_sinhf(float x) {
        const float t = pg_expm1f(fabsf(x)), near = 0.5f * (t + t / (t + 1.0f)), far = pg_exp_halff(fabsf(x));
        return copysignf(fabsf(x) < 10.0f ? near : far, x);
    }

    PG_INLINE float pg_coshf(float x) {
        const float e = pg_exp_halff(fabsf(x));
        return e + 0.25f / e;
    }

    PG_INLINE double pg_cosh(double x) {
        const double e = pg_exp_half(fabs(x));
        return e + 0.25 / e;
    }

    PG_INLINE double pg_asinh(double x) {
        const double y = fabs(x), square = y * y, near = pg_log1p(y + square / (1.0 + sqrt(1.0 + square)));
        return copysign(y < 1e9 ? near : pg_log(y) + 0.6931471805599453, x);
    }

    PG_INLINE double pg_acosh(double x) {
        const double t = x - 1.0, near = pg_log1p(t + sqrt(2.0 * t + t * t));
        return pg_pick(x >= 1.0, x < 1e9 ? near : pg_log(x) + 0.6931471805599453, NAN);
    }

    PG_INLINE double pg_atanh(double x) {
        const double y = fabs(x);
        return copysign(0.5 * pg_log1p(2.0 * y / (1.0 - y)), x);
    }
    """
