"""Each mistake is named, with the kernel, the thread and the line."""

import numpy as np
import pytest
from plugrad_emulator.pytest_plugin import emulated_driver

driver = emulated_driver()

ONE = {"grid": (1, 1), "block": (1, 1, 1)}


@pytest.fixture
def array(emulator):
    memory = driver.mem_alloc(400)
    yield memory
    emulator.reset()
    memory.free()


@pytest.mark.parametrize(
    ("index", "where"),
    [
        (100, "right past the end of a 400-byte allocation"),
        (110, "40 bytes past the end of a 400-byte allocation"),
        (1 << 20, "past the end of a 400-byte allocation"),
        (-1, "4 bytes before the start of a 400-byte allocation"),
        (-1500, "6000 bytes before the start of a 400-byte allocation"),
    ],
)
@pytest.mark.parametrize("access", ["writes", "reads", "atomically changes"])
def test_out_of_bounds(kernel, fails, array, index, where, access):
    body = {
        "writes": "y[i] = 1;",
        "reads": "y[0] = y[i];",
        "atomically changes": "atomicAdd(&y[i], 1.0f);",
    }[access]
    f = kernel(
        f'extern "C" __global__ void kernel(float *y, long i) {{\n  if (threadIdx.x == 3)\n    {body}\n}}'
    )
    error, message = fails(lambda: f(array, np.int64(index), grid=(2, 1), block=(8, 1, 1)))
    assert "illegal memory access" in error
    assert message.startswith(
        f"kernel 'kernel', block (0,0,0), thread (3,0,0), kernel.cu:3: {access} 4 bytes at 0x"
    )
    assert message.endswith(where)


def test_an_access_half_over_the_end(kernel, fails, array):
    f = kernel(
        'extern "C" __global__ void kernel(double *y) { y[49] += y[50 - 1]; ((float2 *)y)[50].x = 1; }'
    )
    _, message = fails(lambda: f(np.uintp(int(array) + 8), **ONE))
    assert "right past the end" in message
    f = kernel(
        '#include <string.h>\nextern "C" __global__ void kernel(char *y) { memset(y + 392, 0, 16); }'
    )
    _, message = fails(lambda: f(array, **ONE))
    assert "runs 8 bytes over the end of a 400-byte allocation" in message


@pytest.mark.parametrize(
    "where", ["__shared__ float s[4];", "float s[4]; s[0] = s[1] = s[2] = s[3] = 0;"]
)
def test_index_outside_an_array(kernel, fails, array, where):
    f = kernel(
        f'extern "C" __global__ void kernel(float *y, int i) {{\n  {where}\n  s[i] = 1;\n  y[0] = s[i & 3];\n}}'
    )
    _, message = fails(lambda: f(array, np.int32(4), **ONE))
    assert message.endswith("kernel.cu:3: index 4 is outside the array 'float [4]'")
    _, message = fails(lambda: f(array, np.int32(-2), **ONE))
    assert message.endswith("index -2 is outside the array 'float [4]'")


def test_the_line_of_an_inlined_function_and_of_a_line_directive(kernel, fails, array):
    source = """#line 41 "their/kernels.cu"
__device__ __forceinline__ void put(float *y, int i) {
  y[i] = 1;
}
extern "C" __global__ void kernel(float *y) {
  put(y, 1000);
}
"""
    _, message = fails(lambda: kernel(source)(array, **ONE))
    assert ", their/kernels.cu:42: writes 4 bytes" in message


def test_host_pointer(kernel, fails):
    f = kernel('extern "C" __global__ void kernel(float *y) { y[0] = 1; }')
    there = np.zeros(4, np.float32)
    error, message = fails(lambda: f(np.uintp(there.ctypes.data), **ONE))
    assert "illegal memory access" in error
    assert "not device memory (a host pointer" in message
    assert there[0] == 0


def test_null_pointer(kernel, fails):
    f = kernel('extern "C" __global__ void kernel(float *y) { y[0] = 1; }')
    _, message = fails(lambda: f(np.uintp(0), **ONE))
    assert message.endswith("the null pointer")


def test_freed_pointer(kernel, fails):
    f = kernel('extern "C" __global__ void kernel(float *y) { y[7] = 1; }')
    memory = driver.mem_alloc(400)
    pointer = int(memory)
    memory.free()
    _, message = fails(lambda: f(np.uintp(pointer), **ONE))
    assert message.endswith("inside a 400-byte allocation that has been freed")


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("*(float *)(y + 2) = 1;", "'float'"),
        ("float4 v = *(float4 *)(y + 4); *(float *)y = v.x;", "'const struct float4'"),
        ("atomicAdd((float *)(y + 2), 1.0f);", "atomic value"),
    ],
)
def test_misaligned(kernel, fails, array, body, what):
    f = kernel(f'extern "C" __global__ void kernel(char *y) {{\n  {body}\n}}')
    error, message = fails(lambda: f(array, **ONE))
    assert "misaligned" in error
    assert f"kernel.cu:2: uses a {what}" in message


