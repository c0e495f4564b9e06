"""Inputs of the operators that networks are built of; `cases` tells how they are written."""

from math import isqrt

import numpy as np

from .inputs import labelled, matrix, pair, rows, vector

CHANNELS = 4


def images(make, elements, n=2):
    """One image with `n` spatial dimensions: of four channels or, in space, of one and four layers."""
    half = isqrt(elements) // 2
    lengths = {1: (half * half,), 2: (half, half), 3: (4, half, half)}[n]
    return make.normal(1, 1 if n == 3 else CHANNELS, *lengths)


def image(*numbers, n=2, **constants):
    """An operator of an image whose other arguments do not depend on its size."""
    return lambda make, elements: make.call(images(make, elements, n), *numbers, **constants)


def kernel(make, n):
    """A kernel from the channels of such an image to as many: 3 wide, 2 wide in space."""
    width, channels = (2, 1) if n == 3 else (3, CHANNELS)
    return make.normal(channels, channels, *[width] * n), make.normal(channels)


def windows(n=2, width=3, padding=1):
    """The constants of windows that move by one element."""
    return {
        "stride": (1,) * n,
        "padding": (padding,) * n,
        "dilation": (1,) * n,
    } | ({"kernel_size": (width,) * n} if width else {})


def convolved(n):
    """An operator of an image, a kernel and a bias."""
    return lambda make, elements: make.call(images(make, elements, n), *kernel(make, n), padding=1)


def channelwise(*numbers):
    """An operator of an image and of a weight and a bias for each channel."""
    return lambda make, n: make.call(
        images(make, n), *numbers, make.normal(CHANNELS), make.normal(CHANNELS)
    )


