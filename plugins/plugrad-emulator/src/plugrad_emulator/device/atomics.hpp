// Atomic operations.  One host thread runs a whole grid, so each is a plain read, change and write that reports
// itself as atomic.  One that waits for another thread (a failed compare-and-swap) lets the others run.
#pragma once

#define EMU_ATOMIC(name, expression)                                           \
  template <class T, class U>                                                  \
  static EMU_PLAIN T name(T *address, U operand) {                             \
    emu.access(address, sizeof(T), EMU_ATOMIC, __builtin_return_address(0));   \
    T value = (T)operand, old = *address;                                      \
    *address = (T)(expression);                                                \
    return old;                                                                \
  }
#define EMU_ATOMIC_AND_SCOPED(name, expression) \
  EMU_ATOMIC(name, expression)                  \
  EMU_ATOMIC(name##_block, expression)          \
  EMU_ATOMIC(name##_system, expression)

EMU_ATOMIC_AND_SCOPED(atomicAdd, old + value)
EMU_ATOMIC_AND_SCOPED(atomicSub, old - value)
EMU_ATOMIC_AND_SCOPED(atomicMax, old > value ? old : value)
EMU_ATOMIC_AND_SCOPED(atomicMin, old < value ? old : value)
EMU_ATOMIC_AND_SCOPED(atomicAnd, old & value)
EMU_ATOMIC_AND_SCOPED(atomicOr, old | value)
EMU_ATOMIC_AND_SCOPED(atomicXor, old ^ value)
EMU_ATOMIC_AND_SCOPED(atomicInc, old >= value ? 0 : old + 1)
EMU_ATOMIC_AND_SCOPED(atomicDec, old == 0 || old > value ? value : old - 1)
#undef EMU_ATOMIC_AND_SCOPED
#undef EMU_ATOMIC

template <class T, class U>
static EMU_PLAIN T atomicExch(T *address, U operand) {
  emu.access(address, sizeof(T), EMU_ATOMIC, __builtin_return_address(0));
  T value = (T)operand, old = *address;
  *address = value;
  emu.fence(1);
  if (__builtin_memcmp(&old, &value, sizeof(T)) == 0) emu.yield();
  return old;
}
template <class T, class U, class V>
static EMU_PLAIN T atomicCAS(T *address, U expected_, V operand) {
  emu.access(address, sizeof(T), EMU_ATOMIC, __builtin_return_address(0));
  T expected = (T)expected_, value = (T)operand, old = *address;
  emu.fence(1);
  if (__builtin_memcmp(&old, &expected, sizeof(T)) == 0)
    *address = value;
  else
    emu.yield();
  return old;
}

template <class T>
static inline T __ldg(const T *p) { return *p; }
#define EMU_CACHED_ACCESS(suffix)                        \
  template <class T>                                     \
  static inline T __ld##suffix(const T *p) { return *p; } \
  template <class T>                                     \
  static inline void __st##suffix(T *p, T v) { *p = v; }
EMU_CACHED_ACCESS(cg)
EMU_CACHED_ACCESS(cs)
template <class T>
static inline T __ldca(const T *p) { return *p; }
template <class T>
static inline T __ldlu(const T *p) { return *p; }
template <class T>
static inline T __ldcv(const T *p) { return *p; }
template <class T>
static inline void __stwb(T *p, T v) { *p = v; }
template <class T>
static inline void __stwt(T *p, T v) { *p = v; }
#undef EMU_CACHED_ACCESS