def test_divergent_barrier_two_lines(kernel, fails, array):
    source = """extern "C" __global__ void kernel(float *y) {
  if (threadIdx.x < 16) {
    __syncthreads();
    y[threadIdx.x] = 1;
  } else {
    y[threadIdx.x] = 2;
    __syncthreads();
  }
}"""
    f = kernel(source)
    _, message = fails(lambda: f(array, grid=(1, 1), block=(32, 1, 1)))
    assert "divergent barrier" in message
    assert "kernel.cu:3" in message
    assert "kernel.cu:7" in message


def test_divergent_barrier_against_a_warp_function(kernel, fails):
    source = """extern "C" __global__ void kernel() {
  if (threadIdx.x < 16)
    __syncthreads();
  else
    __syncwarp();
}"""
    _, message = fails(lambda: kernel(source)(grid=(1, 1), block=(32, 1, 1)))
    assert (
        "deadlock, 0 threads have ended; 16 wait in a warp function (kernel.cu:5, mask ffffffff)"
        in message
    )
    assert "16 wait at __syncthreads (kernel.cu:3)" in message


def test_a_lane_that_its_mask_leaves_out(kernel, fails):
    f = kernel('extern "C" __global__ void kernel() { __syncwarp(1); }')
    _, message = fails(lambda: f(grid=(1, 1), block=(2, 1, 1)))
    assert "lane 1 calls a warp function with mask 00000001, which leaves it out" in message


def test_static_shared_memory_is_unset(kernel, array):
    source = """extern "C" __global__ void kernel(float *y) {
  __shared__ float s[100];
  if (threadIdx.x < 50) s[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x];
}"""
    kernel(source)(array, grid=(1, 1), block=(100, 1, 1))
    out = driver.from_device(array, 100, np.float32)
    assert (out[:50] == 1).all()
    assert np.isnan(out[50:]).all()


def test_dynamic_shared_memory_is_unset_and_ends_where_the_launch_says(kernel, fails, array):
    source = """extern __shared__ float s[];
extern "C" __global__ void kernel(float *y, int i) {
  y[0] = s[i];
}"""
    f = kernel(source)
    f(array, np.int32(15), grid=(1, 1), block=(1, 1, 1), shared=64)
    assert np.isnan(driver.from_device(array, 1, np.float32)[0])
    _, message = fails(lambda: f(array, np.int32(16), grid=(1, 1), block=(1, 1, 1), shared=64))
    assert message.endswith("byte 64 of dynamic shared memory, of which the launch gave 64 bytes")


def test_device_memory_is_unset(array):
    assert np.isnan(driver.from_device(array, 100, np.float32)).all()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (
            {"grid": (1, 1), "block": (1025, 1, 1)},
            "a block of (1025,1,1) threads; at most (1024,1024,64) and 1024 in all",
        ),
        ({"grid": (1, 1), "block": (32, 64, 1)}, "a block of (32,64,1) threads"),
        ({"grid": (1, 1), "block": (1, 1, 65)}, "a block of (1,1,65) threads"),
        ({"grid": (1, 70000), "block": (1, 1, 1)}, "a grid of (1,70000,1) blocks"),
        ({"grid": (0, 1), "block": (1, 1, 1)}, "a grid of (0,1,1) blocks"),
        (
            {"grid": (1, 1), "block": (1, 1, 1), "shared": 49153},
            "49153 bytes of dynamic and 0 of static shared memory",
        ),
    ],
)
def test_launch_limits(kernel, fails, array, how, said):
    f = kernel('extern "C" __global__ void kernel(float *y) { y[0] = 1; }')
    error, message = fails(lambda: f(array, **how))
    assert "invalid argument" in error
    assert said in message


def test_launch_bounds(kernel, fails, array):
    f = kernel(
        'extern "C" __global__ void __launch_bounds__(64 * 2, 2) kernel(float *y) { y[threadIdx.x % 100] = 1; }'
    )
    assert f.max_threads_per_block == 128
    error, message = fails(lambda: f(array, grid=(1, 1), block=(129, 1, 1)))
    assert "too many resources" in error
    assert "129 threads in a block, __launch_bounds__ says at most 128" in message


