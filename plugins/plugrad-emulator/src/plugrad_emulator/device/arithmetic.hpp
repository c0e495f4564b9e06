// CUDA's arithmetic that the host's <cmath> lacks.  Intrinsics that are fast and rough on a GPU are exact here.
#pragma once

#define CUDART_INF_F __builtin_inff()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_INF __builtin_inf()
#define CUDART_NAN __builtin_nan("")
#define CUDART_PI_F 3.141592654f
#define CUDART_PI 3.1415926535897931e+0
#define __MATH_CONSTANTS_H__

#define EMU_INLINE static inline __attribute__((unused))

// C23 gives newer C libraries some of these names: a macro keeps clear of their declarations.
#define rsqrt emu_rsqrt
#define rsqrtf emu_rsqrtf
#define sinpi emu_sinpi
#define cospi emu_cospi
#define sinpif emu_sinpif
#define cospif emu_cospif
EMU_INLINE float rsqrtf(float x) { return 1.0f / sqrtf(x); }
EMU_INLINE float rsqrt(float x) { return 1.0f / sqrtf(x); }
EMU_INLINE double rsqrt(double x) { return 1.0 / ::sqrt(x); }
EMU_INLINE double sinpi(double x) { return ::sin(CUDART_PI * fmod(x, 2.0)); }
EMU_INLINE double cospi(double x) { return ::cos(CUDART_PI * fmod(x, 2.0)); }
EMU_INLINE float sinpif(float x) { return (float)sinpi((double)x); }
EMU_INLINE float cospif(float x) { return (float)cospi((double)x); }
EMU_INLINE float rcbrtf(float x) { return 1.0f / cbrtf(x); }
EMU_INLINE double rcbrt(double x) { return 1.0 / ::cbrt(x); }
EMU_INLINE double normcdf(double x) { return 0.5 * ::erfc(-x * 0.70710678118654752440); }
EMU_INLINE float normcdff(float x) { return (float)normcdf((double)x); }
EMU_INLINE double erfcx(double x) { return ::exp(x * x) * ::erfc(x); }
EMU_INLINE float erfcxf(float x) { return (float)erfcx((double)x); }
EMU_INLINE void sincos(float x, float *s, float *c) { *s = sinf(x), *c = cosf(x); }
EMU_INLINE void sincospif(float x, float *s, float *c) { *s = sinpif(x), *c = cospif(x); }
EMU_INLINE void sincospi(double x, double *s, double *c) { *s = sinpi(x), *c = cospi(x); }

// Winitzki's estimate, then Newton on erf (quadratic, so three steps reach double precision).
EMU_INLINE double erfinv(double y) {
  if (!(y > -1 && y < 1)) return y == 1 ? CUDART_INF : y == -1 ? -CUDART_INF : CUDART_NAN;
  double l = log1p(-y * y), t = 2 / (CUDART_PI * 0.147) + l / 2;
  double x = copysign(::sqrt(::sqrt(t * t - l / 0.147) - t), y);
  for (int i = 0; i < 3; ++i) x -= (erf(x) - y) / (1.1283791670955126 * ::exp(-x * x));
  return x;
}
EMU_INLINE float erfinvf(float y) { return (float)erfinv((double)y); }
EMU_INLINE double normcdfinv(double p) { return 1.4142135623730951 * erfinv(2 * p - 1); }
EMU_INLINE float normcdfinvf(float p) { return (float)normcdfinv((double)p); }

// min and max: numbers before NaN for floating types, as on the device.
template <class T, class U>
EMU_INLINE std::common_type_t<T, U> max(T a_, U b_) {
  std::common_type_t<T, U> a = a_, b = b_;
  if constexpr (std::is_floating_point<decltype(a)>::value) return a != a ? b : b != b ? a : a > b ? a : b;
  return a > b ? a : b;
}
template <class T, class U>
EMU_INLINE std::common_type_t<T, U> min(T a_, U b_) {
  std::common_type_t<T, U> a = a_, b = b_;
  if constexpr (std::is_floating_point<decltype(a)>::value) return a != a ? b : b != b ? a : a < b ? a : b;
  return a < b ? a : b;
}
EMU_INLINE unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }
EMU_INLINE unsigned umax(unsigned a, unsigned b) { return a > b ? a : b; }

// The C library has functions of these names, of which it declares some: macros again.
#define __expf expf
#define __exp10f exp10f
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __powf powf
#define __sinf sinf
#define __cosf cosf
#define __tanf tanf
#define __tanhf tanhf
#define __sincosf sincosf
EMU_INLINE float __fdividef(float a, float b) { return a / b; }
EMU_INLINE float fdividef(float a, float b) { return a / b; }
EMU_INLINE float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
EMU_INLINE float __frsqrt_rn(float x) { return rsqrtf(x); }

// Rounding modes other than to nearest are not told apart.
#define EMU_ROUNDED(prefix, T, mode)                                                 \
  EMU_INLINE T prefix##add_##mode(T a, T b) { return a + b; }                        \
  EMU_INLINE T prefix##sub_##mode(T a, T b) { return a - b; }                        \
  EMU_INLINE T prefix##mul_##mode(T a, T b) { return a * b; }                        \
  EMU_INLINE T prefix##div_##mode(T a, T b) { return a / b; }                        \
  EMU_INLINE T prefix##rcp_##mode(T a) { return 1 / a; }                             \
  EMU_INLINE T prefix##sqrt_##mode(T a) { return std::sqrt(a); }
