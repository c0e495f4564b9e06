"""Versions: a saved value that was written since is found, whoever wrote it and whenever its counter was made."""

import numpy as np
import pytest

import plugrad

CHANGED = "changed by an in-place operation"


def produced():
    """A tensor that an operator produced, and one that needs its value and its own output for backward."""
    x = plugrad.tensor([1.0, 2.0], dtype=np.float64, requires_grad=True)
    y = x * 3.0
    return y, (y * y).exp()


WRITERS = {
    "the tensor": lambda y: y.add_(1.0),
    "the tensor, unrecorded": lambda y: without_graph(lambda: y.add_(1.0)),
    "a view": lambda y: y[:1].zero_(),
    "a view of a view": lambda y: y.view(2, 1)[1].zero_(),
    "a detached alias": lambda y: y.detach().zero_(),
    "itself, taken out of the graph": lambda y: y.detach_().zero_(),
    "increment_version": plugrad.autograd.graph.increment_version,
}


def without_graph(write):
    with plugrad.no_grad():
        write()


@pytest.mark.parametrize("writer", WRITERS)
def test_a_write_after_saving_is_found(writer):
    y, z = produced()
    WRITERS[writer](y)
    with pytest.raises(RuntimeError, match=CHANGED):
        z.sum().backward()


@pytest.mark.parametrize("writer", WRITERS)
def test_a_write_to_a_saved_output_is_found(writer):
    _, z = produced()
    total = z.sum()
    WRITERS[writer](z)
    with pytest.raises(RuntimeError, match=CHANGED):
        total.backward()


@pytest.mark.parametrize("writer", WRITERS)
def test_a_write_before_saving_is_none_of_it(writer):
    y, _ = produced()
    WRITERS[writer](y)
    if not y.requires_grad:
        y.requires_grad_()
    z = y * y
    y.retain_grad()
    z.sum().backward()
    np.testing.assert_allclose(y.grad.numpy(), 2 * y.detach().numpy())


def test_values_of_a_recorded_backward_share_the_version():
    x = plugrad.tensor([1.0, 2.0], dtype=np.float64, requires_grad=True)
    y = x * 3.0
    (first,) = plugrad.autograd.grad((y * y * y).sum(), y, create_graph=True)
    y.detach().add_(1.0)
    with pytest.raises(RuntimeError, match=CHANGED):
        first.sum().backward()


def test_a_counter_made_by_one_name_of_a_tensor_is_seen_by_another():
    x = plugrad.tensor([2.0], dtype=np.float64, requires_grad=True)
    y = x * 3.0
    seen, looking = [], []

    @plugrad.operator("versions::square", elementwise=True)
    def square(x):
        """The square."""
        return x * x

    @square.backward
    def _(grad, x):
        if looking:
            seen.append(x)
        return grad * x * 2.0

    @square.samples
    def _(make):
        yield make.call(make.normal(3, 4))
        yield make.call(make.normal(2))
        yield make.call(make.normal(5))

    plugrad.register(square)
    looking.append(True)
    plugrad.autograd.grad(square(y).sum(), y, create_graph=True)
    again = seen.pop()
    looking.clear()
    seen.clear()  # the operator stays registered, and with it its rule
    y.detach().add_(1.0)
    assert y._version == again._version == 1
    (square(again) * 1.0).sum().backward()  # saved at version 1, and not written since
    assert x.grad.tolist() == [2 * 7.0 * 3.0]


def test_an_in_place_form_keeps_what_its_own_rule_needs():
    x = plugrad.tensor([2.0, 3.0], dtype=np.float64, requires_grad=True)
    w = plugrad.tensor([4.0, 5.0], dtype=np.float64, requires_grad=True)
    y = x * 1.0
    y.mul_(w).exp_()
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp([8.0, 15.0]) * [4, 5])
    np.testing.assert_allclose(w.grad.numpy(), np.exp([8.0, 15.0]) * [2, 3])
