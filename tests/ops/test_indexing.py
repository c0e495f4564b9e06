"""Indexing against NumPy, on generated indices; repeated positions; what bad indices say."""

import tracemalloc

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plugrad
from plugrad import Tensor, ops
from plugrad_ops.indexing.spec import parse_index


def leaf(values, dtype=np.float64):
    return Tensor(np.array(values, dtype=dtype), requires_grad=True)


def count(*shape):
    return np.arange(float(np.prod(shape, dtype=int))).reshape(shape)


def check(index, shape, as_tensor=False):
    """``x[index]`` and its gradient agree with NumPy's reading and `numpy.add.at`."""
    array = count(*shape)
    x = leaf(array)
    given_index = tensors(index) if as_tensor else index
    out = x[given_index]
    wanted = np.asarray(array[index])
    np.testing.assert_array_equal(out.array, wanted)
    assert out.shape == wanted.shape
    seed = 1.0 + count(*wanted.shape)
    (found,) = plugrad.autograd.grad(out, [x], Tensor(seed))
    expected = np.zeros(shape)
    np.add.at(expected, index, seed)
    np.testing.assert_array_equal(found.array, expected)


def tensors(index):
    """The index with its arrays as Tensors."""
    if isinstance(index, tuple):
        return tuple(tensors(entry) for entry in index)
    return Tensor(index) if isinstance(index, np.ndarray) else index


# ------------------------------------------------------------------------------------- reading

SHAPE = (3, 4, 2)


@given(index=hnp.basic_indices(SHAPE, allow_newaxis=True, max_dims=6))
@settings(max_examples=100, deadline=None)
def test_basic_indices(index):
    check(index, SHAPE)


