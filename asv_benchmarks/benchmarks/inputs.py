"""Inputs that cases of several families share, by the number of elements of the largest."""

from math import isqrt

ARRAY = "array"  # the place of an index array in the standard plugin's index specifications


def matrix(make, elements):
    side = isqrt(elements)
    return make.normal(side, side)


def rows(**constants):
    """An operator along the rows of a matrix."""
    return lambda make, n: make.call(matrix(make, n), **constants)


def vector(**constants):
    """An operator of one tensor whose shape does not matter."""
    return lambda make, n: make.call(make.normal(n), **constants)


def positions(make, elements):
    """A tenth of the row numbers of a matrix, some of them twice."""
    side = isqrt(elements)
    return make.integers(max(1, side // 10), high=side)


def doubled(x):
    """A piece of a function given piece by piece."""
    return x * 2


def near_one(make, elements):
    """A matrix whose products along a row neither overflow nor become denormal, which is slow."""
    side = isqrt(elements)
    return make.uniform(side, side, low=0.99, high=1.01)


def pair(make, elements):
    """Two tensors of one shape."""
    return make.call(make.normal(elements), make.normal(elements))


def classes(make, elements, count=None):
    """Column numbers of a matrix: one for each row, or `count` of them, as many for each row."""
    side = isqrt(elements)
    shape = (side,) if count is None else (side, count // side)
    return make.integers(*shape, high=side)


def labelled(make, elements):
    """Scores of as many classes as there are rows, and the right class of each row."""
    return make.call(matrix(make, elements), classes(make, elements))
