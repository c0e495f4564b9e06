"""The same elements in other places, or several times: rolled, rotated, mirrored, repeated."""

import numpy as np

from plugrad import composite, from_numpy, operator, ops
from plugrad_ops.shape.copies import owned
from plugrad_ops.shape.dims import as_size, normalize_dim

# ---- roll ----------------------------------------------------------------------------------------------------


def rolled(name, shape, shifts, dims):
    """Pairs (dimension, shift), the shift between 0 and the dimension's length; shifts of one dimension add up.

    Raises
    ------
    RuntimeError
        There are not as many shifts as dimensions, or none.
    """
    shifts, dims = as_size(name, shifts, "shifts"), as_size(name, dims, "dims")
    if not shifts or len(shifts) != len(dims):
        raise RuntimeError(
            f"{name}: expected as many shifts as dims, at least one, got shifts {shifts} and dims {dims}"
        )
    total = {}
    for shift, dim in zip(shifts, dims):
        axis = normalize_dim(name, dim, len(shape))
        total[axis] = total.get(axis, 0) + shift
    if not shape:
        return []
    return [(axis, shift % max(shape[axis], 1)) for axis, shift in sorted(total.items())]


def _roll_meta(input, *, shifts, dims):
    rolled("roll", input.shape, shifts, dims)
    return input.shape, input.dtype


@operator("standard::roll_dims", dtypes="any", infer=_roll_meta, cuda=".cuda:roll_dims")
def roll_dims(input, *, shifts, dims):
    """Every element `shifts` places further along `dims`; what leaves at the end enters at the beginning."""
    pairs = rolled("roll_dims", input.shape, shifts, dims)
    if not pairs:
        return input.copy()
    return np.roll(input, [shift for _, shift in pairs], [axis for axis, _ in pairs])


@roll_dims.backward
def _(grad, shifts, dims):
    return ops.roll_dims(grad, tuple(-n for n in as_size("roll", shifts, "shifts")), dims)


@roll_dims.samples
def _(make):
    yield make.call(make.normal(4), shifts=1, dims=0)
    yield make.call(make.normal(2, 3), shifts=(1, -1), dims=(0, -1))
    yield make.call(make.normal(5), shifts=(1, 2), dims=(0, 0))
    yield make.call(make.normal(), shifts=2, dims=0)
    yield make.call(make.normal(0, 2), shifts=3, dims=0)
    yield make.error(RuntimeError, "as many", make.normal(2, 3), shifts=(1, 2), dims=0)
    yield make.error(IndexError, "out of range", make.normal(2, 3), shifts=1, dims=2)


@composite("standard::roll", method=True)
def roll(input, shifts, dims=None):
    """Every element `shifts` places further along `dims`, or in the flattened tensor; what leaves at one end enters at the
    other.

    Raises
    ------
    RuntimeError
        There are not as many shifts as dimensions.
    """
    if dims is None or dims in ((), []):
        if len(as_size("roll", shifts, "shifts")) != 1:
            raise RuntimeError(f"roll: expected one shift without dims, got {shifts}")
        flat = ops.reshape(input, (input.numel(),))
        return ops.reshape(ops.roll_dims(flat, shifts, 0), input.shape)
    return ops.roll_dims(input, shifts, dims)


@roll.samples
def _(make):
    yield make.call(make.normal(2, 3), 2)
    yield make.call(make.normal(2, 3), -1, 1)
    yield make.call(make.normal(2, 3), (1, 1), (1, 0))
    yield make.call(make.normal(0, 3), 1)
    yield make.error(RuntimeError, "as many", make.normal(2), (1, 1), (0,))


# ---- mirrored and rotated ------------------------------------------------------------------------------------


@composite("standard::fliplr", method=True)
def fliplr(input):
    """A copy with the order of dimension 1 reversed."""
    if input.ndim < 2:
        raise RuntimeError(f"fliplr: expected at least 2 dimensions, got shape {input.shape}")
    return ops.flip(input, (1,))


@fliplr.samples
def _(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal(2, 3, 2))
    yield make.call(make.normal(0, 3))
    yield make.error(RuntimeError, "at least 2", make.normal(3))


@composite("standard::flipud", method=True)
def flipud(input):
    """A copy with the order of dimension 0 reversed."""
    if not input.ndim:
        raise RuntimeError("flipud: expected at least 1 dimension, got a 0-d tensor")
    return ops.flip(input, (0,))


@flipud.samples
def _(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal(3))
    yield make.call(make.normal(0, 3))
    yield make.error(RuntimeError, "at least 1", make.normal())


