"""An operator's own rule for tangents: how it is declared, checked and used."""

import pytest

import plugrad
from plugrad import contract, operator, tensor
from plugrad.autograd import functional as F
from plugrad.registry import DeclarationError


def product(name, factor=1.0, **flags):
    """x @ y, with k; the second term of its jvp is scaled by `factor`."""
    calls = []

    @operator(name, infer=lambda x, y, *, k: ((x.shape[0], y.shape[1]), x.dtype), **flags)
    def matmul(x, y, *, k=1.0):
        return k * (x @ y)

    @matmul.backward
    def _(grad, x, y, k):
        return k * grad @ y.T, k * x.T @ grad

    @matmul.jvp
    def _(tangents, x, y, k):
        calls.append((tangents.x is not None, tangents.y is not None))
        left = None if tangents.x is None else k * (tangents.x @ y)
        right = None if tangents.y is None else factor * k * (x @ tangents.y)
        return right if left is None else left if right is None else left + right

    @matmul.samples
    def _(make):
        yield make.call(make.normal(2, 3), make.normal(3, 4))
        yield make.call(make.normal(2, 3), make.normal(3, 1), k=2.0)
        yield make.call(make.normal(0, 3), make.normal(3, 1))

    return matmul, calls


def test_a_jvp_is_used_and_checked():
    matmul, calls = product("jvp_test::right")
    plugrad.register(matmul)
    assert (True, False) in calls and (False, True) in calls  # the battery asked
    calls.clear()
    x, y = tensor([[1.0, 2.0]]), tensor([[3.0], [4.0]])
    assert F.jvp(lambda x, y: matmul(x, y, k=3.0), (x, y), (x, y))[1].tolist() == [[66]]
    assert calls == [(True, True)]


def test_a_wrong_jvp_is_refused():
    matmul, _ = product("jvp_test::wrong", 1.01)
    report = contract.check(matmul)
    assert {failure.check for failure in report.failures} == {"tangents"}
    assert "jvp gives something else than the numerical derivative along 'y'" in str(report)


def test_a_once_differentiable_operator_with_a_jvp():
    @operator("jvp_test::once", elementwise=True, once_differentiable=True)
    def once(x):
        return x * x

    once.backward(lambda grad, x: 2 * x * grad)
    once.jvp(lambda tangents, x: 2 * x * tangents.x)
    once.samples(lambda make: (make.call(make.normal(n)) for n in (1, 2, 3)))
    plugrad.register(once)
    assert F.jvp(once, tensor([3.0]), tensor([1.0]))[1].tolist() == [6]


def declared():
    @operator("jvp_test::declared", elementwise=True)
    def declared(x, *, k=1.0):
        return x * k

    return declared


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda grad, x: x, "takes 'tangents' first"),
        (lambda tangents, z: z, "names 'z', which is no input"),
        (lambda tangents, needs: needs, "names 'needs'"),
        (lambda tangents, *x: x, "names exactly what it needs"),
    ],
)
def test_a_rule_that_cannot_be_called(rule, words):
    with pytest.raises(DeclarationError, match=words):
        declared().jvp(rule)


def test_a_second_rule():
    op = declared()
    op.jvp(lambda tangents, k: tangents.x * k)
    with pytest.raises(DeclarationError, match=r"given twice.*@declared\.jvp"):
        op.jvp(lambda tangents, k: tangents.x * k)


@pytest.mark.parametrize(
    ("returned", "error", "words"),
    [
        (lambda t: (t, t), RuntimeError, "must return 1 tangents, one per output, got 2"),
        (lambda t: 1.0, TypeError, "must return Tensors or None"),
    ],
)
def test_a_jvp_that_returns_something_else(returned, error, words):
    op = declared()
    op.jvp(lambda tangents: returned(tangents.x))
    op.backward(lambda grad, k: grad * k)
    x = tensor([1.0, 2.0])
    with pytest.raises(error, match=f"jvp of jvp_test::declared {words}"):
        op.pushforward([x], (1.0,), [x * 1], [x])
