"""The binding of cuBLAS and the choice of its arguments, against a stand-in library that computes on host memory."""

import ctypes
import itertools
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from plugrad_ops.linalg.cublas import Cublas, CublasError, find

pytest.importorskip("ml_dtypes")  # NumPy knows bfloat16 by its name then

TOLERANCE = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14, "bfloat16": 1e-2}


@pytest.fixture(scope="session")
def fake_path(tmp_path_factory):
    """The stand-in library, compiled here."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++ for the stand-in cuBLAS")
    source = Path(__file__).with_name("fake_cublas.cpp")
    path = tmp_path_factory.mktemp("cublas") / "libfakecublas.so"
    done = subprocess.run(
        [compiler, "-std=c++17", "-O1", "-shared", "-fPIC", "-o", str(path), str(source)],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        pytest.skip(f"the stand-in cuBLAS does not compile here: {done.stderr[:200]}")
    return str(path)


@pytest.fixture
def fake(fake_path):
    return ctypes.CDLL(fake_path)


@pytest.fixture
def library(fake_path):
    return Cublas(fake_path)


def address(array):
    return array.ctypes.data


# ---- the binding ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("b_transposed", [False, True])
@pytest.mark.parametrize("add", [False, True])
def test_row_major_products(library, dtype, a_transposed, b_transposed, add):
    rng = np.random.default_rng(1)
    m, n, k, count = 3, 5, 4, 2
    a = rng.standard_normal((count, k, m) if a_transposed else (count, m, k)).astype(dtype)
    b = rng.standard_normal((count, n, k) if b_transposed else (count, k, n)).astype(dtype)
    c = rng.standard_normal((count, m, n)).astype(dtype)
    left = a.swapaxes(1, 2) if a_transposed else a
    right = b.swapaxes(1, 2) if b_transposed else b
    wanted = left.astype(float) @ right.astype(float) + (c.astype(float) if add else 0)
    library.multiply(
        0, dtype, m, n, k,
        address(a), a_transposed, a.shape[2], m * k,
        address(b), b_transposed, b.shape[2], k * n,
        address(c), n, m * n, count, add,
    )  # fmt: skip
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(c.astype(float), wanted, rtol=tolerance, atol=4 * tolerance)


def test_stream_precision_and_version(library, fake):
    fake.fake_stream.restype = ctypes.c_void_p
    x, out = np.ones((1, 1), np.float32), np.empty((1, 1), np.float32)
    for tf32, sums in ((False, 68), (True, 77)):
        library.multiply(
            0x1234, "float32", 1, 1, 1, address(x), False, 1, 0, address(x), False, 1, 0, address(out), 1, 0, 1, False, tf32
        )  # fmt: skip
        assert fake.fake_sums() == sums
        assert fake.fake_stream() == 0x1234
    assert fake.fake_mode() == 16
    assert library.version == 130000


def test_a_refused_call_names_library_and_reason(library):
    x = np.ones((2, 2), np.float32)
    with pytest.raises(CublasError, match="GemmStridedBatched.*libfakecublas.*status 7.*invalid"):
        library.multiply(
            0, "float32", 2, 2, 2, address(x), False, 1, 0, address(x), False, 2, 0, address(x), 2, 0, 1
        )  # fmt: skip


def test_the_environment_chooses(fake_path, monkeypatch, tmp_path):
    monkeypatch.setenv("PLUGRAD_CUBLAS", fake_path)
    assert find().path == fake_path
    monkeypatch.setenv("PLUGRAD_CUBLAS", "0")
    assert find() is None
    monkeypatch.setenv("PLUGRAD_CUBLAS", str(tmp_path / "none.so"))
    with pytest.raises(OSError):
        find()


# ---- what plugrad asks of it ---------------------------------------------------------------------------------


class Waiting:
    """The stand-in, called when what was queued before has run: it knows no streams."""

    def __init__(self, library, cuda):
        self.library = library
        self.cuda = cuda

    def multiply(self, *args):
        self.cuda.synchronize()
        self.library.multiply(*args)


LAYOUTS = {
    "plain": lambda x: x,
    "transposed": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "reversed": lambda x: x[..., ::-1, :].copy()[..., ::-1, :],
    "sliced": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "padded": lambda x: np.concatenate([x, x], axis=-1)[..., : x.shape[-1]],
    "stride 0": lambda x: np.broadcast_to(x[..., :1, :], x.shape),
}
SHAPES = [
    ((3, 4), (4, 5)),
    ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (1, 3, 4, 5)),
    ((2, 2, 3, 4), (2, 1, 4, 5)),
]


@pytest.fixture
def blas(cuda, library, monkeypatch):
    from plugrad_ops.linalg import cuda as kernels

    monkeypatch.setattr(kernels, "blas", lambda: Waiting(library, cuda))
    return kernels


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_products_of_any_layout(blas, fake, shapes, dtype, device):
    rng = np.random.default_rng(2)
    for one, other in itertools.product(LAYOUTS.values(), repeat=2):
        a, b = (
            layout(rng.standard_normal(shape).astype(dtype))
            for layout, shape in zip((one, other), shapes)
        )
        calls = fake.fake_calls()
        got = device.down(blas.matmul(device.up(a), device.up(b)))
        assert fake.fake_calls() > calls
        wanted = a.astype(float) @ b.astype(float)
        assert got.shape == wanted.shape
        tolerance = TOLERANCE[dtype]
        np.testing.assert_allclose(got.astype(float), wanted, rtol=tolerance, atol=8 * tolerance)


def test_linear_with_a_bias(blas, fake, device):
    rng = np.random.default_rng(3)
    x, weight = rng.standard_normal((2, 6, 3)), rng.standard_normal((4, 3))
    for bias in (None, rng.standard_normal(8)[::2]):
        calls = fake.fake_calls()
        args = [device.up(v) for v in (x, weight, bias) if v is not None]
        got = device.down(blas.linear(*args))
        assert fake.fake_calls() == calls + 1  # the leading dimensions are rows of one product
        np.testing.assert_allclose(got, x @ weight.T + (0 if bias is None else bias), rtol=1e-14)


def test_tf32_only_when_asked_for(blas, cuda, fake, device, monkeypatch):
    x = device.up(np.ones((2, 2), np.float32))
    blas.matmul(x, x)
    assert fake.fake_sums() == 68
    monkeypatch.setattr(cuda, "matmul_allow_tf32", True, raising=False)
    blas.matmul(x, x)
    assert fake.fake_sums() == 77


def test_integers_and_vectors_do_not_go_there(blas, fake, device):
    calls = fake.fake_calls()
    whole = device.up(np.arange(4).reshape(2, 2))
    np.testing.assert_array_equal(device.down(blas.matmul(whole, whole)), [[2, 3], [6, 11]])
    vector = device.up(np.ones(2))
    np.testing.assert_array_equal(device.down(blas.matmul(vector, vector)), 2.0)
    assert fake.fake_calls() == calls
