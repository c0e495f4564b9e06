"""Activations, normalisation, convolution, pooling, attention and other functions of torch.nn.functional."""

import numpy as np
from calls import Call, Fixed, along, case, unary, uniform

far = uniform(-6, 6)
FLOATS = ("float64", "float32")
PLAIN = ("plain", "strided", "special", "ties")


def _prelu(d):
    shape = d.shape(1)
    channels = shape[1] if len(shape) > 1 else 1
    return Call({"input": d.array(shape), "weight": d.array((channels if d.maybe() else 1,))})


def _glu(d):
    shape = list(d.shape(1))
    dim = d.dim(shape)
    shape[dim] *= 2
    return Call({"input": d.array(tuple(shape)), "dim": dim}, positional=d.choice([1, 2]))


def _normalize(d):
    shape = d.shape(1)
    call = {"input": d.array(shape)}
    return Call(call, {"dim": d.dim(shape), **d.pick({"p": [1.0, 2.0, 3.0], "eps": [1e-12, 0.5]})})


def _affine(d, shape):
    """Weight and bias, or one of them, or none."""
    named = {}
    for name in ("weight", "bias"):
        if d.maybe():
            named[name] = d.array(shape)
    return named


def _layer_norm(d):
    shape = d.shape(1, empty=False)
    tail = shape[d.integer(0, len(shape) - 1) :]
    return Call(
        {"input": d.array(shape), "normalized_shape": tail},
        {**_affine(d, tail), **d.pick({"eps": [1e-3]})},
    )


def _rms_norm(d):
    shape = d.shape(1, empty=False)
    tail = shape[d.integer(0, len(shape) - 1) :]
    named = {"weight": d.array(tail)} if d.maybe() else {}
    return Call(
        {"input": d.array(shape), "normalized_shape": tail}, {**named, **d.pick({"eps": [1e-3]})}
    )


def _batch_norm(d):
    channels = d.integer(1, 3)
    shape = (d.integer(2, 3), channels, *d.shape(0, 2, empty=False))
    stats = [Fixed(d.rng.uniform(0.5, 1.5, channels).astype(d.dtype)) for _ in range(2)]
    training = d.maybe()
    named = {
        "training": training,
        **_affine(d, (channels,)),
        **d.pick({"momentum": [0.3], "eps": [1e-3]}),
    }
    if training and d.maybe():
        stats = [None, None]
    return Call({"input": d.array(shape), "running_mean": stats[0], "running_var": stats[1]}, named)


def _with_running(lib, input, running_mean, running_var, **named):
    """The output and the statistics that were changed in place."""
    out = lib.nn.functional.batch_norm(input, running_mean, running_var, **named)
    return out, running_mean, running_var


def _instance_norm(d):
    channels = d.integer(1, 3)
    shape = (d.integer(1, 2), channels, *(d.integer(2, 3) for _ in range(d.integer(1, 2))))
    return Call({"input": d.array(shape)}, {**_affine(d, (channels,)), **d.pick({"eps": [1e-3]})})


def _group_norm(d):
    groups = d.integer(1, 2)
    channels = groups * d.integer(1, 2)
    shape = (d.integer(1, 2), channels, *(d.integer(2, 3) for _ in range(d.integer(0, 2))))
    return Call(
        {"input": d.array(shape), "num_groups": groups},
        {**_affine(d, (channels,)), **d.pick({"eps": [1e-3]})},
    )


def _local_response_norm(d):
    return Call(
        {"input": d.array((2, d.integer(1, 4), 3)), "size": d.integer(1, 3)},
        d.pick({"alpha": [0.1], "beta": [0.5], "k": [2.0]}),
    )


def _layers(dims, make, *, stable=PLAIN, loose=16):
    return case(lambda d: make(d, dims), kinds=FLOATS, situations=stable, loose=loose)


