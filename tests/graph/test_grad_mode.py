"""Grad modes: per thread, as contexts, decorators and functions."""

import threading

import pytest

import plugrad


@pytest.fixture
def x():
    return plugrad.tensor([1.0, 2.0], requires_grad=True)


def test_no_grad_records_nothing_and_restores(x):
    with plugrad.no_grad():
        assert not plugrad.is_grad_enabled()
        assert not (x * 2).requires_grad
        with plugrad.enable_grad():
            assert (x * 2).requires_grad
        assert not plugrad.is_grad_enabled()
    assert (x * 2).requires_grad


def test_one_instance_may_be_nested(x):
    mode = plugrad.no_grad()
    with mode, mode:
        pass
    assert plugrad.is_grad_enabled()


def test_an_exception_restores_the_mode():
    with pytest.raises(KeyError), plugrad.no_grad():
        raise KeyError
    assert plugrad.is_grad_enabled()


@pytest.mark.parametrize(
    "decorate",
    [lambda: plugrad.no_grad, lambda: plugrad.no_grad(), lambda: plugrad.set_grad_enabled(False)],
    ids=["no_grad", "no_grad()", "set_grad_enabled(False)"],
)
def test_as_a_decorator(x, decorate):
    @decorate()
    def double(value):
        """Twice."""
        return value * 2

    assert not double(x).requires_grad
    assert double.__doc__ == "Twice."
    assert plugrad.is_grad_enabled()


def test_a_generator_does_not_leak_its_mode(x):
    @plugrad.no_grad()
    def produce():
        received = yield x * 2
        assert not plugrad.is_grad_enabled()
        yield received

    generator = produce()
    assert not next(generator).requires_grad
    assert plugrad.is_grad_enabled()
    assert generator.send("sent") == "sent"
    assert plugrad.is_grad_enabled()


def test_set_grad_enabled_acts_at_once_and_as_a_context(x):
    with plugrad.set_grad_enabled(False):
        assert not plugrad.is_grad_enabled()
    assert plugrad.is_grad_enabled()
    before = plugrad.set_grad_enabled(False)
    assert not plugrad.is_grad_enabled()
    before.__exit__(None, None, None)
    assert plugrad.is_grad_enabled()


def test_a_new_thread_records_whatever_its_parent_does():
    seen = []
    with plugrad.no_grad():
        thread = threading.Thread(target=lambda: seen.append(plugrad.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]
