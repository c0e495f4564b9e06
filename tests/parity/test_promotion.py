"""Which dtype two operands give, against PyTorch: tensors of one dimension, 0-d tensors, Python numbers."""

import itertools

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import numpy as np
from harness import Plugrad, Torch

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
NAMES = ("add", "mul", "div", "maximum", "remainder", "eq", "where", "pow")
NUMBERS = (True, 2, 1.5)


def result(library, name, *operands):
    """The dtype's name, or "error"."""
    given = [library.tensor(v, False) if isinstance(v, np.ndarray) else v for v in operands]
    if name == "where":
        given.insert(0, library.tensor(np.ones(1, bool), False))
    try:
        return library.numpy(getattr(library.lib, name)(*given)).dtype.name
    except (TypeError, ValueError, RuntimeError):
        return "error"


def differing(name, pairs):
    """Pairs of operands and what either library gives, where PyTorch gives something and plugrad something else."""
    found = {}
    for label, operands in pairs:
        theirs, ours = (result(library, name, *operands) for library in (Torch, Plugrad))
        if ours != theirs != "error":
            found[label] = (ours, theirs)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_tensors_of_one_dimension(name):
    pairs = (((a, b), (np.ones(2, a), np.ones(2, b))) for a, b in itertools.product(DTYPES, DTYPES))
    assert differing(name, pairs) == {}


@pytest.mark.parametrize("name", NAMES)
def test_a_number_takes_the_dtype_of_the_tensor(name):
    if name == "maximum":
        pytest.skip("PyTorch's maximum takes no numbers")
    numbers = NUMBERS[1:] if name == "pow" else NUMBERS  # no power of booleans
    pairs = (((a, n), (np.ones(2, a), n)) for a, n in itertools.product(DTYPES, numbers))
    assert differing(name, pairs) == {}


@pytest.mark.parametrize("name", ("add", "mul"))
def test_a_0d_tensor_counts_as_any_other(name):
    """In PyTorch one of a lower or the same kind does not; listed in docs/pytorch.md."""
    pairs = [
        ((a, b), (np.ones(2, a), np.ones((), b))) for a, b in itertools.product(DTYPES, DTYPES)
    ]
    found = differing(name, pairs)
    assert found
    for label, operands in pairs:
        wide = result(Plugrad, name, operands[0], np.ones(2, operands[1].dtype))
        assert result(Plugrad, name, *operands) == wide, label
