"""Anomaly mode: which operator made a NaN, where it was called, and what was written behind the library's back."""

import gc
import inspect
import threading
from pathlib import Path

import numpy as np
import pytest

import plugrad
from plugrad.autograd import Function, detect_anomaly, is_anomaly_enabled, set_detect_anomaly
from plugrad.autograd.anomaly import _notes, is_anomaly_check_nan_enabled
from plugrad.autograd.graph import increment_version, saved_tensors_hooks


def leaf(values):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


def here():
    """file:line of the caller, as a traceback shows it."""
    frame = inspect.currentframe().f_back
    return f'File "{frame.f_code.co_filename}", line {frame.f_lineno}, in {frame.f_code.co_name}'


@pytest.fixture(autouse=True)
def off_afterwards():
    yield
    assert not is_anomaly_enabled()


# ---- NaN in a gradient ---------------------------------------------------------------------------------------------


def test_the_operator_the_gradient_and_the_place_are_named():
    with detect_anomaly():
        x = leaf([0.0, 1.0])
        y, place = x.sqrt(), here()
        with pytest.raises(RuntimeError) as caught:
            (y * plugrad.tensor([0.0, 1.0], dtype=np.float64)).sum().backward()
    message = str(caught.value)
    assert "backward of standard::sqrt returned NaN as the gradient of input 0" in message
    assert "shape [2], dtype float64" in message
    assert place in message
    assert "x.sqrt()" in message  # the line itself
    assert str(Path(plugrad.__file__).parent) not in message
    assert x.grad is None


def test_which_of_several_gradients_is_told():
    a, b = leaf([-2.0]), leaf([2.0])
    with (
        detect_anomaly(),
        pytest.raises(RuntimeError, match=r"pow.*NaN as the gradient of input 1"),
    ):
        (a**b).backward()


def test_infinity_is_allowed():
    x = leaf([0.0])
    with detect_anomaly():
        x.sqrt().backward()
    assert x.grad.tolist() == [np.inf]


def test_without_check_nan_only_errors_get_their_place():
    x = leaf([0.0])
    with detect_anomaly(check_nan=False):
        assert not is_anomaly_check_nan_enabled()
        (x.sqrt() * 0).backward()
    assert np.isnan(x.grad.item())


def test_an_error_in_a_rule_gets_the_place_as_a_note():
    class Broken(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("broken")

    with detect_anomaly(check_nan=False):
        y, place = Broken.apply(leaf([1.0])), here()
        with pytest.raises(ValueError, match="^broken") as caught:
            (y * 2).backward()
    (note,) = caught.value.__notes__
    assert note.startswith("in the backward of Broken")
    assert place in note


def test_a_function_is_named_too():
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * float("nan")

    with detect_anomaly(), pytest.raises(RuntimeError, match="Bad returned NaN"):
        Bad.apply(leaf([1.0])).backward()


def test_a_node_from_before_has_no_known_place():
    y = leaf([0.0]).sqrt() * 0
    with detect_anomaly(), pytest.raises(RuntimeError, match="anomaly mode was off then"):
        y.backward()


def test_at_second_order_the_place_in_the_forward_pass_is_shown():
    with detect_anomaly():
        x = leaf([0.0])
        y, place = x * x.abs().sqrt(), here()
        with pytest.raises(RuntimeError) as caught:
            plugrad.autograd.grad(y, x, create_graph=True)
        assert place in str(caught.value)
    with detect_anomaly():
        x = leaf([0.0])
        y, place = x**1.5, here()
        (first,), place_of_grad = plugrad.autograd.grad(y, x, create_graph=True), here()
        (second,) = plugrad.autograd.grad(first, x, create_graph=True)
        with pytest.raises(RuntimeError) as caught:
            (second * 0).backward()
    message = str(caught.value)
    assert place_of_grad in message
    assert "in the backward of another" in message
    assert place in message


def test_a_pass_in_a_hook_is_watched_and_the_outer_one_goes_on():
    a, b = leaf([0.0]), leaf([1.0])
    found = []

    def hook(grad):
        with plugrad.enable_grad(), pytest.raises(RuntimeError, match="sqrt.*NaN") as caught:
            (a.sqrt() * 0).backward()
        found.append(str(caught.value))

    with detect_anomaly():
        m = b * 2
        m.register_hook(hook)
        (m * 3).backward()
    assert len(found) == 1
    assert b.grad.tolist() == [6]


def test_in_place_operations_and_views():
    with detect_anomaly():
        x = leaf([1.0, 4.0])
        y = x * 1
        y[1:].sqrt_()
        y.mul_(2)
        y.sum().backward()
    assert x.grad.tolist() == [2, 0.5]


def test_another_thread_is_watched_too():
    found = []

    def backward(y):
        try:
            y.backward()
        except RuntimeError as error:
            found.append(str(error))

    with detect_anomaly():
        thread = threading.Thread(target=backward, args=(leaf([0.0]).sqrt() * 0,))
        thread.start()
        thread.join()
    assert "sqrt" in found[0]


# ---- the switch ----------------------------------------------------------------------------------------------------


def test_the_mode_returns_after_the_block_and_after_errors():
    with detect_anomaly():
        with detect_anomaly(check_nan=False):
            assert not is_anomaly_check_nan_enabled()
        assert is_anomaly_check_nan_enabled()
        with pytest.raises(KeyError), detect_anomaly(check_nan=False):
            raise KeyError
        assert is_anomaly_check_nan_enabled()
        with set_detect_anomaly(False):
            assert not is_anomaly_enabled()
            _ = (leaf([0.0]).sqrt() * 0).backward()
        assert is_anomaly_enabled()


def test_the_mode_can_be_set():
    set_detect_anomaly(True)
    assert is_anomaly_enabled()
    set_detect_anomaly(False)
    assert not is_anomaly_enabled()


def test_nothing_is_kept_of_nodes_that_are_gone():
    gc.collect()
    before = len(_notes)
    with detect_anomaly():
        y = leaf([1.0])
        for _ in range(1000):
            y = y * 2
        assert len(_notes) == before + 1000
    del y
    assert len(_notes) == before


# ---- writing behind the library's back -----------------------------------------------------------------------------


class Saves(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("standard::mul", lambda x: x * x),
        ("standard::mul", lambda x: x[::2] * x[1:]),
        ("standard::matmul", lambda x: x.reshape(1, 3) @ x.reshape(3, 1)),
        ("Saves", Saves.apply),
    ],
    ids=["mul", "views", "matmul", "Function"],
)
def test_a_write_through_a_shared_array_is_found(name, function):
    array = np.array([1.0, 2.0, 3.0])
    x = plugrad.from_numpy(array).requires_grad_()
    with detect_anomaly():
        y = function(x).sum()
        array[1] = 20
        with pytest.raises(RuntimeError, match="behind plugrad's back.*shape.*float64") as caught:
            y.backward()
    assert name in str(caught.value)


