"""Convolution and its adjoints, over one, two and three dimensions.

<convolution(x, w), g> is linear in x, w and g. The three operators here are its derivatives: `convolution` by g,
`convolution_input` by x and `convolution_weight` by w, so each one's rule is the other two, and any order of
derivative exists. What PyTorch offers are names for the first two (`convolutions`).
"""

import numpy as np

from plugrad import operator, ops
from plugrad_ops.convolution import host, reference
from plugrad_ops.convolution.geometry import convolved


def _shape(array):
    return None if array is None else tuple(array.shape)


def _joint(*metas):
    return np.result_type(*(m.dtype for m in metas if m is not None))


def described(input, weight, bias, stride, padding, dilation, groups):
    """The windows of a convolution of these arrays."""
    shapes = _shape(input), _shape(weight), _shape(bias)
    return convolved("convolution", *shapes, stride, padding, dilation, groups)


def _meta(input, weight, bias=None, *, stride, padding, dilation, groups=1):
    w = described(input, weight, bias, stride, padding, dilation, groups)
    return (input.shape[0], weight.shape[0], *w.out), _joint(input, weight, bias)


def _on_host(input, weight, bias=None, *, stride, padding, dilation, groups=1):
    w = described(input, weight, bias, stride, padding, dilation, groups)
    return host.convolution(w, input, weight, bias, groups)


@operator("standard::convolution", infer=_meta, cpu=_on_host, cuda=".cuda:convolution")
def convolution(input, weight, bias=None, *, stride, padding, dilation, groups=1):
    """The cross-correlation of images with a kernel, in one to three dimensions.

    Parameters
    ----------
    input : (N, C, …)
    weight : (O, C / groups, …)
    bias : (O,), optional
    stride, dilation : tuple of int
        One per spatial dimension.
    padding : tuple of int or of (int, int)
        Zeros at both ends of each spatial dimension, or in front and behind; a negative number behind leaves the last
        elements out.
    groups : int
        The channels fall into so many groups, each with output channels of its own.

    Raises
    ------
    RuntimeError
        Shapes do not fit together, or the kernel is larger than the padded image.
    """
    w = described(input, weight, bias, stride, padding, dilation, groups)
    return reference.convolution(w, input, weight, bias, groups)


def _channel_sums(grad):
    return ops.sum(grad, dim=(0, *range(2, grad.ndim)))


@convolution.backward(when={"input": "weight", "weight": "input"})
def _(grad, input, weight, like, needs, stride, padding, dilation, groups):
    constants = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    grad_input = grad_weight = None
    if needs.input:
        size = tuple(like.input.shape[2:])
        grad_input = ops.convolution_input(grad, weight, size=size, **constants)
    if needs.weight:
        kernel = tuple(like.weight.shape[2:])
        grad_weight = ops.convolution_weight(grad, input, kernel_size=kernel, **constants)
    return grad_input, grad_weight, _channel_sums(grad) if needs.bias else None


@convolution.samples
def _(make):
    plain = {"stride": (1,), "padding": (0,), "dilation": (1,)}
    yield make.call(make.normal(2, 1, 4), make.normal(2, 1, 2), make.normal(2), **plain)
    yield make.call(
        make.normal(1, 2, 3, 4), make.normal(2, 1, 2, 2), make.normal(2),
        stride=(1, 2), padding=(1, 0), dilation=(2, 1), groups=2,
    )  # fmt: skip
    yield make.call(
        make.normal(1, 1, 2, 2, 3), make.normal(2, 1, 1, 2, 2),
        stride=(1, 1, 1), padding=((0, 0), (0, 1), (1, 0)), dilation=(1, 1, 1),
    )  # fmt: skip
    yield make.call(make.normal(2, 2, 3), make.normal(1, 2, 1), **plain)
    yield make.error(
        RuntimeError, "2 channels", make.normal(1, 3, 4), make.normal(1, 2, 1), **plain
    )
    yield make.error(RuntimeError, "larger than the padded", make.normal(1, 1, 2), make.normal(1, 1, 3), **plain)  # fmt: skip


def described_input(input, weight, size, stride, padding, dilation, groups):
    """The windows of the convolution whose adjoint is asked for; `input` is like that convolution's result."""
    name = "convolution_input"
    if len(input.shape) != len(weight.shape) or input.shape[1] != weight.shape[0]:
        raise RuntimeError(
            f"{name}: a weight of shape {_shape(weight)} needs an input with {weight.shape[0]} channels and as many "
            f"dimensions, got shape {_shape(input)}"
        )
    image = (input.shape[0], weight.shape[1] * groups, *size)
    w = convolved(name, image, _shape(weight), None, stride, padding, dilation, groups)
    _require_windows(name, input, w)
    return w


def _require_windows(name, grad, w):
    if tuple(grad.shape[2:]) != w.out:
        raise RuntimeError(
            f"{name}: an image of spatial shape {w.size} has {w.out} windows, but the input has shape {_shape(grad)}"
        )


def _require_bias(weight, bias, groups):
    channels = weight.shape[1] * groups
    if bias is not None and tuple(bias.shape) != (channels,):
        raise RuntimeError(
            f"convolution_input: bias must have shape {(channels,)}, got {_shape(bias)}"
        )


def _input_meta(input, weight, bias=None, *, size, stride, padding, dilation, groups=1):
    described_input(input, weight, size, stride, padding, dilation, groups)
    _require_bias(weight, bias, groups)
    return (input.shape[0], weight.shape[1] * groups, *size), _joint(input, weight, bias)


def _input_on_host(input, weight, bias=None, *, size, stride, padding, dilation, groups=1):
    w = described_input(input, weight, size, stride, padding, dilation, groups)
    _require_bias(weight, bias, groups)
    return host.convolution_input(w, input, weight, bias, groups)


