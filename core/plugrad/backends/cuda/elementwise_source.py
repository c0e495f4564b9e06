"""The source text of elementwise kernels.

One text holds three kernels around one function of elements: `flat` for operands that lie in memory alike, `rows` where
only the innermost dimension does (or repeats one element), `strided32` for everything else. The first two move 16 bytes
at a time. `strided64`, for offsets that take 64 bits, has a text of its own: few programs need it, and all would compile it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plugrad.backends.cuda.dtypes import is_complex, is_floating
from plugrad.backends.cuda.expression import written
from plugrad.backends.cuda.texts import text_of

__all__ = [
    "BLOCK",
    "ITEMS",
    "RANDOM",
    "Array",
    "Number",
    "Output",
    "Text",
    "elementwise_source",
    "pack_width",
]

BLOCK = 128
RANDOM = "Random"
"""The C type of a stream of random numbers."""

ITEMS = 4
"""Elements that a thread of a strided kernel loads before it computes, so that several loads are under way."""


@dataclass(frozen=True)
class Array:
    """An input: the type of its elements, and the one they are computed with."""

    name: str
    stored: str
    computed: str
    itemsize: int


@dataclass(frozen=True)
class Number:
    """An input or constant that is a Python number: how it is passed, and what the expression sees."""

    name: str
    passed: str
    computed: str


@dataclass(frozen=True)
class Output:
    expression: str
    stored: str
    computed: str
    itemsize: int


@dataclass(frozen=True)
class Text:
    """What the text of a kernel is made from.

    `common` is the type T of the expressions, `real` that of their floating numbers.
    """

    name: str
    arrays: Sequence[Array]
    numbers: Sequence[Number]
    outputs: Sequence[Output]
    order: Sequence[str]  # names as the function of elements takes them
    common: str
    real: str
    counts: bool = False  # whether an element's number is used
    origin: str = ""
    line: int = 0
    header: str = ""  # functions that the expressions call


def pack_width(itemsizes: Sequence[int]) -> int:
    """How many elements of every operand fit into 16 bytes, at most 8."""
    return max(1, min(8, 16 // max(itemsizes)))


def line_of(origin: str, line: int) -> str:
    """A directive that makes the compiler speak of the author's file, or nothing where that is unknown."""
    if not origin:
        return ""
    quoted = origin.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line {max(line, 1)} "{quoted}"\n'


def assignment(target: str, text: str, origin: str, line: int) -> str:
    """``target = text`` such that the compiler finds the text where its author wrote it."""
    return f"    {target} = (\n{line_of(origin, line)}{text}\n{resume(origin)}    );\n"


def resume(origin: str) -> str:
    return '#line 1 "generated"\n' if origin else ""


def elementwise_source(text: Text, wide: bool = False) -> str:
    """The text of a Module: of the kernels for offsets of 32 bits, or of the one for `wide` offsets."""
    operands: list[Array | Output] = [*text.arrays, *text.outputs]
    types = ", ".join(a.stored for a in text.arrays) or "nothing"
    head = f"// {text.name}: {types} -> {', '.join(o.stored for o in text.outputs)}\n"
    if any(is_complex(x.stored) for x in operands):
        head += text_of("complex.cuh")
    head += text.header
    if any(number.computed == RANDOM for number in text.numbers):
        head += text_of("random.cuh")
    head += f"typedef {text.common} T;\ntypedef {text.real} R;\n"
    head += f"enum {{ V = {pack_width([x.itemsize for x in operands])}, ITEMS = {ITEMS} }};\n\n"
    if wide:
        kernels = strided(text, "i64", 64)
    else:
        kernels = flat(text) + rows(text) + strided(text, "int", 32)
    return head + drawing(text) + element(text) + kernels


def drawing(text: Text) -> str:
    """Functions that draw numbers of the kernel's own type, where it is given a stream."""
    if not any(number.computed == RANDOM for number in text.numbers):
        return ""
    stored = {x.stored for x in text.arrays} | {x.stored for x in text.outputs}
    narrow = {} if stored & {"float", "double"} else {"half": "R, 11", "bfloat16": "R, 8"}
    bits = next((given for c, given in narrow.items() if c in stored), "R")
    types = {"uniform": bits, "normal": "R", "exponential": "R"}
    functions = "".join(
        f"PLUGRAD_FN R {name}({RANDOM} stream, i64 i) {{ return {name}_as<{given}>(stream, i); }}\n"
        for name, given in types.items()
    )
    return f"namespace plugrad {{\n{functions}}}\n\n"


# ------------------------------------------------------------------------------- the function of elements


def element(text: Text) -> str:
    """The function that computes one element of every output."""
    values: list[Array | Number] = [*text.arrays, *text.numbers]
    types = {x.name: x.computed for x in values}
    floating = {name for name, c in types.items() if c == "R" or is_floating(c) or is_complex(c)}
    real = "R" if text.common != text.real else "T"
    parameters = [f"const {types[name]} {name}" for name in text.order]
    if text.counts:
        parameters.append("const i64 index")
    parameters += [f"{o.computed} &pg_{k}" for k, o in enumerate(text.outputs)]
    body = "".join(
        assignment(f"pg_{k}", written(o.expression, real, floating), text.origin, text.line)
        for k, o in enumerate(text.outputs)
    )
    return (
        "namespace plugrad {\n"
        f"PLUGRAD_FN void element({', '.join(parameters)}) {{\n{body}}}\n"
        "}\n\n"
    )


