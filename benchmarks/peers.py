"""Times plugrad against PyTorch, autograd and NumPy by hand, side by side, and holds the ratios to the budgets.

    python benchmarks/peers.py                      everything: half an hour, nearly all of it the operators
    python benchmarks/peers.py --quick              a look, some minutes
    python benchmarks/peers.py --only multiply,chain --rounds 21
    python benchmarks/peers.py --only operators --operators gelu,softmax --sizes 1e6
    python benchmarks/peers.py --json figures.json

All peers run in this one process, in turns, with the same number of threads and the garbage collector off while the clock
runs; a ratio is the median over the rounds of the ratios within a round, so it need not be the quotient of the medians in
the other columns. Memory is measured in fresh processes. A peer that is not installed is skipped by name.

The exit status tells whether everything ran, not whether the budgets held: timing on a shared machine is read, not asserted.
With --fail-over 1.5 it is 1, too, where a ratio is above 1.5 times its budget, which is more than noise explains.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from dataclasses import asdict
from importlib import import_module, metadata, util
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from operators import Selection
    from rows import Row
    from works import Settings

PEERS = ("plugrad", "torch", "autograd", "numpy")
DISTRIBUTIONS = ("plugrad", "torch", "autograd", "numpy")
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
)


def main(argv: list[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    pin_threads(arguments.threads)

    # Only now: these import NumPy, whose BLAS reads the number of threads once.
    import measure
    from rows import Row
    from works import WORKS, Settings

    names = arguments.only.split(",") if arguments.only else list(WORKS)
    unknown = [name for name in names if name not in WORKS]
    if unknown:
        raise SystemExit(f"peers.py: no work {', '.join(unknown)}; there is {', '.join(WORKS)}")
    if arguments.clock == "cpu":
        if arguments.threads != 1:
            raise SystemExit("peers.py: --clock cpu would count threads that wait: add --threads 1")
        measure.clock = time.process_time
    peers, skipped = installed_peers()
    set_threads(peers, arguments.threads)
    settings = Settings(
        peers=peers,
        rounds=arguments.rounds or (3 if arguments.quick else 9),
        chain_length=100_000 if arguments.quick else 1_000_000,
        chain_rounds=2 if arguments.quick else 3,
        table=selection(arguments),
    )
    machine = describe(arguments.threads, settings)
    print("  ".join(f"{key} {value}" for key, value in machine.items()))
    if "torch" in peers and arguments.threads > 1:
        slower = threads_cost(arguments.threads)
        if slower > 1:
            print(
                f"PyTorch takes {slower:.1f} times as long with {arguments.threads} threads as with one: the machine does "
                "other work, and ratios of what runs on threads flatter plugrad; use --threads 1 --clock cpu"
            )
    for peer, reason in skipped.items():
        print(f"skipped: {peer}, {reason}")
    print()
    print(line(HEADINGS))
    rows: list[Row] = []
    for name in names:
        try:
            for row in WORKS[name](settings):
                print(line(cells(row)), flush=True)
                rows.append(row)
        except Exception as error:
            rows.append(Row(name, "", {}, failure=f"{type(error).__name__}: {error}"))
            print(line(cells(rows[-1])))
    if arguments.json:
        report = {
            "machine": machine,
            "skipped": skipped,
            "rows": [asdict(row) for row in rows],
        }
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1, ensure_ascii=False)
            file.write("\n")
    return conclude(rows, arguments.fail_over)


def conclude(rows: list[Row], fail_over: float | None = None) -> int:
    """Prints once more what failed and what is over its budget, the furthest first, and returns the exit status."""
    failed = [row for row in rows if row.verdict == "failed"]
    over = [row for row in rows if row.verdict == "over"]
    over.sort(key=excess, reverse=True)
    held = sum(row.verdict == "ok" for row in rows)
    print(f"\n{held} budgets held, {len(over)} over, {len(failed)} failed")
    for row in failed + over:
        print(line(cells(row)))
    far = [row.work for row in over if fail_over and excess(row) > fail_over]
    if far:
        print(f"above {fail_over:g} times its budget: {'; '.join(far)}")
    return 1 if failed or far else 0


def excess(row: Row) -> float:
    """The ratio over its budget."""
    return (row.ratio or 0) / (row.budget or 1)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description="Times plugrad against its peers.")
    made.add_argument("--threads", type=int, default=2, help="threads for every peer (default 2)")
    made.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu leaves out what other processes do; for one thread",
    )
    made.add_argument("--rounds", type=int, help="interleaved rounds (default 9, quick 3)")
    made.add_argument(
        "--only", metavar="WORK,WORK", help="these pieces of work only; an unknown one lists them"
    )
    made.add_argument("--quick", action="store_true", help="fewer rounds, sizes and nodes")
    made.add_argument("--json", metavar="FILE", help="write all figures there")
    made.add_argument(
        "--fail-over", type=float, metavar="FACTOR", help="fail above FACTOR times a budget"
    )
    table = made.add_argument_group("the operator table (--only operators)")
    table.add_argument(
        "--operators",
        metavar="NAME,NAME",
        help="names, names without what follows the colon, groups, or patterns: sum,*norm*,softmax:rows,losses",
    )
    table.add_argument("--dtypes", default="float32,float64", metavar="TYPE,TYPE")
    table.add_argument("--layouts", default="contiguous,transposed", metavar="LAYOUT,LAYOUT")
    table.add_argument(
        "--sizes",
        metavar="N,N",
        help="elements: any of 1e2 to 1e7 (default 1e2,1e4,1e6,1e7; quick without 1e7)",
    )
    table.add_argument("--row", type=int, metavar="N", help="length of a row (default: square)")
    return made


def selection(arguments: argparse.Namespace) -> Selection:
    from operators import Selection

    sizes = arguments.sizes or ("1e2,1e4,1e6" if arguments.quick else "1e2,1e4,1e6,1e7")
    try:
        return Selection(
            operators=tuple(arguments.operators.split(",")) if arguments.operators else (),
            dtypes=tuple(arguments.dtypes.split(",")),
            layouts=tuple(arguments.layouts.split(",")),
            sizes=tuple(int(float(size)) for size in sizes.split(",")),
            row=arguments.row,
            rounds=arguments.rounds or (3 if arguments.quick else None),
        )
    except (LookupError, ValueError) as error:
        raise SystemExit(f"peers.py: {error}") from None


# --------------------------------------------------------------------------------------------------- surroundings


def pin_threads(threads: int) -> None:
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(threads)


def set_threads(peers: tuple[str, ...], threads: int) -> None:
    """What a library does not read from the environment."""
    for peer in peers:
        library = import_module(peer)
        if hasattr(library, "set_num_threads"):
            library.set_num_threads(threads)


def threads_cost(threads: int) -> float:
    """What PyTorch takes for a loop over a million numbers with these threads, in times of what one thread takes."""
    import torch

    x = torch.ones(1_000_000)
    seconds: dict[int, list[float]] = {1: [], threads: []}
    for _ in range(5):
        for number, found in seconds.items():
            torch.set_num_threads(number)
            torch.exp(x)
            start = time.perf_counter()
            for _ in range(5):
                torch.exp(x)
            found.append(time.perf_counter() - start)
    torch.set_num_threads(threads)
    return median(seconds[threads]) / median(seconds[1])


def installed_peers() -> tuple[tuple[str, ...], dict[str, str]]:
    """The peers that can be imported, and why the others cannot."""
    skipped = {
        peer: "not installed"
        for peer in PEERS
        if peer not in ("plugrad", "numpy") and util.find_spec(peer) is None
    }
    peers = tuple(peer for peer in PEERS if peer not in skipped)
    return peers, skipped


def describe(threads: int, settings: Settings) -> dict[str, str]:
    machine = {"python": platform.python_version(), "machine": platform.machine()}
    for name in DISTRIBUTIONS:
        try:
            machine[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    machine["cores"] = str(os.cpu_count())
    machine["threads"] = str(threads)
    machine["rounds"] = str(settings.rounds)
    return machine


# ---------------------------------------------------------------------------------------------------------- table

HEADINGS = ("work", "unit", *PEERS, "ratio", "budget", "", "")
WIDTHS = (38, 9, 10, 10, 10, 10, 8, 14, 5, 0)


def cells(row: Row) -> tuple[str, ...]:
    from rows import budget_text, ratio_text

    figures = [f"{row.figures[peer]:.4g}" if peer in row.figures else "" for peer in PEERS]
    return (
        row.work,
        row.unit,
        *figures,
        ratio_text(row),
        budget_text(row),
        row.verdict,
        row.failure or row.note,
    )


def line(texts: tuple[str, ...]) -> str:
    return " ".join(
        text.rjust(width) if 2 <= column <= 6 else text.ljust(width)
        for column, (text, width) in enumerate(zip(texts, WIDTHS, strict=True))
    ).rstrip()


if __name__ == "__main__":
    sys.exit(main())