#define EMU_ROUNDINGS(mode)                                                          \
  EMU_ROUNDED(__f, float, mode)                                                      \
  EMU_ROUNDED(__d, double, mode)                                                     \
  EMU_INLINE float __fmaf_##mode(float a, float b, float c) { return fmaf(a, b, c); } \
  EMU_INLINE double __fma_##mode(double a, double b, double c) { return ::fma(a, b, c); }
EMU_ROUNDINGS(rn)
EMU_ROUNDINGS(rz)
EMU_ROUNDINGS(ru)
EMU_ROUNDINGS(rd)

// Conversions to integers saturate and take NaN to 0, as the device's do.
template <class I>
EMU_INLINE I emu_to_integer(double x) {
  const double top = std::ldexp(1.0, sizeof(I) * 8 - std::is_signed<I>::value);
  if (x != x) return 0;
  if (x >= top) return std::is_signed<I>::value ? (I)(~0ull >> (65 - sizeof(I) * 8)) : (I)~0ull;
  if (x <= (std::is_signed<I>::value ? -top : 0.0)) return std::is_signed<I>::value ? (I)(1ull << (sizeof(I) * 8 - 1)) : 0;
  return (I)x;
}
#define EMU_CONVERSIONS(F, from, I, to)                                              \
  EMU_INLINE I __##from##2##to##_rn(F x) { return emu_to_integer<I>(::nearbyint(x)); } \
  EMU_INLINE I __##from##2##to##_rz(F x) { return emu_to_integer<I>(::trunc((double)x)); }   \
  EMU_INLINE I __##from##2##to##_ru(F x) { return emu_to_integer<I>(::ceil((double)x)); }    \
  EMU_INLINE I __##from##2##to##_rd(F x) { return emu_to_integer<I>(::floor((double)x)); }   \
  EMU_INLINE F __##to##2##from##_rn(I x) { return (F)x; }                            \
  EMU_INLINE F __##to##2##from##_rz(I x) { return (F)x; }
EMU_CONVERSIONS(float, float, int, int)
EMU_CONVERSIONS(float, float, unsigned, uint)
EMU_CONVERSIONS(float, float, long long, ll)
EMU_CONVERSIONS(float, float, unsigned long long, ull)
EMU_CONVERSIONS(double, double, int, int)
EMU_CONVERSIONS(double, double, unsigned, uint)
EMU_CONVERSIONS(double, double, long long, ll)
EMU_CONVERSIONS(double, double, unsigned long long, ull)
EMU_INLINE float __double2float_rn(double x) { return (float)x; }
EMU_INLINE float __double2float_rz(double x) { return (float)x; }

template <class To, class From>
EMU_INLINE To emu_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}
EMU_INLINE int __float_as_int(float x) { return emu_bits<int>(x); }
EMU_INLINE unsigned __float_as_uint(float x) { return emu_bits<unsigned>(x); }
EMU_INLINE float __int_as_float(int x) { return emu_bits<float>(x); }
EMU_INLINE float __uint_as_float(unsigned x) { return emu_bits<float>(x); }
EMU_INLINE long long __double_as_longlong(double x) { return emu_bits<long long>(x); }
EMU_INLINE double __longlong_as_double(long long x) { return emu_bits<double>(x); }
EMU_INLINE int __double2hiint(double x) { return (int)(emu_bits<uint64_t>(x) >> 32); }
EMU_INLINE int __double2loint(double x) { return (int)emu_bits<uint64_t>(x); }
EMU_INLINE double __hiloint2double(int high, int low) { return emu_bits<double>((uint64_t)(unsigned)high << 32 | (unsigned)low); }

EMU_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
EMU_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
EMU_INLINE int __clz(int x) { return x ? __builtin_clz(x) : 32; }
EMU_INLINE int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
EMU_INLINE int __ffs(int x) { return __builtin_ffs(x); }
EMU_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
EMU_INLINE unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (x >> i & 1) << (31 - i);
  return r;
}
EMU_INLINE unsigned long long __brevll(unsigned long long x) { return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32)); }
EMU_INLINE unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  uint64_t bytes = (uint64_t)b << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) r |= (unsigned)(bytes >> ((selector >> (4 * i) & 7) * 8) & 0xff) << (8 * i);
  return r;
}
EMU_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n) { return (unsigned)(((uint64_t)high << 32 | low) << (n & 31) >> 32); }
EMU_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned n) { return (unsigned)(((uint64_t)high << 32 | low) >> (n & 31)); }
EMU_INLINE int __mul24(int a, int b) { return (int)((unsigned)(a << 8 >> 8) * (unsigned)(b << 8 >> 8)); }
EMU_INLINE unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
EMU_INLINE int __mulhi(int a, int b) { return (int)((int64_t)a * b >> 32); }
EMU_INLINE unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
EMU_INLINE long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
EMU_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned long long)((unsigned __int128)a * b >> 64); }
EMU_INLINE int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) c += (int)(int8_t)(a >> 8 * i) * (int)(int8_t)(b >> 8 * i);
  return c;
}
EMU_INLINE unsigned __sad(int a, int b, unsigned c) { return (a > b ? (unsigned)a - b : (unsigned)b - a) + c; }
EMU_INLINE unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a > b ? a - b : b - a) + c; }
