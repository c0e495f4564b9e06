"""Convolution, pooling and resizing on the emulated device: parts of a batch, large geometry, layouts, determinism."""

import numpy as np
import pytest

from plugrad_ops.convolution import reference
from plugrad_ops.convolution.geometry import windows
from plugrad_ops.convolution.maxima import max_over_windows
from plugrad_ops.convolution.resampling import resample, resample_adjoint

GIVEN = {"stride": (2, 1), "padding": ((1, 0), (0, 2)), "dilation": (1, 2), "groups": 2}
W = windows("test", (7, 6), (3, 2), *list(GIVEN.values())[:3])


def normal(*shape, dtype=np.float64):
    return np.random.default_rng([5, *shape]).standard_normal(shape).astype(dtype)


@pytest.fixture(params=[1 << 28, 1])
def launchers(cuda, monkeypatch, request):
    """All images at once, and one after the other."""
    from plugrad_ops.convolution import cuda as found

    monkeypatch.setattr(found, "MOST", request.param)
    return found


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-5), ("float16", 4e-3)]
)
def test_convolution_and_its_adjoints(launchers, device, dtype, tolerance):
    x, w, g = normal(3, 4, 7, 6, dtype=dtype), normal(6, 2, 3, 2, dtype=dtype), normal(3, 6, *W.out, dtype=dtype)  # fmt: skip
    bias, back = normal(6, dtype=dtype), normal(4, dtype=dtype)

    def close(got, wanted):
        assert got.dtype == dtype
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=4 * tolerance)

    wide = [v.astype(np.float64) for v in (x, w, g, bias, back)]
    got = device.run(launchers.convolution, x, w, bias, **GIVEN)
    close(got, reference.convolution(W, wide[0], wide[1], wide[3], 2))
    got = device.run(launchers.convolution_input, g, w, back, size=(7, 6), **GIVEN)
    close(got, reference.convolution_input(W, wide[2], wide[1], wide[4], 2))
    got = device.run(launchers.convolution_weight, g, x, kernel_size=(3, 2), **GIVEN)
    close(got, reference.convolution_weight(W, wide[2], wide[0], 2))


def test_any_layout(launchers, device):
    x, w = normal(6, 7, 4, 3).T[:, :, :, ::-1], normal(2, 3, 2, 6).T
    got = device.run(launchers.convolution, x, w, **GIVEN)
    wanted = reference.convolution(W, np.ascontiguousarray(x), np.ascontiguousarray(w), None, 2)
    np.testing.assert_allclose(got, wanted, atol=1e-12)


def test_a_kernel_of_one_element(launchers, device):
    given = {"stride": (1,), "padding": (0,), "dilation": (1,)}
    x, w, g = normal(3, 4, 5), normal(2, 4, 1), normal(3, 2, 5)
    one = windows("test", (5,), (1,), (1,), (0,), (1,))
    got = device.run(launchers.convolution, x, w, **given)
    np.testing.assert_allclose(got, reference.convolution(one, x, w, None, 1), atol=1e-12)
    got = device.run(launchers.convolution_input, g, w, size=(5,), **given)
    np.testing.assert_allclose(got, reference.convolution_input(one, g, w, None, 1), atol=1e-12)
    got = device.run(launchers.convolution_weight, g, x, kernel_size=(1,), **given)
    np.testing.assert_allclose(got, reference.convolution_weight(one, g, x, 1), atol=1e-12)


def test_maxima_and_their_gradient(cuda, device):
    from plugrad_ops.convolution import maxima_cuda

    spans = (("window", 3, 2, 1, 1, True), ("window", 2, 1, 0, 2, False))
    x = np.round(normal(3, 9, 8))  # with ties
    x[0, 4, 4] = np.nan
    values, indices = maxima_cuda.max_over_windows(device.up(x), spans=spans)
    wanted, places = max_over_windows.function(x, spans=spans)
    np.testing.assert_array_equal(device.down(values), wanted)
    np.testing.assert_array_equal(device.down(indices), places)

    class Like:
        input = x

    g = normal(*wanted.shape)
    got = maxima_cuda.max_over_windows_backward((device.up(g), None), indices, Like, spans)
    dense = np.zeros((3, 72))
    for plane in range(3):
        np.add.at(dense[plane], places[plane].ravel(), g[plane].ravel())
    np.testing.assert_allclose(device.down(got), dense.reshape(x.shape), atol=1e-12)


def test_maps(cuda, device):
    from plugrad_ops.convolution import resampling_cuda

    maps = (("average", 7, 3, 2, 1, True, True, None), ("cubic", 5, 8, False, None), ("nearest", 4, 3, None))  # fmt: skip
    x = normal(2, 7, 5, 4)
    got = device.run(resampling_cuda.resample, x, maps=maps)
    np.testing.assert_allclose(got, resample.function(x, maps=maps), atol=1e-12)
    g = normal(*got.shape)
    back = device.run(resampling_cuda.resample_adjoint, g, maps=maps)
    np.testing.assert_allclose(back, resample_adjoint.function(g, maps=maps), atol=1e-12)
