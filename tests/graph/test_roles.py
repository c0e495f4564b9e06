"""Roles: what happens when nothing offers an operator."""

import os
import subprocess
import sys


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def test_without_the_standard_plugin_addition_says_what_is_missing():
    result = run("import plugrad\na = plugrad.tensor([1.0])\na + a", PLUGRAD_BLOCK="standard")
    assert result.returncode != 0
    last = result.stderr.strip().splitlines()[-1]
    assert "standard::add" in last
    assert "PLUGRAD_BLOCK" in last


def test_without_the_standard_plugin_import_and_tensors_still_work():
    result = run(
        "import plugrad\nprint(plugrad.tensor([1.0]), hasattr(plugrad.ones(1), 'exp'))",
        PLUGRAD_BLOCK="standard",
    )
    assert result.stdout.strip() == "tensor([1.]) False", result.stderr
