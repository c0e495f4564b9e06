"""What holds for every test module."""

import gc
import importlib
import importlib.util
import os
import sys
from pathlib import Path

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


@pytest.fixture
def scripts(monkeypatch):
    """Import scripts, which find each other by their bare names: ``scripts(folder)(name)`` is a module of a folder.

    What came from the folder is forgotten after the test, and a module from elsewhere of the same name is away until then.
    """
    places, elsewhere = [], {}

    def lies_in(place, name):
        # Not getattr, at which modules that load lazily would load.
        file = getattr(sys.modules[name], "__dict__", {}).get("__file__")
        return isinstance(file, str) and file.startswith(place + os.sep)

    def importer(folder):
        place = str(folder)
        names = {path.stem for path in Path(place).iterdir()}
        for name in list(sys.modules):
            if name.partition(".")[0] in names and not lies_in(place, name):
                elsewhere.setdefault(name, sys.modules.pop(name))
        places.append(place)
        monkeypatch.syspath_prepend(place)
        return importlib.import_module

    yield importer
    sys.modules.update(elsewhere)
    for name in list(sys.modules):
        if any(lies_in(place, name) for place in places):
            del sys.modules[name]


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
