"""Compiled kernels on disk, by content.

A file's name is the hash of everything that its content depends on; the file starts with a hash of the rest, so
that a damaged one is compiled again. ``PLUGRAD_CUDA_CACHE`` names another folder, or is ``off``. Where nothing can be
written, kernels are kept for the process only.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from plugrad.backends.files import user_folder, write_atomically

__all__ = ["VARIABLE", "folder", "key", "read", "write"]

VARIABLE = "PLUGRAD_CUDA_CACHE"
DIGEST = 32


def folder() -> Path | None:
    """Where images are kept; None when that is switched off."""
    given = os.environ.get(VARIABLE)
    if given:
        return None if given == "off" else Path(given)
    return user_folder() / "cuda"


def key(*parts: object) -> str:
    """The name of what these parts determine."""
    digest = hashlib.sha256()
    for part in parts:
        text = str(part).encode()
        digest.update(len(text).to_bytes(8, "little") + text)
    return digest.hexdigest()


def _path(name: str) -> Path | None:
    place = folder()
    return None if place is None else place / name[:2] / name


def read(name: str) -> bytes | None:
    """What was kept under a name; None where there is nothing whole."""
    path = _path(name)
    if path is None:
        return None
    try:
        data = path.read_bytes()
    except OSError:
        return None
    image = data[DIGEST:]
    return image if data[:DIGEST] == hashlib.sha256(image).digest() else None


def write(name: str, image: bytes) -> bool:
    """Keep an image, so that other processes see all of it or nothing; False where that is not possible."""
    path = _path(name)
    if path is None:
        return False
    return write_atomically(path, hashlib.sha256(image).digest() + image)
