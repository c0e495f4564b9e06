"""Dtypes for storage only, of which bfloat16 is one on the CPU: kernels see float32, tensors never do."""

import copy
import pickle

import numpy as np
import pytest

import plugrad

ml_dtypes = pytest.importorskip("ml_dtypes")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def brain(values, requires_grad=False):
    return plugrad.tensor(values, dtype=plugrad.bfloat16, requires_grad=requires_grad)


def rounded(values):
    """What bfloat16 makes of numbers."""
    return np.asarray(values, np.float32).astype(BFLOAT16).tolist()


# ---- promotion -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("bool", "bfloat16"),
        ("int8", "bfloat16"),
        ("int64", "bfloat16"),
        ("uint64", "bfloat16"),
        ("bfloat16", "bfloat16"),
        ("float16", "float32"),
        ("float32", "float32"),
        ("float64", "float64"),
        ("complex64", "complex64"),
        ("complex128", "complex128"),
    ],
)
def test_promotion_of_tensors(other, expected):
    x, y = brain([1.0, 2.0]), plugrad.ones(2, dtype=other)
    for found in (x * y, y * x, plugrad.cat([x, y])):
        assert found.dtype.name == expected


@pytest.mark.parametrize("number", [True, 2, 2.5])
def test_python_numbers_are_weak(number):
    assert (brain([1.0]) * number).dtype == BFLOAT16
    assert (number - brain([1.0])).dtype == BFLOAT16
    assert (brain([1.0]) / number).dtype == BFLOAT16


def test_a_complex_number_raises_to_complex64():
    assert (brain([1.0]) * 1j).dtype == np.complex64


# ---- kernels -------------------------------------------------------------------------------------


@plugrad.operator(
    "storage::pair",
    outputs=("out", "where"),
    nondifferentiable=("where",),
    infer=lambda x, y, *, shift=0.0: [(x.shape, x.dtype), (x.shape, np.dtype(np.int64))],
)
def pair(x, y, *, shift=0.0):
    """A product, and where it is positive."""
    seen_dtypes.append((x.dtype, y.dtype))
    out = x * y + shift
    return out, (out > 0).astype(np.int64)


@pair.backward
def _(grad, x, y):
    return grad[0] * y, grad[0] * x


@pair.backward_kernel
def _(grad, x, y, like):
    seen_dtypes.append((grad[0].dtype, x.dtype, like.x.dtype, like.y.dtype))
    return grad[0] * y, grad[0] * x


@pair.samples
def _(make):
    yield make.call(make.normal(3), make.normal(3))
    yield make.call(make.normal(2, 3), make.normal(2, 3), shift=0.5)
    yield make.call(make.normal(0), make.normal(0))


@plugrad.operator(
    "storage::halve_",
    mutates="x",
    infer=lambda x: (x.shape, x.dtype),
)
def halve_(x):
    """Half of x, written over it."""
    assert x.dtype.kind == "f"
    x *= 0.5
    return x


@halve_.backward
def _(grad):
    return grad * 0.5


@halve_.samples
def _(make):
    yield make.call(make.normal(3))
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal())


seen_dtypes = []


@pytest.fixture(scope="module")
def operators():
    for op in (pair, halve_):
        plugrad.register(op)
    plugrad.ops.storage.pair(plugrad.ones(2), plugrad.ones(2))  # verified by now
    return plugrad.ops.storage


def test_a_kernel_sees_float32_and_results_are_rounded(operators):
    seen_dtypes.clear()
    x, y = brain([1.0, -3.0], True), brain([1.0078125, 2.0], True)
    out, where = operators.pair(x, y, shift=1.0)
    assert seen_dtypes == [(np.float32, np.float32)]
    assert (out.dtype, where.dtype) == (BFLOAT16, np.int64)
    assert out.tolist() == rounded([2.0078125, -5.0])
    assert where.tolist() == [1, 0]
    seen_dtypes.clear()
    out.sum().backward()
    assert seen_dtypes == [(np.float32,) * 4]
    assert x.grad.dtype == BFLOAT16
    assert x.grad.tolist() == y.tolist()


