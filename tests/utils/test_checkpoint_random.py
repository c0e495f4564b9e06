"""Checkpoints of functions that draw plugrad's random numbers: the second run drops what the first one did."""

import numpy as np
import pytest

import plugrad
import plugrad.nn.functional as F
from plugrad import ops
from plugrad.utils.checkpoint import checkpoint


@pytest.fixture(autouse=True)
def undisturbed():
    with plugrad.random.fork_rng():
        plugrad.manual_seed(3)
        yield


def leaf(n=40):
    return plugrad.tensor(np.linspace(1, 2, n), requires_grad=True)


def gradient(function, *args):
    x = leaf()
    y = function(x, *args)
    y.sum().backward()
    return y.tolist(), x.grad.tolist()


def block(x):
    return F.dropout((2 * F.dropout(x.sin(), 0.3)).exp(), 0.5) * plugrad.rand(x.shape[0])


def test_the_default_generator():
    expected = gradient(block)
    plugrad.manual_seed(3)
    found = gradient(lambda x: checkpoint(block, x))
    assert found == expected


def test_backward_leaves_the_state_alone():
    x = leaf()
    y = checkpoint(block, x)
    state = plugrad.get_rng_state().tolist()
    plugrad.rand(3)
    moved = plugrad.get_rng_state().tolist()
    y.sum().backward()
    assert plugrad.get_rng_state().tolist() == moved != state


def test_numbers_drawn_in_between_do_not_matter():
    expected = gradient(block)
    plugrad.manual_seed(3)
    x = leaf()
    y = checkpoint(block, x)
    plugrad.manual_seed(9)
    y.sum().backward()
    assert (y.tolist(), x.grad.tolist()) == expected


def test_a_generator_among_the_arguments():
    def noisy(x, generator):
        return ops.dropout((2 * ops.dropout(x, generator=generator)).exp(), generator=generator)

    expected = gradient(noisy, plugrad.Generator().manual_seed(8))
    generator = plugrad.Generator().manual_seed(8)
    x = leaf()
    y = checkpoint(noisy, x, generator=generator)
    generator.draw()
    after = generator.get_state().tolist()
    y.sum().backward()
    assert (y.tolist(), x.grad.tolist()) == expected
    assert generator.get_state().tolist() == after


def test_checkpoints_within_checkpoints():
    def outer(x):
        return checkpoint(block, F.dropout(x, 0.2)) * F.dropout(x, 0.4)

    expected = gradient(lambda x: block(F.dropout(x, 0.2)) * F.dropout(x, 0.4))
    plugrad.manual_seed(3)
    assert gradient(lambda x: checkpoint(outer, x)) == expected


def test_without_the_state_the_difference_is_found():
    x = leaf()
    y = checkpoint(block, x, preserve_rng_state=False)
    with pytest.raises(plugrad.utils.checkpoint.CheckpointError, match="other values"):
        y.sum().backward()