@given(
    index=hnp.integer_array_indices(SHAPE, result_shape=hnp.array_shapes(max_dims=2, max_side=4)),
    as_tensor=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_integer_arrays(index, as_tensor):
    check(index, SHAPE, as_tensor)


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_mixed_indices(data):
    lengths = st.integers(1, 3)
    n = data.draw(lengths)
    entries = [
        data.draw(
            st.one_of(
                st.integers(-size, size - 1),
                st.slices(size),
                hnp.arrays(np.int64, n, elements=st.integers(-size, size - 1)),
            )
        )
        for size in SHAPE
    ]
    # An ellipsis takes the place of some dimensions, whose entries go; new axes may stand anywhere.
    first = data.draw(st.integers(0, len(SHAPE)))
    last = data.draw(st.integers(first, len(SHAPE)))
    if data.draw(st.booleans()):
        entries[first:last] = [Ellipsis]
    if data.draw(st.booleans()):
        entries.insert(data.draw(st.integers(0, len(entries))), None)
    check(tuple(entries), SHAPE)


@given(mask=hnp.arrays(np.bool_, (3, 4)), as_tensor=st.booleans())
@settings(max_examples=40, deadline=None)
def test_masks(mask, as_tensor):
    check(mask, SHAPE, as_tensor)
    check((mask, 0), SHAPE, as_tensor)
    check((Ellipsis, mask.T[:, :1].ravel()[:2]), (3, 4, 2), as_tensor)


def test_lists_numpy_integers_and_scalar_tensors():
    check([0, 0, 2], (3,))
    check(([0, 2], slice(1, 3)), (3, 4))
    check(np.int64(1), (3, 4))
    x = leaf(count(3, 4))
    np.testing.assert_array_equal(x[Tensor(np.array(1))].array, count(3, 4)[1])
    np.testing.assert_array_equal(x[Tensor(np.array(1)) : 3].array, count(3, 4)[1:3])
    assert x[[]].shape == (0, 4)
    assert x[[Tensor(np.array(0)), Tensor(np.array(2))]].shape == (2, 4)


def test_repeated_positions_add_up():
    a = leaf([1, 2, 3])
    (a[[0, 0, 2, 0]] * Tensor(np.array([1.0, 10, 100, 1000]))).sum().backward()
    np.testing.assert_array_equal(a.grad.array, [1011, 0, 100])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_repeated_rows_add_up(dtype):
    rng = np.random.default_rng(0)
    weight = leaf(rng.standard_normal((5, 3)), dtype)
    rows = rng.integers(0, 5, 40)
    seed = rng.standard_normal((40, 3)).astype(dtype)
    (found,) = plugrad.autograd.grad(weight[rows], [weight], Tensor(seed))
    expected = np.zeros((5, 3))
    np.add.at(expected, rows, seed.astype(np.float64))
    assert found.dtype == dtype
    np.testing.assert_allclose(
        found.array, expected, rtol=10 * np.finfo(dtype).eps, atol=20 * np.finfo(dtype).eps
    )


def test_integer_tensors_can_be_indexed():
    x = Tensor(np.arange(6).reshape(2, 3))
    assert x[1, [0, 0]].tolist() == [3, 3]
    assert x[0].dtype == np.int64


def test_second_derivative_through_an_index():
    x = leaf([1, 2, 3])
    y = x[[0, 0, 2]]
    (first,) = plugrad.autograd.grad((y * y * y).sum(), [x], create_graph=True)
    np.testing.assert_array_equal(first.array, [6, 0, 27])
    (second,) = plugrad.autograd.grad(first.sum(), [x])
    np.testing.assert_array_equal(second.array, [12, 0, 18])


def test_basic_indexing_is_a_view_and_advanced_is_not():
    x = Tensor(count(3, 4))
    assert np.shares_memory(x[1:, 0].array, x.array)
    assert np.shares_memory(x[1, 1].array, x.array)
    assert not np.shares_memory(x[[1]].array, x.array)


def test_iterating_gives_rows():
    assert [row.tolist() for row in Tensor(count(2, 2))] == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("index", "error", "words"),
    [
        (3, IndexError, r"index 3 is out of bounds.*shape \(3, 4\)"),
        ((0, 0, 0), IndexError, r"too many indices: 3 for a tensor of shape \(3, 4\)"),
        ([0, 3], IndexError, r"index 3 is out of bounds.*shape \(3, 4\)"),
        (
            [True, False],
            IndexError,
            r"mask of shape \(2,\) at dimension 0 does not fit the shape \(3, 4\)",
        ),
        ((slice(None), [True]), IndexError, r"mask of shape \(1,\) at dimension 1"),
        ((..., ...), IndexError, "single ellipsis"),
        ([0.5], IndexError, "integers or bools, got float64"),
        ("a", TypeError, "integer, slice, None"),
        (1.5, TypeError, "got float"),
        (([0, 1], [0, 1, 2]), IndexError, "broadcast"),
    ],
)
def test_bad_indices(index, error, words):
    with pytest.raises(error, match=words):
        Tensor(count(3, 4))[index]


# ------------------------------------------------------------------------------------- writing


def test_index_put_accumulates():
    v = leaf([1, 2, 3])
    out = Tensor(np.zeros(3)).index_put(([0, 0, 2],), v, accumulate=True)
    assert out.tolist() == [3, 0, 3]
    (out * Tensor(np.array([10.0, 20, 30]))).sum().backward()
    assert v.grad.tolist() == [10, 10, 30]


def test_index_put_keeps_the_last_write_and_its_gradient():
    a, v = leaf([5, 6, 7]), leaf([1, 2, 3])
    out = a.index_put(([0, 0, 2],), v)
    assert out.tolist() == [2, 6, 3]
    (out * Tensor(np.array([10.0, 20, 30]))).sum().backward()
    assert a.grad.tolist() == [0, 20, 0]
    assert v.grad.tolist() == [0, 10, 30]


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_the_last_write_wins_whatever_the_layout(data):
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=3))
    result = data.draw(hnp.array_shapes(max_dims=2, max_side=3))
    index = data.draw(hnp.integer_array_indices(shape, result_shape=st.just(result)))
    index = tuple(np.asfortranarray(i) if data.draw(st.booleans()) else i for i in index)
    values = 1.0 + count(*result)
    order = data.draw(st.sampled_from("CF"))
    x = Tensor(np.zeros(shape, order=order), requires_grad=True)
    v = leaf(values)
    out = x.index_put(index, v)
    expected = np.zeros(shape)
    for place, value in zip(zip(*(i.ravel() for i in np.broadcast_arrays(*index))), values.ravel()):
        expected[place] = value
    np.testing.assert_array_equal(out.array, expected)
    grad_x, grad_v = plugrad.autograd.grad(out.sum(), [x, v])
    np.testing.assert_array_equal(grad_x.array, expected == 0)
    np.testing.assert_array_equal(grad_v.array, np.isin(values, expected))


