"""What must be right before anything is timed: the tests on the device, and the battery of every operator.

The battery compares with the CPU in float64, leaves rubbish where results will be written, and runs twice: on the
operator's own samples and on fresh random ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fresh
from settings import Settings

ROOT = Path(__file__).resolve().parents[2]

#: Tells the tests' fixture `cuda` which device they are for.
VARIABLE = "PLUGRAD_TEST_DEVICE"


def tests(settings: Settings, emulated: bool) -> dict[str, Any]:
    """Run pytest in a process of its own; counts, and the messages of what failed."""
    paths = [str(p) for pattern in settings.tests for p in sorted(ROOT.glob(pattern))]
    with tempfile.TemporaryDirectory() as place:
        report = Path(place, "report.xml")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
        ]
        command += [*paths, *(["-k", settings.keyword] if settings.keyword else [])]
        variables = {**os.environ, VARIABLE: "cuda-emulated" if emulated else "cuda"}
        done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
        if not report.exists():
            raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return counted(ET.parse(report))


def counted(report: ET.ElementTree[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"passed": 0, "failed": 0, "skipped": 0, "messages": {}}
    for case in report.iter("testcase"):
        bad = next((e for e in case if e.tag in ("failure", "error")), None)
        skipped = case.find("skipped")
        name = f"{case.get('classname')}::{case.get('name')}"
        if bad is not None:
            found["failed"] += 1
            found["messages"][name] = bad.get("message", "")
        elif skipped is not None:
            found["skipped"] += 1
            found["messages"][name] = f"skipped: {skipped.get('message', '')}"
        else:
            found["passed"] += 1
    return found


def operators(patterns: str) -> list[Any]:
    from plugrad import registry

    found = {o.name: o for pattern in patterns.split(",") for o in registry.operators(pattern)}
    if not found:
        raise LookupError(f"no operator matches {patterns!r}")
    return [found[name] for name in sorted(found)]


def batteries(settings: Settings, device: str, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """(operator, what came of it) for each operator."""
    for operator in operators(settings.operators):
        own = checked(operator, None, device)
        sampler = fresh.samples(operator, seed, settings.fresh_elements)
        again = dict(UNGUESSED) if sampler is None else checked(operator, sampler, device)
        if sampler is not None and not again["passed"]:
            # What the CPU refuses, too, says nothing of the device: an argument that the battery cannot vary.
            reference = checked(operator, sampler, "cpu")
            if not reference["passed"]:
                again = {**UNGUESSED, "note": f"unsuited: {reference['report'][:200]}"}
        yield (
            operator.name,
            {
                "passed": own["passed"] and again["passed"],
                "samples": own["samples"],
                "fresh_samples": again["samples"],
                "note": again.get("note", ""),
                "report": own["report"] + again["report"],
            },
        )


UNGUESSED = {
    "passed": True,
    "samples": 0,
    "report": "",
    "note": "no fresh samples: its inputs cannot be guessed",
}


def checked(operator: Any, samples: Any, device: str) -> dict[str, Any]:
    """One battery, as JSON has it."""
    from plugrad import contract

    try:
        report = contract.check(operator, samples, device=device)
    except Exception as error:
        return {"passed": False, "samples": 0, "report": f"{type(error).__name__}: {error}\n"}
    return {
        "passed": report.passed,
        "samples": report.samples,
        "report": "" if report.passed else f"{report}\n",
    }
