"""Large products are tiles that our threads share, and BLAS has the threads it had before once they are done."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import plugrad
from plugrad.nn.functional import linear
from plugrad_ops.linalg import blas

pytestmark = pytest.mark.skipif(not blas.found(), reason="NumPy's BLAS is not called directly here")
SEED = int(np.random.default_rng().integers(2**31))
# More than what one thread does alone, in shapes that tiles do not divide.
SHAPES = [
    (129, 97, 131),
    (2, 4099, 67),
    (4099, 67, 3),
    (67, 2, 8191),
    (1025, 33, 40),
    (64, 128, 64),
]
CLOSE = {"float32": 1e-5, "float64": 1e-13}


@pytest.fixture
def threads():
    """Sets the number of threads for one test."""
    before = plugrad.get_num_threads()
    yield plugrad.set_num_threads
    plugrad.set_num_threads(before)


def threads_of_blas():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    return {
        one["num_threads"] for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas"
    }


def test_a_limit_set_while_a_product_runs_stays(threads):
    a = plugrad.ones(1500, 1500)
    for number in (1, 3, 1, 2, 1):
        threads(4)
        running, done = threading.Event(), threading.Event()

        def multiply(running=running, done=done):
            while not done.is_set():
                a @ a
                running.set()

        thread = threading.Thread(target=multiply)
        thread.start()
        running.wait()
        threads(number)
        done.set()
        thread.join()
        assert threads_of_blas() == {number}


def product(a, b):
    return plugrad.matmul(plugrad.Tensor(a), plugrad.Tensor(b)).numpy()


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("number", [1, 2, 3, 4, 7, 12])
def test_every_tile_is_in_its_place(threads, number, dtype, turned):
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    threads(number)
    for m, k, n in SHAPES:
        # Columns and rows of wider memory, so that a tile starts where its strides say and nowhere else.
        a, b = (
            rng.standard_normal((r + 5, c + 3)).astype(dtype)[2:-3, 1:-2]
            for r, c in ((m, k), (k, n))
        )
        a, b = (np.asfortranarray(x) if turn else x for x, turn in zip((a, b), turned, strict=True))
        expected = np.einsum("ik,kj", a, b, dtype="f8")
        assert (
            np.abs(product(a, b) - expected).max() <= CLOSE[dtype] * np.abs(expected).max() * k**0.5
        )


@pytest.mark.parametrize("number", [1, 2, 3, 7])
def test_a_bias_is_added_in_every_tile(threads, number):
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    threads(number)
    for m, k, n in [*SHAPES, (1, 300, 200), (5, 3, 4), (300, 1, 200)]:
        x, weight, bias = (
            rng.standard_normal((m, k)),
            rng.standard_normal((n, k)),
            rng.standard_normal(n),
        )
        found = linear(plugrad.Tensor(x), plugrad.Tensor(weight), plugrad.Tensor(bias)).numpy()
        np.testing.assert_allclose(found, x @ weight.T + bias, rtol=0, atol=1e-11)


@pytest.mark.parametrize("stack", [1, 2, 5])
def test_stacks_of_large_matrices(threads, stack):
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    a, b = rng.standard_normal((stack, 90, 110)), rng.standard_normal((stack, 110, 70))
    for number in (1, 2, 4):
        threads(number)
        np.testing.assert_allclose(product(a, b), a @ b, rtol=0, atol=1e-11)


def test_the_same_bits_each_time():
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    a, b = rng.standard_normal((150, 200)), rng.standard_normal((200, 170))
    first = product(a, b)
    assert all(np.array_equal(first, product(a, b)) for _ in range(20))


def test_blas_has_its_threads_again_after_products_in_several_threads(threads):
    threads(3)
    a = np.ones((160, 160))

    def work():
        for _ in range(200):
            product(a, a.T.copy())

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert threads_of_blas() == {3}


def test_a_number_that_is_set_during_products_stays():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    a, stop = np.ones((160, 160)), threading.Event()

    def work():
        while not stop.is_set():
            product(a, a.T.copy())

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(100):
            with threadpoolctl.threadpool_limits(2, user_api="blas"):
                pass
            threadpoolctl.threadpool_limits(3, user_api="blas")
    finally:
        stop.set()
        worker.join()
        found = threads_of_blas()
        plugrad.set_num_threads(plugrad.get_num_threads())
    assert found == {3}


def test_where_blas_is_limited_to_one_thread_a_product_uses_one():
    """The tiles of several threads differ from the whole in their last bits; one thread computes the whole."""
    threadpoolctl = pytest.importorskip("threadpoolctl")
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    a, b = rng.standard_normal((300, 700)), rng.standard_normal((700, 300))
    before = plugrad.get_num_threads()
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        limited = product(a, b)
        numpys = np.dot(a, b)
    assert plugrad.get_num_threads() == before
    assert np.array_equal(limited, numpys)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_forked_during_a_product_has_the_threads_too():
    pytest.importorskip("threadpoolctl")
    code = """
import os, threading
import numpy as np, plugrad
from threadpoolctl import threadpool_info
plugrad.set_num_threads(2)
def of_blas():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}
a = plugrad.tensor(np.ones((700, 700), np.float32))
b = plugrad.tensor(np.full((700, 700), 2, np.float32))
small = plugrad.tensor(np.ones((100, 100), np.float32))
def right():
    return ((small @ (small + 1)).numpy() == 200).all()
assert right()
stop = threading.Event()
def work():
    while not stop.is_set():
        a @ b
worker = threading.Thread(target=work, daemon=True)
worker.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        os._exit(0 if right() and of_blas() == {2} else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
worker.join()
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=120)
