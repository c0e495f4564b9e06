"""Correct operators are never refused: surrogates, flags, lists, several outputs, views, composites."""

import numpy as np
import pytest

import plugrad
from plugrad import contract, ops
from plugrad.contract.samples import Maker

CORRECT = []


def correct(build):
    """Register a function that builds a correct operator."""
    CORRECT.append(pytest.param(build, id=build.__name__))
    return build


def unary(function, rule, samples, **flags):
    op = plugrad.operator("correct::unary", elementwise=True, **flags)(function)
    op.backward(rule)
    op.samples(samples)
    return op


def matrices(make):
    yield make.call(make.normal(3, 4))
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal(2, 1, 3))


# ---------------------------------------------------------------------------- surrogates and flags


@correct
def straight_through():
    def samples(make):
        yield make.call(make.values([-1.5, 0.2, 2.7]))

    return unary(lambda x: np.rint(x), lambda grad: grad, samples, surrogate=lambda x: x)


@correct
def learned_step_size():
    """Rounding to a grid of learned spacing: the rounding is held fixed while scale and x vary."""

    def surrogate(x, s, at):
        x0, s0 = at
        return x + s * (np.rint(x0 / s0) - x0 / s0)

    op = plugrad.operator("correct::lsq", elementwise=True, surrogate=surrogate)(
        lambda x, s: s * np.rint(x / s)
    )
    op.backward(lambda grad, x, s, out: (grad, grad * (out / s - x / s)))

    @op.samples
    def _(make):
        yield make.call(make.normal(3, 4), make.values(0.3))
        yield make.call(make.normal(3, 4), make.positive(4))

    return op


@correct
def feedback_alignment():
    """Backward goes through another matrix than forward."""
    feedback = np.random.default_rng(1).standard_normal((4, 3))

    op = plugrad.operator(
        "correct::feedback",
        infer=lambda x, w: ((x.shape[0], 3), x.dtype),
        surrogate=lambda x, w, at: x @ feedback + at[0] @ w,
    )(lambda x, w: x @ w)

    def rule(grad, x, like):
        return ops.matmul(grad, plugrad.tensor(feedback.T, dtype=grad.dtype)), ops.matmul(
            x.t(), grad
        )

    op.backward(rule)

    @op.samples
    def _(make):
        for n in (2, 3, 1):
            yield make.call(make.normal(n, 4), make.normal(4, 3))

    return op


@correct
def gradient_reversal():
    op = plugrad.operator(
        "correct::reversed", elementwise=True, surrogate=lambda x, strength: -strength * x
    )(lambda x, *, strength=1.0: x * 1)
    op.backward(lambda grad, strength: grad * -strength)
    op.samples(lambda make: iter([make.call(make.normal(3), strength=0.5)]))
    return op


@correct
def clipped_gradient_with_the_exemption():
    op = plugrad.operator("correct::clipped", elementwise=True, exempt=("linearity",))(
        lambda x: 2 * x
    )
    op.backward(lambda grad: ops.clamp(grad * 2.0, -100.0, 100.0))
    op.samples(matrices)
    return op


@correct
def nondifferentiable():
    op = plugrad.operator("correct::floor", elementwise=True, nondifferentiable=True)(
        lambda x: np.floor(x)
    )
    op.samples(lambda make: iter([make.call(make.values([-1.5, 0.0, 1.0, 2.5]))]))
    return op


@correct
def comparison():
    op = plugrad.operator(
        "correct::less",
        elementwise=True,
        nondifferentiable=True,
        out_dtype="bool",
        dtypes="numeric",
    )(lambda x, y: x < y)
    op.samples(lambda make: iter([make.call(make.normal(3, 4), make.normal(4))]))
    return op


@correct
def once_differentiable():
    op = plugrad.operator("correct::once", elementwise=True, once_differentiable=True)(
        lambda x: np.exp(x)
    )
    op.backward(lambda grad, out: plugrad.Tensor(grad.array * out.array))
    op.samples(matrices)
    return op


@correct
def random_with_a_generator():
    op = plugrad.operator(
        "correct::jitter", infer=lambda x, generator: (x.shape, x.dtype), random=True
    )(lambda x, *, generator=None: x * generator.integers(x.shape, 1, 3, x.dtype))

    def rule(grad, generator):
        return op(grad, generator=generator)

    op.backward(rule)

    @op.samples
    def _(make):
        yield make.call(make.positive(3))
        yield make.call(make.positive(4), generator=make.generator())
        yield make.call(make.positive(5), generator=make.generator())

    return op


# ------------------------------------------------------------------------- inputs, outputs, memory


@correct
def list_input():
    def infer(*xs, weight=1.0):
        return xs[0].shape, xs[0].dtype

    op = plugrad.operator("correct::total", infer=infer)(
        lambda *xs, weight=1.0: (sum(xs[1:], xs[0]) * weight).astype(xs[0].dtype)
    )
    op.backward(lambda grad, xs, weight: [grad * weight for _ in xs])

    @op.samples
    def _(make):
        yield make.call([make.normal(3), make.normal(3)])
        yield make.call([make.normal(2, 2), make.normal(2, 2), make.normal(2, 2)], weight=2.0)
        yield make.call(make.normal(2), make.normal(2))

    return op


@correct
def optional_input():
    op = plugrad.operator("correct::shifted", elementwise=True)(
        lambda x, shift=None: 2 * x if shift is None else 2 * x + shift
    )
    op.backward(lambda grad, shift: (grad * 2.0, None if shift is None else grad))

    @op.samples
    def _(make):
        yield make.call(make.normal(3, 2))
        yield make.call(make.normal(3, 2), make.normal(2))

    return op


