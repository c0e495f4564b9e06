"""Kernels of every sort in bfloat16 on a CUDA device: what the CPU gives, to one rounding of float32 sums."""

import numpy as np
import pytest

import plugrad
import plugrad.nn.functional as F

ml_dtypes = pytest.importorskip("ml_dtypes")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(BFLOAT16)


A, B, ROW = numbers(6, 40, seed=1), numbers(40, 5, seed=2), numbers(40, seed=3)
LABELS = np.array([0, 39, 7, 7, 1, 20])


def at(x):
    return plugrad.from_numpy(LABELS).to(x.device)


FUNCTIONS = {
    "elementwise": lambda a: (a * 2.5 + 1).tanh() / (a * a + 1),
    "broadcast": lambda a, row: a * row - row,
    "strided": lambda a: a.T[::2, ::-1] * a.T[1::2],
    "sum": lambda a: a.sum(1) + a.mean(),
    "var": lambda a: a.var(0),
    "amax": lambda a: a.amax(1),
    "cumsum": lambda a: a.cumsum(1),
    "softmax": lambda a: a.softmax(1),
    "log_softmax": lambda a: a.log_softmax(0),
    "matmul": lambda a, b: a @ b,
    "linear": lambda a, b, bias: F.linear(a, b.T, bias),
    "cross_entropy": lambda a: F.cross_entropy(a, at(a), label_smoothing=0.1),
    "gather": lambda a: a.gather(1, at(a).unsqueeze(1)) + a[:, at(a)].sum(1, keepdim=True),
    "scatter": lambda a: plugrad.zeros_like(a).scatter_add(1, at(a).unsqueeze(1), a[:, :1]),
    "sort": lambda a: a.sort(1)[0],
    "cat": lambda a: plugrad.cat([a, a.flip(0)], 1),
    "where": lambda a: plugrad.where(a > 0, a, 0.5),
    "layer_norm": lambda a, row: F.layer_norm(a, (40,), row),
    "cast": lambda a: (a.double() * 1.00390625001).bfloat16() + a.float().bfloat16(),
}
OPERANDS = {
    "broadcast": (A, ROW),
    "layer_norm": (A, ROW),
    "matmul": (A, B),
    "linear": (A, B, ROW[:5]),
}


def run(function, arrays, device):
    """The result and the gradients of a weighted sum of it."""
    tensors = [plugrad.from_numpy(x.copy()).to(device).requires_grad_() for x in arrays]
    out = function(*tensors)
    weight = plugrad.from_numpy(numbers(*out.shape, seed=9)).to(device)
    gradients = plugrad.autograd.grad(out, tensors, weight)
    return [x.detach().cpu().array for x in (out, *gradients)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_kernel(cuda, name):
    arrays = OPERANDS.get(name, (A,))
    for got, want in zip(run(FUNCTIONS[name], arrays, "cuda"), run(FUNCTIONS[name], arrays, "cpu")):
        assert got.dtype == want.dtype == BFLOAT16
        largest = np.abs(want.astype(np.float32)).max()
        np.testing.assert_allclose(
            got.astype(np.float32), want.astype(np.float32), rtol=2**-6, atol=2**-6 * largest
        )


def test_conversions(cuda):
    """Rounded to nearest, ties to even, from every type; NaN and infinity stay."""
    values = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, -1e-40, 1 + 2**-8, 1 + 3 * 2**-8, 1e300],
        np.float64,
    )
    values = np.concatenate([values, np.random.default_rng(4).standard_normal(500)])
    values = np.concatenate([values, [1 + 2**-8 + 2**-40, -1 - 2**-8 - 2**-40]])
    for dtype in ("float64", "float32", "float16"):
        with np.errstate(all="ignore"):
            given = plugrad.from_numpy(values.astype(dtype))
        want = given.to(plugrad.bfloat16)
        got = given.to("cuda").to(plugrad.bfloat16).cpu()
        np.testing.assert_array_equal(got.float().array, want.float().array)
        back = want.to("cuda").to(given.dtype).cpu()
        np.testing.assert_array_equal(back.array, want.to(given.dtype).array)
    whole = plugrad.tensor([2**24 + 2**16 + 1, -3, 257, 0])
    for dtype in ("int64", "int32", "int16", "bool"):
        given = whole.to(dtype)
        got = given.to("cuda").to(plugrad.bfloat16).cpu()
        assert got.tolist() == given.to(plugrad.bfloat16).tolist()


