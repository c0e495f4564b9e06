"""Counts the machine instructions that one operator costs, forward and backward, with valgrind's callgrind.

    python benchmarks/instructions.py                          plugrad, chain and Python operator; and NumPy by hand
    python benchmarks/instructions.py --peers plugrad,torch    others too
    python benchmarks/instructions.py --profile callgrind.out  keeps plugrad's profile, for callgrind_annotate

A count is the same on a busy machine as on an idle one, to some 0.1 %, so that it shows a change of a per cent that no
clock would. It is no time: a cache miss counts as little as a hit.

A workload runs twice, in chains of different lengths, and the difference is divided by the difference in operators, which
leaves out the start of Python, all imports and the verification of the operators. That takes a minute or two per work.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SHORT, LONG = 1_000, 11_000
WORKS = ("multiply", "python-operator")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Instructions per operator, by callgrind.")
    parser.add_argument("--peers", default="plugrad,numpy", help="comma-separated")
    parser.add_argument("--only", choices=WORKS, help="this work only")
    parser.add_argument("--json", metavar="FILE", help="write the counts there")
    parser.add_argument("--profile", metavar="FILE", help="keep plugrad's longer profile there")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.child:
        work, peer, length = arguments.child
        return run(work, peer, int(length))
    if shutil.which("valgrind") is None:
        print("skipped: valgrind, not installed")
        return 0
    counts: dict[str, dict[str, float]] = {}
    for work in [arguments.only] if arguments.only else WORKS:
        for peer in arguments.peers.split(","):
            if (work, peer) == ("python-operator", "numpy"):
                continue
            profile = arguments.profile if peer == "plugrad" else None
            count = instructions_per_operator(work, peer, profile)
            counts.setdefault(work, {})[peer] = count
            print(f"{work:<18} {peer:<10} {count:>10,.0f} instructions per operator", flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
    return 0


def instructions_per_operator(work: str, peer: str, profile: str | None = None) -> float:
    # Once without valgrind, so that compiled modules are there in both counted runs.
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(_child(work, peer, SHORT), check=True, env=_environment(folder))
    short = _count(work, peer, SHORT, None)
    return (_count(work, peer, LONG, profile) - short) / (LONG - SHORT)


def _count(work: str, peer: str, length: int, profile: str | None) -> int:
    with tempfile.TemporaryDirectory() as folder:
        output = profile or str(Path(folder) / "callgrind.out")
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={output}"]
        done = subprocess.run(
            [*command, *_child(work, peer, length)],
            capture_output=True,
            text=True,
            check=False,
            env=_environment(folder),
        )
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not found:
        raise SystemExit(f"instructions.py: {work} with {peer} failed\n{done.stderr}")
    return int(found[1])


def _child(work: str, peer: str, length: int) -> list[str]:
    return [sys.executable, str(Path(__file__).resolve()), "--child", work, peer, str(length)]


def _environment(folder: str) -> dict[str, str]:
    # One thread, or idle ones that spin would be counted; the same hashes and so the same dict probes every time; and no
    # certificates, so that every run verifies its operators and the difference leaves that out, too.
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = os.environ | dict.fromkeys(threads, "1")
    return environment | {"PYTHONHASHSEED": "0", "PLUGRAD_CERTIFICATES": folder}


def run(work: str, peer: str, length: int) -> int:
    """What callgrind watches: one chain of `length` operators, forward and backward."""
    import gc

    import chains

    makers = {"multiply": chains.multiply_chain, "python-operator": chains.python_operator}
    bodies = makers[work]((peer,), length)
    gc.collect()
    gc.disable()
    bodies[peer]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
