"""plugrad.func: transforms of functions, alone and nested."""

from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plugrad
from plugrad import Tensor, func, tensor
from plugrad.autograd import forward_ad as fw
from plugrad.graph import duals


def doubles(*values, **flags):
    return tensor(values, dtype=plugrad.float64, **flags)


def number(value, **flags):
    return tensor(value, dtype=plugrad.float64, **flags)


X = doubles(1, 2)
ONE = number(1.0)


def cubes(x):
    return (x**3).sum()


def derivative(f):
    """By forward mode, for functions of a number."""
    return lambda x: func.jvp(f, (x,), (ONE,))[1]


# ---- gradients -----------------------------------------------------------------------------------


def test_grad_and_value():
    assert func.grad(cubes)(X).tolist() == [3, 12]
    value, slope = func.value_and_grad(cubes)(X)
    assert (value.item(), slope.tolist()) == (9, [3, 12])
    assert not value.requires_grad and not slope.requires_grad


def test_argnums_and_keywords():
    def f(x, y, *, scale=1.0):
        return scale * (x * y).sum()

    y = doubles(3, 4)
    assert func.grad(f, argnums=1)(X, y, scale=2.0).tolist() == [2, 4]
    assert func.grad(f, argnums=-1)(X, y).tolist() == [1, 2]
    gx, gy = func.grad(f, argnums=(0, 1))(X, y)
    assert (gx.tolist(), gy.tolist()) == ([3, 4], [1, 2])
    assert len(func.grad(f, argnums=(0,))(X, y)) == 1


def test_aux():
    def f(x):
        return (x * x).sum(), {"twice": 2 * x, "n": 3}

    slope, aux = func.grad(f, has_aux=True)(X)
    assert (slope.tolist(), aux["twice"].tolist(), aux["n"]) == ([2, 4], [2, 4], 3)
    assert not aux["twice"].requires_grad
    (value, aux), slope = func.value_and_grad(f, has_aux=True)(X)
    assert (value.item(), slope.tolist(), aux["n"]) == (5, [2, 4], 3)
    out, tangent, aux = func.jvp(f, (X,), (X,), has_aux=True)
    assert (out.item(), tangent.item(), aux["n"]) == (5, 10, 3)
    out, vjp_fn, aux = func.vjp(f, X, has_aux=True)
    assert (vjp_fn(ONE)[0].tolist(), aux["n"]) == ([2, 4], 3)
    for jacobian in (func.jacrev, func.jacfwd):
        found, aux = jacobian(f, has_aux=True)(X)
        assert (found.tolist(), aux["n"]) == ([2, 4], 3)


Point = namedtuple("Point", "x y")


def test_trees():
    def f(parameters, point):
        return (parameters["w"][0] * point.x).sum() + parameters["b"] * point.y

    parameters = {"w": [X, None], "b": number(5)}
    point = Point(doubles(3, 4), number(2))
    found, slopes = func.grad(f, argnums=(0, 1))(parameters, point)
    assert (found["w"][0].tolist(), found["w"][1], found["b"].item()) == ([3, 4], None, 2)
    assert isinstance(slopes, Point)
    assert (slopes.x.tolist(), slopes.y.item()) == ([1, 2], 5)
    _, tangent = func.jvp(lambda p: {"s": p.x * p.y}, (point,), (point,))
    assert tangent["s"].tolist() == [12, 16]
    rows = func.jacrev(lambda p: (p.x * p.y, p.y))(point)
    assert [block.shape for row in rows for block in row] == [(2, 2), (2,), (2,), ()]


def test_an_input_that_does_not_matter():
    _, gy = func.grad(lambda x, y: x.sum(), argnums=(0, 1))(X, X)
    assert gy.tolist() == [0, 0]
    assert func.grad(lambda x: plugrad.ones(()))(X).tolist() == [0, 0]
    assert func.jacrev(lambda x: plugrad.ones(3))(X).tolist() == [[0, 0]] * 3
    assert func.jacfwd(lambda x: plugrad.ones(3))(X).tolist() == [[0, 0]] * 3
    assert func.jvp(lambda x: plugrad.ones(3), (X,), (X,))[1].tolist() == [0, 0, 0]


# ---- products and Jacobians ----------------------------------------------------------------------


