"""plugrad.autograd.graph: hooks on saved tensors, on nodes and on several gradients; versions and edges."""

import gc
import threading
import tracemalloc
import weakref

import numpy as np
import pytest

import plugrad
from plugrad.autograd import Function
from plugrad.autograd.graph import (
    GradientEdge,
    disable_saved_tensors_hooks,
    get_gradient_edge,
    increment_version,
    register_multi_grad_hook,
    save_on_cpu,
    saved_tensors_hooks,
)
from plugrad.graph import instruments
from plugrad.graph.node import Node, live_nodes


def leaf(values):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = plugrad.exp(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


# ---- saved tensors -------------------------------------------------------------------------------------------------


def copying(log=None):
    def pack(t):
        if log is not None:
            log.append(t.tolist())
        return t.array.copy()

    return saved_tensors_hooks(pack, plugrad.from_numpy)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x,
        lambda x: x.exp(),
        lambda x: (x[None, :] @ x[:, None]).reshape(1),
        lambda x: plugrad.cat([x, x * 2, x * x]),
        lambda x: plugrad.prod(x).reshape(1),
        lambda x: plugrad.where(x > 2, x * x, x.exp()),
        Square.apply,
        Exp.apply,
    ],
    ids=["mul", "exp", "matmul", "cat", "prod", "where", "Function", "Function of its output"],
)
def test_gradients_of_every_order_are_those_without_hooks(function):
    def both(x):
        (first,) = plugrad.autograd.grad(function(x).sum(), x, create_graph=True)
        (second,) = plugrad.autograd.grad((first * first).sum(), x, allow_unused=True)
        return first.tolist(), None if second is None else second.tolist()

    expected = both(leaf([2.0, 3.0]))
    with copying():
        found = both(leaf([2.0, 3.0]))
    assert found == expected


def test_each_saved_tensor_is_packed_once_and_unpacked_when_it_is_used():
    packed, unpacked = [], []

    def unpack(i):
        unpacked.append(i)
        return packed[i]

    x = leaf([2.0, 3.0])
    with saved_tensors_hooks(lambda t: packed.append(t) or len(packed) - 1, unpack):
        y = (x * x).exp().sum()
    assert len(packed) == 3
    assert unpacked == []
    y.backward(retain_graph=True)
    assert sorted(unpacked) == [0, 1, 2]
    y.backward()
    assert sorted(unpacked) == [0, 0, 1, 1, 2, 2]
    assert x.grad.tolist() == pytest.approx([2 * 2 * 2 * np.exp(4), 2 * 2 * 3 * np.exp(9)])


def test_packed_values_are_out_of_reach_of_in_place_changes():
    x = leaf([2.0, 3.0])
    with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        z = x * x
    with plugrad.no_grad():
        x.add_(100)
    z.sum().backward()
    assert x.grad.tolist() == [4, 6]


@pytest.mark.parametrize("function", [lambda x: x * x, Square.apply], ids=["operator", "Function"])
class TestMistakes:
    def test_a_pack_hook_must_not_change_its_argument(self, function):
        def pack(t):
            t.add_(1)
            return t

        with (
            saved_tensors_hooks(pack, lambda t: t),
            pytest.raises(RuntimeError, match="pack hook.*in-place"),
        ):
            function(leaf([2.0]))

    @pytest.mark.parametrize("returned", ["text", None, np.ones(1)])
    def test_an_unpack_hook_must_return_a_tensor(self, function, returned):
        with saved_tensors_hooks(lambda t: t, lambda t: returned):
            z = function(leaf([2.0]))
        with pytest.raises(
            TypeError, match=f"unpack hook.*(mul|Square).*{type(returned).__name__}"
        ):
            z.sum().backward()

    def test_an_unpack_hook_must_return_the_shape_and_dtype_that_was_packed(self, function):
        with saved_tensors_hooks(lambda t: t.float(), lambda t: t):
            z = function(leaf([2.0]))
        with pytest.raises(RuntimeError, match="float32.*what was packed is.*float64"):
            z.sum().backward()

    def test_an_error_of_a_hook_comes_through(self, function):
        def pack(t):
            raise KeyError("mine")

        with saved_tensors_hooks(pack, lambda t: t), pytest.raises(KeyError, match="mine"):
            function(leaf([2.0]))
        x = leaf([2.0])
        function(x).sum().backward()
        assert x.grad.tolist() == [4]


