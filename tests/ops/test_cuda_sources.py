"""The kernels of the standard operators compile for hardware, where a compiler is; no device is needed."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from plugrad.backends.cuda import compiler, layout

ARCHITECTURES = ["sm_75", "sm_90", "sm_120"]

pytestmark = pytest.mark.skipif(
    compiler.why_no_compiler() is not None, reason="needs NVRTC or nvcc, neither was found"
)


@dataclass
class Operand:
    """An array that nobody looks into."""

    dtype: object
    shape: tuple = (300, 50)
    gpudata: int = 256
    strides: tuple = field(init=False)

    def __post_init__(self):
        self.dtype = np.dtype(self.dtype)
        self.strides = layout.dense_strides(self.shape, self.dtype.itemsize)


def compiles(text, arch):
    assert compiler.compile(text, arch)


TILES = [
    ("float", "float", 128, 8),
    ("half", "float", 64, 4),
    ("bfloat16", "float", 64, 4),
    ("float", "float", 32, 2),
    ("double", "double", 64, 4),
    ("bool", "i64", 32, 2),
    ("u64", "u64", 64, 4),
]


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(("stored", "summed", "tile", "per"), TILES)
def test_products(stored, summed, tile, per, arch):
    from plugrad_ops.linalg.cuda import SOURCE

    compiles(SOURCE.text({"T": stored, "ACC": summed, "TILE": tile, "PER": per}), arch)


MOVED = [
    ("unsigned char", "bool", "int"),
    ("unsigned short", "half", "int"),
    ("unsigned short", "bfloat16", "int"),
    ("unsigned int", "float", "i64"),
    ("u64", "double", "int"),
    ("Wide", "Complex<double>", "i64"),
]


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(("unit", "added", "counted"), MOVED)
def test_indexing(unit, added, counted, arch):
    from plugrad_ops.indexing.cuda import SOURCE

    compiles(SOURCE.text({"UNIT": unit, "T": added, "I": counted}), arch)


TEAMS = [
    {"T": "float", "COLUMNS": 0, "TEAM": 4, "VEC": 1, "ITEMS": 4},
    {"T": "float", "COLUMNS": 0, "TEAM": 1024, "VEC": 4, "ITEMS": 4},
    {"T": "float", "COLUMNS": 1, "TEAM": 1, "VEC": 1, "ITEMS": 8},
    {"T": "half", "COLUMNS": 0, "TEAM": 256, "VEC": 8, "ITEMS": 1},
    {"T": "half", "COLUMNS": 1, "TEAM": 16, "VEC": 1, "ITEMS": 16},
    {"T": "bfloat16", "COLUMNS": 0, "TEAM": 256, "VEC": 8, "ITEMS": 1},
    {"T": "double", "COLUMNS": 0, "TEAM": 64, "VEC": 2, "ITEMS": 4},
]


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("team", TEAMS, ids=lambda team: f"{team['T']} {team['TEAM']}")
def test_rows(team, arch):
    from plugrad_ops.activation.softmax_cuda import SOURCE as SOFTMAX
    from plugrad_ops.loss.cross_entropy_cuda import SOURCE as LOSS

    compiles(SOFTMAX.text({**team, "LOG": team["ITEMS"] % 2}), arch)
    compiles(LOSS.text({**team, "L": "double" if team["T"] == "double" else "float"}), arch)


def reductions():
    """Every reduction of this package with its operands' dtypes and constants."""
    from plugrad_ops.loss import cross_entropy_cuda, errors_cuda
    from plugrad_ops.reduction import cuda

    for name, dtypes, *constants in (
        ("MEAN", "e"), ("PROD", "q"), ("AMAX", "?"), ("AMIN", "e"), ("ARGMAX", "e"), ("ARGMIN", "B"), ("ALL", "f"),
        ("ANY", "q"), ("VAR", "ef", 1.0), ("STD", "dd", 1.0), ("LOGSUMEXP", "e"), ("GREATEST", "e"), ("SMALLEST", "d"),
        ("NONZERO", "f"), ("SIZES", "e"), ("SQUARES", "f"), ("POWERS", "dd", 3.0),
    ):  # fmt: skip
        yield getattr(cuda, name), dtypes, tuple(constants)
    yield cross_entropy_cuda.COUNT, "q", (-100,)
    yield cross_entropy_cuda.REDUCED["mean"], "fq", (-100,)
    yield errors_cuda.mse_loss.reductions["mean"], "ee", ()
    yield errors_cuda.l1_loss.reductions["sum"], "ff", ()


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_reductions(arch):
    for reduction, dtypes, constants in reductions():
        operands = tuple(map(Operand, dtypes))
        plan = reduction._make_plan(operands, (0, 1), False, None, constants)
        compiles(plan.kernel.module.source, arch)


SPECIAL = ("digamma(x)", "erfinv(x)", "polygamma(3, x)", "sinc(2, x)", "bessel(1, x)", "bessel_scaled(0, x)")  # fmt: skip


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_special_functions(arch):
    from plugrad_ops.arithmetic.special_cuda import HEADER

    calls = " + ".join(f"special_{call}" for call in SPECIAL)
    compiles(
        f'{HEADER.read_text()}\nextern "C" __global__ void all(double *at) {{\n'
        f"    const double x = *at;\n    *at = {calls};\n}}\n",
        arch,
    )
