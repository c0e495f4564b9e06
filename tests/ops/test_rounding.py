"""round, floor, ceil and trunc."""

import numpy as np
import pytest

import plugrad

VALUES = np.array([-2.5, -1.5, -0.2, -0.0, 0.5, 1.5, 2.7, np.inf, -np.inf, np.nan])
CASES = [("round", np.round), ("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc)]


@pytest.mark.parametrize(("name", "reference"), CASES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats(name, reference, dtype):
    out = getattr(plugrad, name)(plugrad.tensor(VALUES.astype(dtype)))
    assert out.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(out.array, reference(VALUES.astype(dtype)))


@pytest.mark.parametrize(("name", "reference"), CASES)
def test_integers_and_bools_are_copied(name, reference):
    for values in (np.array([-3, 0, 7]), np.array([True, False])):
        x = plugrad.tensor(values)
        out = getattr(x, name)()
        assert out.dtype == values.dtype
        assert out.tolist() == values.tolist()
        assert not np.shares_memory(out.array, x.array)


@pytest.mark.parametrize(("name", "reference"), CASES)
def test_the_derivative_is_zero(name, reference):
    x = plugrad.tensor([-1.5, 0.0, 0.7], requires_grad=True)
    getattr(plugrad, name)(x).sum().backward()
    assert x.grad.tolist() == [0, 0, 0]


def test_decimals():
    x = plugrad.tensor([1.25, -3.14159, 1234.5], dtype=np.float64)
    assert x.round(decimals=2).tolist() == [1.25, -3.14, 1234.5]
    assert x.round(decimals=-2).tolist() == [0, 0, 1200]


@pytest.mark.parametrize(("name", "reference"), CASES)
def test_as_pytorch(name, reference):
    torch = pytest.importorskip("torch")
    x = VALUES[np.isfinite(VALUES)]
    theirs = getattr(torch, name)(torch.tensor(x)).numpy()
    np.testing.assert_array_equal(getattr(plugrad, name)(plugrad.tensor(x)).array, theirs)