LARGE_SHAPE = (300, 40, 50)


@pytest.mark.parametrize(
    "index",
    [
        ([2, 299, 2], slice(None), [1, 7, 1]),
        ([4, 4, -1], [1, 1, 3]),
        (slice(1, 3), [3, -1, 39, 0]),
        (0, [[3], [3]], [1, 2, 1]),
    ],
    ids=str,
)
def test_few_writes_to_a_large_tensor_take_little_memory_and_the_last_one_wins(index):
    x = Tensor(np.zeros(LARGE_SHAPE))
    values = 1.0 + count(*x.array[index].shape)
    expected, places = np.zeros(LARGE_SHAPE), np.arange(x.numel()).reshape(LARGE_SHAPE)[index]
    for place, value in zip(places.ravel(), values.ravel()):
        expected.flat[place] = value
    v = leaf(values)
    written = x.index_put(index, v)
    (grad_v,) = plugrad.autograd.grad(written.sum(), [v])
    spec, arrays = parse_index(index, x)
    tracemalloc.start()
    x[index] = values
    ops.last_writes(*arrays, shape=LARGE_SHAPE, spec=spec)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < x.array.nbytes / 10
    np.testing.assert_array_equal(x.array, expected)
    np.testing.assert_array_equal(grad_v.array, np.isin(values, expected))


def test_values_broadcast():
    x, v = leaf(count(3, 4)), leaf([[7.0]])
    out = x.index_put((slice(1, 3), [0, 2]), v)
    expected = count(3, 4)
    expected[1:, [0, 2]] = 7
    np.testing.assert_array_equal(out.array, expected)
    (found,) = plugrad.autograd.grad(out.sum(), [v])
    assert found.tolist() == [[4.0]]
    surplus = leaf(np.ones((1, 1, 4)))
    (found,) = plugrad.autograd.grad(x.index_put((0,), surplus).sum(), [surplus])
    assert found.shape == (1, 1, 4)
    with pytest.raises(
        RuntimeError, match=r"values of shape \(3,\) do not broadcast to the shape \(4,\)"
    ):
        x.index_put((0,), leaf([1, 2, 3]))


def test_assignment_records():
    base, w = Tensor(np.zeros(3)), leaf([5, 6])
    base[1:] = w
    assert base.requires_grad
    (base * Tensor(np.array([1.0, 2, 3]))).sum().backward()
    assert w.grad.tolist() == [2, 3]


def test_assignment_cuts_what_it_overwrites():
    x, w = leaf([1, 2, 3]), leaf(10.0)
    y = x * 2
    y[[0, 2]] = w
    assert y.tolist() == [10, 4, 10]
    (y * Tensor(np.array([1.0, 2, 3]))).sum().backward()
    assert x.grad.tolist() == [0, 4, 0]
    assert w.grad.item() == 4


def test_assignment_of_numbers_arrays_and_other_dtypes():
    x = Tensor(np.zeros((2, 3), np.float32))
    x[0, 1] = 2.5
    x[1] = np.array([1, 2, 3])
    x[0, [0, 2]] = Tensor(np.array([7, 8]))
    x[x > 7] = 0.0
    assert x.tolist() == [[7, 2.5, 0], [1, 2, 3]]
    assert x.dtype == np.float32


