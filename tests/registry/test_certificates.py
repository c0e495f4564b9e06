"""Certificates: what a key depends on, where they are kept, and when they do not count."""

import functools
import json
import os
import sys
from dataclasses import dataclass

import numpy as np
import pytest

import plugrad
from plugrad.contract.report import CheckResult, Report
from plugrad.graph.op import READY
from plugrad.registry import digest
from plugrad.registry.certificates import Certificates
from plugrad.registry.fingerprint import Opaque, of_function, of_operator


class Counting:
    """A battery that always passes and counts."""

    def __init__(self):
        self.ran = []
        self.calls = {}
        self.verifier = None

    def __call__(self, operator, device):
        self.ran.append(operator.name)
        for name in self.calls.get(operator.name, ()):
            self.verifier.verify(self.verifier.loader.get(name))
        return Report(operator.name, "cpu", [CheckResult("gradient", "passed", 0.0)])


@pytest.fixture(autouse=True)
def files_are_older(monkeypatch):
    # Files of this repository may be edited while the tests run; that is not what is tested here.
    monkeypatch.setattr("plugrad.registry.loader.START", 4e9)


@pytest.fixture
def process(site):
    """As many fresh processes as wanted, so to speak: verifiers that share only the disk."""

    def start(calls=None, **environ):
        for name in list(sys.modules):
            if name in site.modules:
                del sys.modules[name]
        battery = Counting()
        battery.calls = calls or {}
        battery.verifier = site.verifier(battery, **environ)
        return battery

    return start


def verify(battery, name):
    operator = battery.verifier.loader.get(name)
    battery.verifier.verify(operator)
    assert operator.state == READY
    return battery.verifier.verification(operator)


# ---- keeping ------------------------------------------------------------------------------------


def test_a_certificate_stands_for_the_battery(site, process):
    site.add_operators("first", "one", "a")
    first, second = process(), None
    assert verify(first, "one::a").how == "battery"
    (path,) = [p for p in site.certificates.iterdir() if p.name != "files.json"]
    kept = json.loads(path.read_text())
    assert (kept["operator"], kept["device"], path.stem) == ("one::a", "cpu", kept["key"])
    second = process()
    found = verify(second, "one::a")
    assert found.how == "certificate"
    assert found.certificate.origin == "stored"
    assert second.ran == []


def test_a_folder_that_cannot_be_written_means_memory_only(site, process, monkeypatch, tmp_path):
    blocked = tmp_path / "a file"
    blocked.write_text("")
    monkeypatch.setenv("PLUGRAD_CERTIFICATES", str(blocked / "below"))
    site.add_operators("first", "one", "a")
    battery = process()
    kept = verify(battery, "one::a")
    assert kept.certificate is not None
    operator = battery.verifier.loader.get("one::a")
    assert battery.verifier.certificates.find(operator) is not None
    assert verify(process(), "one::a").how == "battery"


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": "other"}', '{"calls": 3}'])
def test_a_corrupt_file_is_as_good_as_none(site, process, text):
    site.add_operators("first", "one", "a")
    key = verify(process(), "one::a").certificate.key
    (site.certificates / f"{key}.json").write_text(text)
    assert verify(process(), "one::a").how == "battery"
    assert verify(process(), "one::a").how == "certificate"


def test_a_certificate_of_another_operator_does_not_count(site, process):
    site.add_operators("first", "one", "a", "b")
    key = verify(process(), "one::a").certificate.key
    path = site.certificates / f"{key}.json"
    path.write_text(path.read_text().replace("one::a", "one::b"))
    assert verify(process(), "one::a").how == "battery"


def test_a_package_may_ship_certificates(site, process, monkeypatch, tmp_path):
    site.add_operators("first", "one", "a", module="shipped.__init__")
    info = site.folder / "first-1.0.dist-info"
    (info / "entry_points.txt").write_text("[plugrad]\none = shipped\n")
    key = verify(process(), "one::a").certificate.key
    folder = site.folder / "shipped" / "certificates"
    folder.mkdir()
    (site.certificates / f"{key}.json").rename(folder / f"{key}.json")
    monkeypatch.setenv("PLUGRAD_CERTIFICATES", str(tmp_path / "empty"))
    found = verify(process(), "one::a")
    assert (found.how, found.certificate.origin) == ("certificate", "shipped")


def test_the_operators_called_are_resolved_too(site, process):
    site.add_operators("first", "one", "a", "b", "c")
    calls = {"one::a": ["one::b"], "one::b": ["one::c"]}
    verify(process(calls), "one::a")
    battery = process()
    verify(battery, "one::a")
    assert battery.ran == []
    assert battery.verifier.loader.get("one::b").state == READY
    assert battery.verifier.loader.get("one::c").state == READY


def test_a_certificate_is_enough_inside_a_backward(site, process, inside_backward):
    site.add_operators("first", "one", "a")
    verify(process(), "one::a")
    found = []
    inside_backward(lambda: found.append(verify(process(), "one::a").how))
    assert found == ["certificate"]


# ---- what invalidates ---------------------------------------------------------------------------


