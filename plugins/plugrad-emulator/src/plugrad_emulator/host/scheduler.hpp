// Runs a grid: blocks one after another, the threads of a block as fibers that switch where they wait.
#pragma once
#include <string>
#include <vector>

#include "modules.hpp"

namespace emu {

enum class Order { forward, reversed, shuffled };

struct Launch {
  CUfunc_st *function;
  EmuIndex grid, block;
  unsigned dynamic_shared;
  std::vector<uint64_t> storage;  // the argument values
  std::vector<void *> arguments;
  Order order;
  unsigned seed;
};

// What runs now; the checks of memory accesses read it.
struct Running {
  const Launch *launch;
  int thread;              // its number in the block
  uint64_t launch_phase, block_phase, phase;  // counted through: a new one with each launch, block and barrier
  uint16_t warp_phase[32];  // a new one with each operation of the warp
};
extern Running running;

CUresult run_grid(const Launch &launch);
[[noreturn]] void abort_kernel(CUresult code, const void *site, const char *text);
const char *keep(const std::string &text);  // for abort_kernel, which frees nothing on its way out
EmuIndex thread_index(int thread);
std::string name_of_thread(int thread);

// By signal: whether a kernel is running on this host thread, and the way out of it.
bool in_kernel();
[[noreturn]] void abort_by_signal(int signal, uintptr_t address, const void *site, bool is_write);

// accesses.cpp
void before_grid(const Launch &launch);
CUresult after_grid(const Launch &launch);
void on_access(const void *address, size_t size, int access, const void *site);
void on_bad_index(const char *array, long long index, const void *site);
void on_misaligned(const char *type, const void *address, size_t alignment, const void *site);
void on_fence(int locks);  // races.cpp

}  // namespace emu
