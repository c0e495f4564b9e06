"""Pooling, under PyTorch's names: each is `max_over_windows` or `resample` with the numbers worked out.

Inputs are (N, C, …) or (C, …), with one to three spatial dimensions.
"""

from plugrad import composite, ops
from plugrad_ops.convolution.geometry import as_tuple, batched
from plugrad_ops.convolution.maps import pooled_length
from plugrad_ops.convolution.maxima import _near


def _sizes(name, input, n):
    """The spatial shape; all dimensions but the batch must have elements."""
    whole = batched(name, input, n)
    if 0 in input.shape[int(whole) :]:
        raise RuntimeError(
            f"{name}: only the batch may be empty, got an input of shape {tuple(input.shape)}"
        )
    return tuple(input.shape[len(input.shape) - n :])


def _numbers(name, n, sizes, kernel_size, stride, padding, dilation, ceil_mode):
    """kernel, stride, padding and dilation per dimension, checked."""
    kernel = as_tuple(name, "kernel_size", kernel_size, n)
    given = stride is not None and stride != ()
    stride = as_tuple(name, "stride", stride, n) if given else kernel
    padding, dilation = (
        as_tuple(name, "padding", padding, n),
        as_tuple(name, "dilation", dilation, n),
    )
    for word, values in (("kernel_size", kernel), ("stride", stride), ("dilation", dilation)):
        if min(values) < 1:
            raise RuntimeError(f"{name}: {word} must be positive, got {values}")
    for p, k, d in zip(padding, kernel, dilation):
        if not 0 <= p <= ((k - 1) * d + 1) // 2:
            raise RuntimeError(
                f"{name}: padding must be non-negative and at most half of what the kernel spans, got padding {padding} "
                f"with kernel_size {kernel} and dilation {dilation}"
            )
    each = zip(sizes, kernel, stride, padding, dilation)
    out = tuple(pooled_length(*numbers, ceil_mode) for numbers in each)
    if min(out) < 1:
        raise RuntimeError(
            f"{name}: the result would have the spatial shape {out}: the input has {sizes}, kernel_size is {kernel}, "
            f"stride {stride}, padding {padding} and dilation {dilation}"
        )
    return list(zip(kernel, stride, padding, dilation))


def _goals(name, n, sizes, output_size):
    """The lengths that adaptive pooling gives; None keeps one."""
    if isinstance(output_size, tuple | list) and len(output_size) == n:
        given = tuple(m if o is None else o for m, o in zip(sizes, output_size))
    else:
        given = output_size
    out = as_tuple(name, "output_size", given, n)
    if min(out) < 0:
        raise RuntimeError(f"{name}: output_size must be non-negative, got {out}")
    return out


# ---- maxima ------------------------------------------------------------------------------------------------------


def _spans(n, input, kernel_size, stride, padding, dilation, ceil_mode):
    name = f"max_pool{n}d"
    sizes = _sizes(name, input, n)
    numbers = _numbers(name, n, sizes, kernel_size, stride, padding, dilation, ceil_mode)
    return tuple(("window", *each, bool(ceil_mode)) for each in numbers)


def _maxima(input, spans, return_indices):
    values, indices = ops.max_over_windows(input, spans=spans)
    return (values, indices) if return_indices else values


def _ties(n):
    def near(
        input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, *, tol, return_indices=False
    ):  # fmt: skip
        spans = _spans(n, input, kernel_size, stride, padding, dilation, ceil_mode)
        return _near(input, tol=tol, spans=spans)

    return near


def _max_samples(n):
    sizes = (4, 3, 2)[:n]

    def samples(make):
        yield make.call(make.distinct(1, 2, *sizes), 2, 1)
        yield make.call(make.distinct(2, *sizes), 2, padding=1, ceil_mode=True, return_indices=True)
        yield make.call(make.distinct(0, 2, *sizes), 2)
        yield make.error(RuntimeError, "at most half", make.distinct(1, 1, *sizes), 2, padding=2)
        yield make.error(RuntimeError, "spatial shape", make.distinct(1, 1, *sizes), 9)

    return samples


