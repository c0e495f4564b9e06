"""CUDA kernels of the reduction, activation and loss families on the emulated device, against their reference functions.

The operators' own samples for every kernel that is not elementwise stand here, too, whatever its family.
"""

import math

import numpy as np
import pytest

import plugrad
import plugrad.nn.functional as F
from plugrad.contract.samples import collect
from plugrad.registry.cuda import kernel_for

NAMES = (
    "matmul", "linear", "sum", "sum_to", "mean", "prod", "amax", "amin", "argmax", "argmin",
    "median_of_all", "all", "any", "std", "var", "norm", "logsumexp", "cumsum", "cumprod", "linear_scan",
    "logcumsumexp",
    "softmax", "log_softmax", "index", "index_accumulate", "index_clear", "index_write",
    "index_write_", "last_writes", "take_along_dim", "add_along_dim", "one_hot",
    "softmax_cross_entropy", "mse_loss", "l1_loss",
)  # fmt: skip
ERROR = {"float16": 3e-3, "float32": 2e-6, "float64": 1e-13}

LAYOUTS = {
    "plain": lambda x: x,
    "transposed": lambda x: np.asarray(x.T, order="C").T,
    "reversed": lambda x: x[(slice(None, None, -1),) * x.ndim].copy()[(slice(None, None, -1),) * x.ndim],
    "stride 0": lambda x: np.broadcast_to(x[:1], x.shape) if x.ndim and x.shape[0] else x,
}  # fmt: skip


def operator_named(name):
    return getattr(plugrad.ops, name)


def constants_of(operator, constants):
    return {**operator.schema.defaults, **constants}


def random(shape, dtype, seed=0):
    rng = np.random.default_rng([seed, *shape])
    if np.dtype(dtype).kind == "b":
        return rng.random(shape) > 0.5
    return (3 * rng.standard_normal(shape)).astype(dtype)


def wide(x):
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def assert_equal_but_for_rounding(got, wanted, dtype, factor=1.0):
    """`wanted` was computed in float64."""
    error = factor * ERROR[np.dtype(dtype).name]
    around = np.max(np.abs(wanted), initial=1e-6, where=np.isfinite(wanted))
    np.testing.assert_allclose(got, wanted, rtol=error, atol=error * around)


def check(device, name, arrays, factor=1.0, **constants):
    """The kernel of an operator against its reference function in float64."""
    operator = operator_named(name)
    constants = constants_of(operator, constants)
    dtype = arrays[0].dtype
    with np.errstate(all="ignore"):
        own = operator.function(*arrays, **constants)
        wanted = operator.function(*map(wide, arrays), **constants)
    got = device.run(kernel_for(operator), *arrays, **constants)
    assert (got.dtype, got.shape) == (own.dtype, np.shape(own))
    if own.dtype.kind == "f":
        assert_equal_but_for_rounding(got, wanted, dtype, factor)
    else:
        np.testing.assert_array_equal(got, own)


# ---- every operator's own samples ----------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NAMES)
def test_own_samples(device, name, layout):
    operator = operator_named(name)
    kernel = kernel_for(operator)
    for sample in collect(operator.sampler, operator.name):
        if layout == "stride 0" and (operator.schema.mutates or sample.raises is not None):
            continue  # it cannot be written to, or lost the element that is wrong
        args = [LAYOUTS[layout](np.asarray(x)) for x in sample.args]
        constants = constants_of(operator, sample.constants)
        if sample.raises is not None:
            with pytest.raises(sample.raises, match=sample.words):
                device.run(kernel, *args, **constants)
            continue
        got = device.run(kernel, *args, **constants)
        copies = [x.copy() if operator.schema.mutates else x for x in args]
        with np.errstate(all="ignore"):
            wanted = operator.function(*copies, **constants)
        assert (got.dtype, got.shape) == (wanted.dtype, np.shape(wanted))
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-14)


# ---- reductions ----------------------------------------------------------------------------------------------

FLOATING = ("sum", "mean", "amax", "amin", "std", "var", "logsumexp", "norm")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", FLOATING)
def test_reductions_at_the_borders_of_warps_and_blocks(device, name, dtype):
    for shape, dim in (
        [((n,), 0) for n in (1, 31, 33, 257, 1025)]
        + [((33, 65), d) for d in (0, 1)]
        + [((2, 3, 40), d) for d in (1, (0, 2), (0, 1, 2))]
    ):
        check(device, name, [random(shape, dtype)], factor=8, dim=dim)


