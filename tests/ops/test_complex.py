"""Complex numbers: values, and gradients by the convention that z.grad holds d/dRe + i d/dIm of a real function."""

import numpy as np
import pytest

import plugrad
from plugrad import tensor
from plugrad.autograd import gradcheck, gradgradcheck


def leaf(values, dtype=np.complex128):
    return tensor(np.asarray(values, dtype), requires_grad=True)


def drawn(*shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


# ---- the convention ------------------------------------------------------------------------------------------


def test_gradient_of_the_squared_size_is_twice_the_number():
    z = leaf([1 + 2j, 3 - 1j])
    (z * z.conj()).real.sum().backward()
    assert z.grad.tolist() == [2 + 4j, 6 - 2j]


def test_a_step_against_the_gradient_goes_down():
    z = leaf([2 - 3j])
    for _ in range(60):
        z.grad = None
        loss = ((z - (1 + 1j)).abs() ** 2).sum()
        loss.backward()
        with plugrad.no_grad():
            z -= 0.1 * z.grad
    np.testing.assert_allclose(z.detach().cpu().numpy(), [1 + 1j], atol=1e-4)


def test_holomorphic_functions_give_the_conjugate_of_the_derivative():
    z = leaf(drawn(4))
    seed = drawn(4, seed=1)
    for name, derivative in {
        "exp": np.exp,
        "sin": np.cos,
        "cosh": np.sinh,
        "log": np.reciprocal,
        "square": lambda v: 2 * v,
        "reciprocal": lambda v: -1 / v**2,
        "sqrt": lambda v: 0.5 / np.sqrt(v),
        "tanh": lambda v: 1 - np.tanh(v) ** 2,
    }.items():
        z.grad = None
        getattr(plugrad, name)(z).backward(tensor(seed))
        wanted = seed * np.conj(derivative(z.detach().cpu().numpy()))
        np.testing.assert_allclose(z.grad.numpy(), wanted, rtol=1e-12, err_msg=name)


def test_a_real_operand_gets_a_real_gradient():
    x, z = leaf([2.0, 3.0], np.float64), leaf([1 + 1j, 2j])
    (x * z).real.sum().backward()
    assert x.grad.dtype == np.float64 and x.grad.tolist() == [1, 0]
    assert z.grad.tolist() == [2, 3]


def test_numbers_that_are_complex_are_conjugated():
    x = leaf([2.0], np.float64)
    y = x * 1j
    assert y.dtype == np.complex128
    y.backward(tensor(np.array([3 + 5j])))
    assert x.grad.tolist() == [5]


def test_backward_of_a_complex_number_needs_a_gradient():
    z = leaf(1 + 1j)
    with pytest.raises(RuntimeError, match=r"real number.*complex128"):
        (z * z).backward()


# ---- parts ---------------------------------------------------------------------------------------------------


def test_parts_are_views():
    z = tensor(np.array([1 + 2j, 3 + 4j]))
    assert z.real.tolist() == [1, 3] and z.imag.tolist() == [2, 4]
    z.imag[0] = 7.0
    assert z.tolist() == [1 + 7j, 3 + 4j]
    assert plugrad.view_as_complex(plugrad.view_as_real(z)).tolist() == z.tolist()


def test_writing_a_part_keeps_the_gradient_right():
    z, x = leaf([1 + 2j, 3 + 4j]), leaf([5.0, 6.0], np.float64)
    w = z * 1
    w.imag.copy_(x)
    (w * w.conj()).real.sum().backward()
    assert z.grad.tolist() == [2, 6]
    assert x.grad.tolist() == [10, 12]


def test_real_tensors_are_their_own_conjugate_and_real_part():
    x = tensor([1.0])
    assert x.conj() is x and x.real is x
    with pytest.raises(RuntimeError, match="must be complex"):
        x.imag  # noqa: B018


def test_pairs_that_are_none_are_refused():
    with pytest.raises(RuntimeError, match="size must be 2"):
        plugrad.view_as_complex(plugrad.zeros(3))
    with pytest.raises(RuntimeError, match="side by side"):
        plugrad.view_as_complex(plugrad.zeros(2, 3).T)
    with pytest.raises(TypeError, match="float32 or float64"):
        plugrad.view_as_complex(plugrad.zeros(2, dtype=plugrad.float16))


def test_complex_and_polar():
    z = plugrad.complex(tensor([3.0]), tensor([4.0]))
    assert z.dtype == plugrad.complex64 and z.tolist() == [3 + 4j]
    assert plugrad.complex(tensor(np.ones(1)), tensor(np.ones(1))).dtype == plugrad.complex128
    np.testing.assert_allclose(
        plugrad.polar(tensor([2.0]), tensor([np.pi / 2])).numpy(), [2j], atol=1e-6
    )


def test_conjugate_transposes():
    z = tensor(drawn(2, 3))
    assert z.H.tolist() == z.numpy().conj().T.tolist()
    stack = tensor(drawn(2, 2, 3))
    assert stack.mH.tolist() == stack.numpy().conj().swapaxes(1, 2).tolist()
    with pytest.raises(RuntimeError, match="matrix"):
        stack.H  # noqa: B018


# ---- sizes, angles, signs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["abs", "angle", "sgn"])
def test_at_zero_the_gradient_is_zero(name):
    z = leaf([0j, 3 + 4j])
    out = getattr(plugrad, name)(z)
    out.backward(plugrad.ones(2, dtype=out.dtype))
    assert z.grad[0].item() == 0 and z.grad[1].item() != 0


def test_sizes_are_real():
    for dtype, real in ((np.complex64, np.float32), (np.complex128, np.float64)):
        out = tensor(np.array([3 + 4j], dtype)).abs()
        assert out.dtype == real and out.tolist() == [5]


def test_angles_of_real_numbers():
    assert plugrad.angle(tensor([-1.0, 0.0, 2.0, np.nan])).tolist()[:3] == [np.float32(np.pi), 0, 0]
    assert np.isnan(plugrad.angle(tensor([np.nan])).item())
    assert plugrad.angle(tensor([-1])).dtype == plugrad.float32


# ---- powers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.5, -1, 1 + 2j])
def test_powers_by_numbers(exponent):
    z = leaf([1 + 1j, -2 + 0.5j])
    (z**exponent).backward(plugrad.ones(2, dtype=plugrad.complex128))
    value = z.detach().cpu().numpy()
    wanted = np.conj(exponent * value ** (exponent - 1))
    np.testing.assert_allclose(z.grad.numpy(), wanted, rtol=1e-12)


# ---- reductions, products, shapes ----------------------------------------------------------------------------


def check(function, *arrays):
    inputs = tuple(tensor(a, requires_grad=True) for a in arrays)
    assert gradcheck(function, inputs) and gradgradcheck(function, inputs)


@pytest.mark.parametrize(
    "function",
    [
        lambda z: z.sum(1),
        lambda z: z.mean(0),
        lambda z: z.prod(1),
        lambda z: plugrad.cumsum(z, 1),
        lambda z: plugrad.cumprod(z, 0),
        lambda z: z.reshape(3, 2).T,
        lambda z: z[:, [0, 2, 2]],
        lambda z: plugrad.cat([z, z.conj()], 0),
        lambda z: plugrad.stack([z, z * 1j], 1),
        lambda z: plugrad.where(z.real > 0, z, z.conj()),
        lambda z: z.to(plugrad.float64) ** 2,
        lambda z: plugrad.index_add(z, 0, tensor([0, 0]), z * 2),
        lambda z: plugrad.nn.functional.pad(z, (1, 1)),
        lambda z: z.H @ z,
        lambda z: plugrad.vdot(z[0], z[1]),
        lambda z: plugrad.einsum("ij,kj->ik", z, z.conj()),
        lambda z: plugrad.nn.functional.linear(z, z, z[0, :2]),
        lambda z: plugrad.add(z, z * z, alpha=2j),
        lambda z: (z / z.sum()).abs(),
    ],
)
def test_compositions(function):
    check(function, drawn(2, 3))


def test_mixed_dtypes_of_a_product():
    check(lambda x, z: x @ z, drawn(2, 3).real, drawn(3, 2))


def test_a_real_result_dtype_takes_real_parts():
    z = leaf([1 + 2j, 3 + 4j])
    assert z.sum(dtype=plugrad.float64).item() == 4
    z.prod(dtype=plugrad.float64).backward()
    assert z.grad.tolist() == [3, 1]


# ---- refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["amax", "sort", "sigmoid", "floor", "erf"])
def test_what_complex_numbers_have_not_is_refused_by_name(name):
    with pytest.raises(TypeError, match=r"standard::\w+.*got complex"):
        getattr(plugrad, name)(tensor([1j]))


def test_order_is_refused():
    with pytest.raises(TypeError, match="standard::lt.*complex"):
        tensor([1j]) < tensor([2j])  # noqa: B015
    assert (tensor([1j]) == tensor([1j])).item()
