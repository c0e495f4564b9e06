"""Certificates: that an operator passed its battery, kept between processes.

(a) A certificate is about one operator on one device; on CUDA, about hardware or the emulated device, never both. Its key hashes all that the outcome can
    depend on: the code of plugrad, of the operator's distribution and of those that offer it a
    kernel, the versions of what its distribution requires, the declaration, and the environment.
(b) It lists the operators that were called during the battery, with their keys then: their keys
    must be the same now.
(c) Where something cannot be hashed there is no key, and a reason why; such an operator is
    verified once per process.
(d) Whether an operator passed on a device that is not at hand can be told too: by the part of the key that does
    not depend on where it ran, which a certificate keeps for itself and for what it calls (`seen`).
(e) One file per key, written under another name and renamed. A folder that cannot be written to
    means memory only; a file that makes no sense is as good as none. A wheel may ship certificates
    in the folder `certificates` of its package. A certificate saves time; it is no signature.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plugrad.registry.files import certificate_folder, write_text
from plugrad.registry.hardware import environment_of, kind_of

if TYPE_CHECKING:
    from plugrad.registry.loader import Loader
    from plugrad.registry.table import AnyOperator

__all__ = ["Certificate", "Certificates"]

_FORMAT = "plugrad certificate 2"
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True)
class Certificate:
    """An operator passed its battery.

    Attributes
    ----------
    key : str
        Hash over what the outcome can depend on.
    operator, device : str
    calls : dict
        Name to key of each operator that was called meanwhile.
    seconds : float
        How long the battery took.
    environment : tuple of str
        For people who read the file: Python, NumPy, SIMD level and platform; on CUDA architecture, driver and compiler.
    kind : str
        "cpu", "hardware" or "emulated".
    codes : dict
        Name to the part of the key that does not depend on the environment, of the operator and of those called.
    origin : {"battery", "stored", "shipped"}
        Where this object came from: this process, the user's folder, or the plugin's package.
    """

    key: str
    operator: str
    device: str
    calls: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    environment: tuple[str, ...] = ()
    kind: str = "cpu"
    codes: dict[str, str] = field(default_factory=dict)
    origin: str = "battery"


@dataclass(frozen=True)
class Key:
    """The key of an operator, or the reason why it has none."""

    value: str = ""
    reason: str = ""
    code: str = ""  # the part that does not depend on the environment


class Certificates:
    """The certificates of the operators of one loader.

    Parameters
    ----------
    loader : Loader
        Knows which distribution owns an operator and which offer kernels for it.
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._memory: dict[str, Certificate] = {}
        self._keys: dict[tuple[str, str], tuple[AnyOperator, Key]] = {}
        self._digests: dict[str, Key] = {}
        self._codes: dict[tuple[str, str], tuple[AnyOperator, Key]] = {}
        self._folders_read: dict[Path, tuple[int, dict[str, list[Certificate]]]] = {}

    # ---- keys --------------------------------------------------------------------------------

    def key(self, operator: AnyOperator, device: str = "cpu") -> Key:
        """The key of an operator as it is now."""
        known = self._keys.get((operator.name, device))
        if known is None or known[0] is not operator:
            known = operator, self._compute(operator, device)
            self._keys[operator.name, device] = known
        return known[1]

    def forget(self, operator: AnyOperator) -> None:
        """A kernel of the operator came or went: it has another key."""
        for known in (self._keys, self._codes):
            for name, device in list(known):
                if name == operator.name:
                    del known[name, device]

    def _compute(self, operator: AnyOperator, device: str) -> Key:
        from plugrad.registry import digest

        environment = [*digest.environment(), *environment_of(device)]
        code = self.code(operator, device)
        return Key(_hash([code.code, *environment]), code=code.code) if code.code else code

    def code(self, operator: AnyOperator, device: str) -> Key:
        """The part of an operator's key that does not depend on where it runs, or why there is none."""
        known = self._codes.get((operator.name, device))
        if known is None or known[0] is not operator:
            known = self._codes[operator.name, device] = operator, self._code(operator, device)
        return known[1]

    def _code(self, operator: AnyOperator, device: str) -> Key:
        from plugrad.registry.fingerprint import Opaque, of_function, of_operator
        from plugrad.registry.metadata import DISTRIBUTION

        if operator.owner is None:
            return Key(
                reason=f"it belongs to no distribution (it was registered by hand in the module "
                f"{operator.module}), so what its code is cannot be told from a digest"
            )
        parts = [_FORMAT, device]
        kernels = [k for k in self._loader.table.kernels_of(operator.name) if k.device == device]
        owners = [DISTRIBUTION, operator.owner, *sorted(k.plugin.distribution for k in kernels)]
        for owner in owners:
            made = self._digest(owner)
            if made.reason:
                return made
            parts.append(made.value)
        try:
            parts.append(of_operator(operator))
            parts += [of_function(k.function, f"the kernel of {k.operator}") for k in kernels]
        except Opaque as error:
            return Key(reason=str(error))
        return Key(code=_hash(parts))

    def _digest(self, distribution: str) -> Key:
        """Digest of a distribution and of the versions of what it requires."""
        from plugrad.registry import digest
        from plugrad.registry.loader import START
        from plugrad.registry.metadata import DISTRIBUTION, canonical

        known = self._digests.get(distribution)
        if known is None:
            ours = canonical(distribution)
            plugins = [p for p in self._loader.plugins if canonical(p.distribution) == ours]
            dist = next((p.dist for p in plugins), None)
            modules = [p.module for p in plugins if p.status != "blocked"]
            since = min([p.imported for p in plugins if p.imported] or [START])
            if ours == DISTRIBUTION:
                modules.append("plugrad")
                since = START
            made = digest.of_distribution(distribution, dist, modules, since)
            versions = digest.required_versions(dist)
            known = Key(reason=made.reason) if made.reason else Key(_hash([made.value, *versions]))
            self._digests[distribution] = known
        return known

    # ---- finding and keeping -----------------------------------------------------------------

    def find(self, operator: AnyOperator, device: str = "cpu") -> Certificate | None:
        """The certificate that holds now, or None. Loads the operators that it lists."""
        key = self.key(operator, device).value
        if not key:
            return None
        found = self._memory.get(key) or self._read(key, operator, device)
        if found is None or not self._holds(found):
            return None
        self._memory[key] = found
        return found

    def _holds(self, certificate: Certificate) -> bool:
        for name, key in certificate.calls.items():
            try:
                called = self._loader.get(name)
            except LookupError:
                return False
            if self.key(called, certificate.device).value != key:
                return False
        return True

    def _read(self, key: str, operator: AnyOperator, device: str) -> Certificate | None:
        for folder, origin in self._folders(operator):
            try:
                data = json.loads((folder / f"{key}.json").read_text("utf-8"))
                if (data["format"], data["key"]) != (_FORMAT, key):
                    continue
                if (data["operator"], data["device"]) != (operator.name, device):
                    continue
                return _certificate(data, origin)
            except _UNREADABLE:
                continue
        return None

    def seen(self, operator: AnyOperator, kind: str) -> list[Certificate]:
        """The certificates on CUDA, "hardware" or "emulated", that were kept for the code as it is now.

        Nothing is needed of the device: environment, driver and compiler may be others than here.
        """
        own = self.code(operator, "cuda").code
        return [
            made
            for folder, origin in self._folders(operator)
            for made in self._listed(folder, origin).get(operator.name, ())
            if (made.device, made.kind) == ("cuda", kind)
            and made.codes.get(operator.name) == own
            and self._same_codes(made)
        ]

    def _listed(self, folder: Path, origin: str) -> dict[str, list[Certificate]]:
        """The certificates of a folder by operator; read again only when the folder has changed."""
        try:
            changed = folder.stat().st_mtime_ns
        except OSError:
            return {}
        known = self._folders_read.get(folder)
        if known is None or known[0] != changed:
            found: dict[str, list[Certificate]] = {}
            for path in sorted(folder.glob("*.json")):
                try:
                    made = _certificate(json.loads(path.read_text("utf-8")), origin)
                except _UNREADABLE:
                    continue
                found.setdefault(made.operator, []).append(made)
            known = self._folders_read[folder] = changed, found
        return known[1]

    def _same_codes(self, certificate: Certificate) -> bool:
        for name, code in certificate.codes.items():
            try:
                if self.code(self._loader.get(name), certificate.device).code != code:
                    return False
            except LookupError:
                return False
        return True

    def _folders(self, operator: AnyOperator) -> list[tuple[Path, str]]:
        folders = [(certificate_folder(), "stored")]
        package = self._loader.package_of(operator)
        if package is not None:
            folders.append((package / "certificates", "shipped"))
        return folders

    def keep(
        self, operator: AnyOperator, device: str, called: list[AnyOperator], seconds: float
    ) -> Certificate | str:
        """Write down that an operator passed; returns the reason if it cannot be kept."""
        from plugrad.registry.digest import environment

        key = self.key(operator, device)
        if not key.value:
            return key.reason
        calls, codes = {}, {operator.name: key.code}
        for other in sorted(called, key=lambda op: op.name):
            theirs = self.key(other, device)
            if not theirs.value:
                return (
                    f"it calls '{other.name}', which is verified once per process: {theirs.reason}"
                )
            calls[other.name] = theirs.value
            codes[other.name] = theirs.code
        where = (*environment(), *environment_of(device))
        made = Certificate(
            key.value, operator.name, device, calls, seconds, where, kind_of(device), codes
        )
        self._memory[key.value] = made
        data = {"format": _FORMAT, **asdict(made)}
        del data["origin"]
        write_text(certificate_folder() / f"{key.value}.json", json.dumps(data, indent=1))
        return made


def _certificate(data: dict[str, Any], origin: str) -> Certificate:
    """What a file holds; raises where it makes no sense."""
    if data["format"] != _FORMAT:
        raise ValueError("another format")
    return Certificate(
        str(data["key"]),
        str(data["operator"]),
        str(data["device"]),
        {str(name): str(called) for name, called in data["calls"].items()},
        float(data["seconds"]),
        tuple(data["environment"]),
        str(data["kind"]),
        {str(name): str(code) for name, code in data["codes"].items()},
        origin,
    )


def _hash(parts: list[str]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(f"{len(part)}:{part}".encode())
    return total.hexdigest()