def folded(call):
    """An operator of what windows of 2 by 2 see of one image, and of that image's size."""
    return lambda make, n: call(make, make.normal(1, 4, n // 4), (isqrt(n) // 2 + 1,) * 2)


def interpolated(source, target):
    """A linear interpolation in both dimensions of a matrix."""
    return (("linear", source, target, False, None),) * 2


def theta(make, n):
    """An affine map of the plane for each picture of 5 by 10 points, of two coordinates each."""
    return make.call(make.normal(n // 100, 2, 3), (n // 100, 1, 5, 10))


CONVOLUTION = {
    **{f"conv{n}d": convolved(n) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": convolved(n) for n in (1, 2, 3)},
    **{f"avg_pool{n}d": image(2, n=n) for n in (1, 2, 3)},
    **{f"max_pool{n}d": image(2, n=n) for n in (1, 2, 3)},
    **{f"lp_pool{n}d": image(2, 2, n=n) for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": image(3, n=n) for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": image(3, n=n) for n in (1, 2, 3)},
    "max_over_windows": image(spans=(("window", 3, 2, 1, 1, False),) * 2),
    "convolution": lambda make, n: make.call(
        images(make, n), *kernel(make, 2), **windows(width=None)
    ),
    "convolution_input": lambda make, n: make.call(
        images(make, n), *kernel(make, 2), size=(isqrt(n) // 2,) * 2, **windows(width=None)
    ),
    "convolution_weight": lambda make, n: make.call(images(make, n), images(make, n), **windows()),
    "im2col": image(**windows()),
    "unfold_images": image(3, padding=1),
    "col2im": folded(
        lambda make, seen, size: make.call(seen, output_size=size, **windows(width=2, padding=0))
    ),
    "fold_images": folded(lambda make, seen, size: make.call(seen, size, 2)),
    "unfold": rows(dimension=1, size=3, step=2),
    "unfold_adjoint": lambda make, n: make.call(
        make.normal(isqrt(n), isqrt(n) // 2 - 1, 2), (isqrt(n), isqrt(n) // 2), 1, 2, 1
    ),
    "interpolate": image(scale_factor=2, mode="bilinear"),
    "resample": lambda make, n: make.call(
        matrix(make, n), maps=interpolated(isqrt(n), 2 * isqrt(n))
    ),
    "resample_adjoint": lambda make, n: make.call(
        matrix(make, n), maps=interpolated(isqrt(n) // 2, isqrt(n))
    ),
    "grid_sample": lambda make, n: make.call(
        images(make, n), make.uniform(1, isqrt(n) // 2, isqrt(n) // 2, 2)
    ),
    "affine_grid": theta,
    "pixel_shuffle": image(2),
    "pixel_unshuffle": lambda make, n: make.call(make.normal(1, 1, isqrt(n), isqrt(n)), 2),
    "channel_shuffle": image(2),
}

NORMALIZATION = {
    "layer_norm": lambda make, n: make.call(
        matrix(make, n), isqrt(n), make.normal(isqrt(n)), make.normal(isqrt(n))
    ),
    "rms_norm": lambda make, n: make.call(matrix(make, n), isqrt(n), make.normal(isqrt(n))),
    "normalize_rows": lambda make, n: make.call(
        matrix(make, n), make.normal(isqrt(n)), make.normal(isqrt(n)), length=isqrt(n)
    ),
    "normalize_batch": channelwise(),
    "group_norm": channelwise(2),
    "instance_norm": channelwise(),
    "local_response_norm": image(3),
    "scaled_dot_product_attention": lambda make, n: make.call(*(matrix(make, n) for _ in range(3))),
}


def signs(make, count):
    """Labels 1 and -1."""
    return 2 * make.integers(count, high=2) - 1


def counts(make, n):
    """Numbers of any sign, and the positive ones that they shall tell."""
    return make.call(make.normal(n), make.positive(n))


def two_labels(make, n):
    """Scores of ten classes, and two labels for each row, which -1 ends."""
    target = np.full((n // 10, 10), -1)
    target[:, :2] = make.integers(n // 10, 2, high=10)
    return make.call(make.normal(n // 10, 10), target)


def vectors(make, n):
    """Two matrices whose rows are compared."""
    return make.call(matrix(make, n), matrix(make, n))


def sequences(make, n):
    """Ten classes at each time, and five labels for each sequence."""
    time, count = isqrt(n), isqrt(n) // 10
    lengths = np.full(count, time), np.full(count, 5)
    targets = make.integers(count, 5, low=1, high=10)
    return make.call(make.normal(time, count, 10) - 2.0, targets, *lengths)


LOSS = {
    **dict.fromkeys(("huber_loss", "smooth_l1_loss"), pair),
    **dict.fromkeys(("kl_div", "poisson_nll_loss"), counts),
    **dict.fromkeys(("pairwise_distance", "cosine_similarity"), vectors),
    **dict.fromkeys(("ctc_loss", "ctc_losses"), sequences),
    **dict.fromkeys(
        ("hinge_embedding_loss", "soft_margin_loss"),
        lambda make, n: make.call(make.normal(n), signs(make, n)),
    ),
    "margin_ranking_loss": lambda make, n: make.call(
        make.normal(n), make.normal(n), signs(make, n), margin=0.5
    ),
    "cosine_embedding_loss": lambda make, n: make.call(
        matrix(make, n), matrix(make, n), signs(make, isqrt(n)), margin=-0.5
    ),
    "triplet_margin_loss": lambda make, n: make.call(*(matrix(make, n) for _ in range(3))),
    "multi_margin_loss": labelled,
    "multilabel_margin_loss": two_labels,
    "multilabel_soft_margin_loss": lambda make, n: make.call(
        matrix(make, n), make.integers(isqrt(n), isqrt(n), high=2)
    ),
    "gaussian_nll_loss": lambda make, n: make.call(
        make.normal(n), make.normal(n), make.positive(n)
    ),
    "cdist": lambda make, n: make.call(
        make.normal(n // 100, 10, 10), make.normal(n // 100, 10, 10)
    ),
    "pdist": lambda make, n: make.call(make.normal(10, n // 10)),
}

ACTIVATION = {
    "glu": rows(dim=-1),
    "prelu": lambda make, n: make.call(images(make, n), make.normal(CHANNELS)),
    **dict.fromkeys(("softmax_in", "log_softmax_in"), rows(dim=-1)),
}

RANDOM = {
    **dict.fromkeys(("uniform_", "normal_", "log_normal_", "exponential_", "cauchy_"), vector()),
    **dict.fromkeys(("random_", "bernoulli_", "fill_permutation", "alpha_dropout"), vector()),
    **dict.fromkeys(("feature_dropout", "feature_alpha_dropout"), rows()),
    "geometric_": vector(p=0.25),
    "multinomial": lambda make, n: make.call(
        make.positive(isqrt(n), isqrt(n)), num_samples=isqrt(n) // 2
    ),
    "rrelu": vector(training=True),
}

FAMILIES = (CONVOLUTION, NORMALIZATION, LOSS, ACTIVATION, RANDOM)
