"""The command as a whole: how it starts, and what it says when it cannot."""

import sys

import pytest

from plugrad.cli import main


def test_help_lists_the_commands(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for command in ("plugins", "ops", "check", "train"):
        assert f"\n  {command}" in out


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("plugrad ")


def test_main_can_be_called_again_and_again(capsys):
    assert [main(["--help"]) for _ in range(3)] == [0, 0, 0]
    from plugrad import cli

    assert callable(cli.main)


def test_an_unknown_command_is_wrong_usage(capsys):
    assert main(["tarin"]) == 2
    assert "tarin" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_click_or_rich_it_says_what_to_install(missing, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, missing, None)
    assert main(["plugins"]) == 1
    printed = capsys.readouterr()
    assert 'pip install "plugrad[cli]"' in printed.err
    assert missing in printed.err
    assert printed.out == ""


def test_python_dash_m(workplace):
    code, out, err = workplace.run("--version")
    assert (code, err) == (0, "")
    assert out.startswith("plugrad ")