@correct
def several_outputs_with_an_index():
    def function(x):
        return np.asarray(x.max(axis=-1)), np.asarray(x.argmax(axis=-1))

    def infer(x):
        return [(x.shape[:-1], x.dtype), (x.shape[:-1], np.dtype("int64"))]

    op = plugrad.operator(
        "correct::largest",
        outputs=("values", "indices"),
        nondifferentiable=("indices",),
        infer=infer,
    )(function)

    def rule(grad, indices, like):
        hot = np.zeros(like.x.shape, dtype=like.x.dtype)
        np.put_along_axis(hot, indices.array[..., None], 1, axis=-1)
        return grad[0].unsqueeze(-1) * plugrad.Tensor(hot)

    op.backward(rule)

    @op.samples
    def _(make):
        yield make.call(make.distinct(3, 4))
        yield make.call(make.distinct(5))
        yield make.call(make.distinct(2, 1, 3))

    return op


@correct
def integer_input():
    op = plugrad.operator(
        "correct::pick",
        dtypes={"table": "floating", "index": "integer"},
        infer=lambda table, index: (index.shape, table.dtype),
    )(lambda table, index: table[index])

    def rule(grad, index, like):
        eye = np.eye(like.table.shape[0], dtype=like.table.dtype)
        return ops.matmul(grad.reshape(1, -1), plugrad.Tensor(eye[index.array.ravel()])).reshape(
            -1
        ), None

    op.backward(rule)

    @op.samples
    def _(make):
        yield make.call(make.normal(4), make.integers(3, high=4))
        yield make.call(make.normal(4), make.integers(2, 2, high=4))
        yield make.call(make.normal(1), make.integers(high=1))

    return op


@correct
def gauge_freedom():
    """A sign that the forward chooses by the input; only the square is a function."""

    def function(x):
        return np.where(np.floor(1e3 * x) % 2 == 0, x, -x)

    op = plugrad.operator("correct::gauge", infer=lambda x: (x.shape, x.dtype))(function)
    op.backward(lambda grad, x, out: grad * (out / x).detach())

    @op.samples
    def _(make):
        for n in (3, 4, 5):
            yield make.call(make.positive(n), through=lambda out: out * out)

    return op


@correct
def view():
    op = plugrad.operator("correct::turned", view_of="x", infer=lambda x: (x.shape[::-1], x.dtype))(
        lambda x: x.T
    )
    op.backward(lambda grad: ops.permute(grad, tuple(range(grad.ndim))[::-1]))

    @op.samples
    def _(make):
        yield make.call(make.normal(3, 4))
        yield make.call(make.normal(2, 3, 2))
        yield make.call(make.normal())

    return op


@correct
def fused_backward_and_own_kernel():
    op = plugrad.operator(
        "correct::fused", elementwise=True, cpu=lambda x, out=None: np.tanh(x, out=out)
    )(lambda x: (np.exp(2 * x) - 1) / (np.exp(2 * x) + 1))
    op.backward(lambda grad, out: grad * (1.0 - out * out))
    op.backward_kernel(lambda grad, out: grad * (1 - out * out))
    op.samples(lambda make: iter([make.call(make.uniform(3, 4))]))
    return op


@correct
def large_input():
    op = plugrad.operator("correct::mean", infer=lambda x: ((), x.dtype))(
        lambda x: np.asarray(x.mean(), x.dtype)
    )
    op.backward(lambda grad, like: ops.expand(grad / max(like.x.numel(), 1), like.x.shape))

    @op.samples
    def _(make):
        for n in (300, 70, 1000):
            yield make.call(make.normal(n))

    return op


@correct
def normalisation_over_rows():
    def function(x):
        centred = x - x.mean(axis=-1, keepdims=True)
        return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)

    def rule(grad, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        inverse = ((centred * centred).mean(dim=-1, keepdim=True) + 1e-5) ** -0.5
        normal = centred * inverse
        along = (grad * normal).mean(dim=-1, keepdim=True)
        return inverse * (grad - grad.mean(dim=-1, keepdim=True) - normal * along)

    op = plugrad.operator("correct::norm", infer=lambda x: (x.shape, x.dtype))(function)
    op.backward(rule)
    op.samples(matrices)
    return op


@correct
def composite():
    @plugrad.composite("correct::rms")
    def rms(x, dim=-1):
        return ((x * x).mean(dim=dim) + 1.0).sqrt()

    @rms.samples
    def _(make):
        yield make.call(make.normal(3, 4))
        yield make.call(make.normal(3, 4), dim=0)
        yield make.call(make.normal(2))

    return rms


@correct
def composite_with_tensors_by_keyword():
    @plugrad.composite("correct::affine")
    def affine(x, *, weight, bias=None):
        out = x * weight
        return out if bias is None else out + bias

    @affine.samples
    def _(make):
        yield make.call(make.normal(3, 4), weight=make.normal(4))
        yield make.call(make.normal(3, 4), weight=make.normal(3, 1), bias=make.normal(4))
        yield make.call(make.normal(), weight=make.normal())

    return affine


@correct
def one_expression():
    op = plugrad.elementwise("correct::mish", "x * tanh(log1p(exp(x)))")
    op.samples(matrices)
    return op


@pytest.mark.parametrize("build", CORRECT)
@pytest.mark.parametrize("quick", [True, False], ids=["quick", "thorough"])
def test_a_correct_operator_passes(build, quick):
    report = contract.check(build(), quick=quick)
    assert report.passed, str(report)


@pytest.mark.parametrize("build", CORRECT)
def test_a_correct_operator_passes_at_other_points(build):
    """The same operators on samples drawn anew: no tolerance may hold by luck."""
    op = build()
    for seed in range(5):
        made = Maker(f"{op.name} {seed}")
        report = contract.check(op, samples=lambda _, made=made: op.sampler(made))
        assert report.passed, f"seed {seed}: {report}"
