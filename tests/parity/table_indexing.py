"""Indexing: reading and writing by slices, indices and masks, and along a dimension."""

import numpy as np
from calls import Call, Fixed, case


def _indexed(d):
    shape = d.shape(1, 3, empty=False)
    kind = d.choice(["number", "slice", "ellipsis", "new", "mask", "array", "mixed", "two", "list"])
    n = shape[0]
    index = {
        "number": d.integer(-n, n - 1),
        "slice": slice(d.choice([None, 0, 1, -2]), d.choice([None, n, -1]), d.choice([None, 1, 2])),
        "ellipsis": (..., slice(0, 1)),
        "new": (None, slice(None), None),
        "mask": d.booleans(shape if d.maybe() else shape[:1]),
        "array": d.integers(d.choice([(3,), (2, 2), (0,), ()]), -n, n),
        "mixed": (slice(None),) * (len(shape) - 1) + (d.integers((3,), 0, shape[-1]),),
        "two": tuple(d.integers((3,), 0, m) for m in shape[:2]),
        "list": [0, n - 1, 0],
    }[kind]
    return shape, index


def _getitem(d):
    shape, index = _indexed(d)
    return Call({"input": d.array(shape), "index": index})


def _setitem(d):
    """Distinct positions: which write to a repeated one stays is not defined by PyTorch."""
    shape = d.shape(1, 3, empty=False)
    n = shape[0]
    index = d.choice(
        [
            d.integer(-n, n - 1),
            slice(0, n - 1),
            (..., 0),
            d.booleans(shape),
            Fixed(d.rng.permutation(n)[:2]),
        ]
    )
    value = d.choice([1.5, d.array((1,))]) if d.kind != "integer" else 2
    return Call({"input": d.array(shape), "index": index, "value": value})


def _write(lib, input, index, value):
    out = input.clone()
    out[index] = value
    return out


def _along(d, shape=None, *, low=0, distinct=False):
    """A tensor, a dimension, and an index of the same number of dimensions, not larger elsewhere."""
    shape = d.shape(low, empty=False) if shape is None else shape
    dim = d.dim(shape)
    where = tuple(d.integer(1, n) for n in shape)
    n = shape[dim] if shape else 1
    if distinct and shape:
        axis = dim % len(shape)
        order = np.argsort(d.rng.random(shape), axis=axis)
        index = order[tuple(slice(0, m) for m in where)]
    else:
        index = d.rng.integers(0, n, where)
    return shape, dim, where, Fixed(index)


def _gather(d):
    shape, dim, _, index = _along(d)
    return Call({"input": d.array(shape), "dim": dim, "index": index}, positional=d.choice([1, 3]))


def _scatter(distinct=False, number=False, **choices):
    def make(d):
        shape, dim, where, index = _along(d, distinct=distinct)
        source = {"src": d.array(where)}
        if number and d.maybe():
            source = {"value": 2 if d.kind == "integer" else 1.5}
        return Call(
            {"input": d.array(shape), "dim": dim, "index": index, **source},
            d.pick(choices),
            d.choice([1, 3]),
        )

    return case(make)


def _scatter_reduce(d):
    shape, dim, where, index = _along(d)
    call = {"input": d.array(shape), "dim": dim, "index": index, "src": d.array(where)}
    reduce = d.choice(["sum", "mean", "amax", "amin", "prod"])
    return Call({**call, "reduce": reduce}, d.pick({"include_self": [False]}))


def _take_along(d):
    shape = d.shape(empty=False)
    if d.maybe() or not shape:
        return Call({"input": d.array(shape), "indices": d.integers((4,), 0, int(np.prod(shape)))})
    shape, dim, _, _ = _along(d, shape)
    where = list(shape)
    where[dim] = d.integer(0, 3)
    return Call(
        {"input": d.array(shape), "indices": d.integers(tuple(where), 0, shape[dim]), "dim": dim}
    )


def _take(d):
    shape = d.shape(empty=False)
    count = int(np.prod(shape))
    return Call(
        {
            "input": d.array(shape),
            "index": d.integers(d.choice([(3,), (2, 2), (), (0,)]), -count, count),
        }
    )


def _put(d):
    shape = d.shape(empty=False)
    count = int(np.prod(shape))
    where = Fixed(d.rng.permutation(count)[: d.integer(1, count)])
    call = {"input": d.array(shape), "index": where, "source": d.array(where.array.shape)}
    return Call(call, d.pick({"accumulate": [True]}))


def _index_select(d):
    shape = d.shape(1, empty=False)
    dim = d.dim(shape)
    return Call(
        {
            "input": d.array(shape),
            "dim": dim,
            "index": d.integers((d.integer(0, 4),), 0, shape[dim]),
        },
        positional=d.choice([1, 3]),
    )


