"""Forward values and gradients, exactly, as the README promises them."""

import numpy as np
import pytest

import plugrad
from plugrad import ops


def gradients(function, *arrays):
    """Outputs and gradients of ``function(*tensors)``, the incoming gradient being 1, 2, 3, …"""
    tensors = [plugrad.tensor(a, requires_grad=True) for a in arrays]
    out = function(*tensors)
    seed = np.arange(1.0, out.array.size + 1.0).reshape(out.shape)
    found = plugrad.autograd.grad(out, tensors, plugrad.tensor(seed))
    return out.detach().numpy(), [g.numpy() for g in found]


def test_round_goes_to_even_and_passes_the_gradient():
    out, (g,) = gradients(ops.ste.round, np.array([-2.5, -1.2, 0.5, 1.5, 2.7]))
    np.testing.assert_array_equal(out, [-2, -1, 0, 2, 3])
    np.testing.assert_array_equal(g, [1, 2, 3, 4, 5])


def test_sign_passes_the_gradient_also_at_zero():
    out, (g,) = gradients(ops.ste.sign, np.array([-3.0, -0.0, 0.0, 1e-300]))
    np.testing.assert_array_equal(out, [-1, 0, 0, 1])
    np.testing.assert_array_equal(g, [1, 2, 3, 4])


def test_binarize_has_no_zero_and_clips_the_gradient_outside_of_minus_one_to_one():
    out, (g,) = gradients(ops.ste.binarize, np.array([-1.5, -1.0, -0.0, 0.0, 0.3, 1.0, 1.0001]))
    np.testing.assert_array_equal(out, [-1, -1, 1, 1, 1, 1, 1])
    np.testing.assert_array_equal(g, [0, 2, 3, 4, 5, 6, 0])


def test_binarize_keeps_an_infinite_gradient_out():
    x = plugrad.tensor(np.array([2.0, 0.5]), requires_grad=True)
    (g,) = plugrad.autograd.grad(ops.ste.binarize(x), [x], plugrad.tensor(np.array([np.inf, 1.0])))
    np.testing.assert_array_equal(g.numpy(), [0, 1])


@pytest.mark.parametrize("name", ["round", "sign", "binarize"])
def test_nan_stays_nan(name):
    assert np.isnan(getattr(ops.ste, name)(plugrad.tensor([np.nan])).item())


