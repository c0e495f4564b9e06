"""Pooling against plain loops and known numbers: ties, NaN, padding, rounding up, what bad calls say."""

import itertools

import numpy as np
import pytest

import plugrad
import plugrad.nn.functional as F
from plugrad import Tensor
from plugrad_ops.convolution import maxima

NAN = np.nan


def distinct(*shape):
    return np.random.default_rng([7, *shape]).permutation(np.prod(shape)).reshape(shape) / 8


def leaf(values):
    return Tensor(np.array(values, dtype=np.float64), requires_grad=True)


def by_loops(x, kernel, stride, padding, ceil_mode, reduce):
    """`reduce` of the elements of each window that lie in the image, and the length with padding."""
    n = len(kernel)
    ends = []
    for length, k in zip(x.shape[-n:], kernel):
        steps = (length + 2 * padding - k) / stride
        count = int(np.ceil(steps) if ceil_mode else np.floor(steps)) + 1
        begin = [i * stride - padding for i in range(count)]
        ends.append([(b, min(b + k, length + padding)) for b in begin if b < length])
    out = np.empty((*x.shape[:-n], *map(len, ends)))
    for place in itertools.product(*(range(len(e)) for e in ends)):
        window = [e[i] for e, i in zip(ends, place)]
        where = tuple(slice(max(b, 0), min(e, m)) for (b, e), m in zip(window, x.shape[-n:]))
        seen = x[(..., *where)].reshape(*x.shape[:-n], -1)
        out[(..., *place)] = reduce(seen, np.prod([e - b for b, e in window]))
    return out


CALLS = [
    (kernel, stride, padding, ceil_mode)
    for kernel, stride, padding in ((2, 2, 0), (3, 1, 1), (3, 2, 1), (2, 3, 1))
    for ceil_mode in (False, True)
]


