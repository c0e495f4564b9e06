"""The hardware run: correctness first, then speed, on the GPU at hand.

    python benchmarks/gpu/run.py                          everything, some minutes
    python benchmarks/gpu/run.py --json h200.json --markdown
    python benchmarks/gpu/run.py --only suite --operators 'standard::*'
    python benchmarks/gpu/run.py --dry-run                the same on the emulated device, tiny: figures mean nothing

plugrad, PyTorch and CuPy are timed in this one process, in turns, with CUDA events; those that are not installed are
skipped by name. The lines to paste into docs/gpu.md come with --markdown.

The exit status tells whether everything ran and all tests and batteries passed, not whether the budgets held.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import bandwidth
import launch
import libraries
import machine
import products
import report
import step
import suite
from report import Report, Row
from settings import DRY, FULL, Settings

PARTS = ("suite", "bandwidth", "launch", "matmul", "step")


def main(argv: list[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    parts = arguments.only.split(",") if arguments.only else list(PARTS)
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise SystemExit(f"run.py: no part {', '.join(unknown)}; there is {', '.join(PARTS)}")
    emulated = arguments.dry_run
    machine.prepare(emulated)
    settings = machine.fitting(DRY if emulated else FULL)
    if arguments.operators:
        settings = replace(settings, operators=arguments.operators)
    found = Report(machine.describe(), emulated)
    if emulated:
        print(f"{report.EMULATED}\n")
    for key, value in found.machine.items():
        print(f"{key:14} {value}")
    began = time.perf_counter()
    if "suite" in parts:
        run_suite(
            found, settings, secrets.randbits(32) if arguments.seed is None else arguments.seed
        )
    run_benchmarks(found, settings, [part for part in parts if part != "suite"])
    conclude(found, time.perf_counter() - began)
    if arguments.json:
        found.write(Path(arguments.json))
    if arguments.markdown:
        print(f"\n{report.markdown(found)}")
    return 1 if found.failed else 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description="Tests and times plugrad on the GPU at hand.")
    made.add_argument("--dry-run", action="store_true", help="on the emulated device, tiny sizes")
    made.add_argument("--only", metavar="PART,PART", help=f"of {', '.join(PARTS)}")
    made.add_argument("--operators", metavar="PATTERN,PATTERN", help="whose battery runs")
    made.add_argument(
        "--seed", type=int, help="of the fresh samples, to repeat a run; random by default"
    )
    made.add_argument("--json", metavar="FILE", help="write everything there")
    made.add_argument("--markdown", action="store_true", help="print the table for docs/gpu.md")
    return made


def run_suite(found: Report, settings: Settings, seed: int) -> None:
    """The tests, then the battery of each operator, with a line for each that fails."""
    print("\ntests on the device ...", flush=True)
    try:
        tests = found.suite["tests"] = suite.tests(settings, found.emulated)
    except Exception as error:
        found.failed["tests"] = f"{type(error).__name__}: {error}"
        print(found.failed["tests"])
    else:
        print(report.suite_text(found.suite))
        for name, message in tests["messages"].items():
            print(f"  {name}: {message.partition(chr(10))[0]}")
        if tests["failed"]:
            found.failed["tests"] = f"{tests['failed']} failed"
    found.suite["seed"] = seed
    print(f"\nbatteries on the device, fresh samples from seed {seed} ...", flush=True)
    operators: dict[str, Any] = {}
    found.suite["operators"] = operators
    device = "cuda-emulated" if found.emulated else "cuda"
    try:
        for name, outcome in suite.batteries(settings, device, seed):
            operators[name] = outcome
            if not outcome["passed"]:
                print(f"FAILED {name}\n{outcome['report']}", flush=True)
    except LookupError as error:
        found.failed["batteries"] = str(error)
    print(report.battery_text(found.suite))
    bad = [name for name, outcome in operators.items() if not outcome["passed"]]
    if bad:
        found.failed["batteries"] = ", ".join(bad)


def run_benchmarks(found: Report, settings: Settings, parts: list[str]) -> None:
    at_hand, found.skipped = libraries.find(found.emulated)
    for name, reason in found.skipped.items():
        print(f"skipped: {name}, {reason}")
    cache = machine.cache_bytes()
    works: dict[str, Callable[[], Iterator[Row]]] = {
        "bandwidth": lambda: bandwidth.measure(at_hand, settings, cache),
        "launch": lambda: launch.measure(at_hand, settings),
        "matmul": lambda: products.measure(at_hand, settings, cache),
        "step": lambda: step.measure(at_hand, settings),
    }
    if parts:
        print(f"\n{report.line(report.HEADINGS)}")
    for part in parts:
        try:
            for row in works[part]():
                print(report.line(report.cells(row, found.emulated)), flush=True)
                found.rows.append(row)
        except Exception as error:
            found.failed[part] = f"{type(error).__name__}: {error}"
            print(f"{part}: failed, {found.failed[part].partition(chr(10))[0]}", flush=True)


def conclude(found: Report, seconds: float) -> None:
    print(f"\n{report.short_table(found)}\n")
    for name, reason in found.failed.items():
        print(f"failed: {name}: {reason.partition(chr(10))[0]}")
    print(f"done in {seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
