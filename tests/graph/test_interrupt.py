"""Exceptions and Ctrl-C in the middle: later calls work, and nothing is left behind."""

import _thread
import gc
import signal
import threading
from collections import defaultdict

import numpy as np
import pytest

import plugrad
from plugrad.autograd import Function, grad
from plugrad.graph.engine import running
from plugrad.graph.op import READY


def leaf(values):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


def counted():
    gc.collect()
    return plugrad.graph_stats()


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.fixture
def ctrl_c_between_nodes():
    """A hook that notes a Ctrl-C without running Python code, which would be where it is raised: the engine has to.

    Nor may a garbage collection start: its callbacks and finalizers are Python code, and what is raised there is lost.
    """
    seen = defaultdict(_thread.interrupt_main)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a background job
    gc.disable()
    yield seen.__getitem__
    gc.enable()
    signal.signal(signal.SIGINT, before)
    seen.clear()


@pytest.fixture(autouse=True)
def balanced():
    """Live nodes, tensors, grad mode and the engine's depth are what they were before the test."""
    before = counted()
    yield
    assert counted()[:2] == before[:2]
    assert plugrad.is_grad_enabled()
    assert not running()


def chain(x, length):
    y = x
    for _ in range(length):
        y = y * 1.5 + x * 0
    return y


# ---- a graph that was interrupted is whole -------------------------------------------------------


def test_between_the_nodes_of_a_long_chain(ctrl_c_between_nodes):
    x = leaf([1.0])
    early = x * 1
    middle = chain(early, 500)
    late = chain(middle * 1, 500)
    expected = grad(late.sum(), x, retain_graph=True)[0].tolist()
    reached = []
    early.register_hook(lambda g: reached.append(1))
    handle = middle.register_hook(ctrl_c_between_nodes)
    tensors = counted().tensors
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            late.sum().backward(retain_graph=True)
        ctrl_c_between_nodes.__self__.clear()
        assert counted().tensors == tensors  # no gradient waits at a node
    assert not reached
    handle.remove()
    assert grad(late.sum(), x, retain_graph=True)[0].tolist() == expected
    x.grad = None
    late.sum().backward()
    assert x.grad.tolist() == expected


def test_the_engine_looks_for_signals_on_its_own(ctrl_c_between_nodes):
    x = leaf([1.0])
    y = chain(x, 2000)
    (z := y * 1).register_hook(ctrl_c_between_nodes)
    with pytest.raises(KeyboardInterrupt):
        z.sum().backward()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit])
@pytest.mark.parametrize("create_graph", [False, True])
def test_in_a_hook(error, create_graph):
    x = leaf([2.0, 3.0])
    y = x * x
    z = y.exp() + y
    fail = [True]

    def hook(g):
        if fail:
            raise error

    y.register_hook(hook)
    for _ in range(3):
        with pytest.raises(error):
            grad(z.sum(), x, retain_graph=True, create_graph=create_graph)
    fail.clear()
    (g,) = grad(z.sum(), x)
    values = np.array([2.0, 3.0])
    np.testing.assert_allclose(g.numpy(), 2 * values * (np.exp(values**2) + 1))


