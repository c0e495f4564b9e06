"""Where certificates live on disk, and how a file is written there."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

__all__ = ["VARIABLE", "cache_folder", "certificate_folder", "write_atomically"]

VARIABLE = "PLUGRAD_CERTIFICATES"


def cache_folder() -> Path:
    """The folder for everything that is kept between processes."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("plugrad", appauthor=False))


def certificate_folder() -> Path:
    """Where certificates are read and written; ``PLUGRAD_CERTIFICATES`` names another folder."""
    return (
        Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else cache_folder() / "certificates"
    )


def write_atomically(path: Path, text: str) -> bool:
    """Write a file so that others see all of it or nothing; False where that is not possible."""
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".writing-", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        return False
    return True