def _conv(d, dims):
    groups = d.choice([1, 1, 2])
    inputs, outputs = groups * d.integer(1, 2), groups * d.integer(1, 2)
    kernel = tuple(d.integer(1, 3) for _ in range(dims))
    sizes = tuple(d.integer(3, 5) for _ in range(dims))
    batch = (d.integer(1, 2),) if d.maybe() else ()
    stride, dilation = d.choice([1, 2]), d.choice([1, 1, 2])
    padding = d.choice(
        [0, 1, tuple(d.integer(0, 2) for _ in range(dims))]
        + (["same"] if stride == 1 else ["valid"])
    )
    if any((k - 1) * dilation >= n for k, n in zip(kernel, sizes)):
        dilation = 1
    call = {
        "input": d.array((*batch, inputs, *sizes)),
        "weight": d.array((outputs, inputs // groups, *kernel)),
    }
    if d.maybe():
        call["bias"] = d.array((outputs,))
    return Call(
        call, {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    )


def _conv_transpose(d, dims):
    groups = d.choice([1, 1, 2])
    inputs, outputs = groups * d.integer(1, 2), groups * d.integer(1, 2)
    kernel = tuple(d.integer(2, 3) for _ in range(dims))
    batch = (d.integer(1, 2),) if d.maybe() else ()
    stride = d.choice([1, 2])
    call = {
        "input": d.array((*batch, inputs, *(d.integer(2, 3) for _ in range(dims)))),
        "weight": d.array((inputs, outputs // groups, *kernel)),
    }
    if d.maybe():
        call["bias"] = d.array((outputs,))
    extra = {
        "output_padding": d.integer(0, stride - 1),
        "padding": d.choice([0, 1]),
        "dilation": d.choice([1, 2]) if stride == 2 else 1,
    }
    return Call(call, {"stride": stride, "groups": groups, **extra})


def _windows(d, dims):
    batch = (d.integer(1, 2),) if d.maybe() else ()
    return (*batch, d.integer(1, 2), *(d.integer(3, 6) for _ in range(dims)))


def _one_or_each(d, dims, low, high):
    return d.integer(low, high) if d.maybe() else tuple(d.integer(low, high) for _ in range(dims))


def _avg_pool(d, dims):
    kernel = _one_or_each(d, dims, 2, 3)
    named = d.pick(
        {"stride": [1, 2], "padding": [1], "ceil_mode": [True], "count_include_pad": [False]}
    )
    if dims > 1:
        named |= d.pick({"divisor_override": [2]})
    return Call({"input": d.array(_windows(d, dims)), "kernel_size": kernel}, named)


def _max_pool(d, dims):
    kernel = _one_or_each(d, dims, 2, 3)
    named = d.pick(
        {"stride": [1, 2], "padding": [1], "ceil_mode": [True], "return_indices": [True]}
    )
    if d.maybe():
        named |= {"dilation": 2} if kernel == 2 else {}
    return Call({"input": d.array(_windows(d, dims)), "kernel_size": kernel}, named)


def _lp_pool(d, dims):
    named = d.pick({"stride": [1, 2], "ceil_mode": [True]})
    return Call(
        {
            "input": d.array(_windows(d, dims), uniform(0.2, 2)),
            "norm_type": d.choice([1.0, 2.0, 3.0]),
            "kernel_size": 2,
        },
        named,
    )


def _adaptive(d, dims):
    return Call({"input": d.array(_windows(d, dims)), "output_size": _one_or_each(d, dims, 1, 4)})


def _unfold(d):
    named = d.pick({"dilation": [1, 2], "padding": [1], "stride": [2]})
    return Call(
        {
            "input": d.array((*((2,) if d.maybe() else ()), 2, 4, 5)),
            "kernel_size": d.choice([2, (2, 1)]),
        },
        named,
    )


def _fold(d):
    return Call(
        {
            "input": d.array((*((2,) if d.maybe() else ()), 8, 6)),
            "output_size": (3, 4),
            "kernel_size": 2,
        }
    )


def _interpolate(d):
    dims = d.integer(1, 2)
    modes = {
        1: ["nearest", "linear", "nearest-exact", "area"],
        2: ["nearest", "bilinear", "bicubic", "nearest-exact", "area"],
    }[dims]
    mode = d.choice(modes)
    shape = (d.integer(1, 2), 2, *(d.integer(2, 4) for _ in range(dims)))
    named = (
        {"size": tuple(d.integer(1, 6) for _ in range(dims))}
        if d.maybe()
        else {"scale_factor": d.choice([2.0, 0.5, 1.5])}
    )
    if mode in ("linear", "bilinear", "bicubic"):
        named |= d.pick({"align_corners": [True, False]})
    return Call({"input": d.array(shape)}, {"mode": mode, **named})


def _grid_sample(d):
    named = d.pick({"mode": ["bilinear", "nearest"], "padding_mode": ["zeros", "border"]})
    grid = d.array((2, 2, 3, 2), uniform(-1.3, 1.3))
    return Call(
        {"input": d.array((2, 2, 3, 4)), "grid": grid}, {"align_corners": d.maybe(), **named}
    )


def _affine_grid(d):
    return Call({"theta": d.array((2, 2, 3)), "size": (2, 1, 3, 4)}, {"align_corners": d.maybe()})


def _attention(d):
    batch = d.choice([(), (2,), (2, 2)])
    n, m, e, v = d.integer(1, 3), d.integer(1, 3), d.integer(1, 3), d.integer(1, 3)
    call = {
        "query": d.array((*batch, n, e)),
        "key": d.array((*batch, m, e)),
        "value": d.array((*batch, m, v)),
    }
    how = d.choice(["plain", "causal", "mask", "bias", "scale"])
    named = {
        "plain": {},
        "causal": {"is_causal": True},
        "mask": {"attn_mask": Fixed(np.tri(n, m, dtype=bool))},
        "bias": {"attn_mask": d.array((n, m))},
        "scale": {"scale": 0.3},
    }[how]
    return Call(call, named)


def _cosine_similarity(d):
    shape = d.shape(1)
    return Call(
        {"x1": d.array(shape), "x2": d.array(d.broadcast(shape))},
        {"dim": -1, **d.pick({"eps": [1e-3]})},
    )


def _pairwise(d):
    shape = d.shape(1, 2, empty=False)
    return Call(
        {"x1": d.array(shape), "x2": d.array(shape)},
        d.pick({"p": [1.0, 3.0], "eps": [1e-3], "keepdim": [True]}),
    )


def _cdist(d):
    batch = d.choice([(), (2,)])
    shapes = ((*batch, d.integer(1, 3), 2), (*batch, d.integer(1, 3), 2))
    return Call(dict(zip(("x1", "x2"), map(d.array, shapes))), d.pick({"p": [1.0, 2.0, 3.0]}))


def _pdist(d):
    return Call({"input": d.array((d.integer(1, 4), 2))}, d.pick({"p": [1.0, 2.0, 3.0]}))


def activation(domain=far, /, **choices):
    """Elementwise, of floats alone."""
    return unary(domain, **choices).floating


def pooled(name, make):
    return {f"{name}{dims}d": _layers(dims, make) for dims in (1, 2, 3)}


TABLE = {
    "relu": activation(),
    "relu6": activation(),
    "elu": activation(alpha=[0.5, 2.0]),
    "celu": activation(alpha=[0.5, 2.0]),
    "selu": activation(),
    "gelu": activation(approximate=["none", "tanh"]).but(exact=False),
    "silu": activation(),
    "mish": activation(),
    "softplus": activation(beta=[0.5, 2.0], threshold=[1.0, 20.0]),
    "softsign": activation(),
    "softshrink": activation(lambd=[0.5, 1.0]),
    "hardshrink": activation(lambd=[0.5, 1.0]),
    "tanhshrink": activation().but(exact=False),
    "hardtanh": activation(min_val=[-2.0, -0.5], max_val=[0.5, 2.0]),
    "hardsigmoid": activation().but(exact=False, gradient=1e6),  # PyTorch has 1/6 in float32
    "hardswish": activation().but(exact=False),
    "leaky_relu": activation(negative_slope=[0.1, 1.0]),
    "logsigmoid": activation(),
    "threshold": case(
        lambda d: Call({"input": d.array(d.shape(), far), "threshold": 0.5, "value": -2.0})
    ).floating,
    "rrelu": activation(lower=[0.1], upper=[0.4]),
    "prelu": case(_prelu).floating,
    "glu": case(_glu).floating,
    "softmin": along().floating,
    "normalize": case(_normalize).floating,
    "layer_norm": case(_layer_norm, loose=16, second=1e4).floating,
    "rms_norm": case(_rms_norm, loose=16, second=1e4).floating,
    "batch_norm": case(_batch_norm, run=_with_running, kinds=FLOATS, situations=PLAIN, loose=64),
    "instance_norm": case(_instance_norm, kinds=FLOATS, situations=PLAIN, loose=64),
    "group_norm": case(_group_norm, kinds=FLOATS, situations=PLAIN, loose=64),
    "local_response_norm": case(_local_response_norm, loose=16).floating,
    **pooled("conv", _conv),
    **pooled("conv_transpose", _conv_transpose),
    **pooled("avg_pool", _avg_pool),
    **pooled("max_pool", _max_pool),
    **pooled("lp_pool", _lp_pool),
    **pooled("adaptive_avg_pool", _adaptive),
    **pooled("adaptive_max_pool", _adaptive),
    "nn.functional.unfold": case(_unfold).floating,
    "fold": case(_fold).floating,
    "interpolate": case(_interpolate, kinds=FLOATS, situations=PLAIN, loose=64),
    "upsample": case(_interpolate, kinds=FLOATS, situations=PLAIN, loose=64),
    "grid_sample": case(_grid_sample, kinds=FLOATS, situations=("plain", "strided"), loose=64),
    "affine_grid": case(_affine_grid, loose=16).floating,
    "scaled_dot_product_attention": case(_attention, kinds=FLOATS, situations=PLAIN, loose=64),
    "cosine_similarity": case(_cosine_similarity, loose=16).floating,
    "pairwise_distance": case(_pairwise, loose=16).floating,
    "cdist": case(_cdist, kinds=FLOATS, situations=("plain", "strided"), loose=64),
    "pdist": case(_pdist, kinds=FLOATS, situations=("plain", "strided"), loose=64),
}