def test_assignment_to_shared_elements():
    with pytest.raises(RuntimeError, match="share memory"):
        Tensor(np.ones(1)).expand(3)[0] = 5


def test_assignment_to_a_leaf():
    x = leaf([1, 2])
    with pytest.raises(RuntimeError, match="leaf"):
        x[0] = 1.0
    with plugrad.no_grad():
        x[0] = 5.0
    assert x.tolist() == [5, 2]


def test_masked_fill():
    x, value = leaf([1, 2, 3]), leaf(9.0)
    mask = Tensor(np.array([True, False, True]))
    out = x.masked_fill(mask, value)
    assert out.tolist() == [9, 2, 9]
    grad_x, grad_value = plugrad.autograd.grad(out.sum(), [x, value])
    assert (grad_x.tolist(), grad_value.item()) == ([0, 1, 0], 2)
    assert x.masked_fill(mask, -1.0).tolist() == [-1, 2, -1]


# ------------------------------------------------------------------------- along one dimension


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_take_along_dim(data):
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=3))
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    wanted_shape = list(shape)
    wanted_shape[dim] = data.draw(st.integers(0, 4))
    bound = shape[dim]
    index = data.draw(
        hnp.arrays(np.int64, tuple(wanted_shape), elements=st.integers(-bound, bound - 1))
    )
    array = count(*shape)
    x = leaf(array)
    out = ops.take_along_dim(x, Tensor(index), dim)
    np.testing.assert_array_equal(out.array, np.take_along_axis(array, index, dim))
    (found,) = plugrad.autograd.grad(out, [x], Tensor(np.ones(out.shape)))
    expected = np.bincount(out.array.astype(int).ravel(), minlength=array.size).reshape(shape)
    np.testing.assert_array_equal(found.array, expected)


def test_gather_and_scatter_add():
    array = count(3, 4)
    index = np.array([[0, 3], [1, 1]])
    x = leaf(array)
    out = x.gather(1, Tensor(index))
    assert out.tolist() == [[0, 3], [5, 5]]
    (found,) = plugrad.autograd.grad(out.sum(), [x])
    assert found.tolist() == [[1, 0, 0, 1], [0, 2, 0, 0], [0, 0, 0, 0]]
    src = leaf(np.ones((2, 2)))
    out = x.scatter_add(1, Tensor(index), src)
    np.testing.assert_array_equal(out.array - array, found.array)
    grad_x, grad_src = plugrad.autograd.grad(out, [x, src], Tensor(array))
    np.testing.assert_array_equal(grad_x.array, array)
    assert grad_src.tolist() == [[0, 3], [5, 5]]


def test_index_select_and_one_hot():
    x = leaf(count(3, 4))
    assert x.index_select(1, Tensor(np.array([3, 3]))).tolist() == [[3, 3], [7, 7], [11, 11]]
    hot = ops.one_hot(Tensor(np.array([[0, 2]])), 3)
    assert hot.tolist() == [[[1, 0, 0], [0, 0, 1]]]
    assert hot.dtype == np.int64


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: ops.take_along_dim(x, Tensor(np.array([[4]])), 1), IndexError, "index 4 is out of bounds for dimension 1"),
        (lambda x: ops.take_along_dim(x, Tensor(np.array([0])), 1), RuntimeError, "equally many dimensions"),
        (lambda x: x.gather(1, Tensor(np.zeros((4, 1), int))), RuntimeError, "gather: .*no greater sizes"),
        (lambda x: ops.one_hot(Tensor(np.array([3])), 3), IndexError, "between 0 and 2, got 3"),
        (lambda x: x.index_select(0, Tensor(np.array([[0]]))), IndexError, "0-d or 1-d"),
        (lambda x: ops.take_along_dim(x, Tensor(np.array([[0.0]])), 1), TypeError, "indices"),
    ],
)  # fmt: skip
def test_bad_positions(call, error, words):
    with pytest.raises(error, match=words):
        call(Tensor(count(3, 4)))
