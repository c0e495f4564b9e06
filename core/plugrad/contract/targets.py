"""What can be checked: operators, composites and autograd Functions, seen through one interface.

A `Target` says how the thing is called and what it declares; its `Library` makes tensors and runs backward.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plugrad.contract.libraries import Library, PlugradLibrary, TorchLibrary

__all__ = ["Target", "target_for"]


@dataclass
class Target:
    """Something to check: how it is called, and what it declares about itself.

    Attributes
    ----------
    subject : str
        Its name in reports.
    kind : str
        ``"operator"``, ``"composite"`` or ``"function"``.
    call : callable
        ``call(args, constants)``: args hold tensors, numbers, None and lists of tensors.
    sampler : callable, iterable or None
    surrogate, kinks, once_differentiable, random, exempt
        As in the declaration of an operator.
    schema : plugrad.registry.schema.Schema or None
    op : object
        The operator, composite or class itself.
    """

    subject: str
    kind: str
    library: Library
    call: Callable[[list[Any], dict[str, Any]], Any]
    op: Any
    sampler: Any = None
    surrogate: Callable[..., Any] | None = None
    kinks: Any = None
    nondifferentiable: bool = False
    once_differentiable: bool = False
    random: bool = False
    exempt: frozenset[str] = frozenset()
    schema: Any = None
    input_names: tuple[str, ...] = ()
    lower_dtypes: tuple[Any, ...] = (np.float32,)
    surrogate_takes_at: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        if self.surrogate is not None:
            if not callable(self.surrogate):
                raise TypeError(
                    f"{self.subject}: surrogate must be a function of arrays, got {self.surrogate!r}"
                )
            self.surrogate_takes_at = takes_keyword(self.surrogate, "at")

    @property
    def elementwise(self) -> bool:
        """Whether it declares that it broadcasts and works element by element."""
        return self.schema is not None and bool(self.schema.elementwise)

    @property
    def function(self) -> Callable[..., Any] | None:
        """The reference function of an operator."""
        return getattr(self.op, "function", None) if self.kind == "operator" else None

    @property
    def fused(self) -> bool:
        """Whether an operator has a backward kernel beside its rule, on the device where it runs."""
        on_cpu = getattr(self.library, "device", "cpu") == "cpu"
        return getattr(self.op, "rule_kernel" if on_cpu else "cuda_backward", None) is not None

    @property
    def short_name(self) -> str:
        """The part of the name that an error message must hold."""
        return self.subject.rpartition("::")[2]

    @contextlib.contextmanager
    def callable_unverified(self) -> Iterator[None]:
        """Let the operator be called while it is checked, although it has not passed yet."""
        if self.library.name != "plugrad":
            yield
            return
        from plugrad import registry
        from plugrad.graph import op as op_module

        # Operators that the rule calls may be unverified too, and no battery starts in a backward.
        with registry.group():
            if self.kind == "function" or getattr(self.op, "state", None) is None:
                yield
                return
            device = getattr(self.library, "device", "cpu")
            before = {where: self.op.state_on(where) for where in ("cpu", device)}
            lent = [s for s in before if before[s] not in (op_module.READY, op_module.VERIFYING)]
            for where in lent:
                self.op.set_state_on(where, op_module.READY)
            try:
                yield
            finally:
                for where in lent:
                    self.op.set_state_on(where, before[where])


def takes_keyword(function: Callable[..., Any], name: str) -> bool:
    """Whether `function` can be called with the keyword `name`."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def target_for(
    target: Any, samples: Any = None, surrogate: Any = None, device: str = "cpu"
) -> Target:
    """The `Target` of an operator, a composite or an autograd Function class.

    Parameters
    ----------
    target, samples, surrogate
        As for `plugrad.contract.check`.
    device : str
        Where its tensors are: "cpu" or "cuda".

    Raises
    ------
    TypeError
        `target` is none of these.
    """
    if inspect.isclass(target) and all(
        callable(getattr(target, name, None)) for name in ("apply", "forward", "backward")
    ):
        made = _function_target(target, samples, surrogate)
    elif hasattr(target, "schema") and hasattr(target, "function"):
        made = _operator_target(target, samples, surrogate)
    elif callable(target) and hasattr(target, "sampler") and hasattr(target, "name"):
        made = _composite_target(target, samples, surrogate)
    else:
        raise TypeError(
            "contract.check takes an operator, a composite or an autograd.Function class, "
            f"got {target!r:.80} of type {type(target).__name__}"
        )
    if device != "cpu":
        if made.library.name != "plugrad":
            raise TypeError(
                f"{made.subject} is of {made.library.name}, whose tensors are checked on 'cpu'"
            )
        from plugrad.contract.on_device import DeviceLibrary

        made.library = DeviceLibrary()
    return made


