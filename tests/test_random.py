"""Generators and the functions that make tensors of random numbers."""

import copy
import pickle
import subprocess
import sys
import threading
from collections import Counter

import numpy as np
import pytest

import plugrad
from plugrad.random import Stream, default_generator


@pytest.fixture(autouse=True)
def undisturbed():
    with plugrad.random.fork_rng():
        yield


def generator(seed=7):
    return plugrad.Generator().manual_seed(seed)


# ---- generators --------------------------------------------------------------------------------------------


def test_a_generator_counts_what_is_drawn():
    g = generator(7)
    assert [g.draw(), g.draw()] == [Stream(7, 0), Stream(7, 1)]
    assert g.initial_seed() == 7
    assert g.manual_seed(8) is g
    assert g.draw() == Stream(8, 0)
    assert plugrad.Generator().initial_seed() == plugrad.Generator().initial_seed()


def test_seeds():
    g = plugrad.Generator()
    assert g.manual_seed(-1).initial_seed() == 2**64 - 1
    assert g.manual_seed(2**64 - 1).initial_seed() == 2**64 - 1
    for wrong in (2**64, -(2**63) - 1):
        with pytest.raises(ValueError, match="from -2\\*\\*63 to 2\\*\\*64 - 1"):
            g.manual_seed(wrong)
    assert g.seed() == g.initial_seed() != g.seed()


def test_a_state_goes_back_and_forth():
    g = generator()
    g.draw()
    state = g.get_state()
    assert (state.dtype, state.shape, state.device) == (np.uint8, (16,), "cpu")
    later = [g.draw() for _ in range(3)]
    g.set_state(state)
    assert [g.draw() for _ in range(3)] == later
    other = plugrad.Generator()
    other.set_state(state)
    assert other.draw() == later[0]


@pytest.mark.parametrize("wrong", [np.zeros(15, np.uint8), np.zeros(16, np.float32)])
def test_what_is_no_state_is_refused(wrong):
    with pytest.raises(ValueError, match="16 bytes"):
        plugrad.Generator().set_state(plugrad.from_numpy(wrong))


@pytest.mark.parametrize(
    "clone",
    [lambda g: g.clone_state(), copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))],
    ids=["clone_state", "copy", "deepcopy", "pickle"],
)
def test_a_copy_goes_on_by_itself(clone):
    g = plugrad.Generator(device="cuda").manual_seed(3)
    g.draw()
    other = clone(g)
    assert (type(other), other.device) == (plugrad.Generator, "cuda")
    assert [other.draw(), other.draw()] == [g.draw(), g.draw()]


def test_an_unknown_device_is_refused():
    with pytest.raises(ValueError, match="'tpu'"):
        plugrad.Generator("tpu")


def test_threads_draw_different_streams():
    g, found = generator(), []

    def draw():
        own = [g.draw() for _ in range(2000)]
        found.extend(own)

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(s.offset for s in found) == list(range(8000))


# ---- the default generator ---------------------------------------------------------------------------------


def test_the_default_generator_serves_calls_without_one():
    assert plugrad.manual_seed(5) is default_generator is plugrad.random.default_generator
    first = plugrad.rand(3)
    assert first.tolist() == plugrad.rand(3, generator=generator(5)).tolist()
    assert plugrad.rand(3).tolist() != first.tolist()
    assert plugrad.initial_seed() == 5
    assert plugrad.seed() == plugrad.initial_seed()


def test_its_state_and_fork_rng():
    plugrad.manual_seed(5)
    state = plugrad.get_rng_state()
    first = plugrad.rand(3).tolist()
    plugrad.set_rng_state(state)
    assert plugrad.rand(3).tolist() == first
    with plugrad.random.fork_rng(devices=[]):
        inside = plugrad.rand(3).tolist()
        plugrad.manual_seed(99)
    assert plugrad.rand(3).tolist() == inside
    before = plugrad.get_rng_state().tolist()
    with plugrad.random.fork_rng(enabled=False):
        plugrad.rand(3)
    assert plugrad.get_rng_state().tolist() != before


def test_cuda_manual_seed_is_the_same_generator():
    plugrad.cuda.manual_seed_all(12)
    assert plugrad.initial_seed() == 12


def test_processes_agree_on_a_seed_and_on_nothing_else():
    text = "import plugrad; print(plugrad.initial_seed(), plugrad.manual_seed(4) and plugrad.randn(3).tolist())"
    seeds, numbers = zip(
        *(
            subprocess.run(
                [sys.executable, "-c", text], capture_output=True, text=True, check=True
            ).stdout.split(" ", 1)
            for _ in range(2)
        )
    )
    assert seeds[0] != seeds[1]
    assert numbers[0] == numbers[1] == f"{plugrad.randn(3, generator=generator(4)).tolist()}\n"


# ---- creation ----------------------------------------------------------------------------------------------


