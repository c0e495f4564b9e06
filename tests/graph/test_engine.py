"""The engine: which gradients arrive, in which order, and what it refuses."""

import gc
import weakref

import numpy as np
import pytest

import plugrad
from plugrad.graph import engine
from plugrad.graph.node import live_nodes


def counted():
    """Live nodes, with what earlier tests left to the collector gone."""
    gc.collect()
    return live_nodes()


def leaf(values, dtype=np.float64):
    return plugrad.tensor(values, dtype=dtype, requires_grad=True)


def test_gradients_of_a_product_are_the_other_factors():
    a, b = leaf([1, 2, 3]), leaf([4, 5, 6])
    (a * b).sum().backward()
    assert a.grad.tolist() == [4, 5, 6]
    assert b.grad.tolist() == [1, 2, 3]


def test_a_tensor_used_twice_gets_the_sum():
    x = leaf([2.0, 3.0])
    (x * x * x + x).sum().backward()
    assert x.grad.tolist() == [13, 28]


def test_a_diamond_runs_each_node_once():
    x = leaf([2.0])
    y = x * 3
    runs = []
    y.register_hook(lambda g: runs.append(g.item()))
    (y * 2 + y * 5).sum().backward()
    assert runs == [7]
    assert x.grad.tolist() == [21]


def test_a_second_backward_adds_into_the_same_buffer():
    a = leaf([1.0, 2.0])
    (a * 2).sum().backward()
    first, buffer = a.grad, a.grad.array
    (a * 2).sum().backward()
    assert a.grad is first
    assert a.grad.array is buffer
    assert a.grad.tolist() == [4, 4]


def test_create_graph_accumulates_out_of_place():
    a = leaf([1.0, 2.0])
    (a * a).sum().backward(create_graph=True)
    old = a.grad
    (a * a).sum().backward(create_graph=True)
    assert a.grad is not old
    assert old.tolist() == [2, 4]
    assert a.grad.tolist() == [4, 8]


def test_leaves_and_seed_never_share_a_buffer():
    a, b, seed = leaf([1.0, 2.0]), leaf([1.0, 2.0]), plugrad.tensor([1.0, 1.0], dtype=np.float64)
    (a + b).backward(seed)
    arrays = [a.grad.array, b.grad.array, seed.array]
    for i in range(3):
        for j in range(i):
            assert not np.shares_memory(arrays[i], arrays[j])


def test_a_broadcast_gradient_does_not_alias_the_leafs():
    x, y = leaf(np.ones((3, 4))), leaf(np.ones((3, 4)))
    (x.sum() + y.sum()).backward()
    assert not np.shares_memory(x.grad.array, y.grad.array)
    assert x.grad.array.flags.owndata
    assert x.grad.array.flags.writeable


def test_grad_follows_the_layout_of_its_tensor():
    x = plugrad.from_numpy(np.asfortranarray(np.arange(6.0).reshape(2, 3))).requires_grad_()
    (x * 2).sum().backward()
    assert x.grad.array.strides == x.array.strides


def test_order_is_by_sequence_number_and_leaves_come_at_once():
    a, b = leaf([2.0]), leaf([2.0])
    p, q = a * 2, b * 3
    seen = []
    p.register_hook(lambda g: seen.append("p"))
    q.register_hook(lambda g: seen.append(("q", a.grad, b.grad)))
    p.register_hook(lambda g: seen.append(b.grad.tolist()))
    (p + q).sum().backward()
    assert seen == [("q", None, None), "p", [3.0]]


class TestGrad:
    def test_returns_gradients_and_leaves_grad_alone(self):
        x = leaf([1.0, 2.0])
        (g,) = plugrad.autograd.grad((x * x).sum(), x)
        assert g.tolist() == [2, 4]
        assert x.grad is None

    def test_of_an_intermediate(self):
        x = leaf([3.0])
        y = x * 2
        (g,) = plugrad.autograd.grad((y * y).sum(), y)
        assert g.tolist() == [12]

    def test_of_an_intermediate_and_what_lies_below_it(self):
        x = leaf([3.0])
        y = x * 2
        gy, gx = plugrad.autograd.grad((y * y).sum(), (y, x))
        assert (gy.tolist(), gx.tolist()) == ([12], [24])

    def test_runs_only_what_leads_to_the_inputs(self):
        x, other = leaf([3.0]), leaf([1.0])
        branch = other * 2
        branch.register_hook(lambda g: pytest.fail("a branch without an asked-for input ran"))
        plugrad.autograd.grad((x * 2 + branch).sum(), x)

    def test_several_outputs_with_seeds(self):
        x = leaf([1.0, 2.0])
        (g,) = plugrad.autograd.grad(
            [x * 2, x * 3], x, [plugrad.ones(2, dtype=np.float64), plugrad.full((2,), 10.0)]
        )
        assert g.tolist() == [32, 32]

    def test_unused_input_is_an_error_unless_allowed(self):
        a, b = leaf([1.0]), leaf([1.0])
        with pytest.raises(RuntimeError, match="not used.*allow_unused"):
            plugrad.autograd.grad((a * 2).sum(), b)
        assert plugrad.autograd.grad((a * 2).sum(), b, allow_unused=True) == (None,)
        (g,) = plugrad.autograd.grad((a * 2).sum(), b, materialize_grads=True)
        assert g.tolist() == [0]

    def test_input_that_needs_no_grad_is_an_error(self):
        a = leaf([1.0])
        with pytest.raises(RuntimeError, match="input 0.*does not require grad"):
            plugrad.autograd.grad((a * 2).sum(), plugrad.tensor([1.0]))

    def test_second_and_third_derivative(self):
        x = leaf([2.0])
        (g,) = plugrad.autograd.grad((x * x * x * x).sum(), x, create_graph=True)
        (h,) = plugrad.autograd.grad(g.sum(), x, create_graph=True)
        (k,) = plugrad.autograd.grad(h.sum(), x)
        assert (g.tolist(), h.tolist(), k.tolist()) == ([32], [48], [48])

    def test_backward_with_inputs_accumulates_only_into_them(self):
        a, b = leaf([2.0]), leaf([3.0])
        (a * b).sum().backward(inputs=[a])
        assert a.grad.tolist() == [3]
        assert b.grad is None


