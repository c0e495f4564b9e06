// Linked into every kernel image: the storage of its built-in variables and the calls the compiler's
// instrumentation makes.  GCC's -fsanitize=thread puts a call before each access to memory that another thread could
// see, -fsanitize=bounds,alignment where an index or an address is found wrong.  No sanitizer library is linked: the
// calls go to the emulator instead.
#include "abi.hpp"

EmuHooks emu;
EmuIndex emu_thread, emu_block, emu_block_extent, emu_grid_extent;

extern "C" {
alignas(4096) char emu_dynamic_shared[EMU_MAX_DYNAMIC_SHARED];
extern char __start_emu_shared[] __attribute__((weak));
extern char __stop_emu_shared[] __attribute__((weak));
extern const EmuKernel emu_kernels[];
extern const unsigned emu_n_kernels, emu_instrumented;

__attribute__((visibility("default"))) EmuModule plugrad_emulator_module() {
  return {EMU_ABI, emu_instrumented, emu_n_kernels, emu_kernels, &emu, __start_emu_shared, __stop_emu_shared,
          emu_dynamic_shared, &emu_thread, &emu_block, &emu_block_extent, &emu_grid_extent};
}

#define SITE __builtin_return_address(0)
#define ACCESS_FUNCTIONS(size)                                                             \
  void __tsan_read##size(void *p) { emu.access(p, size, EMU_READ, SITE); }                 \
  void __tsan_write##size(void *p) { emu.access(p, size, EMU_WRITE, SITE); }               \
  void __tsan_unaligned_read##size(void *p) { emu.access(p, size, EMU_READ, SITE); }   \
  void __tsan_unaligned_write##size(void *p) { emu.access(p, size, EMU_WRITE, SITE); } \
  void __tsan_volatile_read##size(void *p) { emu.access(p, size, EMU_READ, SITE); }        \
  void __tsan_volatile_write##size(void *p) { emu.access(p, size, EMU_WRITE, SITE); }
ACCESS_FUNCTIONS(1)
ACCESS_FUNCTIONS(2)
ACCESS_FUNCTIONS(4)
ACCESS_FUNCTIONS(8)
ACCESS_FUNCTIONS(16)
void __tsan_read_range(void *p, size_t n) { emu.access(p, n, EMU_READ, SITE); }
void __tsan_write_range(void *p, size_t n) { emu.access(p, n, EMU_WRITE, SITE); }
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}

// Under other names here: the compiler has its own idea of these functions' visibility.
void *checked_memcpy(void *, const void *, size_t) __asm__("memcpy");
void *checked_memmove(void *, const void *, size_t) __asm__("memmove");
void *checked_memset(void *, int, size_t) __asm__("memset");
// Bytes one by one: a GPU has no memcpy to call either.
static void copy(char *to, const char *from, size_t n, const void *site) {
  if (emu_instrumented && n) {
    emu.access(from, n, EMU_READ, site);
    emu.access(to, n, EMU_WRITE, site);
  }
  if (to <= from)
    for (size_t i = 0; i < n; ++i) to[i] = from[i];
  else
    for (size_t i = n; i-- > 0;) to[i] = from[i];
}
void *checked_memcpy(void *to, const void *from, size_t n) { return copy((char *)to, (const char *)from, n, SITE), to; }
void *checked_memmove(void *to, const void *from, size_t n) { return copy((char *)to, (const char *)from, n, SITE), to; }
void *checked_memset(void *to, int value, size_t n) {
  if (emu_instrumented && n) emu.access(to, n, EMU_WRITE, SITE);
  for (size_t i = 0; i < n; ++i) ((char *)to)[i] = (char)value;
  return to;
}

// What the compiler passes, as libubsan declares it.
struct Location { const char *file; unsigned line, column; };
struct TypeName { unsigned short kind, info; char name[1]; };
struct BoundsData { Location location; const TypeName *array, *index; };
struct AlignmentData { Location location; const TypeName *type; unsigned char log_alignment, kind; };

void __ubsan_handle_out_of_bounds(const BoundsData *data, uintptr_t index) {
  emu.bad_index(data->array->name, data->index->info & 1 && data->index->info >> 1 == 5 ? (int)index : (long long)index, SITE);
}
void __ubsan_handle_type_mismatch_v1(const AlignmentData *data, uintptr_t address) {
  emu.misaligned(data->type->name, (const void *)address, (size_t)1 << data->log_alignment, SITE);
}

void __assert_fail(const char *expression, const char *file, unsigned line, const char *) noexcept {
  emu.assertion(expression, file, line);
  __builtin_trap();
}
}
