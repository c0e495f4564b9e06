"""Accounting, limits, pools."""

import os
import subprocess
import sys

import numpy as np
import pytest
from plugrad_emulator.pytest_plugin import emulated_driver

driver = emulated_driver()


def test_free_memory_is_what_was_not_allocated(emulator):
    free, total = driver.mem_get_info()
    assert total == 8 << 30
    memory = driver.mem_alloc(1_000_000)
    assert driver.mem_get_info()[0] == free - 1_000_000
    memory.free()
    assert driver.mem_get_info()[0] == free


def test_out_of_memory_is_no_fault(emulator):
    with pytest.raises(driver.MemoryError, match="out of memory"):
        driver.mem_alloc(9 << 30)
    free, _ = driver.mem_get_info()
    most = driver.mem_alloc(free)
    with pytest.raises(driver.MemoryError, match="out of memory"):
        driver.mem_alloc(1)
    most.free()
    driver.mem_alloc(1).free()


def test_addresses_are_aligned_and_not_used_again_soon(emulator):
    seen = set()
    for size in (1, 100, 256, 5000, 1 << 20):
        memory = driver.mem_alloc(size)
        assert int(memory) % 256 == 0
        assert int(memory) not in seen
        seen.add(int(memory))
        memory.free()


def test_many_allocations(emulator):
    blocks = [driver.mem_alloc(64) for _ in range(5000)]
    for block in blocks[::2]:
        block.free()
    assert len({int(b) for b in blocks[1::2]}) == 2500


def test_extent_of_a_block_in_a_pool(emulator, kernel, fails):
    block = driver.mem_alloc(1024)
    driver.memset_d32(block, 0, 256)
    free = driver.mem_get_info()[0]
    emulator.set_extent(int(block), 100)
    assert driver.mem_get_info()[0] == free  # the block is the pool's, whatever of it is in use
    assert np.isnan(driver.from_device(block, 25, np.float32)).all()
    f = kernel('extern "C" __global__ void kernel(float *y, int i) { y[i] = 1; }')
    f(block, np.int32(24), grid=(1, 1), block=(1, 1, 1))
    _, message = fails(lambda: f(block, np.int32(25), grid=(1, 1), block=(1, 1, 1)))
    assert message.endswith("right past the end of a 100-byte allocation")
    emulator.set_extent(int(block), 0)
    _, message = fails(lambda: f(block, np.int32(0), grid=(1, 1), block=(1, 1, 1)))
    assert "right past the end of a 0-byte allocation" in message
    emulator.set_extent(int(block), 1024)
    with pytest.raises(
        ValueError, match="is not the start of a device allocation of at least 2000 bytes"
    ):
        emulator.set_extent(int(block), 2000)
    with pytest.raises(ValueError, match="is not the start"):
        emulator.set_extent(int(block) + 4, 4)


def test_mapped_host_memory(kernel, context):
    array = driver.pagelocked_zeros(4, np.int32, mem_flags=driver.host_alloc_flags.DEVICEMAP)
    f = kernel('extern "C" __global__ void kernel(int *y) { y[threadIdx.x] = threadIdx.x; }')
    f(np.uintp(array.base.get_device_pointer()), grid=(1, 1), block=(4, 1, 1))
    context.synchronize()
    np.testing.assert_array_equal(array, np.arange(4))


def test_device_numbers_from_the_environment():
    code = """
import plugrad_emulator
plugrad_emulator.install()
import pycuda.driver as driver
driver.init()
device = driver.Device(0)
assert device.name().startswith("Emulated"), device.name()
print(device.compute_capability(), device.total_memory())
"""
    env = {"PLUGRAD_EMULATOR_COMPUTE_CAPABILITY": "86", "PLUGRAD_EMULATOR_MEMORY_MB": "100"}
    done = run_python(code, env)
    assert done.stdout.split("\n")[0] == f"(8, 6) {100 << 20}"


def run_python(code, env=None):
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **(env or {})},
    )
    assert done.returncode == 0, done.stderr
    return done
