"""Points without a derivative, and places where NaN likes to appear: known inputs with their right results."""

import math

import numpy as np
import pytest

import plugrad

INF, NAN = math.inf, math.nan


def leaf(values):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


def constant(values):
    return plugrad.tensor(values, dtype=np.float64)


def value_and_grad(f, values):
    """What f gives, and the gradient of its sum, as arrays."""
    x = leaf(values)
    out = f(x)
    out.sum().backward()
    return out.detach().numpy(), x.grad.numpy()


def hessian(f, values):
    """The matrix of second derivatives of a scalar function, by differentiating its gradient."""
    x = leaf(values)
    (g,) = plugrad.autograd.grad(f(x), x, create_graph=True)
    rows = [
        plugrad.autograd.grad(
            g[i], x, retain_graph=True, allow_unused=True, materialize_grads=True
        )[0].tolist()
        for i in range(x.numel())
    ]
    return np.array(rows)


def same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("p", [0.5, 1, 2, 3, INF])
def test_c1_a_norm_at_zero(p):
    value, grad = value_and_grad(lambda x: x.norm(p), [0.0, 0.0])
    same(value, 0)
    same(grad, [0, 0])


def test_c3_the_hessian_of_the_norm():
    same(hessian(lambda x: x.norm(2), [0.0, 0.0]), [[0, 0], [0, 0]])
    np.testing.assert_allclose(
        hessian(lambda x: x.norm(2), [3.0, 4.0]), [[0.128, -0.096], [-0.096, 0.072]], rtol=1e-14
    )


def test_c4_the_root_of_a_sum_of_squares_is_not_special():
    value, grad = value_and_grad(lambda x: (x * x).sum().sqrt(), [0.0, 0.0])
    same(value, 0)
    same(grad, [NAN, NAN])


def test_c6_the_square_root_at_zero():
    _, grad = value_and_grad(lambda x: x.sqrt(), [0.0, 4.0])
    same(grad, [INF, 0.25])
    _, grad = value_and_grad(lambda x: x.sqrt() * 0, [0.0])
    same(grad, [NAN])


def test_c8_powers_of_zero_and_of_negative_numbers():
    a, b = leaf([0.0, 0.0, 0.0, 2.0, -2.0]), leaf([0.0, 1.0, 2.0, 3.0, 2.0])
    out = a.pow(b)
    out.sum().backward()
    same(out.detach().numpy(), [1, 0, 0, 8, 4])
    same(a.grad.numpy(), [0, 1, 0, 12, -4])
    same(b.grad.numpy(), [0, 0, 0, 5.545177444479562, NAN])


def test_c9_where_does_not_stop_nan_from_the_branch_not_taken():
    value, grad = value_and_grad(
        lambda x: plugrad.where(x > 0, x.sqrt(), 0).sum(), [0.0, -1.0, 4.0]
    )
    same(value, 2)
    same(grad, [NAN, NAN, 0.25])
    _, grad = value_and_grad(lambda x: plugrad.where(x > 2, x.log2(), 2 * x).sum(), [0.0, 2.0, 3.0])
    same(grad, [NAN, 2, 0.48089834696298783])


def test_c9_a_safe_operand_does():
    def f(x):
        return plugrad.where(x > 0, plugrad.where(x > 0, x, 1).sqrt(), 0)

    _, grad = value_and_grad(f, [0.0, -1.0, 4.0])
    same(grad, [0, 0, 0.25])


def test_c9b_piecewise_never_computes_the_branch_not_taken():
    _, grad = value_and_grad(
        lambda x: plugrad.piecewise(x, [x > 0], [plugrad.sqrt, 0]), [0.0, -1.0, 4.0]
    )
    same(grad, [0, 0, 0.25])
    _, grad = value_and_grad(
        lambda x: plugrad.piecewise(x, [x > 2], [plugrad.log2, lambda x: 2 * x]), [0.0, 2.0, 3.0]
    )
    same(grad, [2, 2, 0.48089834696298783])


def test_c11_elements_that_tie_share_the_gradient():
    third = 1 / 3
    for reduce in (lambda x: x.max(), lambda x: x.amax()):
        _, grad = value_and_grad(reduce, [1.0, 3.0, 3.0, 2.0, 3.0])
        same(grad, [0, third, third, 0, third])
    _, grad = value_and_grad(lambda x: x.min(), [1.0, 1.0, 3.0])
    same(grad, [0.5, 0.5, 0])
    value, grad = value_and_grad(lambda x: x.median(), [1.0, 2.0, 2.0, 3.0])
    same(value, 2)
    same(grad, [0, 0.5, 0.5, 0])


