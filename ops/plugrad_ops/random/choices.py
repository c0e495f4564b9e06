"""Random choices: coins, categories, permutations. They have no gradient."""

from __future__ import annotations

import operator as integer

import numpy as np

from plugrad import operator
from plugrad.backends.dtypes import finfo, kind
from plugrad_ops.random.fills import check_probability, check_target, overwritten

# ------------------------------------------------------------------------------------------ coins

PROBABILITIES = "probabilities are from 0 to 1"


@operator(
    "standard::bernoulli",
    elementwise=True,
    dtypes="numeric",
    random=True,
    nondifferentiable=True,
    method=True,
    cuda=".cuda:bernoulli",
)
def bernoulli(input, *, p=None, generator=None):
    """1 with the probability that the element says, else 0; with `p`, that for all elements.

    Raises
    ------
    RuntimeError
        A probability is not from 0 to 1.
    TypeError
        `input` is not floating, and there is no `p`.
    """
    check_coins(input.dtype, p)
    if p is None and input.size and not (input.min() >= 0 and input.max() <= 1):
        raise RuntimeError(f"bernoulli: {PROBABILITIES}, got {input.min()} to {input.max()}")
    return generator.chance(input.shape, input if p is None else p).astype(input.dtype)


def check_coins(dtype, p):
    """What can be known to be wrong without looking at the elements."""
    if p is not None:
        check_probability("bernoulli", p)
    elif kind(dtype) != "f":
        raise TypeError(f"bernoulli: without p the tensor holds probabilities, got {dtype}")


@bernoulli.samples
def _(make):
    yield make.call(make.uniform(3, 4, low=0.0, high=1.0))
    yield make.call(make.values([0.01, 0.99, 0.5]))
    yield make.call(make.normal(2, 5), p=0.25, generator=make.generator())
    yield make.error(RuntimeError, "from 0 to 1", make.values([0.5, 1.5]))
    yield make.error(RuntimeError, "p must be", make.values([0.5]), p=-1.0)


# ------------------------------------------------------------------------------------- categories

MOST_CATEGORIES = 2**24


def _picks_meta(input, *, num_samples, replacement=False, generator=None):
    return (*input.shape[:-1], num_samples), np.dtype(np.int64)


def check_picks(input, num_samples, replacement):
    """Number of samples, once shapes make sense."""
    name, count = "multinomial", integer.index(num_samples)
    if input.ndim not in (1, 2) or not 0 < input.shape[-1] <= MOST_CATEGORIES:
        raise RuntimeError(
            f"{name}: input is one row of weights or several, with 1 to 2**24 categories, got shape {tuple(input.shape)}"
        )
    if count <= 0:
        raise RuntimeError(f"{name}: num_samples must be > 0, got {count}")
    if not replacement and count > input.shape[-1]:
        raise RuntimeError(
            f"{name}: {count} samples without replacement do not fit {input.shape[-1]} categories"
        )
    return count


WEIGHTS = "multinomial: weights are finite, not negative and not all 0 in a row"
TOO_FEW = "multinomial: without replacement each sample needs a category of positive weight"


@operator(
    "standard::multinomial",
    infer=_picks_meta,
    random=True,
    nondifferentiable=True,
    method=True,
    cuda=".cuda:multinomial",
)
def multinomial(input, *, num_samples, replacement=False, generator=None):
    """Indices drawn from each row, in proportion to its weights, which need not sum to 1.

    With replacement, by where a uniform number falls among the running sums. Without, by a race: of exponential waiting
    times with these rates the shortest come first (Efraimidis and Spirakis, Information Processing Letters 97, 2006).

    Raises
    ------
    RuntimeError
        Weights are negative, not finite or all 0, or there are too few for `num_samples`.
    """
    count = check_picks(input, num_samples, replacement)
    weights = input.reshape(-1, input.shape[-1]).astype(np.float64)
    if not (np.isfinite(weights).all() and (weights >= 0).all() and (weights.sum(-1) > 0).all()):
        raise RuntimeError(WEIGHTS)
    if replacement:
        found = np.empty((len(weights), count), np.int64)
        points = generator.uniform(found.shape, np.float64)
        for row, sums, at in zip(found, weights.cumsum(-1), points):
            last = np.searchsorted(sums, sums[-1])  # rounding may reach the end of the sums
            row[...] = np.minimum(np.searchsorted(sums, at * sums[-1], side="right"), last)
    else:
        if (np.count_nonzero(weights, -1) < count).any():
            raise RuntimeError(TOO_FEW)
        speeds = weights / generator.exponential(weights.shape, np.float64)
        found = np.argsort(-speeds, axis=-1, kind="stable")[:, :count]
    return np.ascontiguousarray(found, np.int64).reshape(*input.shape[:-1], count)


@multinomial.samples
def _(make):
    yield make.call(make.values([0.0, 3.0, 1.0, 0.0]), 2)
    yield make.call(make.positive(3, 5), 5)
    yield make.call(make.positive(2, 4), 7, True)
    yield make.call(make.values([[0.0, 1.0], [1.0, 0.0]]), 3, True)
    yield make.error(RuntimeError, "not negative", make.values([1.0, -1.0]), 1)
    yield make.error(RuntimeError, "do not fit", make.positive(3), 4)
    yield make.error(RuntimeError, "positive weight", make.values([0.0, 1.0]), 2)


# ----------------------------------------------------------------------------------- permutations


def check_permutation(input):
    """Refuse what cannot hold one."""
    name = "fill_permutation"
    check_target(name, input, "fiu")
    if input.ndim != 1:
        raise RuntimeError(f"{name}: takes one dimension, got shape {tuple(input.shape)}")
    dtype = input.dtype
    most = 2 ** (finfo(dtype).nmant + 1) if kind(dtype) == "f" else int(np.iinfo(dtype).max)
    if input.shape[0] - 1 > most:
        raise RuntimeError(f"{name}: {dtype} does not hold the integers up to {input.shape[0] - 1}")


@operator(
    "standard::fill_permutation",
    dtypes="any",
    infer=lambda input, generator: (input.shape, input.dtype),
    mutates="input",
    random=True,
    cuda=".cuda:fill_permutation",
)
def fill_permutation(input, *, generator=None):
    """Write the integers from 0 on in random order: that of 64 random bits for each.

    Raises
    ------
    RuntimeError
        `input` has not one dimension, or its dtype does not hold them.
    """
    check_permutation(input)
    keys = generator.integers(input.shape, -(2**63), 2**63)
    input[...] = np.argsort(keys, kind="stable")
    return input


fill_permutation.backward(overwritten)


@fill_permutation.samples
def _(make):
    yield make.call(make.integers(7))
    yield make.call(make.normal(40))
    yield make.call(make.integers(0))
    yield make.error(RuntimeError, "one dimension", make.integers(2, 2))
