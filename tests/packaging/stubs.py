"""Writes the operators that are methods of Tensor into tensor.pyi: python tests/packaging/stubs.py"""

import inspect
import sys
from pathlib import Path

TENSOR = Path(__file__).resolve().parents[2] / "core" / "plugrad" / "graph" / "tensor.pyi"
BEGIN = "    # Operators that are methods. Written by `python tests/packaging/stubs.py`.\n"
END = "    # end of operators\n"
SEVERAL = ("size", "shape", "dims")  # x.view(2, 3) is x.view((2, 3))


def argument(parameter):
    """One parameter; constants need no star before them, they may be passed by position too."""
    name, default = parameter.name, parameter.default
    if parameter.kind is parameter.VAR_POSITIONAL:
        return f"*{name}: Any"
    if parameter.kind is parameter.VAR_KEYWORD:
        return f"**{name}: Any"
    if default is parameter.empty:
        return f"{name}: Any"
    if isinstance(default, bool | int | float | str):
        return f"{name}: _{type(default).__name__} = {default!r}"
    return f"{name}: Any = {default if default is None else '...'}"


def stub(name, operator):
    """The method's line, from the signature that the operator shows."""
    parameters = list(inspect.signature(operator).parameters.values())[1:]
    arguments = ["self", *map(argument, parameters)]
    if arguments[1:] in [[f"{word}: Any"] for word in SEVERAL]:
        arguments.append("*more: _int")
    outputs = getattr(getattr(operator, "schema", None), "outputs", ())
    # A composite does not say what it returns: split gives a tuple.
    result = "Tensor" if len(outputs) == 1 else "Any"
    return f"    def {name}({', '.join(arguments)}) -> {result}: ...\n"


def methods():
    """Name -> operator of every method that the standard plugin installs."""
    from plugrad import registry

    found = {}
    for operator in registry.operators("standard::*"):
        if operator.method:
            name = operator.method if isinstance(operator.method, str) else None
            found[name or operator.name.partition("::")[2]] = operator
    if not found:
        raise RuntimeError("the standard plugin offers no method; see: plugrad plugins")
    return found


def writes(operator):
    """Whether the result of an operator can lie where its first tensor lies."""
    schema = getattr(operator, "schema", None)
    return schema is not None and schema.elementwise and schema.out_dtype in (None, "real")


def block():
    """The methods, then the in-place forms."""
    found = sorted(methods().items())
    lines = [stub(name, operator) for name, operator in found]
    taken = {name for name, _ in found}
    lines += [
        stub(name + "_", operator)
        for name, operator in found
        if writes(operator) and name + "_" not in taken
    ]
    return "".join(lines)


def main():
    text = TENSOR.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    TENSOR.write_text(head + BEGIN + block() + END + tail)
    return 0


if __name__ == "__main__":
    sys.exit(main())
