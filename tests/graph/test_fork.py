"""After os.fork the child can compute, whatever other threads of the parent were doing."""

import os
import sys
import threading
import time
import traceback
import warnings

import numpy as np
import pytest

import plugrad
from plugrad.graph.op import READY, UNVERIFIED

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no os.fork here")

PATIENCE = 30  # seconds until a child counts as hanging


def leaf(values):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


def in_child(work):
    """Run ``work()`` in a forked child; fails with what it raised, or if it hangs."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # Python 3.12 on warns of forking with threads: that is the point
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            os.write(write, traceback.format_exc().encode()[-4000:])
        finally:
            os._exit(status)  # no exit handlers, no pytest
    os.close(write)
    deadline = time.monotonic() + PATIENCE
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            pytest.fail("the child hangs")
        time.sleep(0.001)
    with os.fdopen(read, "rb") as pipe:
        message = pipe.read().decode()
    assert status == 0, message or f"the child died with status {status}"


def train():
    """Uses kernels, the allocator, a leaf's lock, hooks, second derivatives."""
    w = leaf(np.full((20, 20), 0.1))
    x = plugrad.tensor(np.ones((30, 20)))
    w.register_hook(lambda g: g * 1)
    for _ in range(3):
        loss = ((x @ w).tanh() ** 2).mean()
        loss.backward()
    assert np.isfinite(w.grad.numpy()).all()
    (g,) = plugrad.autograd.grad(((x @ w).tanh() ** 2).mean(), w, create_graph=True)
    g.sum().backward()


def test_a_child_computes():
    train()
    in_child(train)


def test_a_child_goes_on_with_the_parents_graph():
    x = leaf([1.0, 2.0])
    loss = (x * x).sum()

    def work():
        loss.backward()
        assert x.grad.tolist() == [2, 4]

    in_child(work)
    assert x.grad is None
    loss.backward()
    assert x.grad.tolist() == [2, 4]


def test_a_fork_inside_a_hook():
    x = leaf([1.0, 2.0])
    y = x * 2

    def inner():
        with plugrad.enable_grad():
            (x * 3).sum().backward()
        assert x.grad.tolist() == [3, 3]

    y.register_hook(lambda g: in_child(inner))
    (y * y).sum().backward()
    assert x.grad.tolist() == [8, 16]


def test_grad_mode_comes_along():
    x = leaf([1.0])

    def work():
        assert not plugrad.is_grad_enabled()
        assert not (x * 2).requires_grad

    with plugrad.no_grad():
        in_child(work)


def test_leaf_locks_held_by_another_thread():
    """A thread accumulates into large leaves all the time; each child needs the same locks."""
    leaves = [leaf(np.ones(200_000)) for _ in range(16)]
    stop = threading.Event()

    def accumulate():
        while not stop.is_set():
            for x in leaves:
                (x * 2).sum().backward()

    def work():
        for x in leaves:
            (x * 2).sum().backward()

    thread = threading.Thread(target=accumulate)
    thread.start()
    try:
        for _ in range(20):
            in_child(work)
    finally:
        stop.set()
        thread.join()


def test_verification_lock_held_by_another_thread():
    """A thread is in the middle of verifying an operator: the child verifies that one, and others."""
    entered, leave = threading.Event(), threading.Event()
    parent = os.getpid()

    def slow_samples(make):
        if os.getpid() == parent:
            entered.set()
            assert leave.wait(PATIENCE)
        yield make.call(make.normal(3))
        yield make.call(make.normal(2, 3))
        yield make.call(make.normal(4))

    def doubling(name, samples):
        @plugrad.operator(name, elementwise=True)
        def double(x):
            return 2 * x

        double.backward(lambda grad: 2 * grad)
        double.samples(samples)
        return double

    def quick_samples(make):
        yield make.call(make.normal(3))
        yield make.call(make.normal(2, 3))
        yield make.call(make.normal(4))

    slow, other = doubling("fork::slow", slow_samples), doubling("fork::other", quick_samples)
    x = leaf([1.0, 2.0])
    thread = threading.Thread(target=lambda: slow(x))
    thread.start()
    assert entered.wait(PATIENCE)

    def work():
        for operator in (other, slow):
            operator(x).sum().backward()
            assert operator.state == READY
        assert x.grad.tolist() == [4, 4]
        train()

    try:
        in_child(work)
        assert other.state == UNVERIFIED
    finally:
        leave.set()
        thread.join()
    assert slow.state == READY


@pytest.mark.skipif(sys.platform != "linux", reason="fork is safe with threads on Linux")
def test_children_of_children():
    in_child(lambda: in_child(train))
