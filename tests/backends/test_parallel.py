"""Threads share long loops: the same numbers as one thread gives, whoever works, whatever else happens."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import plugrad

LONG = 300_000  # several pieces


@pytest.fixture(autouse=True)
def as_many_threads_as_before():
    before = plugrad.get_num_threads()
    yield
    plugrad.set_num_threads(before)


def squares(n=LONG):
    x = plugrad.tensor(np.linspace(-3, 3, n, dtype=np.float32))
    return (x * x).numpy()


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [16_384, 32_767, 32_768, 99_991, LONG])
def test_every_element_is_computed_once_for_any_number_of_threads(threads, n):
    plugrad.set_num_threads(threads)
    x = np.linspace(-3, 3, n, dtype=np.float32)
    assert np.array_equal(squares(n), x * x)


def test_the_number_of_threads_can_be_read_and_set():
    plugrad.set_num_threads(3)
    assert plugrad.get_num_threads() == 3
    plugrad.set_num_threads(np.int64(2))
    assert plugrad.get_num_threads() == 2


def test_blas_obeys_too():
    from threadpoolctl import threadpool_info

    np.ones((4, 4)) @ np.ones((4, 4))
    plugrad.set_num_threads(1)
    assert {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"} == {1}


@pytest.mark.parametrize(
    ("n", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)]
)
def test_a_number_of_threads_that_cannot_be_is_refused(n, error):
    with pytest.raises(error, match=f"set_num_threads.*{n}"):
        plugrad.set_num_threads(n)


def test_what_was_set_outside_is_obeyed_at_the_start():
    code = "import plugrad; print(plugrad.get_num_threads())"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"OMP_NUM_THREADS": "3,1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == ["3"]


def test_loops_that_start_at_once_from_several_threads_are_all_right():
    plugrad.set_num_threads(3)
    expected = squares()
    wrong = []

    def work():
        for _ in range(30):
            if not np.array_equal(squares(), expected):
                wrong.append(1)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_process_has_threads_of_its_own():
    code = """
import os, sys
import numpy as np, plugrad
plugrad.set_num_threads(3)
x = plugrad.tensor(np.arange(300_000, dtype=np.float32))
expected = (x * x).numpy()
for _ in range(5):
    child = os.fork()
    if child == 0:
        same = all(np.array_equal((x * x).numpy(), expected) for _ in range(20))
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal((x * x).numpy(), expected)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=120)
