"""Products that are sums and reshapes of `matmul`: outer and inner ones, ones added to a tensor, over chosen dimensions."""

from operator import index

from plugrad import composite, ops
from plugrad_ops.arithmetic.aliases import alias
from plugrad_ops.linalg.ops import _of_rank
from plugrad_ops.shape.dims import normalize_dim, normalize_dims

# ---- of vectors ----------------------------------------------------------------------------------------------


@composite("standard::outer", method=True)
def outer(input, vec2):
    """``out[i, j] = input[i] * vec2[j]``."""
    _of_rank("outer", 1, input, vec2, instead="kron")
    return ops.unsqueeze(input, dim=1) * vec2


@outer.samples
def _(make):
    yield make.call(make.normal(3), make.normal(2))
    yield make.call(make.normal(1), make.normal(1))
    yield make.call(make.normal(0), make.normal(2))
    yield make.error(RuntimeError, "1-d", make.normal(2, 2), make.normal(2))


ger = alias("ger", outer)


@composite("standard::inner", method=True)
def inner(input, other):
    """The sum of products over the last dimension of both; a 0-d tensor is a factor.

    Raises
    ------
    RuntimeError
        The last dimensions differ in length.
    """
    if not input.ndim or not other.ndim:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner: the last dimensions must have one length, got shapes {input.shape} and {other.shape}"
        )
    return ops.tensordot(input, other, dims=([-1], [-1]))


@inner.samples
def _(make):
    yield make.call(make.normal(3), make.normal(3))
    yield make.call(make.normal(2, 3), make.normal(2, 2, 3))
    yield make.call(make.normal(), make.normal(2, 3))
    yield make.call(make.normal(2, 0), make.normal(0))
    yield make.error(RuntimeError, "one length", make.normal(2), make.normal(3))


@composite("standard::vdot", method=True)
def vdot(input, other):
    """The inner product of two vectors, the first one conjugated."""
    _of_rank("vdot", 1, input, other, instead="inner")
    return ops.matmul(input.conj() if input.dtype.kind == "c" else input, other)


@vdot.samples
def _(make):
    yield make.call(make.normal(3), make.normal(3))
    yield make.call(make.normal(1), make.normal(1))
    yield make.call(make.normal(0), make.normal(0))
    yield make.error(RuntimeError, "1-d", make.normal(), make.normal(2))


@composite("standard::linalg_vecdot")
def linalg_vecdot(x, y, dim=-1):
    """The sum of products over `dim`; the shapes broadcast. A complex `x` is conjugated."""
    x = x.conj() if x.dtype.kind == "c" else x
    return ops.sum(x * y, dim=dim)


@linalg_vecdot.samples
def _(make):
    yield make.call(make.normal(2, 3), make.normal(3))
    yield make.call(make.normal(2, 3), make.normal(2, 3), dim=0)
    yield make.call(make.normal(2, 0), make.normal(2, 0))
    yield make.error(IndexError, "out of range", make.normal(2), make.normal(2), dim=1)


@composite("standard::linalg_cross")
def linalg_cross(input, other, dim=-1):
    """The cross product of the vectors along `dim`, of length 3; the other dimensions broadcast.

    Raises
    ------
    RuntimeError
        The numbers of dimensions differ, or `dim` has another length.
    """
    if input.ndim != other.ndim:
        raise RuntimeError(
            f"linalg_cross: the tensors need equally many dimensions, got shapes {input.shape} and {other.shape}"
        )
    dim = normalize_dim("linalg_cross", dim, input.ndim)
    if not input.ndim or input.shape[dim] != 3 or other.shape[dim] != 3:
        raise RuntimeError(
            f"linalg_cross: dimension {dim} must have length 3, got shapes {input.shape} and {other.shape}"
        )
    a, b = _next(input, dim), _next(other, dim)
    return a * _next(b, dim) - _next(a, dim) * b


def _next(x, dim):
    """Element i + 1 of three in the place of element i."""
    return ops.cat([ops.narrow(x, dim, 1, 2), ops.narrow(x, dim, 0, 1)], dim)


@linalg_cross.samples
def _(make):
    yield make.call(make.normal(2, 3), make.normal(1, 3))
    yield make.call(make.normal(3, 2), make.normal(3, 2), dim=0)
    yield make.call(make.normal(0, 3), make.normal(0, 3))
    yield make.error(RuntimeError, "length 3", make.normal(2, 2), make.normal(2, 2))


@composite("standard::cross", method=True)
def cross(input, other, dim=None):
    """The cross product along `dim`; by default the first dimension of length 3."""
    if dim is None:
        lengths = input.shape if input.ndim == other.ndim else ()
        if 3 not in lengths:
            raise RuntimeError(
                f"cross: no dimension has length 3, got shapes {input.shape} and {other.shape}"
            )
        dim = lengths.index(3)
    return ops.linalg_cross(input, other, dim=dim)