def call(text: Text, values: dict[str, str], index: str) -> str:
    """Compute one element; `values` says where those of the arrays are. Results are pg_0, pg_1, …"""
    passed = {n.name: f"{n.computed}(number_{n.name})" for n in text.numbers} | values
    arguments = [passed[name] for name in text.order]
    if text.counts:
        arguments.append(index)
    arguments += [f"pg_{k}" for k in range(len(text.outputs))]
    results = "".join(f"{o.computed} pg_{k}; " for k, o in enumerate(text.outputs))
    return f"{results}plugrad::element({', '.join(arguments)});"


# ------------------------------------------------------------------------------------------------ kernels


def signature(text: Text, name: str, more: str) -> str:
    parameters = [f"const {a.stored} *in_{a.name}" for a in text.arrays]
    parameters += [f"{o.stored} *out_{k}" for k, o in enumerate(text.outputs)]
    parameters += [f"const {n.passed} number_{n.name}" for n in text.numbers]
    return f'extern "C" __global__ void __launch_bounds__({BLOCK}) {name}({", ".join(parameters)}, {more}) {{\n'


def loop(what: str, index: str, limit: str, stride: str = "") -> str:
    """A loop that the threads of the grid share."""
    return (
        f"    for ({index} {what} = {index}(blockIdx.x) * blockDim.x{stride} + threadIdx.x; {what} < {limit}; "
        f"{what} += {index}(gridDim.x) * blockDim.x{stride}) {{\n"
    )


def packs(text: Text, load: dict[str, str], target: list[str], index: str) -> str:
    """Load a pack of every array, compute its elements, store packs."""
    lines = [f"const Pack<{a.stored}, V> pack_{a.name} = {load[a.name]};" for a in text.arrays]
    lines += [f"Pack<{o.stored}, V> pack_out_{k};" for k, o in enumerate(text.outputs)]
    lines += ['_Pragma("unroll") for (int k = 0; k < V; ++k) {']
    values = {a.name: f"load(pack_{a.name}.at[k])" for a in text.arrays}
    # An "or": of a sum the compiler would not see that neighbours draw from one block.
    lines += ["    " + call(text, values, f"({index} | k)")]
    lines += [f"    store(pack_out_{k}.at[k], pg_{k});" for k in range(len(text.outputs))]
    lines += ["}"]
    lines += [f"store_pack<V>({to}, pack_out_{k}, whole_out_{k});" for k, to in enumerate(target)]
    return "".join(f"        {line}\n" for line in lines) + "    }\n"


def whole(text: Text) -> str:
    """Which operands begin where 16 bytes can be moved at once."""
    lines = [f"whole_{a.name} = aligned<V>(in_{a.name})" for a in text.arrays]
    lines += [f"whole_out_{k} = aligned<V>(out_{k})" for k in range(len(text.outputs))]
    return f"    const bool {', '.join(lines)};\n"


def flat(text: Text) -> str:
    load = {a.name: f"load_pack<V>(in_{a.name} + p * V, whole_{a.name})" for a in text.arrays}
    target = [f"out_{k} + p * V" for k in range(len(text.outputs))]
    values = {a.name: f"load(in_{a.name}[i])" for a in text.arrays}
    stores = "".join(f" store(out_{k}[i], pg_{k});" for k in range(len(text.outputs)))
    return (
        signature(text, "flat", "const i64 n")
        + whole(text)
        + loop("p", "i64", "n / V")
        + packs(text, load, target, "p * V")
        + "    const i64 i = n / V * V + threadIdx.x;\n"
        + "    if (blockIdx.x == 0 && i < n) {\n"
        + f"        {call(text, values, 'i')}{stores}\n    }}\n}}\n\n"
    )


def rows(text: Text) -> str:
    count = len(text.arrays) + len(text.outputs)
    load = {
        a.name: f"spread >> {k} & 1 ? spread_pack<V>(shifted(in_{a.name}, at[{k}])) : "
        f"load_pack<V>(shifted(in_{a.name}, at[{k}]), whole_{a.name})"
        for k, a in enumerate(text.arrays)
    }
    target = [f"shifted(out_{k}, at[{len(text.arrays) + k}])" for k in range(len(text.outputs))]
    return (
        signature(text, "rows", f"const Layout<int, {count}> layout, const int n, const int spread")
        + whole(text)
        + loop("p", "int", "n")
        + f"        int at[{count}];\n        place(layout, p, at);\n"
        + packs(text, load, target, "i64(p) * V")
        + "}\n\n"
    )


def strided(text: Text, index: str, bits: int) -> str:
    count = len(text.arrays) + len(text.outputs)
    lines = [f"{index} at[ITEMS][{count}];"]
    lines += [f"{a.stored} item_{a.name}[ITEMS];" for a in text.arrays]
    each = '_Pragma("unroll") for (int k = 0; k < ITEMS; ++k) {'
    lines += [
        each,
        f"    const {index} i = base + k * {BLOCK};",
        "    if (i < n) {",
        "        place(layout, i, at[k]);",
    ]
    lines += [
        f"        item_{a.name}[k] = *shifted(in_{a.name}, at[k][{j}]);"
        for j, a in enumerate(text.arrays)
    ]
    lines += ["    }", "}", each, f"    const {index} i = base + k * {BLOCK};", "    if (i < n) {"]
    values = {a.name: f"load(item_{a.name}[k])" for a in text.arrays}
    lines += ["        " + call(text, values, "i")]
    lines += [
        f"        store(*shifted(out_{k}, at[k][{len(text.arrays) + k}]), pg_{k});"
        for k in range(len(text.outputs))
    ]
    lines += ["    }", "}"]
    return (
        signature(text, f"strided{bits}", f"const Layout<{index}, {count}> layout, const {index} n")
        + loop("base", index, "n", " * ITEMS")
        + "".join(f"        {line}\n" for line in lines)
        + "    }\n}\n\n"
    )
