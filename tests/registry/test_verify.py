"""Verification: groups, states, conditions, threads, refusals, kernels on trial."""

import io
import random
import sys
import threading
import warnings

import numpy as np
import pytest

import plugrad
from plugrad.contract.report import CheckResult, Failure, Report
from plugrad.graph.op import READY, REFUSED, UNVERIFIED, VERIFYING
from plugrad.registry.conditions import Progress
from plugrad.registry.errors import OperatorRefused, PluginQuarantined, RegistryError


def report(operator, *problems):
    failures = [Failure("gradient", "sample 1", problem) for problem in problems]
    return Report(operator.name, "cpu", [CheckResult("gradient", "passed", 0.0)], failures)


class Battery:
    """Stands in for the contract: notes what it is given, calls what it is told to call."""

    def __init__(self):
        self.ran = []
        self.calls = {}
        self.wrong = {}
        self.verifier = None
        self.during = None

    def __call__(self, operator, device):
        assert operator.state == VERIFYING
        self.ran.append(operator.name)
        if self.during is not None:
            self.during(operator)
        for name in self.calls.get(operator.name, ()):
            # What the core does before it runs an operator that is not READY.
            self.verifier.verify(self.verifier.loader.get(name))
        return report(operator, *self.wrong.get(operator.name, ()))


@pytest.fixture
def battery():
    return Battery()


@pytest.fixture
def verifier(site, battery):
    site.add_operators("first", "one", "a", "b", "c")
    battery.verifier = site.verifier(battery)
    return battery.verifier


def states(verifier, *names):
    return [verifier.loader.get(f"one::{name}").state for name in names]


# ---- one operator -------------------------------------------------------------------------------


def test_pass_once(verifier, battery):
    operator = verifier.loader.get("one::a")
    assert operator.state == UNVERIFIED
    verifier.verify(operator)
    verifier.verify(operator)
    assert operator.state == READY
    assert battery.ran == ["one::a"]
    assert verifier.verification(operator).how == "battery"


def test_refused_for_good_with_the_same_report(verifier, battery):
    battery.wrong["one::a"] = ["off by one per cent"]
    operator = verifier.loader.get("one::a")
    reports = []
    for _ in range(2):
        with pytest.raises(OperatorRefused, match="off by one per cent") as caught:
            verifier.verify(operator)
        reports.append(caught.value.report)
    assert reports[0] is reports[1]
    assert operator.state == REFUSED
    assert battery.ran == ["one::a"]
    assert operator in verifier.loader.operators()


def test_fresh_runs_again(verifier, battery):
    operator = verifier.loader.get("one::a")
    battery.wrong["one::a"] = ["wrong"]
    with pytest.raises(OperatorRefused):
        verifier.verify(operator)
    battery.wrong.clear()
    verifier.verify(operator, fresh=True)
    assert operator.state == READY
    verifier.verify(operator, fresh=True)
    assert battery.ran == ["one::a"] * 3


def test_a_battery_that_crashes_refuses(verifier, battery):
    def crash(operator):
        raise ZeroDivisionError("inside the battery")

    battery.during = crash
    operator = verifier.loader.get("one::a")
    with pytest.raises(OperatorRefused, match="stopped with ZeroDivisionError: inside"):
        verifier.verify(operator)
    assert operator.state == REFUSED


def test_interrupting_leaves_it_unverified(verifier, battery):
    def interrupt(operator):
        raise KeyboardInterrupt

    battery.during = interrupt
    operator = verifier.loader.get("one::a")
    with pytest.raises(KeyboardInterrupt):
        verifier.verify(operator)
    assert operator.state == UNVERIFIED
    battery.during = None
    verifier.verify(operator)
    assert operator.state == READY


# ---- groups -------------------------------------------------------------------------------------


def test_operators_that_call_each_other(verifier, battery):
    battery.calls = {"one::a": ["one::b"], "one::b": ["one::c", "one::a"], "one::c": ["one::b"]}
    verifier.verify(verifier.loader.get("one::a"))
    assert battery.ran == ["one::a", "one::b", "one::c"]
    assert states(verifier, "a", "b", "c") == [READY] * 3


def test_calling_a_refused_one_refuses(verifier, battery):
    battery.calls = {"one::a": ["one::b"], "one::b": ["one::c"]}
    battery.wrong["one::c"] = ["sign flipped"]
    with pytest.raises(
        OperatorRefused, match=r"(?s)calls 'one::b', which was refused.*sign flipped"
    ):
        verifier.verify(verifier.loader.get("one::a"))
    assert states(verifier, "a", "b", "c") == [REFUSED] * 3


