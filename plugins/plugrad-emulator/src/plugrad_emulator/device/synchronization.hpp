// Barriers, warp functions and fences.
#pragma once
#define EMU_SITE __builtin_return_address(0)
// Always a call, so that the address it came from is in the kernel's own text.
#define EMU_CALL static __attribute__((noinline, unused, no_sanitize("thread")))

EMU_CALL void __syncthreads() { emu.barrier(EMU_SITE); }
EMU_CALL int __syncthreads_count(int p) { return emu.barrier_reduce(EMU_COUNT, p != 0, EMU_SITE); }
EMU_CALL int __syncthreads_and(int p) { return emu.barrier_reduce(EMU_AND, p != 0, EMU_SITE); }
EMU_CALL int __syncthreads_or(int p) { return emu.barrier_reduce(EMU_OR, p != 0, EMU_SITE); }

template <class T>
EMU_CALL T emu_shuffle(unsigned mask, T value, int source) {
  static_assert(sizeof(T) <= 16 && std::is_trivially_copyable<T>::value, "a shuffle moves plain values of up to 16 bytes");
  T result;
  emu.warp(EMU_SHUFFLE, mask, &value, &result, sizeof(T), source, EMU_SITE);
  return result;
}
template <class T>
static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  int lane = emu.lane();
  return emu_shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)));
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  int lane = emu.lane(), source = lane - (int)delta;
  return emu_shuffle(mask, value, source < (lane & ~(width - 1)) ? lane : source);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  int lane = emu.lane(), source = lane + (int)delta;
  return emu_shuffle(mask, value, source > (lane | (width - 1)) ? lane : source);
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  int lane = emu.lane(), source = lane ^ lane_mask;
  return emu_shuffle(mask, value, source > (lane | (width - 1)) ? lane : source);
}

EMU_CALL unsigned __ballot_sync(unsigned mask, int predicate) {
  unsigned result;
  int truth = predicate != 0;
  emu.warp(EMU_BALLOT, mask, &truth, &result, sizeof(int), 0, EMU_SITE);
  return result;
}
EMU_CALL void __syncwarp(unsigned mask = 0xffffffffu) { emu.warp(EMU_SYNC, mask, 0, 0, 0, 0, EMU_SITE); }
static inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
static inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
static inline unsigned __activemask() { return emu.active_mask(); }

template <class T>
static inline unsigned __match_any_sync(unsigned mask, T value) {
  unsigned same = 0;
  for (int lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1 && __shfl_sync(mask, value, lane) == value) same |= 1u << lane;
  return same;
}
template <class T>
static inline unsigned __match_all_sync(unsigned mask, T value, int *all) {
  *all = __all_sync(mask, __shfl_sync(mask, value, __builtin_ctz(mask)) == value);
  return *all ? mask : 0;
}
#define EMU_WARP_REDUCTION(name, expression)                     \
  template <class T>                                             \
  static inline T name(unsigned mask, T value) {                 \
    int first = __builtin_ctz(mask);                             \
    T a = __shfl_sync(mask, value, first);                       \
    for (int lane = first + 1; lane < 32; ++lane)                \
      if (mask >> lane & 1) {                                    \
        T b = __shfl_sync(mask, value, lane);                    \
        a = (expression);                                        \
      }                                                          \
    return a;                                                    \
  }
EMU_WARP_REDUCTION(__reduce_add_sync, a + b)
EMU_WARP_REDUCTION(__reduce_min_sync, b < a ? b : a)
EMU_WARP_REDUCTION(__reduce_max_sync, b > a ? b : a)
EMU_WARP_REDUCTION(__reduce_and_sync, a & b)
EMU_WARP_REDUCTION(__reduce_or_sync, a | b)
EMU_WARP_REDUCTION(__reduce_xor_sync, a ^ b)
#undef EMU_WARP_REDUCTION

static inline void __threadfence() { emu.fence(0); }
static inline void __threadfence_block() { emu.fence(0); }
static inline void __threadfence_system() { emu.fence(0); }
static inline void __nanosleep(unsigned) { emu.yield(); }
EMU_CALL void __trap() { emu.trap(EMU_SITE); }
static inline void __brkpt() {}
EMU_CALL long long clock64() {
  static long long ticks;
  return ++ticks;
}
static inline int emu_clock() { return (int)clock64(); }
#define clock emu_clock