def test_vjp_can_be_called_again():
    out, vjp_fn = func.vjp(lambda x, y: {"p": x * y, "s": x.sum()}, X, doubles(3, 4))
    assert out["p"].tolist() == [3, 8]
    gx, gy = vjp_fn({"p": doubles(1, 1), "s": number(10)})
    assert (gx.tolist(), gy.tolist()) == ([13, 14], [1, 2])
    assert vjp_fn({"p": doubles(0, 1), "s": number(0)})[0].tolist() == [0, 4]
    with pytest.raises(RuntimeError, match="must have the form"):
        vjp_fn(doubles(1, 1))
    with pytest.raises(RuntimeError, match=r"a cotangent has shape \(1,\)"):
        vjp_fn({"p": doubles(1), "s": number(0)})


@pytest.mark.parametrize("jacobian", [func.jacrev, func.jacfwd])
def test_jacobians(jacobian):
    f = lambda x, y: (x.unsqueeze(1) * y, y.sum())  # noqa: E731
    y = doubles(3, 4, 5)
    matrix, total = jacobian(f, argnums=(0, 1))(X, y)
    assert [m.shape for m in matrix] == [(2, 3, 2), (2, 3, 3)]
    expected = np.einsum("ik,j->ijk", np.eye(2), y.numpy())
    assert matrix[0].numpy() == pytest.approx(expected)
    assert total[0].tolist() == [0, 0]
    assert total[1].tolist() == [1, 1, 1]
    assert jacobian(lambda x: x[:0])(X).shape == (0, 2)
    assert jacobian(lambda x: x.sum() * X)(plugrad.zeros(0)).shape == (2, 0)


def test_hessian():
    assert func.hessian(cubes)(X).tolist() == [[6, 0], [0, 12]]
    blocks = func.hessian(lambda p: (p["a"] * p["b"]).sum())({"a": X, "b": X})
    assert blocks["a"]["b"].tolist() == [[1, 0], [0, 1]]
    assert blocks["a"]["a"].tolist() == [[0, 0], [0, 0]]


# ---- nesting -------------------------------------------------------------------------------------

D = {"reverse": func.grad, "forward": derivative}


@pytest.mark.parametrize("outer", D)
@pytest.mark.parametrize("middle", D)
@pytest.mark.parametrize("inner", D)
def test_third_derivatives(outer, middle, inner):
    found = D[outer](D[middle](D[inner](lambda x: x**4 * 2)))(number(3.0))
    assert found.item() == 2 * 24 * 3
    assert not found.requires_grad


@pytest.mark.parametrize("outer", D)
@pytest.mark.parametrize("inner", D)
def test_perturbations_are_not_confused(outer, inner):
    f = D[outer](lambda x: x * D[inner](lambda y: x + y)(ONE))
    assert f(ONE).item() == 1
    g = D[outer](lambda x: x * D[inner](lambda y: x * y * y)(number(3)))
    assert g(number(2)).item() == 24
    h = D[outer](lambda x: D[inner](lambda y: y**3)(x))
    assert h(number(2)).item() == 12


JACOBIANS = (func.jacrev, func.jacfwd)


@pytest.mark.parametrize("outer", JACOBIANS)
@pytest.mark.parametrize("inner", JACOBIANS)
def test_jacobians_of_jacobians(outer, inner):
    assert outer(inner(cubes))(X).tolist() == [[6, 0], [0, 12]]


def test_a_product_with_the_hessian():
    assert func.jvp(func.grad(cubes), (X,), (X,))[1].tolist() == [6, 24]
    assert func.vjp(func.grad(cubes), X)[1](X)[0].tolist() == [6, 24]


def test_inside_a_level_of_forward_mode():
    with fw.dual_level():
        slope = func.grad(cubes)(fw.make_dual(X, X))
        assert fw.unpack_dual(slope).tangent.tolist() == [6, 24]


# ---- tensors outside -----------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["grad", "jvp", "jacrev", "jacfwd", "vjp"])
def test_a_weight_outside_gets_its_gradient(how):
    w = doubles(3, 4, requires_grad=True)

    def f(x):
        return (w * x * x).sum()

    found = {
        "grad": lambda: func.grad(f)(X),
        "jvp": lambda: func.jvp(f, (X,), (doubles(1, 1),))[1],
        "jacrev": lambda: func.jacrev(f)(X),
        "jacfwd": lambda: func.jacfwd(f)(X),
        "vjp": lambda: func.vjp(f, X)[1](ONE)[0],
    }[how]()
    found.sum().backward()
    assert w.grad.tolist() == [2, 4]


@pytest.mark.parametrize("transform", [func.grad, func.jacrev, func.jacfwd])
def test_an_argument_that_requires_grad_stays_connected(transform):
    x = doubles(1, 2, requires_grad=True)
    found = transform(cubes)(x)
    found.sum().backward()
    assert x.grad.tolist() == [6, 12]
    with plugrad.no_grad():
        assert not transform(cubes)(x).requires_grad


