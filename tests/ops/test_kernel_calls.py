"""Kernels called from Python without their operator: with too few arguments as with enough, no crash."""

import importlib
import pkgutil

import numpy as np
import pytest

import plugrad_ops
from plugrad.graph.op import Kernel

MODULES = [
    module.name
    for module in pkgutil.walk_packages(plugrad_ops.__path__, "plugrad_ops.")
    if not module.ispkg and "cu" not in module.name.rpartition(".")[2].split("_")
]


def kernels():
    for name in MODULES:
        for attribute, value in vars(importlib.import_module(name)).items():
            if isinstance(value, Kernel):
                yield pytest.param(value, id=f"{name}.{attribute}")


@pytest.mark.parametrize("kernel", list(kernels()))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_missing_is_an_error_or_has_the_functions_default(kernel):
    with pytest.raises(TypeError):
        kernel()
    for args in ([np.array([0.25, 0.5])], [np.array([0.25, 0.5])] * 2):
        try:
            found = kernel(*args)
        except Exception as error:
            assert not isinstance(error, SystemError)
        else:
            np.testing.assert_allclose(found, kernel.function(*args), rtol=1e-6)


def test_defaults_of_constants():
    from plugrad_ops.activation.cpu import gelu

    x = np.array([-1.0, 2.0])
    assert np.array_equal(gelu(x), gelu(x, "none"))
    assert not np.array_equal(gelu(x), gelu(x, approximate="tanh"))
