"""Certificates on CUDA: hardware and the emulated device are told apart, and listed without either."""

import sys

import pytest


class FakeDevice:
    """Tells the certificates that "cuda" is one device or another."""

    def __init__(self, monkeypatch):
        from plugrad.registry import certificates

        self.kind, self.driver, self.architecture = "emulated", "13000", "sm_90"
        monkeypatch.setattr(certificates, "kind_of", lambda device: self.kind)
        monkeypatch.setattr(certificates, "environment_of", self.environment)

    def environment(self, device):
        return (f"device cuda {self.kind} {self.architecture}", f"driver {self.driver}")


@pytest.fixture
def device(monkeypatch):
    return FakeDevice(monkeypatch)


@pytest.fixture
def certificates(site):
    site.add_operators("first", "one", "a", "b")
    return lambda: site.verifier(None).certificates


def operator_of(found, name="one::a"):
    return found._loader.get(name)


def test_a_pass_on_the_emulated_device_is_none_on_hardware(certificates, device):
    found = certificates()
    operator = operator_of(found)
    kept = found.keep(operator, "cuda", [], 0.5)
    assert kept.kind == "emulated"
    assert found.find(operator, "cuda") is not None
    device.kind = "hardware"
    there = certificates()
    assert there.find(operator_of(there), "cuda") is None
    assert [c.kind for c in there.seen(operator_of(there), "emulated")] == ["emulated"]
    assert there.seen(operator_of(there), "hardware") == []


@pytest.mark.parametrize("change", [{"driver": "13010"}, {"architecture": "sm_120"}])
def test_another_driver_or_architecture_is_another_key(certificates, device, change):
    device.kind = "hardware"
    found = certificates()
    found.keep(operator_of(found), "cuda", [operator_of(found, "one::b")], 0.5)
    vars(device).update(change)
    other = certificates()
    assert other.find(operator_of(other), "cuda") is None
    # A listing needs no device: the code is the same, wherever it passed.
    (seen,) = other.seen(operator_of(other), "hardware")
    assert "device cuda hardware sm_90" in seen.environment


def test_what_passed_with_other_code_is_not_listed(certificates, device, site):
    found = certificates()
    found.keep(operator_of(found), "cuda", [operator_of(found, "one::b")], 0.5)
    path = site.folder / "first.py"
    path.write_text(path.read_text().replace("return 2 * x", "return x + x"))
    site.age(path)
    del sys.modules["first"]
    other = certificates()
    assert other.seen(operator_of(other), "emulated") == []


def test_the_cpu_certificate_is_no_cuda_certificate(certificates, device):
    found = certificates()
    device.kind = "cpu"
    found.keep(operator_of(found), "cpu", [], 0.1)
    device.kind = "emulated"
    other = certificates()
    assert other.find(operator_of(other), "cuda") is None
    assert other.seen(operator_of(other), "emulated") == []
