"""Convolution by tiles against NumPy: any shape, for each set of instructions that the machine has."""

import numpy as np
import pytest

import plugrad
from plugrad_ops.convolution import direct, host, layouts, reference
from plugrad_ops.convolution.geometry import windows

COMPILED, BEST = direct.instruction_sets()
TOLERANCE = {np.float32: (1e-4, 1e-4), np.float64: (1e-10, 1e-12)}

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
        (outer * groups, inner, *w.kernel),
        (images, outer * groups, *w.out),
        (outer * groups,),
        (inner * groups,),
    )
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def compare(w, x, kernel, g, bias, other, groups, hint):
    rtol, atol = TOLERANCE[x.dtype.type]
    for found, wanted in (
        (
            host.convolution(w, x, kernel, bias, groups),
            reference.convolution(w, x, kernel, bias, groups),
        ),
        (
            host.convolution_input(w, g, kernel, other, groups),
            reference.convolution_input(w, g, kernel, other, groups),
        ),
        (
            host.convolution_weight(w, g, x, groups),
            reference.convolution_weight(w, g, x, groups),
        ),
    ):
        assert found.dtype == x.dtype
        scale = np.max(np.abs(wanted), initial=1.0, where=np.isfinite(wanted))
        np.testing.assert_allclose(found, wanted, rtol, atol * scale, err_msg=hint)


def some_windows(rng):
    """Windows with strides, dilation, and padding in front and behind, in one to three dimensions."""
    n = rng.integers(1, 4)
    size = [int(v) for v in rng.integers(1, 20, n)]
    kernel = [int(rng.integers(1, min(s, 5) + 1)) for s in size]
    stride = [int(v) for v in rng.integers(1, 4, n)]
    dilation = [int(rng.integers(1, 4)) for _ in size]
    padding = []
    for s, k, d in zip(size, kernel, dilation):
        low, high = int(rng.integers(0, 4)), int(rng.integers(-2, 4))
        padding.append((low, max(high, d * (k - 1) + 1 - s - low)))
    return windows(
        "test", tuple(size), tuple(kernel), tuple(stride), tuple(padding), tuple(dilation)
    )


@pytest.mark.parametrize("seed", range(25))
def test_any_windows(instructions, seed):
    rng = np.random.default_rng(seed)
    w = some_windows(rng)
    groups, inner, outer = (
        int(rng.integers(1, 4)),
        int(rng.integers(1, 5)),
        int(rng.integers(1, 12)),
    )
    dtype = (np.float32, np.float64)[seed % 2]
    given = arrays(rng, w, int(rng.integers(1, 4)), inner, outer, groups, dtype)
    if seed % 3 == 0:
        given[3:] = None, None
    compare(w, *given, groups, f"seed {seed}: {w}, groups={groups}, {inner} -> {outer}")


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "inner", "outer", "groups"),
    [
        ((9, 11), (3, 3), (1, 1), 70, 17, 1),  # a sum in several pieces
        ((40, 3), (3, 3), (1, 1), 1, 1, 37),  # each channel by itself
        ((100,), (9,), (1,), 1, 16, 1),
        ((13, 13), (1, 1), (1, 1), 24, 40, 1),
        ((13, 13), (1, 1), (3, 3), 24, 8, 1),  # most elements are never seen
        ((5, 5), (5, 5), (1, 1), 6, 70, 1),  # one place, many rows
    ],
)
def test_some_sizes(instructions, size, kernel, stride, inner, outer, groups):
    n = len(size)
    w = windows("test", size, kernel, stride, (1,) * n if kernel[0] == 3 else (0,) * n, (1,) * n)
    for dtype in (np.float32, np.float64):
        rng = np.random.default_rng([inner, outer])
        compare(w, *arrays(rng, w, 3, inner, outer, groups, dtype), groups, str(w))


def test_more_images_than_are_laid_out_at_a_time():
    w = windows("test", (90, 128), (3, 3), (1, 1), (1, 1), (1, 1))
    compare(w, *arrays(np.random.default_rng(3), w, 5, 64, 3, 1, np.float32), 1, "")


def test_strided_and_empty_arrays():
    w = windows("test", (6, 5), (3, 2), (2, 1), (1, 0), (1, 1))
    x, kernel, g, bias, other = arrays(np.random.default_rng(4), w, 4, 3, 5, 1, np.float64)
    spread = [np.asfortranarray(v)[::-1] for v in (x, kernel, g)]
    compare(w, *spread, bias[::-1], other[::-1], 1, "")
    compare(w, x[:0], kernel, g[:0], bias, other, 1, "no images")


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_infinities_stay_where_they_belong(value):
    """Padding that is multiplied would make nan of what no window sees."""
    w = windows("test", (5, 6), (3, 3), (1, 1), (1, 1), (1, 1))
    x, kernel, g, *_ = arrays(np.random.default_rng(5), w, 2, 2, 3, 1, np.float64)
    for array, place in ((kernel, (0, 0, 0, 0)), (x, (0, 1, 0, 5)), (g, (1, 2, 4, 5))):
        kept = array[place]
        array[place] = value
        with np.errstate(invalid="ignore"):
            compare(w, x, kernel, g, None, None, 1, "")
        array[place] = kept


def test_threads_do_not_change_a_bit():
    w = windows("test", (30, 31), (3, 3), (1, 1), (1, 1), (1, 1))
    x, kernel, g, bias, other = arrays(np.random.default_rng(6), w, 5, 16, 24, 1, np.float32)
    found, before = [], plugrad.get_num_threads()
    try:
        for threads in (1, 2, 3):
            plugrad.set_num_threads(threads)
            found.append(
                (
                    host.convolution(w, x, kernel, bias, 1),
                    host.convolution_input(w, g, kernel, other, 1),
                    host.convolution_weight(w, g, x, 1),
                )
            )
    finally:
        plugrad.set_num_threads(before)
    for several in found[1:]:
        for one, same in zip(found[0], several):
            np.testing.assert_array_equal(one, same)


def test_unknown_instructions_are_refused():
    for number in (-2, BEST + 1):
        with pytest.raises(ValueError, match="no tiles"):
            direct.use_instruction_set(number)


def test_other_arrays_are_refused():
    w = windows("test", (4,), (2,), (1,), (0,), (1,))
    x, kernel = np.ones((1, 1, 4)), np.ones((1, 1, 2), np.float32)
    with pytest.raises(ValueError, match="C-contiguous"):
        direct.correlate(x, kernel, None, (1, 1, 3), *w.forward, 1, False)


# ---- where elements lie ----------------------------------------------------------------------------------------------


def test_padding_is_shared_by_rows():
    layout, (grid,) = layouts.forward(windows("test", (4, 6), (3, 3), (1, 1), (1, 1), (1, 1)))
    assert layout.rows == (1, 6, 7)
    assert grid.offsets.tolist() == [0, 1, 2, 7, 8, 9, 14, 15, 16]


def test_steps_are_taken_apart():
    layout, (grid,) = layouts.forward(windows("test", (8,), (3,), (2,), (0,), (1,)))
    assert layout.rows == (1, 1, 4)
    assert grid.offsets.tolist() == [0, 4, 1]  # the second tap sees the odd elements


def test_the_adjoint_has_a_grid_for_each_remainder():
    _, grids = layouts.adjoint(windows("test", (8,), (3,), (2,), (0,), (1,)))
    assert [grid.taps.tolist() for grid in grids] == [[0, 2], [1]]
