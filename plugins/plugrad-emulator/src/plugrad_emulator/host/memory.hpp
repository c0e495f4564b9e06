// Device memory: one reserved range of addresses in which each allocation stands between pages without access.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <string>

#include "api.hpp"

namespace emu {

struct Allocation {
  uintptr_t address;
  size_t taken;      // what was allocated, and counts as used
  size_t size;       // as kernels find it: a new extent holds from its place in its stream on
  size_t requested;  // as calls of the host find it: a new extent holds at once
  uintptr_t mapped;  // with its guard pages
  size_t mapped_size;
};

// One cell for each four bytes of device memory: who wrote them last (races.cpp).
struct WriteRecord {
  uint64_t phase;
  uint16_t thread, warp_phase;
  uint8_t bytes, atomic;
};

struct Arena {
  uintptr_t begin, end;
  WriteRecord *records;  // null where so much address space cannot be had
};
const Arena &arena();
static const size_t RECORDED_BYTES = 4;

size_t memory_total();
size_t memory_used();

// The size an allocation has for work that runs, or for a call of the host, whose work is queued.
enum class When { runs, called };
const Allocation *find_allocation(uintptr_t address, When when = When::runs);         // the live one that holds the address
bool is_device_range(uintptr_t address, size_t size, When when = When::runs);         // inside one live allocation or variable
bool is_pinned(const void *address, size_t size);             // page-locked host memory
std::string describe_address(uintptr_t address, size_t size, When when = When::runs); // "4 bytes past the end of a 400-byte allocation"
void register_variable(uintptr_t address, size_t size);       // a __device__ or __constant__ variable
void forget_variables(uintptr_t begin, uintptr_t end);
void settle_extents();  // after queued work was dropped

// Bytes of device memory that no kernel may touch but that no page protects: only for uninstrumented kernels.
bool slack_intact(const Allocation &allocation);
void mend_slack(const Allocation &allocation);

}  // namespace emu
