"""Copies between layouts: the values of NumPy's, whatever the order of dimensions, steps and repetition."""

import itertools

import numpy as np
import pytest

import plugrad

DTYPES = ["float32", "float64"]


def copied(array):
    """What a contiguous copy and a copy in another layout hold."""
    return plugrad.from_numpy(array).clone().numpy()


def numbers(shape, dtype="float32"):
    return np.arange(np.prod(shape, dtype=int), dtype=dtype).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("shape", [(3, 5, 7), (33, 17, 65), (1, 130, 16), (40, 1, 40)])
def test_permuted_dimensions(shape, order, dtype):
    array = numbers(shape, dtype).transpose(order)
    assert np.array_equal(copied(array), array)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(700, 900), (100_003, 3), (3, 100_003), (16, 16), (1, 1)])
def test_long_transposed_arrays(shape, dtype):
    array = numbers(shape, dtype).T
    assert np.array_equal(copied(array), array)


@pytest.mark.parametrize(
    "steps",
    [np.s_[::2], np.s_[:, ::3], np.s_[::-1], np.s_[:, ::-1], np.s_[3:50:2, 5:9], np.s_[:0]],
    ids=["rows", "columns", "backwards", "columns backwards", "both", "nothing"],
)
def test_steps(steps):
    array = numbers((60, 70))[steps]
    assert np.array_equal(copied(array), array)
    assert np.array_equal(copied(array.T), array.T)


@pytest.mark.parametrize(
    ("base", "shape"),
    [
        ((), (300, 400)),
        ((1, 400), (300, 400)),
        ((300, 1), (300, 400)),
        ((5, 1, 7), (5, 9, 7)),
        ((), ()),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_expanded_arrays(base, shape, dtype):
    array = np.broadcast_to(numbers(base, dtype) + 2, shape)
    assert np.array_equal(copied(array), array)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_gradient_takes_the_layout_of_its_leaf(threads):
    before = plugrad.get_num_threads()
    plugrad.set_num_threads(threads)
    try:
        x = plugrad.from_numpy(numbers((500, 700)).T).requires_grad_()
        seed = plugrad.from_numpy(numbers((700, 500)))
        x.backward(seed)
        assert x.grad.numpy().strides == x.detach().numpy().strides
        assert np.array_equal(x.grad.numpy(), seed.numpy())
    finally:
        plugrad.set_num_threads(before)
