"""Random numbers on a CUDA device are those of the CPU: integers and uniform numbers bit for bit, others to rounding."""

import numpy as np
import pytest

import plugrad
import plugrad.nn.functional as F
from plugrad import ops
from plugrad.random import Stream

pytestmark = pytest.mark.usefixtures("cuda")

STREAM = Stream(0x299F31D0A4093822, 2**40 + 3)
FLOATS = ["float16", "float32", "float64"]


@pytest.fixture(autouse=True)
def seeded():
    with plugrad.random.fork_rng():
        plugrad.manual_seed(20240607)
        yield


def both(call, *arrays, dtype=np.float32):
    """What a call gives on the CPU and on the device."""
    found = []
    for device in ("cpu", "cuda"):
        tensors = [plugrad.tensor(array, dtype=dtype, device=device) for array in arrays]
        found.append(np.array(call(*tensors).cpu().array))
    assert found[0].dtype == found[1].dtype
    return found


def exact(call, *arrays, dtype=np.float32):
    host, device = both(call, *arrays, dtype=dtype)
    np.testing.assert_array_equal(device, host)


def close(call, *arrays, dtype=np.float32):
    host, device = both(call, *arrays, dtype=dtype)
    eps = float(np.finfo(host.dtype).eps)
    np.testing.assert_allclose(device, host, rtol=8 * eps, atol=16 * eps)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (1025,)], ids=str)
def test_uniform_numbers_are_equal(dtype, shape):
    x = np.zeros(shape)
    exact(lambda t: t.uniform_(generator=STREAM), x, dtype=dtype)
    exact(lambda t: t.uniform_(-1.7, 3.3, generator=STREAM), x, dtype=dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_normal_and_exponential_numbers_are_close(dtype):
    x = np.zeros(1025)
    close(lambda t: t.normal_(generator=STREAM), x, dtype=dtype)
    close(lambda t: t.normal_(2.0, 0.5, generator=STREAM), x, dtype=dtype)
    close(lambda t: t.exponential_(2.0, generator=STREAM), x, dtype=dtype)


def test_other_fills_are_close():
    close(lambda t: t.log_normal_(0.0, 0.25, generator=STREAM), np.zeros(100))
    close(lambda t: t.cauchy_(1.0, 0.5, generator=STREAM), np.zeros(100))
    exact(lambda t: t.geometric_(0.3, generator=STREAM), np.zeros(1000))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64", "bool", "float16"])
def test_integers_are_equal(dtype):
    x = np.zeros(200)
    exact(lambda t: t.random_(generator=STREAM), x, dtype=dtype)
    if dtype != "bool":
        exact(lambda t: t.random_(3, 100, generator=STREAM), x, dtype=dtype)
    exact(lambda t: t.bernoulli_(0.3, generator=STREAM), x, dtype=dtype)


def test_wide_ranges_are_equal():
    x = np.zeros(100)
    exact(lambda t: t.random_(-(2**63), 2**63, generator=STREAM), x, dtype=np.int64)
    exact(lambda t: t.random_(-(2**62), 2**63, generator=STREAM), x, dtype=np.int64)
    exact(lambda t: t.random_(2**40, 2**40 + 5, generator=STREAM), x, dtype=np.int64)


@pytest.mark.parametrize(
    "view",
    [lambda t: t.t(), lambda t: t[:, ::2], lambda t: t[1:, 3], lambda t: t[:, 1:].t()],
    ids=["transposed", "steps", "column", "shifted"],
)
def test_layouts_do_not_matter(view):
    def fill(t):
        view(t).uniform_(generator=STREAM)
        return t

    exact(fill, np.zeros((9, 8)))


# ---- made on the device ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda **options: plugrad.rand(5, 7, **options),
        lambda **options: plugrad.rand(33, dtype=np.float64, **options),
        lambda **options: plugrad.randint(-4, 9, (5, 7), **options),
        lambda **options: plugrad.randperm(50, **options),
        lambda **options: plugrad.randperm(3000, **options),
        lambda **options: plugrad.randperm(0, **options),
    ],
)
def test_a_seed_gives_the_same_tensors_on_both_devices(make):
    plugrad.manual_seed(5)
    host = make()
    plugrad.manual_seed(5)
    made = make(device="cuda")
    assert made.device == "cuda"
    assert made.dtype == host.dtype
    assert made.cpu().tolist() == host.tolist()
    generator = plugrad.Generator(device="cuda").manual_seed(5)
    assert make(device="cuda", generator=generator).cpu().tolist() == host.tolist()


def test_like_tensors_stay_on_the_device():
    x = plugrad.zeros(3, device="cuda")
    for made in (plugrad.rand_like(x), plugrad.randn_like(x), plugrad.randint_like(x, 5)):
        assert made.device == "cuda"
    assert (
        plugrad.normal(x, 1.0).device
        == plugrad.normal(0.0, 1.0, (2,), device="cuda").device
        == "cuda"
    )


# ---- choices -----------------------------------------------------------------------------------------------


