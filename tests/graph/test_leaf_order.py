"""When a leaf that has hooks accumulates: once, as soon as nothing more can come."""

import numpy as np
import pytest

import plugrad
from plugrad.autograd import Function


def leaf(values=(1.0,)):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


def noted(leaf, order, name):
    leaf.register_post_accumulate_grad_hook(lambda t: order.append((name, t.grad.tolist())))


class GivesNothing(Function):
    """The identity whose backward returns None."""

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return None


def test_after_the_last_of_its_edges_and_before_older_nodes():
    a, b = leaf(), leaf()
    order = []
    noted(a, order, "a")
    noted(b, order, "b")
    x = a * 2
    x.grad_fn.register_prehook(lambda grads: order.append("x"))
    y = (b * 3 + x) * b
    y.grad_fn.register_prehook(lambda grads: order.append("y"))
    y.backward()
    assert order == ["y", ("b", [8.0]), "x", ("a", [2.0])]


def test_an_edge_that_brings_no_gradient_is_counted_as_done():
    a, b = leaf(), leaf()
    order = []
    noted(a, order, "a")
    older = b * 1
    older.grad_fn.register_prehook(lambda grads: order.append("older"))
    (GivesNothing.apply(a) + a * 2 + older).backward()
    assert order[-1] == "older"
    assert order[0] == ("a", [2.0])


def test_a_part_of_the_graph_that_gets_no_gradient():
    a = leaf()
    order = []
    noted(a, order, "a")
    (GivesNothing.apply(a * a) + a * 2).backward()
    assert order == [("a", [2.0])]


def test_no_gradient_at_all():
    a = leaf()
    order = []
    noted(a, order, "a")
    GivesNothing.apply(a).backward()
    assert order == []
    assert a.grad is None


def test_the_tensor_that_backward_starts_from():
    a = leaf()
    order = []
    noted(a, order, "a")
    a.backward(plugrad.ones_like(a))
    assert order == [("a", [1.0])]
    plugrad.autograd.backward([a, a * 2])
    assert order[1:] == [("a", [4.0])]


def test_the_same_tensor_in_both_places_of_one_call():
    a = leaf((3.0,))
    order = []
    noted(a, order, "a")
    (a * a).backward()
    assert order == [("a", [6.0])]


def test_a_hook_on_another_tensor_that_raises_leaves_nothing_behind():
    a, b = leaf(), leaf()
    order = []
    noted(a, order, "a")

    def fail(tensor):
        raise ValueError("stop")

    handle = b.register_post_accumulate_grad_hook(fail)
    older = a * 1
    with pytest.raises(ValueError, match="stop"):
        (older + b * a).backward()
    handle.remove()
    a.grad = b.grad = None
    order.clear()
    (a * 1 + b * a).backward()
    assert order == [("a", [2.0])]


def test_gradients_that_are_asked_for_run_no_accumulation():
    a, b = leaf(), leaf()
    order = []
    noted(a, order, "a")
    assert plugrad.autograd.grad(a * b, [a, b])[0].tolist() == [1]
    assert order == []
    (a * b).backward(inputs=[b])
    assert order == []
    assert (a.grad, b.grad.tolist()) == (None, [1])


def test_a_leaf_hook_that_runs_another_backward_into_the_leaf():
    a = leaf()
    seen = []

    def hook(grad):
        seen.append(grad.item())
        if len(seen) == 1:
            with plugrad.enable_grad():
                (a * 10).backward()

    a.register_hook(hook)
    (a * 2 + a * 3).backward()
    assert seen == [5, 10]
    assert a.grad.tolist() == [15]
