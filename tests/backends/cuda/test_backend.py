"""What the graph asks of the CUDA backend, through operators made for the purpose."""

import numpy as np
import pytest

import plugrad
from plugrad.backends.cuda import array as arrays
from plugrad.backends.cuda.elementwise import Elementwise
from plugrad.graph.backend import backend_named, backends
from plugrad.graph.op import READY, Op
from plugrad.registry.schema import Schema

pytestmark = pytest.mark.usefixtures("cuda")


def made(name, kernel, rule, plan, **schema):
    """An operator with a kernel for CUDA, as the registry would fill it in."""
    op = Op(f"test::{name}")
    schema = {"optional": (False,) * len(schema["inputs"]), **schema}
    op._define(Schema(dtypes=("floating",) * len(schema["inputs"]), **schema))
    op._set_kernel("cuda", kernel)
    op._set_rule(rule, plan)
    op.state = READY
    return op


@pytest.fixture
def plus():
    """Adds with broadcasting; the gradients are left for the engine to sum."""
    return made(
        "plus",
        Elementwise("a + b", inputs=("a", "b"), name="plus"),
        lambda grad: (grad, grad),
        (("grad", 0),),
        inputs=("a", "b"),
        elementwise=True,
    )


@pytest.fixture
def flipped():
    """A view with the rows in reverse order."""
    return made(
        "flipped",
        lambda array: arrays.view_by(lambda a: a[::-1], array),
        lambda grad: (grad,),
        (("grad", 0),),
        inputs=("x",),
        view_of=0,
    )


@pytest.fixture
def transposed():
    """A view with the dimensions in reverse order."""
    return made(
        "transposed",
        lambda array: arrays.view_by(np.transpose, array),
        lambda grad: (grad,),
        (("grad", 0),),
        inputs=("x",),
        view_of=0,
    )


def leaf(values):
    return plugrad.tensor(values, device="cuda", requires_grad=True)


# ---- calls -----------------------------------------------------------------------------------------


def test_the_backend_is_one_of_the_backends():
    backend = backend_named("cuda")
    assert backend in backends()
    assert repr(backend) == "<backend 'cuda'>"
    assert backend.dtype_named("float16") == np.float16
    assert backend.dtype_named("nonsense") is None


def test_kernels_get_arrays_and_numbers(plus):
    x = plugrad.tensor([1.0, 2.0], device="cuda")
    assert plus(x, x).tolist() == [2.0, 4.0]
    assert plus(x, 1.5).tolist() == [2.5, 3.5]
    assert plus(2, x).tolist() == [3.0, 4.0]
    assert plus(x, plugrad.tensor([[1.0], [2.0]], device="cuda")).shape == (2, 2)


def test_what_a_kernel_may_return():
    wrong = made("wrong", lambda a: np.ones(2), lambda g: g, (("grad", 0),), inputs=("a",))
    with pytest.raises(TypeError, match="a CUDA kernel must return a GPUArray, got ndarray"):
        wrong(plugrad.ones(2, device="cuda"))
    shape = made(
        "shape",
        lambda a, b: arrays.empty(3, "f4"),
        lambda g: g,
        (("grad", 0),),
        inputs=("a", "b"),
        elementwise=True,
    )
    x = plugrad.ones(2, device="cuda")
    with pytest.raises(
        RuntimeError, match=r"returned shape \(3,\), dtype float32; expected shape \(2,\)"
    ):
        shape(x, x)


def test_an_operator_without_a_kernel_is_named():
    op = Op("test::host_only")
    op._define(Schema(inputs=("x",), optional=(False,), dtypes=("floating",)))
    op._set_kernel("cpu", lambda x: x)
    op.state = READY
    with pytest.raises(RuntimeError, match="test::host_only has no kernel for device 'cuda'"):
        op(plugrad.ones(2, device="cuda"))


# ---- gradients: add, add_into, sum_to, cast --------------------------------------------------------