def test_c12_along_a_dimension_the_index_alone_gets_it():
    x = leaf([1.0, 3.0, 3.0, 2.0, 3.0])
    values, indices = x.max(dim=0)
    values.backward()
    assert indices.item() == 1
    assert x.grad.tolist() == [0, 1, 0, 0, 0]


def test_c14_clamp_on_its_bounds():
    _, grad = value_and_grad(lambda x: x.clamp(min=0), [-1.0, 0.0, 1.0])
    same(grad, [0, 0, 1])
    _, grad = value_and_grad(lambda x: x.clamp(0, 1), [-1.0, 0.0, 0.5, 1.0, 2.0])
    same(grad, [0, 0, 1, 0, 0])


def test_c14_clamp_on_bounds_that_are_tensors():
    x = leaf([-1.0, 0.0, 0.5, 1.0, 2.0])
    low, high = leaf([0.0] * 5), leaf([1.0] * 5)
    x.clamp(low, high).sum().backward()
    assert x.grad.tolist() == [0, 0.5, 1, 0.5, 0]
    assert low.grad.tolist() == [1, 0.5, 0, 0, 0]
    assert high.grad.tolist() == [0, 0, 0, 0.5, 1]


@pytest.mark.parametrize(
    ("f", "at", "expected"),
    [
        (lambda x: x.relu(), [0.0], [0]),
        (lambda x: plugrad.nn.functional.relu6(x), [0.0, 6.0], [0, 0]),
        (lambda x: plugrad.nn.functional.hardtanh(x), [-1.0, 1.0], [0, 0]),
        (lambda x: x.abs(), [0.0], [0]),
        (lambda x: plugrad.nn.functional.leaky_relu(x, 0.1), [0.0], [0.1]),
        (lambda x: x.sign(), [-1.0, 0.0, 0.5], [0, 0, 0]),
        (lambda x: x.round(), [-1.5, 0.0, 0.3], [0, 0, 0]),
    ],
    ids=["relu", "relu6", "hardtanh", "abs", "leaky_relu", "sign", "round"],
)
def test_c15_activations_at_their_kinks(f, at, expected):
    _, grad = value_and_grad(f, at)
    same(grad, expected)


def test_c17_the_hessian_of_a_product_with_zeros():
    expected = np.zeros((4, 4))
    expected[2, 3] = expected[3, 2] = 6
    same(hessian(lambda x: x.prod(), [2.0, 3.0, 0.0, 0.0]), expected)
    same(hessian(lambda x: x.prod(), [2.0, 0.0, 4.0]), [[0, 4, 0], [4, 0, 2], [0, 2, 0]])


@pytest.mark.parametrize(
    ("at", "seed", "expected"),
    [
        ([2.0, 0.0, 3.0, 4.0], [1.0, 1.0, 1.0, 1.0], [1, 32, 0, 0]),
        ([2.0, 0.0, 3.0, 4.0], [1.0, 10.0, 100.0, 1000.0], [1, 24620, 0, 0]),
        ([2.0, 0.0, 3.0, 0.0, 5.0], [1.0] * 5, [1, 8, 0, 0, 0]),
    ],
)
def test_c18_running_products_with_zeros(at, seed, expected):
    x = leaf(at)
    x.cumprod(0).backward(constant(seed))
    same(x.grad.numpy(), expected)


def test_c20_softmax_with_a_minus_infinity():
    value, grad = value_and_grad(lambda x: x.log_softmax(0)[0], [0.0, -INF, 1.0])
    same(value, -1.3132616875182228)
    same(grad, [0.7310585786300049, 0, -0.7310585786300049])
    value, grad = value_and_grad(lambda x: x.softmax(0)[0], [0.0, -INF, 1.0])
    same(value, 0.26894142136999516)
    np.testing.assert_allclose(
        grad, [0.19661193324148185, 0, -0.19661193324148188], rtol=1e-15, atol=0
    )


def test_c21_logsumexp_of_infinities():
    value, grad = value_and_grad(lambda x: x.logsumexp(0), [-INF, -INF])
    same(value, -INF)
    same(grad, [0, 0])
    value, grad = value_and_grad(lambda x: x.logsumexp(0), [INF, 0.0])
    same(value, INF)
    same(grad, [1, 0])


def test_c21_logaddexp_of_infinities():
    a, b = leaf(-INF), leaf(-INF)
    out = plugrad.logaddexp(a, b)
    out.backward()
    assert out.item() == -INF
    assert (a.grad.item(), b.grad.item()) == (0, 0)


def test_c23_normalize_at_the_zero_vector():
    value, grad = value_and_grad(lambda x: plugrad.nn.functional.normalize(x, dim=0)[0], [0.0, 0.0])
    same(value, 0)
    same(grad, [0, 0])