def _operator_target(op: Any, samples: Any, surrogate: Any) -> Target:
    def call(args: list[Any], constants: dict[str, Any]) -> Any:
        return op(*args, **constants)

    # An operator on floats offers every floating dtype; float16 has no complex partner to check against.
    return Target(
        subject=op.name,
        kind="operator",
        library=PlugradLibrary(),
        call=call,
        op=op,
        sampler=samples if samples is not None else op.sampler,
        surrogate=surrogate if surrogate is not None else op.surrogate,
        kinks=op.kinks,
        nondifferentiable=bool(op.nondifferentiable is True or all(op.schema.nondifferentiable)),
        once_differentiable=bool(op.once_differentiable),
        random=bool(op.random),
        exempt=frozenset(op.exempt),
        schema=op.schema,
        input_names=tuple(op.schema.inputs),
        lower_dtypes=(np.float32, np.float16),
    )


def _composite_target(op: Any, samples: Any, surrogate: Any) -> Target:
    def call(args: list[Any], constants: dict[str, Any]) -> Any:
        return op(*args, **constants)

    return Target(
        subject=op.name,
        kind="composite",
        library=PlugradLibrary(),
        call=call,
        op=op,
        sampler=samples if samples is not None else op.sampler,
        surrogate=surrogate if surrogate is not None else getattr(op, "surrogate", None),
        kinks=getattr(op, "kinks", None),
        nondifferentiable=getattr(op, "nondifferentiable", False) is True,
        random=bool(getattr(op, "random", False)),
        input_names=_positional_names(getattr(op, "function", op), skip=0),
        lower_dtypes=(np.float32, np.float16),
    )


def _function_target(cls: Any, samples: Any, surrogate: Any) -> Target:
    torch = sys.modules.get("torch")
    is_torch = torch is not None and issubclass(cls, torch.autograd.Function)
    library: Library = TorchLibrary() if is_torch else PlugradLibrary()
    base = next(c for c in cls.__mro__ if "apply" in c.__dict__)
    apart = getattr(cls, "setup_context", None) is not getattr(base, "setup_context", None)
    names = _positional_names(cls.forward, skip=0 if apart else 1)

    def call(args: list[Any], constants: dict[str, Any]) -> Any:
        # apply() takes positions only: constants go to the place their name has in forward().
        rest = dict(constants)
        for name in names[len(args) :]:
            if name in rest:
                args = [*args, rest.pop(name)]
        return cls.apply(*args, **rest)

    return Target(
        subject=cls.__name__,
        kind="function",
        library=library,
        call=call,
        op=cls,
        sampler=samples,
        surrogate=surrogate,
        once_differentiable=_is_once_differentiable(cls.backward),
        input_names=names,
    )


def _is_once_differentiable(backward: Any) -> bool:
    """Whether the decorator was used; PyTorch's leaves no mark but its own code."""
    code = getattr(backward, "__code__", None)
    theirs = code is not None and code.co_filename.replace("\\", "/").endswith(
        "torch/autograd/function.py"
    )
    return theirs or bool(getattr(backward, "once_differentiable", False))


def _positional_names(function: Any, skip: int) -> tuple[str, ...]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ()
    return tuple(
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    )[skip:]