@cross.samples
def _(make):
    yield make.call(make.normal(3, 3), make.normal(3, 3))
    yield make.call(make.normal(2, 3), make.normal(2, 3))
    yield make.call(make.normal(3, 0), make.normal(3, 0))
    yield make.error(RuntimeError, "length 3", make.normal(2, 2), make.normal(2, 2))


# ---- added to a tensor ---------------------------------------------------------------------------------------


def _added(name, input, product, beta, alpha):
    """``beta * input + alpha * product``; an `input` that 0 takes out does not matter, even where it is NaN."""
    if (
        any(n not in (1, m) for n, m in zip(input.shape[::-1], product.shape[::-1]))
        or input.ndim > product.ndim
    ):
        raise RuntimeError(
            f"{name}: input must broadcast to the product, of shape {product.shape}, got shape {input.shape}"
        )
    if alpha != 1:
        product = alpha * product
    if beta == 0:
        # Zeros that hang on it, so that its gradient is zeros, too.
        return product + ops.where(False, input, 0)
    return product + (input if beta == 1 else beta * input)


@composite("standard::addmm", method=True)
def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    """``beta * input + alpha * mat1 @ mat2``; `input` broadcasts to the product of the two matrices."""
    _of_rank("addmm", 2, mat1, mat2)
    return _added("addmm", input, ops.matmul(mat1, mat2), beta, alpha)


@addmm.samples
def _(make):
    yield make.call(make.normal(2), make.normal(2, 3), make.normal(3, 2))
    yield make.call(make.normal(2, 2), make.normal(2, 3), make.normal(3, 2), beta=0.5, alpha=2.0)
    yield make.call(make.normal(), make.normal(0, 3), make.normal(3, 2), beta=0)
    yield make.error(RuntimeError, "2-d", make.normal(2), make.normal(3), make.normal(3, 2))
    yield make.error(
        RuntimeError, "must broadcast", make.normal(1, 2, 2), make.normal(2, 3), make.normal(3, 2)
    )


@composite("standard::addmv", method=True)
def addmv(input, mat, vec, *, beta=1, alpha=1):
    """``beta * input + alpha * mat @ vec``, of a matrix and a vector."""
    return _added("addmv", input, ops.mv(mat, vec), beta, alpha)


@addmv.samples
def _(make):
    yield make.call(make.normal(2), make.normal(2, 3), make.normal(3))
    yield make.call(make.normal(1), make.normal(2, 3), make.normal(3), beta=-1, alpha=0.5)
    yield make.call(make.normal(), make.normal(2, 0), make.normal(0))


@composite("standard::addr", method=True)
def addr(input, vec1, vec2, *, beta=1, alpha=1):
    """``beta * input + alpha * outer(vec1, vec2)``."""
    return _added("addr", input, ops.outer(vec1, vec2), beta, alpha)


@addr.samples
def _(make):
    yield make.call(make.normal(2, 3), make.normal(2), make.normal(3))
    yield make.call(make.normal(3), make.normal(2), make.normal(3), beta=2.0, alpha=-1.0)
    yield make.call(make.normal(), make.normal(0), make.normal(3))


@composite("standard::baddbmm", method=True)
def baddbmm(input, batch1, batch2, *, beta=1, alpha=1):
    """``beta * input + alpha * bmm(batch1, batch2)``."""
    return _added("baddbmm", input, ops.bmm(batch1, batch2), beta, alpha)


@baddbmm.samples
def _(make):
    yield make.call(make.normal(2, 2, 2), make.normal(2, 2, 3), make.normal(2, 3, 2))
    yield make.call(make.normal(2), make.normal(2, 1, 3), make.normal(2, 3, 2), beta=0.5, alpha=3.0)
    yield make.call(make.normal(), make.normal(0, 2, 3), make.normal(0, 3, 2))


@composite("standard::addbmm", method=True)
def addbmm(input, batch1, batch2, *, beta=1, alpha=1):
    """``beta * input + alpha * bmm(batch1, batch2).sum(0)``, as one product of two matrices."""
    _of_rank("addbmm", 3, batch1, batch2)
    if batch1.shape[0] != batch2.shape[0]:
        raise RuntimeError(
            f"addbmm: the stacks must be equally high, got shapes {batch1.shape} and {batch2.shape}"
        )
    return _added(
        "addbmm", input, ops.tensordot(batch1, batch2, dims=([0, 2], [0, 1])), beta, alpha
    )