@composite("standard::rot90", method=True)
def rot90(input, k=1, dims=(0, 1)):
    """A copy rotated `k` times by 90 degrees in the plane of two dimensions, from the first towards the second.

    Raises
    ------
    RuntimeError
        `dims` are not two different dimensions.
    """
    if not isinstance(dims, tuple | list) or len(dims) != 2:
        raise RuntimeError(f"rot90: expected two dims, got {dims}")
    first, second = (normalize_dim("rot90", d, input.ndim) for d in dims)
    if first == second or input.ndim < 2:
        raise RuntimeError(
            f"rot90: expected two different dims of at least two, got {dims} for shape {input.shape}"
        )
    turns = k % 4
    if turns == 0:
        return ops.clone(input)
    if turns == 2:
        return ops.flip(input, (first, second))
    turned = ops.flip(input, (second if turns == 1 else first,))
    return ops.transpose(turned, dim0=first, dim1=second)


@rot90.samples
def _(make):
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal(2, 3), 2)
    yield make.call(make.normal(2, 3, 2), -1, (0, 2))
    yield make.call(make.normal(0, 3), 4)
    yield make.error(RuntimeError, "different", make.normal(2, 3), 1, (0, 0))


# ---- repeated ------------------------------------------------------------------------------------------------


@composite("standard::repeat_interleave", method=True)
def repeat_interleave(input, repeats=None, dim=None, *, output_size=None):
    """Every element of dimension `dim`, or of the flattened tensor, several times in a row.

    Parameters
    ----------
    repeats : int or Tensor
        How often; a tensor of integers, 0-d, of one element or of one per element of the dimension. Without it, `input` is
        `repeats` itself, and the result the position of each.
    output_size : int, optional
        The length of the result, which is checked.

    Raises
    ------
    RuntimeError
        A count is negative, there are not as many as elements, or `output_size` is not their sum.
    """
    if repeats is None:
        positions = _spread(_counts(input), None, output_size)
        return from_numpy(positions).to(input.device)
    if dim is None:
        input, dim = ops.reshape(input, (input.numel(),)), 0
    dim = normalize_dim("repeat_interleave", dim, input.ndim)
    if not input.ndim:
        input = ops.reshape(input, (1,))
    counts = _counts(repeats)
    n = input.shape[dim]
    if counts.size == 1:
        return _evenly(input, int(counts.ravel()[0]), dim, output_size)
    positions = from_numpy(_spread(counts, n, output_size)).to(input.device)
    return ops.index_select(input, dim, positions)


def _counts(repeats):
    if not hasattr(repeats, "array"):
        return np.asarray(as_size("repeat_interleave", repeats, "repeats"))
    if repeats.dtype.kind not in "iu" or repeats.ndim > 1:
        raise RuntimeError(
            f"repeat_interleave: repeats must be 0-d or 1-d integers, got {repeats.dtype} of shape {repeats.shape}"
        )
    return repeats.detach().cpu().numpy()


def _check_counts(counts, total, output_size):
    if counts.size and counts.min() < 0:
        raise RuntimeError(f"repeat_interleave: repeats cannot be negative, got {counts.min()}")
    if output_size is not None and output_size != total:
        raise RuntimeError(
            f"repeat_interleave: output_size is {output_size}, but the repeats sum to {total}"
        )


def _evenly(input, count, dim, output_size):
    shape = input.shape
    _check_counts(np.asarray(count), count * shape[dim], output_size)
    spread = ops.expand(
        ops.unsqueeze(input, dim=dim + 1), (*shape[: dim + 1], count, *shape[dim + 1 :])
    )
    out = ops.reshape(spread, (*shape[:dim], shape[dim] * count, *shape[dim + 1 :]))
    return owned(out, input)


def _spread(counts, n, output_size):
    """The position of each element of the result."""
    if counts.ndim != 1 or (n is not None and len(counts) != n):
        raise RuntimeError(
            f"repeat_interleave: expected one count, or one for each of {n} elements, got shape {counts.shape}"
        )
    _check_counts(counts, int(counts.sum()), output_size)
    return np.repeat(np.arange(len(counts)), counts)


@repeat_interleave.samples
def _(make):
    yield make.call(make.normal(2, 3), 2)
    yield make.call(make.normal(2, 3), 3, 0)
    yield make.call(make.normal(2, 3), np.array([2, 0, 1]), -1, output_size=3)
    yield make.call(np.array([1, 0, 2]))
    yield make.call(make.normal(0, 3), 2, 1)
    yield make.error(RuntimeError, "one for each of 2", make.normal(2), np.array([1, 2, 3]), 0)
    yield make.error(RuntimeError, "negative", make.normal(2), -1)
