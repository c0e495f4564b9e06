"""Differences of neighbours along a dimension, and their inverse, integrals by the trapezoidal rule."""

from plugrad import composite, ops
from plugrad_ops.shape.dims import normalize_dim


def _pair(x, dim):
    """All but the last, and all but the first."""
    n = x.shape[dim]
    return ops.narrow(x, dim, 0, n - 1), ops.narrow(x, dim, 1, n - 1)


@composite("standard::diff", method=True)
def diff(input, n=1, dim=-1, prepend=None, append=None):
    """The `n`-th differences of neighbours along `dim`: each less the one before; of bools, whether they differ.

    Parameters
    ----------
    n : int
        How often differences are taken; what is left is that much shorter, or empty.
    prepend, append : Tensor, optional
        Joined to the input along `dim` first.

    Raises
    ------
    RuntimeError
        `n` is negative, or the input has no dimension.
    """
    if n < 0 or not input.ndim:
        raise RuntimeError(
            f"diff: n must be at least 0 and the input have a dimension, got n={n}, shape {input.shape}"
        )
    axis = normalize_dim("diff", dim, input.ndim)
    parts = [part for part in (prepend, input, append) if part is not None]
    out = ops.cat(parts, axis) if len(parts) > 1 else input
    if n >= out.shape[axis]:
        return ops.narrow(out, axis, 0, 0)
    for _ in range(n):
        before, after = _pair(out, axis)
        out = ops.logical_xor(after, before) if out.dtype.kind == "b" else after - before
    return ops.clone(out) if n == 0 else out


@diff.samples
def _(make):
    yield make.call(make.normal(5))
    yield make.call(make.normal(2, 4), 2, 0)
    yield make.call(make.normal(2, 3), 1, -1, make.normal(2, 1), make.normal(2, 2))
    yield make.call(make.booleans(4))
    yield make.call(make.normal(0, 3))
    yield make.error(RuntimeError, "have a dimension", make.normal())


def _areas(name, y, x, dx, dim):
    """The area between each two neighbours."""
    if x is not None and dx is not None:
        raise RuntimeError(f"{name}: give x or dx, got both")
    if not y.ndim:
        raise RuntimeError(f"{name}: y must have a dimension, got shape {y.shape}")
    axis = normalize_dim(name, dim, y.ndim)
    if y.shape[axis] == 0:
        raise RuntimeError(f"{name}: y has no elements in dim={dim}, its shape is {y.shape}")
    before, after = _pair(y, axis)
    heights = before + after
    if x is None:
        return heights * ((1.0 if dx is None else dx) / 2.0), axis
    along = axis
    if x.ndim == 1:
        if x.shape[0] != y.shape[axis]:
            raise RuntimeError(
                f"{name}: x has {x.shape[0]} points, y has {y.shape[axis]} values in dim={dim}"
            )
        x = ops.reshape(x, (-1,) + (1,) * (y.ndim - 1 - axis))
        along = 0
    else:
        along = axis - y.ndim + x.ndim
    left, right = _pair(x, along)
    return heights * (right - left) / 2.0, axis


def _integrals(make):
    yield make.call(make.normal(5))
    yield make.call(make.normal(3, 4), make.normal(4))
    yield make.call(make.normal(3, 2), make.normal(3), dim=0)
    yield make.call(make.normal(2, 4), make.normal(2, 4))
    yield make.call(make.normal(2, 3), dx=0.5, dim=0)
    yield make.error(RuntimeError, "points", make.normal(4), make.normal(3))


@composite("standard::trapezoid")
def trapezoid(y, x=None, *, dx=None, dim=-1):
    """The integral of `y` along `dim` by the trapezoidal rule, at the points `x` or at steps of `dx` (1).

    Raises
    ------
    RuntimeError
        Both `x` and `dx` are given, or the points do not fit `y`.
    """
    areas, axis = _areas("trapezoid", y, x, dx, dim)
    return ops.sum(areas, dim=axis)


trapezoid.samples(_integrals)


@composite("standard::trapz")
def trapz(y, x=None, *, dx=None, dim=-1):
    """`trapezoid` under its older name."""
    return trapezoid(y, x, dx=dx, dim=dim)


trapz.samples(_integrals)


@composite("standard::cumulative_trapezoid")
def cumulative_trapezoid(y, x=None, *, dx=None, dim=-1):
    """The running integral of `y` along `dim` by the trapezoidal rule; one element fewer than `y` has."""
    areas, axis = _areas("cumulative_trapezoid", y, x, dx, dim)
    return ops.cumsum(areas, dim=axis)


cumulative_trapezoid.samples(_integrals)
