"""C expressions of kernels: which names they use, and how they are made to mean what their author meant.

(a) An expression is C over names that the kernel gives it. Where C and Python read a text differently, Python wins or the
    text is refused: ``0.5`` is a number of the kernel's own type (no accidental double), ``1 / n`` is a quotient (C gives
    0), ``**`` and ``//`` are errors.
(b) Names are checked before anything is compiled; functions are left to the compiler, which knows them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

__all__ = ["RESERVED", "check_expression", "check_parameters", "names_in", "written"]

TOKEN = re.compile(
    r"""
    (?P<space>\s+|/\*.*?\*/|\\\n)
    | (?P<number>0[xX][\da-fA-F]+[uUlL]*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFlLuU]*)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<mark>\*\*|//|->|::|<<|>>|<=|>=|==|!=|&&|\|\||.)
    """,
    re.VERBOSE | re.DOTALL,
)

RESERVED = frozenset(("T", "R", "INF", "NAN", "PI", "index"))
"""What an expression may use besides its own names; `index` only where an element has a number."""

_TYPES = (
    "bool char double float half i8 i16 i64 int long short signed u8 u16 u32 u64 unsigned int8_t int16_t int32_t int64_t "
    "uint8_t uint16_t uint32_t uint64_t"
)
_OTHERS = (
    "alignas alignof and asm auto bitand bitor break case catch class compl constexpr continue decltype default "
    "delete do else enum explicit export extern for friend goto if inline mutable namespace new noexcept not "
    "nullptr operator or private protected public register return static struct switch template this throw try "
    "typedef typeid typename union using virtual void volatile wchar_t while xor"
)
WORDS = frozenset(
    (*_TYPES.split(), "true", "false", "static_cast", "sizeof", "const", "highest", "lowest")
)
KEYWORDS = WORDS | frozenset(_OTHERS.split())
"""Words that C++ keeps to itself."""

PYTHON = {
    "and": "&&", "or": "||", "not": "!", "if": "c ? a : b", "else": "c ? a : b", "True": "true", "False": "false",
}  # fmt: skip

Token = tuple[str, str]


def tokens_of(text: str) -> list[Token]:
    """(kind, text) of each token; together they are the text."""
    found = []
    for match in TOKEN.finditer(text):
        assert match.lastgroup is not None
        found.append((match.lastgroup, match.group()))
    return found


def is_floating(number: str) -> bool:
    """Whether C reads a number as a floating one."""
    return not number.startswith(("0x", "0X")) and any(c in number for c in ".eEfF")


def names_in(text: str) -> list[str]:
    """The names that an expression uses as values, each once, in order of first appearance."""
    solid = [token for token in tokens_of(text) if token[0] != "space"]
    found: dict[str, None] = {}
    for before, (kind, name), after in zip([("", ""), *solid], solid, [*solid[1:], ("", "")]):
        if kind != "name" or name in WORDS:
            continue
        if before[1] in (".", "->", "::") or after[1] in ("(", "::"):
            continue
        found[name] = None
    return list(found)


# ------------------------------------------------------------------------------------------ checks


def check_parameters(kernel: str, names: Iterable[str], taken: Iterable[str] = ()) -> None:
    """Refuse names that cannot be variables of a kernel.

    Raises
    ------
    ValueError
        One is no identifier, a word of C++, given twice, or among those `taken`.
    """
    seen: set[str] = set(taken)
    for name in names:
        if not name.isidentifier() or not name.isascii():
            raise ValueError(f"{kernel}: {name!r} cannot name a variable of a kernel")
        if name in KEYWORDS or name in RESERVED - {"index"} or name.startswith("pg_"):
            raise ValueError(
                f"{kernel}: {name!r} has a meaning of its own in a kernel, choose another name"
            )
        if name in seen:
            raise ValueError(f"{kernel}: the name {name!r} is given twice or is taken")
        seen.add(name)


def check_expression(kernel: str, text: str, known: Collection[str]) -> list[str]:
    """The names among `known` that an expression uses.

    Parameters
    ----------
    kernel : str
        The operator's or kernel's name, for errors.
    text : str
    known : collection of str
        What it may name.

    Raises
    ------
    ValueError
        It is empty, is no single expression, uses an unknown name, or what Python has and C has not.
    """
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{kernel}: a kernel's expression is C text, got {text!r}")
    tokens = [token for token in tokens_of(text) if token[0] != "space"]
    for kind, token in tokens:
        if kind != "mark":
            continue
        if token == "**":
            raise ValueError(f"{kernel}: C has no ** (in {text!r}); write pow(a, b) or square(a)")
        if token == "//":
            raise ValueError(
                f"{kernel}: // starts a comment in C (in {text!r}); write floor_divide(a, b), or /* a comment */"
            )
        if token in (";", "{", "}", "#", "\\"):
            raise ValueError(f"{kernel}: {text!r} must be one C expression, without {token!r}")
    _check_brackets(kernel, text, tokens)
    names = names_in(text)
    for name in names:
        if name not in known and name not in RESERVED:
            raise ValueError(f"{kernel}: {text!r} uses {name!r}, {_advice(name, known)}")
    return [name for name in names if name in known]


def _check_brackets(kernel: str, text: str, tokens: list[Token]) -> None:
    """Refuse what a bracket more or less, or a lost operand, would turn into an error far from the text."""
    opened: list[str] = []
    for _, token in tokens:
        if token in ("(", "["):
            opened.append(token)
        elif token in (")", "]"):
            if not opened or opened.pop() + token not in ("()", "[]"):
                raise ValueError(f"{kernel}: {text!r} closes a {token!r} that it does not open")
        elif token == "," and not opened:
            raise ValueError(f"{kernel}: {text!r} must be one C expression, and has a comma")
    if opened:
        raise ValueError(f"{kernel}: {text!r} does not close its {opened[-1]!r}")
    kind, last = tokens[-1]
    if kind == "mark" and last not in (")", "]"):
        raise ValueError(f"{kernel}: {text!r} ends with {last!r}, an operand is missing")


def _advice(name: str, known: Collection[str]) -> str:
    if name in PYTHON:
        return f"which is Python; in C it is {PYTHON[name]}"
    import difflib  # only where there is an error to explain

    close = difflib.get_close_matches(name, known, 1)
    listed = ", ".join(known) or "none"
    return f"which is unknown; known names: {listed}" + (
        f"; did you mean {close[0]!r}?" if close else ""
    )


# ----------------------------------------------------------------------------------------- writing


def written(text: str, real: str, floating: Collection[str]) -> str:
    """The expression as it is compiled.

    Parameters
    ----------
    text : str
    real : str
        The C type that floating numbers are given.
    floating : collection of str
        Names that stand for floating values, next to which a division needs no help.
    """
    tokens = tokens_of(text.strip())
    solid = [i for i, (kind, _) in enumerate(tokens) if kind != "space"]
    parts = [_number(token, real) if kind == "number" else token for kind, token in tokens]
    for place, i in enumerate(solid):
        kind, token = tokens[i]
        if kind == "name" and token == "PI":
            parts[i] = f"{real}(3.14159265358979323846)"
        if token != "/" or not 0 < place < len(solid) - 1:
            continue
        left, right = tokens[solid[place - 1]], tokens[solid[place + 1]]
        called = place + 2 < len(solid) and tokens[solid[place + 2]][1] in ("(", "::", ".")
        if not _is_real(left, floating) and (called or not _is_real(right, floating)):
            parts[i] = f"/ {real}(1) /"  # dividing by one changes no value, only the type
    return "".join(parts)


def _number(number: str, real: str) -> str:
    return f"{real}({number.rstrip('fFlL')})" if is_floating(number) else number


def _is_real(token: Token, floating: Collection[str]) -> bool:
    kind, text = token
    return (
        is_floating(text)
        if kind == "number"
        else kind == "name" and (text in floating or text == "PI")
    )