def test_a_change_of_the_code(site, process):
    path = site.add_operators("first", "one", "a")
    verify(process(), "one::a")
    path.write_text(path.read_text().replace("return 2 * x", "return x + x"))
    site.age(path, seconds=1000)
    assert verify(process(), "one::a").how == "battery"


def test_a_change_of_a_data_file(site, process):
    path = site.add_operators("first", "one", "a")
    data = site.folder / "table.bin"
    data.write_bytes(b"1")
    info = site.folder / "first-1.0.dist-info"
    site.write_record(info, [path, data])
    site.age(data, info / "RECORD")
    verify(process(), "one::a")
    assert verify(process(), "one::a").how == "certificate"
    data.write_bytes(b"2")
    site.age(data, seconds=1000)
    assert verify(process(), "one::a").how == "battery"


def test_a_new_version_of_what_it_requires(site, process, monkeypatch):
    site.add_operators("first", "one", "a", requires=["numpy (>=2)", "scipy; extra == 'more'"])
    verify(process(), "one::a")
    monkeypatch.setattr(digest, "_version", lambda name: "99.0" if name == "numpy" else "")
    assert verify(process(), "one::a").how == "battery"


def test_another_environment(site, process, monkeypatch):
    site.add_operators("first", "one", "a")
    verify(process(), "one::a")
    monkeypatch.setattr(digest, "environment", lambda: ("python 4",))
    assert verify(process(), "one::a").how == "battery"


def test_a_change_of_an_operator_that_was_called(site, process):
    site.add_operators("first", "one", "a")
    path = site.add_operators("second", "two", "b")
    calls = {"one::a": ["two::b"]}
    verify(process(calls), "one::a")
    path.write_text(path.read_text().replace("return 2 * x", "return x + x"))
    site.age(path, seconds=1000)
    battery = process(calls)
    verify(battery, "one::a")
    assert battery.ran == ["one::a", "two::b"]


def test_an_operator_that_was_called_and_is_gone(site, process):
    site.add_operators("first", "one", "a")
    site.add_operators("second", "two", "b")
    verify(process({"one::a": ["two::b"]}), "one::a")
    battery = process(PLUGRAD_BLOCK="second")
    verify(battery, "one::a")
    assert battery.ran == ["one::a"]


def test_a_kernel_of_another_distribution(site, process):
    site.add_operators("first", "one", "a")
    verify(process(), "one::a")
    source = """
    import plugrad
    def kernel(x, out=None):
        return x + x
    @plugrad.hookimpl
    def plugrad_register_kernels(registry):
        registry.kernel("one::a", "cpu", kernel)
    """
    site.add("quick", source, "[plugrad.kernels]\none = quick\n")
    assert verify(process(), "one::a").how == "battery"
    assert verify(process(), "one::a").how == "certificate"
    assert verify(process(PLUGRAD_BLOCK="quick"), "one::a").how == "certificate"


# ---- what has no key ----------------------------------------------------------------------------


def test_files_changed_after_they_were_imported(site, process, monkeypatch):
    path = site.add_operators("first", "one", "a")
    battery = process()
    battery.verifier.loader.get("one::a")
    later = path.stat().st_mtime + 10_000
    os.utime(path, (later, later))
    kept = verify(battery, "one::a")
    assert kept.certificate is None
    assert "was changed after it was imported" in kept.reason


def test_a_caller_of_what_has_no_key_has_none(site, process):
    site.add_operators("first", "one", "a")
    extra = "handle = object()\ndef wrap():\n    h = handle\n    def f(x):\n        return (h, x)\n    return f\n"
    site.add_operators("second", "two", "b", extra=extra + "b.surrogate = wrap()\n")
    kept = verify(process({"one::a": ["two::b"]}), "one::a")
    assert kept.certificate is None
    assert "it calls 'two::b', which is verified once per process" in kept.reason


def test_no_distribution_no_key(site):
    loader = site.loader()

    @plugrad.operator("hand::f", elementwise=True, nondifferentiable=True)
    def f(x):
        return x

    key = Certificates(loader).key(f)
    assert key.value == ""
    assert "registered by hand" in key.reason


# ---- fingerprints -------------------------------------------------------------------------------


def scaled(factor):
    def f(x, *, offset=0.0):
        return factor * x + offset

    return f


def fingerprint(function):
    return of_function(function, "f")


def test_fingerprints_tell_closures_and_defaults_apart():
    assert fingerprint(scaled(2.0)) == fingerprint(scaled(2.0))
    assert fingerprint(scaled(2.0)) != fingerprint(scaled(3.0))
    assert fingerprint(scaled(2)) != fingerprint(scaled(2.0))
    assert fingerprint(scaled(True)) != fingerprint(scaled(1))
    assert fingerprint(lambda x, k=1: x) != fingerprint(lambda x, k=2: x)
    assert fingerprint(lambda x: x + 1) != fingerprint(lambda x: x + 2)
    assert fingerprint(lambda x: np.exp(x)) != fingerprint(lambda x: np.log(x))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1, 2), (1, (2,))),
        ([1], (1,)),
        ({"a": 1}, {"a": 2}),
        (np.arange(3.0), np.arange(3.0) + 1),
        (np.zeros(2), np.zeros(2, np.float32)),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.exp, np.log),
        (np.sum, np.mean),
        (functools.partial(np.sum, axis=0), functools.partial(np.sum, axis=1)),
        (scaled(1.0), scaled(2.0)),
        (np.float32, np.float64),
        (np.dtype("f4"), np.dtype("f8")),
        (len, abs),
    ],
)
def test_fingerprints_tell_values_apart(one, other):
    assert fingerprint(scaled(one)) == fingerprint(scaled(one))
    assert fingerprint(scaled(one)) != fingerprint(scaled(other))


