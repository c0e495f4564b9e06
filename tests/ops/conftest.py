"""The emulated device for the tests of CUDA kernels."""

import numpy as np
import pytest


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
