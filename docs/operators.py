"""Writes docs/operators.md: every standard operator, where it is found and what holds for it.

python docs/operators.py                # after operators were added or changed
python docs/operators.py --check cpu cuda-emulated    # runs their batteries, too: CHECK TIME, EMULATED, HARDWARE

What batteries found stays on the page until they are run again; times are given in classes, so that the page is the same
after every run.
"""

import argparse
import importlib
import math
import re
from pathlib import Path

from plugrad import contract, registry
from plugrad.cli.ops import kernels, remarks

PAGE = Path(__file__).with_name("operators.md")

FAMILIES = {
    "arithmetic": "Arithmetic, comparison, special functions",
    "activation": "Activations",
    "reduction": "Reductions and scans",
    "linalg": "Linear algebra",
    "shape": "Shapes, joining and splitting",
    "indexing": "Indexing, sorting and searching",
    "convolution": "Convolution, pooling and images",
    "normalization": "Normalisation",
    "loss": "Losses",
    "random": "Random numbers",
}

HEAD = """\
# The standard operators

Written by `python docs/operators.py`; a test compares it with the operators that there are. `plugrad ops` tells the same,
and more, about what is installed.

- *found as*: `plugrad.NAME`, the method `Tensor.NAME`, and what PyTorch calls it elsewhere. `plugrad.ops` holds all of them.
- *cpu*: a compiled **kernel**, or the **function** of NumPy arrays that is also the reference; a **composition** of other
  operators. *cuda*: the same, an **expression** that becomes a kernel, a **view**, or **via host**.
- *order*: how often it can be differentiated.
- *remarks*: where there is no derivative (**kinks**), what has no gradient, and from what an operator is exempt.
- *check*: how long its battery takes on the CPU, in milliseconds.
- *emulated*, *hardware*: whether its battery has passed with the emulated CUDA device, and with a GPU.
"""

COLUMNS = (
    "operator",
    "found as",
    "dtypes",
    "cpu",
    "cuda",
    "order",
    "remarks",
    "check",
    "emulated",
    "hardware",
)
STATIC = 7
UNKNOWN = ("", "not run", "not run")
CLASSES = (1, 5, 20, 100)

# ---- what is known without running anything ----------------------------------------------------------------


def places():
    """Operator to where its function is found beside `plugrad.NAME`, as PyTorch has it."""
    found = {}
    for module in ("nn.functional", "linalg", "special"):
        functions = importlib.import_module(f"plugrad.{module}")
        aliases = getattr(functions, "OTHERS", {})
        for name in functions.__all__:
            operator = f"linalg_{name}" if module == "linalg" else aliases.get(name, name)
            if module == "linalg" and registry.standard(operator) is None:
                operator = name
            found.setdefault(operator, []).append(f"{module}.{name}")
    return found


def static(operator, elsewhere):
    """The cells that depend on the declaration alone."""
    name = operator.name.partition("::")[2]
    found_as = [f"plugrad.{name}"] + [f"Tensor.{name}"] * operator.method + elsewhere.get(name, [])
    served = kernels(operator)
    return (
        f"`{name}`",
        ", ".join(f"`{one}`" for one in found_as),
        dtypes(operator),
        served["cpu"],
        served.get("cuda", "none"),
        str(getattr(operator, "order", "any")),
        "; ".join(
            [kinks(operator)] * bool(operator.kinks)
            + [r for r in remarks(operator) if r != "composite"]
        ),
    )


def dtypes(operator):
    """One class of dtypes, or one for each input where they differ."""
    schema = getattr(operator, "schema", None)
    if schema is None or len(set(schema.dtypes)) == 1:
        return schema.dtypes[0] if schema is not None else ""
    return ", ".join(f"{name}: {each}" for name, each in zip(schema.inputs, schema.dtypes))


def kinks(operator):
    """Where there is no derivative, as far as it is a list of values."""
    if isinstance(operator.kinks, dict):
        return "kinks at " + ", ".join(f"{value:g}" for value in operator.kinks)
    return "kinks"


def table():
    """Family to its operators, sorted: a row of static cells for each name."""
    elsewhere, found = places(), {family: {} for family in FAMILIES}
    for operator in registry.operators("standard::*"):
        family = operator.module.split(".")[1]
        found.setdefault(family, {})[operator.name.partition("::")[2]] = static(operator, elsewhere)
    return found


# ---- what batteries found ------------------------------------------------------------------------------------


def recorded(page):
    """Operator to its last three cells, from a page."""
    found = {}
    for line in page.splitlines():
        cells = tuple(cell.strip() for cell in line.strip().strip("|").split(" | "))
        if len(cells) == len(COLUMNS) and (name := re.fullmatch(r"`(\w+)`", cells[0])):
            found[name[1]] = cells[STATIC:]
    return found


def time_class(seconds, before=""):
    """``≤ 5``: milliseconds, rounded up to one of few classes; the class of `before` where that is as good as right."""
    milliseconds = 1e3 * seconds
    classes = [f"≤ {limit}" for limit in CLASSES] + [f"> {CLASSES[-1]}"]
    if before in classes:
        low, high = [
            (0, *CLASSES)[classes.index(before)],
            (*CLASSES, math.inf)[classes.index(before)],
        ]
        if low / 1.5 < milliseconds <= high * 1.5:
            return before
    return next(
        (name for name, limit in zip(classes, CLASSES) if milliseconds <= limit), classes[-1]
    )


def measured(device, before):
    """`before`, with what the batteries find on a device."""
    found = dict(before)
    for operator in registry.operators("standard::*"):
        name = operator.name.partition("::")[2]
        check, emulated, hardware = found.get(name, UNKNOWN)
        if device == "cpu":
            reports = [contract.check(operator) for _ in range(3)]
            check = time_class(min(report.seconds for report in reports), check)
        elif device == "cuda-emulated":
            emulated = result(operator, device)
        else:
            hardware = result(operator, device)
        found[name] = (check, emulated, hardware)
        print(device, name, *found[name])
    return found


def result(operator, device):
    try:
        return "passed" if contract.check(operator, device=device).passed else "FAILED"
    except NotImplementedError:
        return "no kernel"


# ---- the page ------------------------------------------------------------------------------------------------


def page(records):
    """The text of the page."""
    parts = [HEAD]
    for family, rows in table().items():
        if not rows:
            continue
        parts.append(f"\n## {FAMILIES.get(family, family)}\n\n")
        parts.append("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|\n")
        for name, cells in sorted(rows.items()):
            row = (*cells, *records.get(name, UNKNOWN))
            parts.append(
                "| " + " | ".join(cell.replace("|", "\\|") or "-" for cell in row) + " |\n"
            )
    return "".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--check", nargs="+", default=[], choices=("cpu", "cuda-emulated", "cuda"), metavar="DEVICE"
    )
    records = recorded(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else {}
    for device in parser.parse_args().check:
        records = measured(device, records)
    PAGE.write_text(page(records), encoding="utf-8")


if __name__ == "__main__":
    main()
