"""Shape operators against NumPy: values, aliasing, gradients, and what bad arguments say."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plugrad
from plugrad import Tensor, ops
from plugrad_ops.shape.ops import viewable


def leaf(values, dtype=np.float64):
    return Tensor(np.array(values, dtype=dtype), requires_grad=True)


def count(*shape):
    return np.arange(float(np.prod(shape, dtype=int))).reshape(shape)


def check(function, array, wanted):
    """The value is `wanted`, and each element's gradient is the sum of the seeds where it went."""
    x = leaf(array)
    out = function(x)
    np.testing.assert_array_equal(out.array, wanted)
    assert out.shape == wanted.shape
    seed = 1.0 + count(*wanted.shape)
    (found,) = plugrad.autograd.grad(out, [x], Tensor(seed))
    # `array` holds its own positions, so `wanted` says where each element went.
    expected = np.zeros(array.size)
    np.add.at(expected, wanted.astype(int).ravel(), seed.ravel())
    np.testing.assert_array_equal(found.array, expected.reshape(array.shape))


# --------------------------------------------------------------------------- view and reshape


@pytest.mark.parametrize("name", ["view", "reshape"])
@pytest.mark.parametrize(
    ("shape", "size", "result"),
    [
        ((2, 6), (3, 4), (3, 4)),
        ((2, 6), (-1, 3), (4, 3)),
        ((), (1, 1), (1, 1)),
        ((1,), (), ()),
        ((0, 3), (3, 0), (3, 0)),
        ((0, 3), (-1, 3), (0, 3)),
    ],
)
def test_view_and_reshape(name, shape, size, result):
    check(lambda x: getattr(x, name)(size), count(*shape), count(*result))


def test_sizes_may_be_given_one_by_one():
    x = Tensor(count(2, 6))
    assert x.view(3, 4).shape == x.reshape(3, 4).shape == x.view(3, -1).shape == (3, 4)
    assert x.view(12).shape == (12,)
    assert x.permute(1, 0).shape == (6, 2)
    assert Tensor(count(2, 1)).expand(2, 3).shape == (2, 3)


def test_views_share_memory_and_copies_do_not():
    x = Tensor(count(2, 6))
    assert np.shares_memory(x.view(3, 4).array, x.array)
    assert np.shares_memory(x.reshape(3, 4).array, x.array)
    assert np.shares_memory(x.transpose(0, 1).array, x.array)
    assert not np.shares_memory(x.transpose(0, 1).reshape(12).array, x.array)
    for name in ("clone", "contiguous_copy"):
        assert not np.shares_memory(getattr(ops, name)(x).array, x.array)
    assert ops.contiguous(x) is x


def test_reshape_of_a_transpose():
    check(lambda x: x.transpose(0, 1).reshape(3, 4), count(2, 6), count(2, 6).T.reshape(3, 4))


def test_view_that_needs_a_copy():
    with pytest.raises(RuntimeError, match=r"view: .*shape \(6, 2\).*use reshape"):
        Tensor(count(2, 6)).transpose(0, 1).view(12)


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_viewable_agrees_with_numpy(data):
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=4))
    order = data.draw(st.permutations(range(len(shape))))
    step = data.draw(st.sampled_from([1, 2, -1]))
    array = np.zeros(shape)[..., ::step].transpose(order) if shape else np.zeros(())
    sizes, rest = [], array.size
    while rest > 1 and data.draw(st.booleans()):
        n = data.draw(st.sampled_from([d for d in range(1, rest + 1) if rest % d == 0]))
        sizes.append(n)
        rest //= n
    size = (*sizes, rest)
    shared = np.shares_memory(array.reshape(size), array)
    assert viewable(array.shape, array.strides, size) == shared


@pytest.mark.parametrize("name", ["view", "reshape"])
@pytest.mark.parametrize(
    ("size", "words"),
    [
        ((4, 2), r"invalid for a tensor of shape \(2, 3\) \(6 elements\)"),
        ((-1, -1), "-1"),
        ((4, -1), "-1"),
        ((-2, 3), "cannot be negative"),
    ],
)
def test_sizes_that_do_not_fit(name, size, words):
    with pytest.raises(RuntimeError, match=f"{name}: .*{words}"):
        getattr(ops, name)(Tensor(count(2, 3)), size)


# ---------------------------------------------------------------------- dimensions in and out


def test_flatten_and_unflatten():
    check(lambda x: x.flatten(1), count(2, 3, 2), count(2, 6))
    check(lambda x: x.flatten(), count(2, 3), count(6))
    check(lambda x: x.flatten(), count(), count(1))
    check(lambda x: x.unflatten(-1, (2, -1)), count(3, 4), count(3, 2, 2))


@pytest.mark.parametrize(
    ("shape", "dim", "result"),
    [
        ((1, 3, 1), None, (3,)),
        ((1, 3, 1), -1, (1, 3)),
        ((1, 3, 1), (0, 2), (3,)),
        ((2, 3), 0, (2, 3)),
        ((), 0, ()),
    ],
)
def test_squeeze(shape, dim, result):
    check(lambda x: ops.squeeze(x, dim=dim), count(*shape), count(*result))


