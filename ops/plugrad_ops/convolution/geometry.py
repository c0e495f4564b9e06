"""Where windows lie: what convolution, pooling and unfolding have in common.

A window of `kernel` elements, `dilation` apart, moves over dimensions of length `size` that are padded at both ends, in
steps of `stride`. All of it is told by tuples with one entry per spatial dimension; the kernels count three of them,
the missing ones have length 1.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import index

import numpy as np

from plugrad_ops.convolution import layouts

__all__ = ["Windows", "as_tuple", "batched", "convolved", "windows"]

DIMS = 3  # of the kernels


@dataclass(frozen=True)
class Windows:
    """Windows over an image.

    Attributes
    ----------
    size, kernel, stride, padding, dilation, out : tuple of int
        Per spatial dimension; `padding` is that in front, `out` the number of windows.
    """

    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    out: tuple[int, ...]

    @cached_property
    def taps(self) -> int:
        """The number of elements of a window."""
        return math.prod(self.kernel)

    @cached_property
    def count(self) -> int:
        """The number of windows."""
        return math.prod(self.out)

    @cached_property
    def table(self) -> np.ndarray:
        """The numbers for the compiled kernels, three of each kind."""
        rows = (self.size, self.kernel, self.stride, self.padding, self.dilation, self.out)
        fill = (1, 1, 1, 0, 1, 1)
        lead = DIMS - len(self.size)
        return np.array([v for row, f in zip(rows, fill) for v in (f,) * lead + row], np.intp)

    @cached_property
    def packed(self) -> bytes:
        """The same for the CUDA kernels."""
        return struct.pack(f"{6 * DIMS}q", *self.table.tolist())

    @cached_property
    def forward(self) -> tuple[layouts.Layout, list[layouts.Grid]]:
        """How `direct` reads images."""
        return layouts.forward(self)

    @cached_property
    def adjoint(self) -> tuple[layouts.Layout, list[layouts.Grid]]:
        """How it reads what is like the windows, for the adjoint by the images."""
        return layouts.adjoint(self)

    @cached_property
    def sums(self) -> tuple[layouts.Layout, layouts.Layout, layouts.Grid]:
        """How it reads that, and images, for the adjoint by the kernel."""
        layout, (grid,) = self.forward
        return layouts.plain(self, layout.rows[2]), layout, grid

    @cached_property
    def squares(self) -> tuple[layouts.Layout, layouts.Layout] | None:
        """How `winograd` reads images, and what is like the windows; None where it does not serve."""
        if self.kernel != (3, 3) or self.stride != (1, 1) or self.dilation != (1, 1):
            return None
        ahead = tuple(2 - p for p in self.padding)
        return (
            layouts.squares(self.size, self.out, self.padding),
            layouts.squares(self.out, self.size, ahead),
        )

    @property
    def is_image(self) -> bool:
        """Whether each window is one element, in the order of the image."""
        return self.taps == 1 and self.out == self.size and not any(self.padding)


@lru_cache(maxsize=4096)
def windows(name, size, kernel, stride, padding, dilation) -> Windows:
    """The windows over an image of spatial shape `size`.

    Parameters
    ----------
    name : str
        The operator's, for errors.
    size, kernel, stride, dilation : tuple of int
    padding : tuple of int or of (int, int)
        At both ends, or in front and behind; negative behind, where windows leave the last elements out.

    Raises
    ------
    RuntimeError
        A number is out of range, or the kernel is larger than the padded image.
    """
    ends = tuple(p if isinstance(p, tuple) else (p, p) for p in padding)
    for word, values, least in (
        ("kernel_size", kernel, 1),
        ("stride", stride, 1),
        ("dilation", dilation, 1),
        ("padding", tuple(low for low, _ in ends), 0),
    ):
        if min(values) < least:
            kind = "positive" if least else "non-negative"
            raise RuntimeError(f"{name}: {word} must be {kind}, got {values}")
    if not len(size) == len(kernel) == len(stride) == len(dilation) == len(ends):
        raise RuntimeError(
            f"{name}: kernel_size, stride, padding and dilation need {len(size)} entries each for an image of spatial "
            f"shape {size}, got {kernel}, {stride}, {padding} and {dilation}"
        )
    padded = tuple(n + low + high for n, (low, high) in zip(size, ends))
    reach = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation))
    if min(size) < 1 or any(n < r for n, r in zip(padded, reach)):
        raise RuntimeError(
            f"{name}: the kernel is larger than the padded input: an image of spatial shape {size} with padding "
            f"{padding} has {padded} elements, kernel_size {kernel} with dilation {dilation} spans {reach}"
        )
    out = tuple((n - r) // s + 1 for n, r, s in zip(padded, reach, stride))
    return Windows(size, kernel, stride, tuple(low for low, _ in ends), dilation, out)


def as_tuple(name, word, value, n) -> tuple[int, ...]:
    """`value` (an integer, or a sequence of one or of `n` integers) as a tuple of `n`.

    Raises
    ------
    RuntimeError
        The sequence has another length.
    TypeError
        An entry is no integer.
    """
    given = tuple(value) if isinstance(value, tuple | list) else (value,)
    try:
        found = tuple(index(v) for v in given)
    except TypeError:
        raise TypeError(
            f"{name}: {word} must be an integer or {n} of them, got {value!r}"
        ) from None
    if len(found) not in (1, n):
        raise RuntimeError(f"{name}: {word} must be an integer or {n} of them, got {value!r}")
    return found if len(found) == n else found * n


def batched(name, input, n):
    """Whether `input` has a dimension for the batch: (N, C, …) rather than (C, …), with `n` spatial dimensions.

    Raises
    ------
    RuntimeError
        It has neither shape.
    """
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"{name}: expected an input of {n + 1} dimensions (C, …) or {n + 2} (N, C, …), got shape {tuple(input.shape)}"
        )
    return input.ndim == n + 2


@lru_cache(maxsize=4096)
def convolved(name, input, weight, bias, stride, padding, dilation, groups) -> Windows:
    """The windows of the convolution of an image of shape `input` with a kernel of shape `weight`.

    Parameters
    ----------
    input, weight : tuple of int
        (N, C, …) and (O, C / groups, …).
    bias : tuple of int or None

    Raises
    ------
    RuntimeError
        Shapes, or shapes and numbers, do not fit together.
    """
    if len(weight) < 3 or len(input) != len(weight) or len(weight) > 2 + DIMS:
        raise RuntimeError(
            f"{name}: expected an input (N, C, …) and a weight (out_channels, in_channels / groups, …) with the same one "
            f"to {DIMS} spatial dimensions, got shapes {input} and {weight}"
        )
    if groups < 1 or weight[0] < 1 or weight[0] % groups:
        raise RuntimeError(
            f"{name}: groups must be positive and divide the output channels, got groups={groups} for a weight of shape "
            f"{weight}"
        )
    if input[1] != weight[1] * groups:
        raise RuntimeError(
            f"{name}: a weight of shape {weight} with groups={groups} needs an input with {weight[1] * groups} channels, "
            f"got {input[1]} (shape {input})"
        )
    if bias is not None and bias != weight[:1]:
        raise RuntimeError(f"{name}: bias must have shape {weight[:1]}, got {bias}")
    return windows(name, input[2:], weight[2:], stride, padding, dilation)
