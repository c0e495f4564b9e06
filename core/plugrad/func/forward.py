"""Transforms by forward mode: products with the Jacobian, Jacobians by columns."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from plugrad.autograd.jacobians import bare, columns, units, zeros_for
from plugrad.backends.dtypes import kind
from plugrad.func.scope import Argnums, Function, chosen, leads_outside, result_of, transform
from plugrad.func.trees import flatten, map_leaves, rebuild, same_form
from plugrad.graph import duals, roles
from plugrad.graph.tensor import Tensor

__all__ = ["jacfwd", "jvp"]


def jvp(
    function: Function, primals: tuple[Any, ...], tangents: tuple[Any, ...], has_aux: bool = False
) -> Any:
    """The value of a function and its product with a vector from the right.

    Parameters
    ----------
    function : callable
        Returns a tree of Tensors, with `has_aux` a pair of one and anything else.
    primals, tangents : tuple
        The arguments, each a tree of Tensors, and their tangents in the same form.
    has_aux : bool, default False

    Returns
    -------
    output, tangent : tree
        Of the same form.
    aux : Any
        With `has_aux` only.

    Raises
    ------
    TypeError
        A primal or the result is no tree of Tensors.
    RuntimeError
        Primals and tangents differ in form, shape, dtype or device.

    Examples
    --------
    >>> jvp(lambda x: x * x, (plugrad.tensor(3.0),), (plugrad.tensor(1.0),))
    (tensor(9.), tensor(6.))
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError("jvp(): primals and tangents are tuples, with one entry per argument")
    primals, tangents = tuple(primals), tuple(tangents)
    if not same_form(primals, tangents):
        raise RuntimeError("jvp(): the tangents must have the form of the primals")
    leaves = flatten(primals, "jvp(): primals")
    vectors = flatten(tangents, "jvp(): tangents")
    for x, v in zip(leaves, vectors):
        if kind(x.dtype) not in "fc":
            raise TypeError(
                f"jvp(): primals are Tensors of a floating or complex dtype, got {x.dtype}"
            )
        if v.shape != x.shape or v.dtype != x.dtype:
            raise RuntimeError(
                f"jvp(): a tangent has shape {v.shape} and dtype {v.dtype}, its primal {x.shape} and {x.dtype}"
            )
        if v.device != x.device:
            raise RuntimeError(
                f"jvp(): a tangent is on device {v.device!r}, its primal on {x.device!r}"
            )
    out, aux, found, inside = _pushed(
        "jvp", lambda moved: function(*rebuild(primals, moved)), leaves, vectors, has_aux
    )
    outputs = flatten(out, "jvp()")
    tangent = rebuild(out, [zeros_for(y) if t is None else t for y, t in zip(outputs, found)])
    out, tangent = _released(out, inside), _released(tangent, inside)
    return (out, tangent, _released(aux, inside)) if has_aux else (out, tangent)


def jacfwd(function: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """A function that gives the Jacobian by columns: one call per element of the arguments.

    Parameters
    ----------
    function : callable
        Returns a tree of Tensors, with `has_aux` a pair of one and anything else.
    argnums : int or tuple of int, default 0
        The positional arguments to differentiate by; each is a tree of Tensors.
    has_aux : bool, default False

    Returns
    -------
    callable
        Its results are those of `jacrev`.

    Raises
    ------
    TypeError, ValueError
        When called: as for `grad`.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        places = chosen("jacfwd", args, argnums)
        trees = [args[i] for i in places]
        leaves = flatten(trees, "jacfwd(): arguments")

        def at(moved: list[Tensor]) -> Any:
            values = list(args)
            for i, tree in zip(places, rebuild(trees, moved)):
                values[i] = tree
            return function(*values, **kwargs)

        out, aux, _, inside = _pushed("jacfwd", at, leaves, [None] * len(leaves), has_aux)
        outputs = flatten(out, "jacfwd()")
        parts: list[list[list[Tensor | None]]] = [[[] for _ in leaves] for _ in outputs]
        for j, x in enumerate(leaves):
            if kind(x.dtype) not in "fc":
                raise TypeError(
                    f"jacfwd(): differentiated arguments are Tensors of a floating or complex dtype, got {x.dtype}"
                )
            for unit in units(x):
                vectors = [unit if k == j else None for k in range(len(leaves))]
                found = _pushed("jacfwd", at, leaves, vectors, has_aux)[2]
                for row, tangent in zip(parts, found):
                    row[j].append(tangent)
        blocks = []
        for y, row in zip(outputs, parts):
            block = rebuild(trees, [columns(part, y, x) for part, x in zip(row, leaves)])
            blocks.append(block[0] if isinstance(argnums, int) else tuple(block))
        jacobian = _released(rebuild(out, blocks), inside)
        return (jacobian, _released(aux, inside)) if has_aux else jacobian

    return wrapper


def _pushed(
    name: str,
    function: Callable[[list[Tensor]], Any],
    leaves: list[Tensor],
    vectors: list[Any],
    has_aux: bool,
) -> tuple[Any, Any, list[Tensor | None], bool]:
    """Result, aux and tangents of a function of Tensors, and whether another transform is around."""
    with transform() as inside:
        level = duals.enter()
        try:
            moved = []
            for x, v in zip(leaves, vectors):
                with duals.below(level):
                    moved.append(roles.call("copy", x))
                if v is not None:
                    duals.attach(moved[-1], level, v)
            out, aux = result_of(name, function(moved), has_aux)
            found = [duals.tangent_of(y, level) for y in flatten(out, name)]
        finally:
            duals.leave()
    return out, aux, found, inside


def _released(tree: Any, inside: bool) -> Any:
    """Results without their graph where it leads to nothing that the caller can see."""
    if inside:
        return tree
    return map_leaves(
        lambda t: bare(t) if t.requires_grad and not leads_outside([t], ()) else t, tree
    )