def test_hooks_must_be_callable():
    with pytest.raises(TypeError, match="unpack_hook must be callable, got int"):
        saved_tensors_hooks(lambda t: t, 3)


def test_of_nested_hooks_the_innermost_is_asked():
    outer, inner = [], []
    x = leaf([2.0])
    with copying(outer):
        y = x * x
        with copying(inner):
            z = y.exp()
        w = z * z
    assert (len(outer), len(inner)) == (4, 1)
    w.sum().backward()
    assert x.grad.item() == pytest.approx(2 * np.exp(4) * np.exp(4) * 4)


def test_hooks_hold_on_their_thread_only():
    log, entered, done = [], threading.Event(), threading.Event()

    def other():
        with copying(log):
            entered.set()
            done.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    entered.wait(10)
    x = leaf([2.0])
    (x * x).sum().backward()
    done.set()
    thread.join()
    assert log == []
    assert x.grad.tolist() == [4]


def test_nothing_is_recorded_and_no_hook_asked_while_packing():
    calls = []

    def pack(t):
        calls.append(plugrad.is_grad_enabled())
        with plugrad.enable_grad():
            _ = leaf([1.0]) * leaf([1.0])  # saves two values
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        _ = leaf([2.0]).exp()
    assert calls == [False]


def test_nothing_is_packed_without_a_graph():
    log = []
    with copying(log):
        with plugrad.no_grad():
            _ = leaf([2.0]) * 3
        _ = plugrad.tensor([2.0]) * plugrad.tensor([3.0])
    assert log == []


def test_an_in_place_operation_does_not_overwrite_what_it_packed():
    """With hooks that keep their argument, the operator's own write must not reach it."""
    w = leaf([3.0])
    x = leaf([2.0]) * 1
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        x.mul_(w)
    x.sum().backward()
    assert w.grad.tolist() == [2]


def test_the_check_of_an_operator_sees_no_hooks(request):
    """An operator that is verified because it is called inside the block."""

    @plugrad.operator("hooktest::twice", elementwise=True)
    def twice(x):
        """Twice."""
        return 2 * x * x

    @twice.backward
    def _(grad, x):
        return grad * 4 * x

    @twice.samples
    def _(make):
        yield make.call(make.normal(3, 4))
        yield make.call(make.normal(2))
        yield make.call(make.normal())

    log = []
    x = leaf([3.0])
    with copying(log), plugrad.autograd.detect_anomaly(check_forward=True):
        plugrad.register(twice)
        y = twice(x)
    assert log == [[3.0]]
    y.sum().backward()
    assert x.grad.tolist() == [12]


def test_a_packed_value_goes_with_its_node():
    class Content:
        pass

    alive = []

    def pack(t):
        content = Content()
        content.tensor = t
        alive.append(weakref.ref(content))
        return content

    x = leaf([2.0])
    with saved_tensors_hooks(pack, lambda c: c.tensor):
        y = (x * x).exp().sum()
    assert all(reference() is not None for reference in alive)
    y.backward()
    assert all(reference() is None for reference in alive)


def test_a_cycle_through_a_hook_is_collected():
    gc.collect()
    before = live_nodes()

    def build():
        found = []
        x = leaf([2.0])
        with saved_tensors_hooks(lambda t: found, lambda c: c[0]):
            found.append(x * x)

    build()
    gc.collect()
    assert live_nodes() == before


def test_when_the_last_hook_is_left_nothing_is_installed():
    with copying(), copying():
        pass
    log = []
    instruments.install("pack", None)  # harmless
    _ = leaf([1.0]) * leaf([1.0])
    assert log == []


def test_hooks_can_be_forbidden():
    with (
        disable_saved_tensors_hooks("not in here"),
        pytest.raises(RuntimeError, match="not in here"),
        copying(),
    ):
        pass
    with (
        copying(),
        pytest.raises(RuntimeError, match="not now"),
        disable_saved_tensors_hooks("not now"),
    ):
        pass
    with disable_saved_tensors_hooks("no"):
        pass
    with copying():
        pass


