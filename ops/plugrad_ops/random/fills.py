"""Filling a tensor in place with random numbers.

The n-th element in C order gets the n-th number of the stream, whatever the layout. No gradient passes: what was there
before is gone. Numbers of float16 tensors are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
import operator as integer

import numpy as np

import plugrad
from plugrad import operator
from plugrad.backends.dtypes import finfo, kind, wide

FILL = {
    "infer": lambda input, **constants: (input.shape, input.dtype),
    "mutates": "input",
    "random": True,
    "method": True,
}


def overwritten(grad):
    """The rule of every fill: the old values have no part in the new ones."""
    return plugrad.zeros_like(grad)


def check_target(name, input, kinds="f"):
    """Refuse tensors of other kinds of dtype, and those whose elements share memory."""
    if kind(input.dtype) not in kinds:
        wanted = "floating" if kinds == "f" else "floating, integer or bool"
        raise TypeError(f"{name}: the tensor must be {wanted}, got {input.dtype}")
    if input.size and any(step == 0 and n > 1 for n, step in zip(input.shape, input.strides)):
        raise RuntimeError(
            f"{name}: elements of the tensor written to (shape {tuple(input.shape)}) share memory; "
            "write to a clone()"
        )


def work_dtype(dtype):
    """What numbers for a dtype are computed in."""
    return wide(np.dtype(dtype))


# ------------------------------------------------------------------------------------ uniform, normal


def check_interval(low, high):
    """The two ends as floats.

    Raises
    ------
    RuntimeError
        They are not finite, or in the wrong order.
    """
    low, high = float(low), float(high)
    if not low <= high or math.isinf(low) or math.isinf(high):
        raise RuntimeError(
            f"uniform_: from_ must not exceed to, and both be finite, got {low} and {high}"
        )
    return low, high


@operator("standard::uniform_", dtypes="any", cuda=".cuda:uniform_", **FILL)
def uniform_(input, *, from_=0.0, to=1.0, generator=None):
    """Uniform numbers from `from_` up to, but not including, `to`.

    Raises
    ------
    RuntimeError
        `from_` exceeds `to`.
    """
    check_target("uniform_", input)
    low, high = check_interval(from_, to)
    if (low, high) == (0.0, 1.0):
        generator.fill_uniform(input)
        return input
    number = work_dtype(input.dtype).type
    values = generator.uniform(input.shape, input.dtype).astype(number, copy=False)
    values = values * number(high - low) + number(low)
    input[...] = np.where(values < number(high), values, number(low))  # rounding may reach the end
    return input


uniform_.backward(overwritten)


@uniform_.samples
def _(make):
    yield make.call(make.normal(3, 5))
    yield make.call(make.normal(2, 3), from_=-2.0, to=3.0)
    yield make.call(make.normal(), to=4.0)
    yield make.call(make.normal(0, 3))
    yield make.error(RuntimeError, "exceed", make.normal(3), from_=2.0, to=1.0)
    yield make.error(TypeError, "floating", make.integers(3))


def check_spread(name, std):
    """A standard deviation as a float; RuntimeError if it is negative."""
    if not std >= 0.0:
        raise RuntimeError(f"{name}: std must be >= 0, got {std}")
    return float(std)


def scaled_normal(input, mean, std, generator):
    """``mean + std * z`` in the dtype that is computed in."""
    number = work_dtype(input.dtype).type
    values = generator.normal(input.shape, number)
    return values if (mean, std) == (0.0, 1.0) else values * number(std) + number(mean)


@operator("standard::normal_", dtypes="any", cuda=".cuda:normal_", **FILL)
def normal_(input, *, mean=0.0, std=1.0, generator=None):
    """Normal numbers.

    Raises
    ------
    RuntimeError
        `std` is negative.
    """
    check_target("normal_", input)
    std = check_spread("normal_", std)
    if (mean, std) == (0.0, 1.0):
        generator.fill_normal(input)
    else:
        input[...] = scaled_normal(input, mean, std, generator)
    return input


normal_.backward(overwritten)


@normal_.samples
def _(make):
    yield make.call(make.normal(3, 5))
    yield make.call(make.normal(2, 3), mean=-1.0, std=0.5)
    yield make.call(make.normal(), std=0.0)
    yield make.error(RuntimeError, "std", make.normal(3), std=-1.0)
    yield make.error(TypeError, "floating", make.integers(3))


@operator("standard::log_normal_", dtypes="any", cuda=".cuda:log_normal_", **FILL)
def log_normal_(input, *, mean=1.0, std=2.0, generator=None):
    """Exponentials of normal numbers; `mean` and `std` are those of the normal ones.

    Raises
    ------
    RuntimeError
        `std` is not positive.
    """
    check_target("log_normal_", input)
    check_positive("log_normal_", "std", std)
    input[...] = np.exp(scaled_normal(input, mean, float(std), generator))
    return input


log_normal_.backward(overwritten)


@log_normal_.samples
def _(make):
    yield make.call(make.normal(3, 5), std=0.25)
    yield make.call(make.normal(2, 3), mean=-1.0, std=0.5)
    yield make.call(make.normal(0), mean=0.0, std=0.5)
    yield make.error(RuntimeError, "std", make.normal(3), std=0.0)


# ------------------------------------------------------------------------- exponential and its kin


def check_positive(name, what, value):
    """RuntimeError unless a parameter is positive."""
    if not value > 0.0:
        raise RuntimeError(f"{name}: {what} must be > 0, got {value}")


@operator("standard::exponential_", dtypes="any", cuda=".cuda:exponential_", **FILL)
def exponential_(input, *, lambd=1.0, generator=None):
    """Exponential numbers with the rate `lambd`, never 0 (but for float16).

    Raises
    ------
    RuntimeError
        `lambd` is not positive.
    """
    check_target("exponential_", input)
    check_positive("exponential_", "lambd", lambd)
    number = work_dtype(input.dtype).type
    input[...] = generator.exponential(input.shape, number) / number(lambd)
    return input


exponential_.backward(overwritten)


@exponential_.samples
def _(make):
    yield make.call(make.normal(3, 5))
    yield make.call(make.normal(2, 3), lambd=2.5)
    yield make.call(make.normal())
    yield make.error(RuntimeError, "lambd", make.normal(3), lambd=0.0)
    yield make.error(TypeError, "floating", make.integers(3))


def check_probability(name, p, zero=True):
    """A probability as a float.

    Raises
    ------
    RuntimeError
        It is not from 0 (`zero`: that included) to 1.
    """
    if not (0.0 <= p <= 1.0) or (p == 0.0 and not zero):
        raise RuntimeError(f"{name}: p must be from 0 to 1{'' if zero else ', without 0'}, got {p}")
    return float(p)


@operator("standard::geometric_", dtypes="any", cuda=".cuda:geometric_", **FILL)
def geometric_(input, *, p, generator=None):
    """How many trials it takes until one of probability `p` succeeds: 1, 2, …

    Raises
    ------
    RuntimeError
        `p` is not between 0 and 1.
    """
    check_target("geometric_", input, "fiu")
    check_probability("geometric_", p, zero=False)
    # In double for every dtype: a count that is rounded differently is another count.
    waits = generator.exponential(input.shape, np.float64) * trial_rate(p)
    input[...] = np.maximum(np.ceil(waits), 1.0)
    return input


def trial_rate(p):
    """``-1 / log(1 - p)``: trials per unit of an exponential waiting time."""
    return 0.0 if p == 1.0 else -1.0 / math.log1p(-p)


geometric_.backward(overwritten)


@geometric_.samples
def _(make):
    yield make.call(make.normal(3, 5), p=0.3)
    yield make.call(make.integers(2, 3), p=0.5)
    yield make.call(make.normal(4), p=1.0)
    yield make.error(RuntimeError, "p must be", make.normal(3), p=0.0)


@operator("standard::cauchy_", dtypes="any", cuda=".cuda:cauchy_", **FILL)
def cauchy_(input, *, median=0.0, sigma=1.0, generator=None):
    """Cauchy numbers: the tangent of a uniform angle.

    Raises
    ------
    RuntimeError
        `sigma` is not positive.
    """
    check_target("cauchy_", input)
    check_positive("cauchy_", "sigma", sigma)
    angles = (
        generator.uniform(input.shape, np.float64) - 0.5
    ) * math.pi  # float32 is too coarse near the poles
    input[...] = np.tan(angles) * float(sigma) + float(median)
    return input


cauchy_.backward(overwritten)


@cauchy_.samples
def _(make):
    yield make.call(make.normal(3, 5))
    yield make.call(make.normal(2, 3), median=-1.0, sigma=0.5)
    yield make.call(make.normal(0))
    yield make.error(RuntimeError, "sigma", make.normal(3), sigma=-1.0)


# --------------------------------------------------------------------------------------- integers


def check_range(dtype, from_, to):
    """The range of `random_`: (first number, how many there are).

    Raises
    ------
    RuntimeError
        It is empty, or holds numbers that the dtype does not.
    """
    least, most = limits_of(dtype)
    if to is None:
        from_, to = (None, None) if from_ is None else (0, from_)  # one bound is the upper one
    low = 0 if from_ is None else integer.index(from_)
    high = most + 1 if to is None else integer.index(to)
    if not low < high:
        raise RuntimeError(f"random_: from_ must be below to, got {low} and {high}")
    if (from_ is not None and low < least) or (to is not None and high - 1 > most):
        raise RuntimeError(
            f"random_: {low} to {high - 1} is not within {least} to {most}, what {dtype} holds"
        )
    return low, high - low


def limits_of(dtype):
    """The least and the greatest integer that `random_` may draw for a dtype."""
    if dtype.kind == "b":
        return 0, 1
    if kind(dtype) == "f":
        most = 2 ** (finfo(dtype).nmant + 1)  # all integers up to there are exact
        return -most, most
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


@operator("standard::random_", dtypes="any", cuda=".cuda:random_", **FILL)
def random_(input, *, from_=None, to=None, generator=None):
    """Integers from `from_` up to, but not including, `to`; with one bound, from 0 up to it.

    Without bounds, all that the dtype holds from 0 on (floating: up to where integers stop being exact). The numbers
    depend on the bounds, not on the dtype.

    Raises
    ------
    RuntimeError
        The range is empty or does not fit the dtype.
    """
    check_target("random_", input, "fiub")
    low, count = check_range(input.dtype, from_, to)
    dtype = input.dtype if input.dtype.kind != "b" else np.int64
    input[...] = generator.integers(input.shape, low, low + count, dtype)
    return input


random_.backward(overwritten)


@random_.samples
def _(make):
    yield make.call(make.integers(3, 5))
    yield make.call(make.normal(2, 3), -5, 9)
    yield make.call(make.integers(7), 1000)
    yield make.call(make.booleans(4))
    yield make.error(RuntimeError, "below", make.integers(3), 4, 4)


@operator("standard::bernoulli_", dtypes="any", cuda=".cuda:bernoulli_", **FILL)
def bernoulli_(input, *, p=0.5, generator=None):
    """1 with probability `p`, a number, else 0.

    Raises
    ------
    RuntimeError
        `p` is not from 0 to 1.
    """
    check_target("bernoulli_", input, "fiub")
    input[...] = generator.chance(input.shape, check_probability("bernoulli_", p))
    return input


bernoulli_.backward(overwritten)


@bernoulli_.samples
def _(make):
    yield make.call(make.normal(3, 5))
    yield make.call(make.integers(2, 3), p=0.25)
    yield make.call(make.booleans(4), p=1.0)
    yield make.error(RuntimeError, "p must be", make.normal(3), p=1.5)
