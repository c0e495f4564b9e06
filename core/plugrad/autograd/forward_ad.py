"""Forward mode: tangents that go along with tensors through every operator.

>>> import plugrad
>>> from plugrad.autograd import forward_ad
>>> x, v = plugrad.tensor([1.0, 2.0]), plugrad.tensor([1.0, 0.0])
>>> with forward_ad.dual_level():
...     y = 3 * (forward_ad.make_dual(x, v) ** 2).sum()
...     forward_ad.unpack_dual(y).tangent
tensor(6.)

Tangents can be differentiated, backward too, and a backward pass through dual tensors gives gradients with
tangents. Levels nest.
"""

from __future__ import annotations

from types import TracebackType
from typing import NamedTuple

from plugrad.backends.dtypes import kind
from plugrad.graph import duals, roles
from plugrad.graph.tensor import Tensor

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` returns.

    Attributes
    ----------
    primal : Tensor
        The tensor without its tangent.
    tangent : Tensor or None
        None where the tensor has none, which stands for zero.
    """

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Begin a level of forward mode on this thread; `dual_level` ends it by itself.

    Returns
    -------
    int
        Its depth: 0 for the outermost.
    """
    duals.enter()
    return len(duals.stack()) - 1


def exit_dual_level(*, level: int | None = None) -> None:
    """End a level of forward mode: tensors lose their tangents.

    Parameters
    ----------
    level : int, optional
        What `enter_dual_level` returned, for a check: only the innermost can be left.

    Raises
    ------
    RuntimeError
        There is no level, or `level` is not the innermost.
    """
    depth = len(duals.stack()) - 1
    if depth < 0:
        raise RuntimeError("exit_dual_level(): there is no dual level to leave")
    if level is not None and level != depth:
        raise RuntimeError(
            f"exit_dual_level(): only the innermost level, {depth}, can be left, got level={level}"
        )
    duals.leave()


class dual_level:
    """A block in which tensors can have tangents.

    Examples
    --------
    >>> with dual_level():
    ...     dual = make_dual(x, tangent)
    ...     y = f(dual)
    ...     jvp = unpack_dual(y).tangent
    """

    def __enter__(self) -> int:
        self._depth = enter_dual_level()
        return self._depth

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        exit_dual_level(level=self._depth)


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A copy of `tensor` that carries a tangent.

    The copy has its own memory, so that writing to it does not write to `tensor`; gradients go back to
    `tensor` through it.

    Parameters
    ----------
    tensor : Tensor
        Of a floating or complex dtype.
    tangent : Tensor
        Of the same shape and dtype, on the same device. It may require grad, or be dual in an outer level.
    level : int, optional
        By default the innermost.

    Raises
    ------
    RuntimeError
        No dual level exists, shape, dtype or device differ, or a tangent of this level is there already.
    TypeError
        `tensor` or `tangent` is no Tensor, or not of a floating or complex dtype.
    """
    for name, value in (("tensor", tensor), ("tangent", tangent)):
        if not isinstance(value, Tensor):
            raise TypeError(f"make_dual(): {name} must be a Tensor, got {type(value).__name__}")
    where = _level("make_dual()", level)
    if where is None:
        raise RuntimeError(
            "make_dual(): there is no dual level; enter one with `with forward_ad.dual_level():`"
        )
    if kind(tensor.dtype) not in "fc":
        raise TypeError(
            f"make_dual(): only tensors of a floating or complex dtype have tangents, got {tensor.dtype}"
        )
    if tangent.shape != tensor.shape or tangent.dtype != tensor.dtype:
        raise RuntimeError(
            f"make_dual(): the tangent has shape {tangent.shape} and dtype {tangent.dtype}, "
            f"the tensor {tensor.shape} and {tensor.dtype}"
        )
    if tangent.device != tensor.device:
        raise RuntimeError(
            f"make_dual(): the tangent is on device {tangent.device!r}, the tensor on {tensor.device!r}"
        )
    for name, value in (("tensor", tensor), ("tangent", tangent)):
        if duals.tangent_of(value, where) is not None:
            raise RuntimeError(f"make_dual(): the {name} already has a tangent in this level")
    with duals.below(where):
        dual: Tensor = roles.call("copy", tensor)
    duals.attach(dual, where, tangent)
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """A tensor and its tangent.

    Parameters
    ----------
    tensor : Tensor
    level : int, optional
        By default the innermost.

    Returns
    -------
    UnpackedDualTensor
        ``(primal, tangent)``; the primal is a view without the tangent, and the tangent None where there
        is none. Both may be dual in outer levels.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"unpack_dual(): expected a Tensor, got {type(tensor).__name__}")
    where = _level("unpack_dual()", level)
    tangent = None if where is None else duals.tangent_of(tensor, where)
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    with duals.below(where):
        return UnpackedDualTensor(tensor[...], tangent)


def _level(caller: str, depth: int | None) -> duals.Level | None:
    """The level of that depth on this thread, the innermost for None; None if there is no level at all."""
    stack = duals.stack()
    if depth is None or not stack:
        return stack[-1] if stack else None
    if not 0 <= depth < len(stack):
        raise RuntimeError(
            f"{caller}: there is no dual level {depth}; the innermost is {len(stack) - 1}"
        )
    return stack[depth]
