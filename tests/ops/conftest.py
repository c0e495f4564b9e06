"""The emulated device for the tests of CUDA kernels."""

import importlib.util

import numpy as np
import pytest


@pytest.fixture(scope="session")
def cuda():
    """plugrad.cuda on the emulated device; skips by name where PyCUDA or the emulator is missing."""
    for name in ("pycuda", "plugrad_emulator"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}, which is not installed")
    import plugrad_emulator

    try:
        plugrad_emulator.install()
    except plugrad_emulator.EmulatorUnavailable as error:
        pytest.skip(f"the emulated device cannot be built: {error}")
    import plugrad

    return plugrad.cuda


class Device:
    """Arrays to and from the emulated device, with the strides that they have."""

    def up(self, x):
        from plugrad.backends.cuda.array import as_strided, from_host

        x = np.asarray(x)
        if not x.size:
            return from_host(x)
        reach = [s * (n - 1) for n, s in zip(x.shape, x.strides)]
        low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
        memory = np.zeros((high - low) // x.itemsize + 1, x.dtype)
        first = memory[-low // x.itemsize :]
        np.lib.stride_tricks.as_strided(first, x.shape, x.strides)[...] = x
        return as_strided(from_host(memory), x.shape, x.strides, -low)

    def down(self, x):
        from plugrad.backends.cuda.array import to_host

        return to_host(x)

    def run(self, function, *arrays, **constants):
        """`function` of arrays of the device, its result on the host."""
        return self.down(function(*map(self.up, arrays), **constants))


@pytest.fixture
def device(cuda):
    return Device()
