// Copies and fills.  Ranges are checked when the call is made; the bytes move when the stream gets there.
#include <string.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "diagnostics.hpp"
#include "memory.hpp"
#include "state.hpp"
#include "streams.hpp"

using namespace emu;

namespace {

bool check(const char *what, CUdeviceptr address, size_t size) {
  if (is_device_range(address, size, When::called)) return true;
  diagnose(format("%s of %zu bytes at 0x%llx: %s", what, size, address, describe_address(address, size, When::called).c_str()));
  return false;
}

// Pageable source: the driver stages it during the call.  Pinned: read when the stream gets there.
void queue_upload(CUdeviceptr to, const void *from, size_t size, CUstream stream) {
  if (is_pinned(from, size)) {
    submit(stream, [=] { memcpy((void *)to, from, size); });
  } else {
    auto staged = std::make_shared<std::vector<char>>((const char *)from, (const char *)from + size);
    submit(stream, [=] { memcpy((void *)to, staged->data(), size); });
  }
}

template <class T>
CUresult fill(CUdeviceptr to, size_t pitch, T value, size_t width, size_t height, CUstream stream) {
  if (!width || !height) return CUDA_SUCCESS;
  if (!check("memset", to, (height - 1) * pitch + width * sizeof(T))) return CUDA_ERROR_INVALID_VALUE;
  submit(stream, [=] {
    for (size_t y = 0; y < height; ++y) std::fill_n((T *)(to + y * pitch), width, value);
  });
  return CUDA_SUCCESS;
}

// A box of rows in host or device memory.
struct Box {
  bool on_host;
  char *origin;
  size_t pitch, plane;
};
struct Extent {
  size_t width, height, depth;
  bool empty() const { return !width || !height || !depth; }
};

size_t span(const Box &box, const Extent &e) { return (e.depth - 1) * box.plane + (e.height - 1) * box.pitch + e.width; }

CUresult copy_box(Box to, Box from, Extent extent, CUstream stream, bool wait) {
  if (extent.empty()) return CUDA_SUCCESS;
  if (!from.on_host && !check("copy from the device", (CUdeviceptr)from.origin, span(from, extent))) return CUDA_ERROR_INVALID_VALUE;
  if (!to.on_host && !check("copy to the device", (CUdeviceptr)to.origin, span(to, extent))) return CUDA_ERROR_INVALID_VALUE;
  bool pageable_from = from.on_host && !is_pinned(from.origin, span(from, extent));
  bool pageable_to = to.on_host && !is_pinned(to.origin, span(to, extent));
  std::shared_ptr<std::vector<char>> staged;
  if (pageable_from && !wait) {
    staged = std::make_shared<std::vector<char>>(from.origin, from.origin + span(from, extent));
    from.origin = staged->data();
  }
  submit(stream, [=] {
    (void)staged;
    for (size_t z = 0; z < extent.depth; ++z)
      for (size_t y = 0; y < extent.height; ++y)
        memmove(to.origin + z * to.plane + y * to.pitch, from.origin + z * from.plane + y * from.pitch, extent.width);
  });
  return wait || pageable_to ? finish(stream) : CUDA_SUCCESS;
}

Box box(int type, const void *host, CUdeviceptr device, size_t x, size_t y, size_t z, size_t pitch, size_t height) {
  bool on_host = type == CU_MEMORYTYPE_HOST;
  char *base = on_host ? (char *)host : (char *)device;
  return {on_host, base + (z * height + y) * pitch + x, pitch, pitch * height};
}

CUresult copy_2d(const CUDA_MEMCPY2D &c, CUstream stream, bool wait) {
  if (c.srcMemoryType == CU_MEMORYTYPE_ARRAY || c.dstMemoryType == CU_MEMORYTYPE_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
  return copy_box(box(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstXInBytes, c.dstY, 0, c.dstPitch, 0),
                  box(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcXInBytes, c.srcY, 0, c.srcPitch, 0),
                  {c.WidthInBytes, c.Height, 1}, stream, wait);
}

CUresult copy_3d(const CUDA_MEMCPY3D &c, CUstream stream, bool wait) {
  if (c.srcMemoryType == CU_MEMORYTYPE_ARRAY || c.dstMemoryType == CU_MEMORYTYPE_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
  return copy_box(box(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstXInBytes, c.dstY, c.dstZ, c.dstPitch, c.dstHeight),
                  box(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcXInBytes, c.srcY, c.srcZ, c.srcPitch, c.srcHeight),
                  {c.WidthInBytes, c.Height, c.Depth}, stream, wait);
}

}  // namespace

API cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream) {
  ENTER;
  if (!check("copy to the device", to, size)) return CUDA_ERROR_INVALID_VALUE;
  queue_upload(to, from, size, stream);
  return CUDA_SUCCESS;
}
API cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size) {
  ENTER;
  if (!check("copy to the device", to, size)) return CUDA_ERROR_INVALID_VALUE;
  submit(nullptr, [=] { memcpy((void *)to, from, size); });
  return finish(nullptr);
}
API cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream) {
  ENTER;
  if (!check("copy from the device", from, size)) return CUDA_ERROR_INVALID_VALUE;
  submit(stream, [=] { memcpy(to, (const void *)from, size); });
  return is_pinned(to, size) ? CUDA_SUCCESS : finish(stream);  // into pageable memory the driver waits
}
API cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size) {
  ENTER;
  if (!check("copy from the device", from, size)) return CUDA_ERROR_INVALID_VALUE;
  submit(nullptr, [=] { memcpy(to, (const void *)from, size); });
  return finish(nullptr);
}
API cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  ENTER;
  if (!check("copy from the device", from, size) || !check("copy to the device", to, size)) return CUDA_ERROR_INVALID_VALUE;
  submit(stream, [=] { memmove((void *)to, (const void *)from, size); });
  return CUDA_SUCCESS;
}
API cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size) { return cuMemcpyDtoDAsync_v2(to, from, size, nullptr); }

API cuMemcpy2D_v2(const CUDA_MEMCPY2D *c) {
  ENTER;
  return copy_2d(*c, nullptr, true);
}
API cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *c) { return cuMemcpy2D_v2(c); }
API cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream stream) {
  ENTER;
  return copy_2d(*c, stream, false);
}
API cuMemcpy3D_v2(const CUDA_MEMCPY3D *c) {
  ENTER;
  return copy_3d(*c, nullptr, true);
}
API cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *c, CUstream stream) {
  ENTER;
  return copy_3d(*c, stream, false);
}

#define MEMSET(bits, type)                                                                                          \
  API cuMemsetD##bits##Async(CUdeviceptr to, type value, size_t n, CUstream stream) {                               \
    ENTER;                                                                                                          \
    return fill<type>(to, 0, value, n, 1, stream);                                                                  \
  }                                                                                                                 \
  API cuMemsetD##bits##_v2(CUdeviceptr to, type value, size_t n) { return cuMemsetD##bits##Async(to, value, n, nullptr); } \
  API cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch, type value, size_t w, size_t h, CUstream stream) {     \
    ENTER;                                                                                                          \
    return fill<type>(to, pitch, value, w, h, stream);                                                              \
  }                                                                                                                 \
  API cuMemsetD2D##bits##_v2(CUdeviceptr to, size_t pitch, type value, size_t w, size_t h) {                        \
    return cuMemsetD2D##bits##Async(to, pitch, value, w, h, nullptr);                                               \
  }
MEMSET(8, unsigned char)
MEMSET(16, unsigned short)
MEMSET(32, unsigned)
