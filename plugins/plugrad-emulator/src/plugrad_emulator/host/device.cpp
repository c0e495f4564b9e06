// The device as it describes itself, contexts, and the names of errors.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <vector>

#include "../device/abi.hpp"
#include "diagnostics.hpp"
#include "memory.hpp"
#include "state.hpp"
#include "streams.hpp"

namespace emu {
void forget_last_message();
}

using namespace emu;

struct CUctx_st {
  int references;
};
static CUctx_st primary{0};
static thread_local auto &stack = *new std::vector<CUcontext>;  // outlives the thread's destructors

static void push(CUcontext context) {
  stack.push_back(context);
  current_contexts = (int)stack.size();
}
static void remove_all(CUcontext context) {
  stack.erase(std::remove(stack.begin(), stack.end(), context), stack.end());
  current_contexts = (int)stack.size();
}

static int capability() { return (int)setting("COMPUTE_CAPABILITY", 90); }  // 90 for 9.0

API cuInit(unsigned) { return CUDA_SUCCESS; }
API cuDriverGetVersion(int *version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
// There are none. NVRTC asks any libcuda that its process has opened, and without this function crashes.
API cuGetExportTable(const void **, const void *) { return CUDA_ERROR_NOT_SUPPORTED; }
API cuDeviceGetCount(int *n) {
  *n = 1;
  return CUDA_SUCCESS;
}
API cuDeviceGet(CUdevice *device, int ordinal) {
  if (ordinal) return CUDA_ERROR_INVALID_DEVICE;
  *device = 0;
  return CUDA_SUCCESS;
}
API cuDeviceGetName(char *name, int capacity, CUdevice) {
  snprintf(name, capacity, "Emulated CUDA device (plugrad-emulator)");
  return CUDA_SUCCESS;
}
API cuDeviceComputeCapability(int *major, int *minor, CUdevice) {
  *major = capability() / 10;
  *minor = capability() % 10;
  return CUDA_SUCCESS;
}
API cuDeviceTotalMem_v2(size_t *bytes, CUdevice) {
  *bytes = memory_total();
  return CUDA_SUCCESS;
}
API cuDeviceGetPCIBusId(char *id, int capacity, CUdevice) {
  snprintf(id, capacity, "0000:00:00.0");
  return CUDA_SUCCESS;
}
API cuDeviceGetUuid_v2(char *uuid, CUdevice) {
  memcpy(uuid, "plugrad-emulator", 16);
  return CUDA_SUCCESS;
}
API cuDeviceCanAccessPeer(int *can, CUdevice, CUdevice) {
  *can = 0;
  return CUDA_SUCCESS;
}

API cuDeviceGetAttribute(int *value, int attribute, CUdevice) {
  switch (attribute) {
    case 1: case 2: case 3: *value = 1024; break;                  // threads per block, and along x and y
    case 4: *value = 64; break;                                    // along z
    case 5: *value = 0x7fffffff; break;                            // blocks along x
    case 6: case 7: *value = 65535; break;                         // along y and z
    case 8: *value = 49152; break;                                 // shared memory per block
    case 9: *value = 65536; break;                                 // constant memory
    case 10: *value = 32; break;                                   // warp
    case 11: *value = 0x7fffffff; break;                           // pitch
    case 12: case 82: *value = 65536; break;                       // registers per block and multiprocessor
    case 13: case 36: *value = 1000000; break;                     // clocks, kHz
    case 14: *value = 512; break;                                  // texture alignment
    case 16: *value = (int)setting("MULTIPROCESSORS", 4); break;   // few, so that grid-stride loops do stride
    case 19: case 31: case 40: case 41: *value = 1; break;         // mapping, concurrency, copy engine, one address space
    case 37: *value = 64; break;                                   // memory bus
    case 38: *value = 1 << 20; break;                              // L2
    case 39: *value = 2048; break;                                 // threads per multiprocessor
    case 75: *value = capability() / 10; break;
    case 76: *value = capability() % 10; break;
    case 81: *value = EMU_MAX_DYNAMIC_SHARED + 1024; break;        // shared memory per multiprocessor
    case 97: *value = EMU_MAX_DYNAMIC_SHARED; break;               // per block, on request
    case 106: *value = 32; break;                                  // blocks per multiprocessor
    default: *value = 0;
  }
  return CUDA_SUCCESS;
}

// ------------------------------------------------------------------------------------------------------- contexts

API cuCtxCreate_v2(CUcontext *out, unsigned, CUdevice) {
  Guard guard;
  *out = new CUctx_st{1};
  push(*out);
  return CUDA_SUCCESS;
}
API cuCtxCreate_v4(CUcontext *out, void *, unsigned flags, CUdevice device) { return cuCtxCreate_v2(out, flags, device); }
API cuCtxAttach(CUcontext *out, unsigned) {
  Guard guard;
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *out = stack.back();
  (*out)->references++;
  return CUDA_SUCCESS;
}
API cuCtxDetach(CUcontext context) {
  Guard guard;
  if (--context->references > 0) return CUDA_SUCCESS;
  finish_all();
  remove_all(context);  // the handle is kept: other threads may still have it on their stacks
  return CUDA_SUCCESS;
}
API cuCtxDestroy_v2(CUcontext context) { return cuCtxDetach(context); }
API cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice) {
  Guard guard;
  primary.references++;
  *out = &primary;
  return CUDA_SUCCESS;
}
API cuDevicePrimaryCtxRelease_v2(CUdevice) {
  Guard guard;
  if (primary.references > 0) primary.references--;
  return CUDA_SUCCESS;
}
API cuCtxPushCurrent_v2(CUcontext context) {
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  push(context);
  return CUDA_SUCCESS;
}
API cuCtxPopCurrent_v2(CUcontext *out) {
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (out) *out = stack.back();
  stack.pop_back();
  current_contexts = (int)stack.size();
  return CUDA_SUCCESS;
}
API cuCtxGetCurrent(CUcontext *out) {
  *out = stack.empty() ? nullptr : stack.back();
  return CUDA_SUCCESS;
}
API cuCtxSetCurrent(CUcontext context) {
  if (!stack.empty()) stack.pop_back();
  if (context) stack.push_back(context);
  current_contexts = (int)stack.size();
  return CUDA_SUCCESS;
}
API cuCtxGetDevice(CUdevice *device) {
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *device = 0;
  return CUDA_SUCCESS;
}
API cuCtxGetApiVersion(CUcontext, unsigned *version) {
  *version = 3020;
  return CUDA_SUCCESS;
}
API cuCtxSetLimit(int, size_t) { return CUDA_SUCCESS; }
API cuCtxGetLimit(size_t *value, int) {
  *value = 1024;
  return CUDA_SUCCESS;
}
API cuCtxSetCacheConfig(int) { return CUDA_SUCCESS; }
API cuCtxGetCacheConfig(int *value) {
  *value = 0;
  return CUDA_SUCCESS;
}
API cuCtxGetSharedMemConfig(int *value) {
  *value = 1;
  return CUDA_SUCCESS;
}
API cuCtxSetSharedMemConfig(int) { return CUDA_SUCCESS; }
API cuProfilerStart() { return CUDA_SUCCESS; }
API cuProfilerStop() { return CUDA_SUCCESS; }

EMU_EXPORT void plugrad_emulator_reset() {
  Guard guard;
  drop_all();
  settle_extents();
  fault = CUDA_SUCCESS;
  forget_last_message();
}

// --------------------------------------------------------------------------------------------------------- errors

static const struct { int code; const char *name, *text; } ERRORS[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {710, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region"},
    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
};
API cuGetErrorString(int code, const char **text) {
  for (auto &e : ERRORS)
    if (e.code == code) return *text = e.text, CUDA_SUCCESS;
  *text = "unrecognized error code";
  return CUDA_ERROR_INVALID_VALUE;
}
API cuGetErrorName(int code, const char **name) {
  for (auto &e : ERRORS)
    if (e.code == code) return *name = e.name, CUDA_SUCCESS;
  *name = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

// A function that PyCUDA calls and that is not implemented.
EMU_EXPORT int plugrad_emulator_missing(const char *name) {
  Guard guard;
  diagnose(format("%s is not implemented by the emulated device", name));
  return CUDA_ERROR_NOT_SUPPORTED;
}
