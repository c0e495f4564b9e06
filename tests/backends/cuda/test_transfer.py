"""Tensors that go from device to device, and their gradients."""

import copy
import pickle

import numpy as np
import pytest

import plugrad
from plugrad.autograd import grad, gradcheck, gradgradcheck
from plugrad.graph.inplace import InPlace

pytestmark = pytest.mark.usefixtures("cuda")


# ---- there and back --------------------------------------------------------------------------------


def test_the_ways_to_say_it():
    x = plugrad.tensor([1.0, 2.0])
    for moved in (x.to("cuda"), x.to(device="cuda"), x.cuda(), x.cuda(0), x.cuda("cuda:0")):
        assert moved.device == "cuda"
        assert moved.is_cuda
        assert moved.tolist() == [1.0, 2.0]
    assert not x.is_cuda
    moved = x.to("cuda", non_blocking=True)
    for back in (moved.cpu(), moved.to("cpu"), moved.to(x)):
        assert back.device == "cpu"
        np.testing.assert_array_equal(back.numpy(), x.numpy())


def test_itself_where_nothing_changes():
    x = plugrad.tensor([1.0, 2.0])
    y = x.cuda()
    assert x.cpu() is x
    assert y.cuda() is y
    assert y.to("cuda:0") is y
    copied = y.to("cuda", copy=True)
    assert copied.array.gpudata != y.array.gpudata


def test_dtype_and_device_together():
    x = plugrad.tensor([1.0, 2.5])
    for moved in (x.to("cuda", "float64"), x.to("float64").cuda(), x.cuda().to("float64")):
        assert (moved.device, moved.dtype) == ("cuda", np.float64)
        assert moved.tolist() == [1.0, 2.5]
    other = plugrad.zeros(1, dtype="int32", device="cuda")
    assert x.to(other).tolist() == [1, 2]
    assert x.to(other).device == "cuda"


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)], ids=str)
def test_every_dtype(dtype, shape):
    host = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    moved = plugrad.tensor(host, device="cuda")
    assert moved.dtype == host.dtype
    np.testing.assert_array_equal(moved.cpu().numpy(), host)


def test_a_device_that_is_not_there():
    with pytest.raises(ValueError, match="no backend is named 'tpu'"):
        plugrad.ones(2).to("tpu")
    with pytest.raises(TypeError, match="neither a dtype, a device nor a Tensor"):
        plugrad.ones(2).to(3.5)


# ---- values ----------------------------------------------------------------------------------------


def test_values_come_to_python():
    x = plugrad.tensor([[1.0, 2.0], [3.0, 4.0]], device="cuda")
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    one = plugrad.tensor([2.5], device="cuda")
    assert (one.item(), float(one), int(one), bool(one)) == (2.5, 2.5, 2, True)
    with pytest.raises(RuntimeError, match="neither true nor false"):
        bool(x)
    assert f"{one:.1f}" == "2.5"


def test_numpy_is_refused():
    x = plugrad.ones(2, device="cuda")
    with pytest.raises(TypeError, match=r"device 'cuda'.*tensor.cpu\(\) copies it"):
        x.numpy()
    with pytest.raises(TypeError, match="cpu"):
        np.asarray(x)


def test_printing():
    x = plugrad.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    assert repr(x) == "tensor([1., 2.], device='cuda', requires_grad=True)"
    assert repr(x.cpu()) == "tensor([1., 2.], grad_fn=<to_device>)"
    assert repr(plugrad.zeros((0, 2), device="cuda")) == "tensor([], size=(0, 2), device='cuda')"


def test_pickle_and_deepcopy():
    x = plugrad.tensor([[1.0, 2.0], [3.0, 4.0]], device="cuda", requires_grad=True)
    x.grad = plugrad.ones((2, 2), device="cuda")
    for made in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert (made.device, made.requires_grad, made.grad.device) == ("cuda", True, "cuda")
        assert made.tolist() == x.tolist()
        assert made.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
        assert made.array.gpudata != x.array.gpudata
    assert copy.copy(x).array is x.array


def test_deepcopy_keeps_the_order_of_memory():
    from plugrad.backends.cuda import array as arrays

    array = arrays.view_by(np.transpose, arrays.from_host(np.arange(6.0).reshape(2, 3)))
    made = copy.deepcopy(plugrad.Tensor(array))
    assert made.array.strides == array.strides
    assert made.tolist() == np.arange(6.0).reshape(2, 3).T.tolist()