class TestSaveOnCpu:
    def test_gradients_are_the_same(self):
        x = leaf([2.0, 3.0])
        with save_on_cpu(pin_memory=True):
            y = Square.apply(x) * x.exp()
        y.sum().backward()
        assert x.grad.tolist() == pytest.approx([(4 + 4) * np.exp(2), (6 + 9) * np.exp(3)])

    def test_it_keeps_the_version_check(self):
        x = leaf([2.0, 3.0])
        with save_on_cpu():
            y = x * x
        with plugrad.no_grad():
            x.add_(1)
        with pytest.raises(RuntimeError, match=r"in-place.*shape \[2\].*version 1, expected 0"):
            y.sum().backward()

    def test_nothing_is_copied(self):
        x = leaf(np.ones(1_000_000))
        tracemalloc.start()
        try:
            with save_on_cpu():
                y = x.exp()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert held < 1.1 * y.array.nbytes


# ---- nodes ---------------------------------------------------------------------------------------------------------


def test_node_hooks_see_and_replace_gradients():
    x = leaf([2.0])
    y = x * 3
    seen = []
    y.grad_fn.register_prehook(lambda grads: seen.append(grads) or (grads[0] * 2,))
    y.grad_fn.register_hook(
        lambda inputs, outputs: seen.append((inputs, outputs)) or (inputs[0] + 1, None)
    )
    y.backward()
    assert [g.tolist() for g in seen[0]] == [[1]]
    (inputs, outputs) = seen[1]
    assert inputs[0].tolist() == [6]
    assert outputs[0].tolist() == [2]
    assert x.grad.tolist() == [7]


def test_node_hooks_can_be_removed():
    x = leaf([2.0])
    y = x * 3
    y.grad_fn.register_prehook(lambda grads: pytest.fail("called")).remove()
    with y.grad_fn.register_hook(lambda inputs, outputs: pytest.fail("called")):
        pass
    y.backward()
    assert x.grad.tolist() == [3]


def test_the_node_of_a_leaf_has_hooks_too():
    x = leaf([2.0])
    node = get_gradient_edge(x).node
    seen = []
    node.register_prehook(lambda grads: seen.append(("before", grads[0].tolist(), x.grad)))
    node.register_hook(
        lambda ins, outs: seen.append(("after", ins, outs[0].tolist(), x.grad.tolist()))
    )
    (x * 3 + x).backward()
    assert seen == [("before", [4], None), ("after", (), [4], [4])]


@pytest.mark.parametrize("wrong", [(), (1, 2)])
def test_a_prehook_must_return_one_gradient_per_output(wrong):
    y = leaf([2.0]) * 3
    y.grad_fn.register_prehook(lambda grads: tuple(grads[0] for _ in wrong))
    with pytest.raises(RuntimeError, match=f"returned {len(wrong)} gradients, expected 1"):
        y.backward()


def test_a_prehook_must_keep_the_shape():
    y = leaf([2.0]) * 3
    y.grad_fn.register_prehook(lambda grads: (plugrad.ones(4),))
    with pytest.raises(RuntimeError, match="expected"):
        y.backward()


# ---- several gradients ---------------------------------------------------------------------------------------------


def values(grads):
    return [None if g is None else g.tolist() for g in grads]


