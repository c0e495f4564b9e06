"""Random operators: compared in shape, dtype and statistics, since no two libraries draw the same numbers.

Each is a function of ``lib`` and a tensor ``x`` made from `LIKE`; `N` numbers are drawn at once.
"""

import numpy as np

N = 40_000
RNG = np.random.default_rng(0)
LIKE = {
    "ones": np.ones((N // 100, 100), "float32"),
    "halves": np.full((N // 100, 100), 0.3),
    "rows": np.ones((200, 4, 50), "float32"),
    "images": np.ones((200, 100, 2, 1), "float32"),
    "volumes": np.ones((200, 100, 2, 1, 1), "float32"),
    "weights": np.array([0.1, 0.0, 0.4, 0.5]),
    "logits": np.zeros((N // 4, 4)),
}


def dropped(name, like="ones", **named):
    return like, lambda lib, x: getattr(lib.nn.functional, name)(x, p=0.3, **named)


def filled(name, *args):
    """A method that writes random numbers to its tensor."""
    return "ones", lambda lib, x: getattr(x.clone(), name)(*args)


RANDOM = {
    "bernoulli": ("halves", lambda lib, x: lib.bernoulli(x)),
    "Tensor.bernoulli": ("halves", lambda lib, x: x.bernoulli()),
    "Tensor.bernoulli_": filled("bernoulli_", 0.3),
    "Tensor.cauchy_": ("ones", lambda lib, x: x.clone().cauchy_().atan()),  # Cauchy's has no mean
    "Tensor.exponential_": filled("exponential_", 2.0),
    "Tensor.geometric_": filled("geometric_", 0.3),
    "Tensor.log_normal_": filled("log_normal_", 0.5, 0.5),
    "Tensor.normal_": filled("normal_", 1.0, 2.0),
    "Tensor.random_": filled("random_", 3, 9),
    "Tensor.uniform_": filled("uniform_", -1.0, 3.0),
    "multinomial": ("weights", lambda lib, x: lib.multinomial(x, N, replacement=True)),
    "Tensor.multinomial": ("weights", lambda lib, x: x.multinomial(3)),
    "nn.functional.dropout": dropped("dropout"),
    "nn.functional.alpha_dropout": dropped("alpha_dropout", training=True),
    "nn.functional.feature_alpha_dropout": dropped("feature_alpha_dropout", "rows", training=True),
    "nn.functional.dropout1d": dropped("dropout1d", "rows"),
    "nn.functional.dropout2d": dropped("dropout2d", "images"),
    "nn.functional.dropout3d": dropped("dropout3d", "volumes"),
    "nn.functional.gumbel_softmax": (
        "logits",
        lambda lib, x: lib.nn.functional.gumbel_softmax(x, 0.7),
    ),
    "nn.functional.rrelu": (
        "ones",
        lambda lib, x: lib.nn.functional.rrelu(-x, 0.1, 0.4, training=True),
    ),
    "rand": ("ones", lambda lib, x: lib.rand(N // 10, 10)),
    "randn": ("ones", lambda lib, x: lib.randn((N // 10, 10), dtype=lib.float64)),
    "randint": ("ones", lambda lib, x: lib.randint(-2, 5, (N,))),
    "rand_like": ("ones", lambda lib, x: lib.rand_like(x)),
    "randn_like": ("halves", lambda lib, x: lib.randn_like(x)),
    "randint_like": ("ones", lambda lib, x: lib.randint_like(x, 1, 4)),
    "randperm": ("ones", lambda lib, x: lib.randperm(N)),
    "normal": ("ones", lambda lib, x: lib.normal(1.0, 0.5, (N,))),
}
