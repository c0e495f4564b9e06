"""PyTorch's names, argument order and defaults; values against PyTorch where it is installed."""

import inspect

import numpy as np
import pytest

import plugrad
import plugrad.nn.functional as F
from plugrad import Tensor

RNG = np.random.default_rng(0)
X, POSITIVE = RNG.standard_normal((3, 4)), RNG.uniform(0.1, 0.9, (3, 4))
CUBE, SIGNS = RNG.standard_normal((2, 3, 3)), np.where(X > 0, 1, -1)
TARGET, CLASSES, WEIGHT = RNG.uniform(0, 1, (3, 4)), np.array([0, 3, -100]), RNG.uniform(0.5, 2, 4)

CALLS = [
    ("relu", (X,), {}),
    ("relu6", (4 * X,), {}),
    ("hardtanh", (X,), {"max_val": 0.5}),
    ("leaky_relu", (X,), {}),
    ("leaky_relu", (X, 0.2), {}),
    ("elu", (X, 0.5), {}),
    ("softplus", (X, 2.0), {}),
    ("gelu", (X,), {}),
    ("gelu", (X,), {"approximate": "tanh"}),
    ("silu", (X,), {}),
    ("sigmoid", (X,), {}),
    ("logsigmoid", (X,), {}),
    ("tanh", (X,), {}),
    ("softmax", (X, -1), {}),
    ("softmax", (X,), {"dim": 0}),
    ("log_softmax", (X, 1), {}),
    ("linear", (X, RNG.standard_normal((2, 4)), RNG.standard_normal(2)), {}),
    ("linear", (X, RNG.standard_normal((2, 4))), {}),
    ("normalize", (X,), {}),
    ("normalize", (X, 3.0, 0), {}),
    ("embedding", (np.array([[0, 2], [2, 2]]), X), {}),
    ("mse_loss", (X, TARGET), {}),
    ("mse_loss", (X, TARGET), {"reduction": "sum"}),
    ("mse_loss", (X, TARGET), {"weight": POSITIVE}),
    ("mse_loss", (X, TARGET), {"weight": POSITIVE, "reduction": "none"}),
    ("l1_loss", (X, TARGET), {"reduction": "none"}),
    ("l1_loss", (X, TARGET), {"weight": POSITIVE, "reduction": "sum"}),
    ("cross_entropy", (X, CLASSES), {}),
    ("cross_entropy", (X, CLASSES, WEIGHT), {"label_smoothing": 0.1}),
    ("cross_entropy", (X, CLASSES), {"reduction": "none", "ignore_index": 3}),
    ("cross_entropy", (X, TARGET, WEIGHT), {"label_smoothing": 0.1}),
    ("cross_entropy", (X, TARGET), {"reduction": "sum"}),
    ("nll_loss", (X, CLASSES, WEIGHT), {}),
    ("nll_loss", (X, CLASSES), {"reduction": "sum"}),
    ("binary_cross_entropy", (POSITIVE, TARGET), {}),
    ("binary_cross_entropy", (POSITIVE, TARGET, TARGET), {"reduction": "sum"}),
    ("binary_cross_entropy_with_logits", (X, TARGET), {}),
    ("binary_cross_entropy_with_logits", (X, TARGET), {"weight": TARGET, "pos_weight": WEIGHT}),
    ("hardswish", (4 * X,), {}),
    ("mish", (X,), {}),
    ("selu", (X,), {}),
    ("softsign", (X,), {}),
    ("tanhshrink", (X,), {}),
    ("softshrink", (X, 0.25), {}),
    ("hardshrink", (X, 0.25), {}),
    ("threshold", (X, 0.1, -1.0), {}),
    ("prelu", (X, WEIGHT), {}),
    ("glu", (X,), {}),
    ("softmin", (X, 1), {}),
    ("layer_norm", (X, (4,), WEIGHT, POSITIVE[0]), {}),
    ("rms_norm", (X, (4,), WEIGHT), {}),
    ("group_norm", (X, 2, WEIGHT, POSITIVE[0]), {}),
    ("batch_norm", (X, None, None), {"training": True}),
    ("instance_norm", (CUBE,), {}),
    ("local_response_norm", (CUBE, 2, 0.5), {}),
    ("scaled_dot_product_attention", (CUBE, CUBE + 1, CUBE - 1), {"is_causal": True}),
    ("scaled_dot_product_attention", (CUBE, CUBE + 1, CUBE - 1, POSITIVE[:, :3]), {}),
    ("smooth_l1_loss", (X, TARGET), {"beta": 0.5}),
    ("huber_loss", (X, TARGET), {"delta": 0.5, "weight": POSITIVE}),
    ("kl_div", (X, TARGET), {"reduction": "batchmean"}),
    ("poisson_nll_loss", (X, TARGET), {"full": True}),
    ("gaussian_nll_loss", (X, TARGET, 0.5), {}),
    ("hinge_embedding_loss", (X, SIGNS), {}),
    ("margin_ranking_loss", (X, TARGET, SIGNS), {"margin": 0.1}),
    ("soft_margin_loss", (X, SIGNS), {}),
    ("multi_margin_loss", (X, np.array([0, 3, 1])), {"p": 2, "weight": WEIGHT}),
    ("multilabel_soft_margin_loss", (X, TARGET, WEIGHT), {}),
    ("cosine_embedding_loss", (X, TARGET, SIGNS[:, 0]), {}),
    ("triplet_margin_loss", (X, TARGET), {"negative": POSITIVE, "swap": True}),
    ("cosine_similarity", (X, TARGET), {}),
    ("pairwise_distance", (X, TARGET), {}),
    ("pdist", (X,), {}),
]


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.mark.parametrize(
    ("name", "args", "kwargs"), CALLS, ids=[f"{name}-{i}" for i, (name, *_) in enumerate(CALLS)]
)
def test_values_and_gradients_are_pytorchs(torch, name, args, kwargs):
    if name == "cross_entropy" and kwargs.get("ignore_index") == 3:
        args = (args[0], np.array([0, 3, 1]))

    def outcome(function, tensor, gradient):
        # Weights need no gradient: PyTorch has none for most of them.
        given = [
            tensor(v, i < 2 and v.dtype.kind == "f") if isinstance(v, np.ndarray) else v
            for i, v in enumerate(args)
        ]
        named = {
            key: tensor(v, False) if isinstance(v, np.ndarray) else v for key, v in kwargs.items()
        }
        out = function(*given, **named)
        return out, gradient(out.sum(), [t for t in given if getattr(t, "requires_grad", False)])

    def ours(value, requires_grad):
        return Tensor(value.copy(), requires_grad=requires_grad)

    def theirs(value, requires_grad):
        return torch.from_numpy(value.copy()).requires_grad_(requires_grad)

    try:
        wanted, wanted_grads = outcome(
            getattr(torch.nn.functional, name), theirs, torch.autograd.grad
        )
    except TypeError:
        pytest.skip(f"this PyTorch's {name} has not these arguments")
    found, found_grads = outcome(getattr(F, name), ours, plugrad.autograd.grad)
    np.testing.assert_allclose(found.array, wanted.detach().numpy(), rtol=1e-10, atol=1e-12)
    for mine, other in zip(found_grads, wanted_grads):
        np.testing.assert_allclose(mine.array, other.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in F.__all__ if name != "logsigmoid"])
