// bfloat16 as storage: the upper half of a float. The compiler puts this behind the prelude of texts that name the type.
//
// No header of CUDA's is needed, so that NVRTC alone compiles it. Rounded to nearest, ties to even; NaN stays NaN.
struct bfloat16 { u16 bits; };

PLUGRAD_FN u16 bfloat16_bits(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    u16 bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
#else
    const u32 all = (u32)__float_as_int(x);
    return x != x ? u16(all >> 16 | 0x40) : u16((all + 0x7fff + (all >> 16 & 1)) >> 16);
#endif
}

template <> struct Compute<bfloat16> { typedef float type; };
PLUGRAD_FN float load(const bfloat16 &x) { return __int_as_float((int)((u32)x.bits << 16)); }
template <class C> PLUGRAD_FN void store(bfloat16 &to, C value) { to.bits = bfloat16_bits((float)value); }
