"""Verification per device: an operator is refused where its kernel fails, and goes on elsewhere."""

import numpy as np
import pytest

from plugrad.backends.cpu import CpuBackend
from plugrad.contract.report import CheckResult, Failure, Report
from plugrad.graph.backend import backends
from plugrad.graph.op import READY, REFUSED, UNVERIFIED, VERIFYING
from plugrad.registry.errors import OperatorRefused, RegistryError

ELSEWHERE = "elsewhere"

KERNELS = """
import plugrad

def kernel(x, out=None):
    return x + x

@plugrad.hookimpl
def plugrad_register_kernels(registry):
    for name in "abc":
        registry.kernel(f"one::{name}", "elsewhere", kernel)
"""


@pytest.fixture(scope="module", autouse=True)
def device():
    """A device of its own name whose arrays are NumPy's: kernels can be entered into tables."""
    if ELSEWHERE not in [backend.name for backend in backends()]:
        CpuBackend(ELSEWHERE)


class Battery:
    """Stands in for the contract: what it is told to call on a device, it has verified there."""

    def __init__(self):
        self.ran = []
        self.calls = {}
        self.wrong = {}
        self.verifier = None

    def __call__(self, operator, device):
        assert operator.state_on(device) == VERIFYING
        self.ran.append((operator.name, device))
        for name in self.calls.get((operator.name, device), ()):
            called = self.verifier.loader.get(name)
            self.verifier.verify(called)  # what the core does for an operator that is not READY
            self.verifier.verify(called, device=device)  # what find_kernel does
        failures = [
            Failure("devices", "sample 1", problem)
            for problem in self.wrong.get((operator.name, device), ())
        ]
        return Report(operator.name, device, [CheckResult("devices", "passed", 0.0)], failures)


@pytest.fixture
def battery():
    return Battery()


@pytest.fixture
def verifier(site, battery):
    site.add_operators("first", "one", "a", "b", "c")
    site.add("elsewhere-kernels", KERNELS, "[plugrad.kernels]\none = elsewhere_kernels\n")
    battery.verifier = site.verifier(battery)
    return battery.verifier


def states(operator):
    return operator.state, operator.state_on(ELSEWHERE)


def test_the_cpu_comes_first(verifier, battery):
    operator = verifier.loader.get("one::a")
    verifier.verify(operator, device=ELSEWHERE)
    assert battery.ran == [("one::a", "cpu"), ("one::a", ELSEWHERE)]
    assert states(operator) == (READY, READY)
    assert operator._kernel(ELSEWHERE)(np.ones(2)).tolist() == [2.0, 2.0]
    verifier.verify(operator, device=ELSEWHERE)
    assert len(battery.ran) == 2
    assert verifier.verification(operator, ELSEWHERE).device == ELSEWHERE


def test_the_cpu_alone_needs_no_other_device(verifier, battery):
    operator = verifier.loader.get("one::a")
    verifier.verify(operator)
    assert battery.ran == [("one::a", "cpu")]
    assert states(operator) == (READY, UNVERIFIED)
    assert operator._kernel(ELSEWHERE) is None


def test_an_operator_without_a_kernel_says_so_before_anything_runs(site, battery):
    site.add_operators("first", "one", "a")
    verifier = battery.verifier = site.verifier(battery)
    operator = verifier.loader.get("one::a")
    with pytest.raises(NotImplementedError, match="one::a has no kernel for device 'elsewhere'"):
        verifier.verify(operator, device=ELSEWHERE)
    assert battery.ran == []
    assert states(operator) == (UNVERIFIED, UNVERIFIED)


def test_a_failure_refuses_it_there_alone(verifier, battery):
    battery.wrong["one::a", ELSEWHERE] = ["differs from the CPU"]
    operator = verifier.loader.get("one::a")
    with (
        pytest.warns(RuntimeWarning, match="is not used"),
        pytest.raises(OperatorRefused, match="one::a on elsewhere.*\n.*\n.*differs from"),
    ):
        verifier.verify(operator, device=ELSEWHERE)
    assert states(operator) == (READY, REFUSED)
    assert operator._kernel(ELSEWHERE) is None
    verifier.verify(operator)
    with pytest.raises(OperatorRefused, match="differs from"):
        verifier.verify(operator, device=ELSEWHERE)


def test_refused_on_the_cpu_is_refused_everywhere(verifier, battery):
    battery.wrong["one::a", "cpu"] = ["wrong gradient"]
    operator = verifier.loader.get("one::a")
    with pytest.raises(OperatorRefused, match="it calls 'one::a' on 'cpu'"):
        verifier.verify(operator, device=ELSEWHERE)
    assert states(operator) == (REFUSED, REFUSED)


