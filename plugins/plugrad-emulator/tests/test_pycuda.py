"""PyCUDA's own arrays and generated kernels, unmodified."""

import numpy as np
import pytest
from plugrad_emulator.pytest_plugin import emulated_driver

driver = emulated_driver()


@pytest.fixture
def gpuarray(emulator):
    import pycuda.gpuarray as gpuarray

    return gpuarray


def test_arithmetic(gpuarray):
    a, b = np.random.default_rng(1).standard_normal((2, 1000)).astype(np.float32)
    x, y = gpuarray.to_gpu(a), gpuarray.to_gpu(b)
    np.testing.assert_allclose(
        (x * y + 3 * x - y / 2).get(), a * b + 3 * a - b / 2, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_array_equal((-x).get(), -a)
    np.testing.assert_array_equal(gpuarray.arange(100, dtype=np.int32).get(), np.arange(100))
    np.testing.assert_array_equal(
        (x > y).get(), (a > b).astype(np.int32) if (x > y).dtype == np.int32 else a > b
    )


def test_slices_and_strides(gpuarray):
    a = np.arange(60, dtype=np.float64).reshape(3, 4, 5)
    x = gpuarray.to_gpu(a)
    np.testing.assert_array_equal(x[1].get(), a[1])
    np.testing.assert_array_equal(x[:, 1:3].get(), a[:, 1:3])
    np.testing.assert_array_equal(x[:, :, 1:3].get(), a[:, :, 1:3])
    x[:, 1:3].set(np.zeros((3, 2, 5)))
    a[:, 1:3] = 0
    np.testing.assert_array_equal(x.get(), a)


def test_cumath_and_elementwise_kernel(gpuarray):
    import pycuda.cumath as cumath
    from pycuda.elementwise import ElementwiseKernel

    a = np.linspace(0.1, 2, 300, dtype=np.float32)
    x = gpuarray.to_gpu(a)
    np.testing.assert_allclose(cumath.exp(x).get(), np.exp(a), rtol=1e-6)
    y = gpuarray.empty_like(x)
    ElementwiseKernel(
        "float *y, const float *x, float c", "y[i] = x[i] > c ? x[i] : 0", "threshold"
    )(y, x, np.float32(1))
    np.testing.assert_array_equal(y.get(), np.where(a > 1, a, 0))


def test_its_reductions_lack_a_barrier(gpuarray, emulator):
    """They count on the lanes of a warp running in step, which has not been so since Volta."""
    x = gpuarray.to_gpu(np.ones(1000, np.float32))
    with pytest.raises(driver.Error, match="unspecified launch failure"):
        gpuarray.sum(x).get()
    assert "race in shared memory" in emulator.last_error()
    emulator.reset()


def test_pool(emulator):
    from pycuda.tools import DeviceMemoryPool

    pool = DeviceMemoryPool()
    first = pool.allocate(1000)
    address = int(first)
    first.free()
    again = pool.allocate(1000)
    assert int(again) == address
    again.free()
    pool.stop_holding()
