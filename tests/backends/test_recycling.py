"""Small arrays are used again, but never one that somebody can still see."""

import gc
import weakref

import numpy as np
import pytest

import plugrad
from plugrad.backends.recycling import forget, recycled

HELD = 512 // 4  # elements of float32 that are recycled at most


@pytest.fixture(autouse=True)
def nothing_waits():
    plugrad.tensor([1.0]) * 2.0  # the operators are verified
    gc.collect()
    forget()
    yield
    OPERANDS.clear()
    forget()


OPERANDS = {}


def product(n=4, dtype="float32"):
    """Squares of 1 to n; the operand stays, so that the result's array is the only one to go."""
    if (n, dtype) not in OPERANDS:
        OPERANDS[n, dtype] = plugrad.tensor(np.arange(1, n + 1), dtype=dtype)
    x = OPERANDS[n, dtype]
    return x * x


def address(array):
    return array.__array_interface__["data"][0]


def test_the_array_of_a_tensor_that_is_gone_serves_the_next_result():
    first = product()
    place = address(first.array)
    del first
    assert recycled() == 1
    second = product()
    assert address(second.array) == place
    assert second.tolist() == [1.0, 4.0, 9.0, 16.0]


@pytest.mark.parametrize(
    "look",
    [
        lambda tensor: tensor.numpy(),
        lambda tensor: tensor.numpy()[1:],
        lambda tensor: memoryview(tensor.numpy()),
        lambda tensor: tensor.detach(),
        lambda tensor: tensor[1:],
        lambda tensor: np.from_dlpack(tensor.numpy()),
    ],
    ids=["array", "slice", "memoryview", "detach", "view", "dlpack"],
)
def test_what_somebody_sees_is_left_alone(look):
    first = product()
    seen = look(first)
    before = np.array(seen).copy()
    del first
    others = [product(4) * 0.0 for _ in range(50)]
    assert np.array_equal(np.array(seen), before), len(others)


def test_an_array_with_a_weak_reference_dies():
    first = product()
    reference = weakref.ref(first.array)
    del first
    assert reference() is None
    assert recycled() == 0


def test_an_array_that_exported_its_buffer_is_not_used_again():
    first = product()
    memoryview(first.array).release()
    del first
    assert recycled() == 0


def test_an_array_that_was_made_read_only_is_not_used_again():
    first = product()
    first.array.flags.writeable = False
    del first
    assert recycled() == 0


def test_the_dtype_of_the_next_result_is_its_own():
    for dtype in ("float32", "float64", "float32", "float16", "int32"):
        result = product(4, dtype)
        assert result.dtype == np.dtype(dtype)
        assert result.tolist() == [1, 4, 9, 16]
        del result
    compared = product() > 3.0
    assert compared.dtype == np.bool_
    del compared
    assert (product() > 3.0).tolist() == [False, True, True, True]


def test_large_arrays_are_freed():
    large = product(HELD + 1)
    del large
    assert recycled() == 0


def test_what_waits_is_bounded_whatever_shapes_are_used():
    kept = [product(n) for n in range(1, HELD) for _ in range(20)]
    assert kept
    del kept
    assert 0 < recycled() <= 64 * 16


def test_a_shape_that_is_no_longer_used_makes_room():
    for _ in range(3):
        for shape in [(4,), (2, 2), (1, 4), (4, 1), (1, 2, 2)]:
            x = plugrad.ones(*shape)
            results = [x * 2.0 for _ in range(30)]
            assert all(result.shape == shape for result in results)
            del results
    assert recycled() <= 64 * 16


def test_gradients_of_a_small_network_stay_right_when_arrays_are_used_again():
    rng = np.random.default_rng(0)
    w = plugrad.tensor(rng.normal(size=(4, 4)), requires_grad=True)
    x = plugrad.tensor(rng.normal(size=(4, 4)))
    seen = []
    for _ in range(30):
        w.grad = None
        (((x * w) * w).sum()).backward()
        seen.append(w.grad)
    expected = 2 * x.numpy() * w.detach().numpy()
    for gradient in seen:
        np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-12)


def test_a_saved_value_is_not_used_again_before_its_node_has_run():
    x = plugrad.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    y = x * x
    z = y * y
    del y
    noise = [product() * 0.0 for _ in range(50)]
    z.backward(plugrad.ones(4))
    assert x.grad.tolist() == [4.0, 32.0, 108.0, 256.0], len(noise)
