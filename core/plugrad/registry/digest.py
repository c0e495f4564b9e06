"""Digests of the code that a certificate is about: of distributions and of the environment.

(a) The digest of a distribution covers every file of it that can take part in a computation: code,
    compiled modules, data. For an installed wheel the hashes are taken from its RECORD, for an
    editable install from the files themselves.
(b) A RECORD is believed only for the files it describes as they are now: same size, not touched
    after it was written. Someone who edits an installed file gets a new digest.
(c) A file changed after it was imported would give a digest of code that is not the code running.
    Such a distribution has no usable digest until the next process.
(d) Hashing megabytes at each start would be slow, so hashes are kept on disk by path, size and
    time of modification, like Git's index does, with the same care for files that are too young.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import platform
import re
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from plugrad.registry.files import cache_folder, write_text

__all__ = ["Digest", "FileHashes", "environment", "of_distribution", "required_versions", "root_of"]

_YOUNG = 2.0
"""Seconds in which two changes of a file can carry the same time of modification."""

_SKIPPED_FOLDERS = {"__pycache__", "certificates"}
_SKIPPED_SUFFIXES = (".pyc", ".pyo")


@dataclass(frozen=True)
class Digest:
    """A digest, or the reason why there is none.

    Attributes
    ----------
    value : str
        Hexadecimal; "" where `reason` is not.
    reason : str
    """

    value: str = ""
    reason: str = ""


def of_distribution(
    name: str, dist: Distribution | None, modules: Iterable[str], since: float
) -> Digest:
    """Digest of all code and data files of a distribution.

    Parameters
    ----------
    name : str
        For the reason.
    dist : Distribution or None
        Its metadata, where it is installed.
    modules : iterable of str
        Imported modules that are known to belong to it.
    since : float
        When its modules were imported, in seconds since the epoch.
    """
    hashes = FileHashes.shared()
    modules = list(modules)
    record, written = _record(dist)
    roots = list(_roots(modules, dist))
    if not roots:
        return Digest(reason=f"the files of {name} cannot be found")
    recorded = {path for path, _, _ in record}
    if not all(_main_file(root) in recorded for root in roots):
        files = sorted(set(_files_below(roots)))
        record = [(path, "", -1) for path in files]
    total = hashlib.sha256()
    base = _common_folder(record)
    try:
        for path, digest, size in sorted(record):
            stat = os.stat(path)
            if stat.st_mtime > since:
                return Digest(reason=f"{path} was changed after it was imported")
            if not digest or stat.st_size != size or stat.st_mtime > written + _YOUNG:
                digest = hashes.of(path, stat)
            total.update(f"{os.path.relpath(path, base)}\0{digest}\n".encode())
    except OSError as error:
        return Digest(reason=f"a file of {name} cannot be read: {error}")
    hashes.save()
    return Digest(total.hexdigest())


# ---- which files -------------------------------------------------------------------------------


def _record(dist: Distribution | None) -> tuple[list[tuple[str, str, int]], float]:
    """(path, sha256, size) of the files that RECORD lists, and when it was written."""
    text = dist.read_text("RECORD") if dist is not None else None
    if dist is None or not text:
        return [], 0.0
    root = str(dist.locate_file(""))
    found = []
    for row in csv.reader(text.splitlines()):
        if len(row) == 3 and _counts(row[0]) and row[1].startswith("sha256="):
            path = os.path.normpath(os.path.join(root, row[0]))
            found.append((path, row[1].removeprefix("sha256="), int(row[2] or -1)))
    try:
        written = os.stat(os.path.join(str(getattr(dist, "_path", root)), "RECORD")).st_mtime
    except OSError:
        written = 0.0
    return found, written


def _counts(path: str) -> bool:
    """Whether a path of a RECORD names code or data, not metadata, scripts or byte code."""
    parts = path.split("/")
    return not (
        parts[0] in ("..", "")
        or parts[0].endswith((".dist-info", ".pth"))
        or parts[0].startswith("__editable__")
        or _SKIPPED_FOLDERS.intersection(parts[:-1])
        or path.endswith(_SKIPPED_SUFFIXES)
    )


def _roots(modules: list[str], dist: Distribution | None) -> Iterator[str]:
    """Package folders and single modules that belong to a distribution."""
    tops = [line.strip() for line in (_top_level(dist) or "").splitlines() if line.strip()]
    seen = set()
    for name in [*modules, *tops]:
        root = root_of(name.partition(":")[0].strip())
        if root and root not in seen:
            seen.add(root)
            yield root


def _top_level(dist: Distribution | None) -> str | None:
    return dist.read_text("top_level.txt") if dist is not None else None


def root_of(name: str) -> str | None:
    """The folder of the outermost ordinary package around a module, or the module's own file."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        module = sys.modules.get(".".join(parts[:end]))
        spec = getattr(module, "__spec__", None)
        if spec is None and end == 1:
            try:
                spec = find_spec(parts[0])
            except (ImportError, ValueError):
                spec = None
        # A namespace package has no file of its own: other distributions may live in it.
        if spec is not None and spec.origin and spec.has_location:
            folders = list(spec.submodule_search_locations or ())
            return os.path.normpath(folders[0] if folders else spec.origin)
    return None


