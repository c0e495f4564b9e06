"""`plugrad.ops`, registering by hand, methods, roles, and importing with broken plugins around."""

import numpy as np
import pytest

import plugrad
from plugrad.registry.certificates import Certificates
from plugrad.registry.errors import (
    DeclarationError,
    NameConflict,
    OperatorRefused,
    PluginQuarantined,
    UnknownOperator,
)
from plugrad.registry.namespace import Root
from plugrad.registry.notebook import register
from plugrad.registry.ufuncs import UFUNCS
from plugrad.registry.verify import Verifier

# ---- attributes ---------------------------------------------------------------------------------


def test_found_once_and_kept(site):
    site.add_operators("first", "one", "double")
    loader = site.loader()
    ops = Root(loader)
    assert "one" not in vars(ops)
    operator = ops.one.double
    assert operator is loader.get("one::double")
    assert vars(ops.one)["double"] is operator
    assert ops.one is ops.one


def test_dir(site):
    site.add_operators("plugrad", "standard", "exp", "log", module="stand_in")
    site.add_operators("first", "one", "double", "treble")
    site.add("bad", "raise ValueError", "[plugrad]\nworse = bad\n")
    ops = Root(site.loader())
    assert dir(ops) == ["exp", "log", "one", "standard", "worse"]
    assert dir(ops.one) == ["double", "treble"]
    assert dir(ops.worse) == []


def test_standard_operators_have_no_prefix(site):
    site.add_operators("plugrad", "standard", "exp", module="stand_in")
    ops = Root(site.loader())
    assert ops.exp.name == "standard::exp"
    assert ops.standard.exp is ops.exp


def test_missing(site):
    site.add_operators("first", "one", "double")
    ops = Root(site.loader())
    assert not hasattr(ops, "nothing")
    assert not hasattr(ops.one, "nothing")
    assert not hasattr(ops, "__wrapped__")
    with pytest.raises(UnknownOperator, match="one::dubble"):
        _ = ops.one.dubble


def test_a_quarantined_namespace_raises_its_reason(site):
    site.add("bad", "raise ValueError('no luck')", "[plugrad]\nworse = bad\n")
    ops = Root(site.loader())
    namespace = ops.worse
    with pytest.raises(PluginQuarantined, match=r"'worse::f' cannot be used.*no luck"):
        _ = namespace.f


