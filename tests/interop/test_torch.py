"""plugrad operators on PyTorch tensors."""

import gc
import subprocess
import sys

import numpy as np
import pytest

import plugrad
from plugrad import ops

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from plugrad.interop.torch import function  # noqa: E402


def randn(*shape, requires_grad=True, seed=0):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(shape, dtype=torch.float64, generator=generator)
    return values.requires_grad_(requires_grad)


def address(tensor):
    return tensor.data_ptr()


# ---- gradients -----------------------------------------------------------------------------------

CASES = {
    "saves its input": (ops.square, (3, 2)),
    "saves its output": (ops.exp, (3, 2)),
    "saves nothing": (ops.neg, (3, 2)),
    "saves both": (ops.mul, (3, 2), (3, 2)),
    "broadcasts": (ops.mul, (3, 2), (2,)),
    "linear in two": (ops.add, (3, 2), (3, 2)),
    "matmul": (ops.matmul, (3, 2), (2, 4)),
    "softmax": (lambda x: ops.softmax(x, dim=-1), (3, 2)),
    "0-d": (ops.tanh, ()),
    "view": (lambda x: ops.transpose(x, 0, 1), (3, 2)),
    "composite": (lambda x, y: ops.sigmoid(x @ y).sum() * x, (3, 2), (2, 2)),
}


@pytest.mark.parametrize("case", CASES)
def test_first_and_second_order_are_right(case):
    op, *shapes = CASES[case]
    inputs = tuple(randn(*shape, seed=i) for i, shape in enumerate(shapes))
    wrapped = function(op)
    assert torch.autograd.gradcheck(wrapped, inputs)
    assert torch.autograd.gradgradcheck(wrapped, inputs)


def test_derivatives_of_any_order():
    fourth_power = function(lambda x: x * x * x * x)
    x = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    y, found = fourth_power(x), []
    for _ in range(4):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
        found.append(y.item())
    assert found == [32, 48, 48, 24]
    assert not y.requires_grad


def test_in_a_chain_with_pytorchs_own_operators():
    swish = function(lambda x: x * ops.sigmoid(x))
    x = randn(5)
    y = (swish(x * 2) ** 2).sum()
    (ours,) = torch.autograd.grad(y, x, create_graph=True)
    (theirs,) = torch.autograd.grad(
        (torch.nn.functional.silu(x * 2) ** 2).sum(), x, create_graph=True
    )
    torch.testing.assert_close(ours, theirs)
    (ours,) = torch.autograd.grad(ours.sum(), x)
    (theirs,) = torch.autograd.grad(theirs.sum(), x)
    torch.testing.assert_close(ours, theirs)


def test_a_module_trains_through_it():
    layer = torch.nn.Linear(3, 2)
    loss = function(ops.tanh)(layer(torch.ones(4, 3))).pow(2).sum()
    loss.backward()
    assert layer.weight.grad.shape == (2, 3)
    assert layer.weight.grad.dtype == torch.float32


