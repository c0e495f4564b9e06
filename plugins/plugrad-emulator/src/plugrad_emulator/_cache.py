"""Built files, kept by content: whoever asks for the same inputs gets the same folder, whichever process made it."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import platformdirs


def root() -> Path:
    """The emulator's folder in the user's cache."""
    return Path(platformdirs.user_cache_dir("plugrad")) / "emulator"


def key_of(parts: Iterable[str | bytes | Path]) -> str:
    """A key for texts and for the contents of files."""
    digest = hashlib.sha256()
    for part in parts:
        data = (
            part.read_bytes()
            if isinstance(part, Path)
            else part.encode()
            if isinstance(part, str)
            else part
        )
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:20]


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def built(name: str, key: str, build: Callable[[Path], None]) -> Path:
    """The folder ``name-key``; if it is not there, ``build`` fills an empty one that then takes its place.

    Processes that want the same folder wait for one of them to build it.  A build that fails leaves nothing.
    """
    folder = root() / f"{name}-{key}"
    if folder.is_dir():
        return folder
    root().mkdir(parents=True, exist_ok=True)
    with _held(root() / f".{name}.lock"):
        if folder.is_dir():
            return folder
        work = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=root()))
        try:
            build(work)
            os.chmod(work, 0o755)
            os.rename(work, folder)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
    return folder