@pytest.mark.parametrize(
    "name", ["sum", "prod", "amax", "argmin", "all", "any", "cumsum", "cumprod"]
)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64"])
def test_reductions_of_integers(device, name, dtype):
    for shape in ((1,), (70,), (5, 33)):
        check(device, name, [random(shape, dtype)], dim=-1)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["sum", "argmax", "var", "cumsum", "median_of_all", "logsumexp"])
def test_reductions_of_any_layout(device, name, layout):
    x = LAYOUTS[layout](random((6, 5, 40), "float32"))
    for dim in (0, 1, 2):
        check(device, name, [x], factor=20, **({} if name == "median_of_all" else {"dim": dim}))


@pytest.mark.parametrize(
    "name", ["amax", "amin", "argmax", "argmin", "median_of_all", "logsumexp", "sum"]
)
@pytest.mark.parametrize(
    "values",
    [
        [np.nan, 1, 2],
        [3, np.nan, np.nan],
        [np.inf, 1, np.inf],
        [-np.inf, -np.inf],
        [-np.inf, 2],
        [2, 2, 1],
    ],
)
def test_what_is_not_finite(device, name, values):
    constants = {"dim": 0} if name == "logsumexp" else {}
    check(device, name, [np.array(values, np.float32)], **constants)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_norms_near_the_ends_of_the_range(device, p, dtype):
    top = 1e30 if dtype == "float32" else 1e250
    for values in ([top, top], [1 / top, 2 / top], [0, 0], [-3, 4], [np.inf, 1], [np.nan, 1]):
        x = np.array(values, dtype)
        operator = operator_named("norm")
        with np.errstate(all="ignore"):
            wanted = operator.function(x, p=p)
        np.testing.assert_allclose(device.run(kernel_for(operator), x, p=p), wanted, rtol=1e-5)


def test_variance_of_a_large_mean(device):
    x = (2.0**20 + np.arange(7)).astype(np.float32)
    check(device, "var", [x], factor=4)


@pytest.mark.parametrize("shape", [(1,), (65,), (3, 700), (130, 9)])
def test_linear_recurrence(device, shape):
    factor, term = random(shape, "float64", 1) / 6, random(shape, "float64", 2)
    for dim in range(len(shape)):
        check(device, "linear_scan", [factor, term], factor=100, dim=dim)


# ---- softmax -------------------------------------------------------------------------------------------------

ROWS = [((3, 10), 1), ((130, 7), 0), ((5, 33), 1), ((2, 1000), 1), ((2, 3, 4, 5), 2), ((2, 40, 33), 1), ((70, 1), 1)]  # fmt: skip


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("dtype", ERROR)
@pytest.mark.parametrize(("shape", "dim"), ROWS)
def test_softmax(device, name, dtype, shape, dim):
    from plugrad_ops.activation import softmax_cuda

    operator = operator_named(name)
    backward = getattr(softmax_cuda, f"{name}_backward")
    for layout in LAYOUTS.values() if math.prod(shape) < 200 else [LAYOUTS["plain"]]:
        x, grad = layout(random(shape, dtype)), layout(random(shape, dtype, 1))
        check(device, name, [x], factor=4, dim=dim)
        out = operator.function(wide(x), dim=dim).astype(dtype)
        got = device.run(lambda g, y: backward(g, y, dim), grad, out)
        wanted = operator.rule_kernel(wide(grad), wide(out), dim)
        assert got.dtype == x.dtype
        assert_equal_but_for_rounding(got, wanted, dtype, 10)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_of_a_row_that_registers_do_not_hold(device, name):
    x = random((2, 17000), "float32")
    check(device, name, [x], factor=4, dim=1)
    x[0, 5], x[1, 16999] = np.nan, -np.inf
    check(device, name, [x], factor=4, dim=1)


