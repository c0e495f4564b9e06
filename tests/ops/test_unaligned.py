"""Arrays that begin between two elements' places, as of a file's bytes behind a header, give what others give."""

import numpy as np
import pytest

import plugrad.nn.functional as F
from plugrad import Tensor, registry
from plugrad.backends.copies import in_c_order
from plugrad.contract.checks import declaration
from plugrad.contract.numeric import differs
from plugrad.contract.run import Run
from plugrad.contract.targets import target_for


def unaligned(array):
    found = np.frombuffer(bytearray(b"x" + array.tobytes()), array.dtype, offset=1).reshape(
        array.shape
    )
    assert array.size == 0 or array.itemsize == 1 or not found.flags.aligned
    return found


def test_arrays_in_c_order_are_aligned():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert in_c_order(x) is x and in_c_order(x, np.float32) is x
    for given in (unaligned(x), x.T, x.astype(">f4"), x[:, ::2], np.float64(x)):
        found = in_c_order(given, np.float32)
        assert found.flags.carray and found.dtype == np.float32 and found.dtype.isnative
        np.testing.assert_array_equal(found, given)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_operator_takes_unaligned_arrays_and_gradients():
    compared, wrong = 0, []
    for one in registry.operators("standard::*"):
        run = Run(target_for(one), True)
        assert not [*declaration.check(run), *declaration.check_samples(run)], one.name
        # Those in place would change what the next one starts from.
        for problem in [] if one.name.endswith("_") else run.problems:
            wanted = (problem.outputs, problem.gradients)
            seeds = [unaligned(seed) for seed in problem.seeds]
            for arrays in (problem.arrays, [unaligned(array) for array in problem.arrays]):
                recording = problem.record(arrays)
                outputs = [problem.target.library.array(out) for out in recording.outputs]
                found = recording.gradient(seeds) if seeds and problem.active else []
                pairs = zip([*outputs, *found], [*wanted[0], *wanted[1]])
                wrong += [one.name for a, b in pairs if differs(a, b, 1024, 0.0) is not None]
                compared += 1
    assert not wrong and compared > 1000


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: F.conv2d(x, w, padding=1),
        lambda x, w: F.conv_transpose2d(x, w, stride=2),
        lambda x, w: F.max_pool2d(x, 2),
        lambda x, w: F.avg_pool2d(x, 2),
        lambda x, w: F.adaptive_avg_pool2d(x, 3),
        lambda x, w: F.interpolate(x, scale_factor=2.0, mode="bilinear"),
        lambda x, w: F.unfold(x, 2),
        lambda x, w: F.fold(F.unfold(x, 2), (6, 6), 2),
    ],
)
def test_images_of_float32(function):
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 6, 6), (3, 3, 3, 3)))
    found = []
    for change in (np.copy, unaligned):
        a = Tensor(change(x), requires_grad=True)
        out = function(a, Tensor(change(w)))
        seed = np.linspace(-1, 1, out.numel(), dtype=np.float32).reshape(out.shape)
        out.backward(Tensor(change(seed)))
        found.append((out.detach().numpy(), a.grad.numpy()))
    for one, other in zip(*found):
        np.testing.assert_array_equal(one, other)
