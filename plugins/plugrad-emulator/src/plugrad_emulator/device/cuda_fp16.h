// The toolkit's half numbers on the host, and the functions its header gives to nvcc alone.
#pragma once
#if !__has_include_next(<cuda_fp16.h>)
#error "cuda_fp16.h comes with CUDA's headers: pip install nvidia-cuda-runtime, or set CUDA_HOME to a toolkit"
#endif
#define memcpy emu_plain_copy
#include_next <cuda_fp16.h>
#undef memcpy
#define EMU_HALF __half
#define EMU_HALF2 __half2
#define EMU_TO_FLOAT __half2float
#define EMU_FROM_FLOAT __float2half
#define EMU_PAIR(a, b) __halves2half2(a, b)
#define EMU_LOW __low2half
#define EMU_HIGH __high2half
#include "half_functions.hpp"
#define EMU_CONVERT(I, name)                                                               \
  EMU_INLINE I __half2##name##_rn(__half x) { return emu_to_integer<I>(::nearbyintf(__half2float(x))); } \
  EMU_INLINE I __half2##name##_ru(__half x) { return emu_to_integer<I>(::ceilf(__half2float(x))); }      \
  EMU_INLINE I __half2##name##_rd(__half x) { return emu_to_integer<I>(::floorf(__half2float(x))); }
EMU_CONVERT(int, int)
EMU_CONVERT(unsigned, uint)
EMU_CONVERT(short, short)
EMU_CONVERT(unsigned short, ushort)
EMU_CONVERT(long long, ll)
EMU_CONVERT(unsigned long long, ull)
#undef EMU_CONVERT
