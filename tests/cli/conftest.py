"""Running the command: in this process, and in a process of its own with plugins made for the test."""

import os
import subprocess
import sys
import textwrap

import pytest


class Workplace:
    """A folder in which the command runs, and whose plugins it sees as installed."""

    GOOD = """
    @plugrad.operator("{namespace}::double", elementwise=True)
    def double(x):
        '''Twice x.'''
        return 2 * x

    @double.backward
    def _(grad):
        return 2 * grad

    @double.samples
    def _(make):
        yield make.call(make.normal(3, 4))
        yield make.call(make.normal(2))
        yield make.call(make.normal(5))
    """
    WRONG = GOOD.replace("double", "triple").replace("2 * grad", "3 * grad")
    HOOK = """
    @plugrad.hookimpl
    def plugrad_register_ops(registry):
        registry.add_module(sys.modules[__name__])
    """

    def __init__(self, path):
        self.path = path
        self.site = path / "site"
        self.site.mkdir()
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(self.site), *sys.path])),
            "PLUGRAD_CERTIFICATES": str(path / "certificates"),
            "MPLCONFIGDIR": str(path / "matplotlib"),
            "PYTHONIOENCODING": "utf-8",
            "COLUMNS": "100",
        }

    def plugin(self, namespace, *sources):
        """Install a distribution with one module that holds `sources`."""
        code = "import sys\nimport plugrad\n" + "".join(
            textwrap.dedent(source.replace("{namespace}", namespace)) for source in sources
        )
        (self.site / f"{namespace}_module.py").write_text(code)
        info = self.site / f"plugrad_{namespace}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: plugrad-{namespace}\nVersion: 1.5\n"
        )
        (info / "entry_points.txt").write_text(f"[plugrad]\n{namespace} = {namespace}_module\n")

    def start(self, *arguments, **options):
        """Start ``plugrad arguments``."""
        return subprocess.Popen(
            [sys.executable, "-m", "plugrad", *arguments],
            cwd=self.path,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            **options,
        )

    def run(self, *arguments):
        """Run ``plugrad arguments`` to its end; exit code, standard output, standard error."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err


@pytest.fixture
def workplace(tmp_path):
    return Workplace(tmp_path)


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    """Run the command in this process: ``invoke("ops", "exp")`` gives click's result."""
    from click.testing import CliRunner

    from plugrad.cli.commands import cli

    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        return CliRunner().invoke(cli, list(arguments), prog_name="plugrad")

    return run
