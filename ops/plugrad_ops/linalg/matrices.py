"""What operators of matrices share: their shapes, transposes, and what is said of the ones that cannot be worked on."""

import numpy as np

from plugrad import Tensor, eye, ops
from plugrad.linalg import LinAlgError
from plugrad_ops.linalg.blocks import wide

__all__ = [
    "NOT_CONVERGED",
    "SINGULAR",
    "attempt",
    "check_matrix",
    "check_square",
    "identity_like",
    "iterated",
    "leading",
    "require_success",
    "symmetric_part",
    "transposed",
    "wide",
]


SINGULAR = "the matrix is singular: its pivot {info} is zero"

NOT_CONVERGED = (
    "the iteration did not converge: the matrix holds infinities or NaN, or is too ill-conditioned"
)


def check_matrix(name, shape):
    """Raise RuntimeError unless there are two dimensions."""
    if len(shape) < 2:
        raise RuntimeError(
            f"{name}: expected a matrix or a stack of them, got shape {tuple(shape)}"
        )


def check_square(name, shape):
    """Raise RuntimeError unless the last two dimensions are equal."""
    check_matrix(name, shape)
    if shape[-1] != shape[-2]:
        raise RuntimeError(f"{name}: the matrices must be square, got shape {tuple(shape)}")


def transposed(x):
    """The matrices transposed."""
    return ops.transpose(x, dim0=-2, dim1=-1)


def leading(x, dim, length):
    """The first `length` of a dimension: `x` itself where there are no more."""
    return x if x.shape[dim] == length else ops.narrow(x, dim, 0, length)


def symmetric_part(array):
    """``(A + A.T) / 2`` of arrays: A itself where it is symmetric.

    What LAPACK does with symmetric matrices reads one triangle of them. A function of that triangle alone would have a
    gradient that is zero in the other one; this one has the symmetric gradient, as PyTorch gives it.
    """
    return (array + array.swapaxes(-1, -2)) / 2


def identity_like(x, n):
    """The n × n identity in the dtype and on the device of `x`."""
    return eye(n, dtype=x.dtype, device=x.device)


# ---- failures ------------------------------------------------------------------------------------------------


def attempt(function, failed, *arrays):
    """``function(*arrays)`` of stacks of matrices, and which of them failed, as int32.

    Parameters
    ----------
    function : callable
        Raises `numpy.linalg.LinAlgError` if it fails for any matrix of the stack.
    failed : callable
        ``failed(*matrices)`` is the number, not 0, that says how one matrix fails; its result becomes NaN.
    *arrays : ndarray
        Stacks with one number of matrices or, with two dimensions, one for all.
    """
    batch = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
    info = np.zeros(batch, np.int32)
    try:
        return function(*arrays), info
    except np.linalg.LinAlgError:
        pass
    arrays = [np.broadcast_to(a, (*batch, *a.shape[-2:])) for a in arrays]
    out = None
    for at in np.ndindex(*batch):
        matrices = [a[at] for a in arrays]
        try:
            found = function(*matrices)
        except np.linalg.LinAlgError:
            found, info[at] = np.full_like(matrices[-1], np.nan), failed(*matrices)
        if out is None:
            out = np.empty((*batch, *found.shape), found.dtype)
        out[at] = found
    return out, info


def iterated(name, function, array, **options):
    """``function(array)``, which LAPACK computes by iteration: from NaN it may make numbers that look like a result.

    Raises
    ------
    plugrad.linalg.LinAlgError
        A matrix is not finite, or the iteration did not end.
    """
    if not np.isfinite(array).all():
        require_success(name, ~np.isfinite(array).all((-1, -2)), NOT_CONVERGED)
    try:
        return function(array, **options)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"{name}: {error}") from None


def require_success(name, info, what):
    """Raise LinAlgError, with the first element of the batch for which `info` is not 0; waits for a device.

    Parameters
    ----------
    name : str
    info : Tensor or ndarray of integers or bools
    what : str
        What is wrong with such a matrix; ``{info}`` stands for its number.
    """
    found = np.asarray(info.to(device="cpu").numpy() if isinstance(info, Tensor) else info)
    if not found.any():
        return
    at = tuple(int(i) for i in np.argwhere(found)[0])
    where = f"batch element {at[0] if len(at) == 1 else at}: " if at else ""
    raise LinAlgError(f"{name}: {where}{what.format(info=int(found[at]))}")
