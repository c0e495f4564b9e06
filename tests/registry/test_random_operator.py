"""Operators declared with ``random=True``: how they get their stream, and what the battery makes of them."""

import numpy as np
import pytest

import plugrad
from plugrad import contract, operator
from plugrad.random import Stream, default_generator
from plugrad.registry import DeclarationError
from plugrad.registry.fingerprint import of_operator


@pytest.fixture(autouse=True)
def undisturbed():
    with plugrad.random.fork_rng():
        yield


def noisy(name="random_test::noisy", rule=None, **flags):
    """x times a random sign."""

    def function(x, *, strength=1.0, generator=None):
        return np.where(generator.chance(x.shape, 0.5), strength * x, -strength * x).astype(x.dtype)

    op = operator(name, elementwise=True, random=True, **flags)(function)

    def same_stream(grad, strength, generator):
        return op(grad, strength=strength, generator=generator)

    op.backward(same_stream if rule is None else rule)

    @op.samples
    def _(make):
        yield make.call(make.normal(3, 4))
        yield make.call(make.normal(20), strength=2.0, generator=make.generator())
        yield make.call(make.normal(2, 3), 0.5)

    return op


# ---- calls -------------------------------------------------------------------------------------------------


def test_each_call_draws_the_next_stream():
    op = noisy()
    contract.check(op)
    plugrad.register(op)
    x = plugrad.tensor(np.ones(50), requires_grad=True)
    g = plugrad.Generator().manual_seed(3)
    first, second = op(x, generator=g), op(x, generator=g)
    assert first.tolist() != second.tolist()
    assert first.tolist() == op(x, generator=Stream(3, 0)).tolist()
    assert second.tolist() == op(x, 1.0, Stream(3, 1)).tolist()
    assert g.draw() == Stream(3, 2)
    plugrad.manual_seed(3)
    assert op(x).tolist() == first.tolist()
    assert op(x, 1.0).tolist() == second.tolist()
    assert op(x=x, generator=None).tolist() == op(x, generator=Stream(3, 2)).tolist()


def test_the_rule_gets_the_stream_of_the_call():
    op = noisy()
    plugrad.register(op)
    x = plugrad.tensor(np.full(50, 2.0), requires_grad=True)
    y = op(x)
    (grad,) = plugrad.autograd.grad(y.sum(), x)
    np.testing.assert_array_equal(grad.array, y.detach().array / 2)


def test_the_signature_shows_generator_none():
    op = noisy()
    assert str(op.__signature__) == "(x, strength=1.0, generator=None)"
    assert op.random


def test_what_is_no_generator_is_refused():
    op = noisy()
    with pytest.raises(TypeError, match="random_test::noisy.*got Generator"):
        op(plugrad.ones(3), generator=np.random.default_rng(0))
    with pytest.raises(TypeError, match="random_test::noisy.*got int"):
        op(plugrad.ones(3), 1.0, 5)


def test_it_has_a_fingerprint():
    assert of_operator(noisy()) == of_operator(noisy())


# ---- declarations ------------------------------------------------------------------------------------------


def no_generator(x):
    return x


def needed(x, *, generator):
    return x


def another_default(x, *, generator=3):
    return x


def a_tensor(x, generator):
    return x


def well(x, *, generator=None):
    return x


@pytest.mark.parametrize("function", [no_generator, another_default])
def test_random_without_a_generator_is_refused(function):
    with pytest.raises(DeclarationError, match=r"my::f: random=True goes with .*generator=None"):
        operator("my::f", random=True)(function)


@pytest.mark.parametrize("function", [needed, well])
def test_a_generator_without_random_is_refused(function):
    with pytest.raises(DeclarationError, match="my::f: 'generator' .* declare random=True"):
        operator("my::f")(function)


def test_a_generator_is_no_tensor():
    with pytest.raises(DeclarationError, match="keyword-only"):
        operator("my::f", random=True)(a_tensor)


def test_composites_too():
    with pytest.raises(DeclarationError, match="random=True goes with"):
        plugrad.composite("my::f", random=True)(no_generator)
    with pytest.raises(DeclarationError, match="declare random=True"):
        plugrad.composite("my::f")(well)


# ---- the battery -------------------------------------------------------------------------------------------


def test_a_correct_operator_passes():
    assert contract.check(noisy()).passed


def fresh_numbers(grad, strength):
    return grad * (strength if np.random.random() < 0.5 else -strength)


def another_stream(grad, strength, generator):
    stream = Stream(generator.seed, generator.offset + 1)
    signs = np.where(stream.chance(grad.shape, 0.5), strength, -strength)
    return grad * plugrad.from_numpy(signs.astype(grad.dtype))


@pytest.mark.parametrize(
    ("rule", "check"), [(fresh_numbers, "determinism"), (another_stream, "gradient")]
)
def test_a_rule_with_other_numbers_is_refused(rule, check):
    report = contract.check(noisy(rule=rule))
    assert not report.passed
    assert check in {failure.check for failure in report.failures}


def test_numbers_from_elsewhere_are_refused():
    @operator("random_test::hidden", elementwise=True, random=True, nondifferentiable=True)
    def hidden(x, *, generator=None):
        return x * 0 + np.random.random(x.shape)

    @hidden.samples
    def _(make):
        for n in (3, 4, 5):
            yield make.call(make.normal(n))

    report = contract.check(hidden)
    assert not report.passed
    assert "not the only source" in str(report)


def test_the_battery_leaves_the_default_generator_alone():
    @plugrad.composite("random_test::reseeding", random=True)
    def reseeding(x, *, generator=None):
        plugrad.manual_seed(1)
        return plugrad.ops.dropout(x) * 0 + plugrad.ops.dropout(x, generator=generator)

    @reseeding.samples
    def _(make):
        for n in (3, 4, 5):
            yield make.call(make.normal(n))

    plugrad.manual_seed(77)
    before = default_generator.get_state().tolist()
    plugrad.registry.verify(plugrad.ops.dropout, fresh=True)
    plugrad.register(reseeding)
    assert default_generator.get_state().tolist() == before


def test_the_first_call_of_a_seeded_program_draws_what_later_ones_do():
    plugrad.manual_seed(5)
    op = noisy("random_test::first")
    plugrad.register(op)
    x = plugrad.tensor(np.ones(50))
    first = op(x).tolist()
    plugrad.manual_seed(5)
    assert op(x).tolist() == first
