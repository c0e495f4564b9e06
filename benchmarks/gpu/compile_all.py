"""Compiles the kernels that `collect.py` found for every architecture, without a GPU.

    python benchmarks/gpu/compile_all.py FOLDER [--arch sm_75,sm_90] [--spread] [--jobs 2] [--keep]

With NVRTC (``pip install nvidia-cuda-nvrtc``, which needs neither GPU nor toolkit) or with nvcc, which takes about
ten times as long. Machine code is made for each architecture, with the optimiser turned down and several sources in one
text, since the question is whether it compiles; --keep compiles as plugrad does and leaves the images in its cache, to be
carried to a machine with a GPU. --spread compiles every source for the first and the last architecture and for one of
those between, in turn: what differs between architectures lies in what all sources share.

The exit status is 1 if a source does not compile, 3 if there is no compiler.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bundle import bundled

from plugrad.backends.cuda import compiler

NO_COMPILER = 3
BUNDLE = 12
FAST = "-Ofc=max"  # of NVRTC: as little optimisation as there is


@dataclass(frozen=True)
class Problem:
    """A source that does not compile, and where."""

    name: str
    signature: str
    arch: str
    log: str


def main(argv: list[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    reason = compiler.why_no_compiler()
    if reason is not None:
        print(f"skipped: {reason}")
        return NO_COMPILER
    architectures = arguments.arch.split(",")
    sources = json.loads((Path(arguments.folder) / "sources.json").read_text(encoding="utf-8"))
    began = time.perf_counter()
    problems = list(
        check(sources, architectures, arguments.jobs, arguments.keep, spread=arguments.spread)
    )
    for problem in problems:
        print(f"FAILED  {problem.name}  {problem.signature}  {problem.arch}\n{problem.log}\n")
    made = compiler.compiler_for(architectures[0]).identity.partition(" [")[0]
    print(
        f"{len(sources)} sources x {len(architectures)} architectures ({', '.join(architectures)}) with {made}"
        + (", three of them for each source: " if arguments.spread else ": ")
        + f"{len(problems)} failures, {time.perf_counter() - began:.0f} s"
    )
    return 1 if problems else 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description="Compiles all kernels for all architectures.")
    made.add_argument("folder", help="where collect.py wrote sources.json")
    made.add_argument("--arch", default=",".join(compiler.ARCHITECTURES), metavar="SM,SM")
    made.add_argument("--spread", action="store_true", help="three architectures per source")
    made.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    made.add_argument("--keep", action="store_true", help="optimise, and fill plugrad's cache")
    return made


def check(
    sources: list[dict[str, Any]],
    architectures: list[str],
    jobs: int,
    keep: bool,
    spread: bool = False,
) -> Iterator[Problem]:
    """What does not compile."""
    if not sources:
        raise SystemExit("compile_all.py: there are no sources, so nothing would be checked")
    size = 1 if keep else BUNDLE
    bundles = [sources[i : i + size] for i in range(0, len(sources), size)]
    with ProcessPoolExecutor(jobs) as pool:
        work = [
            pool.submit(kept if keep else built, bundle, arch)
            for turn, bundle in enumerate(bundles)
            for arch in (three(architectures, turn) if spread else architectures)
        ]
        for future in work:
            yield from future.result()


def three(architectures: list[str], turn: int) -> list[str]:
    """The first, the last, and one of those between: another one every turn."""
    chosen = [architectures[0], architectures[-1]]
    if between := architectures[1:-1]:
        chosen.append(between[turn % len(between)])
    return list(dict.fromkeys(chosen))


def built(sources: list[dict[str, Any]], arch: str) -> list[Problem]:
    """Compile sources as one text; where that fails, one by one, so that each has its own message."""
    make = quick(arch)
    if len(sources) > 1:
        text = compiler.full_text(bundled([one["source"] for one in sources]), "bundle")
        try:
            make.build(text, arch)
        except compiler.CompileError:
            pass
        else:
            return []
    found = []
    for one in sources:
        try:
            make.build(compiler.full_text(**one), arch)
        except compiler.CompileError as error:
            found.append(problem(one, arch, error))
    return found


def kept(sources: list[dict[str, Any]], arch: str) -> list[Problem]:
    """Compile as plugrad does; the images go to its cache."""
    found = []
    for one in sources:
        try:
            compiler.compile(arch=arch, **one)
        except compiler.CompileError as error:
            found.append(problem(one, arch, error))
    return found


def problem(source: dict[str, Any], arch: str, error: compiler.CompileError) -> Problem:
    """What the first line of a source says of its types goes with the message."""
    first = source["source"].partition("\n")[0]
    signature = first.removeprefix(f"// {source['name']}: ") if first.startswith("//") else ""
    return Problem(source["name"], signature, arch, error.log or str(error))


def quick(arch: str) -> compiler.Compiler:
    """The compiler with its optimiser turned down, where it can be."""
    made = compiler.compiler_for(arch)
    options = getattr(made, "options", None)
    if options is not None and FAST not in options and made.library.version >= (12, 8):
        options.append(FAST)
    return made


if __name__ == "__main__":
    sys.exit(main())
