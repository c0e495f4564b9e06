"""Certificates: that an operator passed its battery, kept between processes.

(a) A certificate is about one operator on one device. Its key hashes all that the outcome can
    depend on: the code of plugrad, of the operator's distribution and of those that offer it a
    kernel, the versions of what its distribution requires, the declaration, and the environment.
(b) It lists the operators that were called during the battery, with their keys then: their keys
    must be the same now.
(c) Where something cannot be hashed there is no key, and a reason why; such an operator is
    verified once per process.
(d) One file per key, written under another name and renamed. A folder that cannot be written to
    means memory only; a file that makes no sense is as good as none. A wheel may ship certificates
    in the folder `certificates` of its package. A certificate saves time; it is no signature.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from plugrad.registry.files import certificate_folder, write_atomically

if TYPE_CHECKING:
    from plugrad.registry.loader import Loader
    from plugrad.registry.table import AnyOperator

__all__ = ["Certificate", "Certificates"]

_FORMAT = "plugrad certificate 1"


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
        For people who read the file: Python, NumPy, SIMD level and platform.
    origin : {"battery", "stored", "shipped"}
        Where this object came from: this process, the user's folder, or the plugin's package.
    """

    key: str
    operator: str
    device: str
    calls: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    environment: tuple[str, ...] = ()
    origin: str = "battery"


@dataclass(frozen=True)
class Key:
    """The key of an operator, or the reason why it has none."""

    value: str = ""
    reason: str = ""


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
        for name, device in list(self._keys):
            if name == operator.name:
                del self._keys[name, device]

    def _compute(self, operator: AnyOperator, device: str) -> Key:
        from plugrad.registry import digest
        from plugrad.registry.fingerprint import Opaque, of_function, of_operator
        from plugrad.registry.metadata import DISTRIBUTION

        if operator.owner is None:
            return Key(
                reason=f"it belongs to no distribution (it was registered by hand in the module "
                f"{operator.module}), so what its code is cannot be told from a digest"
            )
        parts = [_FORMAT, device, *digest.environment()]
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
        return Key(_hash(parts))

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
                calls = {str(name): str(called) for name, called in data["calls"].items()}
                seconds, environment = float(data["seconds"]), tuple(data["environment"])
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue
            return Certificate(key, operator.name, device, calls, seconds, environment, origin)
        return None

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
        calls = {}
        for other in sorted(called, key=lambda op: op.name):
            theirs = self.key(other, device)
            if not theirs.value:
                return (
                    f"it calls '{other.name}', which is verified once per process: {theirs.reason}"
                )
            calls[other.name] = theirs.value
        made = Certificate(key.value, operator.name, device, calls, seconds, environment())
        self._memory[key.value] = made
        data = {"format": _FORMAT, **asdict(made)}
        del data["origin"]
        write_atomically(certificate_folder() / f"{key.value}.json", json.dumps(data, indent=1))
        return made


def _hash(parts: list[str]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(f"{len(part)}:{part}".encode())
    return total.hexdigest()
