"""Loading: laziness, order, namespaces, environment variables, staging, replacements, kernels."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from plugrad.registry.errors import PluginQuarantined, UnknownOperator


def statuses(loader):
    return {p.namespaces[0]: p.status for p in loader.plugins}


def test_metadata_alone_imports_nothing(site):
    site.add_operators("lazy-one", "lazy", "double")
    loader = site.loader()
    assert [p.info().module for p in loader.plugins] == ["lazy_one"]
    assert statuses(loader) == {"lazy": "not loaded"}
    assert loader.namespaces() == ["lazy"]
    assert "lazy_one" not in sys.modules


def test_first_use_loads_only_that_plugin(site):
    site.add_operators("first", "one", "double", "treble")
    site.add_operators("second", "two", "double")
    loader = site.loader()
    operator = loader.get("one::double")
    assert operator.name == "one::double"
    assert operator.owner == "first"
    assert statuses(loader) == {"one": "loaded", "two": "not loaded"}
    assert "second" not in sys.modules
    assert loader.owner("one").info().operators == ("one::double", "one::treble")
    assert loader.get("one::double") is operator


def test_listing_loads_everything_in_order(site):
    site.add_operators("zebra", "a", "double")
    site.add_operators("Ant", "z", "double")
    site.add_operators("bee", "m", "double")
    loader = site.loader()
    assert [p.distribution for p in loader.plugins] == ["Ant", "bee", "zebra"]
    assert [op.name for op in loader.operators()] == ["a::double", "m::double", "z::double"]
    assert set(statuses(loader).values()) == {"loaded"}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (None, ["one::double", "one::treble", "two::double"]),
        ("one", ["one::double", "one::treble"]),
        ("one::*", ["one::double", "one::treble"]),
        ("dou*", ["one::double", "two::double"]),
        ("*::treble", ["one::treble"]),
        ("three", []),
    ],
)
def test_patterns(site, pattern, expected):
    site.add_operators("first", "one", "double", "treble")
    site.add_operators("second", "two", "double")
    assert [op.name for op in site.loader().operators(pattern)] == expected


def test_several_names_may_share_a_module(site):
    source = "import sys, plugrad\n"
    for namespace in ("left", "right"):
        source += f"""
@plugrad.operator("{namespace}::same", elementwise=True, nondifferentiable=True)
def {namespace}(x):
    return x

@{namespace}.samples
def _(make):
    yield make.call(make.normal(3))
"""
    source += """
@plugrad.hookimpl
def plugrad_register_ops(registry):
    registry.add(left, right)
"""
    site.add("both", source, "[plugrad]\nright = both\nleft = both\n")
    loader = site.loader()
    assert [p.namespaces for p in loader.plugins] == [("left", "right")]
    assert loader.get("left::same").name == "left::same"
    assert loader.get("right::same").name == "right::same"


def test_operators_of_others_in_a_module_are_left_alone(site):
    site.add_operators("first", "one", "double")
    site.add_operators("second", "two", "treble", extra="from first import double\nsame = treble")
    loader = site.loader()
    assert loader.get("two::treble").owner == "second"
    assert loader.get("one::double").owner == "first"
    assert [op.name for op in loader.operators()] == ["one::double", "two::treble"]


def test_many_threads_load_a_plugin_once(site):
    site.add_operators("first", "one", "double", extra="import time\ntime.sleep(0.05)")
    loader = site.loader()
    start = threading.Barrier(8)

    def use(_):
        start.wait(20)
        return loader.get("one::double")

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(use, range(8)))
    assert all(operator is found[0] for operator in found)
    assert loader.owner("one").status == "loaded"


# ---- names --------------------------------------------------------------------------------------


def test_unknown_namespace_names_the_close_one(site):
    site.add_operators("first", "sound", "double")
    with pytest.raises(
        UnknownOperator, match=r"no plugin offers.*'sond::x'.*did you mean.*'sound'"
    ):
        site.loader().get("sond::x")


def test_unknown_operator_names_the_close_one(site):
    site.add_operators("first", "one", "double")
    with pytest.raises(UnknownOperator, match=r"'one' \(first 1.0\) has none.*'one::double'"):
        site.loader().get("one::duble")


def test_missing_standard_plugin_is_named(site):
    with pytest.raises(LookupError, match=r"'standard::add'.*distribution 'plugrad'.*'standard'"):
        site.loader().get("add")


def test_a_namespace_claimed_twice_names_both_distributions(site):
    site.add_operators("first", "same", "double")
    site.add_operators("second", "same", "treble")
    site.add_operators("third", "other", "double")
    loader = site.loader()
    with pytest.raises(PluginQuarantined, match=r"'same' is claimed by first 1.0.*second 1.0"):
        loader.get("same::double")
    assert "first" not in sys.modules and "second" not in sys.modules
    assert loader.get("other::double")
    alone = site.loader(PLUGRAD_BLOCK="second")
    assert alone.get("same::double").owner == "first"


def test_an_entry_point_that_is_no_identifier(site):
    site.add_operators("first", "one", "double")
    site.add("odd", "", "[plugrad]\nno-name = odd\n")
    loader = site.loader()
    assert statuses(loader) == {"one": "not loaded", "no-name": "quarantined"}
    assert "expected a Python identifier" in loader.owner("no-name").reason


# ---- environment --------------------------------------------------------------------------------


def test_block_by_namespace_or_distribution(site):
    site.add_operators("dist-one", "one", "double")
    site.add_operators("dist-two", "two", "double")
    site.add_operators("dist-three", "three", "double")
    loader = site.loader(PLUGRAD_BLOCK="one, Dist_Two")
    assert statuses(loader) == {"one": "blocked", "two": "blocked", "three": "not loaded"}
    with pytest.raises(PluginQuarantined, match="PLUGRAD_BLOCK=one, Dist_Two leaves it out"):
        loader.get("one::double")
    assert [op.name for op in loader.operators()] == ["three::double"]
    assert "dist_one" not in sys.modules


def test_only_those_allowed(site):
    site.add_operators("dist-one", "one", "double")
    site.add_operators("dist-two", "two", "double")
    loader = site.loader(PLUGRAD_PLUGINS="two")
    assert statuses(loader) == {"one": "blocked", "two": "not loaded"}
    with pytest.raises(PluginQuarantined, match="PLUGRAD_PLUGINS=two does not name it"):
        loader.get("one::double")


def test_no_autoload(site):
    site.add_operators("plugrad", "standard", "double", module="stand_in")
    site.add_operators("dist-one", "one", "double")
    site.add_operators("dist-two", "two", "double")
    loader = site.loader(PLUGRAD_DISABLE_PLUGIN_AUTOLOAD="1")
    assert statuses(loader) == {"standard": "not loaded", "one": "blocked", "two": "blocked"}
    named = site.loader(PLUGRAD_DISABLE_PLUGIN_AUTOLOAD="1", PLUGRAD_PLUGINS="two")
    assert statuses(named) == {"standard": "not loaded", "one": "blocked", "two": "not loaded"}
    assert statuses(site.loader(PLUGRAD_DISABLE_PLUGIN_AUTOLOAD="0"))["one"] == "not loaded"


def test_strict_raises_at_once(site):
    site.add("broken", "raise ValueError('no luck')", "[plugrad]\nbad = broken\n")
    loader = site.loader(PLUGRAD_STRICT_PLUGINS="1")
    with pytest.raises(PluginQuarantined, match="no luck") as caught:
        loader.load_all()
    assert isinstance(caught.value.__cause__, ValueError)


def test_strict_raises_a_conflict_at_once(site):
    site.add_operators("first", "same", "double")
    site.add_operators("second", "same", "treble")
    with pytest.raises(PluginQuarantined, match="claimed by"):
        site.loader(PLUGRAD_STRICT_PLUGINS="1").namespaces()


# ---- replacing and kernels ----------------------------------------------------------------------

FASTER = """
import plugrad

