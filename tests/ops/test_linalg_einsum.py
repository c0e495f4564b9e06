"""einsum: every form of a call against NumPy, gradients against one product at a time, and what bad equations say."""

import numpy as np
import pytest

import plugrad
from plugrad import Tensor
from plugrad_ops.linalg import einsum as module

RNG = np.random.default_rng(5)

CASES = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ba,cb", (2, 3), (4, 2)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("ii", (3, 3)),
    ("iij->ij", (2, 2, 3)),
    ("iii->i", (2, 2, 2)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    ("i...->...", (2, 3, 4)),
    ("i...,i", (2, 3), (2,)),
    ("bn,anm,bm->ba", (2, 3), (4, 3, 5), (2, 5)),
    ("ij,kl->ijkl", (2, 3), (2, 2)),
    ("i,i,i->i", (3,), (3,), (3,)),
    ("ij, j -> i", (2, 3), (3,)),
    ("ijk,ilk,ij,k->l", (2, 3, 4), (2, 5, 4), (2, 3), (4,)),
    ("ab,bc,cd,de->ae", (2, 3), (3, 2), (2, 4), (4, 2)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
@pytest.mark.parametrize("optimised", [True, False])
def test_values_and_gradients_as_numpy(case, optimised, monkeypatch):
    equation, *shapes = case
    arrays = [RNG.standard_normal(shape) for shape in shapes]
    if not optimised:
        import builtins

        real = builtins.__import__

        def without(name, *args, **kwargs):
            if name == "opt_einsum":
                raise ImportError(name)
            return real(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", without)
    module._planned.cache_clear()
    tensors = [Tensor(a, requires_grad=True) for a in arrays]
    got = plugrad.einsum(equation, *tensors)
    module._planned.cache_clear()
    wanted = np.einsum(equation, *arrays)
    np.testing.assert_allclose(got.array, wanted, rtol=1e-10, atol=1e-12)
    seed = RNG.standard_normal(wanted.shape)
    grads = plugrad.autograd.grad(got, tensors, Tensor(seed))
    # The function is linear in each operand: the gradient by it, times any direction, is the value there.
    for i, grad in enumerate(grads):
        direction = RNG.standard_normal(shapes[i])
        moved = [direction if j == i else a for j, a in enumerate(arrays)]
        np.testing.assert_allclose(
            (grad.array * direction).sum(), (np.einsum(equation, *moved) * seed).sum(), rtol=1e-9
        )


def test_lists_of_labels():
    a, b = RNG.standard_normal((2, 3)), RNG.standard_normal((3, 4))
    x, y = Tensor(a), Tensor(b)
    np.testing.assert_allclose(plugrad.einsum(x, [0, 1], y, [1, 2], [0, 2]).array, a @ b)
    np.testing.assert_allclose(plugrad.einsum(x, [0, 1], y, [1, 2]).array, a @ b)
    np.testing.assert_allclose(plugrad.einsum(x, [..., 30], y, [30, 2], [..., 2]).array, a @ b)
    np.testing.assert_allclose(plugrad.einsum("ij,jk", [x, y]).array, a @ b)


def test_a_length_of_one_broadcasts():
    a, b = RNG.standard_normal((2, 1)), RNG.standard_normal((3, 4))
    got = plugrad.einsum("ij,jk->ik", Tensor(a), Tensor(b))
    np.testing.assert_allclose(got.array, a * b.sum(0), rtol=1e-12)
    got = plugrad.einsum("ij,ij->ij", Tensor(a[:, :1]), Tensor(b[:1]))
    np.testing.assert_allclose(got.array, a * b[:1])


def test_integers_and_empty_dimensions():
    a = np.arange(6).reshape(2, 3)
    assert plugrad.einsum("ij,kj->ik", Tensor(a), Tensor(a)).array.tolist() == (a @ a.T).tolist()
    got = plugrad.einsum("ij,j->i", plugrad.ones(2, 0), plugrad.ones(0))
    assert got.array.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "args, words",
    [
        (("ij", (2,)), "names 2"),
        (("i,j", (2,)), "for 2 operands, got 1"),
        (("i->j", (2,)), "on no operand"),
        (("ij->ii", (2, 2)), "more than once in the result"),
        (("ii->i", (2, 3)), "two lengths"),
        (("i,i", (2,), (3,)), "length 3 on operand 1, which does not broadcast with 2"),
        (("i1", (2, 2)), "letters"),
        (("...i...", (2, 2)), "letters"),
    ],
)
def test_what_bad_equations_say(args, words):
    equation, *shapes = args
    with pytest.raises(RuntimeError, match=words):
        plugrad.einsum(equation, *(plugrad.ones(*shape) for shape in shapes))


def test_labels_beyond_the_alphabet_are_refused():
    with pytest.raises(ValueError, match="from 0 to 51"):
        plugrad.einsum(plugrad.ones(2), [52])