@pytest.mark.parametrize(
    ("dim", "result"), [(0, (1, 2, 3)), (-1, (2, 3, 1)), (1, (2, 1, 3)), ((0, -1), (1, 2, 3, 1))]
)
def test_unsqueeze(dim, result):
    check(lambda x: x.unsqueeze(dim), count(2, 3), count(*result))


def test_orders_of_dimensions():
    a = count(2, 3, 4)
    check(lambda x: x.permute((2, 0, 1)), a, a.transpose(2, 0, 1))
    check(lambda x: x.permute(-1, 0, 1), a, a.transpose(2, 0, 1))
    check(lambda x: x.transpose(0, -1), a, a.swapaxes(0, 2))
    check(lambda x: ops.movedim(x, 0, -1), a, np.moveaxis(a, 0, -1))
    check(lambda x: ops.movedim(x, (0, 1), (2, 0)), a, np.moveaxis(a, (0, 1), (2, 0)))
    check(lambda x: x.t(), a[0], a[0].T)
    assert ops.t(Tensor(count(3))).shape == (3,)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda x: x.permute(0, 0),
            RuntimeError,
            "permute: dims must name each of the 2 dimensions once",
        ),
        (lambda x: x.transpose(0, 2), IndexError, "transpose: dimension out of range"),
        (lambda x: x.unsqueeze(3), IndexError, "unsqueeze: dimension out of range"),
        (lambda x: x.squeeze(2), IndexError, "squeeze: dimension out of range"),
        (lambda x: x.flatten(1, 0), RuntimeError, "flatten: start_dim 1 comes after end_dim 0"),
        (lambda x: ops.movedim(x, (0, 1), 0), RuntimeError, "movedim: .*equally many"),
        (lambda x: ops.t(x.unsqueeze(0)), RuntimeError, "t: expected at most 2 dimensions"),
        (
            lambda x: x.expand(4, 3),
            RuntimeError,
            r"expand: shape \(2, 3\) cannot be expanded to \(4, 3\)",
        ),
        (lambda x: x.expand(3), RuntimeError, "cannot be expanded"),
        (lambda x: x.expand(-1, 2, 3), RuntimeError, "cannot be expanded"),
        (lambda x: x.repeat(2), RuntimeError, "repeat: .*at least 2 counts"),
        (lambda x: x.flip(2), IndexError, "flip: dimension out of range"),
        (lambda x: x.view("a"), TypeError, "view: size must be integers"),
    ],
)
def test_bad_dimensions(call, error, words):
    with pytest.raises(error, match=words):
        call(Tensor(count(2, 3)))


# --------------------------------------------------------------------------------- repetition


@pytest.mark.parametrize(
    ("shape", "size", "result"),
    [
        ((3, 1), (3, 4), (3, 4)),
        ((3,), (2, -1), (2, 3)),
        ((), (2, 3), (2, 3)),
        ((1, 3), (0, 3), (0, 3)),
        ((2, 3), (2, 3), (2, 3)),
    ],
)
def test_expand(shape, size, result):
    array = count(*shape)
    check(lambda x: x.expand(size), array, np.broadcast_to(array, result))
    if -1 not in size:
        check(lambda x: ops.broadcast_to(x, size), array, np.broadcast_to(array, result))


def test_expand_costs_no_memory():
    x = Tensor(np.ones(1))
    assert x.expand(10**12).array.strides == (0,)


def test_repeat_tile_and_flip():
    a = count(2, 3)
    check(lambda x: x.repeat(2, 1), a, np.tile(a, (2, 1)))
    check(lambda x: x.repeat(2, 1, 2), a, np.tile(a, (2, 1, 2)))
    check(lambda x: ops.tile(x, (2,)), a, np.tile(a, 2))
    check(lambda x: x.repeat(0, 1), a, np.tile(a, (0, 1)))
    check(lambda x: x.flip(0), a, a[::-1])
    check(lambda x: x.flip(0, -1), a, a[::-1, ::-1])
    assert ops.flip(Tensor(a), 0).array.flags.c_contiguous


# ------------------------------------------------------------------------ joining and splitting


def test_cat_and_stack():
    a, b = leaf(count(2, 3)), leaf(10 + count(2, 1))
    out = ops.cat([a, b], dim=1)
    np.testing.assert_array_equal(out.array, np.concatenate([a.array, b.array], 1))
    seed = Tensor(count(2, 4))
    grad_a, grad_b = plugrad.autograd.grad(out, [a, b], seed)
    np.testing.assert_array_equal(grad_a.array, count(2, 4)[:, :3])
    np.testing.assert_array_equal(grad_b.array, count(2, 4)[:, 3:])
    for dim in (0, 1, -1):
        out = ops.stack((a, a), dim)
        np.testing.assert_array_equal(out.array, np.stack([a.array, a.array], dim))
        (found,) = plugrad.autograd.grad(out, [a], Tensor(np.ones(out.shape)))
        np.testing.assert_array_equal(found.array, np.full((2, 3), 2.0))


