"""Divergence from a distribution, and likelihoods of normal and Poisson variables."""

import math

from plugrad import composite, elementwise, operator, ops
from plugrad_ops.loss import entropies_cpu, reference
from plugrad_ops.loss.ops import check_reduction, reduced

# ---- divergence ----------------------------------------------------------------------------------------------


@operator(
    "standard::divergence",
    elementwise=True,
    cpu=entropies_cpu.divergence,
    cuda="(target == 0 ? T(0) : target * log(target)) - target * input",
)
def divergence(input, target):
    """``target * (log(target) - input)``, whose first part is 0 at target 0."""
    return reference.divergence_of(input, target)


@divergence.backward
def _(grad, input, target, needs):
    grad_input = -grad * target if needs.input else None
    return grad_input, grad * (ops.log(target) + (1.0 - input)) if needs.target else None


divergence.backward_kernel(
    entropies_cpu.divergence_backward,
    cuda={"input": "-grad * target", "target": "grad * (log(target) + (1 - input))"},
)


@divergence.samples
def _(make):
    yield make.call(make.normal(2, 3), make.positive(2, 3))
    yield make.call(make.normal(2, 3), make.positive(3))
    yield make.call(make.normal(3, 1), make.positive(2))


# Where exp underflows the product is 0, though the logarithm may be -inf.
divergence_of_logs = elementwise(
    "standard::divergence_of_logs",
    "where(exp(target) == 0, 0, exp(target) * (target - input))",
    parameters=("input", "target"),
    doc="``exp(target) * (target - input)``; 0 where the exponential is.",
    cpu=entropies_cpu.divergence_of_logs,
    cpu_backward=entropies_cpu.log_divergence_backward,
)


@composite("standard::kl_div")
def kl_div(input, target, reduction="mean", log_target=False):
    """The Kullback-Leibler divergence of log probabilities `input` from the distribution `target`, element by element.

    Parameters
    ----------
    input : Tensor
        Log probabilities.
    target : Tensor
        Probabilities or, with `log_target`, their logarithms; the two broadcast.
    reduction : "mean", "batchmean", "sum" or "none"
        "batchmean" is the sum divided by the length of the first dimension, which is the divergence's mean over a batch;
        "mean" divides by the number of elements.

    Raises
    ------
    ValueError
        `reduction` is unknown.
    """
    if reduction != "batchmean":
        check_reduction("kl_div", reduction)
    each = (ops.divergence_of_logs if log_target else ops.divergence)(input, target)
    if reduction != "batchmean":
        return reduced("kl_div", each, reduction)
    return ops.sum(each) / (input.shape[0] or math.nan if input.ndim else 1)


@kl_div.samples
def _(make):
    yield make.call(make.normal(2, 3), make.positive(2, 3))
    yield make.call(make.normal(2, 3), make.positive(3), "batchmean")
    yield make.call(make.normal(2, 3), make.normal(2, 3), "sum", log_target=True)
    yield make.call(make.normal(), make.positive(), "batchmean")
    yield make.error(ValueError, "reduction", make.normal(2), make.positive(2), "avg")


# ---- likelihoods ---------------------------------------------------------------------------------------------

poisson_nll = elementwise(
    "standard::poisson_nll",
    "exp(input) - target * input",
    parameters=("input", "target"),
    doc="``exp(input) - target * input``; see `poisson_nll_loss`.",
    cpu=entropies_cpu.poisson,
    cpu_backward=entropies_cpu.poisson_backward,
)

gaussian_nll = elementwise(
    "standard::gaussian_nll",
    "0.5 * (log(var) + (input - target) ** 2 / var)",
    parameters=("input", "target", "var"),
    doc="``(log(var) + (input - target) ** 2 / var) / 2``; see `gaussian_nll_loss`.",
    cpu=entropies_cpu.gaussian,
    cpu_backward=entropies_cpu.gaussian_backward,
)


@composite("standard::poisson_nll_loss")
def poisson_nll_loss(input, target, log_input=True, full=False, eps=1e-8, reduction="mean"):
    """Minus the log likelihood of counts `target` with Poisson distributions whose means are given.

    Parameters
    ----------
    input : Tensor
        Means or, with `log_input`, their logarithms.
    full : bool
        Whether to add Stirling's approximation of log(target!), where `target` exceeds 1.
    eps : float
        Added to means before their logarithm is taken.

    Raises
    ------
    ValueError
        `reduction` is unknown.
    """
    check_reduction("poisson_nll_loss", reduction)
    if log_input:
        loss = ops.poisson_nll(input, target)
    else:
        loss = input - target * ops.log(input + eps)
    if full:
        counts = ops.where(target > 1, target, 1.0)  # the logarithm of what is left out may be -inf
        stirling = counts * ops.log(counts) - counts + 0.5 * ops.log(2 * math.pi * counts)
        loss = loss + ops.where(target > 1, stirling, 0.0)
    return reduced("poisson_nll_loss", loss, reduction)


@poisson_nll_loss.samples
def _(make):
    yield make.call(make.normal(2, 3), make.positive(2, 3))
    yield make.call(make.positive(2, 3), make.positive(3), log_input=False, reduction="sum")
    yield make.call(make.normal(3), make.values([0.0, 0.5, 4.0]), full=True, reduction="none")
    yield make.error(ValueError, "reduction", make.normal(2), make.positive(2), reduction="avg")


@composite("standard::gaussian_nll_loss")
def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Minus the log likelihood of `target` with normal distributions of mean `input` and variance `var`.

    Parameters
    ----------
    input, target : Tensor
        They broadcast.
    var : Tensor or float
        Of the shape of `input`, or without its last dimension, or with one dimension of length 1.
    full : bool
        Whether to add log(2 pi) / 2.
    eps : float
        The least variance. As in PyTorch a lesser one has the gradient that it would have at `eps`, so that it can grow.

    Raises
    ------
    ValueError
        A variance is negative, its shape is none of these, or `reduction` is unknown.
    """
    name = "gaussian_nll_loss"
    check_reduction(name, reduction)
    if isinstance(var, int | float):
        if var < 0:
            raise ValueError(f"{name}: var must not be negative, got {var}")
        var = ops.zeros_like(input) + float(var)
    elif var.numel() and bool(ops.any(var < 0).item()):
        raise ValueError(f"{name}: var must not be negative, and holds {ops.amin(var).item()}")
    if var.shape != input.shape:
        if var.shape == input.shape[:-1]:
            var = ops.unsqueeze(var, dim=-1)
        elif var.ndim != input.ndim or [m for n, m in zip(input.shape, var.shape) if n != m] != [1]:
            raise ValueError(
                f"{name}: var must have the shape {input.shape} of input, lack its last dimension or have one of "
                f"length 1, got {var.shape}"
            )
    least = var.detach()
    var = var + (ops.clamp(least, min=eps) - least)
    loss = ops.gaussian_nll(input, target, var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(name, loss, reduction)


@gaussian_nll_loss.samples
def _(make):
    yield make.call(make.normal(2, 3), make.normal(2, 3), make.positive(2, 3))
    yield make.call(make.normal(2, 3), make.normal(3), make.positive(2), full=True)
    yield make.call(make.normal(2, 3), make.normal(2, 3), make.positive(2, 1), reduction="sum")
    yield make.call(make.normal(3), make.normal(3), 0.5, reduction="none")
    yield make.error(
        ValueError, "negative", make.normal(2), make.normal(2), make.values([1.0, -1.0])
    )
    yield make.error(
        ValueError, "must have the shape", make.normal(2), make.normal(2), make.positive(3)
    )
