// The toolkit's bfloat16 numbers on the host, and the functions its header gives to nvcc alone.
#pragma once
#include "cuda_fp16.h"
#if !__has_include_next(<cuda_bf16.h>)
#error "cuda_bf16.h comes with CUDA's headers: pip install nvidia-cuda-runtime, or set CUDA_HOME to a toolkit"
#endif
#define memcpy emu_plain_copy
#include_next <cuda_bf16.h>
#undef memcpy
#define EMU_HALF __nv_bfloat16
#define EMU_HALF2 __nv_bfloat162
#define EMU_TO_FLOAT __bfloat162float
#define EMU_FROM_FLOAT __float2bfloat16
#define EMU_PAIR(a, b) __halves2bfloat162(a, b)
#define EMU_LOW __low2bfloat16
#define EMU_HIGH __high2bfloat16
#include "half_functions.hpp"
