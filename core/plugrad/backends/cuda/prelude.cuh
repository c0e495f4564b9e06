// What every kernel can use; the compiler puts it in front of the text of each Module.
//
// (a) No host headers, so that NVRTC compiles it alone. cuda_fp16.h is taken where it is found; without it (the NVRTC
//     wheel brings no headers) two conversions stand in for it, which is all that the kernels here need.
// (b) Half and bfloat16 are storage: `load` gives the compute type, `store` takes it. Arithmetic is never done in them.
// (c) Functions whose names CUDA has already live in namespace plugrad, where expressions are compiled: there `exp(x)` is
//     the function of x's own type, `min`, `max` and `remainder` are NumPy's, and integers are taken. Others are global.
// (d) Shuffles use the full mask: blocks are whole warps, and no lane may have left.
#ifndef PLUGRAD_PRELUDE
#define PLUGRAD_PRELUDE

#define PLUGRAD_FN __device__ __forceinline__

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
#ifdef _WIN32
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
typedef long int64_t;
typedef unsigned long uint64_t;
#endif
#endif

// ---- half and bfloat16 ----------------------------------------------------------------------------------------------

#if !defined(__CUDACC_RTC__) || __has_include(<cuda_fp16.h>)
#include <cuda_fp16.h>
#else
struct half { unsigned short bits; };
PLUGRAD_FN float __half2float(half x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
PLUGRAD_FN half __float2half(float x) { half y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
#endif
template <class X> struct Compute { typedef X type; };
template <> struct Compute<half> { typedef float type; };
template <class X> using compute_t = typename Compute<X>::type;

template <class X> PLUGRAD_FN X load(const X &x) { return x; }
PLUGRAD_FN float load(const half &x) { return __half2float(x); }
template <class X, class C> PLUGRAD_FN void store(X &to, C value) { to = (X)value; }
template <class C> PLUGRAD_FN void store(half &to, C value) { to = __float2half((float)value); }

// ---- kinds of numbers -----------------------------------------------------------------------------------------------

template <class X> struct Real { enum { value = 0 }; typedef double type; };
template <> struct Real<float> { enum { value = 1 }; typedef float type; };
template <> struct Real<double> { enum { value = 1 }; typedef double type; };
template <class X> using real_t = typename Real<X>::type;                    // what a function of an X gives
template <class A, class B> using common_t = decltype(true ? A() : B());

#undef NAN
#define INF __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)

template <class X> PLUGRAD_FN constexpr bool is_signed() { return X(-1) < X(0); }
template <class X> PLUGRAD_FN X highest() {
    if constexpr (Real<X>::value) return X(INF);
    else if constexpr (X(2) == X(1)) return true;
    else return (X)(~u64(0) >> (64 - 8 * sizeof(X) + is_signed<X>()));
}
template <class X> PLUGRAD_FN X lowest() {
    if constexpr (Real<X>::value) return X(-INF);
    else return is_signed<X>() ? (X)~highest<X>() : X(0);
}

// ---- functions under CUDA's names -----------------------------------------------------------------------------------

namespace plugrad {

#define PLUGRAD_FUNCTION(name) \
    PLUGRAD_FN float name(float x) { return ::name##f(x); } \
    PLUGRAD_FN double name(double x) { return ::name(x); } \
    template <class X> PLUGRAD_FN double name(X x) { return ::name((double)x); }
PLUGRAD_FUNCTION(exp) PLUGRAD_FUNCTION(exp2) PLUGRAD_FUNCTION(expm1)
PLUGRAD_FUNCTION(log) PLUGRAD_FUNCTION(log2) PLUGRAD_FUNCTION(log10) PLUGRAD_FUNCTION(log1p)
PLUGRAD_FUNCTION(sqrt) PLUGRAD_FUNCTION(cbrt)
PLUGRAD_FUNCTION(sin) PLUGRAD_FUNCTION(cos) PLUGRAD_FUNCTION(tan)
PLUGRAD_FUNCTION(asin) PLUGRAD_FUNCTION(acos) PLUGRAD_FUNCTION(atan)
PLUGRAD_FUNCTION(sinh) PLUGRAD_FUNCTION(cosh) PLUGRAD_FUNCTION(tanh)
PLUGRAD_FUNCTION(asinh) PLUGRAD_FUNCTION(acosh) PLUGRAD_FUNCTION(atanh)
PLUGRAD_FUNCTION(erf) PLUGRAD_FUNCTION(erfc) PLUGRAD_FUNCTION(lgamma) PLUGRAD_FUNCTION(tgamma)
#undef PLUGRAD_FUNCTION

template <class X> PLUGRAD_FN real_t<X> rsqrt(X x) { return real_t<X>(1) / sqrt(x); }

// Whole numbers are their own floor.
#define PLUGRAD_ROUNDING(name) \
    PLUGRAD_FN float name(float x) { return ::name##f(x); } \
    PLUGRAD_FN double name(double x) { return ::name(x); } \
    template <class X> PLUGRAD_FN X name(X x) { return x; }
PLUGRAD_ROUNDING(floor) PLUGRAD_ROUNDING(ceil) PLUGRAD_ROUNDING(trunc) PLUGRAD_ROUNDING(rint)
#undef PLUGRAD_ROUNDING

#define PLUGRAD_FUNCTION2(name) \
    PLUGRAD_FN float name##_(float x, float y) { return ::name##f(x, y); } \
    PLUGRAD_FN double name##_(double x, double y) { return ::name(x, y); } \
    template <class A, class B> PLUGRAD_FN real_t<common_t<A, B>> name(A a, B b) { \
        typedef real_t<common_t<A, B>> X; \
        return name##_((X)a, (X)b); \
    }
PLUGRAD_FUNCTION2(fmod) PLUGRAD_FUNCTION2(copysign) PLUGRAD_FUNCTION2(atan2) PLUGRAD_FUNCTION2(hypot)
PLUGRAD_FUNCTION2(nextafter)
PLUGRAD_FN float pow_(float x, float y) { return ::powf(x, y); }
PLUGRAD_FN double pow_(double x, double y) { return ::pow(x, y); }
#undef PLUGRAD_FUNCTION2

template <class X> PLUGRAD_FN X whole_power(X base, X exponent) {
    if (exponent < 0) return base == X(1) || (base == X(-1) && exponent % 2 == 0) ? X(1) : base == X(-1) ? base : X(0);
    u64 result = 1, square = (u64)base;                 // wraps as NumPy's; signed overflow would be undefined
    for (u64 left = (u64)exponent; left; left >>= 1, square *= square)
        if (left & 1) result *= square;
    return (X)result;
}

// Integers to a negative power are 0 unless the base is 1 or -1; NumPy refuses them.
template <class A, class B> PLUGRAD_FN common_t<A, B> pow(A a, B b) {
    typedef common_t<A, B> X;
    if constexpr (Real<X>::value) return pow_((X)a, (X)b);
    else return whole_power<X>((X)a, (X)b);
}

PLUGRAD_FN float abs(float x) { return ::fabsf(x); }
PLUGRAD_FN double abs(double x) { return ::fabs(x); }
template <class X> PLUGRAD_FN X abs(X x) { return x < X(0) ? (X)(u64(0) - (u64)x) : x; }
template <class X> PLUGRAD_FN bool isnan(X x) { return x != x; }
template <class X> PLUGRAD_FN bool isinf(X x) {
    if constexpr (Real<X>::value) return abs(x) == X(INF);
    else return false;
}
template <class X> PLUGRAD_FN bool isfinite(X x) { return !isnan(x) && !isinf(x); }

}  // namespace plugrad

// ---- NumPy's arithmetic ---------------------------------------------------------------------------------------------

// NaN if either is.
template <class A, class B> PLUGRAD_FN common_t<A, B> nan_max(A a, B b) {
    const common_t<A, B> x = a, y = b;
    return x >= y || x != x ? x : y;
}
template <class A, class B> PLUGRAD_FN common_t<A, B> nan_min(A a, B b) {
    const common_t<A, B> x = a, y = b;
    return x <= y || x != x ? x : y;
}

// Whether the element v at i is the extreme rather than w at j: the first of equals, NaN before all.
template <class X> PLUGRAD_FN bool leads_max(X v, i64 i, X w, i64 j) {
    const bool none = v != v, other = w != w;
    return none || other ? none && (!other || i < j) : v > w || (v == w && i < j);
}
template <class X> PLUGRAD_FN bool leads_min(X v, i64 i, X w, i64 j) {
    const bool none = v != v, other = w != w;
    return none || other ? none && (!other || i < j) : v < w || (v == w && i < j);
}

template <class X> PLUGRAD_FN X sign(X x) { return x > X(0) ? X(1) : x < X(0) ? X(-1) : x == X(0) ? X(0) : x; }
template <class X> PLUGRAD_FN X square(X x) { return x * x; }
template <class X> PLUGRAD_FN X conj(X x) { return x; }  // complex.cuh has those of complex ones
template <class X> PLUGRAD_FN X real(X x) { return x; }
template <class X> PLUGRAD_FN X imag(X x) { return X(0); }
template <class X> PLUGRAD_FN real_t<X> reciprocal(X x) { return real_t<X>(1) / real_t<X>(x); }
template <class A, class B> PLUGRAD_FN common_t<A, B> where(bool condition, A a, B b) { return condition ? a : b; }

// The quotient rounded down, and what it leaves: the sign of `b`, zeros included. By zero: IEEE for floats, 0 for integers.
template <class A, class B> PLUGRAD_FN common_t<A, B> floor_divide(A left, B right) {
    typedef common_t<A, B> X;
    const X a = left, b = right;
    if constexpr (Real<X>::value) {
        if (b == X(0)) return a / b;
        const X rest = plugrad::fmod(a, b);
        X quotient = (a - rest) / b;                    // nearly whole: `rest` is exact, the quotient is rounded
        if (rest != X(0) && (b < X(0)) != (rest < X(0))) quotient -= X(1);
        if (quotient == X(0)) return plugrad::copysign(X(0), a / b);
        const X below = plugrad::floor(quotient);
        return quotient - below > X(0.5) ? below + X(1) : below;
    } else {
        if (b == X(0)) return X(0);
        if (is_signed<X>() && b == X(-1)) return (X)(u64(0) - (u64)a);
        const X quotient = a / b;
        return quotient * b != a && (a < X(0)) != (b < X(0)) ? quotient - X(1) : quotient;
    }
}
template <class A, class B> PLUGRAD_FN common_t<A, B> floor_mod(A left, B right) {
    typedef common_t<A, B> X;
    const X a = left, b = right;
    if constexpr (Real<X>::value) {
        const X rest = plugrad::fmod(a, b);
        if (b == X(0) || rest != rest) return rest;
        if (rest == X(0)) return plugrad::copysign(X(0), b);
        return (b < X(0)) != (rest < X(0)) ? rest + b : rest;
    } else {
        if (b == X(0) || (is_signed<X>() && b == X(-1))) return X(0);
        const X rest = a % b;
        return rest != X(0) && (rest < X(0)) != (b < X(0)) ? rest + b : rest;
    }
}

namespace plugrad {
template <class A, class B> PLUGRAD_FN common_t<A, B> max(A a, B b) { return nan_max(a, b); }
template <class A, class B> PLUGRAD_FN common_t<A, B> min(A a, B b) { return nan_min(a, b); }
template <class A, class B> PLUGRAD_FN common_t<A, B> remainder(A a, B b) { return floor_mod(a, b); }
}

// ---- activations: no intermediate overflows -------------------------------------------------------------------------

template <class X> PLUGRAD_FN X relu(X x) { return x <= X(0) ? X(0) : x; }
template <class I> PLUGRAD_FN real_t<I> sigmoid(I value) {
    typedef real_t<I> X;
    const X x = value, decay = plugrad::exp(-plugrad::abs(x));
    return (x >= X(0) ? X(1) : decay) / (X(1) + decay);
}
template <class I> PLUGRAD_FN real_t<I> softplus(I value) {
    typedef real_t<I> X;
    const X x = value;
    return nan_max(x, X(0)) + plugrad::log1p(plugrad::exp(-plugrad::abs(x)));
}
template <class I> PLUGRAD_FN real_t<I> logsigmoid(I value) {
    typedef real_t<I> X;
    const X x = value;
    return nan_min(x, X(0)) - plugrad::log1p(plugrad::exp(-plugrad::abs(x)));
}
template <class A, class B> PLUGRAD_FN real_t<common_t<A, B>> logaddexp(A left, B right) {
    typedef real_t<common_t<A, B>> X;
    const X a = left, b = right;
    if (a == b) return a + X(0.693147180559945309417);  // infinities have no difference
    const X difference = a - b;
    return nan_max(a, b) + plugrad::log1p(plugrad::exp(-plugrad::abs(difference)));
}
// The standard normal distribution and its density: gelu(x) = x * normal_cdf(x).
template <class I> PLUGRAD_FN real_t<I> normal_cdf(I x) {
    return real_t<I>(0.5) * plugrad::erfc(real_t<I>(x) * real_t<I>(-0.707106781186547524401));
}
template <class I> PLUGRAD_FN real_t<I> normal_pdf(I x) {
    return real_t<I>(0.398942280401432677940) * plugrad::exp(real_t<I>(-0.5) * real_t<I>(x) * real_t<I>(x));
}

// ---- several elements at once ---------------------------------------------------------------------------------------

// Copied with one instruction where sizeof(X) * V is at most 16.
template <class X, int V> struct alignas(sizeof(X) * V) Pack { X at[V]; };

template <int V, class X> PLUGRAD_FN bool aligned(const X *p) { return (u64)p % (sizeof(X) * V) == 0; }
// V neighbours, with one instruction if `whole`: the address is `aligned`.
template <int V, class X> PLUGRAD_FN Pack<X, V> load_pack(const X *p, bool whole) {
    if (whole) return *reinterpret_cast<const Pack<X, V> *>(p);
    Pack<X, V> pack;
#pragma unroll
    for (int k = 0; k < V; ++k) pack.at[k] = p[k];
    return pack;
}
template <int V, class X> PLUGRAD_FN void store_pack(X *p, const Pack<X, V> &pack, bool whole) {
    if (whole) *reinterpret_cast<Pack<X, V> *>(p) = pack;
    else {
#pragma unroll
        for (int k = 0; k < V; ++k) p[k] = pack.at[k];
    }
}
template <int V, class X> PLUGRAD_FN Pack<X, V> spread_pack(const X *p) {
    Pack<X, V> pack;
    const X x = *p;
#pragma unroll
    for (int k = 0; k < V; ++k) pack.at[k] = x;
    return pack;
}
template <class X> PLUGRAD_FN X *shifted(X *p, i64 bytes) { return (X *)((char *)p + bytes); }

// ---- from an element's number to its place, in N operands -----------------------------------------------------------

enum { MAX_DIMS = 8 };

// Dimensions from the innermost; strides in bytes. The host packs both (`plugrad.backends.cuda.layout`).
template <class I, int N> struct Layout;
template <int N> struct Layout<i64, N> {
    i64 ndim, shape[MAX_DIMS], strides[MAX_DIMS][N];
    __device__ __forceinline__ i64 divided(int d, i64 i) const { return i / shape[d]; }
};
// Up to 2**31: a division is a multiplication and a shift (Granlund and Montgomery, PLDI 1994).
template <int N> struct Layout<int, N> {
    int ndim, shape[MAX_DIMS];
    unsigned magic[MAX_DIMS], shift[MAX_DIMS];
    int strides[MAX_DIMS][N];
    __device__ __forceinline__ int divided(int d, int i) const {
        return (int)((__umulhi((unsigned)i, magic[d]) + (unsigned)i) >> shift[d]);
    }
};
template <class I, int N> PLUGRAD_FN void place(const Layout<I, N> &layout, I i, I (&bytes)[N]) {
#pragma unroll
    for (int k = 0; k < N; ++k) bytes[k] = 0;
#pragma unroll 1  // two or three turns mostly; all eight unrolled take the compiler a long time
    for (int d = 0; d < int(layout.ndim); ++d) {
        const I rest = d + 1 < layout.ndim ? layout.divided(d, i) : I(0), along = i - rest * layout.shape[d];
#pragma unroll
        for (int k = 0; k < N; ++k) bytes[k] += along * layout.strides[d][k];
        i = rest;
    }
}

// ---- warps and blocks -----------------------------------------------------------------------------------------------

enum : unsigned { FULL_WARP = 0xffffffffu };

// Any struct of 4-byte words, which the hardware shuffles one by one.
template <class V> union Words {
    V value;
    unsigned word[sizeof(V) / 4];
    __device__ __forceinline__ Words() {}
};
#define PLUGRAD_SHUFFLE(name, intrinsic) \
    template <class V> PLUGRAD_FN V name(V value, int lanes) { \
        static_assert(sizeof(V) % 4 == 0, "only whole words can be shuffled"); \
        Words<V> words; \
        words.value = value; \
        _Pragma("unroll") for (int k = 0; k < int(sizeof(V) / 4); ++k) \
            words.word[k] = intrinsic(FULL_WARP, words.word[k], lanes); \
        return words.value; \
    }
PLUGRAD_SHUFFLE(shuffle_xor, __shfl_xor_sync)
PLUGRAD_SHUFFLE(shuffle_up, __shfl_up_sync)
PLUGRAD_SHUFFLE(shuffle_down, __shfl_down_sync)
PLUGRAD_SHUFFLE(shuffle_from, __shfl_sync)
#undef PLUGRAD_SHUFFLE

struct Sum { template <class V> __device__ __forceinline__ V operator()(V a, V b) const { return a + b; } };
struct Max { template <class V> __device__ __forceinline__ V operator()(V a, V b) const { return nan_max(a, b); } };
struct Min { template <class V> __device__ __forceinline__ V operator()(V a, V b) const { return nan_min(a, b); } };

// Every lane of each `width` neighbours (a power of two) gets what `combine` makes of their values, in a fixed order.
template <class V, class F> PLUGRAD_FN V warp_reduce(V value, F combine, int width = 32) {
    const int lane = threadIdx.x & 31;
    for (int apart = 1; apart < width; apart *= 2) {
        const V other = shuffle_xor(value, apart);
        value = lane & apart ? combine(other, value) : combine(value, other);
    }
    return value;
}

// The same for a whole one-dimensional block, with `shared` room for a value per warp. Call it again at once if you like.
template <class V, class F> PLUGRAD_FN V block_reduce(V value, F combine, V *shared) {
    value = warp_reduce(value, combine);
    const int warps = blockDim.x / 32;
    if (warps == 1) return value;
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    value = shared[0];
    for (int w = 1; w < warps; ++w) value = combine(value, shared[w]);
    __syncthreads();
    return value;
}

// ---- conversions ----------------------------------------------------------------------------------------------------

// A float that rounds to the half that `x` itself rounds to: where `x` is no float, the neighbour with an odd last bit,
// which is no tie between halves. Rounding to the nearest float first would round twice.
PLUGRAD_FN float rounded_to_odd(double x) {
    const float near = (float)x;
    if (near == x || near != near) return near;
    const int bits = __float_as_int(near) - (plugrad::abs((double)near) > plugrad::abs(x));
    return __int_as_float(bits | 1);
}

#endif
