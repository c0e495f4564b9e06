"""CUDA expressions that hold for some dtypes or values only.

(a) An expression computes whatever it is given: ``-input`` of bools is a number that nobody asked for. What NumPy refuses
    is refused on the device too, before anything is computed.
(b) Dtypes and Python numbers are looked at on the host. The values of arrays are looked at on the device, and that costs
    a wait for its answer: only where the alternative is a wrong number that looks like a right one.
(c) Nothing of the backend is imported before the first call on a device.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from plugrad.backends.dtypes import kind

__all__ = ["Expression", "bits", "holds", "kernel", "numbers"]

NAMES = {"bui": "integer and bool", "uifc": "integer and floating"}


@cache
def kernel(expression: str, *inputs: str, constants: tuple[str, ...] = (), **options: Any) -> Any:
    """The kernel of an expression; one for every call with the same arguments."""
    from plugrad.backends.cuda.elementwise import Elementwise

    return Elementwise(expression, inputs=inputs, constants=constants, **options)


@dataclass(frozen=True)
class Expression:
    """A CUDA kernel: an expression for arrays of some kinds of dtype, others are refused.

    Parameters
    ----------
    name : str
        The operator's, for errors.
    expression : str
    inputs : tuple of str
    kinds : str
        The kinds of dtype that it takes, in NumPy's letters.
    """

    name: str
    expression: str
    inputs: tuple[str, ...]
    kinds: str

    def __call__(self, *operands: Any) -> Any:
        require_kind(self.name, self.kinds, *operands)
        return kernel(self.expression, *self.inputs, name=self.name)(*operands)

    def __repr__(self) -> str:
        return f"<CUDA kernel of {self.name}: {self.expression}>"


def require_kind(name: str, kinds: str, *operands: Any) -> None:
    """Raise TypeError unless all arrays among the operands are of these kinds of dtype."""
    for operand in operands:
        dtype = getattr(operand, "dtype", None)
        if dtype is not None and kind(dtype) not in kinds:
            raise TypeError(f"{name} takes {NAMES[kinds]} tensors, got {dtype}")


def numbers(name: str, expression: str, *inputs: str) -> Expression:
    """An expression of integers and floats; bools are refused."""
    return Expression(name, expression, inputs, "uifc")


def bits(name: str, expression: str, *inputs: str) -> Expression:
    """An expression of integers and bools; floats are refused."""
    return Expression(name, expression, inputs, "bui")


def holds(condition: str, array: Any) -> bool:
    """Whether an expression of ``x`` is true of every element of an array; waits for the device."""
    from plugrad.backends.cuda.array import to_host

    return bool(to_host(_all(condition)(array)))


@cache
def _all(condition: str) -> Any:
    from plugrad.backends.cuda.reduction import Reduction

    return Reduction(
        map=f"({condition}) ? 1 : 0",
        combine="a & b",
        identity="1",
        acc="int",
        finish="a != 0",
        out_dtype="bool",
        name=f"whether {condition}",
    )