def test_operators_of_a_rule_join_on_the_device(verifier, battery):
    battery.calls["one::a", ELSEWHERE] = ["one::b"]
    battery.calls["one::b", ELSEWHERE] = ["one::a"]  # a cycle is no problem
    a, b = (verifier.loader.get(f"one::{name}") for name in "ab")
    verifier.verify(a, device=ELSEWHERE)
    assert states(a) == states(b) == (READY, READY)
    assert {(x, d) for x, d in battery.ran} == {
        (f"one::{name}", device) for name in "ab" for device in ("cpu", ELSEWHERE)
    }


def test_a_refused_operator_takes_its_callers_with_it_there(verifier, battery):
    battery.calls["one::a", ELSEWHERE] = ["one::b"]
    battery.wrong["one::b", ELSEWHERE] = ["differs"]
    a, b = (verifier.loader.get(f"one::{name}") for name in "ab")
    with (
        pytest.warns(RuntimeWarning, match="'one::b' on 'elsewhere'"),
        pytest.raises(OperatorRefused, match="it calls 'one::b', which was refused"),
    ):
        verifier.verify(a, device=ELSEWHERE)
    assert states(a) == states(b) == (READY, REFUSED)


def test_no_battery_inside_a_backward(verifier, battery, inside_backward):
    operator = verifier.loader.get("one::a")
    verifier.verify(operator)
    with pytest.raises(
        RegistryError, match="never verified on elsewhere.*--device elsewhere one::a"
    ):
        inside_backward(lambda: verifier.verify(operator, device=ELSEWHERE))
    assert states(operator) == (READY, UNVERIFIED)


def test_a_certificate_per_device(site, verifier, battery):
    battery.calls["one::a", ELSEWHERE] = ["one::b"]
    operator = verifier.loader.get("one::a")
    verifier.verify(operator, device=ELSEWHERE)
    other = site.verifier(battery)
    again = other.loader.get("one::a")
    count = len(battery.ran)
    battery.verifier = other
    other.verify(again, device=ELSEWHERE)
    assert len(battery.ran) == count
    assert other.verification(again, ELSEWHERE).how == "certificate"
    # The certificate lists what the rule calls there, which is verified with it.
    assert states(other.loader.get("one::b")) == (READY, READY)
    keys = [other.certificates.key(again, device).value for device in ("cpu", ELSEWHERE)]
    assert all(keys) and keys[0] != keys[1]


def test_a_fresh_battery_on_a_device(verifier, battery):
    operator = verifier.loader.get("one::a")
    verifier.verify(operator, device=ELSEWHERE)
    verifier.verify(operator, device=ELSEWHERE, fresh=True)
    assert battery.ran == [("one::a", "cpu"), ("one::a", ELSEWHERE), ("one::a", ELSEWHERE)]
    assert states(operator) == (READY, READY)


def test_a_kernel_that_comes_later_is_verified_before_it_serves(site, battery):
    site.add_operators("first", "one", "a", "b", "c")
    verifier = battery.verifier = site.verifier(battery)
    operator = verifier.loader.get("one::a")
    operator.offer(ELSEWHERE, lambda x: 2 * x)
    verifier.kernels.place = lambda op, device: None  # the table knows of no kernel
    verifier.verify(operator, device=ELSEWHERE)
    from plugrad.registry.kernels import reopen

    reopen(operator, ELSEWHERE)
    assert states(operator) == (READY, UNVERIFIED)
    asked = []
    kernel = operator._kernel(ELSEWHERE)
    operator.find_kernel = lambda device: asked.append(device) or (lambda x: x)
    kernel(np.ones(1))
    assert asked == [ELSEWHERE]


@pytest.mark.parametrize("before", [(UNVERIFIED, UNVERIFIED), (READY, UNVERIFIED)])
def test_an_interrupted_battery_leaves_states_as_they_were(verifier, battery, before):
    operator = verifier.loader.get("one::a")
    if before[0] == READY:
        verifier.verify(operator)

    def interrupt(op, device):
        if device == ELSEWHERE:
            raise KeyboardInterrupt
        return Battery.__call__(battery, op, device)

    verifier.battery = interrupt
    with pytest.raises(KeyboardInterrupt):
        verifier.verify(operator, device=ELSEWHERE)
    assert operator.state_on(ELSEWHERE) == UNVERIFIED
    assert operator.state in (before[0], UNVERIFIED)