# ---- gradients -------------------------------------------------------------------------------------


def test_gradients_return_to_where_they_came_from():
    x = plugrad.tensor([1.0, 2.0], requires_grad=True)
    x.cuda().backward(plugrad.tensor([3.0, 4.0], device="cuda"))
    assert x.grad.device == "cpu"
    assert x.grad.tolist() == [3.0, 4.0]
    y = plugrad.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    (y.cpu() * y.cpu()).sum().backward()
    assert y.grad.device == "cuda"
    assert y.grad.tolist() == [2.0, 4.0]


def test_gradients_of_several_uses_add_up():
    y = plugrad.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    for _ in range(2):
        (y.cpu() + 2 * y.cpu() + y.cpu()).sum().backward()
    assert y.grad.tolist() == [8.0, 8.0]


def test_every_order_of_derivative():
    rng = np.random.default_rng(5)
    x = plugrad.tensor(rng.standard_normal((2, 3)), requires_grad=True)

    def back_and_forth(x):
        return (x.cuda().cpu() ** 3).cuda().cpu()

    assert gradcheck(back_and_forth, (x,))
    assert gradgradcheck(back_and_forth, (x,))


def test_create_graph_crosses_devices():
    y = plugrad.tensor([2.0], device="cuda", requires_grad=True)
    (first,) = grad((y.cpu() ** 3).sum(), (y,), create_graph=True)
    assert first.device == "cuda"
    assert first.tolist() == [12.0]
    (second,) = grad(first.cpu().sum(), (y,))
    assert second.device == "cuda"
    assert second.tolist() == [12.0]


def test_tangents_move_along():
    from plugrad.autograd import forward_ad

    with forward_ad.dual_level():
        x = forward_ad.make_dual(plugrad.tensor([1.0, 2.0]), plugrad.tensor([3.0, 4.0]))
        y = (x * x).cuda()
        value, tangent = forward_ad.unpack_dual(y)
        assert (value.device, tangent.device) == ("cuda", "cuda")
        assert tangent.tolist() == [6.0, 16.0]


def test_nothing_is_recorded_without_need():
    x = plugrad.tensor([1.0], requires_grad=True)
    with plugrad.no_grad():
        assert x.cuda().grad_fn is None
    assert plugrad.tensor([1.0]).cuda().grad_fn is None
    assert repr(x.cuda().grad_fn) == "<to_device>"
    assert not plugrad.tensor([1], dtype="int64").cuda().requires_grad


def test_complex_gradients():
    z = plugrad.tensor([1 + 2j], requires_grad=True)
    z.cuda().backward(plugrad.tensor([3 - 1j], device="cuda"))
    assert z.grad.tolist() == [3 - 1j]


def test_a_view_moves_with_its_history():
    x = plugrad.zeros(4, requires_grad=True)
    whole = x * 1
    part = whole[1:3]
    whole[2] = 5.0
    moved = part.cuda()
    assert moved.tolist() == [0.0, 5.0]
    moved.cpu().sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 0.0, 0.0]


# ---- mixed devices ---------------------------------------------------------------------------------


def test_mixed_devices_are_named():
    x, y = plugrad.ones(2), plugrad.ones(2, device="cuda")
    with pytest.raises(RuntimeError, match="different devices, 'cpu' and 'cuda'"):
        x + y
    with pytest.raises(RuntimeError, match="different devices, 'cuda' and 'cpu'"):
        y + np.ones(2, "f4")
    leaf = plugrad.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="the gradient is on 'cuda', the tensor on 'cpu'"):
        (leaf * 1).backward(y)
    with pytest.raises(RuntimeError, match="grad must be on the tensor's device 'cpu', got 'cuda'"):
        leaf.grad = y


@pytest.mark.parametrize(("here", "there"), [("cpu", "cuda"), ("cuda", "cpu")])
def test_copying_into_a_tensor_of_another_device(here, there):
    target = plugrad.zeros(2, 3, device=here, dtype="float64")
    x = plugrad.tensor([1.0, 2.0, 3.0], device=there, requires_grad=True)
    out = (target * 1).copy_(x * 2)
    assert (out.device, out.dtype) == (here, np.float64)
    assert out.tolist() == [[2.0, 4.0, 6.0]] * 2
    out.sum().backward()
    assert (x.grad.device, x.grad.dtype) == (there, np.float32)
    assert x.grad.tolist() == [4.0, 4.0, 4.0]

    view = (target * 1)[0]
    view.fill_(x[1])
    assert view.tolist() == [2.0, 2.0, 2.0]
    (grad_x,) = grad(view.sum(), [x])
    assert grad_x.tolist() == [0.0, 3.0, 0.0]
    assert plugrad.full_like(target[0], x[1]).tolist() == [2.0, 2.0, 2.0]
    assert plugrad.full_like(target[0], x[1]).device == here
    with pytest.raises(RuntimeError, match=r"0-d tensor, got shape \(3,\)"):
        plugrad.full_like(target[0], x)


