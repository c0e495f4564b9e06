"""Padding against NumPy: values, gradients, negative widths, and what bad arguments say."""

import numpy as np
import pytest

import plugrad
from plugrad.nn.functional import pad

NUMPY = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
CASES = [
    ((2, 3, 5), (1, 2)),
    ((2, 3, 5), (2, 0, 1, 1)),
    ((2, 4, 3, 5), (1, 1, 2, 0, 0, 3)),
    ((6,), (0, 5)),
]


def by_numpy(x, widths, mode, **options):
    pairs = list(zip(widths[::2], widths[1::2]))[::-1]
    return np.pad(x, [(0, 0)] * (x.ndim - len(pairs)) + pairs, mode, **options)


def check(x, wanted, widths, *options):
    """`wanted` is the padded x, which holds the positions of its elements."""
    leaf = plugrad.tensor(x, requires_grad=True)
    out = pad(leaf, widths, *options)
    np.testing.assert_array_equal(out.detach().numpy(), wanted)
    seed = 1.0 + np.arange(wanted.size).reshape(wanted.shape)
    (grad,) = plugrad.autograd.grad(out, [leaf], plugrad.tensor(seed))
    expected = np.zeros(x.size)
    np.add.at(expected, wanted[wanted >= 0].astype(int), seed[wanted >= 0])
    np.testing.assert_array_equal(grad.numpy().ravel(), expected)


def numbered(shape):
    return np.arange(float(np.prod(shape))).reshape(shape)


@pytest.mark.parametrize("mode", NUMPY)
@pytest.mark.parametrize(("shape", "widths"), CASES)
def test_from_the_tensor_itself(shape, widths, mode):
    x = numbered(shape)
    check(x, by_numpy(x, widths, NUMPY[mode]), widths, mode)


@pytest.mark.parametrize(("shape", "widths"), CASES)
def test_with_a_value(shape, widths):
    x = numbered(shape)
    check(x, by_numpy(x, widths, "constant", constant_values=-1), widths, "constant", -1)


def test_negative_widths_take_elements_away():
    x = numbered((3, 4))
    check(x, x[:, 1:3], (-1, -1))
    check(x, np.pad(x[1:], ((0, 0), (2, 0)), constant_values=-1), (2, 0, -1, 0), "constant", -1)
    check(x, np.pad(x, ((0, 0), (0, 2)), "reflect")[:, 1:], (-1, 2), "reflect")
    check(x, np.pad(x, ((0, 0), (0, 2)), "edge")[:, 1:], (-1, 2), "replicate")
    check(x, np.pad(x[:, 1:], ((0, 0), (0, 2)), "wrap"), (-1, 2), "circular")


def test_other_dtypes_and_sizes():
    assert pad(plugrad.tensor([1, 2]), (1, 0), value=7).tolist() == [7, 1, 2]
    assert pad(plugrad.tensor([True]), (0, 1)).tolist() == [True, False]
    assert pad(plugrad.zeros(0, 3), (1, 1)).shape == (0, 5)
    assert pad(plugrad.tensor(2.0), ()).item() == 2
    assert np.isinf(pad(plugrad.zeros(1), (1, 0), value=float("-inf")).numpy()[0])


def test_half_sums_of_borders_are_rounded_once():
    x = plugrad.tensor(np.ones((1, 1), np.float16), requires_grad=True)
    seed = np.full((1, 4), 1.0, np.float16)
    seed[0, 0] = 2048  # 2048 + 1 is 2048 in float16
    pad(x, (3, 0), "replicate").backward(plugrad.tensor(seed))
    assert x.grad.item() == 2052  # 2051, rounded to even


@pytest.mark.parametrize(
    ("widths", "options", "error", "words"),
    [
        ((1,), (), RuntimeError, "pairs of widths"),
        ((0, 0, 0, 0, 1, 1), (), RuntimeError, "2 dimensions"),
        ((-2, -2), (), RuntimeError, "more away"),
        ((-4, 4), (), RuntimeError, "more away"),
        ((3, 0), ("reflect",), RuntimeError, "at most 2 elements"),
        ((4, 0), ("circular",), RuntimeError, "at most 3 elements"),
        ((1, 0), ("symmetric",), ValueError, "mode must be one of"),
        ((1, 0), ("reflect", 1.0), RuntimeError, "takes no value"),
        ((1.5, 0), (), TypeError, "integers"),
    ],
)
def test_bad_arguments(widths, options, error, words):
    with pytest.raises(error, match=words):
        pad(plugrad.zeros(2, 3), widths, *options)
