"""The engine, hooks and accumulation: known graphs with their right results."""

import gc
import threading

import numpy as np
import pytest

import plugrad
from plugrad.graph.node import live_nodes


def leaf(values):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


def constant(values):
    return plugrad.tensor(values, dtype=np.float64)


def test_e1_every_hook_at_a_node_in_order():
    a = leaf([2.0])
    b = a * 3
    seen = []

    def tenfold(grad):
        seen.append(("t1", grad.item()))
        return grad * 10

    def one_more(grad):
        seen.append(("t2", grad.item()))
        return grad + 1

    b.register_hook(tenfold)
    b.retain_grad()
    b.register_hook(one_more)
    b.grad_fn.register_prehook(lambda grads: seen.append(("pre", grads[0].item())))
    b.grad_fn.register_hook(
        lambda inputs, outputs: seen.append(("post", inputs[0].item(), outputs[0].item()))
    )
    a.register_hook(lambda grad: seen.append(("leaf", grad.item())))
    a.register_post_accumulate_grad_hook(lambda t: seen.append(("post-acc", t.grad.item())))
    (b * 5).backward()
    assert seen == [
        ("t1", 5),
        ("t2", 50),
        ("pre", 51),
        ("post", 153, 51),
        ("leaf", 153),
        ("post-acc", 153),
    ]
    assert b.grad.tolist() == [51]
    assert a.grad.tolist() == [153]


def test_e4_a_hook_runs_a_backward_of_its_own():
    a = leaf([2.0])
    b = a * 2
    inside = []

    def hook(grad):
        with plugrad.enable_grad():
            (a * 10).backward()
        inside.append(a.grad.item())

    b.register_hook(hook)
    (b * 1).backward()
    assert inside == [10]
    assert a.grad.tolist() == [12]


def test_e4_hooks_do_not_record_by_themselves():
    a = leaf([2.0])
    b = a * 2
    b.register_hook(lambda grad: (a * 10).backward())
    with pytest.raises(RuntimeError, match="does not require grad"):
        (b * 1).backward()


def test_e5_the_node_recorded_last_runs_first():
    a = leaf([1.0])
    order = []
    named = {"p": a * 2, "q": a * 3, "r": a * 5}
    for name, tensor in named.items():
        tensor.grad_fn.register_prehook(lambda grads, name=name: order.append(name))
    (named["p"] + named["q"] + named["r"]).backward()
    assert order == ["r", "q", "p"]


def test_e5_a_leaf_accumulates_as_soon_as_its_gradient_is_there():
    a, b = leaf([1.0]), leaf([1.0])
    order = []
    p, q = a * 2, b * 3
    p.grad_fn.register_prehook(
        lambda grads: order.append(("p", a.grad is not None, b.grad is not None))
    )
    q.grad_fn.register_prehook(
        lambda grads: order.append(("q", a.grad is not None, b.grad is not None))
    )
    (p + q).backward()
    assert order == [("q", False, False), ("p", False, True)]
    assert (a.grad.tolist(), b.grad.tolist()) == ([2], [3])


def test_e5_so_do_leaves_with_hooks():
    a, b = leaf([1.0]), leaf([1.0])
    order = []
    p, q = a * 2, b * 3
    for name, tensor in (("p", p), ("q", q)):
        tensor.grad_fn.register_prehook(lambda grads, name=name: order.append(name))
    for name, tensor in (("acc a", a), ("acc b", b)):
        tensor.register_post_accumulate_grad_hook(lambda t, name=name: order.append(name))
    (p + q).backward()
    assert order == ["q", "acc b", "p", "acc a"]


def test_e6_two_leaves_and_the_seed_never_share_a_buffer():
    a, b, seed = leaf([1.0, 2.0]), leaf([3.0, 4.0]), constant([1.0, 1.0])
    (a + b).backward(seed)
    assert not np.shares_memory(a.grad.array, b.grad.array)
    assert not np.shares_memory(a.grad.array, seed.array)
    assert not np.shares_memory(b.grad.array, seed.array)


def test_e7_a_second_backward_adds_into_the_same_buffer():
    a = leaf([1.0, 2.0])
    (a * 2).sum().backward()
    first, buffer = a.grad, a.grad.array
    (a * 2).sum().backward()
    assert a.grad is first
    assert a.grad.array is buffer
    assert a.grad.tolist() == [4, 4]


def test_e7_with_create_graph_it_makes_a_new_one():
    a = leaf([1.0, 2.0])
    (a * a).sum().backward(create_graph=True)
    old = a.grad
    (a * a).sum().backward(create_graph=True)
    assert a.grad is not old
    assert old.tolist() == [2, 4]
    assert a.grad.tolist() == [4, 8]
    a.grad = None  # a gradient with a graph refers to its leaf


def test_e9_a_second_backward_over_freed_values_says_so():
    x = leaf(0.5)
    y = x.exp()
    y.backward()
    with pytest.raises(RuntimeError, match="second time.*freed.*retain_graph"):
        y.backward()


def test_e9_where_nothing_was_saved_it_works():
    x = leaf(0.5)
    y = x + 1
    y.backward()
    y.backward()
    assert x.grad.item() == 2


def test_e10_an_input_that_is_not_used():
    a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0, 5.0])
    with pytest.raises(RuntimeError, match="not used in the graph.*allow_unused"):
        plugrad.autograd.grad(a.sum(), b)
    assert plugrad.autograd.grad(a.sum(), b, allow_unused=True) == (None,)
    (zeros,) = plugrad.autograd.grad(a.sum(), b, materialize_grads=True)
    assert zeros.tolist() == [0, 0, 0]


class TwoOutputs(plugrad.autograd.Function):
    """Two multiples of one input; keeps what backward got for the second."""

    seen = None

    @staticmethod
    def forward(ctx, x, materialize):
        ctx.set_materialize_grads(materialize)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, g0, g1):
        TwoOutputs.seen = g1 if g1 is None else g1.tolist()
        return g0 * 2, None


@pytest.mark.parametrize(("materialize", "expected"), [(True, [0.0]), (False, None)])
def test_e11_the_gradient_of_an_output_that_was_not_used(materialize, expected):
    x = leaf([1.0])
    first, _ = TwoOutputs.apply(x, materialize)
    first.backward()
    assert TwoOutputs.seen == expected
    assert x.grad.tolist() == [2]


def test_e13_anomaly_mode_names_the_operator_that_made_a_nan():
    x = leaf([0.0])
    with (
        plugrad.autograd.detect_anomaly(),
        pytest.raises(RuntimeError, match=r"(?i)sqrt.*nan"),
    ):
        (x.sqrt() * 0).backward()


def test_e13_an_infinite_gradient_is_allowed():
    x = leaf([0.0])
    with plugrad.autograd.detect_anomaly():
        x.sqrt().backward()
    assert x.grad.tolist() == [np.inf]


def test_e14_a_long_chain_needs_no_recursion():
    gc.collect()
    before = live_nodes()
    x = leaf(1.0)
    y = x
    for _ in range(200_000):
        y = y + 1
    y.backward()
    assert x.grad.item() == 1
    del y
    assert live_nodes() <= before + 1


def test_e14_nor_does_one_that_never_ran():
    gc.collect()
    before = live_nodes()
    x = leaf(1.0)
    y = x
    for _ in range(200_000):
        y = y + 1
    del y
    assert live_nodes() <= before + 1


def test_e16_several_threads_accumulate_into_one_leaf_and_lose_nothing():
    x = leaf(np.ones(8))
    errors = []

    def work():
        try:
            for _ in range(200):
                (x * 2).sum().backward()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert x.grad.tolist() == [1600] * 8
