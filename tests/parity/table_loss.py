"""Losses."""

import numpy as np
from calls import SITUATIONS, Call, Fixed, case, positive, real, unit

REDUCTION = {"reduction": ["none", "mean", "sum"]}
FLOATS = ("float64", "float32")


def pair(
    first=real, second=None, /, names=("input", "target"), fixed=False, special=True, **choices
):
    """An input and a target of one shape."""

    def make(d):
        shape = d.shape()
        target = (
            d.array(shape, second or first)
            if second is not _signs
            else _signs(d.rng, shape).astype(d.dtype)
        )
        call = {"input": d.array(shape, first), names[1]: Fixed(target) if fixed else target}
        return Call(call, d.pick({**REDUCTION, **choices}), d.choice([1, 2]))

    situations = tuple(s for s in SITUATIONS if special or s not in ("special", "ties"))
    return case(make, kinds=FLOATS, situations=situations)


def _signs(rng, shape):
    return rng.choice([-1.0, 1.0], shape)


def _classes(d, shape, count, ignore=None):
    classes = d.rng.integers(0, count, shape)
    if ignore is not None and classes.size > 1:
        classes.flat[0] = ignore
    return Fixed(classes)


def _class_input(d):
    count = d.integer(2, 4)
    how = d.choice(["alone", "batch", "spatial"])
    shape = {"alone": (count,), "batch": (d.integer(1, 3), count), "spatial": (2, count, 2)}[how]
    return count, shape, shape[:-1] if how != "spatial" else (2, 2)


def _weights(d, count):
    return {"weight": Fixed(d.rng.uniform(0.5, 2, count).astype(d.dtype))} if d.maybe() else {}


def _cross_entropy(d):
    count, shape, target = _class_input(d)
    if d.maybe():
        values = d.rng.dirichlet(np.ones(count), target if len(shape) > 1 else ())
        target = np.moveaxis(values, -1, 1) if len(shape) == 3 else values
        target = np.ascontiguousarray(target.astype(d.dtype))
        ignore = {}
    else:
        ignore = d.pick({"ignore_index": [0, -100, 1]})
        target = _classes(d, target, count, -100 if not ignore else ignore.get("ignore_index"))
    named = {**_weights(d, count), **ignore, **d.pick({**REDUCTION, "label_smoothing": [0.1]})}
    return Call({"input": d.array(shape), "target": target}, named)


def _nll(d):
    count, shape, target = _class_input(d)
    named = {**_weights(d, count), **d.pick({**REDUCTION, "ignore_index": [0]})}
    return Call({"input": d.array(shape), "target": _classes(d, target, count)}, named)


def _bce(domain):
    def make(d):
        shape = d.shape()
        target = d.array(shape, unit)
        if d.situation in ("special", "ties"):
            target = (d.rng.random(shape) < 0.5).astype(d.dtype)
        named = {"weight": Fixed(d.array(shape, positive))} if d.maybe() else {}
        given = d.array(shape, domain)
        if domain is unit and d.situation == "special":
            given = np.clip(given, 0, 1)
        if domain is real and d.maybe() and shape:
            named["pos_weight"] = Fixed(d.array(shape[-1:], positive))
        return Call({"input": given, "target": Fixed(target)}, {**named, **d.pick(REDUCTION)})

    return case(make, kinds=FLOATS, loose=4, second=1e3)  # PyTorch adds 1e-12 to denominators


def _kl(d):
    shape = d.shape(1)
    log_target = d.maybe()
    target = d.array(shape, real if log_target else positive)
    named = d.pick({"reduction": ["none", "mean", "sum", "batchmean"]})
    return Call({"input": d.array(shape), "target": target}, {"log_target": log_target, **named})


def _gaussian(d):
    shape = d.shape(1)
    call = {"input": d.array(shape), "target": d.array(shape), "var": d.array(shape, positive)}
    return Call(call, d.pick({**REDUCTION, "full": [True], "eps": [1e-3]}))


def _margin_ranking(d):
    shape = d.shape()
    call = {
        "input1": d.array(shape),
        "input2": d.array(shape),
        "target": Fixed(_signs(d.rng, shape).astype(d.dtype)),
    }
    return Call(call, d.pick({**REDUCTION, "margin": [0.5]}))


