"""Transforms by backward passes: gradients, products with the transposed Jacobian, Jacobians by rows."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from plugrad.autograd.jacobians import assemble, bare, fresh, gradients, rows, zeros_for
from plugrad.func.scope import (
    Argnums,
    Function,
    chosen,
    leads_outside,
    nested,
    result_of,
    transform,
)
from plugrad.func.trees import flatten, map_leaves, rebuild, same_form
from plugrad.graph.grad_mode import enable_grad, is_grad_enabled
from plugrad.graph.tensor import Tensor

__all__ = ["grad", "hessian", "jacrev", "value_and_grad", "vjp"]


class _Call:
    """A function called on arguments of its own, some of which are differentiated.

    Attributes
    ----------
    trees : list
        The differentiated arguments as the function got them.
    leaves : list of Tensor
        Their Tensors.
    out : tree
        What the function returned.
    aux : Any
    outer : bool
        Whether derivatives must be recorded.
    """

    def __init__(
        self,
        name: str,
        function: Function,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        places: list[int],
        has_aux: bool,
    ) -> None:
        recording = is_grad_enabled()
        values = list(args)
        for i in places:
            flatten(args[i], f"{name}(): argument {i}")
            values[i] = map_leaves(lambda t: fresh(t, recording), args[i])
        self.trees = [values[i] for i in places]
        self.leaves = flatten(self.trees, name)
        for leaf in self.leaves:
            if not leaf.requires_grad:
                raise TypeError(
                    f"{name}(): differentiated arguments are Tensors of a floating or complex dtype, got {leaf.dtype}"
                )
        with transform() as inside, enable_grad():
            self.out, self.aux = result_of(name, function(*values, **kwargs), has_aux)
        self.outputs = flatten(self.out, name)
        self.outer = recording and (inside or leads_outside(self.outputs, self.leaves))
        self._apart = not inside

    def released(self, tree: Any) -> Any:
        """A tree of results: without their graph where it leads nowhere but to the function's own arguments."""
        if not self._apart:
            return tree
        found = {id(out) for out in self.outputs} if not self.outer else set()

        def release(t: Tensor) -> Tensor:
            if t.requires_grad and (id(t) in found or not leads_outside([t], self.leaves)):
                return bare(t)
            return t

        return map_leaves(release, tree)

    def gradients(
        self, seeds: Sequence[Tensor | None], create_graph: bool, keep: bool
    ) -> list[Tensor]:
        """The gradients of the leaves, zeros where nothing flows."""
        found = gradients(self.outputs, self.leaves, seeds, create_graph, keep or create_graph)
        return [zeros_for(x) if g is None else g for g, x in zip(found, self.leaves)]

    def packed(self, leaves: list[Any], argnums: Argnums) -> Any:
        """One tree per differentiated argument; for a single position the tree itself."""
        trees = rebuild(self.trees, leaves)
        return trees[0] if isinstance(argnums, int) else tuple(trees)


