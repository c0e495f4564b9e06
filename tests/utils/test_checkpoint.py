"""Activation checkpointing: the same gradients and random numbers, less memory, and no silent difference."""

import gc
import importlib
import random
import threading
import tracemalloc
import weakref
from contextlib import contextmanager

import numpy as np
import pytest

import plugrad
from plugrad.autograd import Function
from plugrad.autograd.graph import saved_tensors_hooks
from plugrad.backends.checksum import checksum
from plugrad.graph.node import live_nodes
from plugrad.nn.functional import linear
from plugrad.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_early_stop,
)

STOPS = pytest.mark.parametrize("early_stop", [True, False], ids=["early stop", "to the end"])


def leaf(values):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


class Counted:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function = function
        self.calls = 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.function(*args, **kwargs)


class Dropout(Function):
    """Drops half of the elements, by NumPy's global generator."""

    @staticmethod
    def forward(ctx, x):
        mask = plugrad.from_numpy((np.random.random(x.shape) < 0.5) * 2.0)
        ctx.mark_constant(mask)
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


# ---- gradients -----------------------------------------------------------------------------------------------------

FUNCTIONS = {
    "chain": lambda x, w: ((x @ w).tanh() * x).exp().sum(),
    "views": lambda x, w: (x[1:] * x[:-1] + x.t()[:-1] @ w).sum(),
    "in place": lambda x, w: (x * 1).mul_(w).exp_().sum(),
    "list": lambda x, w: plugrad.cat([x, x * w, w]).prod(),
    "shared": lambda x, w: (x * x + w * w * x).sum() * (x * w).sum(),
    "Function": lambda x, w: (Dropout.apply(x * w) * w).sum(),
    "inner grad": lambda x, w: (
        plugrad.autograd.grad((x * x * w).sum(), x, create_graph=True)[0] * x
    ).sum(),
}


@STOPS
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_first_and_second_order(name, early_stop):
    function = FUNCTIONS[name]
    x0, w0 = np.random.default_rng(0).normal(size=(2, 3, 3)) * 0.5

    def run(call):
        np.random.seed(0)
        x, w = leaf(x0), leaf(w0)
        gx, gw = plugrad.autograd.grad(call(x, w), (x, w), create_graph=True)
        ((gx * gx).sum() + (gw * x).sum()).backward()
        return [g.tolist() for g in (gx, gw, x.grad, w.grad)]

    expected = run(function)
    assert run(lambda x, w: checkpoint(function, x, w, early_stop=early_stop)) == expected


def test_third_order():
    z = leaf([1.0, 2.0])
    out = checkpoint(lambda z: z**4, z)
    for _ in range(3):
        (out,) = plugrad.autograd.grad(out.sum(), z, create_graph=True)
    assert out.tolist() == [24, 48]


@STOPS
def test_forward_mode_over_backward(early_stop):
    forward_ad = plugrad.autograd.forward_ad

    def f(x):
        return (x**3).exp().sum()

    found = []
    for function in (f, lambda x: checkpoint(f, x, early_stop=early_stop)):
        x = leaf([0.3, 0.5])
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, plugrad.ones_like(x))
            y = function(dual)
            (grad,) = plugrad.autograd.grad(y, dual)
            parts = forward_ad.unpack_dual(y), forward_ad.unpack_dual(grad)
            found.append([part.tolist() for pair in parts for part in pair])
    assert found[0] == found[1]


def test_keyword_arguments_and_nested_containers():
    a, b, c, d = (leaf([float(i)]) for i in (2, 3, 4, 5))

    def f(a, pair, *, scale, more):
        return a * pair[0] * scale * more["d"]

    checkpoint(f, a, (b, "text"), scale=c, more={"d": d}).backward()
    assert [t.grad.item() for t in (a, b, c, d)] == [60, 40, 30, 24]


def test_tensors_of_a_closure_and_arguments_without_grad():
    w, x = leaf([3.0]), plugrad.tensor([2.0], dtype=np.float64)
    checkpoint(lambda x: (w * x).exp(), x).backward()
    assert w.grad.item() == pytest.approx(2 * np.exp(6))
    assert x.grad is None


