"""Optimizers on a CUDA device: the CPU's numbers, whatever the layout, and one launch for each parameter."""

import numpy as np
import pytest

import plugrad
from plugrad.optim import Adam, lr_scheduler

pytestmark = pytest.mark.usefixtures("cuda")

OPTIONS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "maximize": True, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.1}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1, "amsgrad": True}),
    ("Adam", {"lr": 0.1, "betas": (0.5, 0.6), "eps": 1e-3, "maximize": True}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("AdamW", {"lr": 0.1}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.3, "amsgrad": True}),
]
CLOSE = {"float16": 4e-3, "float32": 2e-6, "float64": 1e-14, "complex64": 2e-6}


def rng():
    print("seed 0")
    return np.random.default_rng(0)


def draw(source, shape, dtype):
    values = source.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * source.standard_normal(shape)
    return values.astype(dtype)


def leaf(values, device="cuda"):
    return plugrad.tensor(values, device=device, requires_grad=True)


def host(tensor):
    return tensor.detach().cpu().numpy()


def as_on_cpu(kind, options, dtype, there, here, steps=4):
    """Give two parameters the same gradients, and compare them."""
    source = rng()
    ours = getattr(plugrad.optim, kind)([there], **options)
    theirs = getattr(plugrad.optim, kind)([here], **options)
    for i in range(steps):
        grad = draw(source, here.shape, dtype)
        if i == 2:
            grad[...] = 0
        there.grad, here.grad = plugrad.tensor(grad, device="cuda"), plugrad.tensor(grad)
        ours.step()
        theirs.step()
        close = CLOSE[dtype]
        np.testing.assert_allclose(host(there), host(here), rtol=close, atol=close)
        assert host(there.grad).tolist() == grad.tolist()
    return ours, theirs


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("kind", "options"), OPTIONS)
def test_as_on_the_cpu(kind, options, dtype):
    values = draw(rng(), (5, 7), dtype)
    as_on_cpu(kind, options, dtype, leaf(values), leaf(values, "cpu"))


@pytest.mark.parametrize(("kind", "options"), [OPTIONS[3], OPTIONS[6]])
def test_half_precision_is_computed_in_single(kind, options):
    values = draw(rng(), (33,), "float16")
    as_on_cpu(kind, options, "float16", leaf(values), leaf(values, "cpu"))


@pytest.mark.parametrize(
    "options", [{"lr": 0.1}, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}]
)
def test_complex_parameters(options):
    values = draw(rng(), (3, 4), "complex64")
    as_on_cpu("SGD", options, "complex64", leaf(values), leaf(values, "cpu"))


@pytest.mark.parametrize(("kind", "options"), [OPTIONS[3], OPTIONS[6]])
@pytest.mark.parametrize("layout", ["transposed", "sliced", "0-d", "empty"])
def test_layouts_make_no_difference(kind, options, layout):
    shape = {"0-d": (), "empty": (0, 3)}.get(layout, (5, 6))
    values = draw(rng(), shape, "float32")
    if layout == "transposed":
        there = plugrad.tensor(values.T.copy(), device="cuda").t()
    elif layout == "sliced":
        there = plugrad.zeros(5, 12, device="cuda")[:, ::2]
        there.copy_(plugrad.tensor(values, device="cuda"))
    else:
        there = plugrad.tensor(values, device="cuda")
    there = plugrad.Tensor(there.array, requires_grad=True)
    array = there.array
    ours, _ = as_on_cpu(kind, options, "float32", there, leaf(values, "cpu"))
    assert there.array is array
    if layout == "transposed":
        (state,) = ours.state.values()
        buffer = next(value for value in state.values() if isinstance(value, plugrad.Tensor))
        assert buffer.array.strides == array.strides