@pytest.mark.parametrize("name", ["round", "sign", "binarize"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_dtype_is_kept(name, dtype):
    assert getattr(ops.ste, name)(plugrad.tensor(np.ones(3, dtype))).dtype == dtype


# ---------------------------------------------------------------------------------- fake_quantize


def test_fake_quantize_takes_the_nearest_level_and_clips():
    x = np.array([-9.0, -0.9, -0.13, 0.0, 0.3, 1.8, 9.0])
    out, (gx, gs) = gradients(
        lambda x, s: ops.ste.fake_quantize(x, s, 0, bits=4), x, np.array(0.25)
    )
    np.testing.assert_array_equal(out, [-2.0, -1.0, -0.25, 0.0, 0.25, 1.75, 1.75])
    # 1.8 is 7.2 levels: it is rounded to the last level, not clipped.
    np.testing.assert_array_equal(gx, [0, 2, 3, 4, 5, 6, 0])
    errors = np.rint(x / 0.25) - x / 0.25
    inside = np.array([0, 2, 3, 4, 5, 6, 0])
    assert gs == pytest.approx((errors * inside).sum() - 8 * 1 + 7 * 7, rel=1e-14)


def test_fake_quantize_zero_point_moves_the_range_and_learns_from_what_is_clipped():
    x = np.array([-2.0, -0.6, 0.2, 5.0])
    out, (gx, gz) = gradients(
        lambda x, z: ops.ste.fake_quantize(x, 0.5, z, bits=3, signed=False), x, np.array(2.0)
    )
    np.testing.assert_array_equal(out, [-1.0, -0.5, 0.0, 2.5])
    np.testing.assert_array_equal(gx, [0, 2, 3, 0])
    assert gz == -0.5 * (1 + 4)


def test_fake_quantize_scales_per_row():
    x, scale = np.array([[0.35, 0.9], [0.35, 0.9]]), np.array([[0.5], [0.2]])
    out, (gx, gs) = gradients(lambda x, s: ops.ste.fake_quantize(x, s, 0, bits=8), x, scale)
    np.testing.assert_allclose(out, [[0.5, 1.0], [0.4, 0.8]], rtol=1e-15)
    assert gx.shape == x.shape and gs.shape == scale.shape


@pytest.mark.parametrize("bits", range(1, 17))
@pytest.mark.parametrize("signed", [True, False])
def test_fake_quantize_has_as_many_levels_as_its_bits_allow(bits, signed):
    x = np.arange(-70000.0, 70001.0)
    out = ops.ste.fake_quantize(plugrad.tensor(x), 1.0, 0, bits=bits, signed=signed)
    assert len(np.unique(out.numpy())) == 2**bits


def test_fake_quantize_second_order_is_that_of_its_rule():
    x = plugrad.tensor(np.array([0.3, 0.4]), requires_grad=True)
    scale = plugrad.tensor(np.array(0.25), requires_grad=True)
    out = ops.ste.fake_quantize(x, scale, 0, bits=4)
    (by_scale,) = plugrad.autograd.grad(out.sum(), [scale], create_graph=True)
    # d out / d scale = rint(x / scale) - x / scale
    gx, gs = plugrad.autograd.grad(by_scale, [x, scale])
    np.testing.assert_allclose(gx.numpy(), [-4.0, -4.0], rtol=1e-15)
    np.testing.assert_allclose(gs.numpy(), 0.7 / 0.0625, rtol=1e-15)


@pytest.mark.parametrize("scale", [0.0, -0.1, np.nan])
def test_fake_quantize_refuses_a_scale_that_is_not_positive(scale):
    with pytest.raises(ValueError, match=r"scale must be greater than 0"):
        ops.ste.fake_quantize(plugrad.tensor([1.0]), plugrad.tensor([scale]), 0)


@pytest.mark.parametrize("bits", [0, 17, 2.5, True, "8"])
def test_fake_quantize_refuses_other_widths(bits):
    with pytest.raises(ValueError, match="bits must be a whole number from 1 to 16"):
        ops.ste.fake_quantize(plugrad.tensor([1.0]), 0.1, 0, bits=bits)


@pytest.mark.parametrize("learned", [False, True])
def test_fake_quantize_agrees_with_pytorch(learned):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x = rng.normal(0.0, 1.0, 1000).astype(np.float32)
    scale, zero = np.float32(0.11), 3
    ours = [plugrad.tensor(v, requires_grad=True) for v in (x, scale, np.float32(zero))]
    out = ops.ste.fake_quantize(*ours, bits=4)
    grads = plugrad.autograd.grad(out.sum(), ours)

    tx = torch.tensor(x, requires_grad=True)
    if learned:
        ts = torch.tensor([scale], requires_grad=True)
        tz = torch.tensor([float(zero)], requires_grad=True)
        theirs = torch._fake_quantize_learnable_per_tensor_affine(tx, ts, tz, -8, 7)
        theirs.sum().backward()
        np.testing.assert_allclose(grads[1].item(), ts.grad.item(), rtol=1e-4)
        np.testing.assert_allclose(grads[2].item(), tz.grad.item(), rtol=1e-4)
    else:
        theirs = torch.fake_quantize_per_tensor_affine(tx, float(scale), zero, -8, 7)
        theirs.sum().backward()
    np.testing.assert_allclose(out.detach().numpy(), theirs.detach().numpy(), rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(grads[0].numpy(), tx.grad.numpy())