def test_several_outputs_of_which_one_is_used():
    x = leaf([2.0])
    _, second = checkpoint(lambda x: (x.exp(), x * x), x)
    second.backward()
    assert x.grad.item() == 4


def test_arguments_that_are_not_leaves():
    x = leaf([2.0])
    y = x * x
    z = checkpoint(lambda y: y * y, y)
    (z * y).backward()
    assert x.grad.item() == 6 * 2**5


@STOPS
def test_the_function_runs_once_more_for_each_backward(early_stop):
    f = Counted(lambda x: (x * x).exp() * x)
    x = leaf([0.5])
    y = checkpoint(f, x, early_stop=early_stop)
    assert f.calls == 1
    y.backward(retain_graph=True)
    assert f.calls == 2
    y.backward()
    assert f.calls == 3
    with pytest.raises(RuntimeError, match="second time.*retain_graph"):
        y.backward()
    assert f.calls == 3


def test_a_function_of_which_nothing_is_saved_runs_once():
    f = Counted(lambda x: x + 1)
    x = leaf([0.5])
    checkpoint(f, x).backward()
    assert f.calls == 1


def test_without_a_graph_nothing_is_kept():
    f = Counted(lambda x: x * x)
    with plugrad.no_grad():
        y = checkpoint(f, leaf([3.0]))
    assert y.tolist() == [9]
    assert not y.requires_grad


def test_early_stop_leaves_out_what_is_not_needed():
    reached = []

    def f(x):
        y = x.exp()
        reached.append("saved")
        y = y + 1
        reached.append("end")
        return y

    for early_stop, expected in ((True, ["saved", "end"]), (False, ["saved", "end"] * 2)):
        reached.clear()
        x = leaf([1.0])
        checkpoint(f, x, early_stop=early_stop).backward()
        assert reached == expected
    reached.clear()
    with set_checkpoint_early_stop(False):
        y = checkpoint(f, leaf([1.0]))
    y.backward()
    assert reached == ["saved", "end"] * 2


def test_the_function_cannot_catch_the_early_stop():
    def f(x):
        try:
            return x.exp()
        except Exception:  # what a careless function does
            return x * 0

    x = leaf([1.0])
    checkpoint(f, x).backward()
    assert x.grad.item() == pytest.approx(np.e)


def test_a_function_that_saves_its_tensors_twice_over():
    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return ctx.saved_tensors[0] * grad + ctx.saved_tensors[0] * grad

    x = leaf([3.0])
    checkpoint(lambda x: Twice.apply(x) * x, x).backward()
    assert x.grad.item() == 27


def test_a_part_of_the_graph():
    f = Counted(lambda a, b: ((a * b).exp(), (a + b).exp()))
    a, b = leaf([0.5]), leaf([0.25])
    y, z = checkpoint(f, a, b)
    (ga,) = plugrad.autograd.grad(y + z, a, retain_graph=True)
    (gb,) = plugrad.autograd.grad(z, b)
    assert ga.item() == pytest.approx(0.25 * np.exp(0.125) + np.exp(0.75))
    assert gb.item() == pytest.approx(np.exp(0.75))


def test_a_retained_graph_may_run_on_several_threads_at_once():
    f = lambda x: (x * x).tanh().exp() * x  # noqa: E731
    x = leaf(np.linspace(0, 1, 1000))
    y = checkpoint(f, x).sum()
    (expected,) = plugrad.autograd.grad(f(x).sum(), x)
    found, start = [], threading.Barrier(4)

    def run():
        start.wait(10)
        found.extend(plugrad.autograd.grad(y, x, retain_graph=True)[0] for _ in range(10))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 40
    assert all(np.array_equal(g.array, expected.array) for g in found)


# ---- nesting -------------------------------------------------------------------------------------------------------


@STOPS
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_checkpoints_within_checkpoints(depth, early_stop):
    def block(x):
        return (x * x).tanh() + x

    def nested(x, level):
        if level == 0:
            return block(x)
        x = checkpoint(nested, x, level - 1, early_stop=early_stop)
        return checkpoint(block, x * 2, early_stop=early_stop) * x.exp()

    def plain(x, level):
        if level == 0:
            return block(x)
        x = plain(x, level - 1)
        return block(x * 2) * x.exp()

    found = []
    for function in (nested, plain):
        x = leaf([0.3, -0.2])
        (first,) = plugrad.autograd.grad(function(x, depth).sum(), x, create_graph=True)
        (first * first).sum().backward()
        found.append((first.tolist(), x.grad.tolist()))
    assert found[0] == found[1]


