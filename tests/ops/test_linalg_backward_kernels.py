"""Gradients of factorisations computed on arrays in one piece: the same as by the rules, whatever the shape, rank and dtype."""

import numpy as np
import pytest

import plugrad
from plugrad import Tensor, ops

SEED = 11
SHAPES = [(3, 3), (5, 3), (2, 3, 5), (2, 2, 4, 4), (60, 60), (70, 50), (0, 3, 3), (2, 0, 0)]
TOLERANCES = {np.float64: 1e-8, np.float32: 2e-3, np.float16: 5e-2}


def both_ways(function, tensors, rng):
    """Gradients as backward gives them, and as it does when it is recorded, with the same random seeds."""
    outputs = [out for out in function(*tensors) if out.requires_grad]
    seeds = [Tensor(np.asarray(rng.uniform(-1, 1, out.shape), out.dtype)) for out in outputs]
    return [
        plugrad.autograd.grad(outputs, tensors, seeds, retain_graph=True, create_graph=recorded)
        for recorded in (False, True)
    ]


def check(function, arrays, dtype, rng):
    tensors = [Tensor(a.astype(dtype), requires_grad=True) for a in arrays]
    for x, got, wanted in zip(tensors, *both_ways(function, tensors, rng)):
        assert got.shape == x.shape and got.dtype == x.dtype
        scale = np.abs(wanted.array).max(initial=1.0)
        np.testing.assert_allclose(got.array / scale, wanted.array / scale, atol=TOLERANCES[dtype])


def with_singular_values(rng, shape, values=None):
    left, _, right = np.linalg.svd(rng.standard_normal(shape), full_matrices=False)
    count = min(shape[-2:])
    values = 1.0 + np.arange(count)[::-1] / 2 if values is None else values
    return (left * values) @ right


# In the rule, the rounding of 16-bit intermediates adds up where matrices are large.
@pytest.mark.parametrize(
    "shape, dtype",
    [(s, d) for s in SHAPES for d in TOLERANCES if d != np.float16 or max(s) < 10],
)
def test_lu_factors(shape, dtype):
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    a = rng.standard_normal(shape) + 4 * np.eye(*shape[-2:])
    check(ops.linalg_lu_factor_ex, [a], dtype, rng)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values_and_vectors(shape, full, dtype):
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    a = with_singular_values(rng, shape)
    check(lambda x: ops.linalg_svd_all(x, full_matrices=full), [a], dtype, rng)


@pytest.mark.parametrize("values", [[2.0, 2.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 3), (3, 4)])
def test_singular_values_that_repeat_or_vanish(shape, values):
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    x = Tensor(with_singular_values(rng, shape, np.array(values)), requires_grad=True)
    got, wanted = both_ways(lambda x: [ops.linalg_svd_all(x, full_matrices=False)[1]], [x], rng)
    assert np.isfinite(got[0].array).all()
    np.testing.assert_allclose(got[0].array, wanted[0].array, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("smallest", [1.0, 1e-2, 1e-6, 0.0])
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 4, 4), (12, 12), (2, 0, 0)])
def test_cofactors_of_every_condition(shape, smallest, dtype):
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    values = np.append(np.linspace(2.0, 1.0, max(shape[-1], 1) - 1), smallest)[: shape[-1]]
    check(
        lambda x: [ops.linalg_cofactor(x)],
        [with_singular_values(rng, shape, values)],
        dtype,
        rng,
    )


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_triangular_systems_whose_leading_dimensions_broadcast(left, upper, unit, dtype):
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    options = {"upper": upper, "left": left, "unitriangular": unit}
    for of_a, of_b in [((), ()), ((2, 1), (3,)), ((3,), (2, 3)), ((), (2,)), ((2,), ())]:
        a = 0.3 * rng.standard_normal((*of_a, 4, 4)) + 2 * np.eye(4)
        b = rng.standard_normal((*of_b, *((4, 2) if left else (2, 4))))
        check(lambda a, b: [ops.linalg_solve_triangular(a, b, **options)], [a, b], dtype, rng)


# ---- exchanges of rows ---------------------------------------------------------------------------------------


def test_rows_are_exchanged_in_turn_and_back():
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    for batch, rows, steps in [((), 4, 4), ((3,), 5, 2), ((2, 3), 3, 3), ((0,), 2, 2), ((), 2, 0)]:
        pivots = rng.integers(np.arange(steps), rows, (*batch, steps)) + 1
        x = rng.standard_normal((*batch, rows, 2))
        wanted = x.copy()
        for at in np.ndindex(*batch):
            for i, other in enumerate(pivots[at] - 1):
                wanted[at][[i, other]] = wanted[at][[other, i]]
        out = ops.exchange_rows(Tensor(x), Tensor(pivots))
        np.testing.assert_array_equal(out.array, wanted)
        back = ops.exchange_rows(out, Tensor(pivots), inverse=True)
        np.testing.assert_array_equal(back.array, x)
        order = ops.lu_permutation(Tensor(pivots), rows=rows).array
        np.testing.assert_array_equal(np.take_along_axis(x, order[..., None], -2), wanted)


@pytest.mark.parametrize(
    "pivots, error, words",
    [
        ([1, 3], IndexError, "the pivot 3 is none of 2 rows"),
        ([0, 1], IndexError, "the pivot 0 is none of 2 rows"),
        ([1, 2, 2], RuntimeError, "3 pivots are too many for 2 rows"),
    ],
)
def test_pivots_that_are_no_rows(pivots, error, words):
    with pytest.raises(error, match=words):
        ops.exchange_rows(Tensor(np.ones((2, 2))), Tensor(np.array(pivots)))
    with pytest.raises(error, match=words):
        ops.lu_permutation(Tensor(np.array(pivots)), rows=2, inverse=True)
