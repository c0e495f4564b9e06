"""The contract: one line of pytest_plugrad, and that the surrogates are really what is checked."""

import numpy as np
import plugrad_ste
import pytest
from plugrad_ste.quantize import quantization_range

import plugrad
from plugrad import contract, ops
from pytest_plugrad import check_operators

test_contract = check_operators("ste")


def test_the_namespace_holds_what_the_module_exports():
    for name in ("round", "sign", "binarize", "fake_quantize"):
        assert getattr(ops.ste, name) is getattr(plugrad_ste, name)


def other_ends(x, scale, zero_point, *, bits=8, signed=True):
    """The derivative by x of a quantiser whose range ends where x / scale does, unrounded."""
    low, high = quantization_range(bits, signed)
    return (np.clip(x / scale + zero_point, low, high) - zero_point) * scale


@pytest.mark.parametrize(
    ("name", "surrogate"),
    [
        ("round", lambda x: 1.01 * x),
        ("sign", lambda x: np.clip(x, -1.0, 1.0)),
        ("binarize", lambda x: x),
        ("fake_quantize", other_ends),
    ],
)
def test_another_surrogate_is_refused(name, surrogate):
    operator = getattr(ops.ste, name)
    ones = [plugrad.tensor([1.0]) for _ in operator.schema.inputs]
    operator(*ones)  # verifies it, and what its rule calls, with the surrogate that it declares
    report = contract.check(operator, surrogate=surrogate)
    assert not report.passed
    assert report.failed("surrogate")