def test_fingerprints_of_functions_that_hold_themselves():
    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    assert fingerprint(even) == fingerprint(even)


@dataclass(frozen=True)
class Power:
    """A function that says all about itself in its fields and methods."""

    exponent: float

    def __call__(self, x):
        return x**self.exponent

    @property
    def inverse(self):
        return Power(1 / self.exponent)


@dataclass(frozen=True)
class Logarithm(Power):
    def __call__(self, x):
        return np.log(x) / np.log(self.exponent)


def test_an_object_of_a_frozen_dataclass_is_its_fields_and_methods():
    assert fingerprint(Power(2.0)) == fingerprint(Power(2.0))
    assert fingerprint(Power(2.0)) != fingerprint(Power(3.0))
    assert fingerprint(Power(2.0)) != fingerprint(Logarithm(2.0))
    before = fingerprint(Power(2.0))
    kept = Power.__call__
    try:
        Power.__call__ = lambda self, x: x * self.exponent
        assert fingerprint(Power(2.0)) != before
    finally:
        Power.__call__ = kept
    assert fingerprint(Power(2.0)) == before
    with pytest.raises(Opaque, match="exponent is of class object, which can hold anything"):
        fingerprint(Power(object()))


@dataclass
class Changing:
    """Its fields may be other ones by the time it is used."""

    exponent: float


class Loose(Power):
    """Not frozen: it may have other attributes."""


class Opened:
    """Of a class that a function made, or that can hold anything."""


@pytest.mark.parametrize(
    "value",
    [object(), Opened(), Changing(2.0), Loose(2.0), np.array([object()]), type("Made", (), {})],
)
def test_opaque_values(value):
    if isinstance(value, type):
        value.__qualname__ = "f.<locals>.Made"
    with pytest.raises(Opaque, match="'factor' in its closure"):
        fingerprint(scaled(value))


def declare(surrogate, **options):
    @plugrad.operator("hand::f", elementwise=True, surrogate=surrogate, **options)
    def f(x):
        return x

    return f


def test_an_author_may_vouch_for_an_opaque_value():
    def hold(value):
        return lambda x: (value, x)

    with pytest.raises(Opaque):
        of_operator(declare(hold(object())))
    one = of_operator(declare(hold(object()), fingerprint=b"tables 1"))
    assert one == of_operator(declare(hold(object()), fingerprint=b"tables 1"))
    assert one != of_operator(declare(hold(object()), fingerprint=b"tables 2"))


def test_flags_count():
    def same(x):
        return x

    assert of_operator(declare(same)) == of_operator(declare(same))
    assert of_operator(declare(same)) != of_operator(declare(same, method=True))
    assert of_operator(declare(same)) != of_operator(declare(same, kinks={0.0: 0.0}))
    assert of_operator(declare(same)) != of_operator(declare(same, cuda="x"))


# ---- digests ------------------------------------------------------------------------------------


def test_an_editable_install_is_hashed_by_contents(site, process):
    path = site.add_operators("first", "one", "a", module="tree.__init__")
    info = site.folder / "first-1.0.dist-info"
    (info / "entry_points.txt").write_text("[plugrad]\none = tree\n")
    # What an editable install records: nothing but its own metadata.
    (info / "RECORD").write_text(f"{info.name}/RECORD,,\n")
    data = path.parent / "data.json"
    data.write_text("1")
    site.age(data)
    verify(process(), "one::a")
    assert verify(process(), "one::a").how == "certificate"
    cache = path.parent / "__pycache__"
    cache.mkdir(exist_ok=True)
    (cache / "x.pyc").write_text("")
    assert verify(process(), "one::a").how == "certificate"
    data.write_text("2")
    site.age(data, seconds=1000)
    assert verify(process(), "one::a").how == "battery"


def test_keys_are_the_same_in_another_process(site):
    site.add_operators("first", "one", "double")
    code = """
        import plugrad
        op = plugrad.ops.one.double
        plugrad.registry.verify(op)
        found = plugrad.registry.verification(op)
        assert found.certificate is not None, found.reason
        print(found.how, found.certificate.key, sorted(found.certificate.calls))
        """
    first = site.run(code, PYTHONHASHSEED="1")
    second = site.run(code, PYTHONHASHSEED="2")
    assert first.stderr == second.stderr == ""
    how, *rest = first.stdout.split(maxsplit=1)
    assert how == "battery"
    assert second.stdout.split(maxsplit=1) == ["certificate", *rest]
    assert "standard::mul" in rest[0]
