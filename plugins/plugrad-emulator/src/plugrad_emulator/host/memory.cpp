#include "memory.hpp"

#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "diagnostics.hpp"
#include "state.hpp"
#include "streams.hpp"

namespace emu {

static const size_t PAGE = 4096, ALIGNMENT = 256, GIB = (size_t)1 << 30;
static const unsigned char POISON = 0xFF, SLACK = 0xC5;  // 0xFF...: NaN to a float, -1 to an int
static const size_t POISON_ALL_UP_TO = 256 << 20, POISON_ENDS = 16 << 20;
static const size_t REMEMBERED = 4096;  // freed allocations that can still be named

static auto &live = *new std::map<uintptr_t, Allocation>;
static auto &freed = *new std::map<uintptr_t, size_t>;
static auto &variables = *new std::map<uintptr_t, size_t>;
static auto &pinned = *new std::map<uintptr_t, size_t>;
static size_t used;
static uintptr_t cursor;

static void *reserve(size_t size) {
  void *p = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

static Arena make_arena() {
  for (size_t size = 256 * GIB; size >= GIB; size /= 2) {
    void *memory = reserve(size);
    if (!memory) continue;
    size_t cells = size / RECORDED_BYTES * sizeof(WriteRecord);
    void *records = mmap(nullptr, cells, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cursor = (uintptr_t)memory;
    return {cursor, cursor + size, records == MAP_FAILED ? nullptr : (WriteRecord *)records};
  }
  return {0, 0, nullptr};
}

const Arena &arena() {
  static Arena made = make_arena();
  return made;
}

size_t memory_total() {
  static size_t total = (size_t)setting("MEMORY_MB", 8192) << 20;
  return total;
}
size_t memory_used() { return used; }

// First free address from the cursor on.  Freed addresses come back only after the whole range has been used once,
// so that a dangling pointer faults instead of meeting a newer allocation.
static uintptr_t find_gap(size_t size) {
  for (int lap = 0; lap < 2; ++lap, cursor = arena().begin) {
    uintptr_t at = cursor;
    while (at + size <= arena().end) {
      auto next = live.upper_bound(at);
      if (next != live.begin()) {
        const Allocation &before = std::prev(next)->second;
        if (before.mapped + before.mapped_size > at) {
          at = before.mapped + before.mapped_size;
          continue;
        }
      }
      if (next == live.end() || next->second.mapped >= at + size) return at;
      at = next->second.mapped + next->second.mapped_size;
    }
  }
  return 0;
}

static void poison(char *p, size_t size) {
  if (size <= POISON_ALL_UP_TO) {
    memset(p, POISON, size);
  } else {
    memset(p, POISON, POISON_ENDS);
    memset(p + size - POISON_ENDS, POISON, POISON_ENDS);
  }
}

static void resize(Allocation &a, size_t size) {
  a.size = size;
  poison((char *)a.address, size);
  mend_slack(a);
}
void settle_extents() {
  for (auto &entry : live)
    if (entry.second.size != entry.second.requested) resize(entry.second, entry.second.requested);
}

static CUresult allocate(CUdeviceptr *out, size_t size) {
  if (!size) return CUDA_ERROR_INVALID_VALUE;
  if (size > memory_total() || used + size > memory_total()) return CUDA_ERROR_OUT_OF_MEMORY;
  size_t padded = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, body = (padded + PAGE - 1) / PAGE * PAGE;
  uintptr_t gap = find_gap(body + 2 * PAGE);
  if (!gap || mprotect((void *)(gap + PAGE), body, PROT_READ | PROT_WRITE)) return CUDA_ERROR_OUT_OF_MEMORY;
  cursor = gap + body + 2 * PAGE;
  Allocation a{gap + PAGE + body - padded, size, size, size, gap, body + 2 * PAGE};
  poison((char *)a.address, size);
  mend_slack(a);
  live[a.address] = a;
  used += size;
  *out = a.address;
  return CUDA_SUCCESS;
}

static CUresult release(CUdeviceptr pointer) {
  auto it = live.find(pointer);
  if (it == live.end()) {
    diagnose(format("cuMemFree of 0x%llx: %s", pointer, describe_address(pointer, 1, When::called).c_str()));
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Allocation &a = it->second;
  if (!slack_intact(a)) diagnose(format("something wrote outside a %zu-byte allocation during its life", a.size));
  mmap((void *)a.mapped, a.mapped_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (arena().records) {
    const size_t scale = sizeof(WriteRecord) / RECORDED_BYTES;
    madvise((char *)arena().records + (a.mapped - arena().begin) * scale, a.mapped_size * scale, MADV_DONTNEED);
  }
  freed[a.address] = a.size;
  if (freed.size() > REMEMBERED) freed.erase(freed.begin());
  used -= a.taken;
  live.erase(it);
  return CUDA_SUCCESS;
}

// ------------------------------------------------------------------------------------------------------ questions

template <class Map>
static auto holder(Map &ranges, uintptr_t address) {
  auto it = ranges.upper_bound(address);
  return it == ranges.begin() ? ranges.end() : std::prev(it);
}

static size_t size_of(const Allocation &a, When when) { return when == When::runs ? a.size : a.requested; }

const Allocation *find_allocation(uintptr_t address, When when) {
  auto it = holder(live, address);
  return it != live.end() && address < it->second.address + size_of(it->second, when) ? &it->second : nullptr;
}

static bool holds(const std::map<uintptr_t, size_t> &ranges, uintptr_t address, size_t size) {
  auto it = holder(ranges, address);
  return it != ranges.end() && address + size <= it->first + it->second;
}

bool is_device_range(uintptr_t address, size_t size, When when) {
  if (!size) return true;
  const Allocation *a = find_allocation(address, when);
  return a ? address + size <= a->address + size_of(*a, when) : holds(variables, address, size);
}

bool is_pinned(const void *address, size_t size) { return holds(pinned, (uintptr_t)address, size); }

std::string describe_address(uintptr_t address, size_t size, When when) {
  if (address < PAGE) return address ? "near the null pointer" : "the null pointer";
  if (address < arena().begin || address >= arena().end)
    return "not device memory (a host pointer, or an array that is not on the device?)";
  if (const Allocation *a = find_allocation(address, when)) {
    size_t length = size_of(*a, when);
    return format("runs %zu bytes over the end of a %zu-byte allocation", address + size - a->address - length, length);
  }
  auto old = holder(freed, address);
  auto before = holder(live, address);
  bool after_live = before != live.end() && address < before->second.mapped + before->second.mapped_size;
  if (!after_live && old != freed.end() && address < old->first + old->second)
    return format("inside a %zu-byte allocation that has been freed", old->second);
  auto next = live.upper_bound(address);
  size_t below = next == live.end() ? SIZE_MAX : next->first - address;
  size_t length = before == live.end() ? 0 : size_of(before->second, when);
  size_t above = before == live.end() ? SIZE_MAX : address - before->second.address - length;
  if (below == SIZE_MAX && above == SIZE_MAX) return "not in any allocation";
  if (above == 0) return format("right past the end of a %zu-byte allocation", length);
  if (above <= below) return format("%zu bytes past the end of a %zu-byte allocation", above, length);
  return format("%zu bytes before the start of a %zu-byte allocation", below, next->second.size);
}

void register_variable(uintptr_t address, size_t size) { variables[address] = size; }
void forget_variables(uintptr_t begin, uintptr_t end) {
  variables.erase(variables.lower_bound(begin), variables.lower_bound(end));
}

// Slack: what lies between the allocation and the nearest page without access, before it and behind it.
static void for_slack(const Allocation &a, void (*visit)(unsigned char *, unsigned char *, bool &), bool &state) {
  visit((unsigned char *)a.mapped + PAGE, (unsigned char *)a.address, state);
  visit((unsigned char *)a.address + a.size, (unsigned char *)a.mapped + a.mapped_size - PAGE, state);
}
bool slack_intact(const Allocation &a) {
  bool intact = true;
  for_slack(a, [](unsigned char *p, unsigned char *end, bool &ok) {
    ok = ok && std::all_of(p, end, [](unsigned char c) { return c == SLACK; });
  }, intact);
  return intact;
}
void mend_slack(const Allocation &a) {
  bool unused = true;
  for_slack(a, [](unsigned char *p, unsigned char *end, bool &) { std::fill(p, end, SLACK); }, unused);
}

}  // namespace emu

// --------------------------------------------------------------------------------------------------- entry points

using namespace emu;

API cuMemAlloc_v2(CUdeviceptr *out, size_t size) {
  ENTER;
  return allocate(out, size);
}
API cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned) {
  ENTER;
  *pitch = (width + 511) / 512 * 512;
  return allocate(out, *pitch * height);
}
API cuMemAllocManaged(CUdeviceptr *, size_t, unsigned) { return CUDA_ERROR_NOT_SUPPORTED; }
// Waits for all work, as the driver does; works in a faulted context, so that nothing leaks.
API cuMemFree_v2(CUdeviceptr pointer) {
  Guard guard;
  if (!pointer) return CUDA_SUCCESS;
  finish_all();
  return release(pointer);
}
API cuMemGetInfo_v2(size_t *available, size_t *total) {
  ENTER;
  *available = memory_total() - used;
  *total = memory_total();
  return CUDA_SUCCESS;
}
API cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer) {
  ENTER;
  const Allocation *a = find_allocation(pointer, When::called);
  if (!a) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = a->address;
  if (size) *size = a->requested;
  return CUDA_SUCCESS;
}

API cuMemHostAlloc(void **out, size_t size, unsigned) {
  ENTER;
  size = std::max<size_t>(size, 1);
  void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  pinned[(uintptr_t)p] = size;
  *out = p;
  return CUDA_SUCCESS;
}
API cuMemFreeHost(void *p) {
  Guard guard;
  auto it = pinned.find((uintptr_t)p);
  if (it == pinned.end()) return CUDA_ERROR_INVALID_VALUE;
  finish_all();
  munmap(p, it->second);
  pinned.erase(it);
  return CUDA_SUCCESS;
}
API cuMemHostRegister_v2(void *p, size_t size, unsigned) {
  ENTER;
  return pinned.emplace((uintptr_t)p, size).second ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}
API cuMemHostUnregister(void *p) {
  Guard guard;
  finish_all();
  return pinned.erase((uintptr_t)p) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}
API cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *p, unsigned) {
  ENTER;
  if (!is_pinned(p, 1)) return CUDA_ERROR_INVALID_VALUE;
  *out = (CUdeviceptr)p;
  return CUDA_SUCCESS;
}
API cuMemHostGetFlags(unsigned *flags, void *) {
  *flags = 0;
  return CUDA_SUCCESS;
}

// For pools: the block at `pointer` now serves a request of `size` bytes.  What is beyond is out of bounds, what is
// inside is uninitialised.  0 bytes: nothing in the block may be touched.  1 if `pointer` is not an allocation.
// For kernels that holds behind what the stream has queued: other streams have to wait for it.
EMU_EXPORT int plugrad_emulator_set_extent(CUdeviceptr pointer, size_t size, CUstream stream) {
  Guard guard;
  auto it = live.find(pointer);
  if (it == live.end()) return 1;
  Allocation &a = it->second;
  size_t capacity = a.mapped + a.mapped_size - PAGE - a.address;
  if (size > capacity) return 1;
  a.requested = size;
  submit_alone(stream, [pointer, size] { resize(live.at(pointer), size); });  // freeing waits, so it is there
  return 0;
}
