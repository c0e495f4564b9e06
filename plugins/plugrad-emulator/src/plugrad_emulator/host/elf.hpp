// The symbols of a shared object, read from its image.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <string>
#include <vector>

namespace emu {

struct Symbol {
  std::string name;
  uintptr_t offset;
  size_t size;
  bool is_function;
};

struct ElfImage {
  std::vector<Symbol> symbols;  // functions and objects, by offset
  size_t extent = 0;            // bytes of address space it takes when loaded

  const Symbol *named(const std::string &name) const;
  const Symbol *at(uintptr_t offset) const;  // the one that holds the offset
};

ElfImage read_elf(const char *image, size_t size);  // throws std::runtime_error

}  // namespace emu
