"""Launching: how arguments are packed, and what is said of wrong ones."""

import numpy as np
import pytest

import plugrad
from plugrad.backends.cuda import array as arrays
from plugrad.backends.cuda.cubin import Parameter
from plugrad.backends.cuda.launch import last_launched
from plugrad.backends.cuda.module import Module
from plugrad.backends.cuda.signature import declared

pytestmark = pytest.mark.usefixtures("cuda")

SOURCE = r"""
struct Shape { long long a, b; };
struct Odd { float a, b, c; };
extern "C" __global__ void everything(
    double *out, long long whole, double real, bool yes, short s, float f, unsigned char c, Shape shape, int n, Odd odd
) {
    out[0] = whole; out[1] = real; out[2] = yes; out[3] = s; out[4] = f; out[5] = c;
    out[6] = shape.a; out[7] = shape.b; out[8] = n; out[9] = odd.a + 10 * odd.b + 100 * odd.c;
}
extern "C" __global__ void grid(int *out) {
    out[0] = gridDim.x; out[1] = gridDim.y; out[2] = gridDim.z; out[3] = blockDim.x; out[4] = blockDim.y; out[5] = blockDim.z;
}
extern "C" __global__ void dynamic(float *out) {
    extern __shared__ float s[];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void address(long long *out, const float *x) { *out = (long long)x; }
extern "C" __global__ void nothing() {}
"""
MODULE = Module(SOURCE, name="launching")


def test_every_kind_of_argument():
    out = arrays.empty(10, "f8")
    MODULE.function("everything")(
        1, 1, out, -(1 << 40), 2.5, True, np.int16(-3), np.float32(1.5), np.uint8(200),
        np.array([7, 8], "i8").tobytes(), np.int32(9), np.array([1, 2, 3], "f4").tobytes(),
    )  # fmt: skip
    np.testing.assert_array_equal(
        arrays.to_host(out), [-(2.0**40), 2.5, 1, -3, 1.5, 200, 7, 8, 9, 321]
    )


def test_grids_and_blocks():
    out = arrays.empty(6, "i4")
    for grid, block, expected in [
        (2, 3, [2, 1, 1, 3, 1, 1]),
        ((2,), (3, 4), [2, 1, 1, 3, 4, 1]),
        ((2, 3, 4), (5, 6, 7), [2, 3, 4, 5, 6, 7]),
    ]:
        MODULE.function("grid")(grid, block, out)
        np.testing.assert_array_equal(arrays.to_host(out), expected)


def test_a_grid_without_blocks_launches_nothing():
    out = arrays.from_host(np.zeros(6, "i4"))
    MODULE.function("grid")(0, 1, out)
    MODULE.function("grid")((2, 0), 1, out)
    assert not arrays.to_host(out).any()


def test_shared_memory():
    out = arrays.empty(8, "f4")
    MODULE.function("dynamic")(1, 8, out, shared=32)
    np.testing.assert_array_equal(arrays.to_host(out), np.arange(8)[::-1])


def test_arrays_without_elements_and_views():
    out = arrays.empty(1, "i8")
    MODULE.function("address")(1, 1, out, arrays.empty(0, "f4"))
    assert arrays.to_host(out)[0] == 0
    array = arrays.empty(10, "f4")
    MODULE.function("address")(1, 1, out, arrays.view_by(lambda a: a[3:], array))
    assert arrays.to_host(out)[0] == array.gpudata + 12


def test_arrays_that_pycuda_made():
    from pycuda.gpuarray import to_gpu

    array = to_gpu(np.ones(3, "f4"))
    out = arrays.empty(1, "i8")
    MODULE.function("address")(1, 1, out, array)
    assert arrays.to_host(out)[0] == int(array.gpudata)


def test_names():
    function = MODULE.function("nothing")
    function(1, 1)
    assert repr(function) == "<CUDA kernel launching:nothing>"
    assert last_launched() == "launching:nothing"
    assert function.get_attribute("max_threads_per_block") > 0


# ---- what is refused -------------------------------------------------------------------------------


def test_values_that_no_kernel_takes():
    out = arrays.empty(1, "i8")
    for wrong, said in [
        ("text", "argument 1 is of type str"),
        (np.ones(3), "argument 1 is of type ndarray"),
        (plugrad.ones(3), "argument 1 is of type Tensor"),
    ]:
        with pytest.raises(TypeError, match=said) as found:
            MODULE.function("address")(1, 1, out, wrong)
        assert "kernel launching:address" in str(found.value)
    with pytest.raises(OverflowError):
        MODULE.function("address")(1, 1, out, 1 << 70)


