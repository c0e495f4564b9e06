"""Leaves the intended differences out of a comparison, and writes them into docs/pytorch.md.

python tests/parity/differences.py
"""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from calls import Call, Fixed
from intended import INTENDED, Intended

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pytorch.md"
BEGIN, END = "<!-- differences -->\n", "<!-- end of differences -->\n"

# ---- leaving out what is listed ----------------------------------------------------------------------------


def avoiding(
    path: str, call: Call, steps: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Call]]:
    """What of a call can be compared: steps, and the call changed so that they show no intended difference."""
    name = path.rpartition(".")[2].strip("_")
    name = {
        "truediv": "div",
        "rtruediv": "div",
        "floordiv": "floor_divide",
        "mod": "remainder",
    }.get(name, name)
    listed = [one for one in INTENDED if name in one.names.split() or path in one.names.split()]
    if not listed:
        yield steps, call
        return
    dropped = {
        one.aspect for one in listed if one.aspect == "zero" and np.any(one.when(_values(call)))
    }
    steps = tuple(step for step in steps if step not in dropped)
    groups = (("value", "error", "dtype", "shape"), ("gradient",), ("second",))
    runs: list[tuple[tuple[str, ...], Call]] = []
    for group, last in zip(groups, ("value", "gradient", "second")):
        if last not in steps:
            continue
        changed = _moved(call, [one for one in listed if one.aspect in group])
        if changed is None:
            break
        upto = (
            tuple(s for s in steps if s in ("value", "zero"))
            if last == "value"
            else (*(("gradient",) if last == "second" else ()), last)
        )
        if runs and changed is call:
            upto = (*runs.pop()[0], *upto)
        runs.append((upto, changed))
        call = changed
    yield from runs


def _values(call: Call) -> dict[str, Any]:
    given = {**call.arguments, **call.keywords}
    return {
        name: value.array if isinstance(value, Fixed) else value for name, value in given.items()
    }


def _moved(call: Call, listed: list[Intended]) -> Call | None:
    """The call with the elements of its first tensor that show a difference replaced; None if that does not help."""
    if not any(np.any(one.when(_values(call))) for one in listed):
        return call
    call = copy.deepcopy(call)
    name = next((n for n, v in call.arguments.items() if isinstance(v, np.ndarray | Fixed)), None)
    if name is None:
        return None
    for value in (0.37, 0.613, 1.91):
        array = _values(call)[name]
        if array.dtype.kind != "f":
            return None
        for one in listed:
            found = one.when(_values(call))
            if np.ndim(found) and np.any(found) and np.size(array):
                array = _replaced(array, np.asarray(found), value)
                call.arguments[name] = (
                    Fixed(array) if isinstance(call.arguments[name], Fixed) else array
                )
        if not any(np.any(one.when(_values(call))) for one in listed):
            return call
    return None


def _replaced(array: np.ndarray, mask: np.ndarray, value: float) -> np.ndarray:
    """`array` with `value` where any element that `mask`, of a shape it broadcasts to, marks comes from."""
    extra = mask.ndim - array.ndim
    mask = mask.any(axis=tuple(range(extra))) if extra > 0 else mask
    repeated_ = tuple(i for i, n in enumerate(array.shape) if n == 1 and mask.shape[i] != 1)
    mask = mask.any(axis=repeated_, keepdims=True)
    return np.where(mask, array.dtype.type(value), array)


# ---- the page --------------------------------------------------------------------------------------------

ASPECTS = {
    "value": "value",
    "zero": "sign of zero",
    "gradient": "gradient",
    "second": "second derivative",
    "error": "error",
    "dtype": "dtype",
    "shape": "shape",
}


def table() -> str:
    """The list as a table in Markdown."""
    lines = [
        "| operators | in | where | example | PyTorch | plugrad | why |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in INTENDED:
        names = ", ".join(f"`{name}`" for name in one.names.split())
        values = "".join(
            f", `{n} = {_short(v)}`" for n, v in (("x", one.x), ("y", one.y)) if v is not None
        )
        example = f"`{one.example.replace('lib.', '')}`{values}"
        lines.append(
            f"| {names} | {ASPECTS[one.aspect]} | {one.where} | {example} | {_short(one.theirs)} | {_short(one.ours)} | {one.reason} |"
        )
    return "\n".join(lines) + "\n"


def _short(value: Any) -> str:
    """Five digits of each number, and not all of many."""
    if isinstance(value, list):
        shown = [_short(each) for each in value]
        return "[" + ", ".join(shown if len(shown) < 5 else [shown[0], shown[1], "…"]) + "]"
    return f"{value:.5g}" if isinstance(value, float | complex) else str(value)


def written(page: str) -> str:
    """The page with the list between its marks."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return head + BEGIN + table() + END + tail


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
