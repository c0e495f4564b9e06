"""The updates: against PyTorch's where it is installed, for every layout, and the options they refuse."""

import numpy as np
import pytest

import plugrad
from plugrad.optim import SGD, Adam, AdamW

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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("kind", "options"), OPTIONS)
def test_as_pytorch(kind, options, dtype):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    values = rng.standard_normal((3, 4)).astype(dtype)
    ours = plugrad.tensor(values.copy(), requires_grad=True)
    theirs = torch.tensor(values, requires_grad=True)
    our_optimizer = getattr(plugrad.optim, kind)([ours], **options)
    their_optimizer = getattr(torch.optim, kind)([theirs], **options)
    for i in range(6):
        grad = rng.standard_normal((3, 4)).astype(dtype)
        if i == 4:
            grad[:] = 0
        ours.grad, theirs.grad = plugrad.tensor(grad), torch.tensor(grad)
        our_optimizer.step()
        their_optimizer.step()
        close = 1e-13 if dtype == "float64" else 1e-5
        np.testing.assert_allclose(ours.array, theirs.detach().numpy(), rtol=close, atol=close)


@pytest.mark.parametrize(("kind", "options"), OPTIONS)
@pytest.mark.parametrize("layout", ["Fortran", "sliced", "long"])
def test_layouts_make_no_difference(kind, options, layout):
    rng = np.random.default_rng(1)
    shape = (200, 101) if layout == "long" else (5, 6)
    start, grads = rng.standard_normal(shape), rng.standard_normal((3, *shape))
    if layout == "Fortran":
        array = np.asfortranarray(start)
    elif layout == "sliced":
        array = np.zeros((5, 12))[:, ::2]
        array[...] = start
    else:
        array = start.copy()
    p = plugrad.Tensor(array, requires_grad=True)
    optimizer = getattr(plugrad.optim, kind)([p], **options)
    # Each element on its own is what the update means.
    one = plugrad.tensor([start[-1, -1]], dtype=np.float64, requires_grad=True)
    single = getattr(plugrad.optim, kind)([one], **options)
    for grad in grads:
        p.grad = plugrad.Tensor(grad.copy("F") if layout == "Fortran" else grad.copy())
        one.grad = plugrad.tensor([grad[-1, -1]], dtype=np.float64)
        optimizer.step()
        single.step()
    assert array[-1, -1] == pytest.approx(one.item(), rel=1e-14)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_gradients_are_left_as_they_are(kind):
    p = plugrad.tensor([1.0, 2.0], dtype=np.float64, requires_grad=True)
    p.grad = plugrad.tensor([1.0, -1.0], dtype=np.float64)
    optimizer = getattr(plugrad.optim, kind)([p], weight_decay=0.1)
    optimizer.step()
    optimizer.step()
    assert p.grad.tolist() == [1, -1]


def test_0d_and_empty_parameters():
    ps = [plugrad.zeros(*shape, requires_grad=True) for shape in ((), (0, 3))]
    for p in ps:
        p.grad = plugrad.ones_like(p)
    for kind in (SGD, Adam):
        kind(ps, lr=0.5).step()
    assert ps[0].item() == pytest.approx(-1.0)
    assert ps[1].shape == (0, 3)


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (SGD, {"lr": -0.1}, "lr must be at least 0"),
        (SGD, {"momentum": -1}, "momentum"),
        (SGD, {"weight_decay": -1}, "weight_decay"),
        (SGD, {"nesterov": True}, "momentum must be above 0"),
        (SGD, {"nesterov": True, "momentum": 0.9, "dampening": 0.1}, "dampening must be 0"),
        (Adam, {"lr": -1}, "lr"),
        (Adam, {"betas": (1.0, 0.9)}, "betas"),
        (AdamW, {"eps": -1e-8}, "eps"),
    ],
)
def test_options_out_of_range(kind, options, words):
    p = plugrad.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match=words):
        kind([p], **options)
    with pytest.raises(ValueError, match=words):
        kind([{"params": [p], **options}])


def test_what_is_not_offered():
    p = plugrad.ones(2, requires_grad=True)
    with pytest.raises(NotImplementedError, match="differentiable"):
        SGD([p], differentiable=True)
    with pytest.raises(NotImplementedError, match="capturable"):
        AdamW([p], capturable=True)
    with pytest.raises(TypeError, match="complex"):
        Adam([plugrad.tensor([1j], requires_grad=True)])