# ---- losses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shape", [(9,), (3, 10), (40, 4), (2, 7, 33), (2, 3000)])
def test_cross_entropy(device, shape, smoothing, reduction):
    from plugrad_ops.loss.cross_entropy_cuda import softmax_cross_entropy_backward as backward

    operator = operator_named("softmax_cross_entropy")
    classes = shape[0] if len(shape) == 1 else shape[1]
    outside = shape[:1] + shape[2:] if len(shape) > 1 else ()
    rng = np.random.default_rng(4)
    target = np.asarray(rng.integers(0, classes, outside))
    if target.ndim:
        target[rng.random(outside) < 0.2] = -100
        target.flat[0] = 0
    options = {"ignore_index": -100, "reduction": reduction, "label_smoothing": smoothing}
    for dtype, layout in (("float32", "plain"), ("float16", "plain"), ("float64", "transposed")):
        x = LAYOUTS[layout](random(shape, dtype))
        check(device, "softmax_cross_entropy", [x, target], factor=4, **options)
        grad = np.asarray(random(outside if reduction == "none" else (), dtype, 1))
        got = device.run(lambda *a: backward(*a, *options.values())[0], grad, x, target)
        wanted, _ = operator.rule_kernel(wide(grad), wide(x), target, *options.values())
        assert got.dtype == x.dtype
        assert_equal_but_for_rounding(got, wanted, dtype, 10)


def test_everything_ignored(device):
    x, target = random((3, 4), "float32"), np.full(3, -100)
    kernel = kernel_for(operator_named("softmax_cross_entropy"))
    assert np.isnan(device.run(kernel, x, target, reduction="mean"))
    assert device.run(kernel, x, target, reduction="sum") == 0


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss"])
@pytest.mark.parametrize("shapes", [((4, 5), (4, 5)), ((4, 5), (5,)), ((4, 1), (1, 3)), ((), ())])
def test_errors_and_their_gradients(device, name, shapes):
    operator = operator_named(name)
    from plugrad_ops.loss import errors_cuda

    x, target = (random(shape, "float32", i) for i, shape in enumerate(shapes))
    for reduction in ("mean", "sum", "none"):
        check(device, name, [x, target], factor=4, reduction=reduction)
        out = operator.function(x, target, reduction=reduction)
        leaves = [plugrad.tensor(v.astype(np.float64), requires_grad=True) for v in (x, target)]
        grad = np.ones(np.shape(out), np.float32)
        wanted = plugrad.autograd.grad(
            operator(*leaves, reduction=reduction), leaves, plugrad.tensor(wide(grad))
        )
        needs = Needs()
        found = getattr(errors_cuda, name).backward(
            *map(device.up, (grad, x, target)), None, needs, reduction
        )
        for got, want in zip(found, wanted):
            assert_equal_but_for_rounding(device.down(got), want.numpy(), "float32", 4)


class Needs:
    input = target = True


# ---- classes that are none ---------------------------------------------------------------------------

ROW = [0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("record", [False, True])
def test_a_class_that_is_not_looked_at_and_is_none_has_neither_loss_nor_gradient(
    cuda, monkeypatch, record, weighted, options
):
    monkeypatch.setattr(cuda, "check_indices", False)
    weight = plugrad.tensor([1.0, 2.0, 3.0, 4.0])
    x = plugrad.ones(3, 4, device="cuda", requires_grad=True)
    given = {**options, "reduction": "none"}
    target = plugrad.tensor([2, 99, -4], device="cuda")
    loss = F.cross_entropy(x, target, weight.cuda() if weighted else None, **given)
    (found,) = plugrad.autograd.grad(loss.sum(), [x], create_graph=record)
    alone = plugrad.ones(1, 4, requires_grad=True)
    wanted = F.cross_entropy(alone, plugrad.tensor([2]), weight if weighted else None, **given)
    wanted.sum().backward()
    np.testing.assert_allclose(loss.tolist(), [*wanted.tolist(), 0, 0], rtol=1e-5)
    np.testing.assert_allclose(found.tolist(), [alone.grad.tolist()[0], ROW, ROW], rtol=1e-5)


LOSSES_OF_CLASSES = {
    "cross_entropy": [0, 1, -4],
    "nll_loss": [0, 1, -4],
    "multi_margin_loss": [0, 1, -4],
    "multilabel_margin_loss": [[0, 1, -1, 7]] * 2 + [[2, 4, -1, -1]],
}


@pytest.mark.parametrize("name", LOSSES_OF_CLASSES)
def test_classes_are_looked_at_unless_told_otherwise(cuda, monkeypatch, name):
    x = plugrad.ones(3, 4, device="cuda", requires_grad=True)
    target = plugrad.tensor(LOSSES_OF_CLASSES[name], device="cuda")
    with pytest.raises(IndexError, match=f"^{name}: target -?4 is out of bounds for 4 classes"):
        getattr(F, name)(x, target)
    monkeypatch.setattr(cuda, "check_indices", False)
    getattr(F, name)(x, target).backward()
    assert np.isfinite(x.grad.tolist()).all()
