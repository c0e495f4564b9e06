"""Runs the battery of every operator on the emulated device, and keeps the source of each kernel that this makes.

    python benchmarks/gpu/collect.py FOLDER [--operators PATTERN,PATTERN] [--jobs 2]

FOLDER then holds `sources.json`, which `compile_all.py` compiles for hardware, and `batteries.json`, what came of each
operator. The battery goes through all samples, dtypes and layouts of an operator, forward and backward, so that what it
does not make is not made at all; optimisers, which are no operators, take a step each beside it.

The exit status is 1 if an operator or an optimiser failed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

DEVICE = "cuda-emulated"


@dataclass(frozen=True)
class Source:
    """A module of kernels: `name` is the operator's, `origin` and `line` say where the author's text stands."""

    name: str
    source: str
    origin: str
    line: int


@dataclass
class Outcome:
    """What came of one operator."""

    name: str
    passed: bool
    text: str
    seconds: float
    sources: list[Source]


def main(argv: list[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    folder = Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    names = work(arguments.operators)
    sources: dict[Source, None] = {}
    outcomes = []
    for outcome in run(names, arguments.jobs):
        outcomes.append(outcome)
        sources.update(dict.fromkeys(outcome.sources))
        status = "passed" if outcome.passed else "FAILED"
        print(f"{status}  {outcome.name}  ({outcome.seconds:.1f} s)", flush=True)
        if not outcome.passed:
            print(outcome.text, flush=True)
    write(folder, sources, outcomes)
    failed = sorted(one.name for one in outcomes if not one.passed)
    print(
        f"\n{len(outcomes) - len(failed)} of {len(outcomes)} passed on {DEVICE}, {len(sources)} sources, "
        f"{time.perf_counter() - began:.0f} s"
        + (f"; failed: {', '.join(failed)}" if failed else "")
    )
    return 1 if failed else 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description="Batteries on the emulated device, and their kernels' sources."
    )
    made.add_argument("folder", help="where sources.json and batteries.json go")
    made.add_argument("--operators", metavar="PATTERN,PATTERN", default="*::*")
    made.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    return made


def write(folder: Path, sources: Iterable[Source], outcomes: list[Outcome]) -> None:
    ordered = sorted(sources, key=lambda one: (one.name, one.source))
    texts = [asdict(one) for one in ordered]
    (folder / "sources.json").write_text(json.dumps(texts, indent=1), encoding="utf-8")
    rows = [
        {"name": one.name, "passed": one.passed, "seconds": one.seconds, "text": one.text}
        for one in sorted(outcomes, key=lambda one: one.name)
    ]
    (folder / "batteries.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


# ------------------------------------------------------------------------------------------------------- processes


def work(patterns: str) -> list[str]:
    """Operators by name, then optimisers as ``optim.NAME``."""
    from plugrad import optim, registry

    found = {o.name for pattern in patterns.split(",") for o in registry.operators(pattern)}
    if not found:
        raise SystemExit(f"collect.py: no operator matches {patterns!r}")
    optimizers = [
        f"optim.{name}"
        for name, value in vars(optim).items()
        if isinstance(value, type) and issubclass(value, optim.Optimizer) and name != "Optimizer"
    ]
    return [*sorted(found), *sorted(optimizers)]


def run(names: list[str], jobs: int) -> Iterable[Outcome]:
    """Outcomes as they come. Processes start afresh: CUDA does not survive a fork."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=start) as pool:
        for future in as_completed([pool.submit(one, name) for name in names]):
            yield future.result()


_made: dict[Source, None] = {}


def start() -> None:
    """Make the emulated device available in this process, and note each source that is compiled."""
    from plugrad import registry
    from plugrad.backends.cuda.module import Module

    registry.activate(DEVICE)
    compiled = Module.compiled

    def noted(self: Any, arch: str | None = None) -> bytes:
        _made[Source(self.name, self.source, self.origin, self.line)] = None
        return compiled(self, arch)

    Module.compiled = noted  # type: ignore[method-assign]


def one(name: str) -> Outcome:
    began = time.perf_counter()
    try:
        passed, text = step(name) if name.startswith("optim.") else battery(name)
    except Exception as error:
        passed, text = False, f"{type(error).__name__}: {error}"
    sources = list(_made)
    _made.clear()
    return Outcome(name, passed, text, time.perf_counter() - began, sources)


def battery(name: str) -> tuple[bool, str]:
    from plugrad import contract, registry

    report = contract.check(registry.get(name), device=DEVICE)
    return report.passed, "" if report.passed else str(report)


def step(name: str) -> tuple[bool, str]:
    """Three steps of an optimiser on the device and on the CPU end at the same parameters, within rounding."""
    import numpy as np

    import plugrad

    make = getattr(plugrad.optim, name.removeprefix("optim."))
    rng = np.random.default_rng(0)
    for dtype, tolerance in ((np.float32, 1e-5), (np.float64, 1e-12)):
        start, grad = (rng.standard_normal((5, 7)).astype(dtype) for _ in range(2))
        ends = []
        for device in ("cpu", "cuda"):
            p = plugrad.tensor(start, device=device).requires_grad_()
            optimizer = make([p], lr=0.01)
            for _ in range(3):
                p.grad = plugrad.tensor(grad, device=device)
                optimizer.step()
            ends.append(p.detach().cpu().numpy())
        error = float(np.abs(ends[0] - ends[1]).max())
        if not error <= tolerance:
            return (
                False,
                f"{name}, {np.dtype(dtype)}: parameters differ by {error:.3g} from the CPU's",
            )
    return True, ""


if __name__ == "__main__":
    sys.exit(main())
