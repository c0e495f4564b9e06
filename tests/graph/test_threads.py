"""Several threads: grad modes, shared leaves, shared graphs. Loops are bounded; nothing here sleeps.

Sizes from 20 000 elements up make kernels and accumulation release the GIL, so that threads really overlap.
"""

import gc
import itertools
import sys
import threading

import numpy as np
import pytest

import plugrad
from plugrad.autograd import Function, grad

SIZES = [4, 20_000]


@pytest.fixture(autouse=True)
def switch_often():
    """Let the interpreter change threads a thousand times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def leaf(values):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


def together(count, work):
    """Run ``work(i)`` on `count` threads that start at once; their results, or the exception of each."""
    barrier = threading.Barrier(count)
    results = [None] * count

    def run(i):
        barrier.wait()
        try:
            results[i] = work(i)
        except BaseException as error:
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    return results


def succeed(count, work):
    results = together(count, work)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


# ---- grad mode -----------------------------------------------------------------------------------


def test_grad_mode_is_each_threads_own():
    x = leaf([1.0])

    def work(i):
        modes = []
        for _ in range(200):
            with plugrad.no_grad() if i % 2 else plugrad.enable_grad():
                modes.append((x * 2).requires_grad)
        return set(modes)

    assert succeed(4, work) == [{True}, {False}, {True}, {False}]


def test_a_new_thread_records_whatever_its_parent_does():
    x, seen = leaf([1.0]), []
    with plugrad.no_grad():
        thread = threading.Thread(target=lambda: seen.append((x * 2).requires_grad))
        thread.start()
        thread.join()
    assert seen == [True]


# ---- graphs of their own, leaves shared ----------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_backward_passes_into_one_leaf_lose_nothing(size):
    x = leaf(np.ones(size))

    def work(i):
        for _ in range(200):
            (x * 2).sum().backward()

    succeed(4, work)
    assert x.grad.array.min() == x.grad.array.max() == 1600


@pytest.mark.parametrize("size", SIZES)
def test_the_first_gradient_of_a_leaf_may_come_from_several_threads(size):
    for _ in range(50):
        x = leaf(np.ones(size))
        succeed(3, lambda i, x=x: (x * (i + 1)).sum().backward())
        assert x.grad.array.min() == x.grad.array.max() == 6


@pytest.mark.parametrize("size", SIZES)
def test_recorded_and_plain_backward_passes_into_one_leaf(size):
    x = leaf(np.ones(size))

    def work(i):
        for _ in range(50):
            (x * 2).sum().backward(create_graph=i % 2 == 0)

    succeed(4, work)
    assert x.grad.array.min() == x.grad.array.max() == 400
    x.grad = None


def test_many_leaves_that_share_locks():
    leaves = [leaf(np.full(20_000, float(k))) for k in range(8)]

    def work(i):
        for _ in range(10):
            sum((p * p for p in leaves[1:]), leaves[0] * 0).sum().backward()

    succeed(4, work)
    assert [p.grad.array.max() for p in leaves] == [80 * k for k in range(8)]


def test_graphs_built_and_run_on_several_threads_give_what_one_gives():
    def loss(w, x):
        h = x
        for _ in range(10):
            h = (h @ w).tanh()
        return (h * h).mean()

    def work(i):
        rng = np.random.default_rng(i)
        w, x = leaf(rng.normal(size=(20, 20))), plugrad.tensor(rng.normal(size=(30, 20)))
        found = []
        for _ in range(5):
            found.append(grad(loss(w, x), w)[0].numpy())
        return found

    for i, results in enumerate(succeed(4, work)):
        expected = work(i)[0]
        for result in results:
            np.testing.assert_array_equal(result, expected)


def test_built_on_one_thread_and_run_on_another():
    x = leaf([1.0, 2.0])
    losses = succeed(2, lambda i: (x * x * (i + 1)).sum())
    succeed(2, lambda i: losses[1 - i].backward())
    assert x.grad.tolist() == [6, 12]


def test_hooks_of_a_shared_leaf_see_whole_gradients():
    x, seen = leaf(np.ones(20_000)), []
    x.register_hook(lambda g: seen.append((g.array.min(), g.array.max())))
    succeed(4, lambda i: [(x * 2 + x * 3).sum().backward() for _ in range(20)])
    assert seen == [(5, 5)] * 80
    assert x.grad.array.min() == x.grad.array.max() == 400


# ---- one graph -----------------------------------------------------------------------------------


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad


def shared_graph(size):
    """A graph with a diamond, an operator with several outputs and a Function; its leaf and its gradient."""
    x = leaf(np.full(size, 0.5))
    y = x * 2
    first, second = (y * y).split([size // 2, size - size // 2])
    z = plugrad.cat([Cube.apply(first), second.exp()])
    loss = (z * y).sum()
    return x, y, loss, grad(loss, x, retain_graph=True)[0].numpy()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_retained_graph_run_at_once(size, create_graph):
    x, _, loss, expected = shared_graph(size)

    def work(i):
        found = []
        for _ in range(20):
            (g,) = grad(loss, x, retain_graph=True, create_graph=create_graph)
            found.append(g.detach().numpy())
        return found

    for results in succeed(3, work):
        for result in results:
            np.testing.assert_array_equal(result, expected)


def test_a_retained_graph_accumulates_whole_gradients():
    x, _, loss, expected = shared_graph(20_000)
    succeed(3, lambda i: [loss.backward(retain_graph=True) for _ in range(10)])
    np.testing.assert_allclose(x.grad.numpy(), 30 * expected)


def test_a_retained_graph_run_inside_a_hook():
    x, y, loss, expected = shared_graph(4)
    nested = []

    def hook(g):
        if not nested:
            nested.append(None)
            nested[0] = grad(loss, x, retain_graph=True)[0].numpy()

    handle = y.register_hook(hook)
    (outer,) = grad(loss, x, retain_graph=True)
    handle.remove()  # the hook holds the graph that holds the hook
    np.testing.assert_array_equal(nested[0], expected)
    np.testing.assert_array_equal(outer.numpy(), expected)


def test_nested_and_at_once():
    x, y, loss, expected = shared_graph(4)
    inside = threading.local()
    found = []

    def hook(g):
        if not getattr(inside, "on", False):
            inside.on = True
            found.append(grad(loss, x, retain_graph=True)[0].numpy())
            inside.on = False

    handle = y.register_hook(hook)
    outer = succeed(3, lambda i: [grad(loss, x, retain_graph=True)[0].numpy() for _ in range(20)])
    handle.remove()
    assert len(found) == 60
    for result in [*found, *itertools.chain(*outer)]:
        np.testing.assert_array_equal(result, expected)


def test_second_derivatives_at_once():
    x = leaf([2.0, 3.0])
    y = (x * x * x).sum()

    def work(i):
        for _ in range(30):
            (g,) = grad(y, x, create_graph=True)
            (h,) = grad(g.sum(), x, retain_graph=True)  # the graph of y is part of it
            assert h.tolist() == [12, 18]

    succeed(3, work)


def test_a_freed_graph_is_one_clear_error_on_every_thread():
    _, _, loss, _ = shared_graph(4)
    loss.backward()
    for error in together(3, lambda i: loss.backward()):
        assert isinstance(error, RuntimeError)
        assert "second time" in str(error)
        assert "retain_graph=True" in str(error)


@pytest.mark.parametrize("size", SIZES)
def test_a_graph_freed_while_another_thread_runs_it(size):
    """Whoever comes late gets the one error; who succeeds has the right gradient."""
    for _ in range(30):
        x, _, loss, expected = shared_graph(size)
        for result in together(3, lambda i, x=x, loss=loss: grad(loss, x)[0].numpy()):
            if isinstance(result, BaseException):
                assert isinstance(result, RuntimeError), repr(result)
                assert "retain_graph=True" in str(result)
            else:
                np.testing.assert_array_equal(result, expected)


def test_views_of_one_base_looked_at_by_several_threads():
    for _ in range(20):
        x = leaf(np.ones(4))
        base = x * 1
        views = [base[i : i + 1] for i in range(4)]
        base.mul_(3)
        sums = succeed(4, lambda i, views=views: [v.sum() for v in views])
        for row in sums:
            grads = grad(sum(row[1:], row[0]), x, retain_graph=True)
            assert grads[0].tolist() == [3, 3, 3, 3]


def test_nothing_is_left_over():
    def work(i):
        for _ in range(50):
            x = leaf(np.ones(10))
            (x.exp() * x).sum().backward()

    gc.collect()
    before = plugrad.graph_stats()
    succeed(4, work)
    assert plugrad.graph_stats().nodes == before.nodes
