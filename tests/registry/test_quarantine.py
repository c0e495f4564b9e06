"""Plugins that cannot be loaded: each is left out with its reason, whole, and alone."""

import shutil
import sys

import pytest

from plugrad.registry.errors import PluginQuarantined

HALF = """
import plugrad

@plugrad.operator("half::one", elementwise=True, nondifferentiable=True)
def one(x):
    return x

@one.samples
def _(make):
    yield make.call(make.normal(3))

@plugrad.hookimpl
def plugrad_register_ops(registry):
    registry.add(one)
    raise RuntimeError("then the disk was full")
"""

BARE = """
import plugrad

@plugrad.operator("bare::{name}", elementwise=True)
def {name}(x):
    return x
{rest}

@plugrad.hookimpl
def plugrad_register_ops(registry):
    registry.add({name})
"""

SAMPLES = """
@f.samples
def _(make):
    yield make.call(make.normal(3))
"""

RULE = """
@f.backward
def _(grad):
    return grad
"""

DUPLICATE = """
import plugrad

def make_one():
    @plugrad.operator("twice::same", elementwise=True, nondifferentiable=True)
    def same(x):
        return x
    return same

@plugrad.hookimpl
def plugrad_register_ops(registry):
    registry.add(make_one(), make_one())
"""

CASES = {
    "raises while importing": (
        "value = 1\nraise ValueError('no licence found')",
        "ValueError while importing its module 'bad': no licence found",
    ),
    "exits while importing": ("raise SystemExit(3)", "SystemExit while importing"),
    "imports what is not there": (
        "import a_module_that_is_nowhere",
        "ModuleNotFoundError while importing its module 'bad': No module named",
    ),
    "registers half and raises": (HALF, "RuntimeError while running its hooks: then the disk"),
    "registers nothing": ("import plugrad", "it registers nothing"),
    "hook that registers nothing": (
        "import plugrad\n@plugrad.hookimpl\ndef plugrad_register_ops(registry):\n    pass\n",
        "it registers nothing",
    ),
    "hook without the mark": (
        "def plugrad_register_ops(registry):\n    pass\n",
        "plugrad_register_ops is not marked with @plugrad.hookimpl",
    ),
    "misspelt hook": (
        "import plugrad\n@plugrad.hookimpl\ndef plugrad_register_op(registry):\n    pass\n",
        "plugrad_register_op",
    ),
    "hook with another argument": (
        "import plugrad\n@plugrad.hookimpl\ndef plugrad_register_ops(register):\n    pass\n",
        "register",
    ),
    "outside its namespace": (
        BARE.format(name="f", rest=RULE + SAMPLES),
        "'bare::f' is outside the plugin's namespaces ('ns')",
    ),
    "two of a name": (DUPLICATE, "two operators are named 'twice::same'"),
    "something that is no operator": (
        "import plugrad\n@plugrad.hookimpl\ndef plugrad_register_ops(registry):\n"
        "    registry.add(len)\n",
        "registry.add expects operators made by plugrad.operator",
    ),
    "an operator that is declared wrongly": (
        "import plugrad\n@plugrad.operator('no namespace')\ndef f(x):\n    return x\n",
        "namespace::name",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_reason(site, case):
    source, expected = CASES[case]
    site.add("bad", source, "[plugrad]\nns = bad\n")
    site.add_operators("good", "fine", "double")
    loader = site.loader()
    loader.load_all()
    plugin = loader.owner("ns")
    assert plugin.status == "quarantined"
    assert expected in plugin.reason
    with pytest.raises(PluginQuarantined) as caught:
        loader.get("ns::f")
    assert plugin.reason in str(caught.value)
    assert "'ns' (bad 1.0)" in str(caught.value)
    assert [op.name for op in loader.operators()] == ["fine::double"]


@pytest.mark.parametrize(
    ("rest", "expected"),
    [(RULE, "has no samples"), (SAMPLES, "has no rule for its gradient")],
)
def test_incomplete_declaration(site, rest, expected):
    site.add("bad", BARE.format(name="f", rest=rest), "[plugrad]\nbare = bad\n")
    with pytest.raises(PluginQuarantined, match=expected):
        site.loader().get("bare::f")


def test_half_registered_is_not_registered(site):
    site.add("bad", HALF, "[plugrad]\nhalf = bad\n")
    loader = site.loader()
    loader.load_all()
    assert loader.table.operators == {}
    assert loader.owner("half").info().operators == ()


def test_where_it_happened_is_told(site):
    path = site.add("bad", "\n\nraise ValueError('here')", "[plugrad]\nns = bad\n")
    loader = site.loader()
    loader.load_all()
    assert f'"{path}", line 3' in loader.owner("ns").reason


def test_a_module_that_is_gone(site):
    path = site.add_operators("gone", "lost", "double")
    path.unlink()
    with pytest.raises(PluginQuarantined, match="module 'gone' is gone.*gone 1.0.*Reinstall"):
        site.loader().get("lost::double")


def test_a_distribution_that_is_gone_after_it_was_seen(site):
    path = site.add_operators("gone", "lost", "double")
    loader = site.loader()
    assert loader.namespaces() == ["lost"]
    path.unlink()
    shutil.rmtree(site.folder / "gone-1.0.dist-info")
    with pytest.raises(PluginQuarantined, match="module 'gone' is gone"):
        loader.get("lost::double")


@pytest.mark.parametrize("damage", ["no metadata", "unreadable entry points"])
def test_damaged_metadata(site, damage):
    site.add_operators("hurt", "pain", "double")
    site.add_operators("good", "fine", "double")
    info = site.folder / "hurt-1.0.dist-info"
    if damage == "no metadata":
        (info / "METADATA").unlink()
        loader = site.loader()
        assert loader.get("pain::double").owner == "hurt"
    else:
        (info / "entry_points.txt").write_bytes(b"[plugrad]\nx = \xff\xfe\n")
        loader = site.loader()
        (plugin,) = [p for p in loader.plugins if p.distribution == "hurt"]
        assert plugin.status == "quarantined"
        assert "cannot be read" in plugin.reason
    assert loader.get("fine::double")


def test_a_plugin_is_tried_once(site):
    site.add("bad", "import builtins\nbuiltins.tries += 1\nraise ValueError", "[plugrad]\nns = bad")
    import builtins

    builtins.tries = 0
    try:
        loader = site.loader()
        for _ in range(3):
            with pytest.raises(PluginQuarantined):
                loader.get("ns::f")
        assert builtins.tries == 1
    finally:
        del builtins.tries


def test_interrupting_an_import_leaves_the_plugin_as_it_was(site):
    path = site.add("slow", "raise KeyboardInterrupt", "[plugrad]\nns = slow\n")
    loader = site.loader()
    with pytest.raises(KeyboardInterrupt):
        loader.load_all()
    assert loader.owner("ns").status == "not loaded"
    assert path.exists()
    assert "slow" not in sys.modules


def test_a_module_that_uses_its_own_operators_while_imported(site):
    source = """
    import builtins
    builtins.current_loader.get("own::f")
    """
    site.add("selfish", source, "[plugrad]\nown = selfish\n")
    import builtins

    builtins.current_loader = loader = site.loader()
    try:
        loader.load_all()
    finally:
        del builtins.current_loader
    assert "is being loaded by this thread" in loader.owner("own").reason
