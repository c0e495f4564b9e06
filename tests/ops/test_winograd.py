"""Convolution with kernels of 3 by 3 in fewer products: values, errors, and when the other way is taken."""

import numpy as np
import pytest

import plugrad
from plugrad_ops.convolution import direct, host, layouts, reference, winograd
from plugrad_ops.convolution.geometry import windows

BEST = direct.instruction_sets()[1]
TOLERANCE = {np.float32: 1e-4, np.float64: 1e-12}

pytestmark = pytest.mark.skipif(BEST < 0, reason="there are no tiles for this machine")


@pytest.fixture(params=range(BEST + 1))
def instructions(request):
    direct.use_instruction_set(request.param)
    yield request.param
    direct.use_instruction_set(BEST)


def arrays(rng, w, images, inner, outer, groups, dtype):
    """Images, a kernel, a grad, and biases of both sides."""
    shapes = (
        (images, inner * groups, *w.size),
        (outer * groups, inner, 3, 3),
        (images, outer * groups, *w.out),
        (outer * groups,),
        (inner * groups,),
    )
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def forward(w, x, kernel, bias, groups):
    shape = (x.shape[0], kernel.shape[0], *w.out)
    return winograd.convolve(x, kernel, bias, shape, w.squares[0], groups, False)


def adjoint(w, g, kernel, bias, groups):
    shape = (g.shape[0], kernel.shape[1] * groups, *w.size)
    return winograd.convolve(g, kernel, bias, shape, w.squares[1], groups, True)


def near(found, wanted, hint=""):
    limit = TOLERANCE[found.dtype.type] * max(1.0, np.abs(wanted).max())
    np.testing.assert_allclose(found, wanted, rtol=0, atol=limit, err_msg=hint)


@pytest.mark.parametrize("seed", range(25))
def test_any_windows(instructions, seed):
    rng = np.random.default_rng(seed)
    size = tuple(int(v) for v in rng.integers(1, 20, 2))
    padding = []
    for length in size:
        low, high = int(rng.integers(0, 4)), int(rng.integers(0, 3))
        padding.append((low, max(high, 3 - length - low)))
    w = windows("test", size, (3, 3), (1, 1), tuple(padding), (1, 1))
    groups, inner, outer = (
        int(rng.integers(1, 3)),
        int(rng.integers(1, 20)),
        int(rng.integers(1, 20)),
    )
    dtype = (np.float32, np.float64)[seed % 2]
    x, kernel, g, bias, other = arrays(rng, w, int(rng.integers(1, 5)), inner, outer, groups, dtype)
    hint = f"seed {seed}: {w}, groups={groups}, {inner} -> {outer}"
    near(
        forward(w, x, kernel, bias, groups),
        reference.convolution(w, x, kernel, bias, groups),
        hint,
    )
    near(
        adjoint(w, g, kernel, None, groups),
        reference.convolution_input(w, g, kernel, None, groups),
        hint,
    )
    near(
        adjoint(w, g, kernel, other, groups),
        reference.convolution_input(w, g, kernel, other, groups),
        hint,
    )


def test_more_channels_than_are_summed_at_once():
    w = windows("test", (6, 5), (3, 3), (1, 1), (1, 1), (1, 1))
    x, kernel, _, bias, _ = arrays(np.random.default_rng(1), w, 2, 600, 3, 1, np.float64)
    near(forward(w, x, kernel, bias, 1), reference.convolution(w, x, kernel, bias, 1))


def test_more_images_than_are_laid_out_at_a_time():
    w = windows("test", (120, 128), (3, 3), (1, 1), (1, 1), (1, 1))
    x, kernel, *_ = arrays(np.random.default_rng(2), w, 3, 40, 2, 1, np.float32)
    near(forward(w, x, kernel, None, 1), reference.convolution(w, x, kernel, None, 1))


def test_errors_are_those_of_plain_sums():
    w = windows("test", (28, 28), (3, 3), (1, 1), (1, 1), (1, 1))
    x, kernel, *_ = arrays(np.random.default_rng(3), w, 2, 128, 32, 1, np.float32)
    wanted = reference.convolution(w, x.astype(float), kernel.astype(float), None, 1)
    plain = direct.correlate(x, kernel, None, wanted.shape, *w.forward, 1, False)
    errors = [np.sqrt(np.mean((y - wanted) ** 2)) for y in (plain, forward(w, x, kernel, None, 1))]
    assert errors[1] < 3 * errors[0]


def test_small_integers_stay_exact():
    w = windows("test", (9, 9), (3, 3), (1, 1), (1, 1), (1, 1))
    rng = np.random.default_rng(4)
    x = rng.integers(-8, 9, (2, 40, 9, 9)).astype(np.float32)
    kernel = rng.integers(-8, 9, (40, 40, 3, 3)).astype(np.float32)
    wanted = reference.convolution(w, x, kernel, None, 1)
    np.testing.assert_array_equal(forward(w, x, kernel, None, 1), wanted)


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e30])
@pytest.mark.parametrize("where", ["images", "kernel"])
def test_elements_that_are_not_moderate_take_another_way(value, where):
    w = windows("test", (20, 21), (3, 3), (1, 1), (1, 1), (1, 1))
    x, kernel, g, *_ = arrays(np.random.default_rng(5), w, 1, 32, 32, 1, np.float32)
    assert host._has_squares(w, x, kernel, w.count, 1)
    if where == "images":
        x[0, 3, 10, 11] = g[0, 3, 10, 11] = value
    else:
        kernel[5, 6, 1, 1] = value
    with np.errstate(invalid="ignore", over="ignore"):
        found = (
            host.convolution(w, x, kernel, None, 1),
            host.convolution_input(w, g, kernel, None, 1),
        )
        wanted = (
            reference.convolution(w, x, kernel, None, 1),
            reference.convolution_input(w, g, kernel, None, 1),
        )
    for one, same in zip(found, wanted):
        np.testing.assert_allclose(one, same, rtol=1e-3, atol=1e-2)


def test_threads_do_not_change_a_bit():
    w = windows("test", (30, 31), (3, 3), (1, 1), (1, 1), (1, 1))
    x, kernel, g, bias, other = arrays(np.random.default_rng(6), w, 5, 33, 40, 1, np.float32)
    found, before = [], plugrad.get_num_threads()
    try:
        for threads in (1, 2, 3):
            plugrad.set_num_threads(threads)
            found.append((forward(w, x, kernel, bias, 1), adjoint(w, g, kernel, other, 1)))
    finally:
        plugrad.set_num_threads(before)
    for several in found[1:]:
        for one, same in zip(found[0], several):
            np.testing.assert_array_equal(one, same)


def test_other_windows_have_no_squares():
    for kernel, stride, dilation in (((2, 3), 1, 1), ((3, 3), 2, 1), ((3, 3), 1, 2)):
        w = windows("test", (9, 9), kernel, (stride,) * 2, (0, 0), (dilation,) * 2)
        assert w.squares is None


def test_squares_lie_as_windows_two_apart():
    layout = layouts.squares((4, 6), (4, 6), (1, 1))
    assert layout.rows == (1, 3, 4)
    assert layout.phases.tolist() == [0, 0, 1, 0, 1]
