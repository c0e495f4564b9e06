"""Composites: functions of Tensors under a registered name."""

import copy
import inspect
import pickle
import pydoc

import pytest

import plugrad
from plugrad.graph.op import READY, UNVERIFIED
from plugrad.registry import DeclarationError
from plugrad.registry.composite import Composite, composite


def twice():
    @composite("my::twice", method=True)
    def twice(x, *, times=2):
        """x, some times."""
        return x * times

    return twice


def test_attributes_of_a_composite():
    made = twice()
    assert isinstance(made, Composite)
    assert (made.name, made.__name__, made.module) == ("my::twice", "twice", __name__)
    assert (made.method, made.random, made.owner, made.kinks) == (True, False, None, None)
    assert made.state == UNVERIFIED
    assert made.function(3) == 6
    assert str(inspect.signature(made)) == "(x, *, times=2)"
    assert repr(made) == "<composite my::twice(x, *, times=2)>"
    assert "x, some times." in pydoc.plain(pydoc.render_doc(made))


def test_a_composite_is_resolved_before_its_first_call(monkeypatch):
    made, asked = twice(), []

    def verify(declared):
        asked.append(declared)
        declared.state = READY

    monkeypatch.setattr(plugrad.registry, "verify", verify)
    assert made(3) == 6
    assert made(3, times=3) == 9
    assert asked == [made]


def test_a_refused_composite_does_not_run(monkeypatch):
    ran = []
    made = composite("my::f")(ran.append)

    def refuse(declared):
        raise RuntimeError("refused")

    monkeypatch.setattr(plugrad.registry, "verify", refuse)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="refused"):
            made(3)
    assert ran == []


def test_a_composite_needs_samples():
    made = twice()
    (problem,) = made.problems()
    assert "The composite my::twice has no samples" in problem

    @made.samples
    def _(make):
        yield make.call(1)

    assert made.sampler is _
    assert made.problems() == []


def test_a_composite_has_no_rule():
    assert not hasattr(twice(), "backward")


def test_composites_pickle_and_copy_like_operators(monkeypatch):
    made = twice()
    monkeypatch.setattr(plugrad.registry, "get", {"my::twice": made}.__getitem__)
    assert pickle.loads(pickle.dumps(made)) is made
    assert copy.deepcopy(made) is made


def test_what_is_no_composite():
    with pytest.raises(DeclarationError, match="'namespace::name'"):
        composite("twice")
    with pytest.raises(DeclarationError, match="'namespace::name'"):
        composite("my::twice", replaces="twice")
    with pytest.raises(DeclarationError, match="function of Tensors, got 3"):
        composite("my::three")(3)
