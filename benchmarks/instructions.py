"""Counts the machine instructions that small pieces of work cost, with valgrind's callgrind, and holds them to a baseline.

    python benchmarks/instructions.py                                  plugrad; and NumPy by hand
    python benchmarks/instructions.py --peers plugrad,torch,numpy      others too
    python benchmarks/instructions.py --only multiply --profile FILE   keeps the profile, for callgrind_annotate
    python benchmarks/instructions.py --check                          fails where a count has risen by more than 5 %
    python benchmarks/instructions.py --update                         writes the baseline, instructions.json

A count is the same on a busy machine as on an idle one, to some 0.1 %, so that it shows a change of a per cent that no
clock would. It is no time: a cache miss counts as little as a hit.

One process does all works of a peer, and tells valgrind when to count, through three lines of C that are compiled on the
way: starting Python, importing and verifying the operators run uncounted, and faster than what is counted.

A count depends on the interpreter, NumPy, the compiler and the processor's instructions, so a baseline holds only where
these are the same, and where NumPy by hand still takes what it took; elsewhere the check is skipped, and says what differs.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from itertools import repeat
from pathlib import Path
from typing import Any

BASELINE = Path(__file__).resolve().with_name("instructions.json")
TOLERANCE = 0.05
CONTROL_TOLERANCE = 0.03  # addresses, which NumPy hashes, move it by a per cent
WARM_CALLS = 10
RENEW = "python benchmarks/instructions.py --update"

CLIENT = """
#include <valgrind/callgrind.h>
void start(void) { CALLGRIND_START_INSTRUMENTATION; }
void zero(void) { CALLGRIND_ZERO_STATS; }
void dump(const char *name) { CALLGRIND_DUMP_STATS_AT(name); }
"""

Counts = dict[str, dict[str, float]]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Instructions per operator, by callgrind.")
    parser.add_argument("--peers", default="plugrad,numpy", help="comma-separated")
    parser.add_argument("--only", metavar="WORK,WORK", help="these works only")
    parser.add_argument("--json", metavar="FILE", help="write the counts there")
    parser.add_argument("--profile", metavar="FILE", help="keep plugrad's profile of the one work")
    parser.add_argument("--check", action="store_true", help="compare with the baseline")
    parser.add_argument("--update", action="store_true", help="write the baseline")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.child:
        peer, names, library = arguments.child
        return child(peer, names.split(","), library)
    missing = why_not()
    if missing:
        print(f"skipped: {missing}")
        return 0
    if arguments.check:
        reason = why_not_comparable()
        if reason:
            print(f"skipped: {reason}")
            return 0
    names = arguments.only.split(",") if arguments.only else None
    counts: Counts = {}
    for peer in arguments.peers.split(","):
        profile = arguments.profile if peer == "plugrad" else None
        for work, count in counted(peer, names, profile).items():
            counts.setdefault(work, {})[peer] = count
            print(f"{work:<18} {peer:<10} {count:>10,.0f} instructions", flush=True)
    if arguments.json:
        write(Path(arguments.json), {"taken with": surroundings(), "counts": counts})
    if arguments.update:
        write(BASELINE, {"taken with": surroundings(), "counts": counts})
    return check(counts) if arguments.check else 0


def write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


# ----------------------------------------------------------------------------------------------------------- counting


def why_not() -> str:
    """What is missing for counting, or nothing."""
    if shutil.which("valgrind") is None:
        return "valgrind, not installed"
    if shutil.which("cc") is None:
        return "no C compiler"
    known = subprocess.run(
        ["cc", "-E", "-x", "c", "-"], input=CLIENT, capture_output=True, text=True
    )
    return "valgrind's headers, not installed" if known.returncode else ""


def counted(peer: str, names: list[str] | None, profile: str | None) -> dict[str, float]:
    """Instructions per operator of each work that the peer can do."""
    from overheads import WORKS

    unknown = [name for name in names or () if name not in WORKS]
    if unknown:
        raise SystemExit(
            f"instructions.py: no work {', '.join(unknown)}; there is {', '.join(WORKS)}"
        )
    works = {
        name: work
        for name, work in WORKS.items()
        if peer in work.peers and (names is None or name in names)
    }
    if not works:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        library, output = f"{folder}/callgrind.so", f"{folder}/out"
        compile_client = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library]
        subprocess.run(compile_client, input=CLIENT, text=True, check=True)
        done = subprocess.run(
            [
                *("valgrind", "--tool=callgrind", "--instr-atstart=no"),
                f"--callgrind-out-file={output}",
                *(sys.executable, str(Path(__file__).resolve())),
                *("--child", peer, ",".join(works), library),
            ],
            capture_output=True,
            text=True,
            env=environment(),
        )
        if done.returncode:
            raise SystemExit(f"instructions.py: counting {peer} failed\n{done.stderr}")
        totals = {}
        for file in Path(folder).glob("out.*"):
            text = file.read_text()
            name = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.MULTILINE)
            total = re.search(r"^totals: (\d+)", text, re.MULTILINE)
            if name and total:
                totals[name[1]] = int(total[1])
                if profile:
                    shutil.copyfile(file, profile)
    return {name: totals[name] / work.calls / work.operators for name, work in works.items()}


def child(peer: str, names: list[str], library: str) -> int:
    """What runs under callgrind."""
    import ctypes

    from overheads import WORKS

    callgrind = ctypes.CDLL(library)
    bodies = {name: WORKS[name].make(peer) for name in names}
    for body in bodies.values():
        for _ in repeat(None, WARM_CALLS):
            body()
    gc.collect()
    gc.disable()
    callgrind.start()
    for name, body in bodies.items():
        body()
        callgrind.zero()
        for _ in repeat(None, WORKS[name].calls):
            body()
        callgrind.dump(name.encode())
    return 0


def environment() -> dict[str, str]:
    # One thread, or idle ones that spin would be counted; the same hashes, and so the same dict probes every time.
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return os.environ | dict.fromkeys(threads, "1") | {"PYTHONHASHSEED": "0"}


# ------------------------------------------------------------------------------------------------------- the baseline


def surroundings() -> dict[str, str]:
    """What a count depends on besides plugrad."""
    import numpy as np

    features: dict[str, bool] = vars(np)["_core"]._multiarray_umath.__cpu_features__
    # What lies above these is not shown to what runs under valgrind.
    simd = [name for name in ("AVX2", "FMA3", "ASIMD", "VSX") if features.get(name)]
    return {
        "python": f"{platform.python_version()}, {platform.python_compiler()}",
        "numpy": metadata.version("numpy"),
        "compiler": _output("cc", "-dumpfullversion"),
        "valgrind": _output("valgrind", "--version"),
        "machine": f"{platform.system()} {platform.machine()} {' '.join(simd)}".strip(),
    }


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def why_not_comparable() -> str:
    """What the baseline was taken with that is otherwise here, or nothing."""
    if not BASELINE.exists():
        return f"no baseline {BASELINE.name}; {RENEW} writes it"
    here = surroundings()
    different = [
        f"{name} {value}, here {here.get(name)}"
        for name, value in json.loads(BASELINE.read_text(encoding="utf-8"))["taken with"].items()
        if here.get(name) != value
    ]
    return f"the baseline was taken with {'; '.join(different)}" if different else ""


def check(counts: Counts) -> int:
    """Compares with the baseline and says what has changed; 1 if a count has risen beyond the tolerance.

    NumPy by hand is the control: where that has moved, something else has than plugrad.
    """
    baseline: Counts = json.loads(BASELINE.read_text(encoding="utf-8"))["counts"]
    for work, by_peer in counts.items():
        control, before = by_peer.get("numpy"), baseline.get(work, {}).get("numpy")
        if control and before and abs(control / before - 1) > CONTROL_TOLERANCE:
            print(
                f"skipped: {work} with NumPy alone takes {control:,.0f} instructions here, {before:,.0f} in the "
                "baseline: this is not the interpreter, or not the BLAS, that it was taken with"
            )
            return 0
    risen, fallen, new = [], [], []
    for work, by_peer in counts.items():
        if "plugrad" not in by_peer:
            continue
        count = by_peer["plugrad"]
        before = baseline.get(work, {}).get("plugrad")
        if before is None:
            new.append(work)
            continue
        text = f"{work}: {before:,.0f} to {count:,.0f}, {count / before - 1:+.1%}"
        if count > (1 + TOLERANCE) * before:
            risen.append(text)
        elif count < (1 - TOLERANCE) * before:
            fallen.append(text)
    for heading, lines in (("risen", risen), ("fallen", fallen), ("not in the baseline", new)):
        for line in lines:
            print(f"{heading}: {line}")
    if risen:
        print(
            f"a count rose by more than {TOLERANCE:.0%}. If that is the price of something: {RENEW}"
        )
        return 1
    if fallen or new:
        print(f"no count rose; so that what was gained is kept: {RENEW}")
    else:
        print(f"no count rose by more than {TOLERANCE:.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
