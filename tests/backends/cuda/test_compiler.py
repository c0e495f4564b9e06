"""Compiling: which compiler, the cache, and messages with the author's file and line."""

import gc
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

from plugrad.backends.cuda import array as arrays
from plugrad.backends.cuda import cache, compiler, cubin, nvrtc, toolkit
from plugrad.backends.cuda.errors import CompileError, CudaError
from plugrad.backends.cuda.module import Module

SOURCE = 'extern "C" __global__ void twice(float *x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= 2; }'


class Counting:
    """A compiler that counts."""

    identity = "counting 1"

    def __init__(self):
        self.built = []

    def build(self, text, arch):
        self.built.append((text, arch))
        return b"image of " + arch.encode()


@pytest.fixture
def counting(monkeypatch, tmp_path):
    made = Counting()
    monkeypatch.setattr(compiler, "compiler_for", lambda arch: made)
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    return made


# ---- the cache -------------------------------------------------------------------------------------


def test_a_text_is_compiled_once(counting):
    for _ in range(2):
        assert compiler.compile(SOURCE, "sm_90") == b"image of sm_90"
    assert len(counting.built) == 1
    assert compiler.compile(SOURCE, "sm_80") == b"image of sm_80"
    compiler.compile(SOURCE + " ", "sm_90")
    counting.identity = "counting 2"
    compiler.compile(SOURCE, "sm_90")
    assert len(counting.built) == 4


def test_a_damaged_file_is_compiled_again(counting):
    compiler.compile(SOURCE, "sm_90")
    (path,) = (p for p in cache.folder().rglob("*") if p.is_file())
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert compiler.compile(SOURCE, "sm_90") == b"image of sm_90"
    assert len(counting.built) == 2
    path.write_bytes(b"")
    assert compiler.compile(SOURCE, "sm_90") == b"image of sm_90"
    assert len(counting.built) == 3


def test_a_folder_that_cannot_be_written(counting, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "file" / "below"))
    assert compiler.compile(SOURCE, "sm_90") == b"image of sm_90"
    assert not cache.write("ab", b"image")


def test_the_cache_can_be_off(counting, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, "off")
    compiler.compile(SOURCE, "sm_90")
    compiler.compile(SOURCE, "sm_90")
    assert len(counting.built) == 2


def test_no_file_is_left_half_written(counting):
    compiler.compile(SOURCE, "sm_90")
    assert not list(cache.folder().rglob(".writing-*"))


# ---- which compiler --------------------------------------------------------------------------------


def test_without_a_compiler_both_commands_are_named(monkeypatch):
    monkeypatch.setattr(compiler, "_hardware_compiler", lambda chosen: None)
    with pytest.raises(CompileError, match="neither NVRTC nor nvcc was found") as found:
        compiler.compile(SOURCE, "sm_90")
    assert "pip install nvidia-cuda-nvrtc" in str(found.value)
    assert "CUDA_HOME" in str(found.value)


def test_the_choice_of_a_compiler_is_checked(monkeypatch):
    monkeypatch.setenv(compiler.VARIABLE, "gcc")
    with pytest.raises(CompileError, match="is 'nvrtc' or 'nvcc', got 'gcc'"):
        compiler.compile(SOURCE, "sm_90")


def test_nvcc_is_found_by_the_environment(monkeypatch, tmp_path):
    tool = tmp_path / "bin" / "nvcc"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nexit 7\n")
    tool.chmod(0o755)
    for name in toolkit.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert toolkit.find_nvcc() == tool
    with pytest.raises(CompileError) as found:
        compiler._Nvcc(tool).build(SOURCE, "sm_90")
    assert "ended with status 7" in found.value.log


def hardware(name):
    """A compiler for hardware, or a skip that names it."""
    if name == "nvcc":
        path = toolkit.find_nvcc()
        if path is None:
            pytest.skip("nvcc is not installed")
        return compiler._Nvcc(path)
    library = nvrtc.find()
    if library is None:
        pytest.skip("NVRTC is not installed")
    return compiler._Nvrtc(library)


@pytest.fixture(params=["nvcc", "nvrtc"])
def real(request):
    return hardware(request.param)


def test_an_image_for_hardware_and_its_parameters(real):
    source = """
    struct Pair { long long a; float b; };
    extern "C" __global__ void many(float *x, int n, double d, bool b, Pair p, char c) { *x = n + d + b + p.b + c; }
    extern "C" __global__ void none() {}
    """
    image = real.build(compiler.full_text(source, "test"), "sm_90")
    found = cubin.parameters(image)
    assert found["none"] == ()
    assert found["many"] == ((0, 8), (8, 4), (16, 8), (24, 1), (32, 16), (48, 1))


@pytest.mark.parametrize("arch", compiler.ARCHITECTURES)
def test_the_prelude_compiles(real, arch):
    assert real.build(compiler.full_text(SOURCE, "test"), arch)[:4] == b"\x7fELF"


def test_messages_for_hardware_name_the_authors_line(real):
    text = compiler.full_text("\n\nint broken = missing;\n", "test", "folder/mine.cu", 40)
    with pytest.raises(CompileError) as found:
        real.build(text, "sm_90")
    assert "folder/mine.cu(42)" in found.value.log