class Known:
    """A module whose image tells its kernels' parameters, as one for hardware does."""

    name = "known"

    def __init__(self, *parameters):
        self.parameters = tuple(Parameter(*each) for each in parameters)
        self.launched = []

    def load(self, name):
        return self, self.parameters

    def _launch_kernel(self, grid, block, packed, shared, stream):
        self.launched.append(packed)


def test_number_and_sizes_are_compared_where_they_are_known():
    from plugrad.backends.cuda.launch import Function

    module = Known((0, 8), (8, 4), (16, 8), (24, 1))
    function = Function(module, "f")
    array = arrays.empty(3, "f4")
    function(1, 1, array, np.float32(1), 2.0, False)
    (packed,) = module.launched
    assert len(packed) == 25
    assert packed[16:24] == np.float64(2).tobytes()
    with pytest.raises(TypeError, match="it has 4 parameters and got 2 arguments") as found:
        function(1, 1, array, 5)
    assert "given (float32[3], 5)" in str(found.value)
    with pytest.raises(TypeError, match="argument 1 has 8 bytes and its parameter 4"):
        function(1, 1, array, 1.0, 2.0, False)


def test_structures_lie_where_the_image_says():
    from plugrad.backends.cuda.launch import Function

    module = Known((0, 4), (4, 8), (16, 16))
    Function(module, "f")(1, 1, np.int32(-1), b"12345678", b"a" * 16)
    assert module.launched == [b"\xff" * 4 + b"12345678" + b"\0" * 4 + b"a" * 16]


def test_more_bytes_than_a_launch_takes():
    with pytest.raises(TypeError, match="more than 4096 bytes"):
        MODULE.function("nothing")(1, 1, b"x" * 4000, b"y" * 4000)


def test_wrong_arguments_on_the_emulated_device(cuda):
    out = arrays.empty(3, "i8")
    with pytest.raises((cuda.LaunchError, TypeError), match="launching:address") as found:
        MODULE.function("address")(1, 1, out)
    assert "int64[3]" in str(found.value)
    assert arrays.to_host(arrays.from_host(np.ones(2))).tolist() == [1.0, 1.0]


def test_a_block_that_is_too_large(cuda):
    with pytest.raises(cuda.LaunchError) as found:
        MODULE.function("nothing")(1, 5000)
    text = str(found.value)
    assert "kernel launching:nothing failed, grid (1,), block (5000,)" in text
    MODULE.function("nothing")(1, 32)


TYPED = Module(
    """typedef double number; /* the types */ using count = int;
    extern "C" __global__ void typed(
        double *out, number scale, count n, const float f, i64 w, // all of them
        unsigned long long u, short s, bool b
    ) { out[0] = scale; out[1] = n; out[2] = f; out[3] = w; out[4] = u; out[5] = s; out[6] = b; }""",
    name="typing",
)


@pytest.mark.parametrize(
    "given, expected",
    [
        ((2, 3, 4, 5, 6, 7, True), [2, 3, 4, 5, 6, 7, 1]),
        ((2.5, -3, 0.5, -5, 6, -7, False), [2.5, -3, 0.5, -5, 6, -7, 0]),
        ((True, True, False, True, True, True, np.bool_(True)), [1, 1, 0, 1, 1, 1, 1]),
        ((np.float64(2), np.int32(3), np.float32(4), np.int64(5), np.uint64(6), np.int16(7), True), [2, 3, 4, 5, 6, 7, 1]),
    ],
)  # fmt: skip
def test_python_numbers_become_what_the_kernel_declares(given, expected):
    out = arrays.empty(7, "f8")
    TYPED.function("typed")(1, 1, out, *given)
    assert arrays.to_host(out).tolist() == expected


@pytest.mark.parametrize(
    "place, wrong, said",
    [
        (0, 2.0, "argument 0 is 2.0 and its parameter 'double \\*out'"),
        (1, np.int64(2), "argument 1 is int64\\(2\\) and its parameter 'number scale'"),
        (2, 1.5, "argument 2 is 1.5 and its parameter 'count n'"),
        (2, 1 << 32, "argument 2 has 8 bytes and its parameter 4"),
        (3, np.float64(1), "argument 3 has 8 bytes and its parameter 4 \\('const float f'\\)"),
        (4, 2.0, "argument 4 is 2.0 and its parameter 'i64 w'"),
        (6, 1 << 16, "argument 6 has 8 bytes"),
        (7, 1, "argument 7 has 8 bytes and its parameter 1"),
    ],
)
def test_an_argument_of_another_kind_is_an_error(place, wrong, said):
    out = arrays.empty(7, "f8")
    given = [out, 2.0, 3, 4.0, 5, 6, 7, True]
    given[place] = wrong
    with pytest.raises(TypeError, match=said):
        TYPED.function("typed")(1, 1, *given)
    given[place] = out
    if place:
        with pytest.raises(TypeError, match=rf"argument {place} is float64\[7\]"):
            TYPED.function("typed")(1, 1, *given)


