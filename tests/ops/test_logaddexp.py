"""logaddexp: no overflow, and gradients where an operand is infinite."""

import math

import numpy as np
import pytest

import plugrad

INF = math.inf


def both(a, b):
    a, b = (plugrad.tensor(v, dtype=np.float64, requires_grad=True) for v in (a, b))
    out = plugrad.logaddexp(a, b)
    out.sum().backward()
    return out.tolist(), a.grad.tolist(), b.grad.tolist()


@pytest.mark.parametrize(
    ("a", "b", "value", "for_a", "for_b"),
    [
        (1000.0, 1000.0, 1000 + math.log(2), 0.5, 0.5),
        (-1000.0, 1000.0, 1000.0, 0.0, 1.0),
        (-INF, 2.0, 2.0, 0.0, 1.0),
        (INF, 2.0, INF, 1.0, 0.0),
        (INF, -INF, INF, 1.0, 0.0),
        (INF, INF, INF, 0.5, 0.5),
        (-INF, -INF, -INF, 0.0, 0.0),
    ],
)
def test_values_and_gradients(a, b, value, for_a, for_b):
    assert both(a, b) == (pytest.approx(value), pytest.approx(for_a), pytest.approx(for_b))
    assert both(b, a) == (pytest.approx(value), pytest.approx(for_b), pytest.approx(for_a))


def test_nan_stays_nan():
    value, for_a, _ = both(math.nan, 1.0)
    assert math.isnan(value)
    assert math.isnan(for_a)


def test_second_order_at_equal_operands():
    x = plugrad.tensor([0.3, 0.3], dtype=np.float64, requires_grad=True)
    (g,) = plugrad.autograd.grad(plugrad.logaddexp(x[0], x[1]), x, create_graph=True)
    (row,) = plugrad.autograd.grad(g[0], x)
    assert row.tolist() == pytest.approx([0.25, -0.25])


def test_no_nan_at_second_order():
    x = plugrad.tensor([-INF, -INF], dtype=np.float64, requires_grad=True)
    (g,) = plugrad.autograd.grad(plugrad.logaddexp(x[0], x[1]), x, create_graph=True)
    (row,) = plugrad.autograd.grad(g.sum(), x)
    assert row.tolist() == [0, 0]