def test_an_architecture_that_is_too_old(real):
    with pytest.raises(CompileError) as found:
        real.build(compiler.full_text(SOURCE, "test"), "sm_20")
    assert "20" in (found.value.log or str(found.value))


def test_parameters_of_what_is_no_cubin():
    assert cubin.parameters(b"") == {}
    assert cubin.parameters(b"PTX text") == {}
    assert cubin.parameters(b"\x7fELF\x02" + b"\xff" * 100) == {}


# ---- modules ---------------------------------------------------------------------------------------


def test_a_module(cuda):
    module = Module(SOURCE, name="doubling")
    function = module.function("twice")
    assert module.function("twice") is function
    assert repr(module) == "<module 'doubling' of CUDA kernels>"
    array = arrays.from_host(np.arange(4, dtype="f4"))
    function(1, 4, array, np.int32(3))
    np.testing.assert_array_equal(arrays.to_host(array), [0, 2, 4, 3])


def test_a_module_from_a_file(cuda, tmp_path):
    path = tmp_path / "doubling.cu"
    path.write_text(SOURCE)
    array = arrays.from_host(np.arange(4, dtype="f4"))
    Module.from_file(path).function("twice")(1, 4, array, np.int32(4))
    np.testing.assert_array_equal(arrays.to_host(array), [0, 2, 4, 6])


def test_an_error_names_file_and_line(cuda, tmp_path):
    path = tmp_path / "broken.cu"
    path.write_text(
        '// a comment\n\nextern "C" __global__ void f(float *x) {\n    *x = missing;\n}\n'
    )
    with pytest.raises(CompileError, match="broken does not compile for emulated") as found:
        Module.from_file(path).function("f")(1, 1, arrays.empty(1, "f4"))
    assert f"{path}:4" in str(found.value)
    assert "missing" in found.value.log


def test_an_error_names_where_a_text_began(cuda):
    module = Module("float x;\nint y = missing;", name="inline", origin="plugin/ops.py", line=120)
    with pytest.raises(CompileError, match="plugin/ops.py:121"):
        module.function("f")(1, 1)


def test_the_device_works_after_an_error(cuda):
    with pytest.raises(CompileError):
        Module("broken", name="broken").function("f")(1, 1)
    test_a_module(cuda)


def test_a_kernel_that_is_not_there(cuda):
    with pytest.raises(CudaError, match="module doubling has no kernel named 'thrice'") as found:
        Module(SOURCE, name="doubling").function("thrice")(1, 1)
    assert 'extern "C" __global__' in str(found.value)


def test_quotes_and_backslashes_in_a_files_name(cuda, tmp_path):
    path = Path(tmp_path, 'od"d.cu')
    path.write_text(SOURCE)
    array = arrays.from_host(np.arange(4, dtype="f4"))
    Module.from_file(path).function("twice")(1, 4, array, np.int32(4))
    assert arrays.to_host(array)[3] == 6


def test_modules_compile_on_several_threads(cuda):
    source = SOURCE.replace("twice", "threaded")
    function = Module(source, name="threaded").function("threaded")
    results, errors = [], []

    def work():
        try:
            array = arrays.from_host(np.ones(4, "f4"))
            function(1, 4, array, np.int32(4))
            results.append(arrays.to_host(array).tolist())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert results == [[2.0] * 4] * 4


def test_a_thread_that_never_used_the_device_may_collect_modules(cuda, monkeypatch):
    def dropped():
        module = Module(SOURCE, name="doubling")  # which its function holds, and it the function
        module.function("twice").get_attribute("num_regs")
        return weakref.ref(module), weakref.ref(module._loaded)

    said = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    gc.disable()
    try:
        modules = [dropped() for _ in range(3)]
        thread = threading.Thread(target=gc.collect)
        thread.start()
        thread.join()
    finally:
        gc.enable()
    assert not said
    assert [module() for module, _ in modules] == [None] * 3
    Module(SOURCE, name="another").load("twice")
    assert [loaded() for _, loaded in modules] == [None] * 3


def test_a_module_that_was_not_made_is_collected_in_silence(monkeypatch):
    said = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    with pytest.raises(TypeError):
        Module()
    gc.collect()
    assert not said


def test_nvcc_runs_nowhere(tmp_path):
    with pytest.raises((CompileError, subprocess.SubprocessError), match="cannot be run"):
        tool = tmp_path / "nvcc"
        tool.write_text("")
        compiler._Nvcc(tool).build(SOURCE, "sm_90")


def test_a_file_that_a_package_left_out_is_told(tmp_path):
    words = r'scale\.cu is not beside .*package-data.*"\*\.cu"'
    with pytest.raises(FileNotFoundError, match=words):
        Module.from_file(tmp_path / "scale.cu")


def test_text_in_front_of_a_file_keeps_its_lines(cuda, tmp_path):
    path = tmp_path / "scale.cu"
    path.write_text('extern "C" __global__ void f(T *x) {\n  x[0] = nothing;\n}\n')
    with pytest.raises(CompileError, match=r"scale\.cu.*2"):
        Module.from_file(path, before="typedef float T;").function("f")(1, 1, arrays.empty(1, "f4"))