def test_coins_are_equal():
    p = np.random.default_rng(0).random((9, 17))
    for dtype in FLOATS:
        exact(lambda t: plugrad.bernoulli(t, generator=STREAM), p, dtype=dtype)
        exact(lambda t: plugrad.bernoulli(t, 0.3, generator=STREAM), p, dtype=dtype)
    with pytest.raises(RuntimeError, match="0 to 1"):
        plugrad.bernoulli(plugrad.tensor([0.5, 1.5], device="cuda"))


def test_categories_are_equal():
    weights = np.random.default_rng(0).random((3, 20)) * (np.arange(20) % 3 > 0)
    exact(lambda t: plugrad.multinomial(t, 200, True, generator=STREAM), weights)
    exact(lambda t: plugrad.multinomial(t, 13, generator=STREAM), weights)
    exact(lambda t: plugrad.multinomial(t, 4, generator=STREAM), weights[0])
    for wrong, words in (([1.0, -1.0], "not negative"), ([0.0, 0.0], "all 0")):
        with pytest.raises(RuntimeError, match=words):
            plugrad.multinomial(plugrad.tensor(wrong, device="cuda"), 1)
    with pytest.raises(RuntimeError, match="positive weight"):
        plugrad.multinomial(plugrad.tensor([1.0, 0.0], device="cuda"), 2)


# ---- dropout -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_dropout_is_equal(dtype):
    x = np.random.default_rng(0).normal(size=(17, 33))
    exact(lambda t: ops.dropout(t, p=0.3, generator=STREAM), x, dtype=dtype)
    exact(lambda t: ops.dropout(t.t(), p=0.3, generator=STREAM), x, dtype=dtype)
    close(lambda t: ops.feature_dropout(t, p=0.3, generator=STREAM), x, dtype=dtype)
    exact(lambda t: ops.dropout(t, p=1.0, generator=STREAM), x, dtype=dtype)


def test_the_gradient_of_dropout_has_the_same_mask():
    x = plugrad.ones(300, device="cuda", requires_grad=True)
    y = F.dropout(x * x, 0.5)
    (first,) = plugrad.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = plugrad.autograd.grad(first.sum(), x)
    mask = y.detach().cpu().array
    assert set(mask.tolist()) == {0.0, 2.0}
    np.testing.assert_array_equal(first.detach().cpu().array, 2 * mask)
    np.testing.assert_array_equal(second.cpu().array, 2 * mask)


def test_other_functions():
    x = np.random.default_rng(0).normal(size=(7, 9))
    close(lambda t: ops.alpha_dropout(t, p=0.3, generator=STREAM), x)
    close(lambda t: ops.rrelu(t, training=True, generator=STREAM), x)

    def sample(t):
        plugrad.manual_seed(3)
        return F.gumbel_softmax(t, hard=True)

    close(sample, x)


# ---- expressions of plugins --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shaken(cuda):
    @plugrad.operator(
        "random_cuda_test::shaken",
        elementwise=True,
        random=True,
        cuda="x + size * normal(generator, index) * uniform(generator, index) * y",
    )
    def shaken(x, y, *, size=0.5, generator=None):
        shape = np.broadcast_shapes(np.shape(x), np.shape(y))
        dtype = np.result_type(x, y)
        wide = np.float32 if dtype == np.float16 else dtype
        noise = generator.normal(shape, wide) * generator.uniform(shape, dtype)
        return (x + size * noise * y).astype(dtype)

    @shaken.backward
    def _(grad, x, y, size, generator):
        return grad, shaken(grad * 0.0, grad, size=size, generator=generator)

    shaken.backward_kernel(
        cuda={
            "x": "grad",
            "y": "grad * size * normal(generator, index) * uniform(generator, index)",
        }
    )

    @shaken.samples
    def _(make):
        yield make.call(make.normal(3, 4), make.normal(3, 4))
        yield make.call(make.normal(3, 1), make.normal(5), size=2.0)
        yield make.call(make.normal(2, 17), make.normal(17), generator=make.generator())

    return shaken


def test_an_expression_may_draw(shaken):
    for device in ("cpu", "cuda"):
        report = plugrad.contract.check(shaken, device=device)
        assert report.passed, report


def test_an_expression_draws_the_same_in_every_layout(shaken):
    plugrad.register(shaken)
    x, y = np.random.default_rng(0).normal(size=(2, 12, 16))
    for change in (
        lambda t: t,
        lambda t: t.t(),
        lambda t: t[:, 1:],
        lambda t: t[:, ::2],
        lambda t: t[:1].expand(12, 16),
        lambda t: t.reshape(3, 2, 2, 16)[:, :, 1],
    ):
        for dtype in FLOATS:
            close(
                lambda t, u, change=change: shaken(change(t), change(u), generator=STREAM),
                x,
                y,
                dtype=dtype,
            )
    close(lambda t, u: shaken(t, u[0], generator=STREAM), x, y)
    close(lambda t, u: shaken(t[:, :1], u[0], generator=STREAM), x, y)
