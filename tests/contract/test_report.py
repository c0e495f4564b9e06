"""Reports: what they say, as text and as data."""

import json

import numpy as np

import plugrad
from plugrad import contract
from plugrad.contract import CheckResult, Failure, Report
from plugrad.contract.checks.diagnosis import likely_cause


def wrong_operator():
    op = plugrad.operator("demo::double", elementwise=True)(lambda x: 2 * x)
    op.backward(lambda grad: grad * 3.0)

    @op.samples
    def _(make):
        yield make.call(make.normal(3, 4))

    return op


def test_a_failure_names_operator_check_sample_element_numbers_and_cause():
    text = str(contract.check(wrong_operator()))
    assert text.startswith("demo::double on cpu: refused")
    assert "[gradient]" in text
    assert "sample 0: (float64[3, 4])" in text
    assert "d out[" in text
    assert "expected 2, got 3" in text
    assert "1.5 times what it should be" in text
    assert "also on added (0-d)" in text


def test_what_follows_from_a_failure_is_skipped_with_its_reason():
    report = contract.check(wrong_operator())
    status = {name: status for name, status, _ in report.checks}
    assert status["gradient"] == "failed"
    assert status["second order"] == "skipped"
    assert "gradient" in report.skipped["second order"]
    assert report.failed("gradient")
    assert not report.failed("layout")


def test_a_pass_is_one_line():
    report = contract.check(plugrad.ops.exp)
    assert report.passed, str(report)
    assert len(str(report).splitlines()) == 1
    assert report.seconds > 0
    assert report.samples >= 3
    assert {status for _, status, _ in report.checks} == {"passed"}


def test_data_for_json():
    data = json.loads(json.dumps(contract.check(wrong_operator()).to_dict()))
    assert data["subject"] == "demo::double"
    assert data["passed"] is False
    assert data["failures"][0]["check"] == "gradient"
    assert abs(data["failures"][0]["expected"] - 2.0) < 1e-9
    assert {check["status"] for check in data["checks"]} == {"passed", "failed", "skipped"}


def test_nothing_checked_is_no_pass():
    assert not Report("a::b").passed
    assert Report("a::b", checks=[CheckResult("gradient", "passed", 0.0)]).passed
    assert not Report(
        "a::b", checks=[CheckResult("gradient", "passed", 0.0)], failures=[Failure("x", "", "y")]
    ).passed


def cause(analytic, numeric):
    analytic, numeric = np.asarray(analytic, float), np.asarray(numeric, float)
    return likely_cause(analytic, numeric, analytic != numeric)


def test_one_wrong_element_is_no_pattern():
    many = np.arange(1.0, 21.0)
    assert "1 of 20 elements" in cause(np.where(many == 7, 9.5, many), many)
    assert "a factor" not in cause(np.where(many < 3, 1.5 * many, many), many)
    assert "1.5 times" in cause(np.where(many < 4, 1.5 * many, many), many)


def test_the_place_is_that_of_the_module_in_its_package(tmp_path, scripts):
    package = tmp_path / "somewhere" / "inner"
    package.mkdir(parents=True)
    (tmp_path / "somewhere" / "__init__.py").touch()
    (package / "__init__.py").write_text(
        "import plugrad\n"
        "op = plugrad.operator('demo::placed', elementwise=True)(lambda x: 2 * x)\n"
        "op.backward(lambda grad: 3.0 * grad)\n"
    )
    report = contract.check(scripts(tmp_path)("somewhere.inner").op)
    assert "declared in somewhere/inner/__init__.py, line 3" in str(report)


def test_a_function_without_samples_is_told_where_they_go():
    class Twice(plugrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    text = str(contract.check(Twice))
    assert "contract.check(function, samples=...)" in text
    assert "@operator.samples" not in text
    assert contract.check(Twice, [(np.ones(3),), (np.ones((2, 2)),), (np.array(1.0),)]).passed


def test_the_cause_is_read_off_the_numbers():
    right = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert cause(-right, right) == "the sign is flipped"
    assert "1.01 times" in cause(1.01 * right, right)
    assert "transposed" in cause(right.T, right)
    assert "nothing flows" in cause(0 * right, right)
    assert "surrogate=" in cause(right, 0 * right)
    assert "domain" in cause(np.full((2, 2), np.nan), right)
    many = np.arange(1.0, 21.0)
    assert "unsummed" in cause(many + np.sin(many), many)