@operator(
    "standard::convolution_input",
    infer=_input_meta,
    cpu=_input_on_host,
    cuda=".cuda:convolution_input",
)
def convolution_input(input, weight, bias=None, *, size, stride, padding, dilation, groups=1):
    """The adjoint of `convolution` by its images: a transposed convolution.

    Parameters
    ----------
    input : (N, O, …)
        As the result of the convolution.
    weight : (O, C / groups, …)
    bias : (C,), optional
    size : tuple of int
        The spatial shape of the images, which several may have in common with other windows.

    Returns
    -------
    (N, C, *size)
    """
    w = described_input(input, weight, size, stride, padding, dilation, groups)
    _require_bias(weight, bias, groups)
    return reference.convolution_input(w, input, weight, bias, groups)


@convolution_input.backward(when={"input": "weight", "weight": "input"})
def _(grad, input, weight, like, needs, stride, padding, dilation, groups):
    constants = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    grad_input = grad_weight = None
    if needs.input:
        grad_input = ops.convolution(grad, weight, **constants)
    if needs.weight:
        kernel = tuple(like.weight.shape[2:])
        grad_weight = ops.convolution_weight(input, grad, kernel_size=kernel, **constants)
    return grad_input, grad_weight, _channel_sums(grad) if needs.bias else None


@convolution_input.samples
def _(make):
    plain = {"stride": (1,), "padding": (0,), "dilation": (1,)}
    yield make.call(make.normal(2, 2, 3), make.normal(2, 1, 2), make.normal(1), size=(4,), **plain)
    yield make.call(
        make.normal(1, 2, 2, 2), make.normal(2, 1, 2, 2), make.normal(2),
        size=(3, 5), stride=(2, 2), padding=(1, 0), dilation=(2, 1), groups=2,
    )  # fmt: skip
    yield make.call(
        make.normal(1, 2, 2, 2, 2), make.normal(2, 1, 1, 2, 2),
        size=(2, 2, 2), stride=(1, 1, 1), padding=((0, 0), (0, 1), (1, 0)), dilation=(1, 1, 1),
    )  # fmt: skip
    yield make.error(RuntimeError, "windows", make.normal(1, 1, 3), make.normal(1, 1, 2), size=(9,), **plain)  # fmt: skip
    yield make.error(RuntimeError, "2 channels", make.normal(1, 1, 3), make.normal(2, 1, 2), size=(4,), **plain)  # fmt: skip


def described_weight(grad, input, kernel_size, stride, padding, dilation, groups):
    """The windows of the convolution whose adjoint by the kernel is asked for."""
    name = "convolution_weight"
    if len(grad.shape) != len(input.shape) or grad.shape[0] != input.shape[0]:
        raise RuntimeError(
            f"{name}: grad and input must have equally many dimensions and images, got shapes {_shape(grad)} and "
            f"{_shape(input)}"
        )
    kernel = (grad.shape[1], input.shape[1] // max(groups, 1), *kernel_size)
    w = convolved(name, _shape(input), kernel, None, stride, padding, dilation, groups)
    _require_windows(name, grad, w)
    return w


def _weight_meta(grad_out, input, *, kernel_size, stride, padding, dilation, groups=1):
    described_weight(grad_out, input, kernel_size, stride, padding, dilation, groups)
    shape = (grad_out.shape[1], input.shape[1] // groups, *kernel_size)
    return shape, _joint(grad_out, input)


def _weight_on_host(grad_out, input, *, kernel_size, stride, padding, dilation, groups=1):
    w = described_weight(grad_out, input, kernel_size, stride, padding, dilation, groups)
    return host.convolution_weight(w, grad_out, input, groups)


@operator(
    "standard::convolution_weight",
    infer=_weight_meta,
    cpu=_weight_on_host,
    cuda=".cuda:convolution_weight",
)
def convolution_weight(grad_out, input, *, kernel_size, stride, padding, dilation, groups=1):
    """The adjoint of `convolution` by its kernel.

    Parameters
    ----------
    grad_out : (N, O, …)
        As the result of the convolution.
    input : (N, C, …)
    kernel_size : tuple of int

    Returns
    -------
    (O, C / groups, *kernel_size)
    """
    w = described_weight(grad_out, input, kernel_size, stride, padding, dilation, groups)
    return reference.convolution_weight(w, grad_out, input, groups)


@convolution_weight.backward(when={"grad_out": "input", "input": "grad_out"})
def _(grad, grad_out, input, like, needs, stride, padding, dilation, groups):
    constants = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    by_grad = ops.convolution(input, grad, **constants) if needs.grad_out else None
    by_input = None
    if needs.input:
        size = tuple(like.input.shape[2:])
        by_input = ops.convolution_input(grad_out, grad, size=size, **constants)
    return by_grad, by_input


@convolution_weight.samples
def _(make):
    plain = {"stride": (1,), "padding": (0,), "dilation": (1,)}
    yield make.call(make.normal(2, 2, 3), make.normal(2, 1, 4), kernel_size=(2,), **plain)
    yield make.call(
        make.normal(1, 2, 2, 2), make.normal(1, 2, 3, 5),
        kernel_size=(2, 2), stride=(2, 2), padding=(1, 0), dilation=(2, 1), groups=2,
    )  # fmt: skip
    yield make.call(
        make.normal(1, 2, 2, 2, 2), make.normal(1, 1, 2, 2, 2),
        kernel_size=(1, 2, 2), stride=(1, 1, 1), padding=((0, 0), (0, 1), (1, 0)), dilation=(1, 1, 1),
    )  # fmt: skip
    yield make.error(RuntimeError, "windows", make.normal(1, 1, 3), make.normal(1, 1, 9), kernel_size=(2,), **plain)  # fmt: skip
