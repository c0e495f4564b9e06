"""Times plugrad against PyTorch, autograd and NumPy by hand, side by side, and holds the ratios to the budgets.

    python benchmarks/peers.py                      everything, some minutes
    python benchmarks/peers.py --quick              a look, about half a minute
    python benchmarks/peers.py --only multiply,chain --rounds 21
    python benchmarks/peers.py --json figures.json

All peers run in this one process, in turns, with the same number of threads and the garbage collector off while the clock
runs; a ratio is the median over the rounds of the ratios within a round, so it need not be the quotient of the medians in
the other columns. Memory is measured in fresh processes. A peer that is not installed is skipped by name.

The exit status tells whether everything ran, not whether the budgets held: timing on a shared machine is read, not asserted.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict
from importlib import metadata, util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from works import Row, Settings

PEERS = ("plugrad", "torch", "autograd", "numpy")
DISTRIBUTIONS = ("plugrad", "torch", "autograd", "numpy")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main(argv: list[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    pin_threads(arguments.threads)

    # Only now: these import NumPy, whose BLAS reads the number of threads once.
    from works import NOT_YET, WORKS, Settings

    names = arguments.only.split(",") if arguments.only else list(WORKS)
    unknown = [name for name in names if name not in WORKS]
    if unknown:
        raise SystemExit(f"peers.py: no work {', '.join(unknown)}; there is {', '.join(WORKS)}")
    peers, skipped = installed_peers(arguments.threads)
    settings = Settings(
        peers=peers,
        rounds=arguments.rounds or (3 if arguments.quick else 9),
        chain_length=100_000 if arguments.quick else 1_000_000,
        chain_rounds=2 if arguments.quick else 3,
        sizes=(10**2, 10**4, 10**6) if arguments.quick else table_sizes(),
    )
    machine = describe(arguments.threads, settings)
    print("  ".join(f"{key} {value}" for key, value in machine.items()))
    if os.getloadavg()[0] > 0.5:
        print(
            f"the machine does other work (load {os.getloadavg()[0]:.1f}): what runs on several threads suffers "
            "most, and seems slower than it is; --threads 1 is steadier"
        )
    for peer, reason in skipped.items():
        print(f"skipped: {peer}, {reason}")
    print()
    print(line(HEADINGS))
    rows: list[Row] = []
    failed: dict[str, str] = {}
    for name in names:
        try:
            found = WORKS[name](settings)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}"
            print(f"{name}: failed, {failed[name]}")
            continue
        for row in found:
            print(line(cells(row)), flush=True)
        rows += found
    if not arguments.only:
        for work, reason in NOT_YET.items():
            print(f"{work}: skipped, {reason} yet")
    if arguments.json:
        report = {
            "machine": machine,
            "skipped": skipped,
            "failed": failed,
            "rows": [asdict(row) for row in rows],
        }
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1, ensure_ascii=False)
            file.write("\n")
    over = [row.work for row in rows if row.verdict == "over"]
    held = sum(row.verdict == "ok" for row in rows)
    print(f"\n{held} budgets held, {len(over)} over" + (f": {'; '.join(over)}" if over else ""))
    return 1 if failed else 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description="Times plugrad against its peers.")
    made.add_argument("--threads", type=int, default=2, help="threads for every peer (default 2)")
    made.add_argument("--rounds", type=int, help="interleaved rounds (default 9, quick 3)")
    made.add_argument("--only", metavar="WORK,WORK", help="these pieces of work only")
    made.add_argument("--quick", action="store_true", help="fewer rounds, sizes and nodes")
    made.add_argument("--json", metavar="FILE", help="write all figures there")
    return made


# --------------------------------------------------------------------------------------------------- surroundings


def pin_threads(threads: int) -> None:
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(threads)


def installed_peers(threads: int) -> tuple[tuple[str, ...], dict[str, str]]:
    """The peers that can be imported, and why the others cannot."""
    skipped = {
        peer: "not installed"
        for peer in PEERS
        if peer not in ("plugrad", "numpy") and util.find_spec(peer) is None
    }
    peers = tuple(peer for peer in PEERS if peer not in skipped)
    if "torch" in peers:
        import torch

        torch.set_num_threads(threads)
    return peers, skipped


def table_sizes() -> tuple[int, ...]:
    from table import SIZES

    return SIZES


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
    from works import budget_text, ratio_text

    figures = [f"{row.figures[peer]:.4g}" if peer in row.figures else "" for peer in PEERS]
    return (
        row.work,
        row.unit,
        *figures,
        ratio_text(row),
        budget_text(row),
        row.verdict,
        row.note,
    )


def line(texts: tuple[str, ...]) -> str:
    return " ".join(
        text.rjust(width) if 2 <= column <= 6 else text.ljust(width)
        for column, (text, width) in enumerate(zip(texts, WIDTHS, strict=True))
    ).rstrip()


if __name__ == "__main__":
    sys.exit(main())
