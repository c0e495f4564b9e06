// Finds accesses of two threads to the same bytes, one of them a write, with nothing that orders them.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace emu {

// Whether a write waits to be judged; settle() does it.
extern bool in_doubt;
void judge();
inline void settle() {
  if (in_doubt) judge();
}

void start_race_checks(size_t static_shared);
void check_global_race(uintptr_t address, size_t size, int access, const void *site);
void check_shared_race(size_t offset, bool dynamic, size_t size, int access, const void *site);

}  // namespace emu
