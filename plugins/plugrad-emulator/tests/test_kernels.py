"""What a kernel may contain."""

import numpy as np
import pytest
from plugrad_emulator.pytest_plugin import emulated_driver

driver = emulated_driver()


@pytest.fixture
def result(kernel):
    """``result(body, dtype, n)``: what a one-block kernel of n threads with this body left in ``y``."""

    def run(body, dtype=np.float32, n=32, *, before="", grid=1, shared=0, inputs=(), ctype=None):
        ctype = ctype or {np.float32: "float", np.float64: "double", np.int32: "int", np.uint32: "unsigned",
                          np.int64: "long long", np.float16: "__half"}[dtype]  # fmt: skip
        parameters = "".join(f", const {t} *__restrict__ {name}" for name, t, _ in inputs)
        source = (
            f'{before}\nextern "C" __global__ void kernel({ctype} *y{parameters}) {{\n{body}\n}}'
        )
        out = driver.to_device(np.zeros(n * grid, dtype))
        arrays = [driver.to_device(array) for _, _, array in inputs]
        kernel(source)(out, *arrays, grid=(grid, 1), block=(n, 1, 1), shared=shared)
        return driver.from_device(out, n * grid, dtype)

    return run


def test_indices(result):
    body = "y[(blockIdx.x * blockDim.x + threadIdx.x)] = 1000 * gridDim.x + 100 * blockIdx.x + threadIdx.x + blockDim.y + warpSize;"
    expected = np.concatenate([3000 + 100 * b + np.arange(8) + 33 for b in range(3)])
    np.testing.assert_array_equal(result(body, np.int32, 8, grid=3), expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("__shfl_sync(~0u, t, 5)", np.full(32, 5)),
        ("__shfl_sync(~0u, t, 5, 8)", np.arange(32) // 8 * 8 + 5),
        (
            "__shfl_up_sync(~0u, t, 3)",
            np.where(np.arange(32) < 3, np.arange(32), np.arange(32) - 3),
        ),
        (
            "__shfl_down_sync(~0u, t, 3, 16)",
            np.where(np.arange(32) % 16 > 12, np.arange(32), np.arange(32) + 3),
        ),
        ("__shfl_xor_sync(~0u, t, 9)", np.arange(32) ^ 9),
        ("(int)__ballot_sync(~0u, t % 3 == 0)", np.full(32, 0x49249249)),
        ("__any_sync(~0u, t == 31) + 2 * __any_sync(~0u, t == 32)", np.ones(32)),
        ("__all_sync(~0u, t < 32) + 2 * __all_sync(~0u, t < 31)", np.ones(32)),
        ("__reduce_add_sync(~0u, t)", np.full(32, 496)),
        ("__popc(__match_any_sync(~0u, t / 5))", [5] * 30 + [2] * 2),
        ("__syncthreads_count(t < 7)", np.full(32, 7)),
        ("__syncthreads_and(t < 7) + 10 * __syncthreads_or(t < 7)", np.full(32, 10)),
    ],
)
def test_warp_and_block_functions(result, expression, expected):
    np.testing.assert_array_equal(
        result(f"int t = threadIdx.x; y[t] = {expression};", np.int32), expected
    )


def test_part_of_a_warp(result):
    """Lane 7 asks a lane that takes no part: undefined on a GPU, all bits set here."""
    body = "int t = threadIdx.x; y[t] = -1; if (t < 8) y[t] = __shfl_down_sync(0xff, t, 1);"
    np.testing.assert_array_equal(result(body, np.int32), [*range(1, 8), -1, *[-1] * 24])


@pytest.mark.parametrize(
    ("call", "dtype", "expected"),
    [
        ("atomicAdd(y, 2)", np.int32, 64),
        ("atomicAdd(y, 0.5f)", np.float32, 16),
        ("atomicAdd(y, 0.5)", np.float64, 16),
        ("atomicAdd((unsigned long long *)y, 1ull << 33)", np.int64, 32 << 33),
        ("atomicSub(y, 1)", np.int32, -32),
        ("atomicMax(y, (int)threadIdx.x)", np.int32, 31),
        ("atomicMin(y, -(int)threadIdx.x)", np.int32, -31),
        ("atomicOr(y, 1 << (threadIdx.x % 5))", np.int32, 31),
        ("atomicXor(y, 1 << (threadIdx.x % 31))", np.int32, 0x7FFFFFFE),
        ("atomicInc(y, 20u)", np.uint32, 11),
        ("atomicCAS(y, (int)threadIdx.x, (int)threadIdx.x + 1)", np.int32, 32),
    ],
)
def test_atomics(result, call, dtype, expected):
    assert result(f"{call};", dtype)[0] == expected