def test_a_random_function_is_not_run_again():
    calls = []

    def noisy(x):
        calls.append(1)
        return x * x * plugrad.tensor(np.full(3, 2.0 + len(calls)))

    x = randn(3)
    (g,) = torch.autograd.grad(function(noisy)(x).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    assert len(calls) == 1
    torch.testing.assert_close(h, torch.full((3,), 6.0, dtype=torch.float64))


def test_retain_graph():
    x = randn(3)
    y = function(ops.exp)(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    torch.testing.assert_close(x.grad, 2 * x.detach().exp())
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


# ---- memory --------------------------------------------------------------------------------------


def test_nothing_is_copied_on_the_way_in_or_out():
    seen = {}

    def look(x):
        y = x * 2
        seen["in"], seen["out"] = x.array.ctypes.data, y.array.ctypes.data
        return y

    x = randn(100)
    y = function(look)(x)
    assert seen == {"in": address(x), "out": address(y)}


def test_a_strided_tensor_is_not_copied_either():
    seen = []
    x = randn(4, 6, requires_grad=False)[::2, 1:].t()
    function(lambda t: (seen.append((t.array.ctypes.data, t.array.strides)), t * 1)[1])(x)
    assert seen == [(address(x), tuple(8 * s for s in x.stride()))]


@pytest.mark.parametrize("op", [lambda x: x[1:], lambda x: x, lambda x: x.detach()])
def test_a_result_that_would_share_memory_with_an_argument_is_a_copy(op):
    x = randn(3, requires_grad=False)
    y = function(op)(x)
    y.zero_()
    assert x.abs().min() > 0


def test_two_results_never_share_memory():
    first, second = function(lambda x: ops.split(x * 2, 2))(randn(4, requires_grad=False))
    first.zero_()
    assert second.abs().min() > 0
    once, again = function(lambda x: (lambda y: (y, y))(x * 2))(randn(4, requires_grad=False))
    once.zero_()
    assert again.abs().min() > 0


def test_an_overwritten_input_or_output_is_noticed():
    x = randn(3) * 1
    y = function(ops.square)(x)
    with torch.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    x = randn(3)
    y = function(ops.exp)(x)
    z = y * 1
    y.detach().mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_what_was_not_kept_may_be_overwritten():
    x = randn(3)
    y = function(ops.neg)(x)
    y.mul_(2)
    y.sum().backward()
    assert x.grad.tolist() == [-2, -2, -2]


# ---- arguments and results -----------------------------------------------------------------------


def test_constants_lists_and_keywords_pass_through():
    a, b = randn(2, 3), randn(1, 3, seed=1)
    joined = function(ops.cat)([a, b], dim=0)
    assert joined.shape == (3, 3)
    (joined * torch.arange(9.0, dtype=torch.float64).reshape(3, 3)).sum().backward()
    assert b.grad.tolist() == [[6, 7, 8]]
    clamped = function(ops.clamp)(a, min=-0.1, max=0.1)
    assert clamped.abs().max() <= 0.1
    assert function(ops.cast)(a, dtype=torch.float32).dtype == torch.float32
    seen = {}
    function(lambda x, **named: seen.update(named) or x * 1)(a, y=b, z=(1, {"t": b}), s="text")
    assert isinstance(seen["y"], plugrad.Tensor)
    assert isinstance(seen["z"][1]["t"], plugrad.Tensor)
    assert seen["s"] == "text"


def test_several_results_some_not_differentiable():
    x = randn(2, 3)
    values, indices = function(ops.max)(x, dim=1)
    assert values.requires_grad
    assert not indices.requires_grad
    assert indices.dtype == torch.int64
    values.sum().backward()
    assert x.grad.sum() == 2
    assert x.grad.gather(1, indices[:, None]).tolist() == [[1], [1]]


def test_an_unused_result_has_no_gradient():
    x = randn(3)
    first, _ = function(lambda x: (x * 2, x * 3))(x)
    first.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_only_what_is_asked_for_is_computed():
    asked = []

    class Look(plugrad.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, grad):
            asked.append(ctx.needs_input_grad)
            return grad, grad

    wrapped = function(Look.apply)
    wrapped(randn(3), randn(3, requires_grad=False)).sum().backward()
    assert asked == [(True, False)]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_a_graph(mode):
    gc.collect()
    before = plugrad.graph_stats().nodes
    with mode():
        y = function(ops.exp)(randn(3))
    assert not y.requires_grad
    assert plugrad.graph_stats().nodes == before


def test_plugrads_own_grad_mode_does_not_matter():
    x = randn(3)
    with plugrad.no_grad():
        function(ops.square)(x).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())


def test_names():
    silu = function(ops.silu)
    assert silu.__name__ == "silu"
    assert silu.__doc__ == ops.silu.__doc__
    assert "standard_silu" in type(silu(randn(1)).grad_fn).__name__
    assert "mine" in type(function(lambda x: x * 2, name="mine")(randn(1)).grad_fn).__name__


def test_nothing_is_kept_alive():
    gc.collect()
    before = plugrad.graph_stats().nodes
    x = randn(3)
    (g,) = torch.autograd.grad(function(ops.exp)(x).sum(), x, create_graph=True)
    g.sum().backward()
    del x, g
    gc.collect()
    assert plugrad.graph_stats().nodes == before


def test_bfloat16_tensors_and_gradients():
    pytest.importorskip("ml_dtypes")
    values = torch.linspace(-2, 2, 12).reshape(3, 4).T.to(torch.bfloat16)
    x, y = (values.clone().requires_grad_() for _ in range(2))
    out, expected = function(ops.tanh)(x), torch.tanh(y)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out, expected)
    out.sum().backward()
    expected.sum().backward()
    assert x.grad.dtype == torch.bfloat16
    torch.testing.assert_close(x.grad, y.grad, rtol=2e-2, atol=1e-2)
    assert function(ops.cast)(values, dtype=torch.bfloat16).dtype == torch.bfloat16


# ---- errors --------------------------------------------------------------------------------------


def test_refused_tensors():
    exp = function(ops.exp)
    with pytest.raises(TypeError, match=r"exp: NumPy has no dtype for torch.float8_e5m2"):
        exp(torch.ones(2, dtype=torch.float8_e5m2))
    with pytest.raises(TypeError, match=r"exp: plugrad works on dense tensors.*sparse"):
        exp(torch.eye(2).to_sparse())
    with pytest.raises(TypeError, match=r"exp: .*CPU tensors.*meta"):
        exp(torch.ones(2, device="meta"))


def test_refused_functions():
    with pytest.raises(TypeError, match="got int"):
        function(3)
    with pytest.raises(TypeError, match="must return a Tensor.*got float"):
        function(lambda x: 1.0, name="broken")(torch.ones(2))
    with pytest.raises(RuntimeError, match="changed an argument in place"):
        function(lambda x: x.mul_(2))(torch.ones(2))


def test_an_error_of_the_operator_comes_through():
    with pytest.raises(RuntimeError, match="cannot be broadcast"):
        function(ops.add)(torch.ones(2), torch.ones(3))


def test_without_pytorch_it_says_so():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import plugrad\n"
        "try: plugrad.interop.torch\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "needs PyTorch, which is not installed" in done.stdout
