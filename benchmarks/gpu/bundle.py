"""Several sources as one text, so that the compiler reads the prelude once for all of them.

Each source was written to be compiled alone, and all use the same names: ``T``, ``element``, ``flat``. A macro in front of
each source gives what it declares a number, and its own macros end behind it. Where the names that are found do not
do, the text does not compile, and whoever asked compiles the sources one by one: a bundle saves time and decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["bundled"]

NOISE = re.compile(r"//[^\n]*|__launch_bounds__\([^)]*\)")
MACRO = re.compile(r"^\s*#\s*define\s+(\w+)", re.MULTILINE)
ENUM = re.compile(r"\benum\s*\w*\s*\{([^}]*)\}")
DECLARED = (
    re.compile(r"\btypedef\b[^;{]*?(\w+)\s*;"),
    re.compile(r"\b(?:struct|class)\s+(\w+)\s*(?::[^{;]*)?\{"),
    # functions and variables begin a line
    re.compile(r"^(?!\s).*?\b(\w+)\s*\([^;]*?\)\s*(?:const\s*)?\{", re.MULTILINE),
    re.compile(
        r"^(?:__shared__|__device__|constexpr|static)\b[^;(]*?(\w+)\s*(?:\[[^;]*\])?\s*(?:=[^;]*)?;",
        re.MULTILINE,
    ),
)
KEYWORDS = {"if", "for", "while", "switch", "operator", "defined", "plugrad", "__launch_bounds__"}


def declared(source: str) -> list[str]:
    """The names that a source declares outside of functions, as far as patterns find them."""
    text = NOISE.sub("", source)
    found = {name for pattern in DECLARED for name in pattern.findall(text)}
    for body in ENUM.findall(text):
        found |= set(re.findall(r"(\w+)\s*=", body))
    return sorted(found - KEYWORDS)


def bundled(sources: Sequence[str]) -> str:
    """One text with the kernels of all of them."""
    parts = []
    for number, source in enumerate(sources):
        names = declared(source)
        parts += [f"#define {name} {name}_{number}" for name in names]
        parts += [f'#line 1 "source {number}"', source]
        parts += [f"#undef {name}" for name in (*MACRO.findall(source), *names)]
    return "\n".join(parts) + "\n"
