// The entry points of cuBLAS that plugrad calls, on host memory: what the library documents, checked and computed plainly.
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

enum { INVALID_VALUE = 7 };
enum { FLOAT = 0, DOUBLE = 1, HALF = 2, BFLOAT = 14 };
enum { FLOAT_SUMS = 68, DOUBLE_SUMS = 70, TF32_SUMS = 77 };

struct Handle { int mode, streams, sums, calls; void *stream; } handle;

float from_half(uint16_t bits) {
    _Float16 x;
    std::memcpy(&x, &bits, 2);
    return static_cast<float>(x);
}
uint16_t to_half(float value) {
    const _Float16 x = static_cast<_Float16>(value);
    uint16_t bits;
    std::memcpy(&bits, &x, 2);
    return bits;
}
float from_bfloat(uint16_t bits) {
    const uint32_t all = uint32_t(bits) << 16;
    float x;
    std::memcpy(&x, &all, 4);
    return x;
}
uint16_t to_bfloat(float value) {
    uint32_t all;
    std::memcpy(&all, &value, 4);
    return uint16_t((all + 0x7fff + (all >> 16 & 1)) >> 16);
}
double load(const void *p, int type, long long i) {
    if (type == DOUBLE) return static_cast<const double *>(p)[i];
    if (type == BFLOAT) return from_bfloat(static_cast<const uint16_t *>(p)[i]);
    return type == FLOAT ? static_cast<const float *>(p)[i] : from_half(static_cast<const uint16_t *>(p)[i]);
}
void store(void *p, int type, long long i, double value) {
    if (type == DOUBLE) static_cast<double *>(p)[i] = value;
    else if (type == FLOAT) static_cast<float *>(p)[i] = static_cast<float>(value);
    else if (type == BFLOAT) static_cast<uint16_t *>(p)[i] = to_bfloat(static_cast<float>(value));
    else static_cast<uint16_t *>(p)[i] = to_half(static_cast<float>(value));
}
int at_least_one(int n) { return n > 1 ? n : 1; }

}  // namespace

extern "C" {

int cublasCreate_v2(void **made) { handle = Handle{}; *made = &handle; return 0; }
int cublasGetVersion_v2(void *, int *version) { *version = 130000; return 0; }
int cublasSetStream_v2(void *, void *stream) { handle.stream = stream; ++handle.streams; return 0; }
int cublasSetMathMode(void *, int mode) { handle.mode = mode; return 0; }

int cublasGemmStridedBatchedEx(
    void *of, int a_op, int b_op, int m, int n, int k, const void *alpha, const void *a, int a_type, int lda, long long a_step,
    const void *b, int b_type, int ldb, long long b_step, const void *beta, void *c, int c_type, int ldc, long long c_step,
    int count, int sums, int
) {
    const bool twice = c_type == DOUBLE;
    if (of != &handle || m < 0 || n < 0 || k < 0 || count < 0 || a_type != c_type || b_type != c_type) return INVALID_VALUE;
    if (lda < at_least_one(a_op ? k : m) || ldb < at_least_one(b_op ? n : k) || ldc < at_least_one(m)) return INVALID_VALUE;
    if (twice != (sums == DOUBLE_SUMS) || (sums == TF32_SUMS && c_type != FLOAT)) return INVALID_VALUE;
    const double one = twice ? *static_cast<const double *>(alpha) : *static_cast<const float *>(alpha);
    const double old = twice ? *static_cast<const double *>(beta) : *static_cast<const float *>(beta);
    handle.sums = sums;
    ++handle.calls;
    for (int q = 0; q < count; ++q)
        for (int j = 0; j < n; ++j)
            for (int i = 0; i < m; ++i) {
                double sum = 0;
                for (int p = 0; p < k; ++p)
                    sum += load(a, a_type, q * a_step + (a_op ? p + (long long)i * lda : i + (long long)p * lda)) *
                           load(b, b_type, q * b_step + (b_op ? j + (long long)p * ldb : p + (long long)j * ldb));
                const long long to = q * c_step + i + (long long)j * ldc;
                store(c, c_type, to, one * sum + (old != 0 ? old * load(c, c_type, to) : 0));
            }
    return 0;
}

// What a test may look at.
int fake_mode() { return handle.mode; }
int fake_sums() { return handle.sums; }
int fake_calls() { return handle.calls; }
void *fake_stream() { return handle.stream; }

}