def test_value_and_aux_keep_only_the_graph_that_is_outside():
    w = doubles(3, 4, requires_grad=True)
    value, _ = func.value_and_grad(lambda x: (w * x).sum())(X)
    value.backward()
    assert w.grad.tolist() == [1, 2]
    _, (inside, outside) = func.grad(lambda x: (x.sum(), (x * 2, w * x)), has_aux=True)(X)
    assert (inside.requires_grad, outside.requires_grad) == (False, True)


def test_arguments_are_left_alone():
    x = doubles(1, 2)
    func.grad(cubes)(x)
    func.jvp(lambda t: t.mul_(2), (x,), (x,))
    func.hessian(cubes)(x)
    assert (x.tolist(), x.requires_grad, x.grad) == ([1, 2], False, None)


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: func.grad(lambda x: x)(X), RuntimeError, r"0-d Tensor, got shape \(2,\)"),
        (lambda: func.grad(lambda x: (x,))(X), RuntimeError, "0-d Tensor, got tuple"),
        (lambda: func.grad(lambda x: 1.0)(X), TypeError, "result must be a Tensor.*got float"),
        (lambda: func.grad(cubes)(1.0), TypeError, "argument 0 must be a Tensor.*got float"),
        (lambda: func.grad(cubes)({"a": [1.0]}), TypeError, r"argument 0\['a'\]\[0\] must be"),
        (lambda: func.grad(cubes)(tensor([1])), TypeError, "floating or complex dtype, got int64"),
        (lambda: func.grad(cubes, argnums=1)(X), ValueError, "different ones of the 1"),
        (lambda: func.grad(cubes, argnums=(0, 0))(X), ValueError, "different ones"),
        (lambda: func.grad(cubes, argnums="x")(X), TypeError, "argnums is an int"),
        (lambda: func.grad(cubes, has_aux=True)(X), TypeError, r"pair \(result, aux\)"),
        (lambda: func.jvp(cubes, X, X), TypeError, "primals and tangents are tuples"),
        (lambda: func.jvp(cubes, (X,), (X, X)), RuntimeError, "the form of the primals"),
        (lambda: func.jvp(cubes, (X,), (ONE,)), RuntimeError, r"tangent has shape \(\)"),
        (lambda: func.jvp(cubes, (tensor([1]),), (X,)), TypeError, "got int64"),
        (lambda: func.jacfwd(cubes)(tensor([1])), TypeError, "got int64"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()
    assert not duals.stack()


# ---- at random, and beside PyTorch ---------------------------------------------------------------


def network(p, x):
    h = (x @ p["w"] + p["b"]).tanh()
    return (h * h.exp()).sum(dim=1).log1p().sum()


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**31), st.integers(1, 3), st.integers(1, 3))
def test_forward_and_reverse_agree(seed, n, m):
    rng = np.random.default_rng(seed)
    p = {"w": Tensor(rng.normal(size=(m, 2))), "b": Tensor(rng.normal(size=2))}
    u = {"w": Tensor(rng.normal(size=(m, 2))), "b": Tensor(rng.normal(size=2))}
    x = Tensor(rng.normal(size=(n, m)) * 0.1)
    slope = func.grad(network)(p, x)
    tangent = func.jvp(lambda p: network(p, x), (p,), (u,))[1]
    expected = sum(float(np.sum(slope[k].array * u[k].array)) for k in p)
    assert tangent.item() == pytest.approx(expected, rel=1e-9, abs=1e-9, nan_ok=True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_agrees_with_pytorch():
    torch = pytest.importorskip("torch")
    theirs = torch.func
    rng = np.random.default_rng(0)
    arrays = {"w": rng.normal(size=(3, 2)), "b": rng.normal(size=2)}
    x = rng.normal(size=(4, 3)) * 0.1
    p, tp = ({k: make(a) for k, a in arrays.items()} for make in (Tensor, torch.from_numpy))
    tx = torch.from_numpy(x)
    found, expected = func.grad(network)(p, Tensor(x)), theirs.grad(network)(tp, tx)
    for k in arrays:
        assert found[k].numpy() == pytest.approx(expected[k].numpy())
    found, expected = func.hessian(network)(p, Tensor(x)), theirs.hessian(network)(tp, tx)
    for k in arrays:
        for j in arrays:
            assert found[k][j].numpy() == pytest.approx(expected[k][j].numpy())
