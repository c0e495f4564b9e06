"""Resizing of images and moving channels into space: known numbers, adjoints, what bad calls say."""

import numpy as np
import pytest

import plugrad
import plugrad.nn.functional as F
from plugrad import Tensor, ops

MODES = [("nearest", 1), ("nearest-exact", 2), ("area", 2), ("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3)]  # fmt: skip


def row(*values):
    return Tensor(np.array(values, dtype=np.float64).reshape(1, 1, -1))


def resized(x, *args, **kwargs):
    return F.interpolate(x, *args, **kwargs).array.reshape(-1).tolist()


def test_nearest():
    assert resized(row(1, 2, 3), 5) == [1, 1, 2, 2, 3]
    assert resized(row(1, 2, 3), 5, mode="nearest-exact") == [1, 1, 2, 3, 3]
    assert resized(row(1, 2, 3, 4), scale_factor=0.5) == [1, 3]


def test_linear():
    assert resized(row(0, 4), 4, mode="linear") == [0, 1, 3, 4]
    assert resized(row(0, 3), 4, mode="linear", align_corners=True) == [0, 1, 2, 3]
    assert resized(row(7), 3, mode="linear") == [7, 7, 7]


def test_bilinear_is_linear_in_both_directions():
    x = Tensor(np.arange(4.0).reshape(1, 1, 2, 2))
    out = F.interpolate(x, 3, mode="bilinear", align_corners=True)
    assert out.tolist() == [[[[0.0, 0.5, 1.0], [1.0, 1.5, 2.0], [2.0, 2.5, 3.0]]]]


def test_area_averages():
    assert resized(row(1, 2, 3, 4, 5), 2, mode="area") == [2, 4]


@pytest.mark.parametrize(("mode", "n"), MODES)
def test_constants_stay(mode, n):
    x = Tensor(np.full((2, 3, *(5, 4, 3)[:n]), 0.7))
    out = F.interpolate(x, scale_factor=1.7, mode=mode)
    np.testing.assert_allclose(out.array, 0.7, rtol=1e-12)
    assert out.shape == (2, 3, *(8, 6, 5)[:n])


def test_bicubic_keeps_straight_lines():
    """At half steps, by symmetry; at others a kernel of -0.75 does not."""
    out = resized(Tensor(np.tile(np.arange(6.0), (1, 1, 6, 1))), (6, 11), mode="bicubic", align_corners=True)  # fmt: skip
    np.testing.assert_allclose(out[4:7], [2.0, 2.5, 3.0], atol=1e-12)


def test_factor_or_resulting_size_decides_where_to_look():
    x = row(*range(5))
    by_factor = resized(x, scale_factor=1.5, mode="linear")
    by_size = resized(x, scale_factor=1.5, mode="linear", recompute_scale_factor=True)
    assert by_size == resized(x, 7, mode="linear")
    assert by_factor != by_size


@pytest.mark.parametrize("align", [True, False])
def test_infinity_reaches_no_further_than_its_weight(align):
    x = row(1, np.inf, 2)
    out = resized(x, 5 if align else 9, mode="linear", align_corners=align)
    assert out[0] == 1 and out[-1] == 2
    assert not np.isnan(out).any()


@pytest.mark.parametrize(("mode", "n"), MODES)
def test_adjoint(mode, n):
    rng = np.random.default_rng(3)
    x = Tensor(rng.standard_normal((2, 1, *(5, 3, 2)[:n])), requires_grad=True)
    out = F.interpolate(x, (7, 2, 3)[:n], mode=mode)
    seed = Tensor(rng.standard_normal(out.shape))
    (g,) = plugrad.autograd.grad(out, x, seed)
    np.testing.assert_allclose((out * seed).sum().item(), (g * x).sum().item(), rtol=1e-10)


def test_resample_goes_along_the_last_dimensions():
    out = ops.resample(Tensor(np.array([2.0, 4.0, 6.0])), maps=(("adaptive", 3, 1),))
    assert out.tolist() == [4.0]


@pytest.mark.parametrize(
    ("error", "words", "given"),
    [
        (ValueError, "one of size and scale_factor", {}),
        (ValueError, "one of size and scale_factor", {"size": 3, "scale_factor": 2.0}),
        (ValueError, "one per spatial dimension", {"size": (3,)}),
        (ValueError, "one per spatial dimension", {"scale_factor": (3.0,)}),
        (NotImplementedError, "got mode 'cubic'", {"size": 3, "mode": "cubic"}),
        (NotImplementedError, "got mode 'linear'", {"size": 3, "mode": "linear"}),
        (NotImplementedError, "antialias", {"size": 3, "mode": "bilinear", "antialias": True}),
        (ValueError, "align_corners means nothing", {"size": 3, "align_corners": False}),
        (ValueError, "recompute_scale_factor", {"size": 3, "recompute_scale_factor": True}),
        (RuntimeError, "must have elements", {"size": 0}),
        (RuntimeError, "must have elements", {"scale_factor": 0.1}),
    ],
)
def test_bad_calls(error, words, given):
    with pytest.raises(error, match=words):
        F.interpolate(Tensor(np.zeros((1, 2, 5, 5))), **given)


# ---- channels and space ------------------------------------------------------------------------------------------


def test_pixel_shuffle():
    x = np.arange(16.0).reshape(1, 4, 2, 2)
    out = F.pixel_shuffle(Tensor(x), 2)
    wanted = [[0, 4, 1, 5], [8, 12, 9, 13], [2, 6, 3, 7], [10, 14, 11, 15]]
    assert out.tolist() == [[wanted]]
    np.testing.assert_array_equal(F.pixel_unshuffle(out, 2).array, x)


def test_channel_shuffle():
    x = Tensor(np.arange(6.0).reshape(1, 6, 1))
    assert F.channel_shuffle(x, 2).array.ravel().tolist() == [0, 3, 1, 4, 2, 5]


@pytest.mark.parametrize(
    ("name", "shape", "factor", "words"),
    [
        ("pixel_shuffle", (1, 2, 5, 5), 2, "divide the channels"),
        ("pixel_shuffle", (1, 2, 5, 5), 0, "positive"),
        ("pixel_shuffle", (2, 3), 1, "expected an input"),
        ("pixel_unshuffle", (1, 2, 5, 4), 2, "divide height and width"),
        ("channel_shuffle", (1, 3, 2, 2), 2, "divide the channels"),
        ("channel_shuffle", (1, 2, 2), 0, "positive"),
        ("channel_shuffle", (3, 3), 3, "expected an input"),
    ],
)
def test_bad_shuffles(name, shape, factor, words):
    with pytest.raises(RuntimeError, match=f"{name}: .*{words}"):
        getattr(F, name)(Tensor(np.zeros(shape)), factor)


# ---- grids -------------------------------------------------------------------------------------------------------


def test_the_identity_map_reads_the_image():
    x = Tensor(np.arange(12.0).reshape(1, 1, 3, 4))
    theta = Tensor(np.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]))
    for align in (False, True):
        grid = F.affine_grid(theta, (1, 1, 3, 4), align_corners=align)
        out = F.grid_sample(x, grid, align_corners=align)
        np.testing.assert_allclose(out.array, x.array, atol=1e-12)


