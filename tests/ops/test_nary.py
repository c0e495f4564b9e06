"""Kernels of several operands equal the NumPy functions beside them, however the operands lie, broadcast or are numbers."""

import itertools

import numpy as np
import pytest

from plugrad.backends import parallel
from plugrad_ops.activation import cpu as activation
from plugrad_ops.activation import formulas_cpu
from plugrad_ops.arithmetic import angles_cpu, gradients_cpu, selection_cpu

THREE, FOUR, CHOICE = selection_cpu.lerp, selection_cpu.addcmul, selection_cpu.where
KERNELS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": kernel
    for module in (activation, formulas_cpu, angles_cpu, gradients_cpu, selection_cpu)
    for name, kernel in vars(module).items()
    if type(kernel).__name__ == "Nary"
}


def arity(kernel):
    """Ufuncs of two operands have no signature to look at; `where` is NumPy's own."""
    if kernel is CHOICE:
        return 3
    return kernel.function.__code__.co_argcount if hasattr(kernel.function, "__code__") else 2


def drawn(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).uniform(0.1, 0.9, shape).astype(dtype)


def laid_out(array, how):
    """The same values, otherwise in memory."""
    if how == "transposed":
        return np.ascontiguousarray(array.T).T
    if how == "strided":
        out = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)[..., ::2]
        out[...] = array
        return out
    return array[::-1].copy()[::-1] if how == "reversed" else array


LAYOUTS = ("plain", "transposed", "strided", "reversed")


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_loop_equals_its_reference(name, dtype):
    kernel = KERNELS[name]
    operands = [drawn((7, 61), dtype, seed) for seed in range(arity(kernel))]
    if name == "selection_cpu.where":
        operands[0] = operands[0] > 0.5
    with np.errstate(invalid="ignore"):
        found, expected = kernel(*operands), kernel.function(*operands)
    assert found.dtype == expected.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=64 * np.finfo(dtype).eps, atol=1e-30)


@pytest.mark.parametrize("hows", list(itertools.product(LAYOUTS, repeat=3)))
def test_operands_may_lie_in_any_order(hows):
    operands = [laid_out(drawn((6, 40), seed=i), how) for i, how in enumerate(hows)]
    found = THREE(*operands)
    np.testing.assert_allclose(found, THREE.function(*operands), rtol=1e-6)
    chosen = CHOICE(operands[0] > 0.5, *operands[1:])
    np.testing.assert_array_equal(chosen, np.where(operands[0] > 0.5, *operands[1:]))


def test_a_result_lies_as_the_operands_do():
    operands = [laid_out(drawn((6, 40), seed=i), "transposed") for i in range(3)]
    assert THREE(*operands).strides == operands[0].strides


@pytest.mark.parametrize("places", list(itertools.product([False, True], repeat=4)))
@pytest.mark.parametrize("size", [1, 15, 16, 17, 511, 512, 513, 1300, 40_000])
def test_numbers_may_stand_anywhere(places, size):
    operands = [
        0.25 * (i + 1) if number else drawn(size, seed=i) for i, number in enumerate(places)
    ]
    if all(places):
        operands[0] = drawn(size)
    found = FOUR(*operands)
    assert found.dtype == np.float32 and found.shape == (size,)
    np.testing.assert_allclose(found, FOUR.function(*operands), rtol=1e-6)


@pytest.mark.parametrize(
    "shapes",
    [
        ((3, 4), (4,), (3, 1)),
        ((4,), (3, 4), ()),
        ((3, 1), (1, 4), (3, 4)),
        ((3, 1), (1, 4), (1, 1)),  # none of the result's shape
        ((2, 1, 1), (3, 4), (1,)),
        ((0, 3), (1, 3), (3,)),
        ((), (), ()),
        ((1,), (), (1, 1)),
    ],
)
def test_operands_broadcast(shapes):
    operands = [drawn(shape, seed=i) for i, shape in enumerate(shapes)]
    found, expected = THREE(*operands), THREE.function(*operands)
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    masks = operands[0] > 0.5
    np.testing.assert_array_equal(
        CHOICE(masks, *operands[1:]), np.where(masks, operands[1], operands[2])
    )


def test_other_dtypes_go_to_numpy():
    whole = [np.arange(4), np.arange(4) * 2, 3]
    np.testing.assert_array_equal(
        CHOICE(np.arange(4) > 1, *whole[1:]), np.where(np.arange(4) > 1, *whole[1:])
    )
    mixed = THREE(drawn(4), drawn(4, np.float64), 0.5)
    assert mixed.dtype == np.float64
    half = THREE(drawn(4).astype(np.float16), drawn(4).astype(np.float16), 0.25)
    assert half.dtype == np.float16


def test_threads_change_no_bit():
    operands = [drawn(100_003, seed=i) for i in range(2)]
    before = parallel.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            parallel.set_num_threads(threads)
            results.append(THREE(*operands, 0.3))
    finally:
        parallel.set_num_threads(before)
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_a_number_takes_the_dtype_of_the_arrays():
    x = np.full(3, 0.1, np.float32)
    np.testing.assert_array_equal(CHOICE(np.ones(3, bool), 0.1, x), x)
