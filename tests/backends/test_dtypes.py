"""What holds for all floating dtypes: kinds, rounding once, and where bfloat16 comes from."""

import subprocess
import sys

import numpy as np
import pytest

import plugrad
from plugrad.backends import dtypes

ml_dtypes = pytest.importorskip("ml_dtypes")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def test_importing_plugrad_does_not_import_the_package():
    text = (
        "import sys, plugrad; plugrad.ones(2).sum()\n"
        "assert 'ml_dtypes' not in sys.modules\n"
        "assert plugrad.zeros(2, dtype='bfloat16').dtype == plugrad.bfloat16\n"
    )
    subprocess.run([sys.executable, "-c", text], check=True)


def test_without_the_package_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    dtypes.bfloat16.cache_clear()
    plugrad.__dict__.pop("bfloat16", None)
    try:
        for use in (
            lambda: plugrad.bfloat16,
            lambda: plugrad.ones(2, dtype="bfloat16"),
            plugrad.ones(2).bfloat16,
        ):
            with pytest.raises(ModuleNotFoundError, match=r"plugrad\[bfloat16\]"):
                use()
    finally:
        dtypes.bfloat16.cache_clear()


def test_kinds_and_what_is_computed_in():
    assert plugrad.bfloat16 == BFLOAT16
    found = {d: dtypes.kind(np.dtype(d)) for d in ("f2", "f8", "i4", "?", "V2")}
    assert found == {"f2": "f", "f8": "f", "i4": "i", "?": "b", "V2": "V"}
    assert dtypes.kind(BFLOAT16) == "f"
    assert dtypes.wide(BFLOAT16) == dtypes.wide(np.dtype("f2")) == np.float32
    assert dtypes.wide(np.dtype("f8")) == np.float64
    assert dtypes.finfo(BFLOAT16).eps == 2**-7
    assert dtypes.finfo("float32").eps == np.float32(2**-23)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float64(1 + 2**-8), 1.0),  # a tie goes to the even neighbour
        (np.float64(1 + 3 * 2**-8), 1 + 2**-6),
        (np.float64(1 + 2**-8 + 2**-40), 1 + 2**-7),  # as a float32 it would be one
        (np.float64(-1 - 2**-8 - 2**-40), -1 - 2**-7),
        (np.float64(1 + 3 * 2**-8 - 2**-40), 1 + 2**-7),
        (np.int64(2**24 + 2**16 + 1), 2.0**24 + 2**17),
        (np.int32(-(2**24) - 2**16 - 1), -(2.0**24) - 2**17),
        (np.float64(1e300), np.inf),
        (np.float64(-np.inf), -np.inf),
        (np.float64(np.nan), np.nan),
        (np.float64(3.4e38), np.inf),
        (np.float64(2**-133), 2**-133),  # the least one
        (np.float64(2**-135), 0.0),
    ],
)
def test_numbers_are_rounded_once(value, expected):
    with np.errstate(all="ignore"):
        found = dtypes.rounded(np.array([value]), BFLOAT16)
    assert found.dtype == BFLOAT16
    np.testing.assert_array_equal(found.astype(np.float64), [expected])
    made = plugrad.tensor([value.item()], dtype=plugrad.bfloat16)
    np.testing.assert_array_equal(made.float().tolist(), [expected])
    cast = plugrad.from_numpy(np.array([value])).to(plugrad.bfloat16)
    np.testing.assert_array_equal(cast.float().tolist(), [expected])


def test_rounding_is_to_the_nearest():
    rng = np.random.default_rng(7)
    values = rng.standard_normal(2000) * 2.0 ** rng.integers(-40, 40, 2000)
    found = dtypes.rounded(values, BFLOAT16)
    bits = found.view(np.uint16)
    for step in (-1, 1):  # neither neighbour is closer
        other = (bits.astype(np.int32) + step).astype(np.uint16).view(BFLOAT16).astype(np.float64)
        assert (np.abs(found.astype(np.float64) - values) <= np.abs(other - values)).all()