@pytest.mark.parametrize(("here", "there"), [("cpu", "cuda"), ("cuda", "cpu")])
def test_assignment_from_another_device(here, there):
    x, one = plugrad.zeros(2, 3, device=here), plugrad.tensor([1.0, 2.0, 3.0], device=there)
    x[0] = one
    x[:, 1] = one[2]
    x[[1, 1], [0, 2]] = one[0]
    assert x.tolist() == [[1.0, 3.0, 3.0], [1.0, 3.0, 1.0]]
    with pytest.raises(RuntimeError, match=f"{here!r} and {there!r}"):
        x[[0, 1]] = one


@pytest.mark.parametrize(("here", "there"), [("cpu", "cuda"), ("cuda", "cpu")])
def test_a_result_of_another_device_is_not_written_over_a_tensor(here, there):
    def moved(x):
        return x.to(there)

    with pytest.raises(RuntimeError, match=f"a result on {there!r} .* a tensor on {here!r}"):
        InPlace(moved)(plugrad.ones(3, device=here))


def test_a_hook_may_not_change_the_device():
    x = plugrad.ones(2, requires_grad=True)
    x.register_hook(lambda g: g.cuda())
    with pytest.raises(RuntimeError, match="returned Meta.*device='cuda'"):
        (x * 1).backward(plugrad.ones(2))


# ---- creation --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (lambda **k: plugrad.zeros(2, 3, **k), np.zeros((2, 3))),
        (lambda **k: plugrad.ones((2,), **k), np.ones(2)),
        (lambda **k: plugrad.full((2, 2), 2.5, **k), np.full((2, 2), 2.5)),
        (lambda **k: plugrad.eye(3, **k), np.eye(3)),
        (lambda **k: plugrad.arange(2, 9, 3, **k), np.arange(2, 9, 3)),
        (lambda **k: plugrad.linspace(0, 1, 5, **k), np.linspace(0, 1, 5)),
        (lambda **k: plugrad.tensor([[1, 2]], **k), [[1, 2]]),
        (lambda **k: plugrad.as_tensor(np.arange(3), **k), np.arange(3)),
    ],
    ids=["zeros", "ones", "full", "eye", "arange", "linspace", "tensor", "as_tensor"],
)
def test_made_on_the_device(make, values):
    made = make(device="cuda")
    assert made.device == "cuda"
    assert made.dtype == make().dtype
    np.testing.assert_array_equal(made.cpu().numpy(), make().numpy())
    np.testing.assert_array_equal(made.cpu().numpy(), np.asarray(values, made.dtype))
    assert make(device=None).device == "cpu"


def test_made_like_another():
    like = plugrad.empty(2, 3, dtype="float64", device="cuda")
    assert plugrad.zeros_like(like).tolist() == np.zeros((2, 3)).tolist()
    assert plugrad.ones_like(like).dtype == np.float64
    assert plugrad.full_like(like, 2, dtype="int32").tolist() == np.full((2, 3), 2).tolist()
    assert plugrad.empty_like(like).device == "cuda"
    assert plugrad.zeros_like(like, device="cpu").device == "cpu"
    assert plugrad.empty_like(plugrad.ones(2), device="cuda").device == "cuda"
    assert plugrad.zeros(2, device="cuda", requires_grad=True).requires_grad


def test_made_of_tensors_on_the_device():
    x = plugrad.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    again = plugrad.tensor(x)
    assert (again.device, again.requires_grad) == ("cuda", False)
    assert again.array.gpudata != x.array.gpudata
    assert plugrad.tensor(x, device="cpu").device == "cpu"
    assert plugrad.tensor(x, requires_grad=True).is_leaf
    assert plugrad.as_tensor(x) is x
    assert plugrad.as_tensor(x, device="cpu").tolist() == [1.0, 2.0]
    assert plugrad.tensor([x.detach()[0], 3.0]).tolist() == [1.0, 3.0]
    assert plugrad.Tensor(x.array).device == "cuda"
