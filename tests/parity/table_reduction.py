"""Reductions, scans, sorting and counting."""

import numpy as np
from calls import Call, Fixed, along, case, distinct, reduction, shaped

DTYPES = [np.dtype("float64"), np.dtype("float32")]
correction = {"correction": [0, 1, 2, 0.5]}


def _norm(d):
    shape = d.shape()
    call = {"input": d.array(shape)}
    call["p"] = d.choice([2.0, 1, 3, 0.5, 0, -1, np.inf, -np.inf, "fro"])
    if d.maybe():
        call["dim"] = d.dims(shape) if d.maybe() else d.dim(shape)
    return Call(call, d.pick({"keepdim": [True]}))


def _renorm(d):
    shape = d.shape(2)
    return Call(
        {"input": d.array(shape), "p": d.choice([1, 2, 3]), "dim": d.dim(shape), "maxnorm": 1.5}
    )


def _quantile(d):
    shape = d.shape(empty=False)
    q = d.choice([0.0, 0.3, 0.5, 1.0])
    if d.maybe():
        q = d.array((3,), lambda rng, shape: rng.uniform(0, 1, shape))
        q = np.clip(q, 0, 1) if d.situation != "special" else np.array([0.0, 0.25, 1.0], d.dtype)
        q = Fixed(q)
    call = {"input": d.array(shape, distinct), "q": q}
    if d.maybe():
        call["dim"] = d.dim(shape)
    keywords = {"interpolation": ["linear", "lower", "higher", "nearest", "midpoint"]}
    return Call(call, d.pick({"keepdim": [True], **keywords}))


def _topk(d):
    shape = d.shape(empty=False)
    dim = d.dim(shape)
    size = shape[dim] if shape else 1
    call = {"input": d.array(shape, distinct), "k": d.integer(1, size), "dim": dim}
    return Call(call, d.pick({"largest": [False], "sorted": [True]}))


def _kthvalue(d):
    shape = d.shape(empty=False)
    dim = d.dim(shape)
    call = {"input": d.array(shape, distinct), "k": d.integer(1, shape[dim] if shape else 1)}
    return Call({**call, "dim": dim}, d.pick({"keepdim": [True]}))


def _searchsorted(d):
    shape = d.shape(1)
    edges = np.sort(d.array(shape), axis=-1)
    values = d.array((*shape[:-1], d.integer(0, 3)))
    return Call(
        {"sorted_sequence": edges, "input": values}, d.pick({"right": [True], "out_int32": [True]})
    )


def _bucketize(d):
    return Call(
        {"input": d.array(d.shape()), "boundaries": np.sort(d.array((4,)))},
        d.pick({"right": [True], "out_int32": [True]}),
    )


def _bincount(d):
    n = d.integer(0, 5)
    weights = d.pick({"weights": [d.array((n,))]}) if d.kind != "integer" else {}
    return Call({"input": d.integers((n,), 0, 4)}, {**weights, **d.pick({"minlength": [0, 7]})})


def _histc(d):
    return Call({"input": d.array(d.shape()), "bins": d.integer(1, 5), "min": -2, "max": 3})


def _diff(d):
    shape = d.shape(1)
    call = {"input": d.array(shape), "n": d.integer(0, 2)}
    return Call(call, {"dim": d.dim(shape)} if d.maybe() else {})


def _trapezoid(d):
    shape = d.shape(1, empty=False)
    if d.maybe():
        return Call({"y": d.array(shape)}, d.pick({"dx": [0.5], "dim": [-1, 0]}))
    return Call({"y": d.array(shape), "x": d.array(shape[-1:])})


def _unique(d):
    return Call(
        {"input": d.array(d.shape())}, d.pick({"return_inverse": [True], "return_counts": [True]})
    )


def _cov(d):
    shape = (d.integer(1, 3), d.integer(2, 4))
    return Call({"input": d.array(shape)}, d.pick({"correction": [0, 1]}))


TABLE = {
    "sum": reduction(dtype=DTYPES),
    "nansum": reduction(dtype=DTYPES),
    "mean": reduction(dtype=DTYPES),
    "nanmean": reduction(dtype=DTYPES).floating,
    "prod": reduction(dims=False, dtype=DTYPES),
    "var": reduction(empty=False, **correction).floating,
    "std": reduction(empty=False, **correction).floating,
    "var_mean": reduction(empty=False, **correction).floating,
    "std_mean": reduction(empty=False, **correction).floating,
    "logsumexp": reduction(whole=False),
    "amax": reduction(),
    "amin": reduction(),
    "aminmax": reduction(dims=False, empty=False),
    "max": reduction(distinct, dims=False),
    "min": reduction(distinct, dims=False),
    "median": reduction(distinct, dims=False, empty=False).without("ties", "special"),
    "nanmedian": reduction(distinct, dims=False, empty=False).without("ties", "special"),
    "mode": reduction(dims=False, whole=False, empty=False),
    "argmax": reduction(distinct, dims=False).but(orders=0),
    "argmin": reduction(distinct, dims=False).but(orders=0),
    "all": reduction().but(orders=0),
    "any": reduction().but(orders=0),
    "count_nonzero": reduction(keepdim=False).but(orders=0),
    "norm": case(_norm).floating,
    "renorm": case(_renorm).floating,
    "quantile": case(_quantile).floating,
    "nanquantile": case(_quantile).floating,
    "cumsum": along(dtype=DTYPES),
    "cumprod": along(dtype=DTYPES),
    "cummax": along(),
    "cummin": along(),
    "logcumsumexp": along().floating,
    "softmax": along(dtype=DTYPES).floating,
    "log_softmax": along(dtype=DTYPES).floating,
    "sort": along(distinct, descending=[True, False]).without("ties", "special", "strided"),
    "msort": shaped(1),
    "argsort": along(distinct, descending=[True, False]).without("ties", "special", "strided"),
    "topk": case(_topk).floating.without("ties", "special", "strided"),
    "kthvalue": case(_kthvalue).floating.without("ties", "special", "strided"),
    "searchsorted": case(_searchsorted, orders=0),
    "bucketize": case(_bucketize, orders=0),
    "bincount": case(_bincount, orders=0),
    "histc": case(_histc, orders=0).floating,
    "unique": case(_unique, orders=0),
    "unique_consecutive": case(_unique, orders=0),
    "diff": case(_diff),
    "trapezoid": case(_trapezoid),
    "trapz": case(_trapezoid),
    "cumulative_trapezoid": case(_trapezoid),
    "cov": case(_cov),
    "corrcoef": case(lambda d: Call({"input": d.array((d.integer(2, 3), 4))})).without(
        "ties", "special", "strided"
    ),
}
