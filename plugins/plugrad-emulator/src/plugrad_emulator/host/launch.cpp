// cuLaunchKernel: what can be checked before anything runs, then the launch is queued.
#include <string.h>

#include <memory>

#include "diagnostics.hpp"
#include "memory.hpp"
#include "scheduler.hpp"
#include "state.hpp"
#include "streams.hpp"

namespace emu {

static Order order = Order::forward;
static unsigned seed = 1;

static Order order_named(const char *name) {
  return !name ? Order::forward : !strcmp(name, "reversed") ? Order::reversed : !strcmp(name, "shuffled") ? Order::shuffled : Order::forward;
}
static const bool order_from_environment = [] {
  order = order_named(getenv("PLUGRAD_EMULATOR_ORDER"));
  seed = (unsigned)setting("SEED", 1);
  return true;
}();

static const EmuIndex MOST_BLOCKS = {0x7fffffff, 65535, 65535}, MOST_THREADS = {1024, 1024, 64};

static bool within(EmuIndex v, EmuIndex most) {
  return v.x && v.y && v.z && v.x <= most.x && v.y <= most.y && v.z <= most.z;
}

static CUresult check_shape(const CUfunc_st &f, EmuIndex grid, EmuIndex block, unsigned dynamic) {
  const char *name = f.name.c_str();
  if (!within(grid, MOST_BLOCKS)) {
    diagnose(format("kernel '%s': a grid of (%u,%u,%u) blocks; each number must be at least 1 and at most (2147483647,65535,65535)",
                    name, grid.x, grid.y, grid.z));
    return CUDA_ERROR_INVALID_VALUE;
  }
  uint64_t threads = (uint64_t)block.x * block.y * block.z;
  if (!within(block, MOST_THREADS) || threads > 1024) {
    diagnose(format("kernel '%s': a block of (%u,%u,%u) threads; at most (1024,1024,64) and 1024 in all", name, block.x, block.y, block.z));
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (threads > f.kernel->max_threads) {
    diagnose(format("kernel '%s': %zu threads in a block, __launch_bounds__ says at most %u", name, (size_t)threads, f.kernel->max_threads));
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  }
  if (f.static_shared > DEFAULT_SHARED) {
    diagnose(format("kernel '%s': %zu bytes of static shared memory, at most %u", name, f.static_shared, DEFAULT_SHARED));
    return CUDA_ERROR_INVALID_VALUE;
  }
  size_t limit = f.max_dynamic_shared > DEFAULT_SHARED ? EMU_MAX_DYNAMIC_SHARED : DEFAULT_SHARED;
  if (dynamic > f.max_dynamic_shared || dynamic + f.static_shared > limit) {
    diagnose(format("kernel '%s': %u bytes of dynamic and %zu of static shared memory, at most %zu together (more, up to %u, after "
                    "MAX_DYNAMIC_SHARED_SIZE_BYTES is set)", name, dynamic, f.static_shared, limit, EMU_MAX_DYNAMIC_SHARED));
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

static size_t aligned(size_t offset, size_t alignment) { return (offset + alignment - 1) / alignment * alignment; }

// Copies the argument values into the launch: from one packed buffer, or from a pointer for each.
static bool take_arguments(Launch &launch, void **parameters, void **extra) {
  const EmuKernel &k = *launch.function->kernel;
  std::vector<size_t> offsets(k.n_parameters);
  size_t size = 0;
  for (unsigned i = 0; i < k.n_parameters; ++i) {
    offsets[i] = aligned(size, k.parameters[i].alignment);
    size = offsets[i] + k.parameters[i].size;
  }
  launch.storage.resize(size / sizeof(uint64_t) + 3);
  char *storage = (char *)aligned((size_t)launch.storage.data(), 16);
  const char *packed = nullptr;
  if (extra) {
    size_t given = 0;
    for (; *extra; extra += 2) {
      if (*extra == (void *)1) packed = (const char *)extra[1];
      if (*extra == (void *)2) given = *(size_t *)extra[1];
    }
    if (given != size) {
      diagnose(format("kernel '%s': %zu bytes of arguments, its %u parameters take %zu", launch.function->name.c_str(), given,
                      k.n_parameters, size));
      return false;
    }
    if (size) memcpy(storage, packed, size);
  }
  launch.arguments.resize(k.n_parameters + 1);
  for (unsigned i = 0; i < k.n_parameters; ++i) {
    if (!extra) memcpy(storage + offsets[i], parameters[i], k.parameters[i].size);
    launch.arguments[i] = storage + offsets[i];
  }
  return true;
}

// Instrumented kernels are checked where they use a pointer.
static bool pointers_ok(const Launch &launch) {
  const EmuKernel &k = *launch.function->kernel;
  if (launch.function->module->info.instrumented) return true;
  for (unsigned i = 0; i < k.n_parameters; ++i) {
    if (!k.parameters[i].is_pointer) continue;
    uintptr_t p = *(uintptr_t *)launch.arguments[i];
    if (!p || is_device_range(p, 1) || is_pinned((void *)p, 1)) continue;
    diagnose(format("kernel '%s': pointer argument %u: %s", launch.function->name.c_str(), i, describe_address(p, 1).c_str()));
    return false;
  }
  return true;
}

}  // namespace emu

using namespace emu;

API cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned dynamic,
                   CUstream stream, void **parameters, void **extra) {
  ENTER;
  auto launch = std::make_shared<Launch>();
  launch->function = f;
  launch->grid = {gx, gy, gz};
  launch->block = {bx, by, bz};
  launch->dynamic_shared = dynamic;
  launch->order = order;
  launch->seed = seed;
  if (CUresult bad = check_shape(*f, launch->grid, launch->block, dynamic)) return bad;
  if (!take_arguments(*launch, parameters, extra)) return CUDA_ERROR_INVALID_VALUE;
  submit(stream, [launch] { fault = pointers_ok(*launch) ? run_grid(*launch) : CUDA_ERROR_ILLEGAL_ADDRESS; });
  return CUDA_SUCCESS;
}

// "forward", "reversed" or "shuffled"; the name of the order until now.
EMU_EXPORT const char *plugrad_emulator_set_order(const char *name, unsigned new_seed) {
  Guard guard;
  static const char *const names[] = {"forward", "reversed", "shuffled"};
  const char *before = names[(int)order];
  order = order_named(name);
  if (new_seed) seed = new_seed;
  return before;
}
