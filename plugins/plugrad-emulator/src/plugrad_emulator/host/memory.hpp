// Device memory: one reserved range of addresses in which each allocation stands between pages without access.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <string>

#include "api.hpp"

namespace emu {

struct Allocation {
  uintptr_t address;
  size_t size;
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

const Allocation *find_allocation(uintptr_t address);         // the live one that holds the address
bool is_device_range(uintptr_t address, size_t size);         // inside one live allocation or module variable
bool is_pinned(const void *address, size_t size);             // page-locked host memory
std::string describe_address(uintptr_t address, size_t size); // "4 bytes past the end of a 400-byte allocation"
void register_variable(uintptr_t address, size_t size);       // a __device__ or __constant__ variable
void forget_variables(uintptr_t begin, uintptr_t end);

// Bytes of device memory that no kernel may touch but that no page protects: only for uninstrumented kernels.
bool slack_intact(const Allocation &allocation);
void mend_slack(const Allocation &allocation);

}  // namespace emu
