"""Operators that join, split, pad and rearrange tensors."""

from calls import Call, case, shaped


def _one_dim(name="dim", low=0, **choices):
    def make(d):
        shape = d.shape(low)
        return Call(
            {"input": d.array(shape), name: d.dim(shape)}, d.pick(choices), d.choice([1, 2])
        )

    return case(make)


def _joined(d):
    shape = list(d.shape(1))
    dim = d.dim(shape)
    parts = []
    for _ in range(d.integer(1, 3)):
        shape[dim] = d.integer(0, 3)
        parts.append(d.array(tuple(shape)))
    return Call({"tensors": parts, "dim": dim}, positional=d.choice([1, 2]))


def _stacked(d):
    shape = d.shape()
    parts = [d.array(shape) for _ in range(d.integer(1, 3))]
    return Call(
        {"tensors": parts, "dim": d.integer(-len(shape) - 1, len(shape))},
        positional=d.choice([1, 2]),
    )


def _same(low, high=3):
    def make(d):
        shape = d.shape(low, high)
        return Call({"tensors": [d.array(shape) for _ in range(d.integer(1, 3))]})

    return case(make)


def _mesh(d):
    parts = [d.array(d.shape(0, 1)) for _ in range(d.integer(1, 3))]
    return Call({"tensors": parts}, {"indexing": d.choice(["ij", "xy"])})


def _broadcasting(d):
    shape = d.shape()
    return [
        d.array(tuple(1 if d.maybe() else n for n in shape[d.integer(0, len(shape)) :]))
        for _ in range(3)
    ]


def _split(d):
    shape = d.shape(1)
    dim = d.dim(shape)
    size = d.integer(1, 3)
    if d.maybe():
        first = d.integer(0, shape[dim])
        size = [first, shape[dim] - first]
    name = "split_size_or_sections"
    return Call({"input": d.array(shape), name: size, "dim": dim}, positional=3)


def _chunk(d):
    shape = d.shape(1)
    return Call(
        {"input": d.array(shape), "chunks": d.integer(1, 4), "dim": d.dim(shape)},
        positional=d.choice([1, 3]),
    )


def _tensor_split(d):
    shape = d.shape(1)
    sections = d.integer(1, 4) if d.maybe() else (1, 2)
    return Call(
        {"input": d.array(shape), "indices_or_sections": sections, "dim": d.dim(shape)},
        positional=3,
    )


def _sectioned(low):
    def make(d):
        return Call(
            {"input": d.array(tuple(2 * n for n in d.shape(low))), "sections": d.choice([1, 2])},
            positional=2,
        )

    return case(make)


def _narrow(d):
    shape = d.shape(1)
    dim = d.dim(shape)
    start = d.integer(0, shape[dim])
    return Call(
        {
            "input": d.array(shape),
            "dim": dim,
            "start": start,
            "length": d.integer(0, shape[dim] - start),
        },
        positional=d.choice([1, 4]),
    )


def _select(d):
    shape = d.shape(1, empty=False)
    dim = d.dim(shape)
    return Call(
        {"input": d.array(shape), "dim": dim, "index": d.integer(-shape[dim], shape[dim] - 1)},
        positional=d.choice([1, 3]),
    )


def _pad(d):
    shape = d.shape(2, 4, empty=False)
    mode = d.choice(["constant", "constant", "reflect", "replicate", "circular"])
    if mode == "constant":
        pad = tuple(d.integer(-1, 2) for _ in range(2 * d.integer(1, len(shape))))
        return Call(
            {"input": d.array(shape), "pad": pad}, {"mode": mode, **d.pick({"value": [1.5]})}
        )
    count = max(1, len(shape) - 2) if len(shape) > 2 else 1
    return Call(
        {"input": d.array(shape), "pad": tuple(d.integer(0, 2) for _ in range(2 * count))},
        {"mode": mode},
    )


