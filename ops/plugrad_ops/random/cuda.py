"""CUDA kernels of the random family: the numbers of the CPU, drawn where they are needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from plugrad.backends.cuda.array import contiguous, empty
from plugrad.backends.cuda.elementwise import COPY
from plugrad.backends.cuda.sort import sort_rows
from plugrad_ops.cuda_source import Source, cover
from plugrad_ops.expressions import holds, kernel
from plugrad_ops.random.choices import (
    PROBABILITIES,
    TOO_FEW,
    WEIGHTS,
    check_coins,
    check_permutation,
    check_picks,
)
from plugrad_ops.random.fills import (
    check_interval,
    check_positive,
    check_probability,
    check_range,
    check_spread,
    check_target,
    trial_rate,
)
from plugrad_ops.reduction.cuda import cumsum

SOURCE = Source(Path(__file__).with_name("cuda.cu"), "multinomial")

# ------------------------------------------------------------------------------------------ fills


def fill(name, expression, out, **constants):
    """Write an expression of a stream and numbers into an array."""
    made = kernel(expression, constants=tuple(constants), name=name)
    return made(out=out, shape=out.shape, dtype=out.dtype, **constants)


def uniform_(input, *, from_, to, generator):
    """The kernel of ``standard::uniform_``."""
    check_target("uniform_", input)
    low, high = check_interval(from_, to)
    if (low, high) == (0.0, 1.0):
        return fill("uniform_", "uniform(generator, index)", input, generator=generator)
    value = "stretched(uniform(generator, index), low, span)"
    return fill(
        "uniform_", f"{value} < high ? {value} : low", input,
        low=low, high=high, span=high - low, generator=generator,
    )  # fmt: skip


def normal_(input, *, mean, std, generator):
    """The kernel of ``standard::normal_``."""
    check_target("normal_", input)
    return fill(
        "normal_", "normal(generator, index) * std + mean", input,
        mean=float(mean), std=check_spread("normal_", std), generator=generator,
    )  # fmt: skip


def log_normal_(input, *, mean, std, generator):
    """The kernel of ``standard::log_normal_``."""
    check_target("log_normal_", input)
    check_positive("log_normal_", "std", std)
    return fill(
        "log_normal_", "exp(normal(generator, index) * std + mean)", input,
        mean=float(mean), std=float(std), generator=generator,
    )  # fmt: skip


def exponential_(input, *, lambd, generator):
    """The kernel of ``standard::exponential_``."""
    check_target("exponential_", input)
    check_positive("exponential_", "lambd", lambd)
    return fill(
        "exponential_", "exponential(generator, index) / lambd", input,
        lambd=float(lambd), generator=generator,
    )  # fmt: skip


def geometric_(input, *, p, generator):
    """The kernel of ``standard::geometric_``."""
    check_target("geometric_", input, "fiu")
    rate = trial_rate(check_probability("geometric_", p, zero=False))
    text = "max(ceil(exponential64(generator, index) * rate), double(1))"
    return fill("geometric_", text, input, rate=rate, generator=generator)


def cauchy_(input, *, median, sigma, generator):
    """The kernel of ``standard::cauchy_``."""
    check_target("cauchy_", input)
    check_positive("cauchy_", "sigma", sigma)
    return fill(
        "cauchy_", "cauchy64(generator, index) * sigma + median", input,
        median=float(median), sigma=float(sigma), generator=generator,
    )  # fmt: skip


def random_(input, *, from_, to, generator):
    """The kernel of ``standard::random_``."""
    check_target("random_", input, "fiub")
    low, count = check_range(input.dtype, from_, to)
    return fill(
        "random_", "integers(generator, index, low, count)", input,
        low=signed(low), count=signed(count), generator=generator,
    )  # fmt: skip


def signed(number):
    """The 64-bit integer with the same bits; 2**64 is 0."""
    number %= 2**64
    return number if number < 2**63 else number - 2**64


def bernoulli_(input, *, p, generator):
    """The kernel of ``standard::bernoulli_``."""
    check_target("bernoulli_", input, "fiub")
    p = check_probability("bernoulli_", p)
    return fill(
        "bernoulli_", "chance(generator, index, p) ? 1 : 0", input, p=p, generator=generator
    )


# --------------------------------------------------------------------------------------- dropping

DROP = "chance(generator, index, p) ? 0 : input * scale"


def dropout(input, *, p, generator):
    """The kernel of ``standard::dropout``."""
    p = check_probability("dropout", p)
    made = kernel(DROP, "input", constants=("p", "scale", "generator"), name="dropout")
    return made(input, p=p, scale=1.0 / (1.0 - p) if p < 1.0 else 0.0, generator=generator)


# ---------------------------------------------------------------------------------------- choosing


def bernoulli(input, *, p, generator):
    """The kernel of ``standard::bernoulli``."""
    check_coins(input.dtype, p)
    if p is None and input.size and not holds("x >= 0 && x <= 1", input):
        raise RuntimeError(f"bernoulli: {PROBABILITIES}, and some are not")
    chance = "p" if p is not None else "input"
    constants = ("generator",) if p is None else ("p", "generator")
    made = kernel(
        f"chance(generator, index, {chance}) ? 1 : 0",
        "input",
        constants=constants,
        name="bernoulli",
    )
    given = {"generator": generator} if p is None else {"p": float(p), "generator": generator}
    return made(input, **given)


def multinomial(input, *, num_samples, replacement, generator):
    """The kernel of ``standard::multinomial``."""
    count = check_picks(input, num_samples, replacement)
    weights = contiguous(input)
    if not holds("x >= 0 && isfinite(x)", weights):
        raise RuntimeError(WEIGHTS)
    rows, categories = weights.size // weights.shape[-1], weights.shape[-1]
    sums = cumsum(weights, dim=-1, dtype=np.dtype(np.float64))
    if not holds("x > 0", sums[..., -1:]):
        raise RuntimeError(WEIGHTS)
    shape = (*input.shape[:-1], count)
    if replacement:
        found, points = empty(shape, np.int64), empty(shape, np.float64)
        fill("multinomial", "uniform(generator, index)", points, generator=generator)
        pick = SOURCE.kernel("pick")
        pick(cover(found.size, 128), 128, found, sums, points, rows, categories, count)
        return found
    race = kernel(
        "double(weight) / exponential64(generator, index)", "weight", constants=("generator",),
        out_dtype="float64", name="multinomial",
    )  # fmt: skip
    speeds, order = sort_rows(race(weights, generator=generator).reshape(rows, categories), True)
    if not holds("x > 0", speeds[:, count - 1 : count]):
        raise RuntimeError(TOO_FEW)
    return contiguous(order[:, :count]).reshape(shape)


def fill_permutation(input, *, generator):
    """The kernel of ``standard::fill_permutation``."""
    check_permutation(input)
    if not input.size:
        return
    keys = empty((1, input.size), np.int64)
    low, span = signed(-(2**63)), signed(2**64)
    fill(
        "fill_permutation", "integers(generator, index, low, span)", keys,
        low=low, span=span, generator=generator,
    )  # fmt: skip
    COPY(sort_rows(keys)[1].reshape(input.size), out=input)
