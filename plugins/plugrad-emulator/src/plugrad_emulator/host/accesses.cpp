// Every access an instrumented kernel makes to memory: is it inside what the kernel may touch?
#include <time.h>

#include "diagnostics.hpp"
#include "fibers.hpp"
#include "memory.hpp"
#include "races.hpp"
#include "scheduler.hpp"
#include "state.hpp"

namespace emu {

namespace {

struct Range {
  uintptr_t begin, end;
};

// Fixed during a launch.
struct {
  Range arena, shared, dynamic, image, stacks, recent[4];
  unsigned next_recent;
  uint64_t accesses;
  time_t deadline;
} grid;

bool holds(const Range &range, uintptr_t p) { return p - range.begin < range.end - range.begin; }

[[noreturn]] void illegal(uintptr_t p, size_t size, int access, const void *site, const std::string &what) {
  const char *verb = access == EMU_READ ? "reads" : access == EMU_WRITE ? "writes" : "atomically changes";
  const char *text = keep(format("%s %zu bytes at 0x%zx: %s", verb, size, (size_t)p, what.c_str()));
  abort_kernel(CUDA_ERROR_ILLEGAL_ADDRESS, site, text);
}

void check_global(uintptr_t p, size_t size, int access, const void *site) {
  for (const Range &r : grid.recent)
    if (p >= r.begin && p + size <= r.end) return;
  const Allocation *a = find_allocation(p);
  if (!a || p + size > a->address + a->size) illegal(p, size, access, site, describe_address(p, size));
  grid.recent[grid.next_recent++ % 4] = {a->address, a->address + a->size};
}

void check_dynamic_shared(uintptr_t p, size_t size, int access, const void *site) {
  unsigned given = running.launch->dynamic_shared;
  size_t offset = p - grid.dynamic.begin;
  if (offset + size > given)
    illegal(p, size, access, site, format("byte %zu of dynamic shared memory, of which the launch gave %u bytes", offset, given));
}

void check_image(uintptr_t p, size_t size, int access, const void *site) {
  if (access == EMU_READ) return;
  const CUmod_st &module = *running.launch->function->module;
  const Symbol *s = module.elf.at(p - module.base);
  if (!s || s->is_function || p + size > module.base + s->offset + s->size)
    illegal(p, size, access, site, "outside every variable of the module (past the end of a shared array?)");
}

void check_deadline(const void *site) {
  if (time(nullptr) > grid.deadline)
    abort_kernel(CUDA_ERROR_LAUNCH_TIMEOUT, site, "the kernel runs too long (PLUGRAD_EMULATOR_TIMEOUT, in seconds)");
}

}  // namespace

void before_grid(const Launch &launch) {
  const CUmod_st &module = *launch.function->module;
  const EmuModule &info = module.info;
  grid.arena = {arena().begin, arena().end};
  grid.shared = {(uintptr_t)info.shared_begin, (uintptr_t)info.shared_end};
  grid.dynamic = {(uintptr_t)info.dynamic_shared, (uintptr_t)info.dynamic_shared + EMU_MAX_DYNAMIC_SHARED};
  grid.image = {module.base, module.base + module.elf.extent};
  for (Range &r : grid.recent) r = {0, 0};
  grid.stacks = {fiber_stacks().first, fiber_stacks().second};
  grid.accesses = 0;
  grid.deadline = time(nullptr) + setting("TIMEOUT", 120);
  start_race_checks(info.shared_end - info.shared_begin);
}

void on_bad_index(const char *array, long long index, const void *site) {
  abort_kernel(CUDA_ERROR_ILLEGAL_ADDRESS, site, keep(format("index %lld is outside the array %s", index, array)));
}

void on_misaligned(const char *type, const void *address, size_t alignment, const void *site) {
  const char *text = keep(format("uses a %s at 0x%zx, which is not a multiple of %zu", type, (size_t)address, alignment));
  abort_kernel(CUDA_ERROR_MISALIGNED_ADDRESS, site, text);
}

void on_access(const void *address, size_t size, int access, const void *site) {
  settle();
  if ((++grid.accesses & 0xFFFFF) == 0) check_deadline(site);
  uintptr_t p = (uintptr_t)address;
  if (holds(grid.arena, p)) {
    check_global(p, size, access, site);
    check_global_race(p, size, access, site);
  } else if (holds(grid.shared, p)) {
    check_shared_race(p - grid.shared.begin, false, size, access, site);
  } else if (holds(grid.dynamic, p)) {
    check_dynamic_shared(p, size, access, site);
    check_shared_race(p - grid.dynamic.begin, true, size, access, site);
  } else if (holds(grid.stacks, p)) {
    return;
  } else if (holds(grid.image, p)) {
    check_image(p, size, access, site);
  } else if (!is_pinned(address, size)) {
    illegal(p, size, access, site, describe_address(p, size));
  }
  if (access == EMU_ATOMIC && p & (size - 1)) on_misaligned("atomic value", address, size, site);
}

// Without instrumentation only what lies right behind and before an argument's allocation can be looked at.
CUresult after_grid(const Launch &launch) {
  if (launch.function->module->info.instrumented) return CUDA_SUCCESS;
  const EmuKernel &kernel = *launch.function->kernel;
  for (unsigned i = 0; i < kernel.n_parameters; ++i) {
    if (!kernel.parameters[i].is_pointer) continue;
    const Allocation *a = find_allocation(*(uintptr_t *)launch.arguments[i]);
    if (!a || slack_intact(*a)) continue;
    diagnose(format("kernel '%s': wrote outside the %zu-byte allocation given as argument %u", kernel.name, a->size, i));
    mend_slack(*a);
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  return CUDA_SUCCESS;
}

}  // namespace emu