def _constant_pad(d):
    shape = d.shape(1, empty=False)
    return Call(
        {
            "input": d.array(shape),
            "pad": tuple(d.integer(-1, 2) for _ in range(2 * d.integer(1, len(shape)))),
        },
        d.pick({"value": [1]}),
    )


def _selected_scatter(name):
    def make(d):
        shape = d.shape(2, empty=False)
        dim = d.dim(shape)
        part = list(shape)
        if name == "select":
            del part[dim]
            return Call(
                {
                    "input": d.array(shape),
                    "src": d.array(tuple(part)),
                    "dim": dim,
                    "index": d.integer(0, shape[dim] - 1),
                },
                positional=4,
            )
        part[dim] = shape[dim] - 1
        return Call(
            {
                "input": d.array(shape),
                "src": d.array(tuple(part)),
                "dim": dim,
                "start": 1,
                "end": None,
                "step": 1,
            },
            positional=6,
        )

    return case(make)


def _diagonal_scatter(d):
    n = d.integer(1, 3)
    offset = d.integer(-1, 1)
    return Call(
        {"input": d.array((n + 1, n + 1)), "src": d.array((n + 1 - abs(offset),)), "offset": offset}
    )


def _pixels(d):
    factor = d.integer(1, 2)
    shape = (*d.shape(0, 1)[:1], 2 * factor * factor, 2, 3)
    return Call({"input": d.array(shape), "upscale_factor": factor})


def _unpixels(d):
    factor = d.integer(1, 2)
    shape = (*d.shape(0, 1)[:1], 2, 2 * factor, 3 * factor)
    return Call({"input": d.array(shape), "downscale_factor": factor})


def _channels(d):
    return Call(
        {"input": d.array((d.integer(1, 2), 4, *d.shape(0, 2))), "groups": d.choice([1, 2, 4])}
    )


def _block_diag(d):
    return Call({"tensors": [d.array(d.shape(0, 2)) for _ in range(d.integer(1, 3))]})


def _starred(case_):
    """Tensors given one by one and not as a list."""
    return lambda name: case_.but(run=lambda lib, tensors: getattr(lib, name)(*tensors))


TABLE = {
    "broadcast_tensors": _starred(case(lambda d: Call({"tensors": _broadcasting(d)})))(
        "broadcast_tensors"
    ),
    "cat": case(_joined),
    "concat": case(_joined),
    "concatenate": case(_joined),
    "stack": case(_stacked),
    "hstack": _same(0),
    "vstack": _same(0),
    "dstack": _same(0),
    "column_stack": _same(0, 2),
    "row_stack": _same(0),
    "atleast_1d": shaped(),
    "atleast_2d": shaped(),
    "atleast_3d": shaped(),
    "meshgrid": case(_mesh).but(
        run=lambda lib, tensors, indexing: lib.meshgrid(*tensors, indexing=indexing)
    ),
    "cartesian_prod": _starred(
        case(lambda d: Call({"tensors": [d.array(d.shape(1, 1)) for _ in range(d.integer(1, 3))]}))
    )("cartesian_prod"),
    "block_diag": _starred(case(_block_diag))("block_diag"),
    "split": case(_split),
    "chunk": case(_chunk),
    "tensor_split": case(_tensor_split),
    "hsplit": _sectioned(1),
    "vsplit": _sectioned(2),
    "dsplit": _sectioned(3),
    "unbind": _one_dim(),
    "narrow": case(_narrow),
    "select": case(_select),
    "select_scatter": _selected_scatter("select"),
    "slice_scatter": _selected_scatter("slice"),
    "diagonal_scatter": case(_diagonal_scatter),
    "pad": case(_pad).floating,
    "constant_pad_nd": case(_constant_pad),
    "combinations": case(
        lambda d: Call(
            {"input": d.array(d.shape(1, 1))}, d.pick({"r": [1, 2, 3], "with_replacement": [True]})
        )
    ),
    "pixel_shuffle": case(_pixels).without("empty"),
    "pixel_unshuffle": case(_unpixels).without("empty"),
    "channel_shuffle": case(_channels),
}
