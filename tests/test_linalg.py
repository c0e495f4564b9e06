"""plugrad.linalg: PyTorch's names, signatures and named results over the standard operators."""

import inspect

import numpy as np
import pytest

import plugrad
from plugrad import linalg


def test_every_name_is_offered_and_documented():
    for name in linalg.__all__:
        assert getattr(linalg, name).__doc__, name
    assert plugrad.linalg is linalg


@pytest.mark.parametrize(
    "name, signature",
    [
        ("inv_ex", "A *, check_errors=False"),
        ("solve", "A B *, left=True"),
        ("solve_triangular", "A B *, upper left=True unitriangular=False"),
        ("lstsq", "A B rcond=None *, driver=None"),
        ("qr", "A mode='reduced'"),
        ("eigh", "A UPLO='L'"),
        ("svd", "A full_matrices=True *, driver=None"),
        ("matrix_norm", "A ord='fro' dim=(-2, -1) keepdim=False *, dtype=None"),
        ("vector_norm", "x ord=2 dim=None keepdim=False *, dtype=None"),
        ("norm", "A ord=None dim=None keepdim=False *, dtype=None"),
        ("cholesky_ex", "A *, upper=False check_errors=False"),
        ("lu_solve", "LU pivots B *, left=True adjoint=False"),
        ("vander", "x *, N=None"),
        ("diagonal", "A *, offset=0 dim1=-2 dim2=-1"),
    ],
)
def test_signatures_are_pytorchs(name, signature):
    found, starred = [], False
    for parameter in inspect.signature(getattr(linalg, name)).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            found.append("*,")
            starred = True
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        found.append(parameter.name + default)
    assert " ".join(found) == signature


def test_results_have_names():
    a = plugrad.tensor([[2.0, 1.0], [1.0, 3.0]])
    names = {
        "eigh": ("eigenvalues", "eigenvectors"),
        "svd": ("U", "S", "Vh"),
        "qr": ("Q", "R"),
        "slogdet": ("sign", "logabsdet"),
        "lu": ("P", "L", "U"),
        "lu_factor": ("LU", "pivots"),
        "lu_factor_ex": ("LU", "pivots", "info"),
        "inv_ex": ("inverse", "info"),
        "cholesky_ex": ("L", "info"),
    }
    for name, fields in names.items():
        assert getattr(linalg, name)(a)._fields == fields
    assert linalg.lstsq(a, a)._fields == ("solution", "residuals", "rank", "singular_values")
    assert linalg.solve_ex(a, a)._fields == ("result", "info")
    assert linalg.lu_factor(a).pivots.dtype == np.int32
    assert linalg.inv_ex(a, check_errors=True).info.item() == 0


def test_the_names_outside_and_the_methods():
    a = plugrad.tensor([[2.0, 1.0], [1.0, 3.0]])
    inverse = linalg.inv(a).array
    for got in (plugrad.inverse(a), a.inverse(), plugrad.cholesky_inverse(plugrad.cholesky(a))):
        np.testing.assert_allclose(got.array, inverse, rtol=1e-6)
    assert plugrad.det(a).item() == pytest.approx(5.0) == a.det().item()
    assert plugrad.logdet(a).item() == pytest.approx(np.log(5.0))
    assert a.slogdet().sign.item() == 1.0
    assert plugrad.trace(a).item() == a.trace().item() == 5.0
    np.testing.assert_allclose(a.pinverse().array, inverse, rtol=1e-5)
    np.testing.assert_allclose(a.matrix_exp().array, linalg.matrix_exp(a).array)


def test_a_linalg_error_is_a_runtime_error():
    assert issubclass(linalg.LinAlgError, RuntimeError)
    with pytest.raises(RuntimeError, match="singular"):
        linalg.inv(plugrad.zeros(2, 2))


def test_both_names_of_a_tolerance():
    a = plugrad.tensor([[1.0, 0.0], [0.0, 1e-3]])
    assert linalg.matrix_rank(a, 0.1).item() == 1
    assert linalg.pinv(a, 0.1).array[1, 1] == 0.0
    for call in (
        lambda: linalg.matrix_rank(a, 0.1, rtol=0.1),
        lambda: linalg.pinv(a, 0.1, atol=1.0),
    ):
        with pytest.raises(ValueError, match="got both"):
            call()


def test_factors_without_pivoting_are_refused():
    with pytest.raises(NotImplementedError, match="pivot=False"):
        linalg.lu_factor(plugrad.eye(2), pivot=False)
