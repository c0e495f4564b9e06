"""What tests import from a folder of scripts is gone after each test, whatever other folders have by the same names."""

import sys
import types

import pytest


@pytest.fixture
def afterwards():
    """Checks that are made once the fixtures behind this one are undone."""
    checks = []
    yield checks
    assert checks
    for check in checks:
        assert check()


@pytest.fixture
def folders(tmp_path):
    """Two folders with a script of the same name, one of which needs another script."""
    made = tmp_path / "first", tmp_path / "second"
    for folder in made:
        folder.mkdir()
        (folder / "plugrad_same.py").write_text(f"place = {folder.name!r}\n")
    (made[0] / "plugrad_user.py").write_text("import plugrad_same\nplace = plugrad_same.place\n")
    return made


def ours():
    return {
        name for name in sys.modules if name.startswith("plugrad_same") or name == "plugrad_user"
    }


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_scripts_of_one_name_in_two_folders(afterwards, scripts, folders, order):
    for i in order:
        assert scripts(folders[i])("plugrad_same").place == folders[i].name
    afterwards.append(lambda: not ours())


def test_what_a_script_imports_is_forgotten_too(afterwards, scripts, folders):
    script = scripts(folders[0])
    assert script("plugrad_user").place == "first"
    assert script("plugrad_user") is script("plugrad_user")
    assert ours() == {"plugrad_user", "plugrad_same"}
    afterwards.append(lambda: not ours() and str(folders[0]) not in sys.path)


def test_a_module_from_elsewhere_comes_back(monkeypatch, afterwards, scripts, folders):
    known = types.ModuleType("plugrad_same"), types.ModuleType("plugrad_same.inner")
    for module in known:
        monkeypatch.setitem(sys.modules, module.__name__, module)
    assert scripts(folders[0])("plugrad_user").place == "first"
    assert "plugrad_same.inner" not in sys.modules
    afterwards.append(lambda: all(sys.modules[m.__name__] is m for m in known))
