from collections.abc import Callable
from typing import Any, Self, TypeVar, overload

_F = TypeVar("_F", bound=Callable[..., Any])

def is_grad_enabled() -> bool: ...
def is_inference_mode_enabled() -> bool: ...

class _GradMode:
    def __init__(self, mode: bool) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc_info: object) -> None: ...
    def __call__(self, function: _F) -> _F: ...

class no_grad(_GradMode):
    """Record nothing: as a context manager, or as a decorator of a function or generator."""

    @overload
    def __new__(cls, function: None = None) -> Self: ...
    @overload
    def __new__(cls, function: _F) -> _F: ...  # type: ignore[misc]
    def __init__(self, function: Callable[..., Any] | None = None) -> None: ...

class enable_grad(_GradMode):
    """Record again inside a ``no_grad`` region: as a context manager or a decorator."""

    @overload
    def __new__(cls, function: None = None) -> Self: ...
    @overload
    def __new__(cls, function: _F) -> _F: ...  # type: ignore[misc]
    def __init__(self, function: Callable[..., Any] | None = None) -> None: ...

class set_grad_enabled(_GradMode):
    """Set the grad mode at once; as a context manager the old one returns at the end."""

    def __init__(self, mode: bool) -> None: ...

class inference_mode(_GradMode):
    """Record nothing, and mark what is computed as never to be part of a graph."""

    @overload
    def __new__(cls, mode: bool = True) -> Self: ...
    @overload
    def __new__(cls, mode: _F) -> _F: ...  # type: ignore[misc]
    def __init__(self, mode: bool | Callable[..., Any] = True) -> None: ...
