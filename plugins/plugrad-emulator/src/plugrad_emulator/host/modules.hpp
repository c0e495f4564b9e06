// Loaded kernel images and their functions.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../device/abi.hpp"
#include "api.hpp"
#include "elf.hpp"

struct CUmod_st {
  void *library;
  int file;  // memory file with the image; its path serves dlopen and addr2line
  std::string path;
  emu::ElfImage elf;
  uintptr_t base;  // where the image is loaded
  EmuModule info;
  std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
};

struct CUfunc_st {
  const EmuKernel *kernel;
  CUmod_st *module;
  std::string name;
  size_t static_shared;
  unsigned max_dynamic_shared;
};

namespace emu {
static const unsigned DEFAULT_SHARED = 49152;
extern const EmuHooks kernel_hooks;  // what images call (scheduler.cpp, accesses.cpp)
// The line of the call that returns to `site`, or "".
std::string source_line(const CUmod_st &module, const void *site);
}  // namespace emu