def test_a_step_is_one_kernel_for_each_parameter(monkeypatch):
    from plugrad.backends.cuda.elementwise import Elementwise
    from plugrad.optim.kernels import cuda

    calls = []
    kernel = cuda.adam_kernel(False, False, False, False)
    monkeypatch.setattr(
        cuda, "adam_kernel", lambda *a: lambda *b, **c: calls.append(a) or kernel(*b, **c)
    )
    monkeypatch.setattr(Elementwise, "run_aside", None)  # nothing is computed elsewhere and copied
    parameters = [leaf(np.ones(shape, "f4")) for shape in ((3, 4), (4,))]
    for p in parameters:
        p.grad = plugrad.ones_like(p)
    optimizer = Adam(parameters)
    for step in range(3):
        optimizer.step()
        assert len(calls) == 2 * (step + 1)


def test_a_changed_rate_is_an_argument_of_the_same_kernel():
    p, q = leaf(np.ones(3, "f4")), leaf(np.ones(3, "f4"), "cpu")
    optimizers = [plugrad.optim.SGD([x], lr=0.5) for x in (p, q)]
    schedules = [lr_scheduler.StepLR(o, 1, gamma=0.1) for o in optimizers]
    for _ in range(3):
        for x, optimizer, schedule in zip((p, q), optimizers, schedules):
            x.grad = plugrad.ones_like(x)
            optimizer.step()
            schedule.step()
    np.testing.assert_allclose(host(p), host(q), rtol=1e-6)


def test_a_rate_on_the_device():
    p = leaf(np.ones(3, "f4"))
    optimizer = plugrad.optim.SGD([p], lr=0.1)
    optimizer.param_groups[0]["lr"] = plugrad.tensor(1.0, device="cuda")
    p.grad = plugrad.ones_like(p)
    optimizer.step()
    assert host(p).tolist() == [0, 0, 0]


def test_a_saved_value_that_a_step_overwrote_is_found():
    p = leaf(np.ones(3, "f4"))
    loss = (p * p).sum()
    p.grad = plugrad.ones_like(p)
    plugrad.optim.SGD([p], lr=0.1).step()
    with pytest.raises(RuntimeError, match="in-place"):
        loss.backward()


def test_zero_grad_in_place():
    p = leaf(np.ones(3, "f4"))
    p.grad = plugrad.ones_like(p)
    optimizer = plugrad.optim.SGD([p])
    array = p.grad.array
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.array is array
    assert host(p.grad).tolist() == [0, 0, 0]
    optimizer.zero_grad()
    assert p.grad is None


@pytest.mark.parametrize(
    ("saved_on", "loaded_on"), [("cpu", "cuda"), ("cuda", "cpu"), ("cuda", "cuda")]
)
def test_state_goes_to_the_device_of_its_parameter(saved_on, loaded_on):
    values = draw(rng(), (4,), "float32")
    first, second = leaf(values, saved_on), leaf(values, loaded_on)
    saved = Adam([first], lr=0.1)
    first.grad = plugrad.ones_like(first)
    saved.step()
    loaded = Adam([second], lr=0.5)
    loaded.load_state_dict(saved.state_dict())
    with plugrad.no_grad():
        second.copy_(first.to(loaded_on))
    (state,) = loaded.state.values()
    (own,) = saved.state.values()
    assert state["exp_avg"].device == loaded_on
    assert state["exp_avg"].array is not own["exp_avg"].array
    for p, optimizer in ((first, saved), (second, loaded)):
        p.grad = plugrad.ones_like(p)
        optimizer.step()
    np.testing.assert_allclose(host(second), host(first), rtol=1e-6)


def test_parameters_on_two_devices():
    p, q = leaf(np.ones(2, "f4")), leaf(np.ones(2, "f4"), "cpu")
    for x in (p, q):
        x.grad = plugrad.ones_like(x)
    Adam([p, q], lr=0.25).step()
    np.testing.assert_allclose(host(p), host(q), rtol=1e-6)


def test_a_device_without_kernels_is_named():
    from plugrad.optim.kernels import kernels_for

    with pytest.raises(NotImplementedError, match="device 'abacus' cannot be updated"):
        kernels_for("abacus")