@plugrad.operator("fast::double", elementwise=True, replaces="one::double"{options})
def double(x{more}):
    return x + x

@double.backward
def _(grad):
    return grad * 2

@double.samples
def _(make):
    yield make.call(make.normal(3))

@plugrad.hookimpl
def plugrad_register_ops(registry):
    registry.add(double)
"""


def test_replacing_is_explicit_and_heard_of(site):
    site.add_operators("first", "one", "double")
    site.add("faster", FASTER.format(options="", more=""), "[plugrad]\nfast = faster\n")
    loader = site.loader()
    heard = []
    loader.table.listen(heard.extend)
    old = loader.get("one::double")
    new = loader.get("fast::double")
    assert loader.get("one::double") is new
    assert new is not old
    assert "one::double" in heard
    assert [op.name for op in loader.operators("one")] == ["one::double"]


def test_a_replacement_takes_the_same_arguments(site):
    site.add_operators("first", "one", "double")
    source = FASTER.format(options="", more=", *, k=1.0")
    site.add("faster", source, "[plugrad]\nfast = faster\n")
    loader = site.loader()
    loader.load_all()
    assert "its constants are ('k',), expected ()" in loader.owner("fast").reason
    assert loader.get("one::double").owner == "first"


KERNEL = """
import plugrad

def kernel(x, out=None):
    return x + x

@plugrad.hookimpl
def plugrad_register_kernels(registry):
    registry.kernel("{name}", "cpu", kernel)
"""


def test_kernels_load_with_the_namespace_they_serve(site):
    site.add_operators("first", "one", "double")
    site.add("quick", KERNEL.format(name="one::double"), "[plugrad.kernels]\none = quick\n")
    loader = site.loader()
    loader.get("one::double")
    entry = loader.table.kernels["one::double", "cpu"]
    assert entry.plugin.distribution == "quick"
    assert entry.plugin.info().kernels == (("one::double", "cpu"),)


def test_a_kernel_for_no_operator(site):
    site.add_operators("first", "one", "double")
    site.add("quick", KERNEL.format(name="one::halve"), "[plugrad.kernels]\none = quick\n")
    loader = site.loader()
    assert loader.get("one::double")
    (plugin,) = [p for p in loader.plugins if p.distribution == "quick"]
    assert plugin.status == "quarantined"
    assert "no operator 'one::halve'" in plugin.reason


def test_two_kernels_for_one_operator_name_both(site):
    site.add_operators("first", "one", "double")
    for name in ("quick", "rapid"):
        site.add(name, KERNEL.format(name="one::double"), f"[plugrad.kernels]\none = {name}\n")
    loader = site.loader()
    loader.get("one::double")
    (plugin,) = [p for p in loader.plugins if p.distribution == "rapid"]
    assert "offered by both quick and rapid" in plugin.reason


def test_backends_are_recorded(site):
    source = """
import plugrad

@plugrad.hookimpl
def plugrad_register_backends(registry):
    registry.backend("tpu", object())
"""
    site.add("chip", source, "[plugrad]\nchip = chip\n")
    loader = site.loader()
    loader.load_all()
    assert loader.table.backends["tpu"].distribution == "chip"
