"""Indexing: known inputs with their right results."""

import numpy as np

import plugrad

WEIGHTS = np.array([10.0, 20.0, 30.0])


def leaf(values):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


def test_d1_accumulating_writes_add_up():
    v = leaf([1.0, 2.0, 3.0])
    index = plugrad.tensor([0, 0, 2])
    out = plugrad.zeros(3, dtype=np.float64).index_put((index,), v, accumulate=True)
    (out * WEIGHTS).sum().backward()
    assert out.tolist() == [3, 0, 3]
    assert v.grad.tolist() == [10, 10, 30]


def test_d2_a_value_that_was_overwritten_has_no_gradient():
    a, v = leaf([5.0, 6.0, 7.0]), leaf([1.0, 2.0, 3.0])
    out = a.index_put((plugrad.tensor([0, 0, 2]),), v, accumulate=False)
    (out * WEIGHTS).sum().backward()
    assert out.tolist() == [2, 6, 3]
    assert a.grad.tolist() == [0, 20, 0]
    assert v.grad.tolist() == [0, 10, 30]


def test_d3_an_element_read_several_times_gets_every_gradient():
    a = leaf([1.0, 2.0, 3.0])
    (a[[0, 0, 2, 0]] * np.array([1.0, 10.0, 100.0, 1000.0])).sum().backward()
    assert a.grad.tolist() == [1011, 0, 100]
