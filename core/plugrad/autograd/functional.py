"""Derivatives of functions of Tensors: products with Jacobians and Hessians, and these themselves.

Every function here takes `func`, a function of Tensors to a Tensor or a tuple of them, and `inputs`, a Tensor or a
tuple. Results for a tuple of inputs are tuples. What is returned has no graph unless `create_graph` is set. With
`strict` an output that does not depend on an input is an error instead of a zero.
"""

from __future__ import annotations

from typing import Any, Literal

from plugrad.autograd.jacobians import (
    assemble,
    bare,
    columns,
    fresh,
    gradients,
    rows,
    units,
    zeros_for,
)
from plugrad.autograd.products import (
    Function,
    Inputs,
    dual_inputs,
    filled,
    outputs_of,
    own_inputs,
    packed,
    scalar,
    tensors_of,
    vector_for,
)
from plugrad.graph import duals
from plugrad.graph.tensor import Tensor

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Strategy = Literal["reverse-mode", "forward-mode"]


# ---- products ----------------------------------------------------------------------------------


def vjp(
    func: Function,
    inputs: Inputs,
    v: Inputs | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The product of a vector with the Jacobian of `func`: ``vᵀ J``.

    Parameters
    ----------
    func : callable
    inputs : Tensor or tuple of Tensor
    v : Tensor or tuple of Tensor, optional
        Of the shapes of the outputs; not needed for one output with one element.
    create_graph : bool, default False
        Record, so that the results can be differentiated.
    strict : bool, default False

    Returns
    -------
    outputs : Tensor or tuple of Tensor
    vjp : Tensor or tuple of Tensor
        Of the shapes of the inputs.

    Raises
    ------
    RuntimeError
        `v` does not fit the outputs or, with `strict`, an output or a product is independent of an input.
    TypeError
        An input or output is no Tensor.
    """
    single, xs = own_inputs("vjp", inputs, create_graph)
    single_out, outs = outputs_of("vjp", func, xs, strict)
    seeds = vector_for("vjp", v, outs, "output")
    found = filled("vjp", gradients(outs, xs, seeds, create_graph), xs, strict, create_graph)
    return packed(outs, single_out, create_graph), packed(found, single, create_graph)


def jvp(
    func: Function,
    inputs: Inputs,
    v: Inputs | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The product of the Jacobian of `func` with a vector, ``J v``, by forward mode.

    Parameters
    ----------
    func : callable
    inputs : Tensor or tuple of Tensor
    v : Tensor or tuple of Tensor, optional
        Of the shapes of the inputs; not needed for one input with one element.
    create_graph : bool, default False
        Record, so that the results can be differentiated.
    strict : bool, default False

    Returns
    -------
    outputs : Tensor or tuple of Tensor
    jvp : Tensor or tuple of Tensor
        Of the shapes of the outputs.

    Raises
    ------
    RuntimeError
        `v` does not fit the inputs or, with `strict`, an output is independent of the inputs.
    TypeError
        An input or output is no Tensor.
    """
    _single, given = tensors_of("jvp", inputs, "inputs")
    vector = vector_for("jvp", v, given, "input")
    level = duals.enter()
    try:
        xs = [fresh(x, create_graph) if create_graph or strict else bare(x) for x in given]
        single_out, outs = outputs_of("jvp", func, dual_inputs(level, xs, vector), strict)
        found = [duals.tangent_of(out, level) for out in outs]
    finally:
        duals.leave()
    tangents = []
    for i, (out, tangent) in enumerate(zip(outs, found)):
        if strict and create_graph and (tangent is None or not tangent.requires_grad):
            raise RuntimeError(
                f"jvp(): the product for output {i} is independent of the inputs, which strict=True refuses "
                "when create_graph=True"
            )
        tangents.append(zeros_for(out) if tangent is None else tangent)
    return packed(outs, single_out, create_graph), packed(tangents, single_out, create_graph)


def vhp(
    func: Function,
    inputs: Inputs,
    v: Inputs | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The product of a vector with the Hessian of a scalar function: ``vᵀ H``.

    Parameters
    ----------
    func : callable
        Returns one Tensor with one element.
    inputs : Tensor or tuple of Tensor
    v : Tensor or tuple of Tensor, optional
        Of the shapes of the inputs; not needed for one input with one element.
    create_graph : bool, default False
        Record, so that the results can be differentiated.
    strict : bool, default False

    Returns
    -------
    output : Tensor
    vhp : Tensor or tuple of Tensor
        Of the shapes of the inputs.

    Raises
    ------
    RuntimeError
        `func` is not scalar, `v` does not fit the inputs or, with `strict`, something is independent of an input.
    """
    single, xs = own_inputs("vhp", inputs, create_graph)
    seeds = vector_for("vhp", v, xs, "input")
    outs = scalar("vhp", *outputs_of("vhp", func, xs, strict))
    slopes = filled("vhp", gradients(outs, xs, [None], True), xs, strict, True)
    found = filled("vhp", gradients(slopes, xs, seeds, create_graph), xs, strict, create_graph)
    return packed(outs, True, create_graph), packed(found, single, create_graph)


def hvp(
    func: Function,
    inputs: Inputs,
    v: Inputs | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The product of the Hessian of a scalar function with a vector: ``H v``, forward over reverse.

    Parameters and results are those of `vhp`, to which it is equal where second derivatives commute.

    Raises
    ------
    RuntimeError
        As for `vhp`.
    """
    single, given = tensors_of("hvp", inputs, "inputs")
    vector = vector_for("hvp", v, given, "input")
    level = duals.enter()
    try:
        xs = dual_inputs(level, [fresh(x, create_graph) for x in given], vector)
        outs = scalar("hvp", *outputs_of("hvp", func, xs, strict))
        slopes = gradients(outs, xs, [None], create_graph or strict)
        slopes = filled("hvp", slopes, xs, strict, strict)
        found = [duals.tangent_of(slope, level) for slope in slopes]
        products = [zeros_for(x) if t is None else t for x, t in zip(xs, found)]
    finally:
        duals.leave()
    return packed(outs, True, create_graph), packed(products, single, create_graph)


# ---- matrices ----------------------------------------------------------------------------------


def jacobian(
    func: Function,
    inputs: Inputs,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: Strategy = "reverse-mode",
) -> Any:
    """The Jacobian of `func`.

    Parameters
    ----------
    func : callable
    inputs : Tensor or tuple of Tensor
    create_graph : bool, default False
        Record, so that the result can be differentiated.
    strict : bool, default False
    vectorize : bool, default False
        Accepted for PyTorch's sake: rows are computed one after the other either way.
    strategy : {"reverse-mode", "forward-mode"}
        By rows, one per element of the outputs, or by columns, one per element of the inputs.

    Returns
    -------
    Tensor or tuple
        Of shape ``(*output.shape, *input.shape)``; for a tuple of inputs a tuple, for a tuple of outputs
        a tuple of these.

    Raises
    ------
    RuntimeError
        With `strict`, an output is independent of an input.
    ValueError
        The strategy is neither of the two.
    TypeError
        An input or output is no Tensor.
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(
            f"jacobian(): strategy is 'reverse-mode' or 'forward-mode', got {strategy!r}"
        )
    if strict and (vectorize or strategy == "forward-mode"):
        raise RuntimeError(
            "jacobian(): strict=True looks at the graph of each row; use strategy='reverse-mode', vectorize=False"
        )
    if strategy == "forward-mode":
        return _by_columns(func, inputs, create_graph)
    single, xs = own_inputs("jacobian", inputs, create_graph)
    single_out, outs = outputs_of("jacobian", func, xs, strict)
    blocks = [
        _block_row("jacobian", i, out, xs, create_graph, strict) for i, out in enumerate(outs)
    ]
    matrix = [packed(row, single, create_graph) for row in blocks]
    return matrix[0] if single_out else tuple(matrix)


def hessian(
    func: Function,
    inputs: Inputs,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: Strategy = "reverse-mode",
) -> Any:
    """The Hessian of a scalar function.

    Parameters
    ----------
    func : callable
        Returns one Tensor with one element.
    inputs : Tensor or tuple of Tensor
    create_graph, strict, vectorize
        As for `jacobian`.
    outer_jacobian_strategy : {"reverse-mode", "forward-mode"}
        How the gradient is differentiated.

    Returns
    -------
    Tensor or tuple of tuple of Tensor
        ``hessian[i][j]`` has the shape ``(*inputs[i].shape, *inputs[j].shape)``.

    Raises
    ------
    RuntimeError
        `func` is not scalar or, with `strict`, something is independent of an input.
    """
    single, _ = tensors_of("hessian", inputs, "inputs")

    def slope(*xs: Tensor) -> Any:
        own = [fresh(x) for x in xs]
        outs = scalar("hessian", *outputs_of("hessian", func, own, strict))
        found = filled("hessian", gradients(outs, own, [None], True), own, strict, strict)
        return found[0] if single else tuple(found)

    return jacobian(
        slope,
        inputs,
        create_graph=create_graph,
        strict=strict,
        vectorize=vectorize,
        strategy=outer_jacobian_strategy,
    )


def _block_row(
    name: str, i: int, out: Tensor, xs: list[Tensor], create_graph: bool, strict: bool
) -> list[Tensor]:
    """The Jacobians of one output with respect to each input."""
    blocks = []
    for j, (parts, x) in enumerate(zip(rows(out, xs, create_graph), xs)):
        if strict and parts and any(part is None for part in parts):
            raise RuntimeError(
                f"{name}(): output {i} is independent of input {j}, which strict=True refuses"
            )
        if strict and create_graph and not all(part.requires_grad for part in parts):
            raise RuntimeError(
                f"{name}(): the derivative of output {i} by input {j} is independent of the inputs, which "
                "strict=True refuses when create_graph=True"
            )
        blocks.append(assemble(parts, out, x))
    return blocks


def _by_columns(func: Function, inputs: Inputs, create_graph: bool) -> Any:
    """The Jacobian by forward mode."""
    single, given = tensors_of("jacobian", inputs, "inputs")
    xs = [fresh(x) if create_graph else bare(x) for x in given]
    single_out, outs = outputs_of("jacobian", func, xs, False)
    found: list[list[list[Tensor | None]]] = [[[] for _ in xs] for _ in outs]
    for j, x in enumerate(xs):
        for unit in units(x):
            level = duals.enter()
            try:
                moved = list(xs)
                moved[j] = dual_inputs(level, [x], [unit])[0]
                outs = outputs_of("jacobian", func, moved, False)[1]
                for row, out in zip(found, outs):
                    row[j].append(duals.tangent_of(out, level))
            finally:
                duals.leave()
    matrix = [
        packed([columns(parts, out, x) for parts, x in zip(row, xs)], single, create_graph)
        for row, out in zip(found, outs)
    ]
    return matrix[0] if single_out else tuple(matrix)
