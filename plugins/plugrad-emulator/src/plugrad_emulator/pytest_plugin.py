"""The fixture ``cuda_emulated``: the emulated device, or a skip that says what is missing."""

import importlib
from collections.abc import Iterator
from types import ModuleType

import pytest


def _install() -> ModuleType:
    import plugrad_emulator

    try:
        plugrad_emulator.install()
    except plugrad_emulator.EmulatorUnavailable as error:
        pytest.skip(f"cuda_emulated: {error}", allow_module_level=True)
    return plugrad_emulator


def emulated_driver() -> ModuleType:
    """For the head of a test module: ``pycuda.driver`` on the emulated device, or the module is skipped."""
    _install()
    return importlib.import_module("pycuda.driver")


@pytest.fixture(scope="session")
def cuda_emulated() -> Iterator[ModuleType]:
    """The module ``plugrad_emulator``, installed; skips where that cannot be."""
    emulator = _install()
    yield emulator
    emulator.reset()
