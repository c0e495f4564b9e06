"""autograd.functional: products with Jacobians and Hessians, the matrices themselves, and strictness."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plugrad
from plugrad import Tensor, tensor
from plugrad.autograd import functional as F
from plugrad.autograd import grad


def doubles(*values, **flags):
    return tensor(values, dtype=plugrad.float64, **flags)


def outer(x, y):
    """Two outputs of two inputs."""
    return x.unsqueeze(1) * y.exp(), (x * x).sum()


def scalar(x, y):
    return (x.exp() * y**3).sum() + x.sum() * y.sum()


X, Y = doubles(1, 2), doubles(3, 4)
XY = {"reverse-mode", "forward-mode"}


def arrays(tree):
    return [arrays(t) for t in tree] if isinstance(tree, tuple) else tree.numpy()


def same(found, expected, path=""):
    """Equal trees of tensors, of any library."""
    assert isinstance(found, tuple) == isinstance(expected, tuple), path
    if isinstance(found, tuple):
        assert len(found) == len(expected)
        for i, (a, b) in enumerate(zip(found, expected)):
            same(a, b, f"{path}[{i}]")
    else:
        np.testing.assert_allclose(
            found.detach().numpy(), expected.detach().numpy(), rtol=1e-10, atol=1e-12, err_msg=path
        )


# ---- jacobian and hessian ------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", sorted(XY))
def test_h1(strategy):
    dx, dy = F.jacobian(lambda x, y: (x * y).sum() + x, (X, Y), strategy=strategy)
    assert dx.tolist() == [[4, 4], [3, 5]]
    assert dy.tolist() == [[1, 2], [1, 2]]


def test_h3():
    x = doubles(1, 2, requires_grad=True)
    seeds = plugrad.eye(2, dtype=plugrad.float64)
    (found,) = grad(x**2, x, grad_outputs=seeds, is_grads_batched=True)
    assert found.tolist() == [[2, 0], [0, 4]]


@pytest.mark.parametrize("strict", [False, True])
def test_h5(strict):
    constant = plugrad.ones(2, dtype=plugrad.float64)
    if strict:
        with pytest.raises(RuntimeError, match="strict"):
            F.jacobian(lambda x: constant, X, strict=True)
    else:
        assert F.jacobian(lambda x: constant, X).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("strategy", sorted(XY))
def test_forms(strategy):
    single = F.jacobian(lambda x: x * 2, X, strategy=strategy)
    assert single.tolist() == [[2, 0], [0, 2]]
    (row,) = F.jacobian(lambda x: (x * 2,), X, strategy=strategy)
    assert row.tolist() == single.tolist()
    rows = F.jacobian(outer, (X, Y), strategy=strategy)
    assert [[tuple(block.shape) for block in row] for row in rows] == [
        [(2, 2, 2), (2, 2, 2)],
        [(2,), (2,)],
    ]
    scalars = F.jacobian(lambda x: x.sum(), X, strategy=strategy)
    assert scalars.tolist() == [1, 1]
    empty = F.jacobian(lambda x: x[:0], X, strategy=strategy)
    assert empty.shape == (0, 2)
    none = F.jacobian(lambda x: x.sum() * plugrad.ones(3), plugrad.zeros(0), strategy=strategy)
    assert none.shape == (3, 0)


@pytest.mark.parametrize("strategy", sorted(XY))
def test_hessian(strategy):
    (xx, xy), (yx, yy) = F.hessian(scalar, (X, Y), outer_jacobian_strategy=strategy)
    e = np.exp(X.numpy())
    y = Y.numpy()
    assert xx.numpy() == pytest.approx(np.diag(e * y**3))
    assert xy.numpy() == pytest.approx(np.diag(e * 3 * y**2) + 1)
    assert yx.numpy() == pytest.approx(xy.numpy().T)
    assert yy.numpy() == pytest.approx(np.diag(e * 6 * y))
    assert F.hessian(lambda x: (x**3).sum(), X).tolist() == [[6, 0], [0, 12]]
    assert F.hessian(lambda x: x.sum(), X).tolist() == [[0, 0], [0, 0]]


# ---- products ------------------------------------------------------------------------------------


def test_products_with_the_jacobian():
    v = (doubles(1, -1), doubles(2, 0.5))
    jacobian = F.jacobian(outer, (X, Y))
    (matrix, square), tangents = F.jvp(outer, (X, Y), v)
    assert (matrix.shape, square.item()) == ((2, 2), 5)
    for row, tangent in zip(jacobian, tangents):
        assert tangent.numpy() == pytest.approx(sum(b.numpy() @ u.numpy() for b, u in zip(row, v)))
    w = (doubles(1, 2, 3, 4).reshape(2, 2), doubles(5).reshape(()))
    _, products = F.vjp(outer, (X, Y), w)
    for j, product in enumerate(products):
        expected = sum(
            np.tensordot(u.numpy(), row[j].numpy(), u.ndim) for u, row in zip(w, jacobian)
        )
        assert product.numpy() == pytest.approx(expected)


def test_products_with_the_hessian():
    v = (doubles(1, -1), doubles(2, 0.5))
    blocks = F.hessian(scalar, (X, Y))
    for product in (F.hvp, F.vhp):
        value, found = product(scalar, (X, Y), v)
        assert value.item() == pytest.approx(scalar(X, Y).item())
        for row, part in zip(blocks, found):
            assert part.numpy() == pytest.approx(sum(b.numpy() @ u.numpy() for b, u in zip(row, v)))


def test_hvp_and_vhp_are_transposed_where_the_second_derivative_is_not_symmetric():
    class Skew(plugrad.autograd.Function):
        """x0 x1, with a backward whose own Jacobian is not symmetric."""

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x[0] * x[1]

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * plugrad.stack([x[1], x[1]])  # by x: [[0, 1], [0, 1]]

    v = doubles(1, 10)
    assert F.hvp(Skew.apply, X, v)[1].tolist() == [10, 10]
    assert F.vhp(Skew.apply, X, v)[1].tolist() == [0, 11]


def test_v_may_be_left_out_for_one_element():
    one = doubles(3)
    assert F.vjp(lambda x: x**2, one)[1].tolist() == [6]
    assert F.jvp(lambda x: x**2, one)[1].tolist() == [6]
    assert F.vhp(lambda x: x**3, one)[1].tolist() == [18]
    assert F.hvp(lambda x: x**3, one)[1].tolist() == [18]


@pytest.mark.parametrize("product", [F.vjp, F.jvp, F.vhp, F.hvp])
def test_v_must_fit(product):
    f = (lambda x: x * 2) if product in (F.vjp, F.jvp) else (lambda x: (x * x).sum())
    with pytest.raises(RuntimeError, match="v can only be left out for one"):
        product(f, X)
    with pytest.raises(RuntimeError, match=r"v has shape \(3,\)"):
        product(f, X, doubles(1, 2, 3))
    with pytest.raises(RuntimeError, match="v has 2 tensors"):
        product(f, X, (X, X))
    with pytest.raises(TypeError, match="v must be a Tensor"):
        product(f, X, 1.0)


# ---- graphs --------------------------------------------------------------------------------------


def results(tree):
    return [t for item in tree for t in results(item)] if isinstance(tree, tuple) else [tree]


CALLS = {
    "vjp": lambda x, **flags: F.vjp(lambda t: t**3, x, X, **flags),
    "jvp": lambda x, **flags: F.jvp(lambda t: t**3, x, X, **flags),
    "vhp": lambda x, **flags: F.vhp(lambda t: (t**4).sum(), x, X, **flags),
    "hvp": lambda x, **flags: F.hvp(lambda t: (t**4).sum(), x, X, **flags),
    "jacobian": lambda x, **flags: F.jacobian(lambda t: t**3, x, **flags),
    "by columns": lambda x, **flags: F.jacobian(
        lambda t: t**3, x, strategy="forward-mode", **flags
    ),
    "hessian": lambda x, **flags: F.hessian(lambda t: (t**4).sum(), x, **flags),
}


@pytest.mark.parametrize("name", CALLS)
def test_create_graph(name):
    x = doubles(1, 2, requires_grad=True)
    plain = results(CALLS[name](x))
    assert not any(t.requires_grad for t in plain)
    recorded = results(CALLS[name](x, create_graph=True))
    assert all(t.requires_grad for t in recorded)
    assert [t.tolist() for t in plain] == [t.tolist() for t in recorded]
    (slope,) = grad(recorded[-1].sum(), x)
    h = 1e-6
    for i in range(2):
        ends = []
        for sign in (1, -1):
            moved = X.numpy().copy()
            moved[i] += sign * h
            ends.append(results(CALLS[name](Tensor(moved)))[-1].numpy().sum())
        assert slope.numpy()[i] == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6)
    assert x.grad is None


@pytest.mark.parametrize("name", CALLS)
def test_it_works_under_no_grad_and_leaves_arguments_alone(name):
    x = doubles(1, 2)
    with plugrad.no_grad():
        found = results(CALLS[name](x))
    assert [t.tolist() for t in found] == [t.tolist() for t in results(CALLS[name](x))]
    assert (x.requires_grad, x.tolist()) == (False, [1, 2])


def test_batched_gradients():
    x = doubles(1, 2, requires_grad=True)
    y = doubles(3, 4, requires_grad=True)
    unused = doubles(1, requires_grad=True)
    seeds = (doubles(1, 0, 0, 1, 1, 1).reshape(3, 2), doubles(1, 2, 3))
    outs = (x * y, x.sum())
    gx, gy, none = grad(
        outs, (x, y, unused), seeds, is_grads_batched=True, allow_unused=True, retain_graph=True
    )
    assert gx.tolist() == [[4, 1], [2, 6], [6, 7]]
    assert gy.tolist() == [[1, 0], [0, 2], [1, 2]]
    assert none is None
    (g,) = grad(x**3, x, seeds[0], is_grads_batched=True, create_graph=True)
    assert grad(g.sum(), x)[0].tolist() == [12, 24]
    (empty,) = grad(x * 1, x, plugrad.zeros(0, 2, dtype=plugrad.float64), is_grads_batched=True)
    assert empty.shape == (0, 2)
    with pytest.raises(RuntimeError, match="one first dimension in common, got none"):
        grad(x * 1, x, is_grads_batched=True)
    with pytest.raises(RuntimeError, match=r"in common, got shape \(3, 2\), shape \(2,\)"):
        grad(outs, x, (seeds[0], doubles(1, 2)), is_grads_batched=True)


# ---- strict, and errors --------------------------------------------------------------------------

V = {F.vjp: X, F.jvp: X}


@pytest.mark.parametrize("product", [F.vjp, F.jvp, F.vhp, F.hvp])
def test_strict_refuses_constants(product):
    constant = doubles(1, 2)
    f = (lambda x: constant) if product in V else (lambda x: constant.sum())
    zeros = results(product(f, X, X)[1])
    assert [t.tolist() for t in zeros] == [[0, 0]]
    with pytest.raises(RuntimeError, match="output 0 is independent of the inputs"):
        product(f, X, X, strict=True)


def test_strict_refuses_what_is_missing():
    with pytest.raises(RuntimeError, match="output 0 is independent of input 1"):
        F.jacobian(lambda x, y: x * 2, (X, Y), strict=True)
    with pytest.raises(RuntimeError, match="independent of input 1"):
        F.vjp(lambda x, y: x * 2, (X, Y), X, strict=True)
    for product in (F.vhp, F.hvp):
        with pytest.raises(RuntimeError, match="independent of the inputs"):
            product(lambda x: x.sum(), X, X, strict=True)
    with pytest.raises(RuntimeError, match="independent of the inputs"):
        F.hessian(lambda x: x.sum(), X, strict=True)
    with pytest.raises(RuntimeError, match="create_graph=True"):
        F.jacobian(lambda x: x * 2, X, strict=True, create_graph=True)
    with pytest.raises(RuntimeError, match="create_graph=True"):
        F.jvp(lambda x: x * 2, X, X, strict=True, create_graph=True)
    assert F.jacobian(lambda x: x * 2, X, strict=True).tolist() == [[2, 0], [0, 2]]


def test_what_is_refused():
    with pytest.raises(TypeError, match="inputs must be a Tensor or a tuple of Tensors, got int"):
        F.jacobian(lambda x: x, (X, 3))
    with pytest.raises(TypeError, match="the result of func must be a Tensor"):
        F.jacobian(lambda x: 3.0, X)
    with pytest.raises(ValueError, match="strategy is 'reverse-mode' or"):
        F.jacobian(lambda x: x, X, strategy="sideways")
    for flags in ({"vectorize": True}, {"strategy": "forward-mode"}):
        with pytest.raises(RuntimeError, match="strict"):
            F.jacobian(lambda x: x, X, strict=True, **flags)
    for function in (F.hessian, F.vhp, F.hvp):
        v = () if function is F.hessian else (X,)
        with pytest.raises(RuntimeError, match=r"one element, got shape \(2,\)"):
            function(lambda x: x, X, *v)
        with pytest.raises(RuntimeError, match="got a tuple of 2"):
            function(lambda x: (x.sum(), x.sum()), X, *v)


# ---- beside PyTorch, and at random ---------------------------------------------------------------


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**31), st.integers(1, 3), st.integers(1, 3))
def test_rows_and_columns_agree(seed, n, m):
    rng = np.random.default_rng(seed)
    x, w = (Tensor(rng.normal(size=s)) for s in ((n, m), (m, 2)))

    def f(x, w):
        h = (x @ w).sin()
        return h * h.sum(), x.exp().mean() * w

    same(F.jacobian(f, (x, w), vectorize=True), F.jacobian(f, (x, w), strategy="forward-mode"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_agrees_with_pytorch():
    torch = pytest.importorskip("torch")
    theirs = torch.autograd.functional
    pairs = [torch.tensor([1.0, 2.0], dtype=torch.float64), torch.tensor([3.0, 4.0]).double()]
    tv = (torch.tensor([1.0, -1.0]).double(), torch.tensor([2.0, 0.5]).double())
    v = (doubles(1, -1), doubles(2, 0.5))
    inputs, given = (X, Y), tuple(pairs)
    same(F.jacobian(outer, inputs), theirs.jacobian(outer, given))
    same(F.hessian(scalar, inputs), theirs.hessian(scalar, given))
    for name in ("jvp", "vhp", "hvp"):
        f = outer if name == "jvp" else scalar
        same(getattr(F, name)(f, inputs, v), getattr(theirs, name)(f, given, tv))
    same(F.vjp(scalar, inputs), theirs.vjp(scalar, given))
