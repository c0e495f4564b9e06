"""A context on the emulated device, and a short way to kernels."""

import pytest


@pytest.fixture(scope="session")
def context(cuda_emulated):
    import pycuda.driver as driver

    driver.init()
    context = driver.Device(0).retain_primary_context()
    context.push()
    yield context
    context.pop()


@pytest.fixture
def emulator(cuda_emulated, context):
    """The emulator with nothing left over from another test; a test may fault the context."""
    cuda_emulated.reset()
    yield cuda_emulated
    cuda_emulated.reset()


@pytest.fixture
def kernel(emulator):
    """``kernel(source, name)``: a function of the compiled source; its module lives as long as the test."""
    import pycuda.driver as driver

    modules = []

    def load(source, name="kernel", **how):
        modules.append(driver.module_from_buffer(emulator.compile(source, **how)))
        return modules[-1].get_function(name)

    yield load


@pytest.fixture
def fails(emulator, context):
    """``fails(launch)``: launches, synchronises, and gives the error's text and the one diagnosis."""
    import pycuda.driver as driver

    def check(launch):
        with pytest.raises(driver.Error) as caught:
            launch()
            context.synchronize()
        messages = emulator.diagnostics()
        assert len(messages) == 1, messages
        assert emulator.last_error() == messages[0]
        emulator.reset()
        return str(caught.value), messages[0]

    return check
