"""CUDA constructs that GCC has no word for, rewritten in preprocessed text.

Working on what the preprocessor made has two advantages: macros that expand to kernels and headers that hold them
need no special care, and linemarkers keep every message at the author's own line.
"""

import re
from dataclasses import dataclass

_MARKS = re.compile(
    r"""
      "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])'
    | (?P<open>\{) | (?P<close>\})
    | \bnamespace\s+(?P<namespace>\w[\w:\s]*?)?\s*(?=\{)
    | \bextern\s+"C"\s*(?=\{)
    | \b(?P<kernel>EMU_GLOBAL)\b
    """,
    re.VERBOSE,
)
_DYNAMIC_SHARED = re.compile(
    r"\bextern\s+EMU_SHARED\b([^;{}()\[\]]*(?:\([^;{}]*\)[^;{}()\[\]]*)?)\b(\w+)\s*\[\s*\]"
)
_WORD = re.compile(r"\s*(?:\[\[.*?\]\]|(\w+)|[*&])", re.DOTALL)
_TAKES_PARENTHESES = {"EMU_BOUNDS", "__attribute__", "__attribute", "alignas", "__declspec"}


@dataclass(frozen=True)
class Kernel:
    """A ``__global__`` function: its name with namespaces, and what ``__launch_bounds__`` allows."""

    path: str
    name: str
    max_threads: str


def _group_end(text: str, at: int) -> int:
    """Position after the parenthesis that closes the one at ``at``."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    return len(text)


def _first_argument(arguments: str) -> str:
    depth = 0
    for i, c in enumerate(arguments):
        depth += {"(": 1, "[": 1, "<": 1, ")": -1, "]": -1, ">": -1}.get(c, 0)
        if c == "," and depth == 0:
            return arguments[:i]
    return arguments


def _signature(text: str, at: int) -> tuple[str, str] | None:
    """Name and launch bound of the kernel whose ``__global__`` ends at ``at``; None for a specialisation."""
    bound = "1024"
    while match := _WORD.match(text, at):
        word, at = match[1], match.end()
        after = re.compile(r"\s*").match(text, at)
        next_at = after.end() if after else at
        if text[next_at : next_at + 1] == "<":
            return None
        if text[next_at : next_at + 1] != "(":
            continue
        if word not in _TAKES_PARENTHESES:
            return (word, bound) if word else None
        end = _group_end(text, next_at)
        if word == "EMU_BOUNDS":
            bound = _first_argument(text[next_at + 1 : end - 1])
        at = end
    return None


def _is_template(text: str, at: int) -> bool:
    start = max(text.rfind(c, 0, at) for c in ";{}")
    return re.search(r"\btemplate\b", text[start + 1 : at]) is not None


def find_kernels(text: str) -> list[Kernel]:
    """The kernels of a preprocessed source that are not templates."""
    found: dict[str, Kernel] = {}
    scopes: list[str] = []
    namespace = ""
    for mark in _MARKS.finditer(text):
        if mark["open"]:
            scopes.append(namespace)
            namespace = ""
        elif mark["close"]:
            if scopes:
                scopes.pop()
        elif mark["kernel"]:
            signature = None if _is_template(text, mark.start()) else _signature(text, mark.end())
            if signature:
                path = "::".join([*filter(None, scopes), signature[0]])
                found[path] = Kernel(path, *signature)
        elif mark["namespace"]:
            namespace = re.sub(r"\s+", "", mark["namespace"])
    return list(found.values())


def _without_bounds(text: str) -> str:
    parts, at = [], 0
    for match in re.finditer(r"\bEMU_BOUNDS\s*(?=\()", text):
        if match.start() < at:
            continue
        end = _group_end(text, match.end())
        parts += [text[at : match.start()], "\n" * text.count("\n", match.start(), end)]
        at = end
    return "".join([*parts, text[at:]])


def rewrite(text: str, *, instrumented: bool) -> str:
    """Preprocessed CUDA C++ to what GCC compiles, with the table of kernels behind it."""
    kernels = find_kernels(text)
    text = _without_bounds(text)
    text = _DYNAMIC_SHARED.sub(r'extern \1 \2[] __asm__("emu_dynamic_shared")', text)
    text = re.sub(r"\bEMU_SHARED\b", 'static __attribute__((section("emu_shared")))', text)
    text = re.sub(r"\bEMU_GLOBAL\b", "__attribute__((noinline, used))", text)
    entries = "".join(f'EMU_ENTRY({k.path}, "{k.name}", ({k.max_threads})), ' for k in kernels)
    return (
        f'{text}\n# 1 "<plugrad-emulator>"\nextern "C" {{\n'
        f"extern const EmuKernel emu_kernels[] = {{{_expand(entries)}{{}}}};\n"
        f"extern const unsigned emu_n_kernels = {len(kernels)}, emu_instrumented = {int(instrumented)};\n}}\n"
    )


def _expand(entries: str) -> str:
    """What a macro would do, had the preprocessor not already run."""
    return re.sub(
        r'EMU_ENTRY\(([\w:]+), ("\w+"), (\(.*?\))\), ',
        r"{(const void *)&\1, \2, EmuSignature<decltype(\1)>::n, (unsigned)\3, EmuSignature<decltype(\1)>::parameters,"
        r" &EmuSignature<decltype(\1)>::invoke<&\1>}, ",
        entries,
    )
