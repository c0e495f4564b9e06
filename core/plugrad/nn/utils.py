"""Clipping of gradients, under PyTorch's names."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from plugrad.graph.backend import backend_named
from plugrad.graph.inplace import increment_version
from plugrad.graph.tensor import Tensor
from plugrad.optim.kernels import kernels_for

__all__ = ["clip_grad_norm_", "clip_grad_value_", "get_total_norm"]


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients in place so that their norm, taken together, does not exceed `max_norm`.

    Squares neither overflow nor vanish, so gradients whose norm is in range are clipped right.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Those without a gradient are left out.
    max_norm : float
    norm_type : float
        p of the p-norm; ``inf`` for the greatest size.
    error_if_nonfinite : bool
        Raise, with the gradients untouched, if the norm is inf or NaN. Otherwise the gradients are
        multiplied by 0 or NaN then.
    foreach : bool, optional
        Accepted for PyTorch's sake.

    Returns
    -------
    Tensor
        The norm before clipping, 0-d.

    Raises
    ------
    RuntimeError
        See `error_if_nonfinite`.
    """
    grads = _grads_of(parameters)
    norm = _total_norm(grads, float(norm_type))
    if error_if_nonfinite:
        _require_finite(norm, norm_type)
    factor = float(max_norm) / (norm + 1e-6)
    if not factor >= 1.0:  # NaN is not
        for grad in grads:
            kernels_for(grad.device).multiply(grad.array, factor)
            increment_version(grad)
    return _as_tensor(norm, grads)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Move every element of the gradients into ``[-clip_value, clip_value]``, in place."""
    bound = float(clip_value)
    for grad in _grads_of(parameters):
        kernels_for(grad.device).clamp(grad.array, bound)
        increment_version(grad)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all elements of all tensors, 0-d; without overflow on the way to it.

    Raises
    ------
    RuntimeError
        It is inf or NaN and `error_if_nonfinite` is set.
    """
    given = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norm = _total_norm(given, float(norm_type))
    if error_if_nonfinite:
        _require_finite(norm, norm_type)
    return _as_tensor(norm, given)


def _grads_of(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p.grad for p in given if p.grad is not None]


def _as_tensor(norm: float, tensors: list[Tensor]) -> Tensor:
    """The norm as a tensor, on the device of the first of those it is the norm of."""
    backend = backend_named(tensors[0].device if tensors else "cpu")
    dtype = backend.result_dtype([t.dtype for t in tensors], [], True)
    with np.errstate(over="ignore"):
        found = np.asarray(norm, np.finfo(dtype).dtype if dtype.kind == "c" else dtype)
    return Tensor(backend.from_numpy(found))


def _require_finite(norm: float, norm_type: float) -> None:
    if not math.isfinite(norm):
        raise RuntimeError(
            f"the norm (p = {norm_type}) of the gradients is {norm}; they were not clipped. "
            "error_if_nonfinite=False would go on"
        )


def _total_norm(tensors: list[Tensor], p: float) -> float:
    """The p-norm of all elements; float64 holds it even where the dtype of the tensors does not."""
    arrays = defaultdict(list)
    for tensor in tensors:
        arrays[tensor.device].append(tensor.array)
    norms = [norm for device, own in arrays.items() for norm in kernels_for(device).norms(own, p)]
    return kernels_for("cpu").norms([np.array(norms)], p)[0] if norms else 0.0
