"""Convolution, its transpose and unfolding against plain loops and known numbers; what bad calls say."""

import itertools

import numpy as np
import pytest

import plugrad
import plugrad.nn.functional as F
from plugrad import Tensor, ops
from plugrad_ops.convolution import columns, reference
from plugrad_ops.convolution.geometry import windows

SEED = 20240


def normal(*shape):
    return np.random.default_rng([SEED, *shape]).standard_normal(shape)


def by_loops(x, weight, stride, padding, dilation, groups):
    """The definition: one sum per element of the result."""
    n = weight.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *[(padding, padding)] * n])
    reach = [dilation * (k - 1) + 1 for k in weight.shape[2:]]
    sizes = [(length - r) // stride + 1 for length, r in zip(x.shape[2:], reach)]
    out = np.zeros((x.shape[0], weight.shape[0], *sizes))
    of_group = weight.shape[0] // groups
    for image, channel in itertools.product(range(x.shape[0]), range(weight.shape[0])):
        first = channel // of_group * weight.shape[1]
        for place in itertools.product(*map(range, sizes)):
            where = tuple(slice(p * stride, p * stride + r, dilation) for p, r in zip(place, reach))
            seen = x[(image, slice(first, first + weight.shape[1]), *where)]
            out[(image, channel, *place)] = np.sum(seen * weight[channel])
    return out


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"),
    [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 1), (3, 1, 2, 2), (1, 1, 1, 2)],
)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_values(n, stride, padding, dilation, groups):
    x, weight = normal(2, 4, *(7, 6, 5)[:n]), normal(6, 4 // groups, *(3, 2, 1)[:n])
    bias = normal(6)
    given = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    out = getattr(F, f"conv{n}d")(Tensor(x), Tensor(weight), Tensor(bias), **given)
    wanted = by_loops(x, weight, **given) + bias.reshape(-1, *(1,) * n)
    np.testing.assert_allclose(out.array, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_transpose_is_the_adjoint(n):
    given = {"stride": 2, "padding": 1, "groups": 2}
    x, weight = Tensor(normal(2, 4, *(7, 5, 5)[:n])), Tensor(normal(6, 2, *(3, 3, 2)[:n]))
    out = getattr(F, f"conv{n}d")(x, weight, **given)
    g = Tensor(normal(*out.shape))
    back = getattr(F, f"conv_transpose{n}d")(g, weight, output_padding=(0, 0, 1)[:n], **given)
    assert back.shape == x.shape
    np.testing.assert_allclose((out * g).sum().item(), (back * x).sum().item(), rtol=1e-10)


def test_output_padding_adds_behind():
    out = F.conv_transpose1d(Tensor(np.ones((1, 1, 2))), Tensor(np.ones((1, 1, 2))), stride=3)
    assert out.tolist() == [[[1.0, 1.0, 0.0, 1.0, 1.0]]]
    out = F.conv_transpose1d(
        Tensor(np.ones((1, 1, 2))),
        Tensor(np.ones((1, 1, 2))),
        Tensor(np.array([0.5])),
        3,
        output_padding=2,
    )
    assert out.tolist() == [[[1.5, 1.5, 0.5, 1.5, 1.5, 0.5, 0.5]]]


def test_output_padding_within_the_dilation():
    """There is room for more windows than the input has elements."""
    out = F.conv_transpose1d(
        Tensor(np.ones((1, 1, 2))), Tensor(np.ones((1, 1, 2))), dilation=2, output_padding=1
    )
    assert out.tolist() == [[[1.0, 1.0, 1.0, 1.0, 0.0]]]


@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (2, 1), (3, 1), (4, 1), (2, 3)])
def test_same_keeps_the_size_and_pads_more_behind(kernel, dilation):
    x, weight = normal(1, 1, 6), normal(1, 1, kernel)
    out = F.conv1d(Tensor(x), Tensor(weight), padding="same", dilation=dilation)
    total = dilation * (kernel - 1)
    padded = np.pad(x, [(0, 0), (0, 0), (total // 2, total - total // 2)])
    np.testing.assert_allclose(out.array, by_loops(padded, weight, 1, 0, dilation, 1), atol=1e-12)


def test_without_batch():
    x, weight = normal(2, 5, 4), normal(3, 2, 2, 2)
    one, many = (F.conv2d(Tensor(v), Tensor(weight)) for v in (x, x[None]))
    np.testing.assert_array_equal(one.array, many.array[0])
    assert F.conv_transpose2d(one, Tensor(weight)).shape == (2, 5, 4)
    assert F.conv2d(Tensor(normal(0, 2, 5, 4)), Tensor(weight)).shape == (0, 3, 4, 3)


def test_float16_is_summed_in_float32():
    x, weight = np.full((1, 64, 8), 8.0, np.float16), np.full((1, 64, 8), 1.0, np.float16)
    x[0, 1::2] = -8.0
    weight[0, 0, 0] = 1.0 + 2.0**-10
    out = F.conv1d(Tensor(x), Tensor(weight))
    assert out.dtype == np.float16
    assert out.item() == 2.0**-7


@pytest.mark.parametrize("limit", ["CACHED", "MOST"])
@pytest.mark.parametrize("groups", [1, 2])
def test_any_tiling_gives_the_same(monkeypatch, limit, groups):
    w = windows("test", (3, 6, 5), (2, 3, 2), (1, 2, 1), (1, 1, 0), (1, 1, 2))
    x, weight, bias = normal(5, 4, 3, 6, 5), normal(6, 4 // groups, 2, 3, 2), normal(6)
    g = normal(5, 6, *w.out)
    monkeypatch.setattr(columns, limit, 1)
    for long in (1, 10**6):
        monkeypatch.setattr(columns, "LONG", long)
        for ours, wanted in (
            (columns.convolution, reference.convolution),
            (columns.convolution_weight, reference.convolution_weight),
        ):
            args = (w, x, weight, bias) if ours is columns.convolution else (w, g, x)
            np.testing.assert_allclose(
                ours(*args, groups), wanted(*args, groups), rtol=1e-10, atol=1e-12
            )
        args = (w, g, weight, normal(4), groups)
        np.testing.assert_allclose(
            columns.convolution_input(*args), reference.convolution_input(*args), atol=1e-12
        )


def test_kernels_of_one_element_need_no_columns():
    x, weight = normal(3, 4, 24, 24), normal(2, 4, 1, 1)
    wanted = np.einsum("oc,nchw->nohw", weight[:, :, 0, 0], x)
    np.testing.assert_allclose(F.conv2d(Tensor(x), Tensor(weight)).array, wanted, atol=1e-12)


def test_third_derivatives():
    """d/dw of the squared gradient by x, whose gradient is differentiated again: only convolutions, of any order."""
    x, w = (Tensor(v, requires_grad=True) for v in (normal(1, 1, 4), normal(1, 1, 2)))
    (g,) = plugrad.autograd.grad((F.conv1d(x, w) ** 3).sum(), x, create_graph=True)
    (h,) = plugrad.autograd.grad((g * g).sum(), w, create_graph=True)
    (k,) = plugrad.autograd.grad((h * h).sum(), x)
    step = 1e-5

    def second(values):
        x = Tensor(values, requires_grad=True)
        (g,) = plugrad.autograd.grad((F.conv1d(x, w) ** 3).sum(), x, create_graph=True)
        return (plugrad.autograd.grad((g * g).sum(), w)[0].array ** 2).sum()

    for i in range(4):
        e = np.zeros((1, 1, 4))
        e[0, 0, i] = step
        numeric = (second(x.array + e) - second(x.array - e)) / (2 * step)
        np.testing.assert_allclose(k.array[0, 0, i], numeric, rtol=1e-5)


@pytest.mark.parametrize(
    ("shape", "weight", "given", "words"),
    [
        ((1, 2, 5, 5), (4, 3, 3, 3), {}, "3 channels, got 2"),
        ((1, 3, 5, 5), (4, 1, 3, 3), {"groups": 2}, "2 channels, got 3"),
        ((1, 2, 5, 5), (3, 1, 3, 3), {"groups": 2}, "divide the output channels"),
        ((1, 2, 5, 5), (4, 2, 3, 3), {"groups": 0}, "groups must be positive"),
        ((1, 2, 5, 5), (4, 2, 3, 3), {"padding": -1}, "padding must be non-negative"),
        ((1, 2, 5, 5), (4, 2, 3, 3), {"stride": 0}, "stride must be positive"),
        ((1, 2, 5, 5), (4, 2, 3, 3), {"dilation": 0}, "dilation must be positive"),
        ((1, 2, 5, 5), (4, 2, 7, 3), {}, "larger than the padded input"),
        ((1, 2, 0, 5), (4, 2, 1, 1), {}, "larger than the padded input"),
        ((1, 2, 5, 5), (4, 2, 3, 3), {"stride": (1, 2, 3)}, "stride must be an integer or 2"),
        ((1, 2, 5, 5), (4, 2, 3, 3), {"padding": "same", "stride": 2}, "needs a stride of 1"),
        ((1, 2, 5, 5), (4, 2, 3, 3), {"padding": "full"}, "'same', 'valid' or numbers"),
        ((5, 5), (4, 2, 3, 3), {}, "expected an input of 3 dimensions"),
        ((1, 2, 5, 5), (4, 2, 3), {}, "weight must have 4 dimensions"),
        ((1, 2, 5, 5), (4, 2, 3, 3), {"bias": np.zeros(3)}, r"bias must have shape \(4,\)"),
    ],
)
def test_bad_calls(shape, weight, given, words):
    given = {k: Tensor(v) if k == "bias" else v for k, v in given.items()}
    with pytest.raises(RuntimeError, match=words):
        F.conv2d(Tensor(np.zeros(shape)), Tensor(np.zeros(weight)), **given)


@pytest.mark.parametrize(
    ("weight", "given", "words"),
    [
        ((3, 2, 3, 3), {}, "3 channels"),
        ((2, 2, 3, 3), {"output_padding": 1}, "smaller than stride or dilation"),
        ((2, 2, 3, 3), {"output_padding": -1}, "non-negative"),
        ((2, 2, 3, 3), {"padding": 4}, r"spatial shape \(-1, -1\)"),
        ((2, 2, 3, 3), {"bias": np.zeros(3)}, "bias must have shape"),
    ],
)
def test_bad_transposed_calls(weight, given, words):
    given = {k: Tensor(v) if k == "bias" else v for k, v in given.items()}
    with pytest.raises(RuntimeError, match=words):
        F.conv_transpose2d(Tensor(np.zeros((1, 2, 5, 5))), Tensor(np.zeros(weight)), **given)


# ---- unfolding ---------------------------------------------------------------------------------------------------


def test_unfold_lists_windows_as_columns():
    x = np.arange(9.0).reshape(1, 1, 3, 3)
    columns = F.unfold(Tensor(x), 2)
    assert columns.tolist() == [[[0, 1, 3, 4], [1, 2, 4, 5], [3, 4, 6, 7], [4, 5, 7, 8]]]
    back = F.fold(columns, (3, 3), 2)
    np.testing.assert_array_equal(back.array, x * [[1, 2, 1], [2, 4, 2], [1, 2, 1]])
    assert F.unfold(Tensor(x[0]), 2).shape == (4, 4)
    assert F.fold(F.unfold(Tensor(x[0]), 2), 3, 2).shape == (1, 3, 3)


def test_fold_wants_the_columns_of_its_windows():
    with pytest.raises(RuntimeError, match=r"a multiple of 4, 4\), got shape \(1, 4, 5\)"):
        F.fold(Tensor(np.zeros((1, 4, 5))), 3, 2)


def test_sliding_windows_are_a_view():
    x = Tensor(np.arange(7.0), requires_grad=True)
    seen = x.unfold(0, 3, 2)
    assert seen.tolist() == [[0, 1, 2], [2, 3, 4], [4, 5, 6]]
    assert np.shares_memory(seen.array, x.array)
    (g,) = plugrad.autograd.grad(seen.sum(), x)
    assert g.tolist() == [1, 1, 2, 1, 2, 1, 1]
    assert ops.unfold(Tensor(np.zeros((2, 5, 3))), 1, 2, 1).shape == (2, 4, 3, 2)
    assert ops.unfold(Tensor(np.array(3.0)), 0, 1, 1).shape == (1,)
    with pytest.raises(RuntimeError, match="between 0 and 7"):
        x.unfold(0, 8, 1)
    with pytest.raises(RuntimeError, match="step be positive"):
        x.unfold(0, 3, 0)
