"""contract.check on Functions: plugrad's and, where PyTorch is installed, PyTorch's."""

import numpy as np
import pytest

import plugrad
from plugrad import contract, ops
from plugrad.autograd import Function, once_differentiable


def samples(make):
    yield make.call(make.normal(3, 4))
    yield make.call(make.normal(5))
    yield make.call(make.normal(2, 1, 3))


def function(forward, backward, **members):
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward), **members}
    return type("Mine", (Function,), body)


def refused(cls, *checks, samples=samples, **kwargs):
    report = contract.check(cls, samples, **kwargs)
    found = {failure.check for failure in report.failures}
    assert found & set(checks), str(report)
    return report


def test_a_correct_function_passes():
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y * y

    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return ops.sum_to(grad * y * y, x.shape), ops.sum_to(grad * 2 * x * y, y.shape)

    def pairs(make):
        yield make.call(make.normal(3, 4), make.normal(4))
        yield make.call(make.normal(), make.normal(3))
        yield make.call(make.normal(0, 3), make.normal(3))

    report = contract.check(function(forward, backward), pairs)
    assert report.passed, str(report)
    assert report.subject == "Mine"


def test_constants_go_by_their_name_in_forward():
    def forward(ctx, x, power, scale=1.0):
        ctx.save_for_backward(x)
        ctx.power, ctx.scale = power, scale
        return scale * x**power

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.scale * ctx.power * x ** (ctx.power - 1), None, None

    def powers(make):
        yield make.call(make.positive(3), power=3, scale=2.0)
        yield make.call(make.positive(3), 2)
        yield make.call(make.positive(2, 2), 2.5, 0.5)

    report = contract.check(function(forward, backward), powers)
    assert report.passed, str(report)


def test_samples_as_plain_tuples():
    cls = function(lambda ctx, x: 2 * x, lambda ctx, grad: 2 * grad)
    arrays = [(np.ones(3),), (np.ones((2, 2)),), np.array(1.5)]
    assert contract.check(cls, arrays).passed


def test_setup_context():
    def setup(ctx, inputs, output):
        ctx.save_for_backward(output)

    def backward(ctx, grad):
        (out,) = ctx.saved_tensors
        return grad * out

    cls = function(lambda x: ops.exp(x), backward, setup_context=staticmethod(setup))
    report = contract.check(cls, samples)
    assert report.passed, str(report)


def test_a_wrong_function_is_refused():
    cls = function(lambda ctx, x: 2 * x, lambda ctx, grad: 2.02 * grad)
    report = refused(cls, "gradient")
    assert "1.01 times" in str(report)


def test_without_samples():
    refused(function(lambda ctx, x: 2 * x, lambda ctx, grad: 2 * grad), "samples", samples=None)


def test_a_function_may_be_checked_against_a_surrogate():
    def forward(ctx, x):
        return plugrad.Tensor(np.rint(x.array))

    cls = function(forward, lambda ctx, grad: grad)
    points = [(np.array([0.2, 1.7]),), (np.array([[0.3]]),), (np.array(2.2),)]
    refused(cls, "gradient", samples=points)
    assert contract.check(cls, points, surrogate=lambda x: x).passed
    refused(cls, "surrogate", samples=points, surrogate=lambda x: 3 * x)


def test_in_place_on_the_incoming_gradient():
    def backward(ctx, grad):
        grad.array[...] *= 2  # harms nobody, but is hidden from the graph
        return grad

    refused(function(lambda ctx, x: 2 * x, backward), "second order")
    report = contract.check(function(lambda ctx, x: 2 * x, lambda ctx, g: g.mul_(2)), samples)
    assert report.passed, str(report)


def test_hidden_intermediate():
    def forward(ctx, x):
        ctx.double = 2 * x
        return ctx.double * ctx.double

    refused(function(forward, lambda ctx, grad: 4 * ctx.double * grad), "second order")


def test_strides_of_the_incoming_gradient_ignored():
    def backward(ctx, grad):
        buffer = grad.array
        if min(buffer.strides, default=1) > 0:
            buffer = np.lib.stride_tricks.as_strided(buffer, (buffer.size,), (buffer.itemsize,))
        return plugrad.Tensor(2 * buffer.reshape(grad.shape))

    refused(function(lambda ctx, x: 2 * x, once_differentiable(backward)), "layout")


def test_wrong_in_float32_only():
    def backward(ctx, grad):
        return 2 * grad if grad.dtype == np.float64 else 0 * grad

    refused(function(lambda ctx, x: 2 * x, backward), "dtypes")


def test_undeclared_detached_output():
    def forward(ctx, x):
        second = 3 * x
        ctx.mark_non_differentiable(second)
        return 2 * x, second

    refused(function(forward, lambda ctx, grad, _: 2 * grad), "outputs")


def test_a_node_kept_alive():
    kept = []

    def forward(ctx, x):
        kept.append(ctx)
        ctx.x = x
        return 2 * x

    refused(function(forward, lambda ctx, grad: 2 * grad), "memory")


def test_once_differentiable_is_not_differentiated_twice():
    def forward(ctx, x):
        out = ops.exp(x)
        ctx.save_for_backward(out)
        return out

    @once_differentiable
    def backward(ctx, grad):
        (out,) = ctx.saved_tensors
        return plugrad.Tensor(grad.array * out.array)

    report = contract.check(function(forward, backward), samples)
    assert report.passed, str(report)


def test_what_cannot_be_checked():
    with pytest.raises(TypeError, match=r"operator, a composite or an autograd\.Function"):
        contract.check(lambda x: x, samples)
    with pytest.raises(TypeError, match="surrogate must be a function"):
        contract.check(function(lambda ctx, x: x, lambda ctx, g: g), samples, surrogate=3)
    with pytest.raises(ValueError, match="'tpu'"):
        contract.check(function(lambda ctx, x: x, lambda ctx, g: g), samples, device="tpu")


# --------------------------------------------------------------------------------------- PyTorch


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def torch_function(torch, forward, backward):
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Theirs", (torch.autograd.Function,), body)


def test_a_correct_torch_function_passes(torch):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos()

    report = contract.check(torch_function(torch, forward, backward), samples)
    assert report.passed, str(report)


def test_a_wrong_torch_function_is_refused(torch):
    refused(torch_function(torch, lambda ctx, x: 2 * x, lambda ctx, grad: -2 * grad), "gradient")


def test_torch_in_place_on_the_incoming_gradient(torch):
    cls = torch_function(torch, lambda ctx, x: 2 * x, lambda ctx, grad: grad.mul_(2))
    refused(cls, "unchanged")


def test_torch_function_wrong_in_float32(torch):
    def backward(ctx, grad):
        return 2 * grad if grad.dtype == torch.float64 else torch.zeros_like(grad)

    refused(torch_function(torch, lambda ctx, x: 2 * x, backward), "dtypes")


def test_torch_function_that_ignores_strides(torch):
    def backward(ctx, grad):
        return 2 * grad.as_strided(grad.shape, torch.empty(grad.shape).stride())

    refused(torch_function(torch, lambda ctx, x: 2 * x, backward), "layout")


def test_torch_once_differentiable(torch):
    from torch.autograd.function import once_differentiable as once

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @once
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.exp()

    report = contract.check(torch_function(torch, forward, backward), samples)
    assert report.passed, str(report)


def test_torch_numpy_backward_is_hidden_from_the_graph(torch):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return torch.from_numpy(grad.detach().numpy() * np.exp(x.detach().numpy()))

    refused(torch_function(torch, forward, backward), "second order")