def test_under_hooks_of_the_user_the_arguments_are_packed():
    log = []
    x = leaf([2.0])
    with saved_tensors_hooks(lambda t: log.append(t.tolist()) or t, lambda t: t):
        y = checkpoint(lambda x: x.exp().exp(), x)
    assert log == [[2.0]]
    y.backward()
    assert x.grad.item() == pytest.approx(np.exp(np.exp(2)) * np.exp(2))


def test_backward_may_be_called_under_hooks():
    x = leaf([2.0])
    y = checkpoint(lambda x: x.exp(), x)
    with saved_tensors_hooks(lambda t: pytest.fail("packed"), lambda t: t):
        y.backward()
    assert x.grad.item() == pytest.approx(np.exp(2))


@STOPS
def test_a_backward_within_the_function(early_stop):
    def f(x):
        (g,) = plugrad.autograd.grad((x**3).sum(), x, create_graph=True)
        return (g * x).exp()

    x = leaf([0.5])
    checkpoint(f, x, early_stop=early_stop).backward()
    assert x.grad.item() == pytest.approx(np.exp(3 * 0.125) * 9 * 0.25)


# ---- memory --------------------------------------------------------------------------------------------------------


def mlp(layers=24, width=64):
    rng = np.random.default_rng(0)
    weights = [leaf(rng.normal(size=(width, width)) / np.sqrt(width)) for _ in range(layers)]
    return weights, [lambda x, w=w: plugrad.tanh(x @ w) * 2 for w in weights]


def held_after(forward):
    """Bytes that exist between forward and backward beyond those before, and the result."""
    gc.collect()
    tracemalloc.start()
    try:
        result = forward()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return held, result


@pytest.mark.parametrize("check", ["default", "none"])
def test_a_deep_network_holds_a_fraction(check):
    weights, layers = mlp(layers=48)
    x = plugrad.tensor(np.random.default_rng(1).normal(size=(128, 64)))

    def plain():
        y = x
        for layer in layers:
            y = layer(y)
        return y.sum()

    def parts():
        return checkpoint_sequential(layers, 7, x, determinism_check=check).sum()

    results = []
    for forward in (plain, parts):
        held, y = held_after(forward)
        y.backward()
        results.append((held, y.item(), [w.grad.tolist() for w in weights]))
        for w in weights:
            w.grad = None
    assert results[0][1:] == results[1][1:]
    assert results[0][0] > 4 * results[1][0]


def test_backward_holds_one_part_at_a_time():
    _, layers = mlp(layers=32)
    x = plugrad.tensor(np.random.default_rng(1).normal(size=(128, 64)))

    def peak(forward):
        gc.collect()
        tracemalloc.start()
        try:
            forward().backward()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def plain():
        y = x
        for layer in layers:
            y = layer(y)
        return y.sum()

    grads = 32 * 64 * 64 * 8  # the gradients of the weights, in both
    whole, less = peak(plain), peak(lambda: checkpoint_sequential(layers, 8, x).sum())
    assert (less - grads) * 2 < whole - grads


def test_activations_are_freed_after_forward_and_again_as_backward_goes():
    forward, again = [], []

    def f(x):
        seen = again if forward_done else forward
        for _ in range(4):
            x = x.exp() * 0.1
            seen.append(weakref.ref(x.array))
        return x

    forward_done = False
    x = leaf(np.ones(10))
    y = checkpoint(f, x)
    forward_done = True
    assert [reference() is not None for reference in forward] == [False, False, False, True]
    y.sum().backward()
    assert len(again) >= 3
    assert all(reference() is None for reference in again)


def test_nothing_is_left_of_the_graph():
    gc.collect()
    before = live_nodes()
    x = leaf(np.ones(10))
    y = checkpoint(lambda x: checkpoint(lambda x: x.exp(), x * x).exp(), x)
    y.sum().backward()
    del x, y
    assert live_nodes() == before


