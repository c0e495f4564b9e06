"""Operators that move elements: views, copies, joining, splitting, padding."""

import math

import numpy as np
from calls import Call, Fixed, case, shaped, unary


def _with_size(name, d, shapes):
    return Call({"input": d.array(shapes[0]), name: shapes[1]}, positional=d.choice([1, 2]))


def _factors(d, count):
    """A shape with that many elements."""
    if count in (0, 1):
        return d.choice([(count,), (1, count), (count, 1, 1)])
    return d.choice(
        [
            f
            for f in [(count,), (1, count), (2, count // 2), (count // 2, 1, 2)]
            if math.prod(f) == count
        ]
    )


def _reshape(name):
    def make(d):
        shape = d.shape()
        size = list(_factors(d, math.prod(shape)))
        if d.maybe() and 0 not in size:
            size[d.integer(0, len(size) - 1)] = -1
        return _with_size(name, d, (shape, tuple(size)))

    return case(make)


def _viewed(d):
    shape = d.shape()
    array = np.ascontiguousarray(d.array(shape)).reshape(shape)
    return Call({"input": array, "size": _factors(d, math.prod(shape))}, positional=2)


def _expanded(name):
    def make(d):
        size = d.shape()
        shape = tuple(1 if d.maybe() else n for n in size[d.integer(0, len(size)) :])
        return _with_size(name, d, (shape, size))

    return case(make)


def _expand_as(d):
    size = d.shape()
    shape = tuple(1 if d.maybe() else n for n in size)
    return Call({"input": d.array(shape), "other": Fixed(d.array(size))})


def _view_as(d):
    shape = d.shape()
    array = np.ascontiguousarray(d.array(shape)).reshape(shape)
    return Call({"input": array, "other": Fixed(np.zeros(_factors(d, math.prod(shape))))})


def _permuted(name):
    def make(d):
        shape = d.shape()
        dims = tuple(int(i) for i in d.rng.permutation(len(shape)))
        return Call({"input": d.array(shape), name: dims}, positional=d.choice([1, 2]))

    return case(make)


def _two_dims(first, second):
    def make(d):
        shape = d.shape()
        call = {"input": d.array(shape), first: d.dim(shape), second: d.dim(shape)}
        return Call(call, positional=d.choice([1, 3]))

    return case(make)


def _squeeze(d):
    shape = tuple(1 if d.maybe() else n for n in d.shape())
    call = {"input": d.array(shape)}
    if d.maybe():
        call["dim"] = d.dims(shape) if d.maybe() else d.dim(shape)
    return Call(call)


def _unsqueeze(d):
    shape = d.shape()
    return Call({"input": d.array(shape), "dim": d.integer(-len(shape) - 1, len(shape))})


def _movedim(d):
    shape = d.shape()
    if d.maybe():
        return Call({"input": d.array(shape), "source": d.dim(shape), "destination": d.dim(shape)})
    source = d.dims(shape)
    target = tuple(int(i) for i in d.rng.permutation(len(shape))[: len(source)])
    return Call({"input": d.array(shape), "source": source, "destination": target})


def _flatten(d):
    shape = d.shape()
    first, last = sorted((d.dim(shape) % max(len(shape), 1), d.dim(shape) % max(len(shape), 1)))
    return Call(
        {"input": d.array(shape), "start_dim": first, "end_dim": last}, positional=d.choice([1, 3])
    )


def _unflatten(d):
    shape = d.shape(1)
    dim = d.dim(shape)
    return Call({"input": d.array(shape), "dim": dim, "sizes": _factors(d, shape[dim])})


def _flip(d):
    shape = d.shape()
    return Call({"input": d.array(shape), "dims": d.dims(shape)}, positional=d.choice([1, 2]))


def _roll(d):
    shape = d.shape()
    if d.maybe() or not shape:
        return Call({"input": d.array(shape), "shifts": d.integer(-5, 5)})
    dims = d.dims(shape)
    return Call(
        {"input": d.array(shape), "shifts": tuple(d.integer(-5, 5) for _ in dims), "dims": dims}
    )


def _rot90(d):
    shape = d.shape(2)
    return Call(
        {
            "input": d.array(shape),
            "k": d.integer(-3, 5),
            "dims": d.choice([(0, 1), (1, 0), (0, -1)]),
        }
    )


def _repeats(name):
    def make(d):
        shape = d.shape(0, 2)
        return Call(
            {
                "input": d.array(shape),
                name: tuple(d.integer(0, 2) for _ in range(len(shape) + d.integer(0, 1))),
            }
        )

    return case(make)


def _repeat_interleave(d):
    shape = d.shape(1)
    if d.maybe():
        return Call({"input": d.array(shape), "repeats": d.integer(0, 3), "dim": d.dim(shape)})
    dim = d.dim(shape)
    return Call({"input": d.array(shape), "repeats": d.integers((shape[dim],), 0, 3), "dim": dim})


def _diagonal(low=2, **names):
    def make(d):
        shape = d.shape(low)
        named = {"offset": d.integer(-2, 2)}
        if d.maybe():
            named |= {"dim1": -1, "dim2": 0}
        return Call({"input": d.array(shape)}, named)

    return case(make)


def _diag(d):
    shape = d.shape(1, 2)
    return Call(
        {"input": d.array(shape), "diagonal": d.integer(-2, 2)}, positional=d.choice([1, 2])
    )


def _diag_embed(d):
    shape = d.shape(1, 2)
    named = {"dim1": 0, "dim2": -1} if d.maybe() else {}
    return Call({"input": d.array(shape)}, {"offset": d.integer(-2, 2), **named})


def _triangle(d):
    return Call(
        {"input": d.array(d.shape(2)), "diagonal": d.integer(-2, 2)}, positional=d.choice([1, 2])
    )


def _as_strided(d):
    array = np.asarray(d.rng.normal(size=12), d.dtype)
    size, stride = d.choice(
        [((2, 3), (1, 2)), ((3,), (4,)), ((2, 2), (1, 1)), ((), ()), ((0, 2), (1, 1))]
    )
    return Call({"input": array, "size": size, "stride": stride, "storage_offset": d.integer(0, 3)})


def _unfold(d):
    shape = d.shape(1, empty=False)
    dim = d.dim(shape)
    return Call(
        {
            "input": d.array(shape),
            "dimension": dim,
            "size": d.integer(1, shape[dim]),
            "step": d.integer(1, 2),
        },
        positional=9,
    )


TABLE = {
    "reshape": _reshape("shape"),
    "view": case(_viewed),
    "view_as": case(_view_as),
    "reshape_as": case(_view_as),
    "ravel": shaped(),
    "flatten": case(_flatten),
    "unflatten": case(_unflatten),
    "expand": _expanded("size").but(run=lambda lib, input, size: input.expand(size)),
    "expand_as": case(_expand_as),
    "broadcast_to": _expanded("size"),
    "permute": _permuted("dims"),
    "transpose": _two_dims("dim0", "dim1"),
    "swapaxes": _two_dims("axis0", "axis1"),
    "swapdims": _two_dims("dim0", "dim1"),
    "adjoint": shaped(2),
    "t": shaped(0, 2),
    "squeeze": case(_squeeze),
    "unsqueeze": case(_unsqueeze),
    "movedim": case(_movedim),
    "moveaxis": case(_movedim),
    "flip": case(_flip),
    "fliplr": shaped(2),
    "flipud": shaped(1),
    "roll": case(_roll),
    "rot90": case(_rot90),
    "repeat": _repeats("repeats").but(run=lambda lib, input, repeats: input.repeat(repeats)),
    "tile": _repeats("dims"),
    "repeat_interleave": case(_repeat_interleave),
    "diagonal": _diagonal(),
    "linalg.diagonal": case(
        lambda d: Call({"A": d.array(d.shape(2))}, {"offset": d.integer(-2, 2)})
    ),
    "diag": case(_diag),
    "diagflat": case(lambda d: Call({"input": d.array(d.shape()), "offset": d.integer(-2, 2)})),
    "diag_embed": case(_diag_embed),
    "tril": case(_triangle),
    "triu": case(_triangle),
    "trace": shaped(2, 2),
    "as_strided": case(_as_strided),
    "unfold": case(_unfold),
    "clone": unary().but(exact=True),
    "contiguous": unary().but(exact=True),
}
