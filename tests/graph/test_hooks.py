"""Tensor hooks, retained gradients and node hooks."""

import numpy as np
import pytest

import plugrad
from plugrad.graph.hooks import attach


def leaf(values):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


def test_everything_at_one_node_in_order():
    a = leaf([2.0])
    b = a * 3
    seen = []

    def note(label, result=None):
        def hook(grad):
            seen.append((label, grad.tolist()))
            return result(grad) if result else None

        return hook

    b.register_hook(note("first", lambda g: g * 10))
    b.retain_grad()
    b.register_hook(note("second", lambda g: g + 1))
    hooks = attach(b.grad_fn)
    hooks.add_pre(lambda grads: seen.append(("pre", grads[0].tolist())))
    hooks.add_post(
        lambda inputs, outputs: seen.append(("post", inputs[0].tolist(), outputs[0].tolist()))
    )
    a.register_hook(note("leaf"))
    a.register_post_accumulate_grad_hook(lambda t: seen.append(("accumulated", t.grad.tolist())))
    (b * 5).sum().backward()
    assert seen == [
        ("first", [5.0]),
        ("second", [50.0]),
        ("pre", [51.0]),
        ("post", [153.0], [51.0]),
        ("leaf", [153.0]),
        ("accumulated", [153.0]),
    ]
    assert b.grad.tolist() == [51]
    assert a.grad.tolist() == [153]


def test_a_leaf_hook_runs_once_on_the_sum():
    a = leaf([1.0, 1.0])
    seen = []
    a.register_hook(lambda g: seen.append(g.tolist()))
    (a * 2 + a * 3 + a * 4).sum().backward()
    assert seen == [[9.0, 9.0]]


def test_a_removed_hook_is_not_called():
    a = leaf([1.0])
    handle = a.register_hook(lambda g: pytest.fail("called after remove()"))
    handle.remove()
    handle.remove()
    (a * 2).sum().backward()
    assert a.grad.tolist() == [2]


def test_a_hook_that_returns_rubbish_is_refused():
    a = leaf([1.0])
    a.register_hook(lambda g: 3)
    with pytest.raises(TypeError, match=r"returned int.*expected a Tensor or None"):
        (a * 2).sum().backward()


def test_a_hook_that_changes_the_shape_is_refused():
    a = leaf([1.0])
    a.register_hook(lambda g: plugrad.ones(3, dtype=np.float64))
    with pytest.raises(RuntimeError, match=r"shape=\(3,\)"):
        (a * 2).sum().backward()


def test_hooks_need_something_that_requires_grad():
    t = plugrad.tensor([1.0])
    with pytest.raises(RuntimeError, match="does not require grad"):
        t.register_hook(print)
    with pytest.raises(RuntimeError, match="does not require grad"):
        t.retain_grad()


def test_retain_grad_of_an_intermediate():
    a = leaf([1.0, 2.0])
    b = a * a
    b.retain_grad()
    (b * 3).sum().backward()
    assert b.retains_grad
    assert b.grad.tolist() == [3, 3]
    assert not np.shares_memory(b.grad.array, a.grad.array)


def test_a_hook_cycle_is_collected():
    import gc
    import weakref

    a = leaf([1.0])
    b = a * 2
    b.register_hook(lambda g, b=b: None)
    gone = weakref.ref(b)
    del a, b
    gc.collect()
    assert gone() is None
