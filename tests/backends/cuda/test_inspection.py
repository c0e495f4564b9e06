"""NaN, infinity and checksums, of any dtype and layout."""

import itertools

import numpy as np
import pytest

import plugrad
from plugrad.backends import inspection
from plugrad.backends.checksum import checksum

pytestmark = pytest.mark.usefixtures("cuda")


def on_device(values):
    return plugrad.tensor(values, device="cuda")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("bad", [None, np.nan, np.inf, -np.inf])
def test_nan_and_infinity(dtype, bad):
    for shape, place in (((), 0), ((7,), 6), ((300, 70), 20_999)):
        values = np.ones(shape, dtype)
        if bad is not None:
            values.reshape(-1)[place] = bad if np.dtype(dtype).kind == "f" else complex(1, bad)
        for tensor in (on_device(values), on_device(values).transpose(0, -1) if shape else None):
            if tensor is not None:
                assert inspection.has_nan(tensor) == np.isnan(values).any()
                assert inspection.all_finite(tensor) == np.isfinite(values).all()


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint32"])
def test_whole_numbers_are_finite(dtype):
    assert inspection.all_finite(on_device(np.ones(3, dtype)))
    assert not inspection.has_nan(on_device(np.ones(3, dtype)))


def test_nothing_is_finite():
    empty = plugrad.zeros(0, 3, device="cuda")
    assert inspection.all_finite(empty)
    assert not inspection.has_nan(empty)
    assert checksum(empty.array) == checksum(empty.array)


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int16", "float16", "float32", "int64", "float64", "complex64", "complex128"]
)  # fmt: skip
def test_every_single_change_changes_the_checksum(dtype):
    print("seed 0")
    values = np.random.default_rng(0).integers(0, 2, 40).astype(dtype)
    before = checksum(on_device(values).array)
    assert checksum(on_device(values).array) == before
    for i in range(40):
        changed = values.copy()
        changed[i] = 1 - changed[i]
        assert checksum(on_device(changed).array) != before


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_signs_and_places_count(dtype):
    values = np.arange(1, 9).astype(dtype)
    before = checksum(on_device(values).array)
    for i, j in itertools.combinations(range(8), 2):
        swapped, signs = values.copy(), values.copy()
        swapped[[i, j]] = swapped[[j, i]]
        signs[[i, j]] *= -1
        assert before not in (checksum(on_device(swapped).array), checksum(on_device(signs).array))


def test_the_layout_does_not_count():
    values = np.arange(12.0).reshape(3, 4)
    there = on_device(values)
    assert checksum(on_device(values.T.copy()).t().array) == checksum(there.array)
    assert checksum(there[:, ::2].array) == checksum(on_device(values[:, ::2].copy()).array)
    assert checksum(there.t().array) != checksum(there.array)
