"""Generated sources compile for hardware, where a compiler is; no device is needed."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from plugrad.backends.cuda import compiler, layout, sort
from plugrad.backends.cuda.elementwise import COPY, Elementwise
from plugrad.backends.cuda.reduction import SUM, Reduction
from plugrad.backends.cuda.scan import LINEAR_SCAN

ARCHITECTURES = ["sm_75", "sm_90", "sm_120"]


@dataclass
class Operand:
    """An array that nobody looks into."""

    dtype: object
    shape: tuple = (3, 5)
    gpudata: int = 256
    strides: tuple = field(init=False)

    def __post_init__(self):
        self.dtype = np.dtype(self.dtype)
        self.strides = layout.dense_strides(self.shape, self.dtype.itemsize)


def elementwise(kernel, *operands, numbers=(), dtype=None):
    return kernel.make_plan(operands, numbers, None, None, dtype).function.module.source


def reduced(kernel, *operands):
    return kernel._make_plan(operands, 1, False, None, ()).kernel.module.source


def scanned(kernel, *operands):
    return kernel._make_plan(operands, 1, False, None, ()).launches[0][0].module.source


FUNCTIONS = (
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt cbrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
    "erf erfc lgamma tgamma floor ceil trunc rint abs sign square reciprocal relu isnan isinf isfinite "
    "sigmoid softplus logsigmoid normal_cdf normal_pdf"
)
OF_TWO = "fmod copysign atan2 hypot nextafter pow min max nan_min nan_max remainder floor_mod floor_divide logaddexp"


def functions(computed):
    """Every function of the prelude, once."""
    calls = [f"{name}(x)" for name in FUNCTIONS.split()] + [
        f"{name}(x, y)" for name in OF_TWO.split()
    ]
    calls += ["where(x > y, x, y)", "highest<T>()", "lowest<T>()", "T(INF)", "T(NAN)"]
    return (
        f"typedef {computed} T;\nnamespace plugrad {{\n"
        f"PLUGRAD_FN T all(T x, T y) {{ return {' + '.join(calls)}; }}\n}}\n"
        'extern "C" __global__ void all(T *x) { x[threadIdx.x] = plugrad::all(x[0], x[1]); }\n'
    )


ACTIVATION = Elementwise(
    {"r0": "x * normal_cdf(y) + alpha * index", "r1": "sigmoid(x) / 3"},
    inputs=("x", "y"),
    constants=("alpha",),
    name="activation",
)
WHOLE = Elementwise(
    "pow(x, y) + floor_divide(x, n) + remainder(x, y) + abs(x) + sign(x) + max(x, y) + (x << 1) + highest<T>()",
    inputs=("x", "y"),
    constants=("n",),
    name="whole",
)
PRODUCT = Elementwise("x * conj(y) - 2.0 * x", inputs=("x", "y"), name="product")
MOMENTS = Reduction(
    acc={"n": "i64", "mean": "same", "flag": "bool"},
    map={"n": "1", "mean": "x", "flag": "x > 0.5"},
    identity={"n": "0", "mean": "0", "flag": "false"},
    combine={"n": "a.n + b.n", "mean": "a.mean + b.mean / 2", "flag": "a.flag || b.flag"},
    finish={"mean": "a.mean / n", "flag": "a.flag"},
    out_dtype={"flag": "bool"},
    name="moments",
)

SOURCES = {
    "functions of float": lambda: functions("float"),
    "functions of double": lambda: functions("double"),
    "functions of i64": lambda: functions("i64"),
    "activation of half": lambda: elementwise(
        ACTIVATION, Operand("f2"), Operand("f2"), numbers=(0.5,)
    ),
    "integers": lambda: elementwise(WHOLE, Operand("i8"), Operand("i8"), numbers=(3,)),
    "bytes": lambda: elementwise(WHOLE, Operand("u1"), Operand("u1"), numbers=(3,)),
    "casts": lambda: elementwise(COPY, Operand("bool"), dtype="f2"),
    "complex": lambda: elementwise(PRODUCT, Operand("c8"), Operand("c8")),
    "sum of half": lambda: reduced(SUM, Operand("f2")),
    "sum of complex": lambda: reduced(SUM, Operand("c16")),
    "moments": lambda: reduced(MOMENTS, Operand("f4")),
    "moments, 64 bits": lambda: reduced(MOMENTS, Operand("f4", (2**20, 2**20))),
    "linear scan": lambda: scanned(LINEAR_SCAN, Operand("f8"), Operand("f8")),
    "sort of half": lambda: sort._module("half").source,
    "sort of i64": lambda: sort._module("i64").source,
}


@pytest.mark.skipif(
    compiler.why_no_compiler() is not None, reason="needs NVRTC or nvcc, neither was found"
)
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_compiles(source, arch):
    assert compiler.compile(source(), arch)
