"""Operators as they are declared: decorators, what they refuse, and what an operator looks like."""

import copy
import inspect
import pickle
import pydoc

import numpy as np
import pytest

import plugrad
from plugrad import Tensor
from plugrad.graph.op import READY, UNVERIFIED, Op
from plugrad.registry import DeclarationError
from plugrad.registry.declaration import operator
from plugrad.registry.operator import Operator


def declare(function=None, name="my::f", **flags):
    if function is None:

        def function(x, y, *, cap=6.0):
            return x * y

    return operator(name, **flags)(function)


def swish():
    @operator("my::swish", elementwise=True)
    def swish(x, beta, *, cap=6.0):
        """x times a gate."""
        return cap * np.tanh(x / (1 + np.exp(-beta * x)) / cap)

    return swish


# ------------------------------------------------------------------------------------- what is made


def test_attributes_of_an_operator():
    op = swish()
    assert isinstance(op, Operator)
    assert (op.name, op.__name__, op.__qualname__) == ("my::swish", "swish", "swish")
    assert op.module == op.__module__ == __name__
    assert op.__doc__ == "x times a gate."
    assert op.schema.inputs == ("x", "beta")
    assert op.function(np.zeros(2), np.ones(2)).tolist() == [0.0, 0.0]
    assert op.state == UNVERIFIED
    assert op.order == "any"
    for absent in (
        "rule",
        "rule_kernel",
        "sampler",
        "surrogate",
        "kinks",
        "cuda",
        "replaces",
        "owner",
    ):
        assert getattr(op, absent) is None
    assert op.exempt == frozenset()
    assert (op.nondifferentiable, op.once_differentiable, op.random, op.method) == (False,) * 4
    assert (op.dtypes, op.fingerprint) == ("floating", b"")


def test_flags_are_kept():
    def jittered(x, y, *, generator=None):
        return x * y

    op = declare(
        jittered,
        nondifferentiable=False,
        once_differentiable=True,
        random=True,
        method=True,
        exempt="linearity",
        cuda=".cuda:f",
        replaces="standard::mul",
        fingerprint=b"7",
        dtypes={"y": "integer"},
    )
    assert (op.once_differentiable, op.random, op.method, op.order) == (True, True, True, 1)
    assert op.exempt == {"linearity"}
    assert (op.cuda, op.replaces, op.fingerprint) == (".cuda:f", "standard::mul", b"7")
    assert op.dtypes == {"y": "integer"}


def test_the_graph_knows_what_is_differentiable_once():
    field = vars(Op)["once_differentiable"]
    assert field.__get__(declare(once_differentiable=True))
    assert not field.__get__(declare())


def test_an_operator_shows_its_own_signature():
    op = swish()
    assert str(inspect.signature(op)) == "(x, beta, cap=6.0)"
    assert repr(op) == "<operator my::swish(x, beta, cap=6.0)>"

    def layer(x, bias=None, *, dim, eps=0.1): ...

    def cat(*xs, dim=0): ...

    assert str(inspect.signature(declare(layer))) == "(x, bias=None, *, dim, eps=0.1)"
    assert str(inspect.signature(declare(cat))) == "(*xs, dim=0)"
    assert "name" in inspect.signature(Operator).parameters  # the class keeps its own


def test_help_shows_the_operators_docstring():
    text = pydoc.plain(pydoc.render_doc(swish()))
    assert "x times a gate." in text
    assert "my::swish(x, beta, cap=6.0)" in text
    assert "backward_kernel" not in text


def test_an_undocumented_operator_says_its_name():
    assert declare().__doc__ == "The operator my::f."


def test_the_class_keeps_its_own_docstring():
    declare()
    assert Operator.__doc__.startswith("A differentiable function of Tensors")


def test_an_operator_pickles_by_name(monkeypatch):
    op = swish()
    monkeypatch.setattr(plugrad.registry, "get", {"my::swish": op}.__getitem__)
    assert pickle.loads(pickle.dumps(op)) is op


def test_a_copy_of_an_operator_is_the_operator():
    op = swish()
    assert copy.copy(op) is op
    assert copy.deepcopy([op])[0] is op


def test_resolving_asks_the_registry(monkeypatch):
    op, asked = swish(), []
    monkeypatch.setattr(plugrad.registry, "verify", asked.append)
    op.resolve()
    assert asked == [op]