def test_a_long_chain_of_checkpoints_is_freed_without_recursion():
    gc.collect()
    before = live_nodes()
    for run in (True, False):
        x = y = leaf([0.5])
        for _ in range(20_000):
            y = checkpoint(plugrad.sin, y, preserve_rng_state=False)
        if run:
            y.backward()
        del x, y
    assert live_nodes() == before


# ---- random numbers ------------------------------------------------------------------------------------------------


def draw_numpy(x):
    return plugrad.from_numpy(np.random.normal(size=x.shape))


def draw_python(x):
    return plugrad.from_numpy(np.array([random.gauss(0, 1) for _ in range(x.numel())]))


@pytest.mark.parametrize("draw", [draw_numpy, draw_python], ids=["numpy", "random"])
def test_the_same_numbers_are_drawn_again_and_the_state_is_left_alone(draw):
    x = leaf(np.ones(8))
    np.random.seed(1)
    random.seed(1)
    y = checkpoint(lambda x: (x * draw(x)) * draw(x), x)
    _ = np.random.random(5), random.random()
    states = np.random.get_state(legacy=False), random.getstate()
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()
    assert random.getstate() == states[1]
    assert np.array_equal(
        np.random.get_state(legacy=False)["state"]["key"], states[0]["state"]["key"]
    )
    assert np.random.get_state(legacy=False)["state"]["pos"] == states[0]["state"]["pos"]


def test_a_dropped_element_is_dropped_again():
    x = leaf(np.ones(64))
    y = checkpoint(lambda x: Dropout.apply(2 * x) * 3, x)
    assert set(y.tolist()) == {0.0, 12.0}
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == y.tolist()
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()


@pytest.mark.parametrize("by_keyword", [False, True])
@pytest.mark.parametrize(
    "generator",
    [lambda: np.random.default_rng(3), lambda: np.random.RandomState(3)],
    ids=["Generator", "RandomState"],
)
def test_a_generator_among_the_arguments(generator, by_keyword):
    def f(x, rng):
        return x * plugrad.from_numpy(rng.normal(size=8)) * plugrad.from_numpy(rng.normal(size=8))

    x, rng = leaf(np.ones(8)), generator()
    y = checkpoint(f, x, rng=rng) if by_keyword else checkpoint(f, x, rng)
    expected = generator()
    expected.normal(size=16)
    assert rng.normal() == expected.normal()
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()
    assert rng.normal() == expected.normal()


def test_without_preserved_states_other_numbers_are_an_error():
    x = leaf(np.ones(8))
    y = checkpoint(lambda x: Dropout.apply(x), x, preserve_rng_state=False)
    with pytest.raises(CheckpointError, match="other values"):
        y.sum().backward()


def test_random_numbers_in_nested_checkpoints():
    def inner(x):
        return Dropout.apply(x) + 1

    def outer(x):
        x = checkpoint(inner, Dropout.apply(x))
        return Dropout.apply(checkpoint(inner, x) * x)

    found = []
    for function in (outer, lambda x: checkpoint(outer, x)):
        np.random.seed(5)
        x = leaf(np.ones(16))
        y = function(x)
        y.sum().backward()
        found.append((y.tolist(), x.grad.tolist(), np.random.random()))
    assert found[0] == found[1]


# ---- a second run that differs -------------------------------------------------------------------------------------


def test_other_values_are_found():
    calls = []

    def growing(z):
        calls.append(None)
        return (z * len(calls)).exp()

    z = leaf(1.0)
    y = checkpoint(growing, z)
    with pytest.raises(
        CheckpointError, match=r"growing.*saved tensor 0 of 1 \(float64\[\]\) has other"
    ):
        y.backward()
    assert z.grad is None


def test_an_unchecked_run_hands_out_what_it_computed():
    calls = []

    def growing(z):
        calls.append(None)
        return (z * len(calls)).exp()

    z = leaf(1.0)
    checkpoint(growing, z, determinism_check="none").backward()
    assert z.grad.item() == pytest.approx(np.exp(2))


def test_another_shape_is_found():
    sizes = iter([3, 2])

    def shrinking(x):
        x = x[: next(sizes)]
        return (x * x).sum()

    y = checkpoint(shrinking, leaf(np.ones(4)))
    with pytest.raises(CheckpointError, match=r"is float64\[2\] on cpu, was float64\[3\] on cpu"):
        y.backward()