def test_shared_memory_of_all_kinds(result):
    before = """
template <class T, int N> __device__ T block_sum(T v) {
  __shared__ T s[N];
  s[threadIdx.x] = v;
  __syncthreads();
  T sum = 0;
  for (int i = 0; i < N; ++i) sum += s[i];
  __syncthreads();
  return sum;
}
extern __shared__ __align__(16) unsigned char raw[];
"""
    body = """
  double *d = reinterpret_cast<double *>(raw);
  d[threadIdx.x] = block_sum<int, 32>(threadIdx.x);
  __syncthreads();
  y[threadIdx.x] = d[31 - threadIdx.x] + block_sum<float, 32>(0.25f);"""
    np.testing.assert_array_equal(result(body, shared=256, before=before), np.full(32, 504.0))


def test_kernels_from_macros_namespaces_and_wrapped_templates(kernel):
    source = """
#define UNARY(name, expression) extern "C" __global__ void name(float *y) { float x = y[threadIdx.x]; y[threadIdx.x] = expression; }
UNARY(square, x * x)
namespace inner { template <class T> __global__ void scale(T *y, T a) { y[threadIdx.x] *= a; }
__device__ float three() { return 3; }
extern "C" __global__ void __launch_bounds__(32) triple(float *y) { y[threadIdx.x] *= three(); } }
"""
    y = driver.to_device(np.arange(8, dtype=np.float32))
    kernel(source, "square")(y, grid=(1, 1), block=(8, 1, 1))
    kernel(source, "triple")(y, grid=(1, 1), block=(8, 1, 1))
    np.testing.assert_array_equal(driver.from_device(y, 8, np.float32), 3 * np.arange(8.0) ** 2)


def test_a_kernel_that_is_not_extern_c(emulator):
    module = driver.module_from_buffer(emulator.compile("__global__ void f(int *y) { *y = 1; }"))
    with pytest.raises(driver.LogicError, match="named symbol not found"):
        module.get_function("f")
    assert "its name in the image is '_Z1fPi', as it is on a GPU" in emulator.last_error()
    assert module.get_function("_Z1fPi") is not None


def test_constant_and_device_variables(emulator, context):
    source = """
__constant__ float table[4];
__device__ int counter = 5;
extern "C" __global__ void kernel(float *y) { y[threadIdx.x] = table[threadIdx.x]; if (threadIdx.x == 0) counter += 1; }"""
    module = driver.module_from_buffer(emulator.compile(source))
    address, size = module.get_global("table")
    assert size == 16
    driver.memcpy_htod(address, np.arange(4, dtype=np.float32))
    y = driver.mem_alloc(16)
    module.get_function("kernel")(y, grid=(1, 1), block=(4, 1, 1))
    np.testing.assert_array_equal(driver.from_device(y, 4, np.float32), np.arange(4))
    assert driver.from_device(module.get_global("counter")[0], 1, np.int32)[0] == 6
    with pytest.raises(driver.LogicError, match="invalid argument"):
        driver.memcpy_htod(address, np.zeros(5, np.float32))
    emulator.reset()


