"""Clipping of gradients, under PyTorch's names."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from plugrad.graph.inplace import increment_version
from plugrad.graph.tensor import Tensor

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
    norm = _total_norm([grad.array for grad in grads], float(norm_type))
    if error_if_nonfinite:
        _require_finite(norm, norm_type)
    factor = float(max_norm) / (norm + 1e-6)
    if not factor >= 1.0:  # NaN is not
        for grad in grads:
            _multiply(grad.array, factor)
            increment_version(grad)
    return _as_tensor(norm, grads)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Move every element of the gradients into ``[-clip_value, clip_value]``, in place."""
    bound = float(clip_value)
    for grad in _grads_of(parameters):
        np.clip(grad.array, -bound, bound, out=grad.array)
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
    norm = _total_norm([tensor.array for tensor in given], float(norm_type))
    if error_if_nonfinite:
        _require_finite(norm, norm_type)
    return _as_tensor(norm, given)


def _grads_of(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p.grad for p in given if p.grad is not None]


def _as_tensor(norm: float, tensors: list[Tensor]) -> Tensor:
    dtype = np.result_type(*(t.dtype for t in tensors)) if tensors else np.dtype(np.float32)
    with np.errstate(over="ignore"):
        return Tensor(np.asarray(norm, np.finfo(dtype).dtype))


def _require_finite(norm: float, norm_type: float) -> None:
    if not math.isfinite(norm):
        raise RuntimeError(
            f"the norm (p = {norm_type}) of the gradients is {norm}; they were not clipped. "
            "error_if_nonfinite=False would go on"
        )


def _total_norm(arrays: list[np.ndarray], p: float) -> float:
    """The p-norm of all elements; float64 holds it even where the dtype of the arrays does not."""
    norms = np.array([_norm(array, p) for array in arrays])
    return _norm(norms, p) if norms.size else 0.0


def _norm(array: np.ndarray, p: float) -> float:
    with np.errstate(all="ignore"):
        if p == 2 and array.dtype in (np.float64, np.float32):
            found = float(np.linalg.norm(array.ravel(), p))
            # Squares that neither overflowed nor vanished: that was it.
            if 1e-15 < found < 1e15:
                return found
        size = np.abs(array)
        top = float(size.max(initial=0.0))
        if p == math.inf or not math.isfinite(top) or top == 0:
            return top
        return top * float(np.linalg.norm((size / top).ravel().astype(np.float64), p))


def _multiply(array: np.ndarray, factor: float) -> None:
    with np.errstate(all="ignore"):
        if array.dtype.kind == "f" and 0 < factor < 1e-30:  # the dtype may hold no such number
            np.multiply(array, factor, out=array, dtype=np.float64, casting="same_kind")
        else:
            array *= factor
