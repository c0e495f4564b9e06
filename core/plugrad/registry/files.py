"""Where certificates live on disk, and how a file is written there."""

from __future__ import annotations

import os
from pathlib import Path

from plugrad.backends.files import user_folder, write_atomically

__all__ = ["VARIABLE", "cache_folder", "certificate_folder", "write_text"]

VARIABLE = "PLUGRAD_CERTIFICATES"


def cache_folder() -> Path:
    """The folder for everything that is kept between processes."""
    given = os.environ.get(VARIABLE)
    return Path(given) if given else user_folder()


def certificate_folder() -> Path:
    """Where certificates are read and written; ``PLUGRAD_CERTIFICATES`` names another folder."""
    return (
        Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else cache_folder() / "certificates"
    )


def write_text(path: Path, text: str) -> bool:
    """Write a file so that others see all of it or nothing; False where that is not possible."""
    return write_atomically(path, text.encode())
