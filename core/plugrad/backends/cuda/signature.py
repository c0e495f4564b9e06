"""What the text of a kernel says of its parameters: numbers of which kind and size, and which are pointers.

The image tells sizes alone, and not on every device; an ``int`` where the kernel has a ``double`` would be read as another
number. A type that is none of C's, nor a ``typedef`` of one, is left to the sizes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["FLOATING", "INTEGER", "POINTER", "UNKNOWN", "Declared", "declared"]

UNKNOWN, POINTER, FLOATING, INTEGER = range(4)


class Declared(NamedTuple):
    """One parameter; `size` is 0 where its type is not known."""

    kind: int
    size: int
    type: str


_SIZES = {
    FLOATING: {"half": 2, "__half": 2, "float": 4, "double": 8},
    INTEGER: {
        **dict.fromkeys(("bool", "char", "i8", "u8", "int8_t", "uint8_t"), 1),
        **dict.fromkeys(("short", "i16", "u16", "int16_t", "uint16_t"), 2),
        **dict.fromkeys(("int", "unsigned", "u32", "int32_t", "uint32_t"), 4),
        **dict.fromkeys(("long long", "i64", "u64", "int64_t", "uint64_t", "size_t"), 8),
    },
}
_KNOWN = {name: (kind, size) for kind, sizes in _SIZES.items() for name, size in sizes.items()}
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_QUALIFIER = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|__grid_constant__)\b")
_TYPEDEF = re.compile(r"\btypedef\s+([\w\s]+?)\s+(\w+)\s*;|\busing\s+(\w+)\s*=\s*([\w\s]+?)\s*;")


def declared(source: str, name: str) -> list[Declared] | None:
    """The parameters of kernel `name` in a text; None where its declaration cannot be read."""
    text = _COMMENT.sub(" ", source)
    heads = list(re.finditer(rf"__global__[^;{{}}]*?\b{re.escape(name)}\s*\(", text))
    if len(heads) != 1:  # none, or several that the preprocessor chooses from
        return None
    parts = _split(text, heads[0].end())
    if parts is None or any("#" in part for part in parts):
        return None
    aliases = {b or c: a or d for a, b, c, d in _TYPEDEF.findall(text)}
    repeated = len(aliases) < len(_TYPEDEF.findall(text))
    return [_one(part, {} if repeated else aliases) for part in parts]


def _split(text: str, start: int) -> list[str] | None:
    """What stands between commas, up to the parenthesis that closes the one before `start`."""
    parts: list[str] = []
    depth, at = 0, start
    for i in range(start, len(text)):
        c = text[i]
        if c == ")" and depth == 0:
            last = text[at:i].strip()
            return [*parts, last] if last and last != "void" else parts
        if c == "," and depth == 0:
            parts.append(text[at:i].strip())
            at = i + 1
        depth += (c in "(<[{") - (c in ")>]}")
    return None


def _one(text: str, aliases: dict[str, str]) -> Declared:
    words = _QUALIFIER.sub(" ", text)
    if "*" in words or "[" in words:
        return Declared(POINTER, 8, text)
    for own in (words.split(), words.split()[:-1]):  # the name may be left out
        found = _KNOWN.get(_plain(own, aliases))
        if found is not None:
            return Declared(*found, text)
    return Declared(UNKNOWN, 0, text)


def _plain(words: list[str], aliases: dict[str, str]) -> str:
    """A type under one of its names."""
    for _ in range(4):
        if len(words) != 1 or words[0] not in aliases:
            break
        words = aliases[words[0]].split()
    bare = [word for word in words if word not in ("signed", "unsigned")]
    if bare == ["long", "long", "int"] or bare == ["long", "long"]:
        return "long long"
    if bare == ["short", "int"]:
        return "short"
    return " ".join(bare) or "int" if words else ""