def value_and_grad(function: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """A function that gives the value of a scalar function and its gradient.

    Parameters
    ----------
    function : callable
        Returns a 0-d Tensor or, with `has_aux`, a pair of one and anything else.
    argnums : int or tuple of int, default 0
        The positional arguments to differentiate by; each is a tree of Tensors.
    has_aux : bool, default False

    Returns
    -------
    callable
        Takes what `function` takes and returns ``(value, gradient)``, with `has_aux`
        ``((value, aux), gradient)``. The gradient has the form of the argument, or is a tuple of such.

    Raises
    ------
    RuntimeError
        When called: the function's result is no 0-d Tensor.
    TypeError, ValueError
        When called: an argument is no tree of floating Tensors, or `argnums` names none.

    Examples
    --------
    >>> value_and_grad(lambda x: (x * x).sum())(plugrad.tensor([1.0, 2.0]))
    (tensor(5.), tensor([2., 4.]))
    """
    return _value_and_grad("value_and_grad", function, argnums, has_aux)


def _value_and_grad(name: str, function: Function, argnums: Argnums, has_aux: bool) -> Function:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        call = _Call(name, function, args, kwargs, chosen(name, args, argnums), has_aux)
        if not isinstance(call.out, Tensor) or call.out.shape != ():
            got = (
                f"shape {call.out.shape}"
                if isinstance(call.out, Tensor)
                else type(call.out).__name__
            )
            raise RuntimeError(f"{name}(): the function must return a 0-d Tensor, got {got}")
        found = call.packed(call.gradients([None], call.outer, False), argnums)
        value = call.released(call.out)
        return ((value, call.released(call.aux)) if has_aux else value), found

    return wrapper


def grad(function: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """A function that gives the gradient of a scalar function.

    Parameters and errors are those of `value_and_grad`; the result is the gradient alone, with `has_aux`
    ``(gradient, aux)``.

    Examples
    --------
    >>> grad(grad(lambda x: x**3))(plugrad.tensor(2.0))
    tensor(12.)
    """
    both = _value_and_grad("grad", function, argnums, has_aux)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return wrapper


def vjp(function: Function, *primals: Any, has_aux: bool = False) -> Any:
    """The value of a function and its product with a vector from the left.

    Parameters
    ----------
    function : callable
        Returns a tree of Tensors, with `has_aux` a pair of one and anything else.
    *primals : trees of Tensors
    has_aux : bool, default False

    Returns
    -------
    output : tree
    vjp_fn : callable
        ``vjp_fn(cotangents)``, of the form of the output, returns a tuple with one tree per primal. It
        may be called several times.
    aux : Any
        With `has_aux` only.

    Raises
    ------
    TypeError
        A primal or the result is no tree of Tensors.
    RuntimeError
        In `vjp_fn`: the cotangents have another form or shape than the output.
    """
    call = _Call("vjp", function, primals, {}, list(range(len(primals))), has_aux)

    def vjp_fn(cotangents: Any) -> tuple[Any, ...]:
        if not same_form(cotangents, call.out):
            raise RuntimeError(
                "vjp_fn(): the cotangents must have the form of the function's result"
            )
        seeds = flatten(cotangents, "vjp_fn(): cotangents")
        for seed, out in zip(seeds, call.outputs):
            if seed.shape != out.shape:
                raise RuntimeError(
                    f"vjp_fn(): a cotangent has shape {seed.shape} for an output of shape {out.shape}"
                )
        outer = call.outer or nested() or any(seed.requires_grad for seed in seeds)
        found = call.gradients(seeds, outer and is_grad_enabled(), True)
        return tuple(rebuild(call.trees, found))

    out = call.released(call.out)
    return (out, vjp_fn, call.released(call.aux)) if has_aux else (out, vjp_fn)


def jacrev(function: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """A function that gives the Jacobian by rows: one backward pass per element of the result.

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
        Returns, in place of each Tensor of the result, a tree of the form of the argument (or a tuple of
        such) with blocks of shape ``(*output.shape, *argument.shape)``; with `has_aux` a pair with aux.

    Raises
    ------
    TypeError, ValueError
        When called: as for `grad`.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        call = _Call("jacrev", function, args, kwargs, chosen("jacrev", args, argnums), has_aux)
        blocks = []
        for out in call.outputs:
            parts = rows(out, call.leaves, call.outer)
            block = [assemble(part, out, x) for part, x in zip(parts, call.leaves)]
            blocks.append(call.packed(block, argnums))
        found = rebuild(call.out, blocks)
        return (found, call.released(call.aux)) if has_aux else found

    return wrapper


def hessian(function: Function, argnums: Argnums = 0) -> Function:
    """A function that gives the Hessian: the Jacobian of the Jacobian.

    Both by rows, so that the function itself runs once.

    Parameters
    ----------
    function : callable
    argnums : int or tuple of int, default 0

    Returns
    -------
    callable
        Returns blocks of shape ``(*output.shape, *argument.shape, *argument.shape)``, in trees as `jacrev`
        of `jacrev` gives them.
    """
    return jacrev(jacrev(function, argnums), argnums)