def test_vectors(result):
    x = np.arange(128, dtype=np.float32)
    body = """
  float4 v = x[threadIdx.x];
  float2 w = make_float2(v.x + v.y, v.z + v.w);
  static_assert(sizeof(float3) == 12 && alignof(float4) == 16 && alignof(float2) == 8 && sizeof(double2) == 16, "as on the device");
  dim3 d(2);
  y[threadIdx.x] = w.x * w.y + d.x + d.y;"""
    v = x.reshape(32, 4)
    expected = (v[:, 0] + v[:, 1]) * (v[:, 2] + v[:, 3]) + 3
    np.testing.assert_array_equal(result(body, inputs=[("x", "float4", x)]), expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("__expf(x) + __logf(x) + __powf(x, 2.f)", lambda x: np.exp(x) + np.log(x) + x * x),
        ("__fdividef(1.f, x) + rsqrtf(x) + __frcp_rn(x)", lambda x: 2 / x + x**-0.5),
        (
            "fmaxf(x, 2.f) + min(x, 1.f) + max(3, 2)",
            lambda x: np.maximum(x, 2) + np.minimum(x, 1) + 3,
        ),
        ("sinpif(x) * cospi((double)x)", lambda x: np.sin(np.pi * x) * np.cos(np.pi * x)),
        ("erff(erfinvf(x / 4))", lambda x: x / 4),
        ("normcdff(normcdfinvf(x / 4))", lambda x: x / 4),
        ("__saturatef(x - 1)", lambda x: np.clip(x - 1, 0, 1)),
        ("__float2int_rn(x * 10) + __float2int_rd(-x)", lambda x: np.rint(x * 10) + np.floor(-x)),
        ("__int_as_float(__float_as_int(x)) + __ldg(&x)", lambda x: 2 * x),
        ("__fmaf_rn(x, x, 1.f) + __fadd_rn(x, x)", lambda x: x * x + 1 + 2 * x),
    ],
)
def test_arithmetic(result, expression, expected):
    x = np.linspace(0.1, 3.9, 32, dtype=np.float32)
    got = result(
        f"float x = in[threadIdx.x]; y[threadIdx.x] = {expression};", inputs=[("in", "float", x)]
    )
    np.testing.assert_allclose(got, expected(x.astype(np.float64)), rtol=2e-6, atol=1e-6)


def test_integer_intrinsics(result):
    checks = {
        "__popc(255u)": 8, "__clz(1)": 31, "__ffs(8)": 4, "__brev(1u)": 0x80000000, "__umulhi(1u << 31, 6u)": 3,
        "__mulhi(-1, 5)": -1, "__byte_perm(0x03020100u, 0x07060504u, 0x7531u)": 0x07050301, "__mul24(-3, 5)": -15,
        "__funnelshift_l(0x80000000u, 1u, 1)": 3, "__clzll(1ll << 40)": 23, "__float2int_rz(1e20f)": 2**31 - 1,
        "__float2int_rn(__int_as_float(0x7fc00000))": 0, "__dp4a(0x01020304, 0x01010101, 5)": 15,
    }  # fmt: skip
    body = "".join(f"y[{i}] = (long long)({expression});\n" for i, expression in enumerate(checks))
    np.testing.assert_array_equal(result(body, np.int64)[: len(checks)], list(checks.values()))


def test_halves(result, cuda_emulated):
    x = np.linspace(-2, 2, 32).astype(np.float16)
    before = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>"
    body = """
  __half v = x[threadIdx.x];
  __half2 two = __halves2half2(v, __float2half(1.5f));
  two = __hadd2(two, two);
  __half other = __shfl_xor_sync(~0u, v, 1);
  float r = __half2float(__hmul(v, v)) + __low2float(two) + __bfloat162float(__float2bfloat16(1.0f)) + __half2float(hexp(other));
  y[threadIdx.x] = __float2half_rn(r) + __hmax(v, other);"""
    other = x.reshape(16, 2)[:, ::-1].reshape(32)
    exact = [a.astype(np.float64) for a in (x, other)]
    expected = exact[0] ** 2 + 2 * exact[0] + 1 + np.exp(exact[1]) + np.maximum(*exact)
    got = result(body, np.float16, before=before, inputs=[("x", "__half", x)])
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=4e-3, atol=4e-3)


def test_half_atomics(result):
    assert (
        result("atomicAdd(y, __float2half(0.5f));", np.float16, before="#include <cuda_fp16.h>")[0]
        == 16
    )


def test_printf(result, capfd):
    result('if (threadIdx.x < 2) printf("thread %d says %.1f\\n", threadIdx.x, 1.5);')
    assert capfd.readouterr().out == "thread 0 says 1.5\nthread 1 says 1.5\n"


def test_struct_arguments(kernel):
    source = """struct Strides { long long shape[3]; int n; char flag; };
extern "C" __global__ void kernel(long long *y, Strides s, double d, char c) { y[0] = s.shape[2] * 100 + s.n * 10 + s.flag + c + (int)d; }"""
    struct = np.zeros(1, np.dtype([("shape", "i8", 3), ("n", "i4"), ("flag", "i1")], align=True))
    struct["shape"], struct["n"], struct["flag"] = [[1, 2, 3]], 4, 5
    y = driver.mem_alloc(8)
    kernel(source)(y, struct[0], np.float64(1000.5), np.int8(7), grid=(1, 1), block=(1, 1, 1))
    assert driver.from_device(y, 1, np.int64)[0] == 300 + 40 + 5 + 7 + 1000
