"""Getting the device into a process."""

import ctypes
import importlib.metadata
import os
import subprocess
import sys
import threading

import plugrad_emulator
import pytest
from plugrad_emulator import _cache, _libcuda, _toolchain
from plugrad_emulator._elf import undefined_symbols


def run_python(code, **env):
    full = {k: v for k, v in {**os.environ, **env}.items() if v is not None}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=full, timeout=300
    )


def test_entry_points():
    (device,) = importlib.metadata.entry_points(group="plugrad.devices", name="cuda-emulated")
    assert device.load() is plugrad_emulator.install


def test_twice_is_once(cuda_emulated):
    path = os.environ["PATH"]
    cuda_emulated.install()
    assert os.environ["PATH"] == path
    assert cuda_emulated.installed()


def test_other_libraries_learn_that_there_are_no_export_tables(cuda_emulated):
    # NVRTC looks for one in any libcuda of its process, and took a missing function for a table.
    table = ctypes.c_void_p()
    asked = ctypes.CDLL("libcuda.so.1").cuGetExportTable(ctypes.byref(table), bytes(16))
    assert (asked, table.value) == (801, None)  # CUDA_ERROR_NOT_SUPPORTED


def test_without_a_compiler():
    done = run_python(
        "import plugrad_emulator as e\ntry: e.install()\nexcept e.EmulatorUnavailable as x: print(x)",
        PLUGRAD_EMULATOR_CXX="no-such-gcc",
    )
    assert "there is no `no-such-gcc` on PATH: install it" in done.stdout


def test_before_install():
    code = "import plugrad_emulator as e\nassert e.last_error() == ''\ne.reset()\ntry: e.diagnostics()\nexcept e.EmulatorUnavailable as x: print(x)"
    assert "call plugrad_emulator.install() first" in run_python(code).stdout


def test_with_another_driver_in_the_process(tmp_path):
    source = tmp_path / "other.c"
    source.write_text("int cuInit(unsigned x) { return 100; }")
    library = tmp_path / "libcuda.so.1"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", library, source], check=True
    )
    code = f"import ctypes\nctypes.CDLL({str(library)!r})\nimport plugrad_emulator as e\ntry: e.install()\nexcept e.EmulatorUnavailable as x: print(x)"
    done = run_python(code)
    assert f"this process already uses the CUDA driver {library}" in done.stdout


def test_several_processes_build_at_once(tmp_path):
    code = "import plugrad_emulator as e\ne.install()\nprint(len(e.compile('extern \"C\" __global__ void k() {}')))"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
            stdout=-1,
            stderr=-1,
            text=True,
        )
        for _ in range(2)
    ]
    outs = [p.communicate(timeout=300) for p in processes]
    assert [p.returncode for p in processes] == [0, 0], outs
    assert {int(out) > 1000 for out, _ in outs} == {True}
    names = sorted(
        p.name.split("-")[0]
        for p in (tmp_path / "plugrad" / "emulator").iterdir()
        if not p.name.endswith(".lock")
    )
    assert names == ["header", "libcuda", "nvcc", "runtime"]


def test_a_failed_build_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def fail(folder):
        (folder / "part").write_text("x")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        _cache.built("thing", "key", fail)
    assert [p.name for p in _cache.root().iterdir()] == [".thing.lock"]
    assert (
        _cache.built("thing", "key", lambda folder: (folder / "part").write_text("y")) / "part"
    ).read_text() == "y"


def test_a_forked_child_goes_on(cuda_emulated, context, kernel):
    import numpy as np
    import pycuda.driver as driver

    f = kernel('extern "C" __global__ void kernel(int *y) { y[0] = 3; }')
    y = driver.mem_alloc(4)
    stop = threading.Event()

    def busy():
        context.push()
        while not stop.is_set():
            driver.mem_get_info()
        context.pop()

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                f(y, grid=(1, 1), block=(1, 1, 1))
                os._exit(0 if driver.from_device(y, 1, np.int32)[0] == 3 else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        thread.join()


def test_undefined_symbols_of_pycuda():
    names = _libcuda.driver_symbols()
    assert {"cuInit", "cuLaunchKernel", "cuMemAlloc_v2"} <= set(names)
    assert set(names) <= set(undefined_symbols(_libcuda.pycuda_extension()))
    with pytest.raises(ValueError, match="not a 64-bit little-endian ELF file"):
        undefined_symbols(_toolchain.HOST_SOURCES / "api.hpp")


def test_what_is_not_implemented_says_so(emulator):
    import pycuda.driver as driver

    with pytest.raises(driver.Error, match="not supported"):
        driver.Array(driver.ArrayDescriptor())
    assert emulator.diagnostics() == ["cuArrayCreate_v2 is not implemented by the emulated device"]