class TestMultiGradHook:
    def test_all_runs_once_as_soon_as_the_last_one_is_known(self):
        a, b = leaf([2.0]), leaf([3.0])
        m = a * 2
        seen = []
        a.register_post_accumulate_grad_hook(lambda t: seen.append("a done"))
        register_multi_grad_hook((m, b), lambda grads: seen.append(values(grads)))
        (m * b).backward()
        assert seen[0] == [[3], [4]] or seen == ["a done", [[3], [4]]]
        assert seen.count([[3], [4]]) == 1

    def test_tensors_the_pass_does_not_reach_are_none(self):
        a, b = leaf([2.0]), leaf([3.0])
        seen = []
        register_multi_grad_hook((a, b), lambda grads: seen.append(values(grads)))
        (a * 5).backward()
        assert seen == [[[5], None]]

    def test_a_gradient_that_never_comes_is_none_at_the_end(self):
        class Half(Function):
            @staticmethod
            def forward(ctx, a, b):
                return a + b

            @staticmethod
            def backward(ctx, grad):
                return grad, None

        a, b = leaf([2.0]), leaf([3.0])
        seen = []
        register_multi_grad_hook((a, b), lambda grads: seen.append(values(grads)))
        Half.apply(a, b).backward()
        assert seen == [[[1], None]]

    def test_each_pass_counts_by_itself(self):
        a, b = leaf([2.0]), leaf([3.0])
        seen = []
        register_multi_grad_hook((a, b), lambda grads: seen.append(values(grads)))
        y = a * b
        y.backward(retain_graph=True)
        y.backward()
        assert seen == [[[3], [2]]] * 2

    def test_in_a_nested_pass(self):
        a, b = leaf([2.0]), leaf([3.0])
        seen = []
        register_multi_grad_hook((a, b), lambda grads: seen.append(values(grads)))
        m = a * 1

        def again(grad):
            with plugrad.enable_grad():
                (a * 10 + b * 20).backward()

        m.register_hook(again)
        (m * b).backward()
        assert seen == [[[10], [20]], [[3], [2]]]

    def test_with_grad_of_a_part(self):
        a, b = leaf([2.0]), leaf([3.0])
        seen = []
        register_multi_grad_hook((a, b), lambda grads: seen.append(values(grads)))
        plugrad.autograd.grad(a * b, a)
        assert seen == [[[3], None]]

    def test_any_gets_the_first_of_each_pass(self):
        a, b = leaf([2.0]), leaf([3.0])
        m, n = a * 2, b * 2
        seen = []
        register_multi_grad_hook((m, n), lambda grad: seen.append(grad.tolist()), mode="any")
        y = m * n
        y.backward(retain_graph=True)
        y.backward()
        assert seen == [[4], [4]]

    def test_it_can_be_removed(self):
        a, b = leaf([2.0]), leaf([3.0])
        handle = register_multi_grad_hook((a, b), lambda grads: pytest.fail("called"))
        handle.remove()
        (a * b).backward()

    def test_it_keeps_no_graph_alive(self):
        gc.collect()
        before = live_nodes()
        a = leaf([2.0])
        m = a * 2
        register_multi_grad_hook((m, a), lambda grads: None)
        del a, m
        assert live_nodes() == before

    def test_after_an_exception_the_next_pass_starts_anew(self):
        a, b = leaf([2.0]), leaf([3.0])
        seen = []
        register_multi_grad_hook((a, b), lambda grads: seen.append(values(grads)))
        m = a * 1
        handle = m.register_hook(lambda grad: 1 / 0)
        y = m * b
        with pytest.raises(ZeroDivisionError):
            y.backward(retain_graph=True)
        handle.remove()
        y.backward()
        assert seen == [[[3], [2]]]

    def test_wrong_arguments(self):
        with pytest.raises(ValueError, match="'all' or 'any', got 'some'"):
            register_multi_grad_hook((leaf([1.0]),), print, mode="some")
        with pytest.raises(TypeError, match="callable"):
            register_multi_grad_hook((leaf([1.0]),), 3)
        with pytest.raises(RuntimeError, match="require grad"):
            register_multi_grad_hook((plugrad.ones(1),), print)


# ---- edges and versions --------------------------------------------------------------------------------------------


def test_an_edge_is_a_node_and_an_output():
    x = leaf([1.0, 2.0])
    y = x * 2
    assert get_gradient_edge(y) == GradientEdge(y.grad_fn, 0)
    assert get_gradient_edge(x).node is y.grad_fn.next_functions[0][0]
    assert get_gradient_edge(x).node.variable is x
    assert isinstance(get_gradient_edge(y).node, Node)
    with pytest.raises(RuntimeError, match="require grad"):
        get_gradient_edge(plugrad.ones(2))


def test_a_write_by_other_means_can_be_made_known():
    x = leaf([1.0, 2.0])
    y = x * x
    x.array[0] = 5
    increment_version(x)
    increment_version([x, x])
    assert x._version == 3
    with pytest.raises(RuntimeError, match="in-place"):
        y.sum().backward()