@addbmm.samples
def _(make):
    yield make.call(make.normal(2, 2), make.normal(2, 2, 3), make.normal(2, 3, 2))
    yield make.call(make.normal(2), make.normal(2, 1, 3), make.normal(2, 3, 2), beta=0.5, alpha=3.0)
    yield make.call(make.normal(), make.normal(0, 2, 3), make.normal(0, 3, 2))
    yield make.error(
        RuntimeError, "equally high", make.normal(2, 2), make.normal(1, 2, 3), make.normal(2, 3, 2)
    )


# ---- over chosen dimensions ----------------------------------------------------------------------------------


@composite("standard::tensordot")
def tensordot(a, b, dims=2):
    """The sum of products over pairs of dimensions of `a` and `b`, as one product of two matrices.

    Parameters
    ----------
    a, b : tensor
    dims : int or pair of sequences of int
        How many dimensions, the last ones of `a` and the first ones of `b`; or which of `a` and which of `b`.

    Returns
    -------
    tensor
        The dimensions of `a` that are left, then those of `b`.
    """
    first, second = _paired(a, b, dims)
    for i, j in zip(first, second):
        if a.shape[i] != b.shape[j] and 1 not in (a.shape[i], b.shape[j]):
            raise RuntimeError(
                f"tensordot: dimension {i} of the first tensor and {j} of the second must have one length, got shapes "
                f"{a.shape} and {b.shape}"
            )
    for i, j in zip(first, second):  # a length of 1 broadcasts: the other side is summed on its own
        if a.shape[i] != b.shape[j]:
            a = ops.sum(a, dim=i, keepdim=True) if b.shape[j] == 1 else a
            b = ops.sum(b, dim=j, keepdim=True) if a.shape[i] == 1 else b
    left = [i for i in range(a.ndim) if i not in first]
    right = [j for j in range(b.ndim) if j not in second]
    length = _size(a, first)
    rows = ops.reshape(ops.permute(a, dims=(*left, *first)), (_size(a, left), length))
    columns = ops.reshape(ops.permute(b, dims=(*second, *right)), (length, _size(b, right)))
    shape = tuple(a.shape[i] for i in left) + tuple(b.shape[j] for j in right)
    return ops.reshape(ops.matmul(rows, columns), shape)


def _size(x, dims):
    size = 1
    for i in dims:
        size *= x.shape[i]
    return size


def _paired(a, b, dims):
    """The dimensions of `a`, and those of `b`, that are summed over."""
    if not isinstance(dims, tuple | list):
        count = index(dims)
        if not 0 <= count <= min(a.ndim, b.ndim):
            raise RuntimeError(
                f"tensordot: dims={count} does not fit shapes {a.shape} and {b.shape}"
            )
        return list(range(a.ndim - count, a.ndim)), list(range(count))
    first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
    if len(first) != len(second):
        raise RuntimeError(
            f"tensordot: both tensors need equally many dims, got {first} and {second}"
        )
    for x, own in ((a, first), (b, second)):
        if own:
            normalize_dims("tensordot", own, x.ndim)
    return [d % a.ndim for d in first], [d % b.ndim for d in second]


@tensordot.samples
def _(make):
    yield make.call(make.normal(2, 3, 2), make.normal(3, 2, 2))
    yield make.call(make.normal(2, 3), make.normal(2, 3), dims=([0, -1], [0, 1]))
    yield make.call(make.normal(2), make.normal(3), dims=0)
    yield make.call(make.normal(2, 0), make.normal(0, 2), dims=1)
    yield make.error(RuntimeError, "one length", make.normal(2, 3), make.normal(2, 3), dims=1)


@composite("standard::kron", method=True)
def kron(input, other):
    """The Kronecker product: every element of `input` times the whole of `other`."""
    ndim = max(input.ndim, other.ndim)
    a = (1,) * (ndim - input.ndim) + input.shape
    b = (1,) * (ndim - other.ndim) + other.shape
    apart = ops.reshape(input, tuple(k for n in a for k in (n, 1)))
    out = apart * ops.reshape(other, tuple(k for n in b for k in (1, n)))
    return ops.reshape(out, tuple(n * m for n, m in zip(a, b)))


@kron.samples
def _(make):
    yield make.call(make.normal(2, 2), make.normal(1, 3))
    yield make.call(make.normal(2), make.normal(2, 2))
    yield make.call(make.normal(), make.normal(2))
    yield make.call(make.normal(0, 2), make.normal(2, 2))


@composite("standard::trace", method=True)
def trace(input):
    """The sum of the diagonal of a matrix."""
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, got shape {input.shape}")
    return ops.sum(ops.diagonal(input))


@trace.samples
def _(make):
    yield make.call(make.normal(3, 3))
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal(0, 2))
    yield make.error(RuntimeError, "a matrix", make.normal(2, 2, 2))
