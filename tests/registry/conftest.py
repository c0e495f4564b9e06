"""Throw-away distributions: a module and a `dist-info` folder, seen by this process or another."""

import base64
import hashlib
import importlib
import os
import subprocess
import sys
import textwrap
from importlib.metadata import distributions
from pathlib import Path

import pytest

from plugrad.registry.certificates import Certificates
from plugrad.registry.loader import Loader
from plugrad.registry.verify import Verifier

OPERATOR = '''
@plugrad.operator("{name}", elementwise=True)
def {short}(x):
    """Twice x."""
    return 2 * x

@{short}.backward
def _(grad):
    return {gradient}

@{short}.samples
def _(make):
    yield make.call(make.normal(3, 4))
    yield make.call(make.normal(2))
    yield make.call(make.normal(5))
'''

HOOK = """
@plugrad.hookimpl
def plugrad_register_ops(registry):
    registry.add_module(sys.modules[__name__])
"""


class Site:
    """A folder like site-packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificates = folder.parent / "certificates"
        self.modules: list[str] = []

    def add(self, name, source, entry_points, *, module=None, version="1.0", requires=()):
        """Install a distribution with one module; returns the module's path."""
        module = module or name.replace("-", "_")
        self.modules.append(module.partition(".")[0])
        path = self.folder / (module.replace(".", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {each}" for each in requires]
        (info / "METADATA").write_text("\n".join(lines) + "\n")
        (info / "entry_points.txt").write_text(textwrap.dedent(entry_points))
        self.write_record(info, [path])
        self.age(path, info / "RECORD")
        importlib.invalidate_caches()
        return path

    def write_record(self, info, paths):
        rows = []
        for path in paths:
            data = path.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{path.relative_to(self.folder).as_posix()},sha256={digest},{len(data)}")
        rows.append(f"{info.name}/RECORD,,")
        (info / "RECORD").write_text("\n".join(rows) + "\n")

    def age(self, *paths, seconds=3600):
        """Make files look older than this process, as installed ones are."""
        for path in paths:
            then = path.stat().st_mtime - seconds
            os.utime(path, (then, then))

    def add_operators(self, name, namespace, *names, gradient="grad * 2", extra="", **options):
        """Install a plugin whose operators double their input."""
        body = "".join(
            OPERATOR.format(name=f"{namespace}::{each}", short=each, gradient=gradient)
            for each in names
        )
        source = f"import sys\nimport plugrad\n{body}\n{textwrap.dedent(extra)}\n{HOOK}"
        module = options.get("module") or name.replace("-", "_")
        return self.add(name, source, f"[plugrad]\n{namespace} = {module}\n", **options)

    def loader(self, **environ) -> Loader:
        """A loader that sees these distributions and no other, in this process."""
        return Loader(list(distributions(path=[str(self.folder)])), environ)

    def verifier(self, battery, **environ) -> Verifier:
        loader = self.loader(**environ)
        return Verifier(loader, Certificates(loader), battery, roles=())

    def run(self, code, **environ):
        """Run code in another process, which sees these distributions besides the installed ones."""
        paths = [str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PLUGRAD_")}
        # The hash seed must not matter: sets in code objects are hashed in an order of their own.
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={
                **inherited,
                "PYTHONPATH": os.pathsep.join(paths),
                "PYTHONDONTWRITEBYTECODE": "1",
                "PLUGRAD_CERTIFICATES": str(self.certificates),
                **environ,
            },
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def site(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    folder.mkdir()
    made = Site(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PLUGRAD_CERTIFICATES", str(made.certificates))
    yield made
    for name in list(sys.modules):
        if name.partition(".")[0] in made.modules:
            del sys.modules[name]


@pytest.fixture
def inside_backward():
    """Call a function while a backward runs on this thread."""
    import numpy as np

    from plugrad.graph.tensor import Tensor

    def call(function):
        leaf = Tensor(np.ones(3), True)
        leaf.register_hook(lambda grad: function())
        leaf.backward(Tensor(np.ones(3)))

    return call