def test_what_changed_is_forgotten(site):
    site.add_operators("first", "one", "double")
    source = """
    import plugrad
    @plugrad.operator("fast::double", elementwise=True, replaces="one::double")
    def double(x):
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
    site.add("faster", source, "[plugrad]\nfast = faster\n")
    ops = Root(site.loader())
    old = ops.one.double
    assert ops.fast.double is not old
    assert ops.one.double is ops.fast.double


# ---- registering by hand ------------------------------------------------------------------------


def declare(name="hand::f", factor=2.0, samples=True, **options):
    @plugrad.operator(name, elementwise=True, **options)
    def f(x):
        return factor * x

    @f.backward
    def _(grad):
        return grad * factor

    if samples:

        @f.samples
        def _(make):
            yield make.call(make.normal(3))

    return f


@pytest.fixture
def hand(site):
    """Register with a loader of its own; operators with a negative value at 1 are refused."""
    from plugrad.contract.report import CheckResult, Failure, Report

    def battery(operator, device):
        failures = [Failure("gradient", "", "off")] if operator.function(1.0) < 0 else []
        return Report(operator.name, "cpu", [CheckResult("gradient", "passed", 0.0)], failures)

    def with_site():
        loader = site.loader()
        verifier = Verifier(loader, Certificates(loader), battery, roles=())
        return loader, lambda op: register(op, loader, verifier)

    return with_site


def test_register_and_replace_from_the_same_module(hand):
    loader, add = hand()
    ops = Root(loader)
    first = add(declare())
    assert ops.hand.f is first
    second = add(declare(factor=3.0))
    assert ops.hand.f is second
    assert dir(ops) == ["hand"]


def test_register_keeps_the_old_one_if_the_new_one_is_refused(hand):
    loader, add = hand()
    ops = Root(loader)
    first = add(declare())
    with pytest.raises(OperatorRefused, match="off"):
        add(declare(factor=-1.0))
    assert ops.hand.f is first
    with pytest.raises(OperatorRefused):
        add(declare("hand::g", factor=-1.0))
    assert not hasattr(ops.hand, "g")


def test_register_from_another_module(hand):
    _, add = hand()
    add(declare())
    other = declare()
    other.module = "elsewhere"
    with pytest.raises(NameConflict, match="already registered by the module .*elsewhere"):
        add(other)


def test_register_in_the_namespace_of_a_plugin(site, hand):
    site.add_operators("first", "hand", "double", version="2.1")
    loader, add = hand()
    with pytest.raises(NameConflict, match="owned by the installed distribution first 2.1"):
        add(declare())
    assert loader.owner("hand").status == "not loaded"


def test_register_something_incomplete(hand):
    _, add = hand()
    with pytest.raises(DeclarationError, match="no samples"):
        add(declare(samples=False))
    with pytest.raises(TypeError, match="expects an operator"):
        add(len)


def test_a_method_that_tensor_has(hand):
    _, add = hand()
    with pytest.raises(DeclarationError, match="Tensor defines 'backward' itself"):
        add(declare("hand::backward", method=True))


# ---- the whole, in processes of their own -------------------------------------------------------


def test_a_notebook_cell(site):
    done = site.run(
        """
        import plugrad
        from plugrad import registry

        def cell(factor):
            @plugrad.operator("my::scale", elementwise=True)
            def scale(x):
                return 3 * x
            @scale.backward
            def _(grad):
                return grad * factor
            @scale.samples
            def _(make):
                yield make.call(make.normal(3, 4))
                yield make.call(make.normal(2))
                yield make.call(make.normal(5))
            return plugrad.register(scale)

        try:
            cell(3.1)
        except registry.OperatorRefused as error:
            print("gradient" in str(error), hasattr(plugrad.ops, "my"))
        right = cell(3)
        print(plugrad.ops.my.scale is right, plugrad.ops.my.scale(plugrad.tensor([1.0])).tolist())
        print(cell(3) is plugrad.ops.my.scale)
        print(registry.verification(plugrad.ops.my.scale).reason[:50])
        """
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "True False",
        "True [3.0]",
        "True",
        "it belongs to no distribution (it was registered b",
    ]


def test_all_ways_to_import(site):
    site.add_operators("first", "one", "double")
    done = site.run(
        """
        import plugrad.ops
        from plugrad import ops
        from plugrad.ops import exp, one
        from plugrad.ops.one import double
        import plugrad.ops.one as again
        assert ops is plugrad.ops and again is one
        assert ops.one.double is double and ops.exp is exp
        try:
            import plugrad.ops.nowhere
        except ModuleNotFoundError as error:
            print(error)
        try:
            from plugrad.ops import nowhere
        except ImportError as error:
            print(error)
        """
    )
    assert done.stderr == ""
    assert "nowhere" in done.stdout


def test_importing_works_whatever_is_installed(site):
    site.add("bad", "raise ValueError('no luck')", "[plugrad]\nworse = bad\n")
    site.add("void", "", "[plugrad]\nempty = missing_module\n")
    site.add_operators("first", "same", "double")
    site.add_operators("second", "same", "double")
    done = site.run(
        """
        import sys, plugrad
        assert "plugrad_ops" not in sys.modules and "bad" not in sys.modules
        from plugrad import registry
        for plugin in registry.plugins(load=True):
            print(plugin.distribution, plugin.status)
        """
    )
    assert done.stderr == ""
    # Other plugins may be installed beside: they are of no concern here.
    assert set(done.stdout.splitlines()) >= {
        "bad quarantined",
        "first quarantined",
        "plugrad loaded",
        "second quarantined",
        "void quarantined",
    }


def test_without_the_standard_plugin(site):
    done = site.run(
        """
        import plugrad
        a = plugrad.tensor([1.0])
        for use in (lambda: a + a, lambda: plugrad.ops.exp(a)):
            try:
                use()
            except LookupError as error:
                print(error)
        """,
        PLUGRAD_BLOCK="standard",
    )
    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert "'standard::add'" in first and "PLUGRAD_BLOCK=standard" in first
    assert "'standard::exp'" in second


def test_methods_of_plugins(site):
    source = """
    import plugrad
    @plugrad.operator("first::twofold", elementwise=True, method=True)
    def twofold(x):
        return 2 * x
    @twofold.backward
    def _(grad):
        return grad * 2
    @twofold.samples
    def _(make):
        yield make.call(make.normal(3, 4))
        yield make.call(make.normal(2))
        yield make.call(make.normal(5))
    @plugrad.hookimpl
    def plugrad_register_ops(registry):
        registry.add(twofold)
    """
    site.add("first", source, "[plugrad]\nfirst = first\n")
    taken = source.replace("first::twofold", "second::twofold")
    site.add("second", taken, "[plugrad]\nsecond = second\n")
    done = site.run(
        """
        import plugrad
        a = plugrad.tensor([1.0, 2.0])
        print(hasattr(a, "twofold"), a.exp().shape)
        plugrad.registry.operators()
        print(a.twofold().tolist())
        print(plugrad.registry.plugins()[-1].reason)
        """
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith("False")
    assert lines[1] == "[2.0, 4.0]"
    assert "the method Tensor.twofold is the operator 'first::twofold'" in lines[2]


def test_every_ufunc_has_its_operator():
    for ufunc, name in UFUNCS.items():
        assert isinstance(ufunc, np.ufunc)
        assert plugrad.registry.get(name).name == f"standard::{name}"
