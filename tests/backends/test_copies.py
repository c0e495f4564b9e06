"""Copies between layouts: the values of NumPy's, whatever the order of dimensions, steps and repetition."""

import itertools

import numpy as np
import pytest

import plugrad
from plugrad.backends import copies

DTYPES = ["float32", "float64"]
OTHER_DTYPES = ["bool", "int8", "int64", "float16", "complex64", "complex128", "datetime64[s]"]


def assert_copies(array):
    """Copies in C order, in one dimension and in the array's own order of dimensions hold what NumPy's hold."""
    tensor = plugrad.from_numpy(array)
    in_order, line, alike = copies.copied(array), tensor.reshape(-1).numpy(), tensor.clone().numpy()
    assert in_order.flags.c_contiguous
    assert in_order.flags.owndata
    for found in (in_order, alike):
        assert found.dtype == array.dtype
        assert np.array_equal(found, array)
        assert not np.may_share_memory(found, array)
    steps = zip(array.shape, alike.strides, array.copy("K").strides, strict=True)
    assert all(step == expected for n, step, expected in steps if n > 1)
    assert np.array_equal(line, array.ravel())


def numbers(shape, dtype="float32"):
    return np.arange(np.prod(shape, dtype=int), dtype=dtype).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("shape", [(3, 5, 7), (33, 17, 65), (1, 130, 16), (40, 1, 40)])
def test_permuted_dimensions(shape, order, dtype):
    array = numbers(shape, dtype).transpose(order)
    assert_copies(array)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(700, 900), (100_003, 3), (3, 100_003), (16, 16), (1, 1)])
def test_long_transposed_arrays(shape, dtype):
    array = numbers(shape, dtype).T
    assert_copies(array)


@pytest.mark.parametrize(
    "steps",
    [np.s_[::2], np.s_[:, ::3], np.s_[::-1], np.s_[:, ::-1], np.s_[3:50:2, 5:9], np.s_[:0]],
    ids=["rows", "columns", "backwards", "columns backwards", "both", "nothing"],
)
def test_steps(steps):
    array = numbers((60, 70))[steps]
    assert_copies(array)
    assert_copies(array.T)


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
    assert_copies(array)


@pytest.mark.parametrize("dtype", OTHER_DTYPES)
@pytest.mark.parametrize("shape", [(33, 18, 5), (2, 0, 3), (0,), ()])
def test_other_types(shape, dtype):
    array = numbers(shape, "int64").astype(dtype).T
    for found in (
        copies.copied(array),
        copies.copied_alike(array),
        copies.copied(array, array.shape),
    ):
        assert found.dtype == array.dtype
        assert np.array_equal(found, array)
        assert not np.may_share_memory(found, array)
    assert copies.copied(array, (1, array.size)).shape == (1, array.size)


@pytest.mark.parametrize("scalar", [np.float32(2.5), np.float64(-1.0), np.int64(3), np.bool_(True)])
def test_scalars_of_numpy(scalar):
    for found in (
        copies.copied(scalar),
        copies.copied_alike(scalar),
        copies.copied(scalar, (1, 1)),
    ):
        assert isinstance(found, np.ndarray)
        assert found.dtype == scalar.dtype
        assert found.item() == scalar
    assert found.shape == (1, 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 3, 4, 5, 63, 64, 66])
@pytest.mark.parametrize("columns", [2, 15, 16, 17, 35])
def test_blocks_and_what_is_left_beside_them(rows, columns, dtype):
    array = numbers((rows + 2, columns + 3), dtype)[1:-1, 2:-1]
    assert_copies(array.T)


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
