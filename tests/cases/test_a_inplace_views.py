"""In-place operations, views and the version counter: known inputs with their right results."""

import numpy as np
import pytest

import plugrad


def leaf(values):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


def test_a1_a_saved_output_that_was_overwritten_is_named():
    a = leaf([1.0, 2.0, 3.0])
    b = a.exp()
    b.add_(1)
    with pytest.raises(RuntimeError, match="in-place") as caught:
        b.sum().backward()
    message = str(caught.value)
    assert "[3]" in message or "(3,)" in message
    assert "exp" in message
    assert "output 0" in message
    assert "version 1" in message
    assert "expected 0" in message or "expected version 0" in message


def test_a2_overwriting_what_nobody_saved_is_no_error():
    a = leaf([1.0, 2.0])
    b = a * 3
    c = b + 1
    b.mul_(0)
    c.sum().backward()
    assert a.grad.tolist() == [3, 3]


def test_a3_writing_through_a_view_changes_the_producer_of_its_base():
    a = leaf([1.0, 2.0, 3.0])
    b = a * 2
    v = b[1:]
    v.mul_(10)
    assert b.grad_fn.name() == "CopySlices"
    b.sum().backward()
    assert b.tolist() == [2, 40, 60]
    assert a.grad.tolist() == [2, 20, 20]


def test_a5_writing_into_a_base_that_did_not_require_grad():
    base = plugrad.zeros(3, dtype=np.float64)
    w = leaf([5.0, 6.0])
    base[1:] = w
    assert base.requires_grad
    (base * np.array([1.0, 2.0, 3.0])).sum().backward()
    assert w.grad.tolist() == [2, 3]


def test_a7_a_view_of_a_view_written_and_its_base_read_transposed():
    a = leaf([1.0, 2.0, 3.0, 4.0])
    b = (a * 1).view(2, 2)
    b[0].mul_(10)
    (b.t() * np.array([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert a.grad.tolist() == [10, 30, 2, 4]


def write_through_detach(a):
    a.detach().add_(1)


def write_under_no_grad(a):
    with plugrad.no_grad():
        a.add_(1)


@pytest.mark.parametrize("write", [write_through_detach, write_under_no_grad])
def test_a9_a_saved_leaf_overwritten_outside_the_graph_is_found(write):
    a = leaf([1.0, 2.0])
    b = (a * a).sum()
    write(a)
    with pytest.raises(RuntimeError, match="in-place") as caught:
        b.backward()
    message = str(caught.value)
    assert "mul" in message
    assert "[2]" in message or "(2,)" in message
    assert "version 1" in message


@pytest.mark.parametrize(
    "take",
    [
        lambda b: b.split(2),
        lambda b: b.split((2, 2)),
        lambda b: b.chunk(2),
        lambda b: b.view(2, 2).unbind(),
        lambda b: b.view(2, 2),
    ],
    ids=["split", "split into sections", "chunk", "unbind", "iteration"],
)
def test_a10_one_of_several_views_from_one_call_cannot_be_written(take):
    x, y = take(leaf([1.0, 2.0, 3.0, 4.0]) * 1)
    for each in (x, y, x[:1]):
        with pytest.raises(RuntimeError, match="one of several.*in-place"):
            each.mul_(2)
    with plugrad.no_grad():
        assert x.mul_(2).tolist() == [2, 4]


def test_a10_such_a_view_still_follows_its_base():
    a = leaf([1.0, 2.0, 3.0, 4.0])
    b = a * 1
    x, y = b.split(2)
    b.mul_(x[0].detach() + 9)
    (x + 2 * y).sum().backward()
    assert x.tolist() == [10, 20]
    assert a.grad.tolist() == [10, 10, 20, 20]


def test_a10_such_a_view_can_be_written_where_there_is_no_graph():
    x, y = plugrad.zeros(4).split(2)
    x.add_(1)
    assert x.tolist() == [1, 1]
    assert y.tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="one of several"):
        y.add_(plugrad.ones(2, requires_grad=True))


def test_a11_a_leaf_and_a_view_of_one_cannot_be_written_while_recording():
    with pytest.raises(RuntimeError, match="leaf that requires grad.*in-place"):
        leaf([1.0, 2.0]).add_(1)
    with pytest.raises(RuntimeError, match="view.*of a leaf that requires grad.*in-place"):
        leaf([1.0, 2.0])[0].add_(1)


def test_a11_both_are_fine_under_no_grad():
    a = leaf([1.0, 2.0])
    with plugrad.no_grad():
        a.add_(1)
    assert a.tolist() == [2, 3]
    assert a._version == 1
    with plugrad.no_grad():
        a[0].add_(1)
    assert a.tolist() == [3, 3]


def test_a12_a_view_made_under_no_grad_cannot_be_written_while_recording():
    with plugrad.no_grad():
        base = plugrad.ones(3, dtype=np.float64)
        v = base[1:]
    base.requires_grad_()
    with pytest.raises(RuntimeError, match="made under no_grad.*in-place"):
        v.mul_(2)
    assert base.tolist() == [1, 1, 1]


def test_a14_elements_that_share_memory_cannot_be_written():
    x = plugrad.ones(1, dtype=np.float64).expand(3)
    with pytest.raises(RuntimeError, match="share memory.*in-place|in-place.*share memory"):
        x[0] = 5
    assert x.tolist() == [1, 1, 1]


def test_a16_writing_the_diagonal():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    y = x * 1
    y.diagonal().zero_()
    (y * y).sum().backward()
    assert y.tolist() == [[0, 2], [3, 0]]
    assert x.grad.tolist() == [[0, 4], [6, 0]]


def test_a17_a_tensor_times_itself_in_place_is_never_a_wrong_number():
    a = leaf([2.0])
    b = a * 1
    b *= b
    with pytest.raises(RuntimeError, match="in-place.*version 1"):
        b.backward()
    assert a.grad is None
