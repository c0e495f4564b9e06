"""Activation checkpointing: keep the arguments of a function instead of what its operators save, and run it again.

(a) While the checkpointed function runs, a hook for saved tensors keeps of each only a checksum. The first of them
    that a backward pass asks for runs the function again, from the same arguments, generator states and grad mode,
    and collects what is saved this time. The n-th tensor saved then is the n-th one saved now.
(b) What one backward pass collects belongs to that pass, and each value is handed out once: a retained graph runs the
    function again. Running again ends at the last tensor that is still wanted.
(c) Arguments go through the hooks outside the call. So a checkpoint within a checkpoint keeps nothing of its own: its
    arguments are recomputed by the outer one, and it needs no knowledge of nesting.
(d) A second run that saves other values would give a wrong gradient without any sign of it, so their checksums are
    compared; reading each saved value twice is what it costs. Arguments and leaves that require grad are not read:
    they are there before and after, in the same memory, and their versions tell whether they changed.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from itertools import pairwise
from typing import Any

from plugrad.autograd.graph import saved_tensors_hooks
from plugrad.autograd.saved import KeptTensor
from plugrad.graph.engine import current_run
from plugrad.graph.grad_mode import enable_grad, is_grad_enabled
from plugrad.graph.tensor import Tensor
from plugrad.utils.arguments import kept, leaves, restored, shared_arrays
from plugrad.utils.generators import GeneratorStates
from plugrad.utils.marks import Checksums, Mark

__all__ = [
    "CheckpointError",
    "checkpoint",
    "checkpoint_sequential",
    "noop_context_fn",
    "set_checkpoint_early_stop",
]

_Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


class CheckpointError(RuntimeError):
    """A checkpointed function did not do the same again when it was run for backward."""


class _Stop(BaseException):
    """Ends a second run that has saved all that is wanted. No Exception: the function must not catch it."""

    def __init__(self, again: _Again) -> None:
        self.again = again


class _Local(threading.local):
    # Whether a function is being run again: what that saves is compared once, by the outermost checkpoint.
    repeating = False


_local = _Local()
_early_stop: bool | None = None


def noop_context_fn() -> _Contexts:
    """The default for `context_fn`: two contexts that do nothing."""
    return nullcontext(), nullcontext()


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Within the block, checkpoints stop early or do not, whatever their argument says."""
    global _early_stop
    before, _early_stop = _early_stop, bool(enable)
    try:
        yield
    finally:
        _early_stop = before


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: Callable[[], _Contexts] = noop_context_fn,
    determinism_check: str = "default",
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Call a function without keeping what its operators save; backward runs it again.

    Takes less memory and about a third more time. Works with ``backward`` and ``grad``, at any order, with closures,
    keyword arguments and checkpoints inside of checkpoints.

    Parameters
    ----------
    function : callable
        Called as ``function(*args, **kwargs)``, now and again in each backward pass. It must compute the same from
        the same arguments.
    use_reentrant : bool, optional
        Accepted for compatibility; True is refused.
    preserve_rng_state : bool, default True
        Whether a second run draws the same random numbers, from Python's, NumPy's and plugrad's global generators and
        from generators among the arguments; backward leaves their state as it finds it.
    context_fn : callable
        Returns two context managers: for the first run and for every later one.
    determinism_check : {"default", "none"}
        "default" compares shape, dtype, device and a checksum of the values of each saved tensor.
    early_stop : bool, default True
        Whether a second run ends as soon as all that backward wants has been computed.

    Returns
    -------
    whatever `function` returns

    Raises
    ------
    ValueError
        `use_reentrant` is True, or `determinism_check` is unknown.
    CheckpointError
        At backward: the second run saved something else.
    RuntimeError
        At backward: a tensor among the arguments was changed in-place since.

    Examples
    --------
    >>> import plugrad
    >>> from plugrad.utils.checkpoint import checkpoint
    >>> x = plugrad.tensor([1.0, 2.0], requires_grad=True)
    >>> checkpoint(lambda x: (x * x).exp().sum(), x).backward()
    """
    if use_reentrant:
        raise ValueError(
            "use_reentrant=True is not offered: the reentrant form does not work with grad(), closures or double "
            "backward; leave the argument out"
        )
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check must be 'default' or 'none', got {determinism_check!r}"
        )
    first, again = context_fn()
    if not is_grad_enabled():
        with first:
            return function(*args, **kwargs)
    call = _Call(function, args, kwargs, again)
    call.compares = determinism_check == "default" and not _local.repeating
    call.stops = early_stop if _early_stop is None else _early_stop
    if preserve_rng_state:
        call.generators = GeneratorStates(leaves((args, kwargs)))
    with first, _Hooks(call.pack, _value_again):
        result = function(*args, **kwargs)
    call.complete = True
    call.let_go_of_own()
    if call.generators is not None and call.generators.unused():
        call.generators = None
    return result


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Call functions one after the other, checkpointing runs of them.

    Parameters
    ----------
    functions : Sequential or sequence of callables
        Each takes the result of the one before.
    segments : int
        How many runs to divide them into, as equal as can be. All but the last are checkpointed: backward starts
        with the last, so nothing would be gained.
    input : Tensor
        The argument of the first function.
    use_reentrant, **kwargs
        As for `checkpoint`: `preserve_rng_state`, `context_fn`, `determinism_check`, `early_stop`.

    Raises
    ------
    ValueError
        `segments` is less than 1 or more than there are functions.
    """
    children = getattr(functions, "children", None)
    functions = list(functions if children is None else children())
    if not 1 <= segments <= max(1, len(functions)):
        raise ValueError(f"segments must be from 1 to {len(functions)} (functions), got {segments}")
    bounds = [len(functions) * i // segments for i in range(segments + 1)]
    *parts, last = (_chained(functions[start:end]) for start, end in pairwise(bounds))
    for part in parts:
        input = checkpoint(part, input, use_reentrant=use_reentrant, **kwargs)
    return last(input)


def _chained(functions: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def run(value: Any) -> Any:
        for function in functions:
            value = function(value)
        return value

    return run


# ---- one checkpointed call ---------------------------------------------------------------------


class _Hooks(saved_tensors_hooks):
    """Those of a checkpoint, which call no operators."""

    computes = False


class _Call:
    """What it takes to run a function again, and what its first run saved."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        context: AbstractContextManager[Any],
    ) -> None:
        self.function = function
        self.context = context
        self.arguments = kept((args, kwargs))
        self.there = {id(array) for array in shared_arrays(self.arguments)}
        self.checksums = Checksums()
        self.generators: GeneratorStates | None = None
        self.compares = True
        self.stops = True
        self.complete = False
        self.places: list[weakref.ref[_Place]] = []
        self.marks: list[Mark | None] = []

    @property
    def name(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__name__)

    def pack(self, tensor: Tensor) -> _Place:
        """The pack hook of the first run."""
        place = _Place(self, len(self.places))
        self.places.append(weakref.ref(place))
        self.marks.append(self.mark(tensor) if self.compares else None)
        return place

    def mark(self, tensor: Tensor) -> Mark:
        """What a tensor saved by the second run is compared with."""
        if tensor.requires_grad or id(tensor.array) in self.there:
            return Mark(tensor, None)
        return Mark(tensor, self.checksums.of(tensor))

    def let_go_of_own(self) -> None:
        """Keep no leaf that the first run has made, and that nobody else has: a checksum will do."""
        kept = [
            (mark, mark.staying)
            for mark in self.marks
            if mark is not None and mark.staying is not None
        ]
        holders = Counter(id(tensor.array) for _, tensor in kept)
        # Beside the marks' tensors, the call of getrefcount holds one.
        own = [
            (mark, tensor)
            for mark, tensor in kept
            if sys.getrefcount(tensor.array) == holders[id(tensor.array)] + 1
        ]
        for mark, tensor in own:
            mark.checksum, mark.staying = self.checksums.of(tensor), None

    def compare(self, index: int, tensor: Tensor, checksums: Checksums) -> None:
        """Refuse a second run that saves something else than the first did."""
        mark = self.marks[index]
        if mark is None or mark.fits(tensor, checksums):
            return
        raise CheckpointError(
            f"checkpoint: {self.name} saved something else when it was run again for backward: saved tensor "
            f"{index} of {len(self.marks)} {mark.difference(tensor)}. It must compute the same from "
            "the same arguments: no counters, no state that it changes itself. "
            'determinism_check="none" turns this check off.'
        )


class _Place:
    """Stands in the graph for a value that the first run saved."""

    __slots__ = ("__weakref__", "call", "index")

    def __init__(self, call: _Call, index: int) -> None:
        self.call = call
        self.index = index


class _Collected:
    """What one backward pass has of one call."""

    def __init__(self) -> None:
        self.values: dict[int, KeptTensor] = {}
        self.used: set[int] = set()


def _value_again(place: _Place) -> Tensor:
    """The unpack hook: the value of a saved tensor, from a second run."""
    call, run = place.call, current_run()
    collected = _Collected() if run is None else run.notes.setdefault(call, _Collected())
    if place.index not in collected.values:
        _run_again(call, collected, place.index)
    collected.used.add(place.index)
    return collected.values.pop(place.index).get(f"the checkpointed {call.name}")


class _Again:
    """A second run: its hooks, and what it has come to."""

    def __init__(self, call: _Call, collected: _Collected, wanted: int) -> None:
        self.call = call
        self.collected = collected
        self.count = 0
        self.checksums = Checksums()
        self.open = {
            i
            for i, place in enumerate(call.places)
            if i == wanted or (i not in collected.used and place() is not None)
        }
        self.last = max(self.open)

    def pack(self, tensor: Tensor) -> KeptTensor:
        """The pack hook of the second run."""
        index, self.count = self.count, self.count + 1
        kept = KeptTensor(tensor, hooks=False)
        if index < len(self.call.marks):
            self.call.compare(index, tensor, self.checksums)
        if index in self.open:
            self.collected.values[index] = kept
        # An output's tangents are computed after it is saved.
        if index >= self.last and self.call.stops and tensor._tangent is None:
            raise _Stop(self)
        return kept

    def unpack(self, kept: KeptTensor) -> Tensor:
        """For a backward pass within the function."""
        return kept.get(f"the checkpointed {self.call.name}")


def _run_again(call: _Call, collected: _Collected, wanted: int) -> None:
    # First, since in a checkpoint within a checkpoint this runs the outer function again.
    args, kwargs = restored(call.arguments, call.name)
    again = _Again(call, collected, wanted)
    repeating, _local.repeating = _local.repeating, True
    try:
        with ExitStack() as stack:
            if call.generators is not None:
                stack.enter_context(call.generators.restored())
            stack.enter_context(enable_grad())
            stack.enter_context(call.context)
            stack.enter_context(_Hooks(again.pack, again.unpack))
            call.function(*args, **kwargs)
    except _Stop as stop:
        if stop.again is not again:
            raise
        return
    finally:
        _local.repeating = repeating
    expected = len(call.marks)
    if again.count < expected or (call.complete and again.count > expected):
        raise CheckpointError(
            f"checkpoint: {call.name} saved {expected} tensors for backward, but {again.count} when it was run "
            "again; it must do the same each time"
        )
