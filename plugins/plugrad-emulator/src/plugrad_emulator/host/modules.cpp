#include "modules.hpp"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>

#include "diagnostics.hpp"
#include "memory.hpp"
#include "state.hpp"
#include "streams.hpp"

namespace emu {

static const char MAGIC[8] = {'P', 'L', 'U', 'G', 'E', 'M', 'U', EMU_ABI};

std::string source_line(const CUmod_st &module, const void *site) {
  uintptr_t address = (uintptr_t)site - 1;  // a return address belongs to the line of its call
  if (address < module.base || address >= module.base + module.elf.extent) return "";
  return source_line(module.path, address - module.base);
}

static void why_invalid(const char *image) {
  if (!memcmp(image, MAGIC, 7))
    diagnose("the kernel image was compiled by another version of plugrad-emulator: compile it again");
  else if (!memcmp(image, "\x7f" "ELF", 4) || !memcmp(image, "//", 2) || !memcmp(image, ".version", 8))
    diagnose("the kernel image is for a real GPU: on the emulated device compile with plugrad_emulator.compile, "
             "or with its nvcc (see plugrad_emulator.install)");
  else
    diagnose("the kernel image was not made by plugrad_emulator.compile");
}

static void write_all(int file, const char *data, size_t size) {
  while (size) {
    ssize_t n = write(file, data, size);
    if (n <= 0) throw std::runtime_error("cannot write the kernel image to memory");
    data += n;
    size -= n;
  }
}

// Each image gets a file of its own: the loader takes two files of one name for one library.
static std::unique_ptr<CUmod_st> load(const char *elf, size_t size) {
  std::unique_ptr<CUmod_st> m(new CUmod_st{});
  m->elf = read_elf(elf, size);
  m->file = memfd_create("emulated-kernel", MFD_CLOEXEC);
  if (m->file < 0) throw std::runtime_error("cannot create a memory file for the kernel image");
  write_all(m->file, elf, size);
  m->path = format("/proc/%d/fd/%d", (int)getpid(), m->file);
  m->library = dlopen(m->path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!m->library) throw std::runtime_error(dlerror());
  auto get_info = (EmuModule(*)())dlsym(m->library, "plugrad_emulator_module");
  if (!get_info) throw std::runtime_error("the image has no kernel table");
  m->info = get_info();
  if (m->info.abi != EMU_ABI) throw std::runtime_error("compiled by another version of plugrad-emulator");
  link_map *map = nullptr;
  dlinfo(m->library, RTLD_DI_LINKMAP, &map);
  m->base = map->l_addr;
  *m->info.hooks = kernel_hooks;
  return m;
}

// Static shared arrays of one kernel carry its mangled name: _ZZ6kernelPfE5array.
static size_t static_shared_of(const CUmod_st &m, const std::string &kernel) {
  std::string plain = "_ZZ" + std::to_string(kernel.size()) + kernel, mangled = "_ZZ" + kernel.substr(kernel.rfind("_Z", 0) == 0 ? 2 : 0);
  uintptr_t begin = (uintptr_t)m.info.shared_begin - m.base, end = (uintptr_t)m.info.shared_end - m.base;
  size_t total = 0;
  for (const Symbol &s : m.elf.symbols)
    if (s.offset >= begin && s.offset < end && (s.name.rfind(plain, 0) == 0 || s.name.rfind(mangled, 0) == 0)) total += s.size;
  return total;
}

static std::string symbol_name(const CUmod_st &m, const EmuKernel &kernel) {
  const Symbol *symbol = m.elf.at((uintptr_t)kernel.address - m.base);
  return symbol ? symbol->name : kernel.name;
}

}  // namespace emu

using namespace emu;

API cuModuleLoadData(CUmodule *out, const void *image_) {
  ENTER;
  const char *image = (const char *)image_;
  if (memcmp(image, MAGIC, sizeof MAGIC)) {
    why_invalid(image);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  uint64_t size;
  memcpy(&size, image + sizeof MAGIC, sizeof size);
  try {
    *out = load(image + sizeof MAGIC + sizeof size, size).release();
  } catch (const std::exception &error) {
    diagnose(format("cannot load the kernel image: %s", error.what()));
    return CUDA_ERROR_INVALID_IMAGE;
  }
  return CUDA_SUCCESS;
}
API cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned, int *, void **) { return cuModuleLoadData(out, image); }
API cuModuleLoad(CUmodule *out, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) return CUDA_ERROR_NOT_FOUND;
  std::string data;
  char buffer[65536];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, file)) > 0;) data.append(buffer, n);
  fclose(file);
  data.append(sizeof MAGIC, '\0');
  return cuModuleLoadData(out, data.data());
}

API cuModuleUnload(CUmodule m) {
  Guard guard;
  finish_all();
  forget_variables(m->base, m->base + m->elf.extent);
  forget_lines(m->path);
  dlclose(m->library);
  close(m->file);
  delete m;
  return CUDA_SUCCESS;
}

API cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name) {
  ENTER;
  auto known = m->functions.find(name);
  if (known != m->functions.end()) return *out = known->second.get(), CUDA_SUCCESS;
  for (unsigned i = 0; i < m->info.n_kernels; ++i) {
    const EmuKernel &k = m->info.kernels[i];
    std::string symbol = symbol_name(*m, k);
    if (symbol == name) {
      auto function = new CUfunc_st{&k, m, k.name, static_shared_of(*m, symbol), DEFAULT_SHARED};
      m->functions[name].reset(function);
      return *out = function, CUDA_SUCCESS;
    }
    if (!strcmp(k.name, name))
      diagnose(format("kernel '%s' is not declared extern \"C\": its name in the image is '%s', as it is on a GPU", name, symbol.c_str()));
  }
  return CUDA_ERROR_NOT_FOUND;
}

API cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *size, CUmodule m, const char *name) {
  ENTER;
  const Symbol *s = m->elf.named(name);
  if (!s) s = m->elf.named(format("_ZL%zu%s", strlen(name), name));  // static, or const in C++
  if (!s || s->is_function) return CUDA_ERROR_NOT_FOUND;
  if (address) *address = m->base + s->offset;
  if (size) *size = s->size;
  register_variable(m->base + s->offset, s->size);
  return CUDA_SUCCESS;
}

API cuFuncGetAttribute(int *value, int attribute, CUfunction f) {
  ENTER;
  switch (attribute) {
    case 0: *value = (int)f->kernel->max_threads; break;
    case 1: *value = (int)f->static_shared; break;
    case 4: *value = 32; break;
    case 5: case 6: *value = 90; break;
    case 8: *value = (int)f->max_dynamic_shared; break;
    default: *value = 0;
  }
  return CUDA_SUCCESS;
}
API cuFuncSetAttribute(CUfunction f, int attribute, int value) {
  ENTER;
  if (attribute != 8) return CUDA_SUCCESS;
  if (value < 0 || value + f->static_shared > EMU_MAX_DYNAMIC_SHARED) return CUDA_ERROR_INVALID_VALUE;
  f->max_dynamic_shared = (unsigned)value;
  return CUDA_SUCCESS;
}
API cuFuncSetCacheConfig(CUfunction, int) { return CUDA_SUCCESS; }
API cuFuncSetBlockShape(CUfunction, int, int, int) { return CUDA_SUCCESS; }  // PyCUDA calls this before each launch
API cuFuncSetSharedSize(CUfunction, unsigned) { return CUDA_SUCCESS; }
API cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction, int threads, size_t) {
  *blocks = threads > 0 ? 2048 / threads : 0;
  return CUDA_SUCCESS;
}
