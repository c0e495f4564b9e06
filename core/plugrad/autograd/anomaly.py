"""Anomaly mode: where a NaN came from, and what was written behind the library's back.

(a) While it is on, every recorded node gets a note of the Python frames that led to it, without plugrad's own, and
    checksums of what it saved. Nothing is kept alive: a note goes with its node.
(b) A node made inside a backward pass also refers to the note of the node whose rule made it, so that an error at
    second order leads back to the forward code.
(c) The mode holds for the process, not for a thread: forward and backward may run on different ones.
"""

from __future__ import annotations

import sys
import threading
import traceback
from types import CodeType, FrameType
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np

from plugrad.autograd.saved import value_checksum, written_behind
from plugrad.backends.inspection import all_finite, has_nan
from plugrad.graph.backend import backend_named
from plugrad.graph.engine import current_run
from plugrad.graph.instruments import SavedDual, install
from plugrad.graph.node import Node
from plugrad.graph.rule import saved_entries
from plugrad.graph.tensor import Tensor

__all__ = [
    "detect_anomaly",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "set_detect_anomaly",
]


# ---- the mode ----------------------------------------------------------------------------------


class _Mode:
    """What is switched on; (False, …) is off."""

    on = False
    check_nan = True
    check_forward = False


def _switch(on: bool, check_nan: bool, check_forward: bool) -> tuple[bool, bool, bool]:
    """Set the mode and return the one before."""
    with _lock:
        before = (_Mode.on, _Mode.check_nan, _Mode.check_forward)
        _Mode.on, _Mode.check_nan, _Mode.check_forward = on, check_nan, check_forward
        install("watch", _watch if on else None)
        install("results", _check_results if on and check_forward else None)
    return before


class detect_anomaly:
    """Find NaN gradients and say where their operator was called: a context manager.

    Run forward and backward inside the block. The first rule that returns a NaN raises, with the place in your code
    where the operator was called. Infinite gradients are allowed. An error that a rule raises gets the same place
    added as a note. Values that were saved and then written through a shared NumPy array, which no version counter
    sees, are found by a checksum. All this takes time: it is for looking for errors.

    Parameters
    ----------
    check_nan : bool, default True
        Whether a NaN raises; otherwise only the places are added to errors.
    check_forward : bool, default False
        Also search the forward pass: the first operator that returns NaN or infinity for finite arguments raises.

    Raises
    ------
    RuntimeError
        As above, from inside the block.

    Examples
    --------
    >>> import plugrad
    >>> x = plugrad.tensor(0.0, requires_grad=True)
    >>> with plugrad.autograd.detect_anomaly():
    ...     (x.sqrt() * 0).backward()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    RuntimeError: backward of standard::sqrt returned NaN ...
    """

    def __init__(self, check_nan: bool = True, *, check_forward: bool = False) -> None:
        self._mode = (True, bool(check_nan), bool(check_forward))
        self._before: list[tuple[bool, bool, bool]] = []

    def __enter__(self) -> Self:
        self._before.append(_switch(*self._mode))
        return self

    def __exit__(self, *exc_info: object) -> None:
        _switch(*self._before.pop())


class set_detect_anomaly:
    """Switch anomaly mode at once; as a context manager the old mode returns at the end of the block.

    Parameters
    ----------
    mode : bool
    check_nan, check_forward : bool
        As for `detect_anomaly`.
    """

    def __init__(self, mode: bool, check_nan: bool = True, *, check_forward: bool = False) -> None:
        self._before = _switch(bool(mode), bool(check_nan), bool(check_forward))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        _switch(*self._before)


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return _Mode.on


def is_anomaly_check_nan_enabled() -> bool:
    """Whether a NaN gradient raises while anomaly mode is on."""
    return _Mode.check_nan


# ---- where a node was made ---------------------------------------------------------------------


class _Note:
    """Where a node was made, by whose rule if any, and the checksums of what it saved."""

    __slots__ = ("checksums", "frames", "name", "parent")

    def __init__(self, node: Node, parent: _Note | None) -> None:
        self.name = node.name()
        self.frames = _user_frames()
        self.parent = parent
        self.checksums = _checksums(node)

    def __str__(self) -> str:
        summary = traceback.StackSummary.from_list(
            [(code.co_filename, line, code.co_name, None) for code, line in self.frames]
        )
        text = f"{self.name} was called here (most recent call last):\n{''.join(summary.format())}"
        if self.parent is not None:
            text += f"that was in the backward of another: {self.parent}"
        return text


def _user_frames() -> list[tuple[CodeType, int]]:
    """Code and line of the frames that are not plugrad's, outermost first."""
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        if module.partition(".")[0] not in ("plugrad", "plugrad_ops"):
            found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return found[::-1]


