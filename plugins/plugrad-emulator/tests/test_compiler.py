"""From source to image: messages, options, headers, rewriting."""

import plugrad_emulator
import pytest
from plugrad_emulator._rewrite import find_kernels, rewrite

OK = 'extern "C" __global__ void kernel(float *y) { y[0] = 1; }'


def test_an_error_has_the_authors_line(cuda_emulated):
    with pytest.raises(
        plugrad_emulator.CompileError, match=r"kernel\.cu:2:\d+: error: 'nonsense' was not declared"
    ):
        plugrad_emulator.compile(
            'extern "C" __global__ void kernel(float *y) {\n  y[0] = nonsense;\n}'
        )
    with pytest.raises(plugrad_emulator.CompileError, match=r"theirs\.cu:71:\d+: error: "):
        plugrad_emulator.compile(
            '#line 70 "theirs.cu"\nextern "C" __global__ void kernel(float *y) {\n  y[0] = nonsense;\n}'
        )
    with pytest.raises(
        plugrad_emulator.CompileError, match=r"kernel\.cu:1:\d+: fatal error: missing\.h"
    ):
        plugrad_emulator.compile("#include <missing.h>\n")
    with pytest.raises(plugrad_emulator.CompileError, match="undefined reference to `elsewhere"):
        plugrad_emulator.compile(
            '__device__ float elsewhere(float);\nextern "C" __global__ void k(float *y) { *y = elsewhere(*y); }'
        )


def test_options(cuda_emulated, tmp_path):
    (tmp_path / "mine.cuh").write_text(
        "#define NAME(x) x\n__global__ void from_header(int *y) { __shared__ int s; s = SIZE; *y = s; }\n"
    )
    source = (
        '#include "mine.cuh"\nextern "C" __global__ void NAME(kernel)(float *y) { y[0] = SIZE; }'
    )
    for options in (
        ["-I", str(tmp_path), "-D", "SIZE=3"],
        [f"-I{tmp_path}", "-DSIZE=3", "-arch=sm_90", "-O3", "--use_fast_math"],
    ):
        assert plugrad_emulator.compile(source, options=options)
    assert plugrad_emulator.compile(source, options=["-DSIZE=3"], folder=str(tmp_path))


def test_the_version_changes_with_the_flags(monkeypatch):
    before = plugrad_emulator.version()
    assert before == plugrad_emulator.version()
    monkeypatch.setenv("PLUGRAD_EMULATOR_CHECKS", "0")
    assert plugrad_emulator.version() != before


def test_kernels_are_found():
    text = """
extern "C" { EMU_GLOBAL void a(float *x); static EMU_GLOBAL void __attribute__((used)) b() { char c = '{'; const char *s = "namespace no { EMU_GLOBAL void z()"; } }
namespace one { namespace two::three { EMU_GLOBAL EMU_BOUNDS(256, 2) void c(int n) { if (n) { } } } EMU_GLOBAL void EMU_BOUNDS((F<1, 2>::n)) d() {} }
template <class T> EMU_GLOBAL void e(T *x) {}
template EMU_GLOBAL void e<float>(float *);
namespace { EMU_GLOBAL void f() {} }
EMU_GLOBAL void a(float *x) { }
"""
    found = {k.path: k.max_threads for k in find_kernels(text)}
    assert found == {
        "a": "1024",
        "b": "1024",
        "one::two::three::c": "256",
        "one::d": "(F<1, 2>::n)",
        "f": "1024",
    }


def test_rewriting_keeps_lines():
    text = "extern EMU_SHARED __attribute__((aligned(16))) float\n  s[];\nEMU_GLOBAL void EMU_BOUNDS(\n1)\nk() { EMU_SHARED int t; }\n"
    result = rewrite(text, instrumented=True)
    assert 's[] __asm__("emu_dynamic_shared");' in result
    assert result.split("# 1 ")[0].count("\n") == text.count("\n") + 1
    assert 'static __attribute__((section("emu_shared"))) int t;' in result
    assert "EMU_SHARED" not in result
    assert "EMU_BOUNDS" not in result


def test_half_headers_are_asked_for_by_name(cuda_emulated, monkeypatch):
    from plugrad_emulator import _compiler

    monkeypatch.setattr(_compiler, "cuda_headers", lambda: None)
    assert plugrad_emulator.compile(OK)
    with pytest.raises(
        plugrad_emulator.CompileError, match="pip install nvidia-cuda-runtime, or set CUDA_HOME"
    ):
        plugrad_emulator.compile("#include <cuda_fp16.h>\n" + OK)


def test_pycuda_compiles_through_the_stand_in_for_nvcc(emulator, context, tmp_path):
    import numpy as np
    import pycuda.driver as driver
    from pycuda.compiler import SourceModule

    module = SourceModule(
        "#include <math.h>\n__global__ void twice(float *y) { y[threadIdx.x] *= 2; }",
        cache_dir=str(tmp_path),
    )
    y = driver.to_device(np.arange(4, dtype=np.float32))
    module.get_function("twice")(y, grid=(1, 1), block=(4, 1, 1))
    np.testing.assert_array_equal(driver.from_device(y, 4, np.float32), 2 * np.arange(4))
    with pytest.raises(driver.CompileError, match=r"kernel\.cu:2:\d+: error: 'y' was not declared"):
        SourceModule("__global__ void twice() { y[0] = 1; }", cache_dir=str(tmp_path))
