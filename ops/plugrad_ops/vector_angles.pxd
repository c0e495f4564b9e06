"""Trigonometric functions and their inverses as plain arithmetic; see vector_math.pxd for what that gives.

(a) x = n pi/2 + r with r in [-pi/4, pi/4]; sin(r) and cos(r) are polynomials and n says which of them, and its sign.
    pi/2 is three numbers of which the first two times n are exact: right for |x| up to PG_TURNS, that is for all n of
    20 bits. Loops over these functions leave blocks that hold anything larger to the C library (PG_ANGLE).
(b) atan(x) is taken of x, of (x - 1) / (x + 1) or of -1 / x, whichever is at most sqrt(2) - 1, as an odd polynomial.
(c) asin(x) is one on [-1/2, 1/2], and pi/2 - 2 asin(sqrt((1 - x) / 2)) above.
(d) Within 2 units in the last place, tan within 3, asin, atan and atan2 within 2.3. Of floats, r is found in double;
    inverse functions are computed in double, and so is tan.
"""

cimport plugrad_ops.loops  # its macros  # no-cython-lint
cimport plugrad_ops.vector_math  # its macros  # no-cython-lint


cdef extern from *:
    """
    #define PG_TURNS 1e6
    #define PG_SIN(x) _Generic((x), float: pg_sinf, default: pg_sin)(x)
    #define PG_COS(x) _Generic((x), float: pg_cosf, default: pg_cos)(x)
    #define PG_HYPOT(x, y) _Generic((x), float: pg_hypotf, default: pg_hypot)(x, y)

    #define PG_ANGLE_OF(name, T, expr, otherwise)                                   \\
        PG_LOOP name##_##T(const void *pa, void *po, Py_ssize_t n) {                \\
            typedef T real;                                                         \\
            const real *a = (const real *)pa; real *restrict o = (real *)po;        \\
            for (Py_ssize_t begin = 0, end; begin < n; begin = end) {               \\
                end = n - begin < 256 ? n : begin + 256;                            \\
                int far = 0;                                                        \\
                for (Py_ssize_t i = begin; i < end; i++) far |= !(PG_F(fabs, a[i]) <= (real)PG_TURNS); \\
                if (far) for (Py_ssize_t i = begin; i < end; i++) { const real x = a[i]; o[i] = (real)(otherwise); } \\
                else for (Py_ssize_t i = begin; i < end; i++) { const real x = a[i]; o[i] = (real)(expr); } } }

    /* A loop of `expr` where all angles are in range, and of the function `otherwise` of the C library where not. */
    #define PG_ANGLE(name, expr, otherwise)                                         \\
        PG_ANGLE_OF(name, float, expr, otherwise) PG_ANGLE_OF(name, double, expr, otherwise) \\
        static const pg_unary_loops name = {{name##_float, name##_double}};

    /* r, and n as the low bits of an integer */
    PG_INLINE double pg_quarters(double x, uint64_t *n) {
        const double round = 6755399441055744.0, shifted = x * 0.6366197723675814 + round, k = shifted - round;
        memcpy(n, &shifted, 8);
        const double first = x - k * 1.5707963267341256, r = first - k * 6.077100506303966e-11;
        const double lost = (first - r) - k * 6.077100506303966e-11;
        return r + (lost - k * 2.0222662487959506e-21);
    }

    PG_INLINE double pg_sin_small(double r) {
        const double z = r * r;
        double p = 1.59179889793974333e-10;
        p = p * z - 2.50511298964501863e-08; p = p * z + 2.75573160931984052e-06;
        p = p * z - 1.98412698367405321e-04; p = p * z + 8.33333333333093655e-03;
        p = p * z - 1.66666666666666646e-01;
        return r + r * (z * p);
    }

    PG_INLINE double pg_cos_small(double r) {
        const double z = r * r;
        double p = -1.13825446453492504e-11;
        p = p * z + 2.08761450494131791e-09; p = p * z - 2.75573172658780800e-07;
        p = p * z + 2.48015872987544012e-05; p = p * z - 1.38888888888873898e-03;
        p = p * z + 4.16666666666666654e-02;
        const double h = 0.5 * z, head = 1.0 - h;
        return head + (((1.0 - head) - h) + z * z * p);
    }

    PG_INLINE float pg_sin_smallf(float r) {
        const float z = r * r;
        float p = 2.724962008e-06f;
        p = p * z - 1.984008438e-04f; p = p * z + 8.333331870e-03f; p = p * z - 1.666666666e-01f;
        return r + r * (z * p);
    }

    PG_INLINE float pg_cos_smallf(float r) {
        const float z = r * r;
        float p = 2.454768977e-05f;
        p = p * z - 1.388830187e-03f; p = p * z + 4.166666465e-02f;
        const float h = 0.5f * z, head = 1.0f - h;
        return head + (((1.0f - head) - h) + z * z * p);
    }

    PG_INLINE double pg_sin(double x) {
        uint64_t n; const double r = pg_quarters(x, &n);
        const double out = n & 1 ? pg_cos_small(r) : pg_sin_small(r);
        return x == 0 ? x : n & 2 ? -out : out;
    }

    PG_INLINE double pg_cos(double x) {
        uint64_t n; const double r = pg_quarters(x, &n);
        const double out = n & 1 ? pg_sin_small(r) : pg_cos_small(r);
        return (n + 1) & 2 ? -out : out;
    }

    PG_INLINE double pg_tan(double x) {
        uint64_t n; const double r = pg_quarters(x, &n), s = pg_sin_small(r), c = pg_cos_small(r);
        return x == 0 ? x : (n & 1 ? -c : s) / (n & 1 ? s : c);
    }

    PG_INLINE float pg_sinf(float x) {
        uint64_t n; const float r = (float)pg_quarters(x, &n); const uint32_t k = (uint32_t)n;
        const float out = k & 1 ? pg_cos_smallf(r) : pg_sin_smallf(r);
        return x == 0 ? x : k & 2 ? -out : out;
    }

    PG_INLINE float pg_cosf(float x) {
        uint64_t n; const float r = (float)pg_quarters(x, &n); const uint32_t k = (uint32_t)n;
        const float out = k & 1 ? pg_sin_smallf(r) : pg_cos_smallf(r);
        return (k + 1) & 2 ? -out : out;
    }

    /* ---- inverses ----------------------------------------------------------------------------------------------- */

    /* atan(t) for |t| <= sqrt(2) - 1 */
    PG_INLINE double pg_atan_small(double t) {
        const double z = t * t;
        double p = 1.62719447516240604e-02;
        p = p * z - 3.45580925514137961e-02; p = p * z + 4.55110812632517188e-02;
        p = p * z - 5.23034787301607418e-02; p = p * z + 5.87891454440062170e-02;
        p = p * z - 6.66642362806925758e-02; p = p * z + 7.69229630497447006e-02;
        p = p * z - 9.09090875107663588e-02; p = p * z + 1.11111111051067051e-01;
        p = p * z - 1.42857142856593273e-01; p = p * z + 1.99999999999998025e-01;
        p = p * z - 3.33333333333333332e-01;
        return t + t * (z * p);
    }

    /* The angle of (b, a), both at least 0, of which not both are 0 or infinite. */
    PG_INLINE double pg_atan_of(double a, double b) {
        const int low = a <= 0.41421356237309503 * b, high = a > 2.414213562373095 * b;
        const double t = (low ? a : high ? -b : a - b) / (low ? b : high ? a : a + b);
        const double base = low ? 0.0 : high ? 1.5707963267948966 : 0.7853981633974483;
        const double rest = low ? 0.0 : high ? 6.123233995736766e-17 : 3.061616997868383e-17;
        return base + (pg_atan_small(t) + rest);
    }

    PG_INLINE double pg_atan(double x) { return copysign(pg_atan_of(fabs(x), 1.0), x); }

    PG_INLINE double pg_atan2(double y, double x) {
        const double a = fabs(y), b = fabs(x), scale = (a > 1e300) | (b > 1e300) ? 0.25 : 1.0;
        const int infinite = (a == (INFINITY)) & (b == (INFINITY)), zero = (a == 0) & (b == 0);
        const double angle = pg_atan_of(pg_pick(infinite, 1.0, a * scale), pg_pick(infinite | zero, 1.0, b * scale));
        const double turned = 3.141592653589793 - (angle - 1.2246467991473532e-16);
        return copysign(pg_pick(copysign(1.0, x) < 0, turned, angle), y);
    }

    PG_INLINE double pg_asin_tail(double z) {
        double p = 2.87578513674215647e-02;
        p = p * z - 1.48518870712472032e-02; p = p * z + 1.74008794426940224e-02;
        p = p * z + 5.45750671864035830e-03; p = p * z + 1.03228143501857793e-02;
        p = p * z + 1.14791774151849059e-02; p = p * z + 1.39712129735529333e-02;
        p = p * z + 1.73523927208699729e-02; p = p * z + 2.23721729421498879e-02;
        p = p * z + 3.03819441385312473e-02; p = p * z + 4.46428571463554298e-02;
        p = p * z + 7.49999999999843293e-02; p = p * z + 1.66666666666666678e-01;
        return z * p;
    }

    PG_INLINE double pg_asin(double x) {
        const double y = fabs(x), half = 0.5 - 0.5 * y, near = x + x * pg_asin_tail(x * x), root = sqrt(half);
        const double far = 1.5707963267948966 - (2.0 * (root + root * pg_asin_tail(half)) - 6.123233995736766e-17);
        return y < 0.5 ? near : copysign(far, x);
    }

    PG_INLINE double pg_acos(double x) {
        const double y = fabs(x), half = 0.5 - 0.5 * y, root = sqrt(half);
        const double near = 1.5707963267948966 - (x + (x * pg_asin_tail(x * x) - 6.123233995736766e-17));
        const double far = 2.0 * (root + root * pg_asin_tail(half));
        return y < 0.5 ? near : x < 0 ? 3.141592653589793 - (far - 1.2246467991473532e-16) : far;
    }

    /* ---- lengths ------------------------------------------------------------------------------------------------ */

    PG_INLINE double pg_hypot(double x, double y) {
        const double a = fabs(x), b = fabs(y), most = a > b ? a : b;
        const double scale = most > 1e150 ? 0x1p-600 : most < 1e-140 ? 0x1p+600 : 1.0;
        const double back = most > 1e150 ? 0x1p+600 : most < 1e-140 ? 0x1p-600 : 1.0, u = a * scale, v = b * scale;
        return a == (INFINITY) || b == (INFINITY) ? (INFINITY) : sqrt(u * u + v * v) * back;
    }

    PG_INLINE float pg_hypotf(float x, float y) {
        const double u = x, v = y;
        return fabsf(x) == (INFINITY) || fabsf(y) == (INFINITY) ? (INFINITY) : (float)sqrt(u * u + v * v);
    }
    """
