"""The loops of `philox.pyx` in C: Philox words, and numbers of several distributions from words.

Logarithm and sine are written out, so that a loop around them vectorises: 2 to 7 ns an element with AVX2, and the same
bits without.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cimport plugrad.backends.simd  # its macros  # no-cython-lint

cdef extern from *:
    """
    #include <math.h>
    #include <stdint.h>
    #include <string.h>

    #if defined(__GNUC__)
    #define PG_INLINE static inline __attribute__((always_inline, unused))
    #else
    #define PG_INLINE static inline
    #endif
    #define PG_LOOP PG_VECTOR_EXACT static void
    #if defined(_MSC_VER) && !defined(__clang__)
    #include <intrin.h>
    #define PG_NEXT(place) ((uint64_t)_InterlockedExchangeAdd64((volatile __int64 *)(place), 1))
    #else
    #define PG_NEXT(place) __atomic_fetch_add((place), 1, __ATOMIC_RELAXED)
    #endif

    enum { PG_LANES = 8 };

    /* Words of the blocks from `block` on, PG_LANES blocks at a time. */
    PG_LOOP pg_words(uint64_t seed, uint64_t offset, uint64_t block, Py_ssize_t groups, uint32_t *restrict out) {
        for (Py_ssize_t g = 0; g < groups; g++, block += PG_LANES, out += 4 * PG_LANES) {
            uint32_t a[PG_LANES], b[PG_LANES], c[PG_LANES], d[PG_LANES];
            uint32_t k = (uint32_t)seed, l = (uint32_t)(seed >> 32);
            for (int i = 0; i < PG_LANES; i++) {
                a[i] = (uint32_t)(block + i);
                b[i] = (uint32_t)((block + i) >> 32);
                c[i] = (uint32_t)offset;
                d[i] = (uint32_t)(offset >> 32);
            }
            /* not unrolled, which would take five times the code and be slower */
            for (int round = 0; round < 10; round++, k += 0x9E3779B9u, l += 0xBB67AE85u) {
                for (int i = 0; i < PG_LANES; i++) {
                    const uint64_t p = 0xD2511F53ull * a[i], q = 0xCD9E8D57ull * c[i];
                    a[i] = (uint32_t)(q >> 32) ^ b[i] ^ k;
                    b[i] = (uint32_t)q;
                    c[i] = (uint32_t)(p >> 32) ^ d[i] ^ l;
                    d[i] = (uint32_t)p;
                }
            }
            for (int i = 0; i < PG_LANES; i++) {
                out[4 * i] = a[i];
                out[4 * i + 1] = b[i];
                out[4 * i + 2] = c[i];
                out[4 * i + 3] = d[i];
            }
        }
    }

    /* ---- numbers from words: `w` the words, `v` the low ones ---- */

    PG_INLINE float pg_uniformf(uint32_t w) { return (float)(int32_t)(w >> 8) * 0x1p-24f; }
    PG_INLINE double pg_double(uint32_t w) { return (double)(int32_t)(w ^ 0x80000000u) + 2147483648.0; }
    PG_INLINE double pg_uniform(uint32_t w, uint32_t v) {
        return pg_double(w) * 0x1p-32 + (double)(int32_t)(v >> 11) * 0x1p-53;
    }
    /* The same in (0, 1], for logarithms: the smallest floats are as close together as the words. */
    PG_INLINE float pg_positivef(uint32_t w) { return (float)pg_double(w) * 0x1p-32f + 0x1p-33f; }
    PG_INLINE double pg_positive(uint32_t w, uint32_t v) { return pg_uniform(w, v) + 0x1p-53; }

    /* log of x in (0, 1]: x = 2**n * m with m near 1, and log m is the series of 2 artanh((m - 1) / (m + 1)). */
    PG_INLINE float pg_logf(float x) {
        int32_t bits, n;
        memcpy(&bits, &x, 4);
        bits += 0x3f800000 - 0x3f3504f3;
        n = (bits >> 23) - 127;
        bits = (bits & 0x007fffff) + 0x3f3504f3;
        memcpy(&x, &bits, 4);
        const float f = x - 1.0f, s = f / (2.0f + f), z = s * s;
        float p = 1.0f / 9.0f;
        p = p * z + 1.0f / 7.0f;
        p = p * z + 1.0f / 5.0f;
        p = p * z + 1.0f / 3.0f;
        p = (p * z) * (2.0f * s) + ((float)n * 1.42860677e-06f);
        return (2.0f * s + p) + (float)n * 0.693145751953125f;
    }
    PG_INLINE double pg_log(double x) {
        int64_t bits, whole;
        double n;
        memcpy(&bits, &x, 8);
        bits += 0x3ff0000000000000LL - 0x3fe6a09e667f3bcdLL;
        whole = (int64_t)((uint64_t)bits >> 52) + (0x4338000000000000LL - 1023);   /* 1.5 * 2**52 + n */
        memcpy(&n, &whole, 8);
        n -= 6755399441055744.0;
        bits = (bits & 0x000fffffffffffffLL) + 0x3fe6a09e667f3bcdLL;
        memcpy(&x, &bits, 8);
        const double f = x - 1.0, s = f / (2.0 + f), z = s * s;
        double p = 1.0 / 23.0;
        p = p * z + 1.0 / 21.0;
        p = p * z + 1.0 / 19.0;
        p = p * z + 1.0 / 17.0;
        p = p * z + 1.0 / 15.0;
        p = p * z + 1.0 / 13.0;
        p = p * z + 1.0 / 11.0;
        p = p * z + 1.0 / 9.0;
        p = p * z + 1.0 / 7.0;
        p = p * z + 1.0 / 5.0;
        p = p * z + 1.0 / 3.0;
        p = (p * z) * (2.0 * s) + n * 1.90821492927058770002e-10;
        return (2.0 * s + p) + n * 6.93147180369123816490e-01;
    }

    /* cos and sin of 2 pi u for u in [0, 1): the nearest quarter turn is taken off, the rest are Taylor polynomials. */
    PG_INLINE void pg_turnf(float u, float *cosine, float *sine) {
        const float round = 12582912.0f;                    /* 1.5 * 2**23: adding it rounds to an integer */
        const float quarters = (4.0f * u + round) - round, x = (4.0f * u - quarters) * 1.57079637f, y = x * x;
        const int q = (int)quarters;
        float s = 1.0f / 362880.0f, c = -1.0f / 3628800.0f;
        s = s * y - 1.0f / 5040.0f; s = s * y + 1.0f / 120.0f; s = s * y - 1.0f / 6.0f;
        s = x + x * y * s;
        c = c * y + 1.0f / 40320.0f; c = c * y - 1.0f / 720.0f; c = c * y + 1.0f / 24.0f; c = c * y - 0.5f;
        c = 1.0f + y * c;
        *cosine = q & 1 ? s : c;
        *cosine = (q + 1) & 2 ? -*cosine : *cosine;
        *sine = q & 1 ? c : s;
        *sine = q & 2 ? -*sine : *sine;
    }
    PG_INLINE void pg_turn(double u, double *cosine, double *sine) {
        const double round = 6755399441055744.0;            /* 1.5 * 2**52 */
        const double shifted = 4.0 * u + round, quarters = shifted - round;
        const double x = (4.0 * u - quarters) * 1.57079632679489661923, y = x * x;
        int64_t q;
        memcpy(&q, &shifted, 8);                            /* its low bits are those of the integer */
        double s = 1.0 / 355687428096000.0, c = 1.0 / 20922789888000.0;
        s = s * y - 1.0 / 1307674368000.0; s = s * y + 1.0 / 6227020800.0; s = s * y - 1.0 / 39916800.0;
        s = s * y + 1.0 / 362880.0; s = s * y - 1.0 / 5040.0; s = s * y + 1.0 / 120.0; s = s * y - 1.0 / 6.0;
        s = x + x * y * s;
        c = c * y - 1.0 / 87178291200.0; c = c * y + 1.0 / 479001600.0; c = c * y - 1.0 / 3628800.0;
        c = c * y + 1.0 / 40320.0; c = c * y - 1.0 / 720.0; c = c * y + 1.0 / 24.0; c = c * y - 0.5;
        c = 1.0 + y * c;
        *cosine = q & 1 ? s : c;
        *cosine = (q + 1) & 2 ? -*cosine : *cosine;
        *sine = q & 1 ? c : s;
        *sine = q & 2 ? -*sine : *sine;
    }

    /* ---- loops; v is not used by floats ---- */

    PG_LOOP pg_uniform_float(const uint32_t *w, const uint32_t *v, float *restrict out, Py_ssize_t n) {
        for (Py_ssize_t i = 0; i < n; i++) out[i] = pg_uniformf(w[i]);
    }
    PG_LOOP pg_uniform_double(const uint32_t *w, const uint32_t *v, double *restrict out, Py_ssize_t n) {
        for (Py_ssize_t i = 0; i < n; i++) out[i] = pg_uniform(w[i], v[i]);
    }
    /* In float, from 11 bits: what float16 holds exactly. */
    PG_LOOP pg_uniform_half(const uint32_t *w, const uint32_t *v, float *restrict out, Py_ssize_t n) {
        for (Py_ssize_t i = 0; i < n; i++) out[i] = (float)(int32_t)(w[i] >> 21) * 0x1p-11f;
    }
    /* n is even. */
    PG_LOOP pg_normal_float(const uint32_t *w, const uint32_t *v, float *restrict out, Py_ssize_t n) {
        for (Py_ssize_t i = 0; i < n / 2; i++) {
            float c, s;
            const float r = sqrtf(-2.0f * pg_logf(pg_positivef(w[2 * i])));
            pg_turnf(pg_uniformf(w[2 * i + 1]), &c, &s);
            out[2 * i] = r * c;
            out[2 * i + 1] = r * s;
        }
    }
    PG_LOOP pg_normal_double(const uint32_t *w, const uint32_t *v, double *restrict out, Py_ssize_t n) {
        for (Py_ssize_t i = 0; i < n / 2; i++) {
            double c, s;
            const double r = sqrt(-2.0 * pg_log(pg_positive(w[2 * i], v[2 * i])));
            pg_turn(pg_uniform(w[2 * i + 1], v[2 * i + 1]), &c, &s);
            out[2 * i] = r * c;
            out[2 * i + 1] = r * s;
        }
    }
    /* Never 0: half of what lies between 1 and the number before it. */
    PG_LOOP pg_exponential_float(const uint32_t *w, const uint32_t *v, float *restrict out, Py_ssize_t n) {
        for (Py_ssize_t i = 0; i < n; i++) {
            const float x = -pg_logf(pg_positivef(w[i]));
            out[i] = x > 0x1p-25f ? x : 0x1p-25f;
        }
    }
    PG_LOOP pg_exponential_double(const uint32_t *w, const uint32_t *v, double *restrict out, Py_ssize_t n) {
        for (Py_ssize_t i = 0; i < n; i++) {
            const double x = -pg_log(pg_positive(w[i], v[i]));
            out[i] = x > 0x1p-54 ? x : 0x1p-54;
        }
    }
    PG_LOOP pg_below(const uint32_t *w, uint64_t bound, uint8_t *restrict out, Py_ssize_t n) {
        const uint32_t last = (uint32_t)(bound - 1);
        if (bound == 0) memset(out, 0, n);
        else for (Py_ssize_t i = 0; i < n; i++) out[i] = w[i] <= last;
    }
    /* The high half of (w, v) times a span of 64 bits; a span of 0 means 2**64. */
    PG_LOOP pg_integers(const uint32_t *w, const uint32_t *v, uint64_t low, uint64_t span, uint64_t *restrict out,
                        Py_ssize_t n) {
        const uint64_t s = (uint32_t)span, t = span >> 32;
        if (span == 0) for (Py_ssize_t i = 0; i < n; i++) out[i] = low + ((uint64_t)w[i] << 32 | v[i]);
        else if (t == 0) for (Py_ssize_t i = 0; i < n; i++) out[i] = low + ((w[i] * s + (v[i] * s >> 32)) >> 32);
        else for (Py_ssize_t i = 0; i < n; i++) {
            const uint64_t a = w[i] * s + (v[i] * s >> 32), b = v[i] * t + (uint32_t)a;
            out[i] = low + w[i] * t + (a >> 32) + (b >> 32);
        }
    }
    """
    enum:
        PG_LANES
    uint64_t PG_NEXT(uint64_t *place) nogil
    void pg_words(uint64_t, uint64_t, uint64_t, Py_ssize_t, uint32_t *) noexcept nogil
    void pg_uniform_float(const uint32_t *, const uint32_t *, float *, Py_ssize_t) noexcept nogil
    void pg_uniform_double(const uint32_t *, const uint32_t *, double *, Py_ssize_t) noexcept nogil
    void pg_uniform_half(const uint32_t *, const uint32_t *, float *, Py_ssize_t) noexcept nogil
    void pg_normal_float(const uint32_t *, const uint32_t *, float *, Py_ssize_t) noexcept nogil
    void pg_normal_double(const uint32_t *, const uint32_t *, double *, Py_ssize_t) noexcept nogil
    void pg_exponential_float(const uint32_t *, const uint32_t *, float *, Py_ssize_t) noexcept nogil
    void pg_exponential_double(const uint32_t *, const uint32_t *, double *, Py_ssize_t) noexcept nogil
    void pg_below(const uint32_t *, uint64_t, uint8_t *, Py_ssize_t) noexcept nogil
    void pg_integers(
        const uint32_t *, const uint32_t *, uint64_t, uint64_t, uint64_t *, Py_ssize_t
    ) noexcept nogil
