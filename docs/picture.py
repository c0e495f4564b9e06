"""Draws the README's picture: the way of an operator from its plugin to a call.

python docs/picture.py            # writes docs/picture.svg
"""

from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

plt.switch_backend("svg")
plt.rcParams.update({"svg.hashsalt": "plugrad", "font.family": "DejaVu Sans"})

INK, PAPER, FRAME = "#1f2933", "#ffffff", "#9aa5b1"
DOOR, GOOD, BAD, FLOW = "#e8eef9", "#e6f4ea", "#fbe9e7", "#3b6fb6"

CHECKS = [
    "numerical derivative",
    "second derivative",
    "every declared dtype",
    "strides, 0-d, empty",
    "linear in the gradient",
    "inputs left unchanged",
    "same bits twice",
    "saved values freed",
]


def box(ax, x, y, width, height, title, lines=(), color=PAPER, mono=False):
    """A rounded box with a bold title and lines below it."""
    style = "round,pad=0,rounding_size=0.12"
    ax.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, fc=color, ec=FRAME, lw=1.2))
    ax.text(x + 0.16, y + height - 0.18, title, va="top", fontsize=10.5, weight="bold", color=INK)
    for i, line in enumerate(lines):
        ax.text(
            x + 0.16,
            y + height - 0.58 - 0.295 * i,
            line,
            va="top",
            fontsize=8.6 if mono else 9,
            color=INK,
            family="DejaVu Sans Mono" if mono else None,
        )


def arrow(ax, start, end, color=INK, bend=0.0, style="-|>", width=1.6):
    ax.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle=style,
            mutation_scale=13,
            color=color,
            lw=width,
            connectionstyle=f"arc3,rad={bend}",
        )
    )


def node(ax, x, y, text, color=DOOR):
    ax.text(
        x,
        y,
        text,
        ha="center",
        va="center",
        fontsize=9.5,
        color=INK,
        bbox={"boxstyle": "round,pad=0.35,rounding_size=0.8", "fc": color, "ec": FRAME, "lw": 1.2},
    )


def draw():
    fig, ax = plt.subplots(figsize=(10.4, 3.75))
    ax.set(xlim=(0, 13.0), ylim=(0, 4.7))
    ax.axis("off")
    fig.subplots_adjust(0, 0, 1, 1)

    declaration = [
        '@operator("soft::plus", …)',
        "def plus(x, *, b=4.0): …",
        "",
        "@plus.backward",
        "def _(grad, x, out, b): …",
        "",
        "@plus.samples",
        "def _(make): …",
    ]
    box(ax, 0.1, 1.2, 3.2, 3.1, "a plugin", declaration, DOOR, mono=True)
    box(ax, 4.75, 1.2, 2.75, 3.1, "the battery", [f"✓ {c}" for c in CHECKS], PAPER)
    box(ax, 8.75, 3.3, 4.1, 1.0, "the operator table", ["plugrad.ops.soft.plus"], GOOD, mono=True)
    box(ax, 4.75, 0.1, 2.75, 0.62, "refused, with a report", color=BAD)

    arrow(ax, (3.32, 2.9), (4.72, 2.9))
    ax.text(4.02, 3.02, "entry point\nand hook", ha="center", va="bottom", fontsize=8.5, color=INK)
    arrow(ax, (7.52, 3.8), (8.72, 3.8))
    ax.text(8.12, 3.9, "passed", ha="center", va="bottom", fontsize=8.5, color=INK)
    arrow(ax, (6.12, 1.18), (6.12, 0.75), color="#b3412e")
    ax.text(6.24, 0.96, "failed", ha="left", va="center", fontsize=8.5, color="#b3412e")
    arrow(ax, (10.8, 3.28), (10.8, 2.6))
    ax.text(10.92, 2.94, "calls", ha="left", va="center", fontsize=8.5, color=INK)

    places = [(8.95, "x"), (10.05, "matmul"), (11.4, "plus"), (12.55, "loss")]
    for x, text in places:
        node(ax, x, 1.6, text, GOOD if text == "plus" else PAPER)
    for (a, first), (b, second) in pairwise(places):
        left, right = a + 0.06 * len(first) + 0.1, b - 0.06 * len(second) - 0.1
        arrow(ax, (left, 1.68), (right, 1.68), width=1.2)
        arrow(ax, (right, 1.52), (left, 1.52), color=FLOW, width=1.2)
    ax.text(10.8, 2.2, "forward records the graph", ha="center", fontsize=9, color=INK)
    ax.text(10.8, 1.0, "backward runs it in reverse", ha="center", fontsize=9, color=FLOW)
    return fig


if __name__ == "__main__":
    target = Path(__file__).with_name("picture.svg")
    draw().savefig(target, metadata={"Date": None, "Creator": None})
    print(target)
