"""Saved values: what is kept, and when it goes."""

import gc
import weakref

import numpy as np
import pytest

import plugrad
from plugrad.graph.node import live_nodes


def counted():
    """Live nodes, with what earlier tests left to the collector gone."""
    gc.collect()
    return live_nodes()


def leaf(values):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


def chain_of_exponentials(x, length):
    """exp(exp(…)) scaled to stay finite; each node saves its own output."""
    arrays = []
    y = x
    for _ in range(length):
        y = (y * 0.1).exp()
        arrays.append(weakref.ref(y.array))
    return y, arrays


def test_saved_values_go_node_by_node_during_backward():
    x = leaf(np.ones(100))
    y, arrays = chain_of_exponentials(x, 10)
    alive_after = []
    node = y.grad_fn
    while node is not None and not hasattr(node, "variable"):
        if node.name().endswith("exp"):
            holder = node

            def hook(grad_inputs, grad_outputs):
                alive_after.append(sum(ref() is not None for ref in arrays))

            plugrad.graph.hooks.attach(holder).add_post(hook)
        node = node.next_functions[0][0]
    last = y.sum()
    del y
    last.backward()
    # The hooks run last node first. One saved array fewer is alive each time; the first one still sees all.
    assert alive_after == list(range(10, 0, -1))
    assert sum(ref() is not None for ref in arrays) == 0


def test_nothing_lives_after_backward_but_the_gradient():
    before = counted()
    x = leaf(np.ones(10))
    y, arrays = chain_of_exponentials(x, 5)
    total = y.sum()
    del y
    total.backward()
    del total
    assert all(ref() is None for ref in arrays)
    del x
    assert counted() == before


def test_retain_graph_keeps_and_the_last_run_frees():
    x = leaf(np.ones(10))
    y, arrays = chain_of_exponentials(x, 3)
    total = y.sum()
    del y
    total.backward(retain_graph=True)
    assert all(ref() is not None for ref in arrays)
    total.backward()
    assert all(ref() is None for ref in arrays)


def test_exactly_the_named_tensors_are_saved():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    assert (x + y).grad_fn.saved == ()
    product = x * y
    assert {id(array) for array in product.grad_fn.saved} == {id(x.array), id(y.array)}
    e = x.exp()
    (saved,) = e.grad_fn.saved
    assert saved is e.array


def test_no_graph_is_kept_under_no_grad():
    x = leaf([1.0])
    before = counted()
    with plugrad.no_grad():
        y = x * 2
    assert y.grad_fn is None
    assert counted() == before


class TestVersions:
    def test_an_overwritten_input_is_an_error(self):
        a = leaf([1.0, 2.0])
        b = (a * a).sum()
        with plugrad.no_grad():
            a.detach()[...] = 5.0
        with pytest.raises(RuntimeError, match=r"in-place.*shape \[2\].*version 1, expected 0"):
            b.backward()

    def test_an_overwritten_output_names_its_producer(self):
        a = leaf([1.0, 2.0, 3.0])
        b = a.exp()
        b.detach()[0] = 7.0
        with pytest.raises(RuntimeError, match="output 0 of standard::exp"):
            b.sum().backward()

    def test_what_was_not_saved_may_be_overwritten(self):
        a = leaf([1.0, 2.0])
        b = a * 3
        c = b + 1
        b.detach()[...] = 0.0
        c.sum().backward()
        assert a.grad.tolist() == [3, 3]

    def test_data_has_a_version_of_its_own(self):
        a = leaf([1.0, 2.0])
        b = (a * a).sum()
        a.data[...] = 5.0
        b.backward()
        assert a.grad.tolist() == [10, 10]
