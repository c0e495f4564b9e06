"""What holds for every test module."""

import gc
import importlib.util
import os

import pytest


@pytest.fixture(scope="module", autouse=True)
def nothing_left(request):
    """After a module's last test no more graph nodes and Tensors are alive than before its first.

    Only where all its tests passed: a failure is kept with its frames, and with the graphs in them.
    """
    import plugrad

    gc.collect()
    before = plugrad.graph_stats()
    failed = request.session.testsfailed
    yield
    gc.collect()
    after = plugrad.graph_stats()
    if request.session.testsfailed == failed:
        left = f"{request.module.__name__} left nodes or tensors behind: {before} -> {after}"
        assert after.nodes <= before.nodes, left
        assert after.tensors <= before.tensors, left


@pytest.fixture(scope="session")
def cuda():
    """plugrad.cuda on the emulated device, or on the real one where PLUGRAD_TEST_DEVICE is "cuda".

    Skips by name where what that needs is missing.
    """
    import plugrad

    if os.environ.get("PLUGRAD_TEST_DEVICE") == "cuda":
        if not plugrad.cuda.is_available():
            pytest.skip(f"needs a CUDA device: {plugrad.cuda.why_unavailable()}")
        return plugrad.cuda
    for name in ("pycuda", "plugrad_emulator"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}, which is not installed")
    import plugrad_emulator

    try:
        plugrad_emulator.install()
    except plugrad_emulator.EmulatorUnavailable as error:
        pytest.skip(f"the emulated device cannot be built: {error}")
    return plugrad.cuda