def test_a_kernel_that_writes(operators):
    x = brain([[1.0, 2.0], [3.0, 5.0]])
    assert operators.halve_(x[:, 1]).tolist() == [1, 2.5]
    assert x.tolist() == [[1, 1], [3, 2.5]]


def test_a_kernel_is_rounded_once_however_many_steps_it_takes():
    values = np.random.default_rng(3).standard_normal((4, 300)).astype(np.float32).astype(BFLOAT16)
    x, wide = plugrad.from_numpy(values), plugrad.from_numpy(values.astype(np.float32))
    for function in (
        lambda x: x.sum(),
        lambda x: x.mean(1),
        lambda x: x.softmax(1),
        lambda x: x @ x.T,
        lambda x: x.cumsum(1),
        lambda x: x.var(0),
    ):
        assert function(x).tolist() == rounded(function(wide).array)


def test_results_of_other_dtypes_stay():
    x = brain([3.0, 1.0, 2.0])
    assert (x > 1.5).dtype == np.bool_
    assert x.argmax().dtype == np.int64
    assert x.float().dtype == np.float32
    assert x.sum(dtype=plugrad.float32).dtype == np.float32
    assert x.float().sum(dtype=plugrad.bfloat16).dtype == BFLOAT16
    values, indices = x.sort()
    assert (values.dtype, indices.dtype) == (BFLOAT16, np.int64)


def test_the_limits_of_the_dtype_are_no_infinities():
    most = float(ml_dtypes.finfo(BFLOAT16).max)
    x = brain([np.inf, -np.inf, np.nan, 1.0, -0.0])
    assert x.nan_to_num().tolist() == [most, -most, 0, 1, 0]
    assert x.nan_to_num(posinf=2.0, neginf=-np.inf).tolist() == [2, -np.inf, 0, 1, 0]


def test_errors_speak_of_the_tensor():
    with pytest.raises(TypeError, match="must be integer.*bfloat16"):
        plugrad.ops.take_along_dim(plugrad.ones(2), brain([0.0]), dim=0)


# ---- views and writing ---------------------------------------------------------------------------


def test_views_share_memory():
    x = brain([[1.0, 2.0], [3.0, 4.0]])
    for view in (x.T, x[0], x[:, ::-1], x.reshape(4), x.unsqueeze(0), x.expand(3, 2, 2)):
        assert view.dtype == BFLOAT16
        assert np.shares_memory(view.array, x.array)
    x.T[1].mul_(2)
    assert x.tolist() == [[1, 4], [3, 8]]


def test_writing_in_place():
    x = brain([1.0, 2.0, 3.0])
    x += plugrad.tensor([1.0, 1.0, 1.0])
    x[0] = 7
    x[plugrad.tensor([2])] = brain([9.0])
    x[x > 8] = 0.1
    assert x.dtype == BFLOAT16
    assert x.tolist() == rounded([7, 3, 0.1])
    assert x.exp_().tolist() == rounded(np.exp(np.float32(rounded([7, 3, 0.1]))))
    whole = plugrad.zeros(3, dtype=plugrad.int64)
    with pytest.raises(RuntimeError, match="bfloat16 result cannot be written into a int64"):
        whole.add_(x)
    wide = plugrad.zeros(3)
    wide.add_(x)
    assert wide.dtype == np.float32


# ---- gradients -----------------------------------------------------------------------------------


def test_gradients_have_the_dtype_of_their_tensor():
    x, w = brain([1.0, 2.0], True), plugrad.tensor([3.0, 4.0], requires_grad=True)
    (x * w).sum().backward()
    assert (x.grad.dtype, w.grad.dtype) == (BFLOAT16, np.float32)
    assert (x.grad.tolist(), w.grad.tolist()) == ([3, 4], [1, 2])


def test_gradients_accumulate():
    x = brain([1.0, 2.0], True)
    y = x * 1.0
    for _ in range(2):
        (y * y + y * 2).sum().backward(retain_graph=True)
    assert x.grad.dtype == BFLOAT16
    assert x.grad.tolist() == [8, 12]


