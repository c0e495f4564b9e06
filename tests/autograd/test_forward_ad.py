"""Forward mode: dual tensors through operators, views, in-place writes and backward passes."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plugrad
from plugrad import Tensor, no_grad, tensor
from plugrad.autograd import forward_ad as fw
from plugrad.autograd import grad
from plugrad.autograd.graph import saved_tensors_hooks
from plugrad.graph import duals
from plugrad.graph.instruments import dual
from plugrad.graph.node import live_nodes


def doubles(*values, **flags):
    return tensor(values, dtype=plugrad.float64, **flags)


def jvp(f, *pairs):
    """Value and tangent of f, from (primal, tangent) per argument."""
    with fw.dual_level():
        found = f(*(fw.make_dual(x, v) for x, v in pairs))
        return fw.unpack_dual(found)


# ---- levels --------------------------------------------------------------------------------------


def test_h4():
    primal, tangent = jvp(lambda d: 3 * (d**2).sum(), (doubles(1, 2), doubles(1, 0)))
    assert (primal.item(), tangent.item()) == (15, 6)
    with pytest.raises(RuntimeError, match="no dual level"):
        fw.make_dual(doubles(1, 2), doubles(1, 0))


def test_tangents_end_with_their_level():
    with fw.dual_level() as level:
        assert level == 0
        y = fw.make_dual(doubles(2), doubles(1)) * 3
        assert fw.unpack_dual(y).tangent.tolist() == [3]
    assert fw.unpack_dual(y) == (y, None)
    assert dual() is None
    with fw.dual_level():
        assert fw.unpack_dual(y * 2).tangent is None


def test_levels_are_left_innermost_first():
    outer = fw.enter_dual_level()
    inner = fw.enter_dual_level()
    assert (outer, inner) == (0, 1)
    with pytest.raises(RuntimeError, match="only the innermost level, 1"):
        fw.exit_dual_level(level=outer)
    fw.exit_dual_level(level=inner)
    fw.exit_dual_level()
    with pytest.raises(RuntimeError, match="no dual level to leave"):
        fw.exit_dual_level()


def test_an_exception_leaves_the_level():
    with pytest.raises(ZeroDivisionError), fw.dual_level():
        raise ZeroDivisionError
    assert not duals.stack()


@pytest.mark.parametrize(
    ("primal", "tangent", "error", "words"),
    [
        (doubles(1, 2), doubles(1), RuntimeError, r"shape \(1,\)"),
        (doubles(1), tensor([1.0]), RuntimeError, "float32"),
        (tensor([1]), tensor([1]), TypeError, "floating"),
        ([1.0], doubles(1), TypeError, "tensor must be a Tensor, got list"),
        (doubles(1), 1.0, TypeError, "tangent must be a Tensor, got float"),
    ],
)
def test_what_cannot_be_dual(primal, tangent, error, words):
    with fw.dual_level(), pytest.raises(error, match=words):
        fw.make_dual(primal, tangent)


def test_one_tangent_per_level():
    with fw.dual_level():
        d = fw.make_dual(doubles(1), doubles(1))
        with pytest.raises(RuntimeError, match="the tensor already has a tangent"):
            fw.make_dual(d, doubles(1))
        with pytest.raises(RuntimeError, match="the tangent already has a tangent"):
            fw.make_dual(doubles(1), d)
        with pytest.raises(RuntimeError, match="no dual level 1"):
            fw.make_dual(doubles(1), doubles(1), level=1)


def test_nested_levels_give_second_derivatives():
    one = doubles(1)
    with fw.dual_level() as outer:
        a = fw.make_dual(doubles(2), one)
        with fw.dual_level():
            b = fw.make_dual(a, one)
            y = b.exp() * b**3
            assert fw.unpack_dual(y, level=outer).tangent.tolist() == pytest.approx([20 * np.e**2])
            first = fw.unpack_dual(y)
        value, second = fw.unpack_dual(first.primal), fw.unpack_dual(first.tangent)
    e2 = np.e**2
    found = [t.item() for t in (*value, *second)]
    assert found == pytest.approx([8 * e2, 20 * e2, 20 * e2, 44 * e2])


def test_perturbations_are_not_confused():
    """d/dx (x · d/dy (x + y)) at 1 is 1, though y is perturbed along with x."""
    one = doubles(1)

    def inner(x):
        with fw.dual_level():
            return fw.unpack_dual(x + fw.make_dual(one, one)).tangent

    assert jvp(lambda x: x * inner(x), (one, one)).tangent.tolist() == [1]
    assert jvp(
        lambda x: x * jvp(lambda y: x * y * y, (doubles(3), one)).tangent, (doubles(2), one)
    ).tangent.tolist() == [24]


# ---- operators -----------------------------------------------------------------------------------


def test_numbers_integers_and_promotion():
    x, v = doubles(1, 2), doubles(1, 10)
    index = tensor([1, 0, 1])
    primal, tangent = jvp(lambda d: (2 * d - 1)[index] * index, (x, v))
    assert (primal.tolist(), tangent.tolist()) == ([3, 0, 3], [20, 0, 20])
    single = jvp(lambda d: d.float() * tensor([1.0, 3.0]), (x, v))
    assert single.tangent.dtype == plugrad.float32
    assert single.tangent.tolist() == [1, 30]
    assert jvp(lambda d: d.long(), (x, v)).tangent is None


def test_operands_without_a_tangent():
    x, w = doubles(1, 2), doubles(3, 4)
    assert jvp(lambda d: (d * w).sum() + w.sum(), (x, doubles(1, 1))).tangent.item() == 7
    with fw.dual_level():
        fw.make_dual(x, w)
        assert fw.unpack_dual(x * w).tangent is None


def test_broadcast_operands():
    x, v = doubles(1, 2, 3), doubles(1, 1, 1)
    column, w = doubles(1, 2).reshape(2, 1), doubles(1, -1).reshape(2, 1)
    tangent = jvp(lambda a, b: a * b, (x, v), (column, w)).tangent
    assert tangent.tolist() == [[2, 3, 4], [1, 0, -1]]


def test_several_outputs():
    x, v = doubles(1, 3, 2), doubles(10, 20, 30)
    with fw.dual_level():
        values, indices = fw.make_dual(x, v).max(dim=0)
        assert (fw.unpack_dual(values).tangent.item(), fw.unpack_dual(indices).tangent) == (
            20,
            None,
        )
        a, b = fw.make_dual(x, v).split([1, 2])
        assert fw.unpack_dual(a * 2).tangent.tolist() == [20]
        assert fw.unpack_dual(b * 2).tangent.tolist() == [40, 60]
        joined = plugrad.cat([b, doubles(5), a])
        assert fw.unpack_dual(joined).tangent.tolist() == [20, 30, 0, 10]


def test_nothing_is_recorded_without_need():
    before = live_nodes()
    with fw.dual_level():
        d = fw.make_dual(doubles(1, 2), doubles(1, 0))
        y = (d @ d).log()
        primal, tangent = fw.unpack_dual(y)
        assert not primal.requires_grad
        assert not tangent.requires_grad
        assert live_nodes() == before


def test_no_grad_does_not_matter_to_tangents():
    x = doubles(3, requires_grad=True)
    with no_grad():
        primal, tangent = jvp(lambda d: (d * d)[0:1], (x, doubles(1)))
    assert (tangent.tolist(), tangent.requires_grad) == ([6], False)
    assert not primal.requires_grad


def test_detached_tensors_have_no_tangent():
    assert jvp(lambda d: d * d.detach(), (doubles(3), doubles(1))).tangent.tolist() == [3]
    assert jvp(lambda d: (d * 1).detach_(), (doubles(3), doubles(1))).tangent is None


# ---- views and in-place writes -------------------------------------------------------------------


def test_views_and_what_is_written_through_them():
    with fw.dual_level():
        d = fw.make_dual(doubles(1, 2, 3), doubles(1, 1, 1))
        head, tail = d[0], d[1:]
        tail.mul_(d[:2])  # d = [x0, x1 x0, x2 x1]
        assert fw.unpack_dual(d).tangent.tolist() == [1, 3, 5]
        assert fw.unpack_dual(head).tangent.item() == 1
        assert fw.unpack_dual(tail).tangent.tolist() == [3, 5]
        d[0] = 5.0
        assert fw.unpack_dual(head).tangent.item() == 0
        d += d
        assert fw.unpack_dual(d).tangent.tolist() == [0, 6, 10]
        assert fw.unpack_dual(tail).tangent.tolist() == [6, 10]


def test_a_dual_written_into_a_plain_tensor():
    with fw.dual_level():
        d = fw.make_dual(doubles(1, 2), doubles(1, 10))
        plain = plugrad.zeros(2, 2, dtype=plugrad.float64).T  # a view with strides of its own
        plain[1] = d * 2
        assert fw.unpack_dual(plain).tangent.tolist() == [[0, 0], [2, 20]]
        assert fw.unpack_dual(plain._base).tangent.tolist() == [[0, 2], [0, 20]]
        plain.zero_()
        assert fw.unpack_dual(plain._base).tangent.tolist() == [[0, 0], [0, 0]]


def test_the_dual_has_its_own_memory():
    x = doubles(1, 2)
    with fw.dual_level():
        d = fw.make_dual(x, doubles(1, 1))
        d.mul_(3)
        assert fw.unpack_dual(d).tangent.tolist() == [3, 3]
    assert x.tolist() == [1, 2]


def test_in_place_keeps_gradients_of_tangents():
    x, v = doubles(2, 3, requires_grad=True), doubles(1, 1)
    with fw.dual_level():
        d = fw.make_dual(x, v) * 1
        d[0:1].mul_(d[1:2].clone())  # [x0 x1, x1], tangent [x1 + x0, 1]
        tangent = fw.unpack_dual(d * d).tangent  # [2 x0 x1 (x0 + x1), 2 x1]
        (g,) = grad(tangent.sum(), x)
    assert g.tolist() == [2 * (2 * 2 * 3 + 9), 2 * (4 + 2 * 2 * 3) + 2]


def test_a_view_of_several_follows_no_write_without_a_chain():
    with fw.dual_level():
        d = fw.make_dual(doubles(1, 2), doubles(1, 1))
        a, _b = d.split([1, 1])
        d.mul_(2)
        assert fw.unpack_dual(a).tangent.tolist() == [2]


# ---- with backward passes ------------------------------------------------------------------------


def test_reverse_over_forward_and_forward_over_reverse():
    x, v = doubles(1, 2, requires_grad=True), doubles(1, 1)

    def f(t):
        return (t.exp() * t * t).sum() + t[0] * t[1]

    hessian = np.array([[7 * np.e, 1], [1, 14 * np.e**2]])
    with fw.dual_level():
        d = fw.make_dual(x, v)
        y = f(d)
        (slope,) = grad(y, x, retain_graph=True)
        assert fw.unpack_dual(slope).tangent.numpy() == pytest.approx(hessian.sum(1))
        (again,) = grad(fw.unpack_dual(y).tangent, x, retain_graph=True)
        assert again.numpy() == pytest.approx(hessian.sum(1))
        y.backward()
        assert fw.unpack_dual(x.grad).tangent.numpy() == pytest.approx(hessian.sum(1))
        f(d).backward()  # accumulates tangents, too
        assert fw.unpack_dual(x.grad).tangent.numpy() == pytest.approx(2 * hessian.sum(1))


def test_the_tangent_itself_can_be_differentiated():
    x, v = doubles(3, requires_grad=True), doubles(2, requires_grad=True)
    tangent = jvp(lambda d: d**3, (x, v)).tangent
    gx, gv = grad(tangent, (x, v), create_graph=True)
    assert (gx.tolist(), gv.tolist()) == ([36], [27])
    assert grad(gx, (x, v))[0].tolist() == [12]


def test_gradients_and_tangents_through_a_partly_overwritten_tensor():
    x = doubles(2, 3, requires_grad=True)
    with fw.dual_level():
        d = fw.make_dual(x, doubles(1, 1))
        a = d * d
        a[0:1].mul_(d[1:2])  # x0² x1, x1²
        (slope,) = grad(a.sum(), x)
        assert slope.tolist() == [12, 10]
        assert fw.unpack_dual(slope).tangent.tolist() == [2 * 3 + 2 * 2, 2 * 2 + 2]


def test_saved_tensor_hooks_keep_tangents():
    x = doubles(3, requires_grad=True)
    with fw.dual_level(), saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        d = fw.make_dual(x, doubles(1))
        (slope,) = grad((d**3).sum(), x)
        assert fw.unpack_dual(slope).tangent.tolist() == [18]


def test_a_rule_that_cannot_be_differentiated():
    op = plugrad.operator("forward_ad_test::square", elementwise=True, once_differentiable=True)(
        lambda x: x * x
    )
    op.backward(lambda grad, x: 2 * x * grad)
    op.samples(lambda make: (make.call(make.normal(n)) for n in (1, 2, 3)))
    plugrad.register(op)
    x = doubles(3, requires_grad=True)
    with fw.dual_level():
        d = fw.make_dual(x, doubles(1))
        with pytest.raises(
            RuntimeError,
            match=r"forward_ad_test::square is once_differentiable.*@square\.jvp|@<lambda>",
        ):
            op(d)
    with fw.dual_level():
        y = op(x) * fw.make_dual(doubles(1), doubles(1))
        with pytest.raises(RuntimeError, match="once_differentiable"):
            grad(y.sum(), x)


def test_a_rule_that_is_not_linear_is_refused():
    op = plugrad.operator("forward_ad_test::clipped", elementwise=True, exempt="linearity")(
        lambda x: x * 1.0
    )
    op.backward(lambda grad: grad.clamp(-100, 100))
    op.samples(lambda make: (make.call(make.normal(n)) for n in (1, 2, 3)))
    plugrad.register(op)
    with fw.dual_level(), pytest.raises(RuntimeError, match="not linear in the incoming gradient"):
        op(fw.make_dual(doubles(1), doubles(1)))


# ---- the rest ------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 4))
def test_a_small_network_both_ways(seed, n, m):
    rng = np.random.default_rng(seed)

    def f(x, w):
        h = (x @ w).tanh()
        h = plugrad.cat([h, h.mean(dim=0, keepdim=True)])
        return h.log_softmax(1) * h.exp()

    arrays = [rng.normal(size=(n, m)), rng.normal(size=(m, 3))]
    moves = [rng.normal(size=a.shape) for a in arrays]
    primal, tangent = jvp(f, *((Tensor(a), Tensor(u)) for a, u in zip(arrays, moves)))
    leaves = [Tensor(a, requires_grad=True) for a in arrays]
    seed_grad = rng.normal(size=primal.shape)
    found = grad(f(*leaves), leaves, Tensor(seed_grad))
    backward = sum(float(np.sum(g.array * u)) for g, u in zip(found, moves))
    assert float(np.sum(seed_grad * tangent.array)) == pytest.approx(backward, rel=1e-9, abs=1e-9)


def test_levels_of_threads_are_apart():
    ready, done = threading.Barrier(2), threading.Barrier(2)
    found = {}

    def work(k):
        with fw.dual_level() as level:
            ready.wait(10)
            d = fw.make_dual(doubles(k), doubles(1))
            found[k] = (level, fw.unpack_dual(d**2).tangent.tolist())
            done.wait(10)

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert found == {1: (0, [2]), 2: (0, [4])}
    assert dual() is None


def test_nothing_stays_alive():
    x, v = doubles(1, 2, requires_grad=True), doubles(1, 1)
    before = live_nodes()
    for _ in range(3):
        with fw.dual_level():
            y = fw.make_dual(x, v).exp().tanh()
            fw.unpack_dual(y)
        del y
    assert live_nodes() == before


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_agrees_with_pytorch():
    torch = pytest.importorskip("torch")
    theirs = torch.autograd.forward_ad
    rng = np.random.default_rng(3)
    arrays = [rng.normal(size=(3, 4)) for _ in range(2)]

    def ours(x):
        return (x.sigmoid() @ x.T).softmax(1).var(dim=1).log()

    found = jvp(ours, *[tuple(Tensor(a) for a in arrays)])
    with theirs.dual_level():
        d = theirs.make_dual(*(torch.from_numpy(a) for a in arrays))
        expected = theirs.unpack_dual((d.sigmoid() @ d.T).softmax(1).var(dim=1).log())
        assert found.primal.numpy() == pytest.approx(expected.primal.numpy())
        assert found.tangent.numpy() == pytest.approx(expected.tangent.numpy())