def _where(node: Node) -> str:
    note = _notes.get(node)
    if note is not None:
        return str(note)
    return (
        f"where {node.name()} was called is not known: anomaly mode was off then; "
        "run the forward pass in it, too"
    )


def _checksums(node: Node) -> tuple[int, ...]:
    return tuple(value_checksum(_array(value)) for _, value, _ in saved_entries(node))


def _array(value: Any) -> Any:
    return value.array if isinstance(value, SavedDual) else value


class _Local(threading.local):
    def __init__(self) -> None:
        # (number of the run, note) of the nodes whose rules are running, innermost run last.
        self.rules: list[tuple[int, _Note | None]] = []


_lock = threading.Lock()
_local = _Local()
_notes: WeakKeyDictionary[Node, _Note] = WeakKeyDictionary()


class _Watch:
    """The instrument that the core calls around nodes."""

    def recorded(self, node: Node) -> None:
        run = current_run()
        rules = _local.rules
        parent = rules[-1][1] if run is not None and rules and rules[-1][0] == run.id else None
        _notes[node] = _Note(node, parent)

    def before(self, node: Node) -> None:
        run = current_run()
        number = 0 if run is None else run.id
        # What is left from rules that raised belongs to this run or to later ones.
        while _local.rules and _local.rules[-1][0] >= number:
            _local.rules.pop()
        note = _notes.get(node)
        _local.rules.append((number, note))
        if note is not None:
            _check_saved(node, note)

    def after(self, node: Node, result: Any) -> None:
        _local.rules.pop()
        if not _Mode.check_nan:
            return
        for i, grad in enumerate(result if isinstance(result, (tuple, list)) else (result,)):
            if isinstance(grad, Tensor) and has_nan(grad):
                raise RuntimeError(
                    f"backward of {node.name()} returned NaN as the gradient of {_input_name(node, i)} "
                    f"(shape {list(grad.shape)}, dtype {grad.dtype}).\n{_where(node)}"
                )

    def failed(self, node: Node, error: Exception) -> None:
        notes = getattr(error, "__notes__", ())
        if not any("was called" in text for text in notes):
            error.add_note(f"in the backward of {node.name()}; {_where(node)}")


_watch = _Watch()


# ---- what is looked for ------------------------------------------------------------------------


def _check_saved(node: Node, note: _Note) -> None:
    entries = saved_entries(node)
    if len(entries) != len(note.checksums):
        return  # freed: the engine says so
    for (slot, value, unchanged), then in zip(entries, note.checksums):
        array = _array(value)
        # What was changed by an operation is for the engine to report, where the rule uses it.
        if unchanged and value_checksum(array) != then:
            names = getattr(node.op, "_saved_names", ())
            what = f"the value {names[slot]!r}" if slot < len(names) else "a value"
            raise RuntimeError(f"{written_behind(node.name(), what, array)}\n{_where(node)}")


def _values(tensor: Tensor) -> np.ndarray:
    """The values on the host; no operator is called, whose results would be looked at, too."""
    return backend_named(tensor.device).to_numpy(tensor.array)


def _input_name(node: Node, i: int) -> str:
    inputs = getattr(getattr(node.op, "schema", None), "inputs", ())
    return f"input {i} ({inputs[i]!r})" if i < len(inputs) else f"input {i}"


def _check_results(
    op: Any, inputs: list[Any], constants: tuple[Any, ...], outputs: list[Any]
) -> None:
    """The instrument for the forward pass: after every call of an operator."""
    if current_run() is not None:
        return  # a rule: infinite gradients are allowed, and NaN is found in what it returns
    for nr, output in enumerate(outputs):
        if isinstance(output, Tensor) and not _finite(output):
            if not all(_finite(value) for value in (*inputs, *constants)):
                return
            bad = _values(output)
            nans = int(np.isnan(bad).sum())
            raise RuntimeError(
                f"{op.name} returned {nans} NaN and {int(np.isinf(bad).sum())} infinite elements from finite "
                f"arguments: output {nr}, shape {list(output.shape)}, dtype {output.dtype}. Arguments: "
                + ", ".join(_described(value) for value in inputs)
            )


def _finite(value: Any) -> bool:
    if isinstance(value, Tensor):
        return all_finite(value)
    return not isinstance(value, (float, complex)) or bool(np.isfinite(value))


def _described(value: Any) -> str:
    if not isinstance(value, Tensor):
        return repr(value)
    if value.numel() == 0:
        return f"{value.dtype}{list(value.shape)}"
    values = _values(value)
    if values.dtype.kind == "c":
        return f"{value.dtype}{list(value.shape)}"
    return f"{value.dtype}{list(value.shape)} from {values.min()} to {values.max()}"
