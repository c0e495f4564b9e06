"""Distances and similarities of vectors."""

import numpy as np

from plugrad import Tensor, composite, ops


@composite("standard::pairwise_distance")
def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The `p`-norm of ``x1 - x2 + eps`` over the last dimension; the two broadcast.

    `eps` keeps the distance from points that coincide off 0.
    """
    return ops.norm(x1 - x2 + eps, p=p, dim=-1, keepdim=keepdim)


@pairwise_distance.samples
def _(make):
    yield make.call(make.normal(2, 3), make.normal(2, 3))
    yield make.call(make.normal(2, 3), make.normal(3), 1.0, keepdim=True)
    yield make.call(make.normal(3), make.normal(3), p=3.0)
    yield make.call(make.normal(0, 3), make.normal(0, 3))
    yield make.error(RuntimeError, "broadcast", make.normal(2, 3), make.normal(2))


@composite("standard::cosine_similarity")
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """The cosine of the angle between vectors along `dim`; the two broadcast.

    A vector whose norm does not exceed `eps` has the cosine 0, with the gradient 0.
    """
    try:
        shape = np.broadcast_shapes(x1.shape, x2.shape)
    except ValueError:
        raise RuntimeError(
            f"cosine_similarity: shapes {x1.shape} and {x2.shape} do not broadcast"
        ) from None
    sides = (x if x.shape == shape else ops.expand(x, size=shape) for x in (x1, x2))
    unit1, unit2 = (ops.normalize(x, p=2.0, dim=dim, eps=eps) for x in sides)
    return ops.sum(unit1 * unit2, dim=dim)


@cosine_similarity.samples
def _(make):
    yield make.call(make.normal(2, 3), make.normal(2, 3))
    yield make.call(make.normal(2, 3), make.normal(3), dim=-1)
    yield make.call(make.normal(3, 1), make.normal(3, 2), dim=0)
    yield make.call(make.normal(0, 3), make.normal(0, 3))
    yield make.error(RuntimeError, "broadcast", make.normal(2, 3), make.normal(2))


@composite("standard::cdist")
def cdist(x1, x2, p=2.0, compute_mode=None):
    """The `p`-norm of the difference of each row of `x1`, (…, n, d), and each of `x2`, (…, m, d): (…, n, m).

    `compute_mode` is accepted and changes nothing: differences are always formed, which loses no digits.

    Raises
    ------
    RuntimeError
        There are less than two dimensions, rows of different lengths, or `p` is negative.
    """
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"cdist: expected matrices (…, n, d) and (…, m, d), got shapes {x1.shape} and {x2.shape}"
        )
    if p < 0:
        raise RuntimeError(f"cdist: p must be at least 0, got {p}")
    differences = ops.unsqueeze(x1, dim=-2) - ops.unsqueeze(x2, dim=-3)
    if not x1.shape[-1]:
        return ops.sum(differences, dim=-1)
    return ops.norm(differences, p=p, dim=-1)


@cdist.samples
def _(make):
    yield make.call(make.normal(2, 3), make.normal(4, 3))
    yield make.call(make.normal(2, 1, 2, 3), make.normal(3, 1, 3), 1.0)
    yield make.call(make.normal(0, 2), make.normal(3, 2))
    yield make.error(RuntimeError, "expected matrices", make.normal(2, 3), make.normal(2, 2))


@composite("standard::pdist")
def pdist(input, p=2.0):
    """The `p`-norms of the differences of each two rows, in the order (0, 1), (0, 2), …, (1, 2), ….

    Raises
    ------
    RuntimeError
        `input` is no matrix, or `p` is negative.
    """
    if input.ndim != 2:
        raise RuntimeError(f"pdist: input must be 2-d, got shape {input.shape}")
    if p < 0:
        raise RuntimeError(f"pdist: p must be at least 0, got {p}")
    pairs = np.triu_indices(input.shape[0], 1)
    first, second = (Tensor(rows.astype(np.int64)).to(input.device) for rows in pairs)
    differences = ops.index_select(input, 0, first) - ops.index_select(input, 0, second)
    return ops.norm(differences, p=p, dim=-1)


@pdist.samples
def _(make):
    yield make.call(make.normal(4, 3))
    yield make.call(make.normal(3, 2), p=1.0)
    yield make.call(make.normal(1, 3))
    yield make.error(RuntimeError, "2-d", make.normal(3))
