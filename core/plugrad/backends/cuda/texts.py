"""The parts of kernels that lie beside this file as text."""

from __future__ import annotations

from functools import cache
from pathlib import Path

__all__ = ["text_of"]

HERE = Path(__file__).parent


@cache
def text_of(name: str) -> str:
    """A ``.cuh`` file, with the directive that makes a compiler speak of it by name."""
    return f'#line 1 "{name}"\n{(HERE / name).read_text(encoding="utf-8")}#line 1 "generated"\n'