def test_another_shape_is_never_used_even_unchecked():
    sizes = iter([3, 2])

    def shrinking(x):
        x = x[: next(sizes)]
        return (x * x).sum()

    y = checkpoint(shrinking, leaf(np.ones(4)), determinism_check="none")
    with pytest.raises(RuntimeError, match=r"shape=\(2,\)"):
        y.backward()


@pytest.mark.parametrize("check", ["default", "none"])
def test_fewer_saved_tensors_are_found(check):
    times = iter([3, 2])

    def lazy(x):
        for _ in range(next(times)):
            x = x.exp()
        return x

    y = checkpoint(lazy, leaf([0.1]), determinism_check=check)
    with pytest.raises(CheckpointError, match="lazy saved 3 tensors.*but 2"):
        y.backward()


def test_more_saved_tensors_are_found_when_it_runs_to_the_end():
    times = iter([1, 2])

    def eager(x):
        for _ in range(next(times)):
            x = x.exp()
        return x

    y = checkpoint(eager, leaf([0.1]), early_stop=False)
    with pytest.raises(CheckpointError, match="eager saved 1 tensors.*but 2"):
        y.backward()


def test_a_parameter_that_changed_in_between_is_found():
    w, x = leaf([3.0, 4.0]), leaf([1.0, 1.0])
    y = checkpoint(lambda x: (x * w).exp().sum(), x)
    with plugrad.no_grad():
        w.mul_(2)
    with pytest.raises(CheckpointError, match="was changed in-place since"):
        y.backward()


def test_a_parameter_that_was_replaced_in_between_is_compared():
    """By one of the same values, by one of others, and by one of others while the first has them, too."""
    x = leaf([1.0, 1.0])
    for change, replacement in ((1, 1), (1, 2), (2, 2)):
        holder = [leaf([3.0, 4.0])]
        y = checkpoint(lambda x, holder=holder: (x * holder[0]).exp().sum(), x)
        first, holder[0] = holder[0], leaf([3.0 * replacement, 4.0 * replacement])
        with plugrad.no_grad():
            if change != 1:
                first.mul_(change)
        if change == replacement == 1:
            y.backward()
        else:
            found = "other values" if change == 1 else "in-place"
            with pytest.raises(CheckpointError, match=found):
                y.backward()


def test_what_is_there_before_and_after_is_not_read(monkeypatch):
    """Arguments and leaves; what two operators in a row save is read once in each run."""
    read = []
    module = importlib.import_module("plugrad.utils.marks")
    monkeypatch.setattr(
        module, "checksum", lambda array: read.append(array.shape) or checksum(array)
    )
    x, w, v = leaf(np.ones((2, 3))), leaf(np.ones((4, 3))), leaf(np.ones((2, 4)))
    checkpoint(lambda x: (plugrad.tanh(linear(x, w)) * v).sum(), x * 2).backward()
    assert read == [(2, 4)] * 2  # the result of tanh, in each run


def test_what_the_function_writes_into_memory_of_its_own_is_compared():
    """Memory that is there before and after, but is no argument and no leaf."""
    memory = np.zeros(3)

    def noisy(x):
        memory[:] = generator.standard_normal(3)
        return (x * plugrad.from_numpy(memory)).sum()

    def counting(x):
        state.data.add_(1)
        return (x * state).sum()

    generator, state = np.random.default_rng(0), plugrad.zeros(3, dtype=plugrad.float64)
    for function in (noisy, counting):
        y = checkpoint(function, leaf(np.ones(3)))
        with pytest.raises(CheckpointError, match="other values"):
            y.backward()


def test_leaves_that_the_function_makes_are_not_kept():
    made = []

    def f(x):
        for _ in range(3):
            own = x.detach().clone().requires_grad_()
            made.append(weakref.ref(own.array))
            x = x * own
            del own
        return x.sum()

    x = leaf(np.linspace(0.5, 1, 4))
    y = checkpoint(f, x)
    gc.collect()
    assert [ref() for ref in made] == [None] * 3
    y.backward()
    assert x.grad is not None


