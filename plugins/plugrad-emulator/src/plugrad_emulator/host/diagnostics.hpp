// Messages for the person who wrote the kernel.
#pragma once
#include <stddef.h>

#include <string>

namespace emu {

// Queued for Python and, with PLUGRAD_EMULATOR_VERBOSE=1, printed.
void diagnose(const std::string &message);
__attribute__((format(printf, 1, 2))) std::string format(const char *text, ...);

// "file:line" of an offset in an ELF image on disk (addr2line, so where binutils is installed), or "".
std::string source_line(const std::string &image, size_t offset);
void forget_lines(const std::string &image);

}  // namespace emu