def test_arguments_are_pytorchs(torch, name):
    theirs = getattr(torch.nn.functional, name)
    try:
        wanted = inspect.signature(theirs).parameters
    except ValueError:
        pytest.skip(f"PyTorch's {name} has no signature to compare with")
    if "args" in wanted:  # one of two functions, by return_indices
        wanted = inspect.signature(getattr(torch.nn.functional, f"_{name}")).parameters
    found = inspect.signature(getattr(F, name)).parameters
    assert list(found) == list(wanted)[: len(found)]
    for key, parameter in found.items():
        assert parameter.default == wanted[key].default, key


def test_one_hot_finds_the_number_of_classes():
    assert F.one_hot(Tensor(np.array([0, 2]))).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert F.one_hot(Tensor(np.array([0])), 2).tolist() == [[1, 0]]
    with pytest.raises(RuntimeError, match="needs num_classes"):
        F.one_hot(Tensor(np.zeros(0, np.int64)))


def test_softmax_casts_first():
    out = F.softmax(Tensor(np.ones(4, np.float16)), -1, dtype=np.float32)
    assert out.dtype == np.float32


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_dim_is_required(name):
    with pytest.raises(TypeError, match=f"{name}: dim is required"):
        getattr(F, name)(Tensor(X))


@pytest.mark.parametrize(
    "name",
    ["relu", "relu6", "hardtanh", "leaky_relu", "elu", "silu", "selu", "celu", "mish", "hardswish", "hardsigmoid"],
)  # fmt: skip
def test_in_place_writes_the_input_and_has_the_same_gradient(name):
    apart, within = plugrad.tensor(X, requires_grad=True), plugrad.tensor(X, requires_grad=True)
    x = within * 1
    expected, out = getattr(F, name)(apart * 1), getattr(F, name)(x, inplace=True)
    assert out is x
    np.testing.assert_array_equal(out.detach().numpy(), expected.detach().numpy())
    (expected * expected).sum().backward()
    (out * out).sum().backward()
    np.testing.assert_array_equal(within.grad.numpy(), apart.grad.numpy())
    with pytest.raises(RuntimeError, match="leaf"):
        getattr(F, name)(within, inplace=True)


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (F.dropout, (20,)),
        (F.alpha_dropout, (20,)),
        (F.feature_alpha_dropout, (3, 8, 2)),
        (F.dropout1d, (8, 3)),
        (F.dropout2d, (2, 8, 3, 2)),
        (F.rrelu, (20,)),
    ],
)
def test_in_place_functions_that_are_random(function, shape):
    values = np.linspace(-1.0, 1.0, int(np.prod(shape))).reshape(shape)
    apart, within = (plugrad.tensor(values, requires_grad=True) for _ in range(2))
    x = within * 1
    plugrad.manual_seed(3)
    expected = function(apart * 1, training=True)
    plugrad.manual_seed(3)
    assert function(x, training=True, inplace=True) is x
    np.testing.assert_array_equal(x.detach().numpy(), expected.detach().numpy())
    expected.sum().backward()
    x.sum().backward()
    np.testing.assert_array_equal(within.grad.numpy(), apart.grad.numpy())


