"""CUDA kernels of the special functions that CUDA lacks; `special.cuh` holds the formulas."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from plugrad_ops.expressions import kernel

HEADER = Path(__file__).with_name("special.cuh")


@cache
def _header() -> str:
    return HEADER.read_text(encoding="utf-8")


def _special(name: str, input: Any, order: int | None = None) -> Any:
    if order is None:
        text = f"special_{name}(double(input))"
        return kernel(text, "input", name=name, header=_header())(input)
    text = f"special_{name}(int(order), double(input))"
    if order < 0:
        raise ValueError(f"{name}: the order must be 0 or greater, got {order}")
    made = kernel(text, "input", constants=("order",), name=name, header=_header())
    return made(input, order=order)


def digamma(input):
    """The kernel of ``standard::digamma``."""
    return _special("digamma", input)


def polygamma_of_order(input, *, order=1):
    """The kernel of ``standard::polygamma_of_order``."""
    return _special("polygamma", input, order)


def erfinv(input):
    """The kernel of ``standard::erfinv``."""
    return _special("erfinv", input)


def sinc(input):
    """The kernel of ``standard::sinc``."""
    return _special("sinc", input, 0)


def sinc_derivative(input, *, order=1):
    """The kernel of ``standard::sinc_derivative``."""
    return _special("sinc", input, order)


def bessel_i(input, *, order=0, scaled=False):
    """The kernel of ``standard::bessel_i``."""
    return _special("bessel_scaled" if scaled else "bessel", input, order)