def test_by_raise_signal_in_a_hook():
    x = leaf([2.0])
    y = x * x
    handle = y.register_hook(lambda g: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        y.backward(retain_graph=True)
    handle.remove()
    y.backward()
    assert x.grad.tolist() == [4]


def test_in_every_kind_of_hook():
    x = leaf([2.0])
    y = x * 3
    loss = (y * y).sum()
    register = [
        y.register_hook,
        y.grad_fn.register_prehook,
        y.grad_fn.register_hook,
        x.register_hook,
    ]
    for each in register:
        handle = each(interrupt)
        with pytest.raises(KeyboardInterrupt):
            loss.backward(retain_graph=True)
        handle.remove()
        assert x.grad is None
    handle = x.register_post_accumulate_grad_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        loss.backward(retain_graph=True)
    handle.remove()
    x.grad = None
    loss.backward()
    assert x.grad.tolist() == [36]


def test_in_a_backward_nested_in_a_hook():
    x = leaf([2.0])
    y = x * 3
    y.register_hook(interrupt)
    nested = (y * y).sum()
    z = x * x
    z.register_hook(lambda g: nested.backward(retain_graph=True))
    with pytest.raises(KeyboardInterrupt):
        (z + y).sum().backward()
    assert not running()
    fresh = (x * 5).sum()
    fresh.backward()
    assert x.grad.tolist() == [5]


# ---- operators and Functions ---------------------------------------------------------------------


def breakable():
    """An operator that doubles, and what makes its kernel or its rule raise."""
    trouble = {}

    @plugrad.operator("interrupt::double", elementwise=True)
    def double(x):
        if "forward" in trouble:
            raise trouble["forward"]
        return 2 * x

    @double.backward
    def _(grad):
        if "backward" in trouble:
            raise trouble["backward"]
        return double(grad)

    double.state = READY  # what the battery would have said
    return double, trouble


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize("create_graph", [False, True])
def test_in_an_operator(where, create_graph):
    double, trouble = breakable()
    x = leaf([1.0, 2.0])
    y = double(x * x)
    trouble[where] = KeyboardInterrupt()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            grad(y.sum(), x, retain_graph=True, create_graph=create_graph)
    if where == "forward":
        with pytest.raises(KeyboardInterrupt):
            double(x * 3)
    trouble.clear()
    y.sum().backward()
    assert x.grad.tolist() == [4, 8]


def test_in_a_function():
    class Breaks(Function):
        @staticmethod
        def forward(ctx, x, where):
            ctx.where = where
            if where == "forward":
                raise KeyboardInterrupt
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            with plugrad.no_grad():
                raise KeyboardInterrupt

    x = leaf([1.0])
    with pytest.raises(KeyboardInterrupt):
        Breaks.apply(x, "forward")
    assert plugrad.is_grad_enabled()
    with pytest.raises(KeyboardInterrupt):
        Breaks.apply(x, "backward").sum().backward(create_graph=True)
    assert plugrad.is_grad_enabled()


def test_a_write_that_broke_off_counts_as_a_write():
    @plugrad.operator("interrupt::half_write", mutates="x", dtypes="floating")
    def half_write(x):
        x[0] = 9.0
        raise KeyboardInterrupt

    half_write.state = READY
    x = leaf([1.0, 2.0])
    y = x * 1
    square = y * y
    with pytest.raises(KeyboardInterrupt), plugrad.no_grad():
        half_write(y)
    with pytest.raises(RuntimeError, match="in-place"):
        square.sum().backward()


def test_after_an_interruption_without_retain_graph_the_rest_says_freed():
    x = leaf([2.0])
    y = x * x
    handle = y.register_hook(interrupt)
    z = y.exp().sum()
    with pytest.raises(KeyboardInterrupt):
        z.backward()
    handle.remove()
    with pytest.raises(RuntimeError, match="standard::exp a second time.*retain_graph"):
        z.backward()
    assert x.grad is None


def test_on_another_thread_the_graph_stays_usable_here():
    x = leaf([2.0])
    y = x * x
    handle = y.register_hook(interrupt)
    caught = []

    def work():
        try:
            y.backward(retain_graph=True)
        except KeyboardInterrupt:
            caught.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert caught == [True]
    handle.remove()
    y.backward()
    assert x.grad.tolist() == [4]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers here")
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # raised in a finalizer
def test_at_arbitrary_moments():
    """A timer interrupts whatever runs, many times; in the end the numbers are right."""
    x = leaf(np.linspace(0.5, 1.5, 8))

    def loss():
        y = x
        for _ in range(40):
            y = (y * 0.9 + x.sin() * 0.1).tanh()
        return (y * y).sum()

    expected = grad(loss(), x)[0].numpy()
    x.grad = None
    before = signal.signal(signal.SIGALRM, interrupt)
    hits = 0
    try:
        for k in range(60):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4 * (1 + k % 10))
                for _ in range(200):
                    loss().backward(create_graph=k % 3 == 0)
            except KeyboardInterrupt:
                hits += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        hits += 1
    finally:
        signal.signal(signal.SIGALRM, before)
        x.grad = None
    assert hits
    assert plugrad.is_grad_enabled()
    np.testing.assert_array_equal(grad(loss(), x)[0].numpy(), expected)
