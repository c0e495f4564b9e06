"""graph_stats: what is alive."""

import gc

import numpy as np

import plugrad


def counted():
    gc.collect()
    return plugrad.graph_stats()


def test_counts_rise_and_fall():
    before = counted()
    x = plugrad.tensor(np.ones(10), requires_grad=True)
    y = x.exp()
    z = y * y
    now = plugrad.graph_stats()
    assert (now.nodes - before.nodes, now.tensors - before.tensors) == (3, 3)
    assert now.saved_bytes - before.saved_bytes == 80  # y alone, once
    z.sum().backward()
    assert counted().saved_bytes == before.saved_bytes
    del x, y, z
    assert counted() == before


def test_a_long_chain_is_walked_without_recursion():
    before = counted()
    x = y = plugrad.ones(2, requires_grad=True)
    for _ in range(20_000):
        y = y * 0.5
    assert plugrad.graph_stats().nodes - before.nodes == 20_001
    del x, y
    assert counted() == before


def test_looking_at_a_stale_view_changes_nothing():
    base = plugrad.ones(3, requires_grad=True) * 1
    view = base[0:1]
    base.mul_(2)
    before = counted()
    assert counted() == before
    assert view.requires_grad