@pytest.mark.parametrize(("padding", "outside"), [("zeros", 0.0), ("border", 1.0)])
def test_what_lies_outside(padding, outside):
    x = Tensor(np.array([[[[1.0, 3.0]]]]))
    grid = Tensor(np.array([[[[-9.0, 0.0], [0.0, 0.0]]]]))
    out = F.grid_sample(x, grid, padding_mode=padding, align_corners=True)
    assert out.array.ravel().tolist() == [outside, 2.0]


@pytest.mark.parametrize(
    ("error", "words", "given"),
    [
        (NotImplementedError, "'bicubic' is not supported", {"mode": "bicubic"}),
        (NotImplementedError, "'reflection' is not", {"padding_mode": "reflection"}),
        (ValueError, "mode must be one of bilinear, nearest", {"mode": "linear"}),
    ],
)
def test_bad_grid_calls(error, words, given):
    with pytest.raises(error, match=words):
        F.grid_sample(Tensor(np.zeros((1, 1, 2, 2))), Tensor(np.zeros((1, 1, 1, 2))), **given)
    with pytest.raises(RuntimeError, match="equally many images"):
        F.grid_sample(Tensor(np.zeros((2, 1, 2, 2))), Tensor(np.zeros((1, 1, 1, 2))))


@pytest.mark.parametrize("factor", [float("nan"), float("inf")])
def test_a_scale_factor_must_be_finite(factor):
    with pytest.raises(ValueError, match="scale_factor must be finite"):
        F.interpolate(row(1, 2), scale_factor=factor)


def test_averages_of_no_area_are_none():
    x = plugrad.ones(1, 2, 4, 4, requires_grad=True)
    out = F.interpolate(x, size=(0, 3), mode="area")
    assert out.shape == (1, 2, 0, 3)
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 0)
    with pytest.raises(RuntimeError, match="must have elements"):
        F.interpolate(x, size=(-1, 3), mode="area")