@pytest.mark.parametrize(
    ("flags", "reduction"),
    [
        ({"reduce": False}, "none"),
        ({"size_average": False}, "sum"),
        ({"size_average": True}, "mean"),
        ({"reduce": True}, "mean"),
    ],
)
def test_old_reduction_flags(flags, reduction):
    found = F.mse_loss(Tensor(X), Tensor(TARGET), **flags)
    wanted = F.mse_loss(Tensor(X), Tensor(TARGET), reduction=reduction)
    np.testing.assert_array_equal(found.array, wanted.array)


def test_weight_of_another_shape():
    with pytest.raises(ValueError, match=r"mse_loss: weight must have the shape \(3, 4\)"):
        F.mse_loss(Tensor(X), Tensor(TARGET), weight=Tensor(WEIGHT))


def test_linear_of_one_feature_lacks_its_dimension():
    x, w = np.arange(12.0).reshape(2, 2, 3), np.array([1.0, -2.0, 0.5])
    weight, bias = Tensor(w, requires_grad=True), Tensor(np.array(2.0), requires_grad=True)
    out = F.linear(Tensor(x), weight, bias)
    np.testing.assert_allclose(out.detach().numpy(), x @ w + 2)
    out.sum().backward()
    np.testing.assert_allclose(weight.grad.numpy(), x.sum((0, 1)))
    assert bias.grad.item() == 4
    assert F.linear(Tensor(x[0, 0]), weight).shape == ()
    for given, added in ((x[..., :2], None), (x, np.zeros(1)), (np.array(1.0), None)):
        with pytest.raises(RuntimeError, match="linear: a weight of shape"):
            F.linear(Tensor(given), weight, None if added is None else Tensor(added))
