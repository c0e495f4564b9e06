"""Lookup in tables: padding, indices out of bounds, bags of every form."""

import numpy as np
import pytest

import plugrad
import plugrad.nn.functional as F
from plugrad import Tensor

TABLE = np.arange(12.0).reshape(4, 3)
INDICES = np.array([0, 2, 2, 1, 2, 3])
REDUCED = {"sum": np.sum, "mean": np.mean, "max": np.max}


def table():
    return Tensor(TABLE.copy(), requires_grad=True)


def test_rows_and_their_gradients():
    weight = table()
    out = F.embedding(Tensor(np.array([[0, 2], [2, 1]])), weight)
    np.testing.assert_array_equal(out.array, TABLE[[[0, 2], [2, 1]]])
    out.sum().backward()
    assert weight.grad.array[:, 0].tolist() == [1, 1, 2, 0]


@pytest.mark.parametrize("padding_idx", [2, -2])
def test_padding_gets_no_gradient(padding_idx):
    weight = table()
    out = F.embedding(Tensor(INDICES), weight, padding_idx)
    np.testing.assert_array_equal(out.array, TABLE[INDICES])
    out.sum().backward()
    assert weight.grad.array[:, 0].tolist() == [1, 1, 0, 1]


@pytest.mark.parametrize("index", [-1, 4])
def test_there_is_no_row_outside(index):
    with pytest.raises(IndexError, match=f"from 0 to 3, the rows of weight, got {index}"):
        F.embedding(Tensor(np.array([0, index])), table())


@pytest.mark.parametrize("index", [-1, -100, 4])
def test_there_is_no_row_outside_on_a_device(cuda, index):
    given = Tensor(np.array([[0, index]])).to("cuda"), Tensor(TABLE).to("cuda")
    for function in (F.embedding, F.embedding_bag):
        with pytest.raises(
            IndexError,
            match=f"^{function.__name__}: indices must be from 0 to 3, .* got {index}$",
        ):
            function(*given)


def test_short_integers_reach_all_rows_of_a_device(cuda):
    at, rows = np.array([1, 100], np.int8), plugrad.arange(1000.0, device="cuda").reshape(500, 2)
    assert F.embedding(Tensor(at).to("cuda"), rows).tolist() == [[2.0, 3.0], [200.0, 201.0]]


@pytest.mark.parametrize("option", ["max_norm", "scale_grad_by_freq", "sparse"])
@pytest.mark.parametrize("function", [F.embedding, F.embedding_bag])
def test_what_is_not_supported_is_refused(function, option):
    with pytest.raises(NotImplementedError, match=option):
        function(Tensor(INDICES[None]), table(), **{option: True})


@pytest.mark.parametrize("mode", REDUCED)
def test_bags(mode):
    wanted = np.array([REDUCED[mode](TABLE[bag], 0) for bag in (INDICES[:2], INDICES[2:])])
    offsets = np.array([0, 2, 6])
    found = F.embedding_bag(Tensor(INDICES), table(), Tensor(offsets[:2]), mode=mode)
    np.testing.assert_allclose(found.array, wanted)
    found = F.embedding_bag(
        Tensor(INDICES), table(), Tensor(offsets), mode=mode, include_last_offset=True
    )
    np.testing.assert_allclose(found.array, wanted)
    found = F.embedding_bag(Tensor(INDICES.reshape(2, 3)), table(), mode=mode)
    np.testing.assert_allclose(found.array, REDUCED[mode](TABLE[INDICES.reshape(2, 3)], 1))


@pytest.mark.parametrize("mode", REDUCED)
def test_empty_bags_and_padding(mode):
    found = F.embedding_bag(
        Tensor(INDICES), table(), Tensor(np.array([0, 1, 1, 3])), mode=mode, padding_idx=2
    )
    wanted = np.array([TABLE[0], [0, 0, 0], [0, 0, 0], REDUCED[mode](TABLE[[1, 3]], 0)])
    np.testing.assert_allclose(found.array, wanted)


def test_weighted_sums():
    weight, factors = table(), Tensor(np.arange(6.0), requires_grad=True)
    offsets = Tensor(np.array([0, 2]))
    out = F.embedding_bag(Tensor(INDICES), weight, offsets, mode="sum", per_sample_weights=factors)
    each = TABLE[INDICES] * np.arange(6.0)[:, None]
    np.testing.assert_allclose(out.array, [each[:2].sum(0), each[2:].sum(0)])
    out.sum().backward()
    np.testing.assert_allclose(factors.grad.array, TABLE[INDICES].sum(1))
    assert weight.grad.array[:, 0].tolist() == [0, 3, 7, 5]


@pytest.mark.parametrize(
    ("arguments", "constants", "error", "words"),
    [
        ((INDICES, TABLE), {}, ValueError, "needs offsets"),
        ((INDICES[None], TABLE, np.array([0])), {}, ValueError, "2-d without"),
        ((INDICES, TABLE, np.array([1, 2])), {}, ValueError, "begin at 0"),
        ((INDICES, TABLE, np.array([0, 3, 2])), {}, ValueError, "rise to 6 at most"),
        ((INDICES[None], TABLE), {"mode": "median"}, ValueError, "mode must be"),
        ((INDICES[None], TABLE), {"padding_idx": 9}, ValueError, "padding_idx"),
        ((INDICES[None], TABLE[0]), {}, ValueError, "weight must be 2-d"),
        ((INDICES[None].astype(float), TABLE), {}, TypeError, "must hold integers"),
    ],
)
def test_errors(arguments, constants, error, words):
    with pytest.raises(error, match=words):
        F.embedding_bag(*map(Tensor, arguments), **constants)


def test_bilinear_forms():
    rng = np.random.default_rng(0)
    x, y, weight, bias = (rng.standard_normal(s) for s in ((2, 5, 3), (2, 5, 4), (6, 3, 4), 6))
    found = F.bilinear(*map(Tensor, (x, y, weight, bias)))
    np.testing.assert_allclose(found.array, np.einsum("bni,kij,bnj->bnk", x, weight, y) + bias)
    with pytest.raises(RuntimeError, match="weight"):
        F.bilinear(*map(Tensor, (x, x, weight)))