def test_declarations_that_cannot_be_read_are_left_to_the_sizes():
    assert declared("#define P float *x\n__global__ void f(P, T y)", "f")[1].size == 0
    assert declared("__global__ void f(int a\n#if X\n, int b\n#endif\n)", "f") is None
    assert declared("__global__ void f(int a) {} __global__ void f(float a) {}", "f") is None
    assert declared("void f(int a)", "f") is None
    assert declared("__global__ void f(void) {}", "f") == []
    kinds = [
        each.kind for each in declared("__global__ void f(Pair<int, 2> p, float a[3], int) {}", "f")
    ]
    assert kinds == [0, 1, 3]


# ---- what fails while it runs ----------------------------------------------------------------------

PAST = Module(
    'extern "C" __global__ void past(float *x) {\n    x[threadIdx.x] = 1;\n}',
    name="past",
    origin="mine.cu",
    line=10,
)


@pytest.fixture
def faults(cuda):
    """The emulated device is as new after the test."""
    if not cuda.is_emulated():
        pytest.skip("a fault ends the context on hardware")
    import plugrad_emulator

    yield cuda
    plugrad_emulator.reset()


@pytest.mark.parametrize("use", ["to_host", "synchronize"])
def test_a_fault_is_reported_where_the_device_is_waited_for(faults, use):
    array = arrays.empty(10, "f4")
    with pytest.raises(faults.CudaError) as found:
        PAST.function("past")(1, 11, array)  # one past the end, of a block that a pool made larger
        if use == "to_host":
            arrays.to_host(array)
        else:
            faults.synchronize()
    text = str(found.value)
    assert "past:past" in text
    assert "thread (10,0,0)" in text
    assert ":11" in text  # the line in the author's file
    import plugrad_emulator

    plugrad_emulator.reset()
    assert plugrad.ones(2, device="cuda").tolist() == [1.0, 1.0]


def test_memory_that_was_freed_is_out_of_bounds(faults):
    array = arrays.empty(10, "f4")
    pointer = np.uint64(array.gpudata)
    del array
    with pytest.raises(faults.CudaError):
        PAST.function("past")(1, 1, pointer)
        faults.synchronize()


def test_after_a_fault_nothing_else_is_blamed(faults):
    array = arrays.empty(10, "f4")
    later = Module('extern "C" __global__ void later() {}', name="later")
    later.function("later")(1, 1)
    PAST.function("past")(1, 11, array)
    with pytest.raises(faults.CudaError):
        faults.synchronize()
    for innocent, said in [
        (lambda: later.function("later")(1, 1), "queued earlier failed"),
        (lambda: later.function("missing")(1, 1), "queued earlier failed"),
        (
            lambda: Module(later.source + "\n", name="new").function("later")(1, 1),
            "queued earlier failed",
        ),
    ]:
        with pytest.raises(faults.CudaError, match=said) as found:
            innocent()
        assert "illegal memory access" in str(found.value)
        assert "thread (10,0,0)" in str(found.value)


def test_a_message_is_about_its_own_error_only(faults):
    nothing = MODULE.function("nothing")
    with pytest.raises(faults.LaunchError, match="a block of"):
        nothing(1, 5000)
    with pytest.raises(faults.LaunchError) as found:
        nothing((1, 1, 1, 1), 1)
    assert "a block of" not in str(found.value)
    with pytest.raises(faults.CudaError, match="no kernel named") as found:
        MODULE.function("missing")(1, 1)
    assert "a block of" not in str(found.value)


def test_a_fault_inside_of_the_prelude_has_the_authors_line(faults):
    source = 'extern "C" __global__ void reads(float *x) {\n\n    x[0] = load(x[5000]);\n}'
    with pytest.raises(faults.CudaError, match=r"mine\.cu:12: reads 4 bytes"):
        Module(source, name="reads", origin="mine.cu", line=10).function("reads")(
            1, 1, arrays.empty(3, "f4")
        )
        faults.synchronize()
