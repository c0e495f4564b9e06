// What every entry point shares: the lock, the settings and the fault of the context.
#pragma once
#include <mutex>

#include "api.hpp"

namespace emu {

std::recursive_mutex &lock();

struct Guard {
  std::lock_guard<std::recursive_mutex> held{lock()};
};

// Value of PLUGRAD_EMULATOR_<name>.
long setting(const char *name, long otherwise);

// A context that faulted stays faulted, as on hardware, until reset().
extern CUresult fault;
extern thread_local int current_contexts;

}  // namespace emu

#define ENTER                                \
  emu::Guard guard;                          \
  if (emu::fault) return emu::fault;         \
  if (!emu::current_contexts) return CUDA_ERROR_INVALID_CONTEXT