def test_cat_promotes():
    a, b = leaf([1.0], np.float32), leaf([2.0], np.float64)
    out = ops.cat([a, b])
    assert out.dtype == np.float64
    out.sum().backward()
    assert (a.grad.dtype, b.grad.dtype) == (np.float32, np.float64)


def test_cat_takes_only_what_needs_a_gradient():
    a, b = leaf([1.0]), Tensor(np.array([2.0]))
    ops.cat([b, a, b]).sum().backward()
    assert a.grad.tolist() == [1.0]
    assert b.grad is None


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: x.split(2), [slice(0, 2), slice(2, 4), slice(4, 5)]),
        (lambda x: x.split((1, 0, 4)), [slice(0, 1), slice(1, 1), slice(1, 5)]),
        (lambda x: x.chunk(2), [slice(0, 3), slice(3, 5)]),
        (lambda x: x.unbind(), [0, 1, 2, 3, 4]),
    ],
)
def test_taking_apart(function, wanted):
    a = count(5, 2)
    pieces = function(Tensor(a))
    assert len(pieces) == len(wanted)
    for i, (piece, index) in enumerate(zip(pieces, wanted)):
        np.testing.assert_array_equal(piece.array, a[index])
        if piece.numel():
            assert np.shares_memory(piece.array, a)
            check(lambda x, i=i: function(x)[i], a, a[index])


def test_taking_apart_along_the_last_dimension():
    a = count(2, 5)
    for piece, index in zip(Tensor(a).split(2, dim=-1), [slice(0, 2), slice(2, 4), slice(4, 5)]):
        np.testing.assert_array_equal(piece.array, a[:, index])
    for j, column in enumerate(Tensor(a).unbind(1)):
        np.testing.assert_array_equal(column.array, a[:, j])
    check(lambda x: x.narrow(1, 1, 3), a, a[:, 1:4])
    check(lambda x: x.narrow(-1, -2, 2), a, a[:, 3:])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda x: ops.cat([x, Tensor(count(3, 2))]),
            r"cat: .*\(2, 3\) for tensor 0 and \(3, 2\) for tensor 1",
        ),
        (lambda x: ops.cat([x, Tensor(count(3))]), r"cat: "),
        (lambda x: ops.cat([Tensor(count()), Tensor(count())]), "cat: 0-d tensors"),
        (lambda x: ops.stack([x, Tensor(count(3, 2))]), "stack: tensors must have equal sizes"),
        (lambda x: x.split((1, 2)), r"split: sections \(1, 2\).*sum to the size 2"),
        (lambda x: x.split(0), "split: the split size must be positive"),
        (lambda x: x.chunk(0), "chunk: .*must be positive"),
        (lambda x: x.narrow(0, 1, 2), "narrow: start 1 and length 2 exceed dimension 0 of size 2"),
        (lambda x: Tensor(count()).unbind(), "unbind: a 0-d tensor"),
    ],
)
def test_pieces_that_do_not_fit(call, words):
    with pytest.raises(RuntimeError, match=words):
        call(Tensor(count(2, 3)))


# -------------------------------------------------------------------------------------- strides


def test_as_strided_adds_up_what_overlaps():
    check(
        lambda x: ops.as_strided(x, (3, 3), (1, 1)),
        count(5),
        np.array([[0, 1, 2], [1, 2, 3], [2, 3, 4.0]]),
    )
    check(lambda x: ops.as_strided(x, (2, 2), (3, 1), 1), count(2, 3), np.array([[1, 2], [4, 5.0]]))
    check(lambda x: ops.as_strided(x, (), (), 4), count(2, 3), np.array(4.0))


def test_as_strided_of_another_layout():
    a = np.asfortranarray(count(2, 3))
    x = Tensor(a, requires_grad=True)
    with pytest.raises(RuntimeError, match="as_strided: .*input_stride"):
        ops.as_strided(x, (2,), (1,))
    out = ops.as_strided(x, (2,), (1,), 2, input_stride=(1, 2))
    np.testing.assert_array_equal(out.array, a[:, 1])
    (found,) = plugrad.autograd.grad(out, [x], Tensor(np.array([5.0, 7.0])))
    np.testing.assert_array_equal(found.array, [[0, 5, 0], [0, 7, 0]])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (((4,), (2,)), "reach element 6 of a tensor that spans 6"),
        (((2, 2), (1,)), "equally many"),
        (((2,), (-1,)), "negative"),
        (((2,), (1,), -1), "negative"),
    ],
)
def test_strides_that_leave_the_memory(arguments, words):
    with pytest.raises(RuntimeError, match=words):
        ops.as_strided(Tensor(count(2, 3)), *arguments)
