"""The compiled steps: NumPy's bits, whatever the options, sizes and layouts; what they do not take; versions."""

import itertools

import numpy as np
import pytest

import plugrad
from plugrad.optim import SGD, Adam
from plugrad.optim.kernels import cpu, steps

SEED = int(np.random.default_rng().integers(2**31))
SHAPES = [(), (3,), (0, 3), (31, 7), (1, 1, 5), (300, 211)]
SGD_OPTIONS = [
    {"momentum": m, "fresh": f, "nesterov": n}
    for m, f, n in ((0.0, 1.0, False), (0.9, 1.0, False), (0.9, 0.7, False), (0.9, 1.0, True))
]


def draw(shape, dtype, written):
    """A parameter, its gradient and what an optimizer remembers, of which the squares are positive."""
    rng = np.random.default_rng(SEED)
    arrays = [rng.standard_normal(shape) for _ in range(2 + written)]
    return [np.asarray(np.abs(a) if i > 2 else a, dtype) for i, a in enumerate(arrays)]


def check(compiled, reference, arrays, numbers):
    """Both do the same to the last bit, and leave the gradient alone."""
    print("seed", SEED)
    ours, theirs = [a.copy("K") for a in arrays], [a.copy("K") for a in arrays]
    assert compiled(tuple([a] for a in ours), **numbers) == []
    reference(*theirs, **numbers)
    for own, other in zip(ours, theirs):
        np.testing.assert_array_equal(own, other)
    np.testing.assert_array_equal(ours[1], arrays[1])


def sgd_numbers(rate=0.1, decay=0.0, maximize=False, momentum=0.0, fresh=1.0, nesterov=False):
    return {
        "rate": rate, "momentum": momentum, "fresh": fresh, "decay": decay, "nesterov": nesterov,
        "maximize": maximize,
    }  # fmt: skip


def adam_numbers(decay=0.0, shrink=1.0, maximize=False):
    return {
        "rate": 0.1, "root": 0.6, "eps": 1e-8, "betas": (0.9, 0.999), "decay": decay, "shrink": shrink,
        "maximize": maximize,
    }  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("options", SGD_OPTIONS)
def test_sgd_is_numpys(options, shape, dtype):
    for decay, maximize in itertools.product((0.0, 0.3), (False, True)):
        arrays = draw(shape, dtype, 1 if options["momentum"] else 0)
        numbers = sgd_numbers(decay=decay, maximize=maximize, **options)
        check(steps.sgd, cpu.sgd_of, arrays, numbers)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("amsgrad", [False, True])
def test_adam_is_numpys(amsgrad, shape, dtype):
    for decay, shrink, maximize in itertools.product((0.0, 0.3), (1.0, 0.97), (False, True)):
        check(
            steps.adam, cpu.adam_of, draw(shape, dtype, 3 if amsgrad else 2),
            adam_numbers(decay, shrink, maximize),
        )  # fmt: skip


@pytest.mark.filterwarnings("error")
def test_values_that_are_no_numbers_pass_through():
    specials = np.array([np.nan, np.inf, -np.inf, 0.0, 1e38, -1e-40], "f4")
    p, grad, mean, square, most = (a.ravel() for a in np.meshgrid(*[specials] * 5))
    numbers = adam_numbers()
    check(steps.adam, cpu.adam_of, [p, grad, mean, square, most], numbers)
    check(steps.sgd, cpu.sgd_of, [p, grad, mean], sgd_numbers(momentum=0.9))
    check(steps.sgd, cpu.sgd_of, [p, grad], sgd_numbers(decay=0.1))


def test_many_parameters_are_one_loop():
    """Pieces of the loop begin and end anywhere in a parameter, or span several."""
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    sizes = [0, 1, 70_000, 5, 0, 16_384, 3, 40_001, *rng.integers(0, 3000, 40)]
    ps = [rng.standard_normal(n).astype("f4") for n in sizes]
    grads = [rng.standard_normal(n).astype("f4") for n in sizes]
    ps[3], grads[3] = ps[3].astype("f8"), grads[3].astype("f8")
    expected = [p - p.dtype.type(0.25) * g for p, g in zip(ps, grads)]
    assert steps.sgd((ps, grads), **sgd_numbers(rate=0.25)) == []
    for p, wanted in zip(ps, expected):
        np.testing.assert_array_equal(p, wanted)


def test_parameters_that_share_memory_step_one_after_the_other():
    whole = np.zeros(100_000, "f4")
    ps = [whole, whole[:60_000], whole[50_000:], np.ones(7, "f4")]
    grads = [np.ones_like(p) for p in ps]
    assert steps.sgd((ps, grads), **sgd_numbers(rate=1.0)) == []
    expected = np.full_like(whole, -2)
    expected[50_000:60_000] = -3
    np.testing.assert_array_equal(whole, expected)