def test_a_refused_caller_does_not_harm_what_it_calls(verifier, battery):
    battery.calls = {"one::a": ["one::b"]}
    battery.wrong["one::a"] = ["wrong"]
    with pytest.raises(OperatorRefused):
        verifier.verify(verifier.loader.get("one::a"))
    assert states(verifier, "a", "b", "c") == [REFUSED, READY, UNVERIFIED]


def test_group_verifies_at_its_end(verifier, battery):
    with verifier.group():
        verifier.verify(verifier.loader.get("one::a"))
        assert states(verifier, "a") == [VERIFYING]
        assert battery.ran == []
    assert states(verifier, "a", "b") == [READY, UNVERIFIED]


def test_group_that_raises_leaves_states(verifier, battery):
    with pytest.raises(ZeroDivisionError), verifier.group():
        verifier.verify(verifier.loader.get("one::a"))
        raise ZeroDivisionError
    assert states(verifier, "a") == [UNVERIFIED]


# ---- conditions ---------------------------------------------------------------------------------


def test_conditions_are_neutral_and_restored(verifier, battery):
    seen = {}

    def look(operator):
        seen["grad"] = plugrad.is_grad_enabled()
        seen["over"] = np.geterr()["over"]
        with np.errstate(all="ignore"):
            random.random()
            np.random.random()
        warnings.warn("not for the user", UserWarning, stacklevel=1)

    battery.during = look
    random.seed(3)
    np.random.seed(3)
    expected = random.random(), np.random.random()
    random.seed(3)
    np.random.seed(3)
    with plugrad.no_grad(), np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        verifier.verify(verifier.loader.get("one::a"))
        assert not plugrad.is_grad_enabled()
        assert np.geterr()["over"] == "raise"
    assert seen == {"grad": True, "over": "warn"}
    assert (random.random(), np.random.random()) == expected


def test_never_inside_a_running_backward(verifier, battery, inside_backward):
    operator = verifier.loader.get("one::a")
    with pytest.raises(RegistryError, match=r"inside the backward.*plugrad check --warm one::a"):
        inside_backward(lambda: verifier.verify(operator))
    assert operator.state == UNVERIFIED
    assert battery.ran == []
    verifier.verify(operator)
    assert operator.state == READY