def _indexed_write(distinct, **choices):
    """``index_add``, ``index_copy``, … : a source that fits the index along one dimension."""

    def make(d):
        shape = d.shape(1, empty=False)
        dim = d.dim(shape)
        count = d.integer(1, shape[dim])
        index = (
            Fixed(d.rng.permutation(shape[dim])[:count])
            if distinct
            else d.integers((count,), 0, shape[dim])
        )
        part = list(shape)
        part[dim] = count
        call = {"input": d.array(shape), "dim": dim, "index": index, "source": d.array(tuple(part))}
        return Call(call, d.pick(choices), d.choice([1, 4]))

    return case(make)


def _index_reduce(d):
    call = _indexed_write(False).make(d)
    call.arguments["reduce"] = d.choice(["prod", "mean", "amax", "amin"])
    call.keywords = d.pick({"include_self": [False]})
    call.positional = 5
    return call


def _index_fill(d):
    shape = d.shape(1, empty=False)
    dim = d.dim(shape)
    value = 2 if d.kind == "integer" else d.choice([1.5, d.array(())])
    return Call(
        {
            "input": d.array(shape),
            "dim": dim,
            "index": d.integers((2,), 0, shape[dim]),
            "value": value,
        }
    )


def _index_put(d):
    shape = d.shape(2, empty=False)
    accumulate = d.maybe()
    if accumulate:
        indices = (d.integers((3,), 0, shape[0]), d.integers((3,), 0, shape[1]))
        value = d.array((3, *shape[2:]))
    else:
        rows = d.rng.permutation(shape[0])[:2]
        indices, value = (Fixed(rows),), d.array((len(rows), *shape[1:]))
    return Call(
        {"input": d.array(shape), "indices": indices, "values": value}, {"accumulate": accumulate}
    )


def _masked_fill(d):
    shape = d.shape()
    value = 2 if d.kind == "integer" else d.choice([1.5, d.array(())])
    return Call(
        {"input": d.array(shape), "mask": d.booleans(d.broadcast(shape)), "value": value},
        positional=d.choice([1, 3]),
    )


def _masked_select(d):
    shape = d.shape()
    return Call(
        {"input": d.array(shape), "mask": d.booleans(d.broadcast(shape))},
        positional=d.choice([1, 2]),
    )


def _masked_scatter(d):
    shape = d.shape()
    mask = d.booleans(d.broadcast(shape))
    return Call(
        {"input": d.array(shape), "mask": mask, "source": d.array((int(np.prod(shape)) + 1,))}
    )


def _nonzero(d):
    return Call({"input": d.array(d.shape())}, d.pick({"as_tuple": [True]}))


def _isin(d):
    return Call(
        {"elements": d.array(d.shape()), "test_elements": d.array((3,))},
        d.pick({"invert": [True], "assume_unique": [False]}),
    )


def _one_hot(d):
    classes = d.integer(3, 5)
    call = Call(
        {"input": d.integers(d.shape(), 0, 3), "num_classes": classes}, positional=d.choice([1, 2])
    )
    return call


def _embedding(d):
    rows = d.integer(3, 5)
    named = d.pick({"padding_idx": [0, -1]})
    return Call({"input": d.integers(d.shape(), 0, rows), "weight": d.array((rows, 2))}, named)


def _embedding_bag(d):
    rows, mode = d.integer(3, 5), d.choice(["sum", "mean", "max"])
    if d.maybe():
        return Call(
            {"input": d.integers((2, 3), 0, rows), "weight": d.array((rows, 2))}, {"mode": mode}
        )
    offsets = Fixed(np.array([0, 2, 4]))
    return Call(
        {"input": d.integers((5,), 0, rows), "weight": d.array((rows, 2)), "offsets": offsets},
        {"mode": mode},
    )


TABLE = {
    "getitem": case(_getitem, run=lambda lib, input, index: input[index]),
    "setitem": case(_setitem, run=_write),
    "gather": case(_gather),
    "scatter": _scatter(distinct=True, number=True),
    "scatter_add": _scatter(),
    "scatter_reduce": case(_scatter_reduce),
    "take_along_dim": case(_take_along),
    "take": case(_take),
    "put": case(_put),
    "index_select": case(_index_select),
    "index_add": _indexed_write(False, alpha=[2]),
    "index_copy": _indexed_write(True),
    "index_reduce": case(_index_reduce).floating,
    "index_fill": case(_index_fill),
    "index_put": case(_index_put),
    "masked_fill": case(_masked_fill),
    "masked_select": case(_masked_select),
    "masked_scatter": case(_masked_scatter),
    "nonzero": case(_nonzero, orders=0),
    "argwhere": case(lambda d: Call({"input": d.array(d.shape())}), orders=0),
    "isin": case(_isin, orders=0),
    "one_hot": case(_one_hot, orders=0, kinds=("integer",)),
    "embedding": case(_embedding).floating,
    "embedding_bag": case(_embedding_bag).floating,
}