def test_no_parameters_at_all():
    assert steps.sgd(([], []), **sgd_numbers()) == []


def test_fortran_order_is_taken():
    arrays = [np.asfortranarray(a) for a in draw((5, 6), "float32", 2)]
    check(steps.adam, cpu.adam_of, arrays, adam_numbers())


@pytest.mark.parametrize(
    ("which", "change"),
    [
        (0, lambda a: a[:, ::2]),
        (1, lambda a: np.asfortranarray(a)),
        (1, lambda a: a.astype("f8")),
        (1, lambda a: a[:1]),
        (0, lambda a: a.astype("f2")),
        (0, lambda a: a.astype("c8")),
        (0, lambda a: a.astype(">f4")),
        (0, lambda a: np.broadcast_to(a[0], a.shape)),
    ],
)
def test_what_a_loop_does_not_take_is_left_as_it_is(which, change):
    good, odd = draw((6, 4), "float32", 0), draw((6, 4), "float32", 0)
    odd[which] = change(odd[which])
    before = [a.copy() for a in odd]
    lists = tuple([a, b] for a, b in zip(good, odd))
    (left,) = steps.sgd(lists, **sgd_numbers())
    assert all(a is b for a, b in zip(left, odd))
    for own, old in zip(odd, before):
        np.testing.assert_array_equal(own, old)
    np.testing.assert_array_equal(
        good[0], draw((6, 4), "float32", 0)[0] - np.float32(0.1) * good[1]
    )


def test_what_is_no_array_is_refused():
    with pytest.raises(TypeError):
        steps.sgd(([1.0], [np.ones(1)]), **sgd_numbers())


@pytest.mark.parametrize("kind", [SGD, Adam])
def test_gradients_of_another_layout(kind):
    rng = np.random.default_rng(SEED)
    start, grad = rng.standard_normal((2, 5, 6))
    p, q = (plugrad.tensor(start, requires_grad=True) for _ in range(2))
    for x, values in ((p, grad), (q, np.asfortranarray(grad))):
        x.grad = plugrad.Tensor(values)
    kind([p, q], lr=0.1).step()
    np.testing.assert_array_equal(p.array, q.array)


@pytest.mark.parametrize("kind", [SGD, Adam])
def test_float16_steps_are_computed_in_float32(kind):
    start, grad = (np.random.default_rng(SEED).standard_normal((2, 50))).astype("f2")
    narrow = plugrad.tensor(start, requires_grad=True)
    wide = plugrad.tensor(start.astype("f4"), requires_grad=True)
    for x in (narrow, wide):
        x.grad = plugrad.tensor(grad.astype(x.dtype))
        kind([x], lr=0.1).step()
    np.testing.assert_array_equal(narrow.array, wide.array.astype("f2"))


# ---- what the graph knows of a step ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [SGD, Adam])
def test_every_parameter_that_was_changed_has_a_new_version(kind):
    ps = [plugrad.ones(2, requires_grad=True) for _ in range(3)]
    for p in ps[:2]:
        p.grad = plugrad.ones(2)
    losses = [(p * p).sum() for p in ps]
    kind(ps, lr=0.1).step()
    for loss in losses[:2]:
        with pytest.raises(RuntimeError, match="in-place"):
            loss.backward()
    losses[2].backward()


def test_a_step_that_fails_may_have_changed_any():
    ps = [plugrad.ones(2, requires_grad=True) for _ in range(2)]
    for p in ps:
        p.grad = plugrad.ones(2)
    ps[1].array.flags.writeable = False
    losses = [(p * p).sum() for p in ps]
    with pytest.raises(ValueError, match="read-only"):
        SGD(ps, lr=0.1).step()
    for loss in losses:
        with pytest.raises(RuntimeError, match="in-place"):
            loss.backward()


def test_parameters_that_had_no_gradient_at_times_are_behind():
    """Adam corrects each for the steps that it made, SGD takes the first gradient whole."""
    rng = np.random.default_rng(SEED)
    grads = rng.standard_normal((4, 3))
    for make in (
        lambda ps: Adam(ps, lr=0.1),
        lambda ps: SGD(ps, lr=0.1, momentum=0.9, dampening=0.5),
    ):
        ps = [plugrad.tensor(np.ones(3), requires_grad=True) for _ in range(2)]
        together, alone = make(ps), plugrad.tensor(np.ones(3), requires_grad=True)
        single = make([alone])
        for i, grad in enumerate(grads):
            ps[0].grad = plugrad.tensor(grad)
            ps[1].grad = plugrad.tensor(grad) if i > 1 else None
            together.step()
            if i > 1:
                alone.grad = plugrad.tensor(grad)
                single.step()
        np.testing.assert_array_equal(ps[1].array, alone.array)
