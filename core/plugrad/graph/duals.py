"""Dual numbers: tensors that carry tangents, and how these follow what happens to the tensors.

(a) A level is one perturbation. A tensor has at most one tangent per level; levels nest, and the tangent of an
    inner level may have tangents of outer ones itself. While tangents of a level are computed, only levels
    outside it are seen (`below`): perturbations are never confused, and tensors need no stripping.
(b) How an operator takes tangents forward is the operator's to say: its ``pushforward``.
(c) Tangents are never written in place. A tensor that is written gets a new one; a view that is written gives its
    base a new one, with a part exchanged; other views take theirs from the base when they are next used.
(d) What was saved for backward shares the record of its tensor, so that a backward pass has tangents as well.
    Leaving a level empties its records, which also ends the cycles that a record may close.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from plugrad.graph import roles
from plugrad.graph.grad_mode import enable_grad
from plugrad.graph.inplace import replayed
from plugrad.graph.instruments import Tangents, install
from plugrad.graph.op import Op
from plugrad.graph.tensor import Tensor

_numbers = itertools.count()
_lock = threading.Lock()
_open_levels: set[Level] = set()


class Level:
    """One perturbation, between `enter` and `leave`.

    Attributes
    ----------
    number : int
        Larger for levels entered later.
    records : WeakSet of Tangents
        Where its tangents are.
    """

    __slots__ = ("number", "records")

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.records: weakref.WeakSet[Tangents] = weakref.WeakSet()


class _State(threading.local):
    """The levels this thread has entered, and the first number it does not see at the moment."""

    def __init__(self) -> None:
        self.stack: list[Level] = []
        self.ceiling = float("inf")


_state = _State()


# ---- levels ------------------------------------------------------------------------------------


def enter() -> Level:
    """Begin a level on this thread."""
    level = Level()
    with _lock:
        _open_levels.add(level)
        install("dual", _instrument)
    _state.stack.append(level)
    return level


def leave() -> None:
    """End the innermost level of this thread; its tangents are gone."""
    level = _state.stack.pop()
    for record in list(level.records):
        record.levels.pop(level, None)
    with _lock:
        _open_levels.discard(level)
        if not _open_levels:
            install("dual", None)


def stack() -> Sequence[Level]:
    """The levels of this thread, the innermost last."""
    return _state.stack


@contextmanager
def below(level: Level | None) -> Iterator[None]:
    """See only levels entered before `level`; with None, no level at all."""
    before = _state.ceiling
    _state.ceiling = -1 if level is None else level.number
    try:
        yield
    finally:
        _state.ceiling = before


# ---- tangents ----------------------------------------------------------------------------------


def tangent_of(tensor: Any, level: Level) -> Tensor | None:
    """The tangent of a tensor in a level; None stands for zero."""
    record = tensor._tangent if isinstance(tensor, Tensor) else None
    return None if record is None else record.levels.get(level)


def attach(tensor: Tensor, level: Level, tangent: Tensor) -> None:
    """Give a tensor its tangent in a level."""
    if tensor._tangent is None:
        tensor._tangent = Tangents()
    put(tensor._tangent, level, tangent)


def put(record: Tangents, level: Level, tangent: Tensor) -> None:
    """Note a tangent in a record, and the record with its level."""
    if level in _open_levels:
        record.levels[level] = tangent
        level.records.add(record)


def levels_of(values: Iterable[Any]) -> list[Level]:
    """The levels of which some tensor has a tangent and that are seen now, outermost first."""
    return levels_in([value._tangent for value in values if isinstance(value, Tensor)])


def levels_in(records: Iterable[Tangents | None]) -> list[Level]:
    """The same of records."""
    found: set[Level] = set()
    for record in records:
        if record is not None:
            found.update(record.levels)
    ceiling = _state.ceiling
    return sorted(
        (level for level in found if level.number < ceiling), key=lambda level: level.number
    )


# ---- the instrument ----------------------------------------------------------------------------


class _Instrument:
    """What the graph calls while any thread is in a level."""

    def called(
        self, op: Op, inputs: list[Any], constants: tuple[Any, ...], outputs: list[Tensor]
    ) -> None:
        """Tangents of the outputs of a call, outermost level first: inner ones are differentiated by outer ones."""
        levels = levels_of(inputs)
        if not levels:
            return
        written = any(out is x for out in outputs for x in inputs)
        given = {level: [tangent_of(x, level) for x in inputs] for level in levels}
        if written:
            for out in outputs:
                out._tangent = Tangents()
        for level in levels:
            with below(level):
                found = op.pushforward(inputs, constants, outputs, given[level])
            for out, tangent in zip(outputs, found):
                if tangent is not None:
                    attach(out, level, tangent)
        if written:
            for out in outputs:
                self.written(out, out._tangent)

    def written(self, target: Tensor, tangents: Tangents | None) -> None:
        """A tensor was overwritten by a value with these tangents."""
        base = target._base
        old = None if base is None else base._tangent
        fresh = _copied(tangents)
        target._tangent = fresh or None
        if base is None or not (old or fresh):
            return
        new = _copied(old)
        for level in sorted({*_levels(old), *_levels(fresh)}, key=lambda level: level.number):
            if target._chain is None:
                raise RuntimeError(
                    f"a view (shape {target.shape}) that one call returned with others cannot be changed in-place "
                    "where it or its base has a tangent; take it by indexing, or change a copy"
                )
            with below(level), enable_grad():
                whole = _in_layout(_levels(old).get(level), base)
                part = replayed(target._chain, whole)
                value = _levels(fresh).get(level)
                part.zero_() if value is None else part.copy_(value)
            put(new, level, whole)
        base._tangent = new or None

    def refreshed(self, view: Tensor) -> None:
        """The memory of a view was written: its tangents are those that its base has there."""
        base = view._base
        assert base is not None
        new = Tangents()
        for level, tangent in sorted(
            _levels(base._tangent).items(), key=lambda item: item[0].number
        ):
            if view._chain is None:
                raise RuntimeError(
                    f"a view (shape {view.shape}) that one call returned with others has lost its tangent, since its "
                    "base was changed in-place; take it by indexing"
                )
            with below(level), enable_grad():
                put(new, level, replayed(view._chain, _in_layout(tangent, base)))
        view._tangent = new or None

    def concerned(self, records: Iterable[Tangents]) -> bool:
        """Whether one of these records has a tangent that is seen now."""
        return bool(levels_in(records))


_instrument = _Instrument()


def written(tensor: Tensor) -> None:
    """A tensor was overwritten and has the tangents of its new value: its base and other views follow."""
    _instrument.written(tensor, tensor._tangent)


def _levels(record: Tangents | None) -> dict[Level, Tensor]:
    return {} if record is None else record.levels


def _copied(record: Tangents | None) -> Tangents:
    new = Tangents()
    for level, tangent in _levels(record).items():
        put(new, level, tangent)
    return new


def _in_layout(tangent: Tensor | None, base: Tensor) -> Tensor:
    """A copy of a tangent with the strides of `base`, so that views of `base` exist of it, too."""
    if tangent is not None and tangent.array.strides == base.array.strides:
        whole = roles.call("copy", tangent)
        if whole.array.strides == base.array.strides:
            return whole
    whole = roles.call("copy", base.detach())
    return whole.zero_() if tangent is None else whole.copy_(tangent)
