from typing import Any

class Taken:
    """Memory of another library."""

def capsule(
    array: Any,
    *,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any: ...
def taken(source: Any) -> Any: ...
