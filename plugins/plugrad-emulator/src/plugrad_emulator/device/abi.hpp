// What a compiled kernel image and the driver know of each other.  Included on both sides; raise EMU_ABI with any change.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define EMU_ABI 2
#define EMU_MAX_DYNAMIC_SHARED 232448  // 227 KiB, as compute capability 9.0

struct EmuIndex {
  unsigned x, y, z;
};

enum EmuAccess { EMU_READ, EMU_WRITE, EMU_ATOMIC };
enum EmuWarpOperation { EMU_SHUFFLE, EMU_BALLOT, EMU_SYNC };
enum EmuReduction { EMU_COUNT, EMU_AND, EMU_OR };

// `site` is the address in the kernel a call came from; it is how a diagnosis finds its source line.
struct EmuHooks {
  void (*barrier)(const void *site);
  int (*barrier_reduce)(int reduction, int predicate, const void *site);
  void (*warp)(int operation, unsigned mask, const void *in, void *out, int size, int source, const void *site);
  unsigned (*lane)();
  unsigned (*active_mask)();
  void (*access)(const void *address, size_t size, int access, const void *site);
  void (*bad_index)(const char *array, long long index, const void *site);
  void (*misaligned)(const char *type, const void *address, size_t alignment, const void *site);
  void (*fence)(int locks);  // other threads' memory is ordered by means the race detector does not follow
  void (*yield)();
  void (*trap)(const void *site);
  void (*assertion)(const char *expression, const char *file, unsigned line);
};

struct EmuParameter {
  unsigned size, alignment, is_pointer;
};

struct EmuKernel {
  const void *address;
  const char *name;  // as written in the source; the name of record is the symbol at `address`
  unsigned n_parameters, max_threads;
  const EmuParameter *parameters;
  void (*invoke)(void **arguments);
};

struct EmuModule {
  unsigned abi, instrumented, n_kernels;
  const EmuKernel *kernels;
  EmuHooks *hooks;
  char *shared_begin, *shared_end, *dynamic_shared;
  EmuIndex *thread, *block, *block_extent, *grid_extent;
};