def test_a_broadcast_gradient_is_summed_in_float32():
    w = brain([1.0], True)
    (w * plugrad.ones(1000, 1, dtype=plugrad.bfloat16)).sum().backward()
    assert w.grad.tolist() == rounded([1000.0])  # ones added up in bfloat16 stop at 256


def test_hooks_see_the_dtype_of_the_tensor():
    x = brain([1.0, 2.0], True)
    y, seen = x * x, []
    y.register_hook(lambda g: seen.append(g.dtype))
    y.grad_fn.register_hook(lambda ins, outs: seen.extend(g.dtype for g in (*ins, *outs)))
    y.exp().sum().backward()
    assert seen
    assert set(seen) == {BFLOAT16}


def test_second_order_and_forward_mode():
    x = brain([0.5, 1.0], True)
    (g,) = plugrad.autograd.grad((x**3).sum(), x, create_graph=True)
    assert g.dtype == BFLOAT16
    g.sum().backward()
    assert x.grad.tolist() == rounded([3.0, 6.0])
    forward = plugrad.autograd.forward_ad
    with forward.dual_level():
        dual = forward.make_dual(brain([0.5]), brain([2.0]))
        tangent = forward.unpack_dual(dual * dual).tangent
    assert (tangent.dtype, tangent.tolist()) == (BFLOAT16, [2.0])
    assert plugrad.func.grad(lambda x: (x * x).sum())(x.detach()).tolist() == [1, 2]


def test_casts_are_edges():
    x = plugrad.tensor([1.0, 2.0], requires_grad=True)
    (x.bfloat16() * 3).float().sum().backward()
    assert x.grad.dtype == np.float32
    assert x.grad.tolist() == [3, 3]


# ---- the tensor itself ---------------------------------------------------------------------------


def test_what_a_tensor_says_of_itself():
    x = brain([1.5, 2.0])
    assert x.is_floating_point()
    assert x.element_size() == 2
    assert x.numpy().dtype == BFLOAT16
    assert np.asarray(x, np.float32).tolist() == [1.5, 2]
    assert x[0].item() == 1.5
    assert float(x[1]) == 2
    assert repr(x) == "tensor([1.5, 2. ], dtype=bfloat16)"
    assert f"{x[0]:.3f}" == "1.500"


def test_it_is_made_like_any_other():
    dtype = plugrad.bfloat16
    assert plugrad.arange(3, dtype=dtype).tolist() == [0, 1, 2]
    assert plugrad.full((2,), 0.1, dtype=dtype).tolist() == rounded([0.1, 0.1])
    assert plugrad.linspace(0, 1, 3, dtype="bfloat16").dtype == BFLOAT16
    assert plugrad.eye(2, dtype=dtype).tolist() == [[1, 0], [0, 1]]
    for like in (plugrad.zeros_like, plugrad.ones_like, plugrad.empty_like):
        assert like(brain([1.0])).dtype == BFLOAT16
    assert plugrad.tensor([brain(1.0), brain(2.0)]).dtype == BFLOAT16
    assert plugrad.ones(2).to("bfloat16").dtype == BFLOAT16
    drawn = plugrad.rand(20000, dtype=dtype, generator=plugrad.Generator().manual_seed(1))
    assert drawn.dtype == BFLOAT16
    assert float(drawn.max()) < 1


def test_copies_keep_it():
    x = brain([1.0, 2.0], True)
    (x * x).sum().backward()
    for again in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert again.dtype == again.grad.dtype == BFLOAT16
        assert again.requires_grad
        assert again.grad.tolist() == [2, 4]


def test_no_warning_leaks_where_rounding_overflows():
    x = plugrad.tensor([3.4e38])
    with np.errstate(all="raise"):
        assert (x.bfloat16() * 1.0).tolist() == [np.inf]
        assert brain([3e38]).mul(2.0).tolist() == [np.inf]