@pytest.mark.parametrize(("kernel", "stride", "padding", "ceil_mode"), CALLS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_values(n, kernel, stride, padding, ceil_mode):
    x = distinct(2, 2, *(6, 5, 4)[:n])
    given = ((kernel,) * n, stride, padding, ceil_mode)

    def pooled(name, **options):
        function = getattr(F, f"{name}_pool{n}d")
        return function(Tensor(x), kernel, stride, padding, ceil_mode=ceil_mode, **options).array

    np.testing.assert_array_equal(pooled("max"), by_loops(x, *given, lambda seen, _: seen.max(-1)))
    inside = by_loops(x, *given, lambda seen, _: seen.mean(-1))
    np.testing.assert_allclose(pooled("avg", count_include_pad=False), inside, rtol=1e-12)
    whole = by_loops(x, *given, lambda seen, length: seen.sum(-1) / length)
    np.testing.assert_allclose(pooled("avg"), whole, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_indices_count_the_elements_of_a_plane(n):
    x = distinct(2, 3, *(6, 5, 4)[:n])
    for name, args in (("max_pool", (2, 1, 1)), ("adaptive_max_pool", (3,))):
        values, indices = getattr(F, f"{name}{n}d")(Tensor(x), *args, return_indices=True)
        assert indices.dtype == np.int64
        found = np.take_along_axis(x.reshape(6, -1), indices.array.reshape(6, -1), 1)
        np.testing.assert_array_equal(found.reshape(values.shape), values.array)


def test_the_first_of_equal_elements_gets_the_gradient():
    x = leaf([[1.0, 3.0, 3.0, 3.0]])
    values, indices = F.max_pool1d(x, 2, 1, return_indices=True)
    assert indices.tolist() == [[1, 1, 2]]
    (g,) = plugrad.autograd.grad(values.sum(), x)
    assert g.tolist() == [[0.0, 2.0, 1.0, 0.0]]


def test_nan_is_the_greatest_and_minus_infinity_can_be():
    x = leaf([[1.0, NAN, 2.0, -np.inf, -np.inf]])
    values, indices = F.max_pool1d(x, 2, 1, return_indices=True)
    np.testing.assert_array_equal(values.array, [[NAN, NAN, 2.0, -np.inf]])
    assert indices.tolist() == [[1, 1, 2, 3]]


def test_padding_is_never_the_greatest():
    out = F.max_pool1d(leaf([[-1.0, -2.0]]), 2, 1, 1)
    assert out.tolist() == [[-1.0, -1.0, -2.0]]


def test_dilation():
    out, indices = F.max_pool1d(leaf([[5.0, 1.0, 2.0, 9.0, 0.0]]), 2, 1, 0, 2, return_indices=True)
    assert out.tolist() == [[5.0, 9.0, 2.0]]
    assert indices.tolist() == [[0, 3, 2]]


def test_averages_of_equal_numbers_are_exact():
    x = np.full((1, 9, 9), 0.3, np.float32)
    np.testing.assert_array_equal(F.avg_pool2d(Tensor(x), 3).array, np.full((1, 3, 3), 0.3, "f4"))


def test_divisor_override():
    assert F.avg_pool2d(Tensor(np.ones((1, 2, 2))), 2, divisor_override=8).tolist() == [[[0.5]]]
    with pytest.raises(RuntimeError, match="must not be 0"):
        F.avg_pool2d(Tensor(np.ones((1, 2, 2))), 2, divisor_override=0)


def test_adaptive_windows_cover_the_image():
    x = np.arange(7.0).reshape(1, 7)
    assert F.adaptive_avg_pool1d(Tensor(x), 3).tolist() == [[1.0, 3.0, 5.0]]
    assert F.adaptive_max_pool1d(Tensor(x), 3).tolist() == [[2.0, 4.0, 6.0]]
    assert F.adaptive_avg_pool1d(Tensor(x[:, :2]), 4).tolist() == [[0.0, 0.0, 1.0, 1.0]]
    y = Tensor(distinct(2, 3, 5, 4))
    assert F.adaptive_avg_pool2d(y, (None, 2)).shape == (2, 3, 5, 2)
    assert F.adaptive_max_pool2d(y, 0).shape == (2, 3, 0, 0)
    np.testing.assert_allclose(
        F.adaptive_avg_pool2d(y, 1).array[..., 0, 0], y.array.mean((2, 3)), rtol=1e-12
    )


def test_norms():
    x = leaf([[3.0, 4.0, 0.0, 0.0]])
    out = F.lp_pool1d(x, 2, 2)
    assert out.tolist() == [[5.0, 0.0]]
    assert F.lp_pool2d(Tensor(np.ones((1, 2, 2))), 1, 2).tolist() == [[[4.0]]]


def test_float16_is_summed_in_float32():
    x = np.full((1, 4096), 1.0, np.float16)
    out = F.avg_pool1d(Tensor(x), 4096)
    assert out.dtype == np.float16
    assert out.tolist() == [[1.0]]


def test_second_derivative_of_maxima():
    x = leaf([[1.0, 3.0, 2.0]])
    (g,) = plugrad.autograd.grad((F.max_pool1d(x, 2, 1) ** 3).sum(), x, create_graph=True)
    (h,) = plugrad.autograd.grad(g.sum(), x)
    assert h.tolist() == [[0.0, 36.0, 0.0]]


@pytest.mark.parametrize("name", ["max", "avg"])
@pytest.mark.parametrize(
    ("shape", "args", "words"),
    [
        ((1, 2, 5, 5), (3, 1, 2), "at most half"),
        ((1, 2, 5, 5), (3, 1, -1), "non-negative"),
        ((1, 2, 5, 5), (7,), r"spatial shape \(0, 0\)"),
        ((1, 2, 5, 5), (3, 0), "stride must be positive"),
        ((1, 2, 5, 5), (0,), "kernel_size must be positive"),
        ((1, 2, 5, 5), ((1, 2, 3),), "kernel_size must be an integer or 2"),
        ((5, 5), (2,), "expected an input of 3 dimensions"),
        ((2, 0, 4, 4), (2,), "only the batch may be empty"),
    ],
)
def test_bad_calls(name, shape, args, words):
    with pytest.raises(RuntimeError, match=f"{name}_pool2d: .*{words}"):
        getattr(F, f"{name}_pool2d")(Tensor(np.zeros(shape)), *args)


def test_bad_adaptive_calls():
    x = Tensor(np.zeros((1, 2, 4, 4)))
    with pytest.raises(RuntimeError, match="non-negative"):
        F.adaptive_avg_pool2d(x, -1)
    with pytest.raises(RuntimeError, match="output_size must be an integer or 2"):
        F.adaptive_avg_pool2d(x, (1, 2, 3))
    with pytest.raises(RuntimeError, match="in the padding altogether"):
        F.max_pool1d(Tensor(np.zeros((1, 1))), 2, 2, 1, 2)


@pytest.mark.parametrize("seed", range(30))
def test_maxima_over_any_windows(seed):
    """Against plain loops, with many equal elements, infinities and nan."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 4))
    size = tuple(int(v) for v in rng.integers(1, 40 if n < 3 else 9, n))
    spans = []
    for length in size:
        kernel, dilation = int(rng.integers(1, min(length, 4) + 1)), int(rng.integers(1, 3))
        dilation = dilation if (kernel - 1) * dilation < length else 1
        padding = int(rng.integers(0, ((kernel - 1) * dilation + 1) // 2 + 1))
        window = ("window", kernel, int(rng.integers(1, 5)), padding, dilation, False)
        spans.append(
            ("adaptive", int(rng.integers(1, length + 1))) if rng.integers(4) == 0 else window
        )
    x = rng.integers(-3, 4, (2, 2, *size)).astype((np.float32, np.float64)[seed % 2])
    x[rng.random(x.shape) < 0.1] = np.nan
    x[rng.random(x.shape) < 0.2] = -np.inf
    values, indices = maxima._on_host(x, spans=tuple(spans))
    wanted = maxima.max_over_windows.function(x, spans=tuple(spans))
    np.testing.assert_array_equal(values, wanted[0], err_msg=f"seed {seed}: {size}, {spans}")
    np.testing.assert_array_equal(indices, wanted[1], err_msg=f"seed {seed}: {size}, {spans}")


def test_many_planes_are_shared_out():
    x = np.random.default_rng(7).standard_normal((9, 11, 40, 38)).astype(np.float32)
    given = leaf(x)
    pooled = F.max_pool2d(given, 2)
    wanted = x.reshape(9, 11, 20, 2, 19, 2).max((3, 5))
    np.testing.assert_array_equal(pooled.array, wanted)
    pooled.sum().backward()
    greatest = np.repeat(np.repeat(wanted, 2, axis=2), 2, axis=3) == x
    np.testing.assert_array_equal(given.grad.array, greatest)
