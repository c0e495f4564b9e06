"""Gradients that go from one backward kernel to the next as arrays: nobody can tell but by the clock."""

import numpy as np
import pytest

import plugrad


def leaf(values):
    return plugrad.tensor(values, dtype=np.float64, requires_grad=True)


def test_a_leaf_that_many_kernels_reach_gets_the_sum():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 5.0])
    y = x
    for _ in range(4):
        y = y * w
    y.sum().backward()
    assert w.grad.tolist() == [4 * 27.0, 4 * 125.0 * 2]
    assert x.grad.tolist() == [81.0, 625.0]


def test_what_waits_as_an_array_is_added_to():
    x, w = leaf([2.0]), leaf([3.0])
    y = x * w
    ((y * w) * (y * w)).sum().backward()  # y gets its gradients from two kernels
    assert x.grad.tolist() == [2 * 2 * 81.0]
    assert w.grad.tolist() == [4 * 4 * 27.0]


def test_broadcast_gradients_are_summed():
    x, w = leaf([[1.0, 2.0], [3.0, 4.0]]), leaf([2.0, 3.0])
    y = x * w * w
    y.sum().backward()
    assert w.grad.tolist() == [2 * 2 * 4.0, 2 * 3 * 6.0]


def test_leaves_never_share_a_buffer():
    a, b = leaf([1.0]), leaf([1.0])
    ((a + b) * (a + b)).sum().backward()
    a.grad.add_(5.0)
    assert b.grad.tolist() == [4.0]


@pytest.mark.parametrize("place", ["tensor", "node", "leaf", "post-accumulate"])
def test_hooks_see_tensors(place):
    x, w = leaf([1.0, 2.0]), leaf([3.0, 5.0])
    y = x * w
    seen = []
    if place == "tensor":
        y.register_hook(seen.append)
    elif place == "node":
        y.grad_fn.register_prehook(lambda grads: seen.extend(grads))
        y.grad_fn.register_hook(lambda ins, outs: seen.extend([*ins, *outs]))
    elif place == "leaf":
        w.register_hook(seen.append)
    else:
        w.register_post_accumulate_grad_hook(lambda w: seen.append(w.grad))
    (y * w).sum().backward()
    assert seen
    assert all(type(each) is plugrad.Tensor for each in seen)
    assert w.grad.tolist() == [6.0, 20.0]


def test_retained_gradients_and_second_passes():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 5.0])
    y = x * w
    y.retain_grad()
    z = (y * w).sum()
    z.backward(retain_graph=True)
    z.backward()
    assert y.grad.tolist() == [6.0, 10.0]
    assert x.grad.tolist() == [18.0, 50.0]


def test_a_pass_within_a_hook_of_the_same_graph():
    x, w = leaf([2.0]), leaf([3.0])
    y = x * w
    z = y * w
    total = z.sum()
    inner = []

    def again(grad):
        if not inner:
            inner.append(None)
            inner[0] = plugrad.autograd.grad(total, x, retain_graph=True)[0]

    z.register_hook(again)
    total.backward()
    assert inner[0].tolist() == x.grad.tolist() == [9.0]


def test_a_gradient_that_the_user_put_there_is_not_lost():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 5.0])
    x.grad = plugrad.tensor([1.0, 1.0], dtype=np.float64).expand(2)
    one = plugrad.tensor([1.0], dtype=np.float64)
    w.grad = one.expand(2)  # repeats its element
    ((x * w) * w).sum().backward()
    assert x.grad.tolist() == [10.0, 26.0]
    assert w.grad.tolist() == [7.0, 21.0]
    assert one.tolist() == [1.0]


def test_a_rule_that_returns_an_array_is_refused():
    class Wrong(plugrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, grad):
            return grad.numpy()

    with pytest.raises(TypeError, match="returned ndarray|must return"):
        Wrong.apply(leaf([1.0])).sum().backward()


def test_the_seed_is_not_written():
    x, w = leaf([1.0]), leaf([3.0])
    y = x * w
    seed = plugrad.tensor([2.0], dtype=np.float64)
    (y * w).backward(seed)
    (x * w + x * w).backward(seed)
    assert seed.tolist() == [2.0]


# ---- what is kept by reference ---------------------------------------------------------------------------------


def gradient_from(made):
    """The gradient of a leaf for which a rule gives the array `made(shape)`, and where that array lay."""
    places = []

    class Rule(plugrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.sum()

        @staticmethod
        def backward(ctx, grad):
            array = made((30, 20))
            places.append(array.ctypes.data)
            return plugrad.from_numpy(array)

    leaf = plugrad.from_numpy(np.ones((20, 30)).T).requires_grad_()
    Rule.apply(leaf).backward()
    return leaf.grad.numpy(), places[0]


def test_all_of_an_array_that_only_a_view_holds_is_not_copied():
    found, place = gradient_from(lambda shape: np.arange(600.0).reshape(shape[::-1]).T)
    assert found.ctypes.data == place
    assert found.tolist() == np.arange(600.0).reshape(20, 30).T.tolist()


def test_a_view_of_what_somebody_else_holds_is_copied():
    held = np.arange(600.0).reshape(20, 30)
    found, place = gradient_from(lambda shape: held.T)
    assert found.ctypes.data != place
    held[:] = 0
    assert found.tolist() == np.arange(600.0).reshape(20, 30).T.tolist()


@pytest.mark.parametrize(
    "made",
    [
        lambda shape: np.arange(1200.0).reshape(20, 60)[:, ::2].T,
        lambda shape: np.lib.stride_tricks.as_strided(np.arange(600.0), shape, (8, 8)),
        lambda shape: np.broadcast_to(np.arange(20.0), shape),
    ],
    ids=["a part", "overlapping", "expanded"],
)
def test_other_views_are_copied(made):
    found, place = gradient_from(made)
    assert found.ctypes.data != place
    assert found.tolist() == made((30, 20)).tolist()