def _cosine_embedding(d):
    n = d.integer(1, 3)
    target = Fixed(d.rng.choice([-1, 1], n))
    call = {"input1": d.array((n, 3)), "input2": d.array((n, 3)), "target": target}
    return Call(call, d.pick({**REDUCTION, "margin": [0.3]}))


def _triplet(d):
    shape = (d.integer(1, 3), d.integer(1, 3))
    call = {name: d.array(shape) for name in ("anchor", "positive", "negative")}
    return Call(call, d.pick({**REDUCTION, "margin": [0.5, 3.0], "p": [1.0, 2.0], "swap": [True]}))


def _multi_margin(d):
    count = d.integer(2, 4)
    n = d.integer(1, 3)
    named = {**_weights(d, count), **d.pick({**REDUCTION, "p": [1, 2], "margin": [0.5]})}
    return Call({"input": d.array((n, count)), "target": _classes(d, (n,), count)}, named)


def _multilabel_margin(d):
    target = np.array([[0, 2, -1, 1], [3, -1, 0, 0], [-1, 0, 0, 0]])[: d.integer(1, 3)]
    return Call({"input": d.array(target.shape), "target": Fixed(target)}, d.pick(REDUCTION))


def _multilabel_soft(d):
    shape = (d.integer(1, 3), d.integer(1, 3))
    target = Fixed((d.rng.random(shape) < 0.5).astype(d.dtype))
    return Call(
        {"input": d.array(shape), "target": target}, {**_weights(d, shape[1]), **d.pick(REDUCTION)}
    )


def _ctc(d):
    t, n, c = 5, 2, 3
    logits = d.array((t, n, c))
    targets = Fixed(np.array([[1, 2], [2, 2]]))
    lengths = {"input_lengths": Fixed(np.array([5, 4])), "target_lengths": Fixed(np.array([2, 1]))}
    return Call(
        {"log_probs": logits, "targets": targets, **lengths},
        d.pick({**REDUCTION, "zero_infinity": [True]}),
    )


def _normalized_ctc(lib, log_probs, *args, **named):
    """PyTorch's gradient is that to what log_softmax is taken of."""
    return lib.nn.functional.ctc_loss(log_probs.log_softmax(2), *args, **named)


def _distance_triplet(lib, *tensors, **named):
    return lib.nn.functional.triplet_margin_with_distance_loss(
        *tensors, distance_function=lambda a, b: ((a - b) ** 2).sum(-1), **named
    )


def _distances(d):
    call = _triplet(d)
    call.keywords.pop("p", None)
    return Call(call.arguments, call.keywords)


TABLE = {
    "mse_loss": pair(),
    "l1_loss": pair(),
    "smooth_l1_loss": pair(beta=[0.5, 2.0]),
    "huber_loss": pair(delta=[0.5, 2.0]),
    "soft_margin_loss": pair(real, _signs, fixed=True),
    "hinge_embedding_loss": pair(real, _signs, fixed=True, margin=[0.5, 2.0]),
    "poisson_nll_loss": pair(real, positive, fixed=True, log_input=[True], full=[True], eps=[1e-3]),
    "kl_div": case(_kl, kinds=FLOATS),
    "gaussian_nll_loss": case(_gaussian, kinds=FLOATS).without("special", "ties", "empty"),
    "cross_entropy": case(_cross_entropy, kinds=FLOATS, loose=4),
    "nll_loss": case(_nll, kinds=FLOATS),
    "binary_cross_entropy": _bce(unit),
    "binary_cross_entropy_with_logits": _bce(real),
    "margin_ranking_loss": case(_margin_ranking, kinds=FLOATS),
    "cosine_embedding_loss": case(_cosine_embedding, kinds=FLOATS, loose=8).without(
        "special", "ties"
    ),
    "triplet_margin_loss": case(_triplet, kinds=FLOATS, loose=8).without("special", "ties"),
    "triplet_margin_with_distance_loss": case(
        _distances, run=_distance_triplet, kinds=FLOATS, loose=8
    ).without("special", "ties"),
    "multi_margin_loss": case(_multi_margin, kinds=FLOATS),
    "multilabel_margin_loss": case(_multilabel_margin, kinds=FLOATS),
    "multilabel_soft_margin_loss": case(_multilabel_soft, kinds=FLOATS, loose=8),
    "ctc_loss": case(_ctc, run=_normalized_ctc, kinds=FLOATS, loose=64).without("special", "ties"),
}