def test_gradients_are_added_and_summed_to_shape(plus):
    a, b = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), leaf([[1.0], [2.0]])
    out = plus(plus(a, b), b)
    out.backward(plugrad.ones((2, 3), device="cuda"))
    assert a.grad.tolist() == [[1.0] * 3] * 2
    assert b.grad.tolist() == [[6.0], [6.0]]
    out = plus(a, leaf(5.0))
    out.backward(plugrad.ones((2, 3), device="cuda"))
    assert a.grad.tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize("shape", [(), (1,), (3,), (1, 3), (2, 1), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_sum_to_every_shape(plus, shape, dtype):
    big = leaf(np.arange(6.0).reshape(1, 2, 3).astype(dtype))
    small = leaf(np.zeros(shape, dtype))
    seed = np.arange(6.0).reshape(1, 2, 3).astype(dtype)
    plus(big, small).backward(plugrad.tensor(seed, device="cuda"))
    lead = seed.ndim - len(shape)
    axes = tuple(i for i in range(3) if i < lead or (shape[i - lead] == 1 and seed.shape[i] != 1))
    np.testing.assert_array_equal(
        small.grad.cpu().numpy(), seed.sum(axis=axes, keepdims=True).reshape(shape)
    )


def test_a_seed_of_another_dtype(plus):
    x = leaf(np.ones(3, "f4"))
    plus(x, 1.0).backward(plugrad.full((3,), 2.5, dtype="float64", device="cuda"))
    assert x.grad.dtype == np.float32
    assert x.grad.tolist() == [2.5] * 3


def test_a_gradient_follows_the_layout_of_its_tensor(plus):
    x = plugrad.Tensor(arrays.view_by(np.transpose, arrays.from_host(np.zeros((2, 3), "f4"))), True)
    for _ in range(2):
        plus(x, 0.0).backward(plugrad.ones((3, 2), device="cuda"))
    assert x.grad.tolist() == [[2.0] * 2] * 3
    assert x.grad.array.strides == x.array.strides


# ---- writing in place ------------------------------------------------------------------------------


def test_writing_through_views(flipped, transposed):
    x = plugrad.tensor(np.arange(6.0).reshape(3, 2), device="cuda")
    view = flipped(x)
    assert view.tolist() == [[4.0, 5.0], [2.0, 3.0], [0.0, 1.0]]
    view.copy_(plugrad.tensor([[9.0, 8.0], [7.0, 6.0], [5.0, 4.0]], device="cuda", dtype="float64"))
    assert x.tolist() == [[5.0, 4.0], [7.0, 6.0], [9.0, 8.0]]
    transposed(x).fill_(3)
    assert x.tolist() == [[3.0, 3.0]] * 3
    x.zero_()
    assert view.tolist() == [[0.0, 0.0]] * 3
    assert x._version == 3


def test_writing_over_what_is_read(flipped):
    x = plugrad.tensor([1.0, 2.0, 3.0], device="cuda")
    x.copy_(flipped(x))
    assert x.tolist() == [3.0, 2.0, 1.0]


def test_elements_that_share_memory_are_not_written():
    array = arrays.from_host(np.zeros(3, "f4"))
    for strides, shape in (((0, 4), (2, 3)), ((4, 4), (2, 2))):
        shared = plugrad.Tensor(arrays.as_strided(array, shape, strides))
        with pytest.raises(RuntimeError, match="share memory"):
            shared.fill_(1)


def test_gradients_around_what_was_overwritten(plus):
    part = made(
        "part",
        lambda array: arrays.view_by(lambda a: a[1:], array),
        lambda grad: (grad,),
        (("grad", 0),),
        inputs=("x",),
        view_of=0,
    )
    x = leaf([1.0, 2.0, 3.0])
    y = plus(x, 0.0)
    part(y).fill_(7)
    assert y.tolist() == [1.0, 7.0, 7.0]
    y.backward(plugrad.tensor([1.0, 2.0, 3.0], device="cuda"))
    assert x.grad.tolist() == [1.0, 0.0, 0.0]


def test_gradients_around_what_was_overwritten_through_a_chain(plus, transposed):
    first = made(
        "first",
        lambda array: arrays.view_by(lambda a: a[0], array),
        lambda grad: (grad,),
        (("grad", 0),),
        inputs=("x",),
        view_of=0,
    )
    x = leaf(np.ones((2, 3)))
    y = plus(x, 0.0)
    value = leaf([5.0, 6.0])
    first(transposed(y)).copy_(value)
    seed = np.arange(6.0).reshape(2, 3)
    y.backward(plugrad.tensor(seed, device="cuda"))
    assert x.grad.tolist() == [[0.0, 1.0, 2.0], [0.0, 4.0, 5.0]]
    assert value.grad.tolist() == [0.0, 3.0]


def test_a_view_that_needed_a_copy_is_no_view(transposed):
    x = plugrad.zeros((2, 3), device="cuda")
    flat = made(
        "flat",
        lambda array: arrays.view_by(lambda a: a.reshape(-1), array),
        lambda grad: (grad,),
        (("grad", 0),),
        inputs=("x",),
        view_of=0,
    )
    assert flat(x)._base is x
    assert flat(transposed(x))._base is None
    flat(transposed(x)).fill_(1)
    assert x.tolist() == [[0.0] * 3] * 2


# ---- promotion and casts ---------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["bool", "int32", "uint8", "float16", "float32", "float64"])
@pytest.mark.parametrize("target", ["bool", "int64", "int8", "float16", "float32", "float64"])
def test_casts(source, target):
    values = np.array([0, 1, 3, 100]).astype(source)
    moved = plugrad.tensor(values, device="cuda").to(target)
    assert moved.dtype == np.dtype(target)
    np.testing.assert_array_equal(moved.cpu().numpy(), values.astype(target))


def test_promotion_is_the_cpus(plus):
    whole = plugrad.arange(2, device="cuda")
    half = plugrad.ones(2, dtype="float16", device="cuda")
    assert plus(whole, half).dtype == np.float16
    assert plus(whole, whole).dtype == np.float32
    assert plus(half, plugrad.ones(2, dtype="float64", device="cuda")).dtype == np.float64


@pytest.mark.parametrize(
    "number", [np.float32(2), np.float16(2), np.int64(3), np.uint8(3), np.complex64(1j), np.bool_(True)], ids=repr
)  # fmt: skip
def test_numpy_scalars_go_with_either_device(number):
    host = plugrad.tensor([1.0, 2.0])
    calls = [
        lambda x: x + number,
        lambda x: number * x,
        lambda x: plugrad.where(x == number, x, number),
        lambda x: x.to(plugrad.int32) + number,
    ]
    for call in calls:
        expected, found = call(host), call(host.cuda())
        assert (found.device, found.dtype) == ("cuda", expected.dtype)
        assert found.tolist() == expected.tolist()
    with pytest.raises(RuntimeError, match="different devices"):
        host.cuda() + np.ones(2, "f4")


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint64"])
@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 10**400, -1], ids=str)
def test_integers_beyond_a_dtype_are_compared(dtype, number):
    limits = np.iinfo(dtype)
    host = plugrad.tensor(np.array([limits.min, 0, limits.max], dtype))
    for name in ("__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"):
        found = getattr(host.cuda(), name)(number)
        assert found.tolist() == getattr(host, name)(number).tolist(), name
