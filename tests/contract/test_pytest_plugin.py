"""The pytest plugin, run in pytest runs of its own."""

import os
import subprocess
import sys
import textwrap

import pytest

MODULE = """
import numpy as np
import plugrad
from plugrad import registry
from pytest_plugrad import check_operators

test_contract = check_operators("standard::exp", "standard::log1*", quick=True)
"""


def run_pytest(tmp_path, source, *arguments):
    (tmp_path / "test_it.py").write_text(textwrap.dedent(source))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    return subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=env
    )


@pytest.fixture(autouse=True)
def loaded(request):
    if not request.config.pluginmanager.hasplugin("plugrad"):
        pytest.skip("plugrad is not installed, so pytest does not know its plugin")


def test_one_line_makes_a_test_per_operator(tmp_path):
    result = run_pytest(tmp_path, MODULE)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "3 passed" in result.stdout
    listed = run_pytest(tmp_path, MODULE, "--collect-only").stdout
    for name in ("standard::exp", "standard::log10", "standard::log1p"):
        assert f"test_contract[{name}]" in listed


def test_a_pattern_without_operators_fails_loudly(tmp_path):
    source = """
    from pytest_plugrad import check_operators
    test_contract = check_operators("standard::no_such_thing")
    """
    result = run_pytest(tmp_path, source)
    assert result.returncode != 0
    assert "no operator matches 'standard::no_such_thing'" in result.stdout + result.stderr


def test_the_mark_parametrises_tests_of_ones_own(tmp_path):
    source = """
    import pytest
    @pytest.mark.plugrad_operators("standard::exp")
    def test_name(plugrad_operator):
        assert plugrad_operator.name == "standard::exp"
    """
    result = run_pytest(tmp_path, source, "--strict-markers")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 passed" in result.stdout


def test_the_fixture_without_the_mark_is_explained(tmp_path):
    result = run_pytest(tmp_path, "def test_it(plugrad_operator):\n    pass\n")
    assert result.returncode != 0
    assert "plugrad_operators" in result.stdout + result.stderr


def test_a_refused_operator_fails_with_its_report(tmp_path):
    source = """
    import plugrad
    from pytest_plugrad import check_operators
    from plugrad import registry

    op = plugrad.operator("demo::double", elementwise=True)(lambda x: 2 * x)
    op.backward(lambda grad: grad * 3.0)
    op.samples(lambda make: iter([make.call(make.normal(3))]))
    registry.operators = lambda pattern=None: [op]
    test_contract = check_operators("demo")
    """
    result = run_pytest(tmp_path, source)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "[gradient]" in result.stdout
    assert "expected 2, got 3" in result.stdout


def test_a_run_without_operators_does_not_import_plugrad(tmp_path):
    source = """
    import sys
    def test_it():
        assert "plugrad" not in sys.modules
    """
    result = run_pytest(tmp_path, source)
    assert result.returncode == 0, result.stdout + result.stderr


def test_patterns_are_names():
    from pytest_plugrad import check_operators

    with pytest.raises(TypeError, match="names or patterns"):
        check_operators()
    with pytest.raises(TypeError, match="names or patterns"):
        check_operators(3)


def test_a_device_that_is_not_there_is_a_skip_with_its_reason(tmp_path):
    source = """
    from pytest_plugrad import check_operators
    test_contract = check_operators("standard::exp", device="tpu")
    """
    result = run_pytest(tmp_path, source, "-rs")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 skipped" in result.stdout
    assert "no backend is named 'tpu'" in result.stdout