class TestSeeds:
    def test_a_scalar_needs_none(self):
        x = leaf(2.0)
        (x * x).backward()
        assert x.grad.item() == 4

    def test_non_scalar_without_seed(self):
        with pytest.raises(RuntimeError, match=r"one element.*shape \(2,\)"):
            (leaf([1.0, 2.0]) * 2).backward()

    def test_wrong_shape_names_both(self):
        with pytest.raises(RuntimeError, match=r"\(3,\).*\(2,\)"):
            (leaf([1.0, 2.0]) * 2).backward(plugrad.ones(3))

    def test_another_dtype_is_cast(self):
        x = leaf([2.0, 4.0])
        (x * 2).backward(plugrad.tensor([1.0, 1.0], dtype=np.float32))
        assert x.grad.dtype == np.float64

    def test_an_array_will_do(self):
        x = leaf([2.0, 4.0])
        (x * 2).backward(np.array([1.0, 3.0]))
        assert x.grad.tolist() == [2, 6]

    def test_something_without_a_graph(self):
        with pytest.raises(RuntimeError, match="does not require grad"):
            plugrad.tensor(1.0).backward()

    def test_seed_is_left_unchanged(self):
        x, seed = leaf([1.0, 2.0]), np.array([1.0, 1.0])
        y = x * 2
        (y + y).backward(seed)
        assert seed.tolist() == [1, 1]
        assert x.grad.tolist() == [4, 4]


class TestSecondTime:
    def test_freed_values_are_an_error_that_names_retain_graph(self):
        y = leaf([1.0]).exp()
        y.sum().backward()
        with pytest.raises(RuntimeError, match="exp.*second time.*retain_graph"):
            y.sum().backward()

    def test_what_saved_nothing_may_run_again(self):
        x = leaf([1.0])
        y = x + 1
        y.backward()
        y.backward()
        assert x.grad.tolist() == [2]

    def test_retain_graph_keeps_the_values(self):
        x = leaf([2.0])
        y = (x * x).sum()
        y.backward(retain_graph=True)
        y.backward()
        assert x.grad.tolist() == [8]


class TestRobustness:
    def test_an_exception_in_a_hook_leaves_the_graph_usable(self):
        x = leaf([2.0])
        a, b = x * 3, x * 5
        y = (a + b).sum()
        handle = a.register_hook(lambda g: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            y.backward(retain_graph=True)
        handle.remove()
        x.grad = None
        y.backward()
        assert x.grad.tolist() == [8]
        assert not engine.running()

    def test_an_exception_restores_the_grad_mode(self):
        x = leaf([2.0])
        y = x * 3
        y.register_hook(lambda g: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            y.sum().backward()
        assert plugrad.is_grad_enabled()

    def test_a_hook_may_run_backward_through_the_same_graph(self):
        a = leaf([2.0])
        b = a * 2

        def hook(grad):
            with plugrad.enable_grad():
                (a * 10).sum().backward()
            assert a.grad.tolist() == [10]

        b.register_hook(hook)
        (b * 1).sum().backward()
        assert a.grad.tolist() == [12]

    def test_a_retained_graph_nested_in_its_own_hook(self):
        x = leaf([3.0])
        y = x * x
        z = (y * 2).sum()
        depth = []

        def hook(grad):
            if not depth:
                depth.append(1)
                assert plugrad.autograd.grad(z, x, retain_graph=True)[0].tolist() == [12]

        handle = y.register_hook(hook)
        z.backward(retain_graph=True)
        assert x.grad.tolist() == [12]
        handle.remove()  # the hook holds the graph that holds the hook


class TestLongChains:
    def test_a_million_nodes_need_no_recursion(self):
        x = leaf([1.0])
        before = counted()
        y = x
        for _ in range(1_000_000):
            y = y + x
        y.backward()
        assert x.grad.tolist() == [1_000_001]
        del y
        assert counted() == before

    def test_a_long_chain_that_never_runs_is_freed_too(self):
        x = leaf([1.0])
        before = counted()
        y = x
        for _ in range(300_000):
            y = y * x
        del y
        assert counted() == before

    def test_a_long_chain_through_an_operator_with_many_inputs(self):
        x = leaf([1.0])
        before = counted()
        y, mask = x, x > 0
        for _ in range(100_000):
            y = plugrad.where(mask, y, x)
        del y
        assert counted() == before

    def test_double_backward_graph_of_a_long_chain_is_freed(self):
        x = leaf([1.0])
        before = counted()
        y = x
        for _ in range(20_000):
            y = y * x
        (g,) = plugrad.autograd.grad(y, x, create_graph=True)
        del y, g
        assert counted() == before


def test_fan_out_and_fan_in():
    x = leaf([1.0])
    parts = [x * i for i in range(1000)]
    while len(parts) > 1:
        parts = [a + b for a, b in zip(parts[::2], parts[1::2], strict=False)] + (
            [parts[-1]] if len(parts) % 2 else []
        )
    parts[0].backward()
    assert x.grad.tolist() == [sum(range(1000))]


def test_a_dropped_leaf_does_not_keep_the_graph_or_break_it():
    x = leaf([1.0])
    y = (x * 2).sum()
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is None
    y.backward()