def test_more_shared_memory_on_request(kernel, emulator, array):
    f = kernel(
        'extern __shared__ float s[];\nextern "C" __global__ void kernel(float *y) { s[20000] = 2; y[0] = s[20000]; }'
    )
    f.set_attribute(driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, 100_000)
    f(array, grid=(1, 1), block=(1, 1, 1), shared=100_000)
    assert driver.from_device(array, 1, np.float32)[0] == 2


def test_arguments_of_another_size(kernel, fails, array):
    f = kernel('extern "C" __global__ void kernel(float *y, int n) { y[0] = n; }')
    _, message = fails(lambda: f(array, np.int64(3), **ONE))
    assert message == "kernel 'kernel': 16 bytes of arguments, its 2 parameters take 12"
    _, message = fails(lambda: f(array, **ONE))
    assert message == "kernel 'kernel': 8 bytes of arguments, its 2 parameters take 12"


def test_a_faulted_context_stays_faulted_until_reset(kernel, emulator, context, array):
    f = kernel('extern "C" __global__ void kernel(float *y) { y[1000] = 1; }')
    f(array, **ONE)
    for _ in range(2):
        with pytest.raises(driver.LogicError, match="illegal memory access"):
            context.synchronize()
    with pytest.raises(driver.LogicError, match="illegal memory access"):
        driver.mem_alloc(4)
    emulator.reset()
    assert emulator.last_error() == ""
    driver.mem_alloc(4).free()


def test_assert_trap_and_division_by_zero(kernel, fails):
    f = kernel(
        '#include <assert.h>\nextern "C" __global__ void kernel(int n) {\n  assert(n > 2);\n}'
    )
    _, message = fails(lambda: f(np.int32(1), **ONE))
    assert message.endswith("kernel.cu:3: assertion `n > 2` failed")
    f = kernel('extern "C" __global__ void kernel() { __trap(); }')
    assert fails(lambda: f(**ONE))[1].endswith("__trap() was reached")
    f = kernel('__device__ int r; extern "C" __global__ void kernel(int n) { r = 10 / n; }')
    assert "integer division by zero" in fails(lambda: f(np.int32(0), **ONE))[1]


def test_a_full_stack(kernel, fails):
    source = """__device__ __noinline__ int deep(volatile int n) { volatile int a[100]; a[n % 100] = n; return n ? deep(n - 1) + a[n % 100] : 0; }
__device__ int r;
extern "C" __global__ void kernel() { r = deep(100000); }"""
    assert "stack is full" in fails(lambda: kernel(source)(**ONE))[1]


def test_copies_outside(emulator, array):
    with pytest.raises(driver.LogicError, match="invalid argument"):
        driver.memcpy_htod(array, np.zeros(101, np.float32))
    (message,) = emulator.diagnostics()
    assert "copy to the device of 404 bytes" in message
    assert message.endswith("runs 4 bytes over the end of a 400-byte allocation")


def test_an_image_for_a_real_device(emulator):
    with pytest.raises(driver.Error, match="kernel image is invalid"):
        driver.module_from_buffer(b"\x7fELF" + bytes(200))
    assert "is for a real GPU" in emulator.last_error()


def test_without_checks_of_each_access(kernel, fails, array, monkeypatch):
    monkeypatch.setenv("PLUGRAD_EMULATOR_CHECKS", "0")
    f = kernel('extern "C" __global__ void kernel(float *y, int i) { y[i] = 1; }')
    _, message = fails(lambda: f(array, np.int32(100), **ONE))
    assert message == "kernel 'kernel': wrote outside the 400-byte allocation given as argument 0"
    _, message = fails(lambda: f(array, np.int32(1 << 20), **ONE))
    assert "kernel.cu:1: writes to 0x" in message
    _, message = fails(lambda: f(np.uintp(np.zeros(4).ctypes.data), np.int32(0), **ONE))
    assert "pointer argument 0: not device memory" in message


def test_an_explanation_is_of_the_error_that_was_just_raised(emulator, kernel, context):
    f = kernel('extern "C" __global__ void kernel(int *y) { y[0] = 1; }')
    y = driver.mem_alloc(4)
    assert emulator.explain() == ""
    with pytest.raises(driver.Error):
        f(y, grid=(1, 1), block=(2000, 1, 1))
    assert "a block of (2000,1,1)" in emulator.explain()
    assert emulator.explain() == ""
    assert "a block of (2000,1,1)" in emulator.last_error()
    f(np.uint64(8), grid=(1, 1), block=(1, 1, 1))
    with pytest.raises(driver.Error):
        context.synchronize()
    assert emulator.explain() == emulator.explain() != ""  # the context stays as it is
