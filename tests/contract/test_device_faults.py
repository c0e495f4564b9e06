"""A device that failed before an operator was checked: the operator is not refused for it."""

import numpy as np
import pytest

import plugrad
from plugrad import contract
from plugrad.graph.op import UNVERIFIED


@pytest.fixture
def faulted(cuda):
    """Queue a kernel that writes out of bounds; nothing has waited for it."""
    if not cuda.is_emulated():
        pytest.skip("a fault ends the context on hardware")
    import plugrad_emulator

    text = 'extern "C" __global__ void wild(float *x) { x[5000] = 1; }'
    wild = cuda.Module(text, name="faulty").function("wild")
    array = plugrad.ones(3, device="cuda").array
    yield lambda: wild(1, 1, array)
    plugrad_emulator.reset()


@pytest.mark.parametrize("way", ["call", "check"])
def test_what_was_queued_before_is_not_held_against_an_operator(cuda, faulted, way):
    @plugrad.operator("faults::thrice", elementwise=True, cuda="x * 3")
    def thrice(x):
        return x * 3

    thrice.backward(lambda grad: grad * 3)
    thrice.samples(lambda make: [make.call(make.normal(n)) for n in (2, 3, 70)])
    x = plugrad.tensor([1.0, 2.0], device="cuda")
    thrice(x.cpu())
    faulted()
    with pytest.raises(cuda.CudaError, match="faulty:wild") as found:
        thrice(x) if way == "call" else contract.check(thrice, device="cuda")
    assert "thrice" not in str(found.value)
    assert thrice.state_on("cuda") == UNVERIFIED
    with pytest.raises(cuda.CudaError):  # it was not swallowed
        cuda.synchronize()
    import plugrad_emulator

    plugrad_emulator.reset()
    np.testing.assert_array_equal(thrice(x).tolist(), [3.0, 6.0])