def test_a_declared_operator_can_be_called_once_it_is_ready():
    op = swish()
    op.state = READY
    x, beta = np.array([1.0, -2.0]), np.array([0.5, 0.25])
    out = op(Tensor(x), Tensor(beta), cap=2.0)
    np.testing.assert_array_equal(out.numpy(), op.function(x, beta, cap=2.0))
    np.testing.assert_array_equal(op(Tensor(x), Tensor(beta), 2.0).numpy(), out.numpy())


def test_the_cpu_kernel_replaces_the_function_in_calls():
    def reference(x):
        return x + 1

    def kernel(x, out=None):
        return np.add(x, 1, out=out)

    op = operator("my::inc", elementwise=True, cpu=kernel)(reference)
    assert op.function is reference
    op.state = READY
    assert op(Tensor(np.array([1.0]))).tolist() == [2.0]


# ---------------------------------------------------------------------------------------- the rule


def test_the_rule_may_name_inputs_outputs_constants_needs_and_like():
    op = swish()

    @op.backward
    def _(grad, beta, out, cap, needs, like):
        return grad, None

    assert op.rule is _
    assert op._saved_names == ("beta", "out")


def test_only_what_is_named_is_saved():
    op = swish()

    @op.backward
    def _(grad):
        return grad, grad

    assert op._saved_names == ()


def test_rules_and_samples_of_several_operators_may_share_a_name():
    first, second = swish(), swish()

    @first.backward
    def _(grad):
        return grad, grad

    @second.backward
    def _(grad, x):
        return x, None

    @first.samples
    def _(make):
        yield make.call(1)

    @second.samples
    def _(make):
        yield make.call(2)

    assert first.rule is not second.rule
    assert first.sampler is not second.sampler
    assert first.problems() == second.problems() == []


def test_a_list_input_is_named_without_its_star():
    def cat(*xs, dim=0): ...

    op = declare(cat)

    @op.backward
    def _(grad, xs, dim):
        return xs

    assert op.rule is _


def test_a_backward_kernel_names_the_same():
    op = swish()
    op.backward(lambda grad, x: (grad, None))

    @op.backward_kernel
    def kernel(grad, x, needs):
        return grad, None

    assert op.rule_kernel is kernel


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda grad, bta: None, r"names 'bta', which is no input \(x, beta\), output \(out\) or constant \(cap\).*did you mean 'beta'"),
        (lambda grad, zzz: None, "names 'zzz'"),
        (lambda x, grad: None, r"takes 'grad' first, got \(x, grad\)"),
        (lambda: None, r"takes 'grad' first, got \(\)"),
        (lambda grad, *rest: None, r"got \*rest"),
        (lambda grad, **rest: None, r"got \*\*rest"),
        (lambda grad, *, x: None, "got the keyword-only 'x'"),
        ("grad", "expected a function, got 'grad'"),
    ],
)  # fmt: skip
def test_rules_that_cannot_be_called(rule, words):
    op = swish()
    with pytest.raises(DeclarationError, match=words):
        op.backward(rule)
    assert op.rule is None
    with pytest.raises(DeclarationError, match=words.replace("the rule", "")):
        op.backward_kernel(rule)
    assert op.rule_kernel is None


def test_a_rule_given_twice():
    op = swish()
    op.backward(lambda grad: (grad, grad))
    with pytest.raises(DeclarationError, match=r"a rule is given twice; the other is .*lambda"):
        op.backward(lambda grad: (grad, grad))
    op.backward_kernel(lambda grad: (grad, grad))
    with pytest.raises(DeclarationError, match="a backward kernel is given twice"):
        op.backward_kernel(lambda grad: (grad, grad))


def test_a_rule_of_what_has_no_gradient():
    op = declare(nondifferentiable=True)
    with pytest.raises(DeclarationError, match="nondifferentiable=True, and yet a rule is given"):
        op.backward(lambda grad: (grad, grad))

    def draw(*, shape): ...

    with pytest.raises(DeclarationError, match="takes no tensor"):
        declare(draw).backward(lambda grad: None)


def test_a_rule_cannot_need_what_was_overwritten():
    def add_(x, y): ...

    op = declare(add_, mutates="x")
    with pytest.raises(DeclarationError, match="needs 'x', which the operator overwrites"):
        op.backward(lambda grad, x: (grad, x))
    op.backward(lambda grad, y: (grad, y))


def test_nothing_changes_after_verification():
    op = swish()
    op.backward(lambda grad: (grad, grad))
    op.state = READY
    with pytest.raises(DeclarationError, match="cannot be given after the operator was verified"):
        op.backward_kernel(lambda grad: (grad, grad))
    with pytest.raises(DeclarationError, match="samples cannot be given after"):
        op.samples(lambda make: ())