def test_rand_and_randn():
    stream = Stream(7, 0)
    made = plugrad.rand(2, 3, generator=generator())
    assert (made.dtype, made.shape, made.requires_grad) == (np.float32, (2, 3), False)
    np.testing.assert_array_equal(made.array, stream.uniform((2, 3)))
    wide = plugrad.randn((4,), dtype=np.float64, generator=generator(), requires_grad=True)
    assert wide.requires_grad and wide.is_leaf
    np.testing.assert_array_equal(wide.detach().array, stream.normal(4, np.float64))
    assert plugrad.rand().shape == ()
    assert plugrad.rand(0, 3).shape == (0, 3)
    with pytest.raises(TypeError, match="floating"):
        plugrad.rand(3, dtype=np.int64)


def test_rand_like_and_its_kin():
    like = plugrad.zeros(2, 3, dtype=np.float16)
    for make in (plugrad.rand_like, plugrad.randn_like):
        assert (make(like).dtype, make(like).shape) == (np.float16, (2, 3))
        assert make(like, dtype=np.float64).dtype == np.float64
    whole = plugrad.randint_like(plugrad.zeros(50, dtype=np.int32), 4)
    assert (whole.dtype, set(whole.tolist())) == (np.int32, {0, 1, 2, 3})
    assert set(plugrad.randint_like(like, 2, 4).array.ravel().tolist()) <= {2, 3}


def test_randint():
    made = plugrad.randint(2, 6, (200,), generator=generator())
    assert (made.dtype, set(made.tolist())) == (np.int64, {2, 3, 4, 5})
    assert set(plugrad.randint(3, (100,)).tolist()) == {0, 1, 2}
    assert plugrad.randint(high=3, size=(2, 2)).shape == (2, 2)
    assert plugrad.randint(0, 300, (3,), dtype=np.int16).dtype == np.int16
    with pytest.raises(RuntimeError, match="must be below"):
        plugrad.randint(3, 3, (2,))
    with pytest.raises(RuntimeError, match="not within"):
        plugrad.randint(0, 300, (2,), dtype=np.uint8)
    with pytest.raises(TypeError, match="randint"):
        plugrad.randint(3)
    with pytest.raises(TypeError, match="randint"):
        plugrad.randint(0, 3, (2,), high=5)


def test_randperm():
    made = plugrad.randperm(100, generator=generator())
    assert made.dtype == np.int64
    assert sorted(made.tolist()) == list(range(100)) != made.tolist()
    assert plugrad.randperm(0).tolist() == []
    assert plugrad.randperm(5, dtype=np.float32).dtype == np.float32
    with pytest.raises(RuntimeError, match="does not hold"):
        plugrad.randperm(300, dtype=np.uint8)
    with pytest.raises(RuntimeError, match=">= 0"):
        plugrad.randperm(-1)


def test_each_permutation_is_as_likely_as_the_others():
    g = generator(20240607)
    print("seed", g.initial_seed())
    counts = Counter(tuple(plugrad.randperm(3, generator=g).tolist()) for _ in range(3000))
    assert len(counts) == 6
    assert max(abs(n - 500) for n in counts.values()) < 5 * (3000 * 5 / 36) ** 0.5


def test_normal():
    z = Stream(7, 0).normal(3)
    mean = plugrad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    std = plugrad.tensor([0.5, 1.0, 0.0])
    made = plugrad.normal(mean, std, generator=generator())
    np.testing.assert_allclose(made.array, z * [0.5, 1, 0] + [1, 2, 3], rtol=1e-6)
    assert not made.requires_grad
    np.testing.assert_allclose(
        plugrad.normal(mean, 2.0, generator=generator()).array, z * 2 + [1, 2, 3], rtol=1e-6
    )
    np.testing.assert_allclose(
        plugrad.normal(1.0, std, generator=generator()).array, z * [0.5, 1, 0] + 1, rtol=1e-6
    )
    np.testing.assert_allclose(
        plugrad.normal(1.0, 2.0, (3,), generator=generator()).array, z * 2 + 1, rtol=1e-6
    )
    assert plugrad.normal(plugrad.zeros(3, 1), plugrad.ones(2)).shape == (3, 2)
    with pytest.raises(TypeError, match="size"):
        plugrad.normal(1.0, 2.0)
    with pytest.raises(RuntimeError, match="std"):
        plugrad.normal(mean, -1.0)


def test_what_is_no_generator_is_refused():
    with pytest.raises(TypeError, match="standard::uniform_.*plugrad.Generator.*RandomState"):
        plugrad.rand(3, generator=np.random.RandomState(0))


@pytest.mark.parametrize("std", [[1.0, -1.0], [1.0, float("nan")]])
def test_normal_refuses_a_negative_standard_deviation_in_a_tensor(std):
    with pytest.raises(RuntimeError, match="std must be >= 0"):
        plugrad.normal(0.0, plugrad.tensor(std))
    with pytest.raises(RuntimeError, match="std must be >= 0"):
        plugrad.normal(plugrad.zeros(2), plugrad.tensor(std))
