// Read before every kernel source (as a precompiled header): what nvcc has built in.
// EMU_GLOBAL, EMU_SHARED and EMU_BOUNDS are markers that _rewrite.py looks for in the preprocessed text.
#pragma once
#include <assert.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmath>
#include <type_traits>
#include <utility>

#include "abi.hpp"
#include "vectors.hpp"

#define __PLUGRAD_EMULATOR__ 1
#define __global__ EMU_GLOBAL
#define __shared__ EMU_SHARED
#define __launch_bounds__ EMU_BOUNDS
#define __device__
#define __host__
#define __managed__
#define __grid_constant__
#define __constant__ __attribute__((used))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_assume(condition) ((void)0)
#define __builtin_align__(n) __attribute__((aligned(n)))

// Not seen by the instrumentation: they report what they touch themselves, at their caller's address.
#define EMU_PLAIN __attribute__((noinline, no_sanitize("thread", "alignment")))

extern EmuHooks emu;
extern EmuIndex emu_thread, emu_block, emu_block_extent, emu_grid_extent;
#define threadIdx (*(const uint3 *)&emu_thread)
#define blockIdx (*(const uint3 *)&emu_block)
#define blockDim (*(const dim3 *)&emu_block_extent)
#define gridDim (*(const dim3 *)&emu_grid_extent)
static const int warpSize = 32;

// For headers that look at the bits of their own numbers: no access of the kernel's.
static inline __attribute__((always_inline)) void *emu_plain_copy(void *to, const void *from, size_t n) {
  return __builtin_memcpy(to, from, n);
}
namespace std {
using ::emu_plain_copy;
}

#include "synchronization.hpp"
#include "atomics.hpp"
#include "arithmetic.hpp"
#include "registration.hpp"