# ------------------------------------------------------------------------------------------ samples


def test_samples_are_given_once():
    op = swish()

    @op.samples
    def _(make):
        yield make.call()

    assert op.sampler is _
    with pytest.raises(DeclarationError, match="samples were given twice"):
        op.samples(lambda make: ())


@pytest.mark.parametrize("sampler", [lambda: (), lambda make, more: (), 3])
def test_samples_take_make_alone(sampler):
    with pytest.raises(DeclarationError, match="function"):
        swish().samples(sampler)


def test_what_is_incomplete_says_what_is_missing():
    op = swish()
    rule, samples = op.problems()
    assert "my::swish has no rule" in rule
    assert "@swish.backward" in rule
    assert "my::swish has no samples" in samples
    assert "@swish.samples" in samples
    op.backward(lambda grad: (grad, grad))
    assert op.problems() == [samples]
    op.samples(lambda make: ())
    assert op.problems() == []


def test_what_has_no_gradient_needs_no_rule():
    op = declare(nondifferentiable=True)
    op.samples(lambda make: ())
    assert op.nondifferentiable is True
    assert op.problems() == []


def test_one_differentiable_output_needs_a_rule():
    op = declare(outputs=("values", "indices"), nondifferentiable=("indices",))
    op.samples(lambda make: ())
    assert op.nondifferentiable is False
    assert len(op.problems()) == 1


# -------------------------------------------------------------------------------------------- flags


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"name": "swish"}, "'namespace::name'"),
        ({"exempt": "linear"}, "'linear'; they are linearity; did you mean 'linearity'"),
        ({"exempt": ("linearity", "second order")}, "called 'second order'"),
        ({"cpu": "fast"}, "cpu is a kernel"),
        ({"cuda": 3}, "or plugrad.via_host, got 3"),
        ({"fingerprint": "7"}, "fingerprint is bytes, got '7'"),
        ({"replaces": True}, "'namespace::name'.*got True"),
        ({"kinks": 0}, r"kinks is \{value: derivative\} or a function, got 0"),
        ({"kinks": {0: 0}}, "is for elementwise operators"),
        ({"kinks": {"x": 0}, "elementwise": True}, "maps a number to the derivative"),
        ({"kinks": {0: "x"}, "elementwise": True}, "maps a number to the derivative"),
        ({"kinks": lambda x, y: x}, "does not take 'tol'"),
        ({"kinks": lambda x, y, tol: x}, "does not take 'cap'"),
        ({"kinks": lambda x, *, tol, cap: x}, "takes 1 positional"),
        ({"surrogate": 3}, "expected a function, got 3"),
        (
            {"surrogate": lambda x: x},
            "the surrogate is called with the arrays x, y .* takes 1 positional",
        ),
        ({"surrogate": lambda x, y: x}, r"does not take 'cap' \(\*\*constants"),
        ({"surrogate": lambda x, y, z, cap: x}, "also requires 'z'"),
        ({"surrogate": lambda x, y, **c: x, "nondifferentiable": True}, "that there is none"),
    ],
)
def test_flags_that_mean_nothing(flags, words):
    with pytest.raises(DeclarationError, match=words):
        declare(**flags)


def test_forms_of_kinks():
    assert declare(kinks={0: 0, 1: 0.5}, elementwise=True).kinks == {0: 0, 1: 0.5}

    def slope(cap):
        return cap

    assert declare(kinks={0: slope}, elementwise=True).kinks == {0: slope}

    def near(x, y, *, tol, cap):
        return abs(x) < tol

    assert declare(kinks=near).kinks is near


@pytest.mark.parametrize(
    "surrogate",
    [
        lambda x, y, **constants: x,
        lambda x, y, *, cap: x,
        lambda x, y, *, at, cap: x,
        lambda x, y, at, cap: x,
        lambda *xs, at=None, cap=1.0: xs[0],
    ],
)
def test_forms_of_surrogates(surrogate):
    assert declare(surrogate=surrogate).surrogate is surrogate


def test_a_surrogate_of_a_list():
    def cat(*xs, dim=0): ...

    with pytest.raises(DeclarationError, match=r"does not take a list like \*xs"):
        declare(cat, surrogate=lambda dim: 0)
    assert declare(cat, surrogate=lambda *xs, dim: 0).surrogate is not None
