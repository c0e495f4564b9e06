"""float16 is a dtype for storage on the CPU: kernels compute in float32, and what they give is rounded once."""

import numpy as np
import pytest

import plugrad
import plugrad.nn.functional as F
from plugrad import Tensor, ops

MANY = 70_000  # more than float16 can count


def half(values, requires_grad=False):
    return plugrad.tensor(values, dtype=plugrad.float16, requires_grad=requires_grad)


def ones(requires_grad=False):
    return plugrad.ones(MANY, dtype=plugrad.float16, requires_grad=requires_grad)


def test_kernels_never_see_it():
    seen = set()

    @plugrad.operator("float16::twice", elementwise=True)
    def twice(x):
        """Two times."""
        seen.add(x.dtype.name)
        return x * 2.0

    @twice.backward
    def _(grad):
        return grad * 2.0

    @twice.samples
    def _(make):
        yield make.call(make.normal(3, 4))
        yield make.call(make.normal(2))
        yield make.call(make.normal(5))

    plugrad.register(twice)
    out = twice(half([1.0, 2.0]))
    assert out.dtype == np.float16
    assert out.tolist() == [2.0, 4.0]
    assert seen == {"float32", "float64"}


def test_a_python_number_is_not_rounded_before_it_is_used():
    assert half([1.0]).div(MANY).item() == np.float16(1 / MANY)
    assert (half([0.25]) * 65536.0).item() == 16384.0  # the usual scale of a loss


def test_sums_of_exponentials_do_not_overflow():
    assert F.softmax(ones(), 0)[0].item() == np.float16(1 / MANY)
    assert F.log_softmax(ones(), 0)[0].item() == np.float16(-np.log(MANY))
    q = plugrad.ones(1, 1, 1, 4, dtype=plugrad.float16)
    kv = plugrad.ones(1, 1, MANY, 4, dtype=plugrad.float16)
    attended = F.scaled_dot_product_attention(q, kv, kv)  # each weight is rounded, to 11 bits
    np.testing.assert_allclose(attended.flatten().numpy(), 1.0, rtol=2**-9)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (lambda x, y: x.mean(), 1 / MANY),
        (F.mse_loss, 2 / MANY),
        (F.l1_loss, 1 / MANY),
        (F.smooth_l1_loss, 1 / MANY),
        (F.huber_loss, 1 / MANY),
        (F.binary_cross_entropy_with_logits, 0.7310586 / MANY),
    ],
    ids=["mean", "mse", "l1", "smooth_l1", "huber", "bce_with_logits"],
)
def test_means_of_more_than_it_can_count_have_gradients(loss, expected):
    x = ones(requires_grad=True)
    loss(x, plugrad.zeros(MANY, dtype=plugrad.float16)).backward()
    assert x.grad.dtype == np.float16
    np.testing.assert_allclose(x.grad[:3].numpy(), np.float16(expected), rtol=2e-3)


def test_means_of_many_rows():
    logits = plugrad.zeros(MANY, 2, dtype=plugrad.float16, requires_grad=True)
    share = plugrad.full((MANY, 2), 0.5, dtype=plugrad.float16)
    assert F.cross_entropy(logits, share).item() == pytest.approx(np.log(2), rel=1e-3)
    log_p = plugrad.full((MANY, 2), -0.5, dtype=plugrad.float16)
    assert F.nll_loss(log_p, plugrad.zeros(MANY, dtype=plugrad.int64)).item() == 0.5
    assert plugrad.nanmean(ones()).item() == 1.0


@pytest.mark.parametrize(
    "function, values",
    [
        (lambda x: ops.prod(x), [np.inf, 0, 1]),
        (lambda x: ops.logsumexp(x, dim=0), [-np.inf, -np.inf]),
        (lambda x: ops.logsumexp(x, dim=0), [np.inf, 1]),
        (lambda x: ops.cross_entropy(x, Tensor(np.array([0]))), [[-np.inf, -np.inf]]),
        (lambda x: ops.cross_entropy(x, Tensor(np.zeros(0, int))), np.zeros((0, 3))),
        (lambda x: ops.nll_loss(x, Tensor(np.zeros(0, int))), np.zeros((0, 3))),
        (lambda x: ops.var(x), [np.inf, 1]),
        (lambda x: ops.std(x), [np.inf, 1]),
        (lambda x: ops.norm(x, p=3), [np.inf, 1]),
    ],
)
@pytest.mark.filterwarnings("error")
def test_no_warning_leaks_from_a_backward_kernel(function, values):
    x = Tensor(np.array(values, np.float16), requires_grad=True)
    function(x).backward()
    assert x.grad.dtype == np.float16
