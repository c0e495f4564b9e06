"""``plugrad ops``: what can be called, and how far each operator is verified."""

from __future__ import annotations

import inspect
from typing import Any

import click

from plugrad.cli.output import (
    cell,
    console,
    json_option,
    matching,
    only_json,
    pattern_argument,
    table,
    write_json,
)

STYLES = {"certified": "green", "verified": "green", "refused": "bold red"}


@click.command()
@pattern_argument
@json_option
def ops(pattern: str | None, as_json: bool) -> None:
    """List operators with signature, dtypes, kernels, order of differentiation and status on each device.

    KERNELS tells how each device is served: on CUDA by an expression, a kernel, a composition of other operators, a view,
    via the host, or by the formula itself. The status on CUDA is that of certificates, for the emulated device and for
    hardware apart: passing on one is no proof for the other.

    PATTERN is a shell pattern such as 'ste::*', 'ste' (a whole namespace) or '*log*'. Nothing is
    verified by listing it: an operator is verified before its first call, or by 'plugrad check'.
    """
    with only_json(as_json):
        found = [describe(operator) for operator in matching(pattern)]
    if as_json:
        write_json(found)
        return
    rows = table(
        "OPERATOR", "DTYPES", "KERNELS", "ORDER", "CPU", "CUDA EMULATED", "CUDA HARDWARE", "REMARKS"
    )
    for one in found:
        rows.add_row(
            cell(one["signature"]),
            cell(_dtypes(one["dtypes"])),
            cell(_kernels(one["kernels"])),
            cell(one["order"]),
            cell(one["status"], STYLES.get(one["status"], "")),
            cell(one["cuda_emulated"], STYLES.get(one["cuda_emulated"].partition(" ")[0], "")),
            cell(one["cuda_hardware"], STYLES.get(one["cuda_hardware"].partition(" ")[0], "")),
            cell(", ".join(one["remarks"])),
        )
    out = console()
    out.print(rows)
    _explain(out, found)


def _explain(out: Any, found: list[dict[str, Any]]) -> None:
    """Below the table: why operators have no certificate, each reason once, and refusals."""
    reasons: dict[str, list[str]] = {}
    for one in found:
        if one["reason"]:
            reasons.setdefault(one["reason"], []).append(one["name"])
    for reason, names in reasons.items():
        out.print()
        out.print(cell(f"{', '.join(names)}: {reason}"))


# -------------------------------------------------------------------------------- one operator


def describe(operator: Any) -> dict[str, Any]:
    """What there is to know of an operator or composite, as plain data."""
    status, reason = status_of(operator)
    schema = getattr(operator, "schema", None)
    return {
        "name": operator.name,
        "signature": f"{operator.name}{signature(operator)}",
        "kind": operator.kind,
        "distribution": operator.owner,
        "module": operator.module,
        "dtypes": dict(zip(schema.inputs, schema.dtypes)) if schema is not None else {},
        "devices": list(kernels(operator)),
        "kernels": kernels(operator),
        "order": getattr(operator, "order", "any"),
        "status": status,
        "reason": reason,
        "cuda_emulated": cuda_status(operator, "emulated"),
        "cuda_hardware": cuda_status(operator, "hardware"),
        "elementwise": schema is not None and schema.elementwise,
        "nondifferentiable": operator.nondifferentiable,
        "surrogate": _name_of(getattr(operator, "surrogate", None)),
        "exempt": sorted(operator.exempt),
        "random": operator.random,
        "method": operator.method,
        "replaces": operator.replaces,
        "remarks": remarks(operator),
        "summary": (inspect.getdoc(operator) or "").partition("\n")[0],
    }


def signature(operator: Any) -> str:
    """``(x, dim=None)``; ``(...)`` where Python does not tell."""
    try:
        return str(inspect.signature(operator))
    except (TypeError, ValueError):
        return "(...)"


def kernels(operator: Any) -> dict[str, str]:
    """Device to what serves it there, in a word, for each device that is served."""
    if operator.kind != "operator":
        return {"cpu": "composition", "cuda": "composition"}
    found = {"cpu": "kernel" if operator.function is not _cpu_kernel(operator) else "function"}
    if operator.cuda_kind:
        found["cuda"] = operator.cuda_kind
    found.update(dict.fromkeys(operator.offered_devices, "kernel of a plugin"))
    return found


def _cpu_kernel(operator: Any) -> Any:
    return getattr(operator._kernel("cpu"), "function", None)


def cuda_status(operator: Any, kind: str) -> str:
    """On the "emulated" device or on "hardware", by certificates and by what happened in this process.

    ``certified (sm_90)`` names where; ``verified``; ``refused``; ``no kernel``; ``not verified``.
    """
    from plugrad import registry

    outcome = registry.verification(operator, "cuda")
    here = outcome is not None and (outcome.device == "cuda (emulated)") == (kind == "emulated")
    if outcome is not None and here and not outcome.passed:
        return "refused"
    if "cuda" not in kernels(operator):
        return "no kernel"
    found = registry.cuda_certificates(operator, kind)
    if found:
        places = sorted({word for one in found for word in _architectures(one.environment)})
        return f"certified ({', '.join(places)})" if kind == "hardware" and places else "certified"
    return "verified" if here else "not verified"


def _architectures(environment: tuple[str, ...]) -> list[str]:
    return [line.rpartition(" ")[2] for line in environment if line.startswith("device cuda ")]


def _kernels(by_device: dict[str, str]) -> str:
    return ", ".join(f"{device}: {how}" for device, how in by_device.items())


def remarks(operator: Any) -> list[str]:
    """What a caller should know: surrogates, exemptions, no gradient, aliasing."""
    found = [] if operator.kind == "operator" else [operator.kind]
    surrogate = getattr(operator, "surrogate", None)
    if surrogate is not None:
        found.append(f"surrogate: {_name_of(surrogate)}")
    schema = getattr(operator, "schema", None)
    if operator.nondifferentiable:
        found.append("no gradient")
    elif schema is not None and any(schema.nondifferentiable):
        names = [n for n, off in zip(schema.outputs, schema.nondifferentiable) if off]
        found.append(f"no gradient through {' '.join(names)}")
    found += [f"exempt: {name}" for name in sorted(operator.exempt)]
    if operator.random:
        found.append("random")
    if schema is not None and schema.view_of >= 0:
        found.append(f"view of {schema.inputs[schema.view_of]}")
    if schema is not None and schema.mutates:
        found.append(f"writes {' '.join(schema.inputs[i] for i in schema.mutates)}")
    if operator.replaces:
        found.append(f"replaces {operator.replaces}")
    return found


def status_of(operator: Any, device: str = "cpu") -> tuple[str, str]:
    """On a device at hand: one of ``certified``, ``verified``, ``not verified``, ``refused``, and a reason or ``""``."""
    from plugrad import registry

    outcome = registry.verification(operator, device)
    if outcome is not None and not outcome.passed:
        return "refused", str(outcome.report).partition("\n")[0]
    if registry.certificate(operator, device) is not None:
        return "certified", ""
    if outcome is not None:
        return "verified", outcome.reason
    return "not verified", registry.uncertifiable(operator, device)


def _name_of(function: Any) -> str | None:
    if function is None:
        return None
    return str(getattr(function, "__name__", function)).lstrip("_")


def _dtypes(by_input: dict[str, str]) -> str:
    classes = set(by_input.values())
    if len(classes) <= 1:
        return "".join(classes)
    return " ".join(f"{name}:{dtypes}" for name, dtypes in by_input.items())