def test_random_numbers_are_those_of_the_cpu(cuda):
    for fill in ("uniform_", "normal_", "bernoulli_"):
        on = [plugrad.zeros(7, 33, dtype=plugrad.bfloat16, device=d) for d in ("cpu", "cuda")]
        for x in on:
            getattr(x, fill)(generator=plugrad.Generator().manual_seed(3))
        got, want = on[1].cpu().float(), on[0].float()
        assert float((got - want).abs().max()) <= 2**-7
        if fill != "normal_":
            assert got.tolist() == want.tolist()
            assert float(got.max()) < (1 if fill == "uniform_" else 2)


def test_in_place_and_optimizers(cuda):
    found = []
    for device in ("cpu", "cuda"):
        p = plugrad.from_numpy(A.copy()).to(device).requires_grad_()
        optimizer = plugrad.optim.AdamW([p], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            (p * p).sum().backward()
            plugrad.nn.utils.clip_grad_norm_([p], 1.0)
            optimizer.step()
        x = p.detach()
        x[1] = 0.5
        x[:, 3] += x[:, 4]
        x[x > 1] = 1
        assert x.dtype == BFLOAT16
        found.append(x.cpu().float().array)
    np.testing.assert_allclose(found[1], found[0], rtol=2**-6, atol=2**-7)


def test_a_plugins_expression(cuda):
    made = plugrad.elementwise("brain::bump", "exp(-x * x) * y")
    plugrad.register(made)
    for got, want in zip(run(made, (A, ROW), "cuda"), run(made, (A, ROW), "cpu")):
        np.testing.assert_allclose(
            got.astype(np.float32), want.astype(np.float32), rtol=2**-6, atol=2**-6
        )


def test_what_runs_on_the_host_sees_float32(cuda):
    seen = []

    @plugrad.operator(
        "brain::scaled",
        infer=lambda x, *, by: (x.shape, x.dtype),
        cuda=plugrad.via_host,
    )
    def scaled(x, *, by):
        """The input times a number."""
        seen.append(x.dtype)
        return x * by

    @scaled.backward
    def _(grad, by):
        return plugrad.ops.brain.scaled(grad, by=by)

    @scaled.samples
    def _(make):
        yield make.call(make.normal(3), by=2.0)
        yield make.call(make.normal(2, 3), by=-0.5)
        yield make.call(make.normal(), by=1.5)

    plugrad.register(scaled)
    x = plugrad.from_numpy(ROW).to("cuda").requires_grad_()
    plugrad.ops.brain.scaled(x, by=3.0)
    seen.clear()
    out = plugrad.ops.brain.scaled(x, by=3.0)
    out.sum().backward()
    assert set(seen) == {np.dtype(np.float32)}
    assert out.dtype == x.grad.dtype == BFLOAT16
    assert out.tolist() == (plugrad.from_numpy(ROW) * 3.0).tolist()


def test_memory_is_shared_with_other_libraries(cuda):
    x = plugrad.from_numpy(A).to("cuda")
    assert x.__cuda_array_interface__["typestr"] == "<V2"  # as PyTorch writes it

    class Other:
        __cuda_array_interface__ = x.T.__cuda_array_interface__

    for again in (plugrad.as_tensor(Other()), plugrad.from_dlpack(x.T)):
        assert again.dtype == BFLOAT16
        assert again.tolist() == x.T.tolist()