def test_other_threads_wait(verifier, battery):
    operator = verifier.loader.get("one::a")
    inside, proceed, order = threading.Event(), threading.Event(), []

    def hold(operator):
        inside.set()
        assert proceed.wait(20)
        order.append("battery")

    def call():
        verifier.verify(operator)
        order.append("called")

    battery.during = hold
    first = threading.Thread(target=call)
    first.start()
    assert inside.wait(20)
    second = threading.Thread(target=call)
    second.start()
    assert operator.state == VERIFYING
    proceed.set()
    first.join(20)
    second.join(20)
    assert order == ["battery", "called", "called"]
    assert battery.ran == ["one::a"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_on_a_terminal_and_taken_away(verifier, monkeypatch):
    monkeypatch.setattr(Progress, "PATIENCE", 0.0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    verifier.verify(verifier.loader.get("one::a"))
    shown = sys.stderr.getvalue()
    assert "plugrad: checking one::a before its first use (0 done, 1 to go)" in shown
    assert shown.endswith("\r")
    assert not shown.rstrip("\r").rpartition("\r")[2].strip()


def test_progress_is_not_shown_elsewhere(verifier, monkeypatch):
    monkeypatch.setattr(Progress, "PATIENCE", 0.0)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    verifier.verify(verifier.loader.get("one::a"))
    assert sys.stderr.getvalue() == ""


# ---- plugins ------------------------------------------------------------------------------------


def test_an_operator_reached_by_importing_its_module(site, battery):
    site.add_operators("first", "one", "a")
    battery.verifier = site.verifier(battery)
    import first  # made by the line above

    battery.verifier.verify(first.a)
    assert first.a.owner == "first"
    assert battery.verifier.loader.get("one::a") is first.a


def test_an_operator_of_a_quarantined_plugin(site, battery):
    site.add_operators("first", "one", "a", extra="from plugrad import hookimpl as b\n")
    path = site.folder / "first.py"
    path.write_text(path.read_text() + "    raise OSError('no disk')\n")
    battery.verifier = site.verifier(battery)
    import first

    with pytest.raises(PluginQuarantined, match="'one::a' cannot be used.*no disk"):
        battery.verifier.verify(first.a)
    assert battery.ran == []


KERNEL = """
import plugrad

def kernel(x, out=None):
    return {expression}

@plugrad.hookimpl
def plugrad_register_kernels(registry):
    registry.kernel("one::a", "cpu", kernel)
"""


def test_a_kernel_serves_after_the_battery_passed_with_it(verifier, battery, site):
    site.add("quick", KERNEL.format(expression="x + x"), "[plugrad.kernels]\none = quick\n")
    again = battery.verifier = site.verifier(battery)
    functions = []
    battery.during = lambda op: functions.append(op._kernel("cpu").function.__module__)
    operator = again.loader.get("one::a")
    again.verify(operator)
    assert functions == ["quick"]
    assert operator.state == READY
    assert operator._kernel("cpu").function.__module__ == "quick"


def test_what_a_kernel_does_not_serve_is_left_to_the_operators_own(verifier, battery, site):
    expression = "NotImplemented if x > 1 else 10 * x"
    site.add("quick", KERNEL.format(expression=expression), "[plugrad.kernels]\none = quick\n")
    again = battery.verifier = site.verifier(battery)
    operator = again.loader.get("one::a")
    own = operator._kernel("cpu")
    again.verify(operator)
    kernel = operator._kernel("cpu")
    assert kernel(1.0) == 10.0
    assert kernel(3.0) == own(3.0)


def test_a_wrong_kernel_is_withdrawn(verifier, battery, site):
    site.add("quick", KERNEL.format(expression="x * 3"), "[plugrad.kernels]\none = quick\n")
    again = battery.verifier = site.verifier(battery)
    operator = again.loader.get("one::a")

    def judge(op):
        wrong = op._kernel("cpu").function.__module__ == "quick"
        battery.wrong = {op.name: ["kernel differs"]} if wrong else {}

    battery.during = judge
    with pytest.warns(RuntimeWarning, match=r"(?s)quick offers for 'one::a'.*kernel differs"):
        again.verify(operator)
    assert battery.ran == ["one::a", "one::a"]
    assert operator.state == READY
    assert operator._kernel("cpu").function.__module__ == "first"
    (plugin,) = [p for p in again.loader.plugins if p.distribution == "quick"]
    assert plugin.status == "quarantined"
    assert "kernel differs" in plugin.reason


def test_a_wrong_kernel_raises_where_plugins_must_not_fail(battery, site):
    site.add_operators("first", "one", "a")
    site.add("quick", KERNEL.format(expression="x * 3"), "[plugrad.kernels]\none = quick\n")
    battery.verifier = site.verifier(battery, PLUGRAD_STRICT_PLUGINS="1")
    operator = battery.verifier.loader.get("one::a")
    battery.during = lambda op: battery.wrong.update({op.name: ["off"] * (len(battery.ran) == 1)})
    with pytest.raises(RegistryError, match=r"(?s)quick offers for 'one::a'.*off"):
        battery.verifier.verify(operator)


def test_a_kernel_that_comes_later_reopens_the_operator(verifier, battery, site):
    verifier.verify(verifier.loader.get("one::a"))
    source = """
import plugrad

def kernel(x, out=None):
    return x + x

@plugrad.operator("late::nothing", elementwise=True, nondifferentiable=True)
def nothing(x):
    return x

@nothing.samples
def _(make):
    yield make.call(make.normal(3))

@plugrad.hookimpl
def plugrad_register_ops(registry):
    registry.add(nothing)

@plugrad.hookimpl
def plugrad_register_kernels(registry):
    registry.kernel("one::a", "cpu", kernel)
"""
    site.add("late", source, "[plugrad]\nlate = late\n")
    del sys.modules["first"]
    again = battery.verifier = site.verifier(battery)
    operator = again.loader.get("one::a")
    again.verify(operator)
    again.loader.get("late::nothing")
    assert operator.state == UNVERIFIED
    again.verify(operator)
    assert operator.state == READY
    assert operator._kernel("cpu").function.__module__ == "late"


# ---- the real thing, in processes of their own --------------------------------------------------


def test_the_contract_is_what_decides(site):
    site.add_operators("right", "good", "double")
    site.add_operators("wrong", "bad", "double", gradient="grad * 2.02")
    done = site.run(
        """
        import numpy as np, plugrad
        x = plugrad.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = plugrad.ops.good.double(x)
        y.backward(plugrad.tensor([1.0, 1.0, 1.0]))
        print(y.tolist(), x.grad.tolist())
        for _ in range(2):
            try:
                plugrad.ops.bad.double(x)
            except plugrad.registry.OperatorRefused as error:
                print("refused:", error.report.subject, "gradient" in str(error))
        print([op.name for op in plugrad.registry.operators("bad")])
        """
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "[2.0, 4.0, 6.0] [2.0, 2.0, 2.0]",
        "refused: bad::double True",
        "refused: bad::double True",
        "['bad::double']",
    ]


def test_checking_an_operator_by_itself_verifies_what_its_rule_reaches(site):
    done = site.run(
        """
        import plugrad
        from plugrad.graph.op import READY, UNVERIFIED
        operator = plugrad.ops.tanh
        print(operator.state == UNVERIFIED, plugrad.contract.check(operator).passed)
        print(operator.state == UNVERIFIED, plugrad.ops.mul.state == READY)
        """
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["True True", "True True"]
