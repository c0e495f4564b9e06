"""Products of matrices: every layout, stacks that broadcast, sizes from none; with NumPy's BLAS called directly or not."""

import itertools

import numpy as np
import pytest

import plugrad
from plugrad import ops
from plugrad.nn.functional import linear

SEED = int(np.random.default_rng().integers(2**31))
CLOSE = {"float32": 1e-4, "float64": 1e-12}

# How an array may lie in memory; each gives an array with the same values.
LAYOUTS = {
    "C": lambda a: np.ascontiguousarray(a),
    "turned": lambda a: np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2),
    "columns of a wider one": lambda a: np.repeat(a, 3, -1)[..., ::3],
    "part of a wider one": lambda a: np.concatenate([a, a + 1], -1)[..., : a.shape[-1]],
    "part of a higher one": lambda a: np.concatenate([a, a + 1], -2)[..., : a.shape[-2], :],
    "backwards": lambda a: a[..., ::-1].copy()[..., ::-1],
    "first dimension innermost": lambda a: np.moveaxis(np.moveaxis(a, 0, -1).copy(), -1, 0),
    "unaligned": lambda a: unaligned(a),
}


def unaligned(a):
    memory = np.zeros(a.nbytes + 1, np.uint8)[1:]
    out = memory.view(a.dtype).reshape(a.shape)
    out[...] = a
    return out


def draw(shape, dtype, rng):
    return rng.standard_normal(shape).astype(dtype)


def gradients(function, *arrays):
    """What a function of tensors gives, and its gradients for a seed that is no constant."""
    tensors = [plugrad.Tensor(a, requires_grad=True) for a in arrays]
    out = function(*tensors)
    seed = np.cos(np.arange(out.numel())).reshape(out.shape).astype(out.dtype)
    out.backward(plugrad.Tensor(np.asarray(seed)))
    return out.detach().array, seed, [t.grad.array for t in tensors]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("left", "right"), list(itertools.product(LAYOUTS, LAYOUTS)))
def test_layouts_make_no_difference(left, right, dtype):
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    for a_shape, b_shape in [((5, 7), (7, 4)), ((3, 5, 7), (3, 7, 4)), ((3, 5, 7), (7, 4))]:
        a, b = draw(a_shape, dtype, rng), draw(b_shape, dtype, rng)
        out, seed, (for_a, for_b) = gradients(
            ops.matmul, LAYOUTS[left](a.copy()), LAYOUTS[right](b.copy())
        )
        np.testing.assert_allclose(out, a @ b, atol=CLOSE[dtype])
        np.testing.assert_allclose(for_a, seed @ b.swapaxes(-1, -2), atol=CLOSE[dtype])
        expected = a.swapaxes(-1, -2) @ seed
        np.testing.assert_allclose(
            for_b, expected.sum(0) if b.ndim < a.ndim else expected, atol=CLOSE[dtype]
        )


@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [
        ((2, 1, 3, 4), (5, 4, 2)),
        ((3, 4), (2, 5, 4, 2)),
        ((1, 3, 4), (6, 4, 2)),
        ((6, 3, 4), (1, 4, 2)),
        ((0, 3, 4), (0, 4, 2)),
        ((0, 3, 4), (1, 4, 2)),
        ((0, 3, 4), (4, 2)),
        ((2, 0, 4), (2, 4, 2)),
        ((2, 3, 0), (2, 0, 2)),
        ((3, 0), (0, 2)),
        ((1, 4), (4, 3)),
        ((3, 4), (4, 1)),
        ((2, 3, 1), (2, 1, 5)),
        ((40, 64, 64), (40, 64, 64)),
        ((3, 130, 70), (3, 70, 90)),
        ((2, 3, 4, 5, 6), (2, 3, 4, 6, 5)),
    ],
)
def test_stacks_broadcast_as_numpys(a_shape, b_shape):
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    a, b = draw(a_shape, "float64", rng), draw(b_shape, "float64", rng)
    out, seed, grads = gradients(ops.matmul, a, b)
    np.testing.assert_allclose(out, np.matmul(a, b), atol=1e-11)
    for found, full, given in [
        (grads[0], np.matmul(seed, b.swapaxes(-1, -2)), a),
        (grads[1], np.matmul(a.swapaxes(-1, -2), seed), b),
    ]:
        added = full.ndim - given.ndim
        axes = [i for i in range(full.ndim) if i < added or given.shape[i - added] != full.shape[i]]
        expected = full.sum(tuple(axes), keepdims=True).reshape(given.shape)
        np.testing.assert_allclose(found, expected, atol=1e-11)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(7,), (1, 7), (5, 7), (2, 3, 7), (2, 0, 7), (600, 7), (5, 0)])
