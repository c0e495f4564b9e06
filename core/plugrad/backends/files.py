"""Files that are kept between processes: where they lie, and how one is written."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

__all__ = ["user_folder", "write_atomically"]


def user_folder() -> Path:
    """The user's folder for what plugrad keeps between processes."""
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("plugrad", appauthor=False))


def write_atomically(path: Path, data: bytes) -> bool:
    """Write a file so that others see all of it or nothing; False where that is not possible."""
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".writing-", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        return False
    return True
