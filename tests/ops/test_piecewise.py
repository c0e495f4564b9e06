"""Functions given piece by piece."""

import numpy as np
import pytest

import plugrad


def test_as_numpy():
    x = np.linspace(-2.5, 2.5, 6)
    pieces = [np.negative, np.square, 0.5]
    expected = np.piecewise(x, [x < 0, x > 1], pieces)
    t = plugrad.tensor(x)
    found = plugrad.piecewise(t, [t < 0, t > 1], [plugrad.neg, plugrad.square, 0.5])
    np.testing.assert_array_equal(found.array, expected)


def test_the_last_condition_that_holds_counts():
    x = plugrad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    out = plugrad.piecewise(x, [x > 0, x > 2], [lambda x: x * 10, lambda x: x * 100])
    out.sum().backward()
    assert out.tolist() == [10, 20, 300]
    assert x.grad.tolist() == [10, 10, 100]


def test_a_function_sees_only_its_elements():
    seen = []

    def note(x):
        seen.append(x.tolist())
        return x

    x = plugrad.tensor([[1.0, -2.0], [3.0, -4.0]])
    assert plugrad.piecewise(x, [x > 0], [note]).tolist() == [[1, 0], [3, 0]]
    assert seen == [[1, 3]]


def test_a_function_that_uses_other_tensors():
    w = plugrad.tensor(2.0, requires_grad=True)
    x = plugrad.tensor([1.0, -1.0, 3.0])
    plugrad.piecewise(x, [x > 0], [lambda x: w * x]).sum().backward()
    assert w.grad.item() == 4


@pytest.mark.parametrize("functions", [[], [0, 1, 2]])
def test_a_wrong_number_of_functions(functions):
    x = plugrad.ones(2)
    with pytest.raises(ValueError, match=f"1 conditions and {len(functions)} functions"):
        plugrad.piecewise(x, [x > 0], functions)
    with pytest.raises(ValueError, match="at least one condition"):
        plugrad.piecewise(x, [], [0])