def test_linear_of_any_rank(shape, bias):
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    x, weight = draw(shape, "float32", rng), draw((130, shape[-1]), "float32", rng)
    rest = [draw((130,), "float32", rng)] if bias else []
    out, seed, grads = gradients(linear, x, weight, *rest)
    np.testing.assert_allclose(out, x @ weight.T + (rest[0] if bias else 0), atol=1e-5)
    rows = seed.reshape(-1, 130)
    np.testing.assert_allclose(grads[0], seed @ weight, atol=1e-4)
    flat = x.reshape(len(rows), shape[-1])
    np.testing.assert_allclose(grads[1], rows.T @ flat, atol=1e-3)
    if bias:
        np.testing.assert_allclose(grads[2], rows.sum(0), atol=1e-3)


def test_a_gradient_that_repeats_one_number():
    x, weight = (plugrad.ones(*s, requires_grad=True) for s in ((3, 4), (2, 4)))
    linear(x, weight).sum().backward()
    assert x.grad.tolist() == [[2] * 4] * 3
    assert weight.grad.tolist() == [[3] * 4] * 2
    for shapes in [((3, 4), (4, 2)), ((2, 3, 4), (2, 4, 2)), ((2, 3, 4), (4, 2))]:
        a, b = (plugrad.ones(*s, requires_grad=True) for s in shapes)
        ops.matmul(a, b).sum().backward()
        assert (a.grad.array == 2).all()
        assert (b.grad.array == (6 if b.ndim < a.ndim else 3)).all()


def test_only_gradients_that_are_needed():
    for wanted in itertools.product((False, True), repeat=3):
        tensors = [
            plugrad.Tensor(np.ones(s), requires_grad=w)
            for s, w in zip(((3, 4), (2, 4), (2,)), wanted)
        ]
        if any(wanted):
            linear(*tensors).sum().backward()
        assert [t.grad is not None for t in tensors] == list(wanted)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("shape", [(4, 4), (3, 4, 4)])
def test_infinities_raise_no_warnings(shape):
    a = np.full(shape, np.inf)
    a[..., 0] = -np.inf
    b = np.ones(shape)
    assert np.isnan(ops.matmul(plugrad.Tensor(a), plugrad.Tensor(b)).array).all()
    assert np.isnan(linear(plugrad.Tensor(a), plugrad.ones(2, 4, dtype=np.float64)).array).all()


def test_a_product_with_itself_is_symmetric():
    rng = np.random.default_rng(SEED)
    x = plugrad.Tensor(rng.standard_normal((9, 5)))
    out = ops.matmul(x, x.t()).array
    np.testing.assert_array_equal(out, out.T)
    np.testing.assert_allclose(out, x.array @ x.array.T, atol=1e-12)


def test_what_does_not_fit_is_an_error_for_stacks_too():
    a = plugrad.ones(2, 3, 4)
    for shape in [(2, 3, 2), (3, 4, 2), (3, 2)]:
        with pytest.raises(RuntimeError, match=r"cannot be multiplied|broadcast"):
            ops.matmul(a, plugrad.ones(*shape))
    with pytest.raises(RuntimeError, match="in_features"):
        linear(a, plugrad.ones(2, 3))
    with pytest.raises(RuntimeError, match="bias must have shape"):
        linear(a, plugrad.ones(2, 4), plugrad.ones(3))


def test_a_stack_in_threads_has_the_same_bits():
    rng = np.random.default_rng(SEED)
    a, b = (plugrad.Tensor(draw((50, 40, 40), "float32", rng)) for _ in range(2))
    threads = plugrad.get_num_threads()
    try:
        found = []
        for n in (1, 3):
            plugrad.set_num_threads(n)
            found.append(ops.matmul(a, b).array)
    finally:
        plugrad.set_num_threads(threads)
    np.testing.assert_array_equal(*found)
