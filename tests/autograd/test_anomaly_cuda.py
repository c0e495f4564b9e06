"""Anomaly mode on a CUDA device: NaN gradients, results that are not finite, and values written behind its back."""

import numpy as np
import pytest

import plugrad
from plugrad.autograd import detect_anomaly

pytestmark = pytest.mark.usefixtures("cuda")


def leaf(values=(0.0, 1.0), dtype=np.float32):
    return plugrad.tensor(values, dtype=dtype, device="cuda", requires_grad=True)


def test_a_nan_gradient_says_where_its_operator_was_called():
    x = leaf()
    with detect_anomaly(), pytest.raises(RuntimeError) as caught:
        (x.sqrt() * 0).sum().backward()
    assert "standard::sqrt returned NaN as the gradient" in str(caught.value)
    assert "test_anomaly_cuda.py" in str(caught.value)


def test_infinite_gradients_are_allowed():
    x = leaf()
    with detect_anomaly():
        x.sqrt().sum().backward()
    assert np.isinf(x.grad.cpu().numpy()[0])


def test_complex_gradients_are_searched():
    class Bad(plugrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return plugrad.tensor(np.array([1, np.nan * 1j], "c8"), device="cuda")

    x = leaf((1.0, 2.0), np.complex64)
    seed = plugrad.ones(2, dtype=np.complex64, device="cuda")
    with detect_anomaly(), pytest.raises(RuntimeError, match="Bad returned NaN"):
        Bad.apply(x).backward(seed)


def test_the_forward_pass_is_searched():
    x = leaf((-1.0, 4.0))
    with detect_anomaly(check_forward=True), pytest.raises(RuntimeError) as caught:
        x.log()
    assert "standard::log returned 1 NaN and 0 infinite elements" in str(caught.value)
    assert "from -1.0 to 4.0" in str(caught.value)


def test_nothing_is_said_of_what_was_not_finite_before():
    x = leaf((np.inf, 4.0))
    with detect_anomaly(check_forward=True):
        (x * 2).cpu()


def test_moving_is_watched_too():
    x = plugrad.tensor([np.nan, 1.0])
    with detect_anomaly(check_forward=True):
        x.to("cuda").cpu()


def test_values_written_behind_its_back():
    from plugrad.backends.cuda import array

    x = leaf((2.0, 3.0))
    with detect_anomaly():
        y = (x * x).sum()
        array.fill(x.array, 5.0)
        with pytest.raises(RuntimeError, match="written behind plugrad's back"):
            y.backward()


def test_values_that_stay_raise_nothing():
    x = leaf((2.0, 3.0))
    with detect_anomaly():
        (x * x).sum().backward()
    assert x.grad.cpu().tolist() == [4, 6]
