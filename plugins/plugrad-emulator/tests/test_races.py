"""Missing barriers and atomics: by looking at accesses, and by running threads in other orders."""

import numpy as np
import pytest
from plugrad_emulator.pytest_plugin import emulated_driver

driver = emulated_driver()

REDUCTION = """
extern "C" __global__ void kernel(float *y, const float *x) {
  __shared__ float s[256];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * 256 + t];
  BARRIER
  for (int k = 128; k > 0; k >>= 1) {
    if (t < k) s[t] += s[t + k];
    BARRIER
  }
  if (t == 0) y[blockIdx.x] = s[0];
}
"""


@pytest.fixture
def reduce(kernel):
    x = np.random.default_rng(3).integers(0, 100, 1024).astype(np.float32)

    def run(barrier):
        f = kernel(REDUCTION, options=[f"-DBARRIER={barrier}"])
        into, source = driver.mem_alloc(16), driver.to_device(x)

        def launch():
            f(into, source, grid=(4, 1), block=(256, 1, 1))
            return driver.from_device(into, 4, np.float32)

        return launch, x.reshape(4, 256).sum(1)

    return run


def test_right_in_every_order(reduce, emulator):
    launch, expected = reduce("__syncthreads();")
    np.testing.assert_array_equal(emulator.in_every_order(launch), expected)


def test_a_missing_barrier_is_a_race(reduce, fails):
    launch, _ = reduce("")
    error, message = fails(launch)
    assert "unspecified launch failure" in error
    assert (
        "kernel.cu:5: race in shared memory: writes bytes that thread (0,0,0) read (kernel.cu:8)"
        in message
    )
    assert "with no __syncthreads() between" in message


def test_a_missing_barrier_shows_in_another_order(reduce, emulator):
    launch, expected = reduce("")
    with emulator.races(False):
        with emulator.order("reversed"):
            backwards = launch()
        with emulator.order("forward"):
            assert not np.array_equal(launch(), backwards)
        with pytest.raises(
            emulator.OrderError, match="a barrier or an atomic operation is missing"
        ):
            emulator.in_every_order(launch)
    del expected


def test_warp_synchronous_code_is_a_race(kernel, fails):
    source = """
extern "C" __global__ void kernel() {
  __shared__ volatile float s[64];
  s[threadIdx.x] = threadIdx.x;
  s[threadIdx.x] += s[(threadIdx.x + 16) % 32];
}"""
    _, message = fails(lambda: kernel(source)(grid=(1, 1), block=(32, 1, 1)))
    assert "race in shared memory" in message


def test_a_warp_barrier_orders_its_lanes(kernel, context):
    source = """
extern "C" __global__ void kernel() {
  __shared__ float s[32];
  s[threadIdx.x] = threadIdx.x;
  __syncwarp();
  float v = s[31 - threadIdx.x];
  __syncwarp();
  s[threadIdx.x] = v;
}"""
    kernel(source)(grid=(1, 1), block=(32, 1, 1))
    context.synchronize()


def test_writes_without_atomics(kernel, fails, context):
    memory = driver.mem_alloc(4)
    driver.memset_d32(memory, 0, 1)
    f = kernel('extern "C" __global__ void kernel(int *y) {\n  y[0] += 1;\n}')
    _, message = fails(lambda: f(memory, grid=(1, 1), block=(2, 1, 1)))
    assert (
        "thread (1,0,0), kernel.cu:2: race in device memory: reads bytes that thread (0,0,0) of this block wrote"
        in message
    )
    _, message = fails(lambda: f(memory, grid=(2, 1), block=(1, 1, 1)))
    assert "a thread of another block wrote" in message
    driver.memset_d32(memory, 0, 1)
    atomic = kernel('extern "C" __global__ void kernel(int *y) { atomicAdd(y, 1); }')
    atomic(memory, grid=(3, 1), block=(50, 1, 1))
    assert driver.from_device(memory, 1, np.int32)[0] == 150


def test_writing_one_value_from_many_threads_is_no_race(kernel, fails):
    memory = driver.mem_alloc(4)
    same = kernel('extern "C" __global__ void kernel(int *y) { y[0] = 7; }')
    same(memory, grid=(3, 1), block=(64, 1, 1))
    assert driver.from_device(memory, 1, np.int32)[0] == 7
    other = kernel('extern "C" __global__ void kernel(int *y) { y[0] = threadIdx.x / 40; }')
    _, message = fails(lambda: other(memory, grid=(1, 1), block=(64, 1, 1)))
    assert "race in device memory: writes bytes that thread (39,0,0) of this block wrote" in message


def test_neighbouring_halves_are_no_race(kernel, context):
    memory = driver.mem_alloc(512)
    f = kernel('extern "C" __global__ void kernel(short *y) { y[threadIdx.x] = threadIdx.x; }')
    f(memory, grid=(1, 1), block=(256, 1, 1))
    np.testing.assert_array_equal(driver.from_device(memory, 256, np.int16), np.arange(256))


def test_the_last_block_may_read_what_others_wrote_before_a_fence(kernel, emulator):
    source = """
extern "C" __global__ void kernel(int *total, int *parts, unsigned *counter) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = blockIdx.x + 1;
    __threadfence();
    last = atomicAdd(counter, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    int sum = 0;
    for (int i = 0; i < gridDim.x; ++i) sum += parts[i];
    *total = sum;
  }
}"""
    f, total, parts, counter = (
        kernel(source),
        driver.mem_alloc(4),
        driver.mem_alloc(40),
        driver.mem_alloc(4),
    )

    def launch():
        driver.memset_d32(counter, 0, 1)
        f(total, parts, counter, grid=(10, 1), block=(32, 1, 1))
        return driver.from_device(total, 1, np.int32)

    assert emulator.in_every_order(launch)[0] == 55


def test_a_lock_does_not_hang(kernel, context):
    source = """
extern "C" __global__ void kernel(int *lock, int *y) {
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      y[0] += 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}"""
    memory = driver.to_device(np.zeros(2, np.int32))
    kernel(source)(memory, np.uintp(int(memory) + 4), grid=(2, 1), block=(64, 1, 1))
    np.testing.assert_array_equal(driver.from_device(memory, 2, np.int32), [0, 128])


def test_orders_are_what_they_say(kernel, emulator):
    f = kernel(
        'extern "C" __global__ void kernel(int *y, int *n) { y[atomicAdd(n, 1)] = blockIdx.x * blockDim.x + threadIdx.x; }'
    )

    def launch():
        y, n = driver.mem_alloc(400), driver.to_device(np.zeros(1, np.int32))
        f(y, n, grid=(4, 1), block=(25, 1, 1))
        return driver.from_device(y, 100, np.int32)

    np.testing.assert_array_equal(launch(), np.arange(100))
    with emulator.order("reversed"):
        np.testing.assert_array_equal(launch(), np.arange(100)[::-1])
    with emulator.order("shuffled", seed=5):
        shuffled = launch()
        np.testing.assert_array_equal(launch(), shuffled)
    np.testing.assert_array_equal(np.sort(shuffled), np.arange(100))
    assert not np.array_equal(shuffled, np.arange(100))
    with (
        pytest.raises(ValueError, match="order 'all' is none of forward, reversed, shuffled"),
        emulator.order("all"),
    ):
        pass