def _main_file(root: str) -> str:
    return os.path.join(root, "__init__.py") if os.path.isdir(root) else root


def _files_below(roots: list[str]) -> Iterator[str]:
    for root in roots:
        if os.path.isfile(root):
            yield root
        for folder, folders, files in os.walk(root):
            folders[:] = [f for f in folders if f not in _SKIPPED_FOLDERS and not f.startswith(".")]
            for file in files:
                if not file.endswith(_SKIPPED_SUFFIXES) and not file.startswith("."):
                    yield os.path.join(folder, file)


def _common_folder(record: list[tuple[str, str, int]]) -> str:
    return os.path.commonpath([os.path.dirname(path) for path, _, _ in record])


# ---- hashes of files -----------------------------------------------------------------------------


class FileHashes:
    """SHA-256 of files, remembered on disk as long as a file's size and time stay the same."""

    _shared: FileHashes | None = None

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.known: dict[str, list[object]] = {}
        self._dirty = False
        try:
            loaded = json.loads(path.read_text("utf-8")) if path is not None else {}
            if isinstance(loaded, dict):
                self.known = {k: v for k, v in loaded.items() if isinstance(v, list)}
        except (OSError, ValueError):
            pass

    @classmethod
    def shared(cls) -> FileHashes:
        """The one of this process, beside the certificates."""
        path = cache_folder() / "files.json"
        if cls._shared is None or cls._shared.path != path:
            cls._shared = cls(path)
        return cls._shared

    def of(self, path: str, stat: os.stat_result) -> str:
        """The hash of one file as it is now."""
        mark: list[object] = [stat.st_mtime_ns, stat.st_size, stat.st_ino]
        known = self.known.get(path)
        if known is not None and known[:3] == mark and len(known) == 4:
            return str(known[3])
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if time.time() - stat.st_mtime > _YOUNG:
            self.known[path] = [*mark, digest]
            self._dirty = True
        return digest

    def save(self) -> None:
        """Write what was learned; a folder that cannot be written to costs only time."""
        if self._dirty and self.path is not None:
            self._dirty = False
            write_text(self.path, json.dumps(self.known))


# ---- the rest of the world -----------------------------------------------------------------------


@cache
def environment() -> tuple[str, ...]:
    """What else a result may depend on: Python, NumPy, its SIMD level, platform, C library."""
    import numpy as np

    try:
        from numpy._core._multiarray_umath import __cpu_features__ as features  # type: ignore
    except ImportError:
        features = {}
    libc = ""
    if "CS_GNU_LIBC_VERSION" in getattr(os, "confstr_names", {}):
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    return (
        f"python {platform.python_implementation()} {'.'.join(map(str, sys.version_info))}",
        f"numpy {np.__version__}",
        f"simd {' '.join(sorted(name for name, enabled in features.items() if enabled))}",
        f"platform {sys.platform} {platform.machine()} {sys.byteorder} {libc}",
    )


def required_versions(dist: Distribution | None) -> tuple[str, ...]:
    """Name and version of each distribution that `dist` requires outside of extras."""
    found = set()
    for requirement in (dist.requires or []) if dist is not None else []:
        name, _, marker = requirement.partition(";")
        if "extra" not in marker:
            match = re.match(r"[A-Za-z0-9._-]+", name.strip())
            if match:
                found.add(f"{match[0]} {_version(match[0])}")
    return tuple(sorted(found))


@cache
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