def test_an_argument_that_changed_in_between_is_found():
    x = leaf([1.0, 1.0])
    y = checkpoint(lambda x: x.exp().sum(), x, determinism_check="none")
    with plugrad.no_grad():
        x.mul_(2)
    with pytest.raises(
        RuntimeError, match=r"argument of .*<lambda>.*in-place.*version 1, expected 0"
    ):
        y.backward()


def test_an_intermediate_that_the_function_itself_overwrites_is_found():
    def f(x):
        y = x * 2
        z = (y * y).exp()  # saves y
        y.add_(1)
        return z * y

    y = checkpoint(f, leaf([0.1]))
    with pytest.raises(RuntimeError, match="in-place"):
        y.backward()


def test_an_error_in_the_second_run_comes_through_and_leaves_all_in_order():
    failing = [False]

    def f(x):
        if failing[0]:
            raise KeyError("second run")
        return Dropout.apply(x).exp()

    x = leaf(np.ones(4))
    y = checkpoint(f, x)
    state = np.random.get_state()[1].tolist()
    failing[0] = True
    with pytest.raises(KeyError, match="second run"):
        y.sum().backward()
    assert np.random.get_state()[1].tolist() == state
    failing[0] = False
    y.sum().backward()
    assert x.grad is not None
    z = leaf([2.0])
    (z * z).backward()  # no hook is left behind
    assert z.grad.item() == 4


# ---- the rest of the interface -------------------------------------------------------------------------------------


def test_contexts_for_the_first_and_for_later_runs():
    log = []

    @contextmanager
    def context(name):
        log.append(name)
        yield
        log.append(f"end of {name}")

    class Again:
        def __enter__(self):
            log.append("again")

        def __exit__(self, *exc_info):
            log.append("end of again")

    y = checkpoint(lambda x: x.exp(), leaf([1.0]), context_fn=lambda: (context("first"), Again()))
    assert log == ["first", "end of first"]
    y.backward(retain_graph=True)
    y.backward()
    assert log[2:] == ["again", "end of again"] * 2


def test_wrong_arguments():
    with pytest.raises(ValueError, match="use_reentrant=True is not offered"):
        checkpoint(lambda x: x, leaf([1.0]), use_reentrant=True)
    with pytest.raises(ValueError, match="'default' or 'none', got 'some'"):
        checkpoint(lambda x: x, leaf([1.0]), determinism_check="some")
    x = leaf([1.0])
    checkpoint(lambda x: x * x, x, use_reentrant=False).backward()
    assert x.grad.item() == 2


class TestSequential:
    @pytest.mark.parametrize("segments", [1, 2, 3, 5])
    def test_each_number_of_segments_gives_the_same(self, segments):
        layers = [Counted(lambda x: x.sin() * 2) for _ in range(5)]
        x = leaf([0.3])
        checkpoint_sequential(layers, segments, x).backward()
        y = leaf([0.3])
        z = y
        for layer in layers:
            z = layer.function(z)
        z.backward()
        assert x.grad.item() == y.grad.item()
        last = 5 - 5 * (segments - 1) // segments
        assert [layer.calls for layer in layers] == [2] * (5 - last) + [1] * last

    def test_a_module_is_taken_by_its_children(self):
        class Pair:
            def children(self):
                return iter([plugrad.sin, plugrad.exp])

        x = leaf([0.3])
        assert checkpoint_sequential(Pair(), 2, x).item() == pytest.approx(np.exp(np.sin(0.3)))

    @pytest.mark.parametrize("segments", [0, 3])
    def test_a_wrong_number_of_segments(self, segments):
        with pytest.raises(ValueError, match=f"from 1 to 2 .functions., got {segments}"):
            checkpoint_sequential([plugrad.sin, plugrad.exp], segments, leaf([1.0]))


def test_in_anomaly_mode():
    x = leaf([0.0])
    with plugrad.autograd.detect_anomaly():
        y = checkpoint(lambda x: x.sqrt() * 0, x)
        with pytest.raises(RuntimeError, match="(?s)sqrt returned NaN.*test_checkpoint"):
            y.backward()
        x = leaf([0.5])
        checkpoint(lambda x: x.sqrt(), x).backward()
    assert x.grad.item() == pytest.approx(0.5 / np.sqrt(0.5))
