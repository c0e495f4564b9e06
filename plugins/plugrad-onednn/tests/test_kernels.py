"""oneDNN's kernels against the operators' own reference, and what is left to the operators' own kernels."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import plugrad
from plugrad import ops

pytest.importorskip("plugrad_onednn.library", exc_type=ImportError)
from plugrad_onednn import kernels
from plugrad_onednn.primitives import made

CASES = [
    # images, channels, size, results, kernel, stride, padding, dilation, groups
    (2, 3, (9,), 4, (3,), (1,), (1,), (1,), 1),
    (2, 16, (14, 13), 32, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (1, 5, (7, 8), 6, (2, 3), (2, 1), (0, 2), (1, 2), 1),
    (3, 8, (6, 6), 4, (3, 3), (1, 1), ((1, 0), (0, 1)), (1, 1), 2),
    (2, 6, (5, 9), 6, (3, 3), (2, 2), (1, 1), (1, 1), 6),
    (1, 2, (4, 5, 6), 3, (2, 2, 3), (1, 2, 1), (0, 1, 1), (1, 1, 1), 1),
    (2, 4, (8, 8), 3, (3, 3), (2, 2), ((0, -1), (0, -1)), (1, 1), 1),
]


def arguments(case):
    images, channels, size, results, kernel, stride, padding, dilation, groups = case
    rng = np.random.default_rng([images, channels, results])
    given = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    x = rng.standard_normal((images, channels, *size), np.float32)
    weight = rng.standard_normal((results, channels // groups, *kernel), np.float32)
    bias = rng.standard_normal(results, np.float32)
    out = ops.convolution.function(x, weight, bias, **given)
    g = rng.standard_normal(out.shape, np.float32)
    return x, weight, bias, g, given


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values(case):
    x, weight, bias, g, given = arguments(case)
    size, kernel = x.shape[2:], weight.shape[2:]
    other = np.linspace(-1, 1, x.shape[1], dtype=np.float32)
    for name, arrays, more in (
        ("convolution", (x, weight, bias), {}),
        ("convolution", (x, weight), {}),
        ("convolution_input", (g, weight), {"size": size}),
        ("convolution_input", (g, weight, other), {"size": size}),
        ("convolution_weight", (g, x), {"kernel_size": kernel}),
    ):
        found = getattr(kernels, name)(*arrays, **more, **given)
        wanted = getattr(ops, name).function(*arrays, **more, **given)
        if found is NotImplemented:  # negative padding is not served by each release
            assert case is CASES[-1]
            continue
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4 * np.abs(wanted).max())


def test_the_kernels_serve_the_operators():
    for name in ("convolution", "convolution_input", "convolution_weight"):
        operator = getattr(ops, name)
        assert plugrad.registry.verify(operator) is None
        assert operator._kernel("cpu").function.__module__ == "plugrad_onednn.kernels"


def test_a_gradient():
    before = made.cache_info().misses
    x, weight, bias, g, given = arguments(CASES[1])
    leaves = [plugrad.tensor(v, requires_grad=True) for v in (x, weight, bias)]
    ops.convolution(*leaves, **given).backward(plugrad.tensor(g))
    wanted = ops.convolution_weight.function(g, x, kernel_size=(3, 3), **given)
    np.testing.assert_allclose(leaves[1].grad.array, wanted, rtol=1e-3, atol=1e-2)
    assert made.cache_info().misses >= before


def test_arrays_in_another_order():
    x, weight, _, _, given = arguments(CASES[1])
    found = kernels.convolution(np.asfortranarray(x)[::-1], weight[:, ::-1], **given)
    wanted = ops.convolution.function(x[::-1], weight[:, ::-1], **given)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)


def test_what_is_left_to_the_operators_own_kernels():
    x, weight, bias, g, given = arguments(CASES[1])
    wide = [v.astype(np.float64) for v in (x, weight)]
    assert kernels.convolution(*wide, **given) is NotImplemented
    assert kernels.convolution(x[:0], weight, **given) is NotImplemented
    assert kernels.convolution(x[:, 1:], weight, **given) is NotImplemented
    assert kernels.convolution(x, weight, bias[1:], **given) is NotImplemented
    assert kernels.convolution_input(g, weight, size=(2, 2), **given) is NotImplemented
    assert kernels.convolution_weight(g[1:], x, kernel_size=(3, 3), **given) is NotImplemented
    out = ops.convolution(*(plugrad.tensor(v) for v in wide), **given)
    assert out.dtype == np.float64
    with pytest.raises(RuntimeError, match="channels"):
        ops.convolution(plugrad.tensor(x[:, 1:]), plugrad.tensor(weight), **given)


def test_threads_at_once():
    x, weight, bias, _, given = arguments(CASES[1])
    wanted = kernels.convolution(x, weight, bias, **given)
    scaled = [(x * np.float32(2**i), bias * np.float32(2**i)) for i in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(
            pool.map(
                lambda each: kernels.convolution(each[0], weight, each[1], **given), scaled * 4
            )
        )
    for i, one in enumerate(found):
        np.testing.assert_array_equal(one, wanted * np.float32(2 ** (i % 4)))


def test_without_the_library_the_operators_keep_their_own_kernels(tmp_path):
    code = """
import numpy as np
import plugrad
from plugrad import ops
x = plugrad.tensor(np.ones((1, 1, 3), np.float32))
print(ops.convolution(x, x, stride=(1,), padding=(0,), dilation=(1,)).item())
"""
    environment = {**os.environ, "PLUGRAD_ONEDNN_LIBRARY": str(tmp_path / "nothing.so")}
    for command, expected in (
        (["-c", code], "3.0"),
        (["-m", "plugrad", "plugins"], "pip install onednn-cpu-gomp"),
    ):
        done = subprocess.run(
            [sys.executable, *command], env=environment, capture_output=True, text=True, check=False
        )
        assert expected in " ".join(done.stdout.split()), done.stdout + done.stderr
