// Random numbers by counting, bit for bit those of plugrad/backends/philox.pyx, which says how they are defined. In front of
// kernels that are given a stream.

// A stream as it is passed.
struct Random { u64 seed, offset; };

namespace plugrad {

// Word i % 4 of a block (Philox4x32-10). Neighbours in one thread share the block, which compilers find once.
PLUGRAD_FN u32 word_of(Random stream, u64 block, i64 i) {
    u32 a = (u32)block, b = (u32)(block >> 32), c = (u32)stream.offset, d = (u32)(stream.offset >> 32);
    u32 k = (u32)stream.seed, l = (u32)(stream.seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round, k += 0x9E3779B9u, l += 0xBB67AE85u) {
        const u64 p = (u64)0xD2511F53u * a, q = (u64)0xCD9E8D57u * c;
        a = (u32)(q >> 32) ^ b ^ k;
        b = (u32)q;
        c = (u32)(p >> 32) ^ d ^ l;
        d = (u32)p;
    }
    return i & 2 ? i & 1 ? d : c : i & 1 ? b : a;
}

// 32 bits of element i, and the 32 that wider numbers add to them.
PLUGRAD_FN u32 bits(Random stream, i64 i) { return word_of(stream, (u64)i >> 2, i); }
PLUGRAD_FN u32 low_bits(Random stream, i64 i) { return word_of(stream, ((u64)i >> 2) + ((u64)1 << 63), i); }

// A number k * 2**-n in [0, 1): n is 8 for bfloat16, 11 for half, 24 for float, 53 for double.
template <class X, int N = sizeof(X) == 4 ? 24 : 53> PLUGRAD_FN X uniform_as(Random stream, i64 i) {
    const u32 word = bits(stream, i);
    if constexpr (N <= 24) return X(word >> (32 - N)) * X(1.0 / (1 << N));
    else return X(word) * X(1.0 / 4294967296) + X(low_bits(stream, i) >> 11) * X(1.0 / 9007199254740992);
}
// The same in (0, 1], for logarithms.
template <class X> PLUGRAD_FN X positive_as(Random stream, i64 i) {
    if constexpr (sizeof(X) == 4) return X(bits(stream, i)) * X(1.0 / 4294967296) + X(1.0 / 8589934592);
    else return uniform_as<X>(stream, i) + X(1.0 / 9007199254740992);
}
// Never 0.
template <class X> PLUGRAD_FN X exponential_as(Random stream, i64 i) {
    return max(-plugrad::log(positive_as<X>(stream, i)), X(sizeof(X) == 4 ? 0x1p-25 : 0x1p-54));
}
// Box and Muller: elements 2j and 2j + 1 share a radius and are cosine and sine of one angle.
PLUGRAD_FN float turned(float u, bool sine) { return sine ? ::sinpif(2.0f * u) : ::cospif(2.0f * u); }
PLUGRAD_FN double turned(double u, bool sine) { return sine ? ::sinpi(2.0 * u) : ::cospi(2.0 * u); }
template <class X> PLUGRAD_FN X normal_as(Random stream, i64 i) {
    const X radius = plugrad::sqrt(X(-2) * plugrad::log(positive_as<X>(stream, i & ~i64(1))));
    return radius * turned(uniform_as<X>(stream, i | 1), i & 1);
}

// Doubles in kernels of any type.
PLUGRAD_FN double exponential64(Random stream, i64 i) { return exponential_as<double>(stream, i); }
PLUGRAD_FN double cauchy64(Random stream, i64 i) {
    return plugrad::tan((uniform_as<double>(stream, i) - 0.5) * 3.14159265358979323846);
}

// True with probability p, which counts as a float.
template <class P> PLUGRAD_FN bool chance(Random stream, i64 i, P p) {
    const float rounded = (float)p, within = rounded >= 1.0f ? 1.0f : rounded > 0.0f ? rounded : 0.0f;
    return (u64)bits(stream, i) < (u64)::ceilf(within * 4294967296.0f);
}
// From `low` on, below low + span; a span of 0 means 2**64.
PLUGRAD_FN i64 integers(Random stream, i64 i, i64 low, i64 span) {
    const u64 wide = (u64)bits(stream, i) << 32 | low_bits(stream, i);
    return (i64)((u64)low + (span ? __umul64hi(wide, (u64)span) : wide));
}
// low + u * span, rounded twice: what the CPU gives.
PLUGRAD_FN float stretched(float u, float low, float span) { return __fadd_rn(low, __fmul_rn(u, span)); }
PLUGRAD_FN double stretched(double u, double low, double span) { return __dadd_rn(low, __dmul_rn(u, span)); }

}  // namespace plugrad
