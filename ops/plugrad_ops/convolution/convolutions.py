"""Convolution and transposed convolution under PyTorch's names, for (N, C, …) and (C, …)."""

from plugrad import composite, ops
from plugrad_ops.convolution.geometry import as_tuple, batched


def _same(name, weight, stride, dilation):
    """The padding with which the result has the size of the input; where it is odd there is one more behind."""
    if any(s != 1 for s in stride):
        raise RuntimeError(f"{name}: padding='same' needs a stride of 1, got {stride}")
    total = [d * (k - 1) for k, d in zip(weight.shape[2:], dilation)]
    return tuple((t // 2, t - t // 2) for t in total)


def _convolved(n, input, weight, bias, stride, padding, dilation, groups):
    name = f"conv{n}d"
    if weight.ndim != n + 2:
        raise RuntimeError(f"{name}: weight must have {n + 2} dimensions, got shape {weight.shape}")
    whole = batched(name, input, n)
    stride = as_tuple(name, "stride", stride, n)
    dilation = as_tuple(name, "dilation", dilation, n)
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise RuntimeError(
                f"{name}: padding must be 'same', 'valid' or numbers, got {padding!r}"
            )
        padding = _same(name, weight, stride, dilation) if padding == "same" else (0,) * n
    else:
        padding = as_tuple(name, "padding", padding, n)
    images = input if whole else ops.unsqueeze(input, dim=0)
    out = ops.convolution(
        images, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups
    )
    return out if whole else ops.squeeze(out, dim=0)


def _transposed(n, input, weight, bias, stride, padding, output_padding, groups, dilation):
    name = f"conv_transpose{n}d"
    if weight.ndim != n + 2:
        raise RuntimeError(f"{name}: weight must have {n + 2} dimensions, got shape {weight.shape}")
    whole = batched(name, input, n)
    stride = as_tuple(name, "stride", stride, n)
    padding = as_tuple(name, "padding", padding, n)
    extra = as_tuple(name, "output_padding", output_padding, n)
    dilation = as_tuple(name, "dilation", dilation, n)
    if any(e < 0 or e >= max(s, d) for e, s, d in zip(extra, stride, dilation)):
        raise RuntimeError(
            f"{name}: output_padding must be non-negative and smaller than stride or dilation, got {extra} with stride "
            f"{stride} and dilation {dilation}"
        )
    images = input if whole else ops.unsqueeze(input, dim=0)
    size = tuple(
        (length - 1) * s - 2 * p + d * (k - 1) + e + 1
        for length, s, p, d, k, e in zip(
            images.shape[2:], stride, padding, dilation, weight.shape[2:], extra
        )
    )
    if min(size) < 1:
        raise RuntimeError(
            f"{name}: the result would have the spatial shape {size}, from an input of shape {input.shape}, a weight of "
            f"shape {weight.shape}, stride {stride} and padding {padding}"
        )
    # With a dilation larger than the stride there may be room for more windows: they are left out.
    ends = tuple(
        (p, (length - 1) * s + d * (k - 1) + 1 - n - p) if e >= s else p
        for n, length, s, p, d, k, e in zip(
            size, images.shape[2:], stride, padding, dilation, weight.shape[2:], extra
        )
    )
    out = ops.convolution_input(
        images, weight, bias, size=size, stride=stride, padding=ends, dilation=dilation, groups=groups
    )  # fmt: skip
    return out if whole else ops.squeeze(out, dim=0)


def _conv_samples(n):
    lengths, kernel = (4, 3, 2)[:n], (2,) * n

    def samples(make):
        yield make.call(make.normal(1, 1, *lengths), make.normal(2, 1, *kernel), make.normal(2))
        yield make.call(
            make.normal(2, *lengths), make.normal(2, 1, *kernel), stride=2, padding=1, groups=2
        )
        yield make.call(make.normal(1, 1, *lengths), make.normal(1, 1, *kernel), padding="same")
        yield make.error(RuntimeError, "dimensions", make.normal(3), make.normal(2, 1, *kernel))
        yield make.error(RuntimeError, "'same'", make.normal(1, 1, *lengths), make.normal(2, 1, *kernel), padding="full")  # fmt: skip

    return samples


@composite("standard::conv1d")
def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """The convolution of (N, C, L) or (C, L) with a kernel (O, C / groups, K); `padding` may be "same" or "valid"."""
    return _convolved(1, input, weight, bias, stride, padding, dilation, groups)


@composite("standard::conv2d")
def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """The convolution of (N, C, H, W) or (C, H, W) with a kernel (O, C / groups, …); see `conv1d`."""
    return _convolved(2, input, weight, bias, stride, padding, dilation, groups)


@composite("standard::conv3d")
def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """The convolution of (N, C, D, H, W) or (C, D, H, W) with a kernel (O, C / groups, …); see `conv1d`."""
    return _convolved(3, input, weight, bias, stride, padding, dilation, groups)


conv1d.samples(_conv_samples(1))
conv2d.samples(_conv_samples(2))
conv3d.samples(_conv_samples(3))


def _transpose_samples(n):
    lengths, kernel = (3, 2, 2)[:n], (2,) * n

    def samples(make):
        yield make.call(make.normal(1, 2, *lengths), make.normal(2, 1, *kernel), make.normal(1))
        yield make.call(
            make.normal(2, *lengths), make.normal(2, 1, *kernel), stride=2, output_padding=1, groups=2
        )  # fmt: skip
        yield make.call(make.normal(1, 1, *lengths), make.normal(1, 1, *kernel), padding=1, dilation=2)  # fmt: skip
        yield make.error(RuntimeError, "smaller than stride", make.normal(1, 1, *lengths), make.normal(1, 1, *kernel), output_padding=1)  # fmt: skip

    return samples


@composite("standard::conv_transpose1d")
def conv_transpose1d(
    input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    """The transposed convolution of (N, C, L) or (C, L) with a kernel (C, O / groups, K).

    `output_padding` is added to the size of the result behind, where several sizes would do.
    """
    return _transposed(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@composite("standard::conv_transpose2d")
def conv_transpose2d(
    input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    """The transposed convolution of (N, C, H, W) or (C, H, W); see `conv_transpose1d`."""
    return _transposed(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@composite("standard::conv_transpose3d")
def conv_transpose3d(
    input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    """The transposed convolution of (N, C, D, H, W) or (C, D, H, W); see `conv_transpose1d`."""
    return _transposed(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


conv_transpose1d.samples(_transpose_samples(1))
conv_transpose2d.samples(_transpose_samples(2))
conv_transpose3d.samples(_transpose_samples(3))
