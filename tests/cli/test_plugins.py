"""``plugrad plugins``."""

import json


def by_name(text):
    return {plugin["name"]: plugin for plugin in json.loads(text)}


def test_the_standard_plugin_is_listed(invoke):
    result = invoke("plugins")
    assert result.exit_code == 0
    row = next(line for line in result.stdout.splitlines() if line.startswith("standard"))
    assert "plugrad_ops" in row and "loaded" in row


def test_json_says_all(workplace):
    workplace.plugin("my", workplace.GOOD, workplace.HOOK)
    code, out, _ = workplace.run("plugins", "--json")
    assert code == 0
    mine = by_name(out)["my"]
    assert (mine["distribution"], mine["version"]) == ("plugrad-my", "1.5")
    assert mine["status"] == "loaded"
    assert mine["operators"] == ["my::double"]
    assert "standard::add" in by_name(out)["standard"]["operators"]


def test_a_broken_plugin_is_listed_with_its_reason(workplace):
    workplace.plugin("bad", "raise OSError('no [such] file')")
    code, out, _ = workplace.run("plugins")
    assert code == 0
    assert "quarantined" in out
    assert "no [such] file" in out
    _, out, _ = workplace.run("plugins", "--json")
    assert "no [such] file" in by_name(out)["bad"]["reason"]


def test_what_a_plugin_prints_while_it_loads_does_not_spoil_the_json(workplace):
    workplace.plugin("loud", "print('hello')", workplace.GOOD, workplace.HOOK)
    code, out, err = workplace.run("plugins", "--json")
    assert code == 0
    assert by_name(out)["loud"]["status"] == "loaded"
    assert "hello" in err


def test_a_name_in_the_environment_that_no_plugin_has_is_told(workplace):
    workplace.plugin("mine", workplace.GOOD, workplace.HOOK)
    workplace.environment["PLUGRAD_PLUGINS"] = "mien"
    code, out, _ = workplace.run("plugins")
    assert code == 0
    text = " ".join(out.split())
    assert (
        "PLUGRAD_PLUGINS names 'mien', but no installed plugin is called that; did you mean 'mine'?"
        in text
    )
    code, out, err = workplace.run("plugins", "--json")
    assert by_name(out)["mine"]["status"] == "blocked"
    assert "PLUGRAD_PLUGINS names 'mien'" in err


def test_strict_plugins_is_an_error_in_one_line(workplace):
    workplace.plugin("bad", "raise OSError('no such file')")
    workplace.environment["PLUGRAD_STRICT_PLUGINS"] = "1"
    code, out, err = workplace.run("plugins")
    assert (code, out) == (1, "")
    assert "no such file" in err and "Traceback" not in err
