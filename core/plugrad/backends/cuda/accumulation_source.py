"""The source text that stands in front of `reduction.cuh` and `scan.cuh`: types, operands and the four expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plugrad.backends.cuda.dtypes import is_complex, is_floating
from plugrad.backends.cuda.elementwise_source import Array, Number, Output, assignment, pack_width
from plugrad.backends.cuda.expression import written
from plugrad.backends.cuda.texts import text_of

__all__ = ["Text", "accumulation_source", "accumulator_size"]

SIZES = {"int": 4, "float": 4, "double": 8, "i64": 8, "u64": 8}
SIZES |= {"u32": 4, "Complex<float>": 8, "Complex<double>": 16}


@dataclass(frozen=True)
class Text:
    """What the text is made from.

    `accumulator` has the C type of each field; one without a name is a plain number.
    """

    name: str
    arrays: Sequence[Array]
    numbers: Sequence[Number]
    outputs: Sequence[Output]
    accumulator: Mapping[str, str]
    identity: Mapping[str, str]
    map: Mapping[str, str]
    combine: Mapping[str, str] | str
    common: str
    real: str
    offsets: str  # "int" or "i64"
    origin: str = ""
    line: int = 0


def accumulator_size(accumulator: Mapping[str, str]) -> int:
    """Bytes of an accumulator, laid out as C does."""
    size, align = 0, 1
    for c in accumulator.values():
        own = SIZES[c]
        size = -(-size // own) * own + own
        align = max(align, own)
    return -(-size // align) * align


def accumulation_source(text: Text, kernels: str) -> str:
    """The text of a Module: all that is particular to these expressions, then the file `kernels`."""
    types = ", ".join(a.stored for a in text.arrays)
    head = f"// {text.name}: {types} -> {', '.join(o.stored for o in text.outputs)}\n"
    operands_and_results: list[Array | Output] = [*text.arrays, *text.outputs]
    if any(is_complex(x.stored) for x in operands_and_results):
        head += text_of("complex.cuh")
    head += f"typedef {text.common} T;\ntypedef {text.real} R;\ntypedef {text.offsets} I;\n"
    head += f"enum {{ N = {len(text.arrays)}, V = {pack_width([a.itemsize for a in text.arrays])} }};\n\n"
    parts = (types_of, functions, operands, results, parameters)
    return head + "".join(part(text) for part in parts) + text_of(kernels)


def types_of(text: Text) -> str:
    """What is accumulated, and the constants."""
    if "" in text.accumulator:
        accumulator = f"typedef {text.accumulator['']} Acc;\n"
    else:
        fields = " ".join(f"{c} {name};" for name, c in text.accumulator.items())
        accumulator = f"struct Acc {{ {fields} }};\n"
    numbers = " ".join(f"{n.passed} {n.name};" for n in text.numbers) or "i64 none;"
    return accumulator + f"struct Numbers {{ {numbers} }};\n\n"


# ------------------------------------------------------------------------------------------- functions


def functions(text: Text) -> str:
    """identity, map, combine and finish."""
    elements = "".join(f"const {a.computed} {a.name}, " for a in text.arrays)
    combine = {"": text.combine} if isinstance(text.combine, str) else text.combine
    made = {name: f"pg_acc.{name}" if name else "pg_acc" for name in text.accumulator}
    whole = {name: f"pg_acc.{name}" if name else "pg_acc" for name in combine}
    outputs = {str(k): f"pg_{k}" for k in range(len(text.outputs))}
    finish = {str(k): o.expression for k, o in enumerate(text.outputs)}
    results = "".join(f", {o.computed} &pg_{k}" for k, o in enumerate(text.outputs))
    returned = "    return pg_acc;\n"
    return (
        "namespace plugrad {\n"
        + "PLUGRAD_FN Acc identity(const Numbers &pg_numbers) {\n"
        + f"    Acc pg_acc;\n{body(text, text.identity, made)}{returned}}}\n"
        + f"PLUGRAD_FN Acc map({elements}const i64 index, const Numbers &pg_numbers) {{\n"
        + f"    Acc pg_acc;\n{body(text, text.map, made)}{returned}}}\n"
        + "PLUGRAD_FN Acc combine(const Acc a, const Acc b, const Numbers &pg_numbers) {\n"
        + f"    Acc pg_acc;\n{body(text, combine, whole)}{returned}}}\n"
        + f"PLUGRAD_FN void finish(const Acc a, const i64 n, const Numbers &pg_numbers{results}) {{\n"
        + f"{body(text, finish, outputs)}}}\n"
        + "}\n\n"
        + "struct Combine {\n    const Numbers &numbers;\n"
        + "    PLUGRAD_FN Acc operator()(Acc a, Acc b) const { return plugrad::combine(a, b, numbers); }\n};\n\n"
    )


def body(text: Text, expressions: Mapping[str, str], targets: Mapping[str, str]) -> str:
    """The constants by their names, then the expressions, each given to its target."""
    real = "R" if text.common != text.real else "T"
    values: list[Array | Number] = [*text.arrays, *text.numbers]
    floating = {x.name for x in values if x.computed in ("R", text.real)}
    if is_floating(text.accumulator.get("", "")):
        floating |= {"a", "b"}
    known = "".join(
        f"    const {n.computed} {n.name} = {n.computed}(pg_numbers.{n.name});\n"
        for n in text.numbers
    )
    return known + "".join(
        assignment(targets[key], written(each, real, floating), text.origin, text.line)
        for key, each in expressions.items()
    )


# ----------------------------------------------------------------------------------- operands, results


def operands(text: Text) -> str:
    """Input: where elements are found one by one. Row: where they are neighbours."""
    apart = [
        f"{a.computed}(load(*shifted(in_{a.name}, at[{k}] + along[{k}])))"
        for k, a in enumerate(text.arrays)
    ]
    near = [f"{a.computed}(load(in_{a.name}[i]))" for a in text.arrays]
    packed = [f"{a.computed}(load(pack_{a.name}.at[k]))" for a in text.arrays]
    pointers = " ".join(f"const {a.stored} *in_{a.name};" for a in text.arrays)
    begins = [f"in_{a.name}(shifted(in.in_{a.name}, at[{k}]))" for k, a in enumerate(text.arrays)]
    whole = [f"whole_{a.name}(aligned<V>(in_{a.name}))" for a in text.arrays]
    packs = "".join(
        f"        const Pack<{a.stored}, V> pack_{a.name} = load_pack<V>(in_{a.name} + i, whole_{a.name});\n"
        for a in text.arrays
    )
    return (
        f"struct Input {{\n    {pointers}\n"
        "    PLUGRAD_FN Acc taken(const I (&at)[N + 1], const Layout<I, N> &inner, I i, I index,\n"
        "                         const Numbers &numbers) const {\n"
        "        I along[N];\n        place(inner, i, along);\n"
        f"        return plugrad::map({', '.join(apart)}, index, numbers);\n    }}\n}};\n\n"
        f"struct Row {{\n    {pointers}\n    const bool {', '.join(f'whole_{a.name}' for a in text.arrays)};\n"
        f"    PLUGRAD_FN Row(const Input &in, const I (&at)[N + 1]) : {', '.join(begins + whole)} {{}}\n"
        "    PLUGRAD_FN Acc one(I i, const Numbers &numbers) const {\n"
        f"        return plugrad::map({', '.join(near)}, i, numbers);\n    }}\n"
        f"    PLUGRAD_FN void take(Acc (&acc)[V], I i, const Numbers &numbers) const {{\n{packs}"
        '        _Pragma("unroll") for (int k = 0; k < V; ++k)\n'
        f"            acc[k] = plugrad::combine(acc[k], plugrad::map({', '.join(packed)}, i + k, numbers), numbers);\n"
        "    }\n};\n\n"
    )


def results(text: Text) -> str:
    pointers = " ".join(f"{o.stored} *out_{k};" for k, o in enumerate(text.outputs))
    declared = " ".join(f"{o.computed} pg_{k};" for k, o in enumerate(text.outputs))
    passed = "".join(f", pg_{k}" for k in range(len(text.outputs)))
    stores = " ".join(f"store(out_{k}[at], pg_{k});" for k in range(len(text.outputs)))
    return (
        f"struct Output {{\n    {pointers}\n"
        "    PLUGRAD_FN void put(i64 at, Acc value, i64 count, const Numbers &numbers) const {\n"
        f"        {declared}\n        plugrad::finish(value, count, numbers{passed});\n        {stores}\n"
        "    }\n};\n\n"
    )


def parameters(text: Text) -> str:
    pointers = [f"const {a.stored} *in_{a.name}" for a in text.arrays]
    pointers += [f"{o.stored} *out_{k}" for k, o in enumerate(text.outputs)]
    more = "Acc *partial, const Numbers numbers, const Task task, const Layout<I, N + 1> outer, const Layout<I, N> inner"
    inputs = ", ".join(f"in_{a.name}" for a in text.arrays)
    outputs = ", ".join(f"out_{k}" for k in range(len(text.outputs)))
    return (
        f"#define PLUGRAD_PARAMETERS {', '.join(pointers)}, {more}\n"
        f"#define PLUGRAD_INPUT {{{inputs}}}\n#define PLUGRAD_OUTPUT {{{outputs}}}\n\n"
    )