@composite("standard::max_pool1d", kinks=_ties(1))
def max_pool1d(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """The greatest element of each window of (N, C, L) or (C, L), and its index on request.

    `stride` is `kernel_size` unless given. What `padding` adds is never the greatest. With `ceil_mode` a last window may
    reach beyond the padding. NaN counts as greatest. The first of equal elements gets the gradient.

    Raises
    ------
    RuntimeError
        A number is out of range, or no window fits.
    """
    spans = _spans(1, input, kernel_size, stride, padding, dilation, ceil_mode)
    return _maxima(input, spans, return_indices)


@composite("standard::max_pool2d", kinks=_ties(2))
def max_pool2d(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """The greatest element of each window of (N, C, H, W) or (C, H, W); see `max_pool1d`."""
    spans = _spans(2, input, kernel_size, stride, padding, dilation, ceil_mode)
    return _maxima(input, spans, return_indices)


@composite("standard::max_pool3d", kinks=_ties(3))
def max_pool3d(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """The greatest element of each window of (N, C, D, H, W) or (C, D, H, W); see `max_pool1d`."""
    spans = _spans(3, input, kernel_size, stride, padding, dilation, ceil_mode)
    return _maxima(input, spans, return_indices)


max_pool1d.samples(_max_samples(1))
max_pool2d.samples(_max_samples(2))
max_pool3d.samples(_max_samples(3))


def _adaptive_spans(n, input, output_size):
    name = f"adaptive_max_pool{n}d"
    goals = _goals(name, n, _sizes(name, input, n), output_size)
    return tuple(("adaptive", goal) for goal in goals)


def _adaptive_ties(n):
    def near(input, output_size, *, tol, return_indices=False):
        return _near(input, tol=tol, spans=_adaptive_spans(n, input, output_size))

    return near


def _adaptive_max_samples(n):
    sizes = (5, 3, 2)[:n]

    def samples(make):
        yield make.call(make.distinct(1, 2, *sizes), 2)
        yield make.call(make.distinct(2, *sizes), (3, None, 1)[:n], return_indices=True)
        yield make.call(make.distinct(0, 2, *sizes), 2)
        yield make.error(RuntimeError, "non-negative", make.distinct(1, 1, *sizes), -1)

    return samples


@composite("standard::adaptive_max_pool1d", kinks=_adaptive_ties(1))
def adaptive_max_pool1d(input, output_size, return_indices=False):
    """Maxima over `output_size` windows that cover (N, C, L) or (C, L) as evenly as can be, and their indices on request."""
    return _maxima(input, _adaptive_spans(1, input, output_size), return_indices)


@composite("standard::adaptive_max_pool2d", kinks=_adaptive_ties(2))
def adaptive_max_pool2d(input, output_size, return_indices=False):
    """Maxima over windows that cover (N, C, H, W) or (C, H, W); None in `output_size` keeps a length."""
    return _maxima(input, _adaptive_spans(2, input, output_size), return_indices)


@composite("standard::adaptive_max_pool3d", kinks=_adaptive_ties(3))
def adaptive_max_pool3d(input, output_size, return_indices=False):
    """Maxima over windows that cover (N, C, D, H, W) or (C, D, H, W); None in `output_size` keeps a length."""
    return _maxima(input, _adaptive_spans(3, input, output_size), return_indices)


adaptive_max_pool1d.samples(_adaptive_max_samples(1))
adaptive_max_pool2d.samples(_adaptive_max_samples(2))
adaptive_max_pool3d.samples(_adaptive_max_samples(3))


# ---- averages ----------------------------------------------------------------------------------------------------


def _averages(
    name, n, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
):
    sizes = _sizes(name, input, n)
    numbers = _numbers(name, n, sizes, kernel_size, stride, padding, 1, ceil_mode)
    if divisor_override is not None and divisor_override == 0:
        raise RuntimeError(f"{name}: divisor_override must not be 0")
    divisors = [None] * n if divisor_override is None else [1] * (n - 1) + [divisor_override]
    maps = tuple(
        ("average", size, k, s, p, bool(ceil_mode), bool(count_include_pad), divisor)
        for size, (k, s, p, _), divisor in zip(sizes, numbers, divisors)
    )
    return ops.resample(input, maps=maps)


def _average_samples(n):
    sizes = (4, 3, 2)[:n]

    def samples(make):
        yield make.call(make.normal(1, 2, *sizes), 2, 1)
        yield make.call(
            make.normal(2, *sizes), 2, padding=1, ceil_mode=True, count_include_pad=False
        )
        yield make.call(make.normal(0, 2, *sizes), 2)
        yield make.error(RuntimeError, "at most half", make.normal(1, 1, *sizes), 2, padding=2)
        yield make.error(RuntimeError, "positive", make.normal(1, 1, *sizes), 2, stride=0)

    return samples


@composite("standard::avg_pool1d")
def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """The average of each window of (N, C, L) or (C, L).

    `stride` is `kernel_size` unless given. With `count_include_pad` the zeros of the padding count; what `ceil_mode`
    lets a last window have beyond the padding never does.

    Raises
    ------
    RuntimeError
        A number is out of range, or no window fits.
    """
    return _averages("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)  # fmt: skip


@composite("standard::avg_pool2d")
def avg_pool2d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):  # fmt: skip
    """The average of each window of (N, C, H, W) or (C, H, W), or its sum by `divisor_override`; see `avg_pool1d`."""
    return _averages("avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)  # fmt: skip


@composite("standard::avg_pool3d")
def avg_pool3d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):  # fmt: skip
    """The average of each window of (N, C, D, H, W) or (C, D, H, W); see `avg_pool2d`."""
    return _averages("avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)  # fmt: skip


avg_pool1d.samples(_average_samples(1))
avg_pool2d.samples(_average_samples(2))
avg_pool3d.samples(_average_samples(3))


def _adaptive_averages(n, input, output_size):
    name = f"adaptive_avg_pool{n}d"
    sizes = _sizes(name, input, n)
    goals = _goals(name, n, sizes, output_size)
    if goals == (1,) * n:
        return ops.mean(input, dim=tuple(range(-n, 0)), keepdim=True)
    maps = tuple(("adaptive", size, goal) for size, goal in zip(sizes, goals))
    return ops.resample(input, maps=maps)


def _adaptive_average_samples(n):
    sizes = (5, 3, 2)[:n]

    def samples(make):
        yield make.call(make.normal(1, 2, *sizes), 2)
        yield make.call(make.normal(2, *sizes), (3, None, 1)[:n])
        yield make.call(make.normal(0, 2, *sizes), 2)
        yield make.error(RuntimeError, "non-negative", make.normal(1, 1, *sizes), -1)

    return samples


@composite("standard::adaptive_avg_pool1d")
def adaptive_avg_pool1d(input, output_size):
    """Averages over `output_size` windows that cover (N, C, L) or (C, L) as evenly as can be."""
    return _adaptive_averages(1, input, output_size)


@composite("standard::adaptive_avg_pool2d")
def adaptive_avg_pool2d(input, output_size):
    """Averages over windows that cover (N, C, H, W) or (C, H, W); None in `output_size` keeps a length."""
    return _adaptive_averages(2, input, output_size)


@composite("standard::adaptive_avg_pool3d")
def adaptive_avg_pool3d(input, output_size):
    """Averages over windows that cover (N, C, D, H, W) or (C, D, H, W); None in `output_size` keeps a length."""
    return _adaptive_averages(3, input, output_size)


adaptive_avg_pool1d.samples(_adaptive_average_samples(1))
adaptive_avg_pool2d.samples(_adaptive_average_samples(2))
adaptive_avg_pool3d.samples(_adaptive_average_samples(3))


# ---- norms -------------------------------------------------------------------------------------------------------


def _norms(n, input, norm_type, kernel_size, stride, ceil_mode):
    """The p-th root of the sum of p-th powers, of each window; as PyTorch, 0 where the sum of odd powers is negative."""
    name = f"lp_pool{n}d"
    kernel = as_tuple(name, "kernel_size", kernel_size, n)
    powers = _averages(name, n, input**norm_type, kernel, stride, 0, ceil_mode, True, None)
    size = 1
    for k in kernel:
        size *= k
    return (ops.sign(powers) * ops.relu(ops.abs(powers)) * size) ** (1.0 / norm_type)


def _norm_samples(n):
    sizes = (4, 3, 2)[:n]

    def samples(make):
        yield make.call(make.positive(1, 2, *sizes), 2, 2, 1)
        yield make.call(make.positive(2, *sizes), 3.0, 2, ceil_mode=True)
        yield make.call(make.positive(0, 2, *sizes), 2, 2)
        yield make.error(RuntimeError, "positive", make.positive(1, 1, *sizes), 2, 0)

    return samples


@composite("standard::lp_pool1d")
def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The p-norm, p being `norm_type`, of each window of (N, C, L) or (C, L); powers keep their sign."""
    return _norms(1, input, norm_type, kernel_size, stride, ceil_mode)


@composite("standard::lp_pool2d")
def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The p-norm of each window of (N, C, H, W) or (C, H, W); see `lp_pool1d`."""
    return _norms(2, input, norm_type, kernel_size, stride, ceil_mode)


@composite("standard::lp_pool3d")
def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The p-norm of each window of (N, C, D, H, W) or (C, D, H, W); see `lp_pool1d`."""
    return _norms(3, input, norm_type, kernel_size, stride, ceil_mode)


lp_pool1d.samples(_norm_samples(1))
lp_pool2d.samples(_norm_samples(2))
lp_pool3d.samples(_norm_samples(3))
