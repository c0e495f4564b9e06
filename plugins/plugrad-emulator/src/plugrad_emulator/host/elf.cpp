#include "elf.hpp"

#include <elf.h>
#include <string.h>

#include <algorithm>
#include <stdexcept>

namespace emu {

ElfImage read_elf(const char *image, size_t size) {
  const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
  if (size < sizeof *header || memcmp(image, ELFMAG, SELFMAG) || image[EI_CLASS] != ELFCLASS64)
    throw std::runtime_error("not a 64-bit ELF image");
  if (header->e_shoff + header->e_shnum * sizeof(Elf64_Shdr) > size || header->e_phoff + header->e_phnum * sizeof(Elf64_Phdr) > size)
    throw std::runtime_error("truncated ELF image");
  ElfImage result;
  const Elf64_Phdr *segments = (const Elf64_Phdr *)(image + header->e_phoff);
  for (int i = 0; i < header->e_phnum; ++i)
    if (segments[i].p_type == PT_LOAD) result.extent = std::max<size_t>(result.extent, segments[i].p_vaddr + segments[i].p_memsz);
  const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + header->e_shoff);
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const Elf64_Sym *table = (const Elf64_Sym *)(image + sections[i].sh_offset);
    const char *names = image + sections[sections[i].sh_link].sh_offset;
    for (size_t k = 0; k < sections[i].sh_size / sizeof *table; ++k) {
      int type = ELF64_ST_TYPE(table[k].st_info);
      if ((type != STT_FUNC && type != STT_OBJECT) || table[k].st_shndx == SHN_UNDEF) continue;
      result.symbols.push_back({names + table[k].st_name, table[k].st_value, table[k].st_size, type == STT_FUNC});
    }
  }
  std::sort(result.symbols.begin(), result.symbols.end(), [](auto &a, auto &b) { return a.offset < b.offset; });
  return result;
}

const Symbol *ElfImage::named(const std::string &name) const {
  for (const Symbol &s : symbols)
    if (s.name == name) return &s;
  return nullptr;
}

const Symbol *ElfImage::at(uintptr_t offset) const {
  auto it = std::upper_bound(symbols.begin(), symbols.end(), offset, [](uintptr_t o, const Symbol &s) { return o < s.offset; });
  while (it != symbols.begin()) {
    --it;
    if (offset < it->offset + std::max<size_t>(it->size, 1)) return &*it;
    if (it->offset < offset && it->size) break;
  }
  return nullptr;
}

}  // namespace emu