def test_the_saved_value_is_named():
    array = np.array([1.0, 2.0])
    x = leaf([1.0, 2.0])
    with detect_anomaly():
        y = x / plugrad.from_numpy(array)
        array *= 2
        with pytest.raises(RuntimeError, match="the value 'other' that standard::div saved"):
            y.sum().backward()


def test_a_write_that_changes_nothing_or_nothing_saved_is_no_error():
    array = np.array([1.0, 2.0])
    x = plugrad.from_numpy(array).requires_grad_()
    with detect_anomaly():
        y = (x * 2).exp().sum()
        array[:] = 5  # 2 * x saves nothing of x
        y.backward()
        assert x.grad.tolist() == pytest.approx([2 * np.exp(2), 2 * np.exp(4)])
        x.grad = None
        z = (x * x).sum()
        array[:] = array.copy()
        z.backward()
    assert x.grad.tolist() == [10, 10]


def test_a_change_that_the_version_tells_is_reported_as_such():
    x = leaf([1.0, 2.0])
    with detect_anomaly():
        y = (x * x).sum()
        x.array[0] = 9
        increment_version(x)
        with pytest.raises(RuntimeError, match="in-place operation.*at version 1, expected 0"):
            y.backward()


def test_what_hooks_packed_is_theirs():
    array = np.array([1.0, 2.0])
    x = plugrad.from_numpy(array).requires_grad_()
    with detect_anomaly(), saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = (x * x).sum()
        array[:] = 9
        y.backward()
    assert x.grad.tolist() == [2, 4]


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(),
        lambda x: x[::2, ::-1],
        lambda x: x[:1].expand(5, 4),
        lambda x: x[:0],
    ],
    ids=["transposed", "strided", "expanded", "empty"],
)
def test_every_layout_has_a_checksum(view):
    x = leaf(np.arange(12.0).reshape(3, 4))
    with detect_anomaly():
        seen = view(x)
        (seen * seen).sum().backward()
    expected = leaf(np.arange(12.0).reshape(3, 4))
    seen = view(expected)
    (seen * seen).sum().backward()
    assert x.grad.tolist() == expected.grad.tolist()


# ---- the forward pass ----------------------------------------------------------------------------------------------


def test_the_operator_that_first_made_a_nan_is_found():
    x = plugrad.tensor([-1.0, 4.0])
    with detect_anomaly(check_forward=True):
        y = x + 1
        with pytest.raises(
            RuntimeError, match=r"standard::log returned 1 NaN and 0 infinite.*from -1.0 to 4.0"
        ):
            x.log()
        assert y.tolist() == [0, 5]


def test_an_infinity_is_found_too_unless_it_was_given():
    x = plugrad.tensor([0.0, 4.0])
    with detect_anomaly(check_forward=True):
        with pytest.raises(RuntimeError, match="log returned 0 NaN and 1 infinite"):
            x.log()
        masked = plugrad.where(x > 1, x, -np.inf)
        _ = masked.exp()
        _ = masked * 2
    assert x.log().tolist()[0] == -np.inf


def test_backward_is_not_part_of_that_search():
    x = leaf([0.0])
    with detect_anomaly(check_forward=True):
        x.sqrt().backward()
    assert x.grad.tolist() == [np.inf]


def test_a_function_is_searched_too():
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            return plugrad.from_numpy(np.full(3, np.nan))

        @staticmethod
        def backward(ctx, grad):
            return grad

    with (
        detect_anomaly(check_forward=True),
        pytest.raises(RuntimeError, match="Bad returned 3 NaN"),
    ):
        Bad.apply(leaf([1.0, 2.0, 3.0]))
