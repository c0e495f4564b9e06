"""The battery on a device, tested: kernels that are wrong in one way are refused there, by the check that is meant to
find it, while the CPU goes on; correct ones pass."""

import numpy as np
import pytest

import plugrad
from plugrad import contract, ops, registry
from plugrad.graph.op import READY, UNVERIFIED

pytestmark = pytest.mark.usefixtures("cuda")


def matrices(make):
    yield make.call(make.normal(3, 4))
    yield make.call(make.normal(2, 3))
    yield make.call(make.normal(70))


def pairs(make):
    yield make.call(make.normal(3, 4), make.normal(4))
    yield make.call(make.normal(2, 3), make.normal(2, 3))
    yield make.call(make.normal(5), make.values(0.5))


def unary(cuda, backward=None, function=np.tanh, rule=None, **flags):
    """tanh, or another function of one input, with a kernel and a backward kernel for CUDA."""
    op = plugrad.operator("mutant::unary", elementwise=True, cuda=cuda, **flags)(
        lambda x: function(x)
    )
    op.backward(rule or (lambda grad, out: grad * (1.0 - out * out)))
    if backward is not None:
        op.backward_kernel(cuda=backward)
    op.samples(matrices)
    return op


def binary(cuda, backward=None):
    op = plugrad.operator("mutant::binary", elementwise=True, cuda=cuda)(lambda x, y: x * y * y)
    op.backward(lambda grad, x, y: (grad * y * y, grad * 2 * x * y))
    if backward is not None:
        op.backward_kernel(cuda=backward)
    op.samples(pairs)
    return op


def launched(source, name="kernel", dtypes=("float", "double", "half"), block=32):
    """A kernel of one array written by hand; `source` has the body with the type TYPE."""
    modules = {}

    def call(x):
        from plugrad.backends.cuda.array import contiguous, empty
        from plugrad.backends.cuda.module import Module

        x = contiguous(x)
        kind = {"float32": "float", "float64": "double", "float16": "half"}[x.dtype.name]
        if kind not in modules:
            text = f'extern "C" __global__ void {name}({source}'.replace("TYPE", kind)
            modules[kind] = Module(text, name=name)
        out = empty(x.shape, x.dtype)
        if x.size:
            modules[kind].function(name)(-(-x.size // block), block, out, x, np.int64(x.size))
        return out

    return call


# ------------------------------------------------------------------------------------------ correct

TANH = "tanh(x)"
CORRECT = [
    lambda: unary(TANH),
    lambda: unary(TANH, "grad * (1.0 - out * out)"),
    lambda: unary(lambda x: ops.tanh.kernel_on("cuda")(x)),
    lambda: unary(plugrad.on_tensors(lambda x: ops.tanh(x))),
    lambda: unary(plugrad.via_host),
    lambda: unary(TANH, lambda grad, out: ops.mul.kernel_on("cuda")(grad, one_minus_square(out))),
    lambda: binary("x * y * y"),
    lambda: binary("x * y * y", {"x": "grad * y * y", "y": "grad * 2.0 * x * y"}),
    lambda: binary(
        "x * y * y",
        plugrad.on_tensors(lambda grad, x, y: (grad * y * y, grad * 2 * x * y)),
    ),
    lambda: unary(launched(HAND_WRITTEN)),
    lambda: plugrad.elementwise("mutant::mish", "x * tanh(softplus(x))"),
    lambda: plugrad.elementwise("mutant::gate", "where(x > y, x * sigmoid(y), x ** 3 / 7 + y)"),
]

HAND_WRITTEN = """TYPE *out, const TYPE *x, i64 n) {
    i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (i < n) store(out[i], plugrad::tanh(load(x[i])));
}"""


def one_minus_square(out):
    from plugrad.backends.cuda.elementwise import Elementwise

    return Elementwise("1.0 - y * y", inputs=("y",))(out)


@pytest.mark.parametrize("build", CORRECT)
def test_correct_operators_pass(build):
    report = contract.check(build(), device="cuda")
    assert report.passed, str(report)


@pytest.mark.parametrize("name", ["ste::round", "standard::transpose", "standard::exp"])
def test_operators_of_plugins_pass(name):
    report = contract.check(registry.get(name), device="cuda")
    assert report.passed, str(report)


def test_a_composite_runs_on_the_device():
    @plugrad.composite("mutant::gate")
    def gate(x, *, scale=2.0):
        return x * ops.sigmoid(scale * x)

    gate.samples(matrices)
    report = contract.check(gate, device="cuda")
    assert report.passed, str(report)


# ------------------------------------------------------------------------------------------- mutants

MUTANTS = []


def mutant(*checks, words=""):
    """Register a function that builds a wrong operator, the checks of which one must refuse it, and what it must say."""

    def add(build):
        MUTANTS.append(pytest.param(build, checks, words, id=build.__name__))
        return build

    return add


@mutant("samples", words="usual cause: an index goes past an array")
def past_the_end():
    return unary(launched(HAND_WRITTEN.replace("if (i < n) ", "")))


@mutant("samples", words="usual cause: threads touch the same memory in no order")
def race():
    return unary(
        launched(
            """TYPE *out, const TYPE *x, i64 n) {
            i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
            if (i >= n) return;
            store(out[i], load(x[i]));
            store(out[i], load(out[(i + 1) % n]));
        }"""
        )
    )


@mutant("samples", words="usual cause: the kernel's text is no CUDA C++")
def calls_what_is_not_there():
    return unary(launched(HAND_WRITTEN.replace("plugrad::tanh", "plugrad::tnah")))


@mutant("samples", words="usual cause: the launch does not fit the kernel's parameters")
def one_argument_too_many():
    return unary(launched(HAND_WRITTEN.replace(", i64 n", "").replace("i < n", "i < 1")))


@mutant("samples", words="usual cause: a file that the package needs was not installed")
def file_left_out():
    from plugrad.backends.cuda.module import Module

    return unary(lambda x: Module.from_file("/not/there.cu").function("f")(1, 1, x))


@mutant("devices", words="the sign is flipped")
def wrong_sign():
    return unary("-tanh(x)")


@mutant("devices", words="output 0")
def off_by_a_millionth():
    return unary("tanh(x) * 1.000001")


@mutant("devices", words="in 1 of ")
def wrong_in_one_element():
    return unary("tanh(x) + (index == 69 ? 0.01 : 0.0)")


@mutant("devices", "backward", words="gradient of 'x'")
def wrong_backward_kernel():
    return unary(TANH, "grad * (1.0 + out * out)")


@mutant("devices", words="gradient of 'y'")
def wrong_for_one_of_two_inputs():
    return binary("x * y * y", {"x": "grad * y * y", "y": "grad * x * y"})


@mutant("needs", words="gradient of 'y'")
def wrong_when_the_other_gradient_is_not_needed():
    def backward(grad, x, y, needs):
        mul = ops.mul.kernel_on("cuda")
        twice = 2.0 if needs.x else 3.0
        return mul(grad, mul(y, y)), mul(grad, mul(mul(x, y), twice))

    op = binary("x * y * y")
    op.rule_arguments = (*op.rule_arguments, ("needs", 0))
    op.backward_kernel(cuda=backward)
    return op


@mutant("layout", words="inputs are")
def ignores_strides():
    from plugrad.backends.cuda.array import as_strided

    def flat(x):
        strides = np.empty(x.shape, x.dtype).strides
        return ops.tanh.kernel_on("cuda")(as_strided(x, x.shape, strides))

    return unary(flat)


@mutant("layout", words="incoming gradients")
def backward_ignores_strides_of_the_incoming_gradient():
    from plugrad.backends.cuda.array import as_strided

    def backward(grad, out):
        strides = np.empty(grad.shape, grad.dtype).strides
        grad = as_strided(grad, grad.shape, strides)
        return ops.mul.kernel_on("cuda")(grad, one_minus_square(out))

    return unary(TANH, backward)


@mutant("dtypes", words="float16")
def wrong_in_float16_only():
    def kernel(x):
        return ops.mul.kernel_on("cuda")(
            ops.tanh.kernel_on("cuda")(x), 1.02 if x.dtype == np.float16 else 1.0
        )

    return unary(kernel)


@mutant("dtypes", "samples", words="float")
def another_dtype():
    def kernel(x):
        from plugrad.backends.cuda.elementwise import Elementwise

        return Elementwise("tanh(x)", inputs=("x",), out_dtype=np.float64)(x)

    return unary(kernel)


@mutant("unchanged", words="changes its input 'x' in place")
def writes_into_its_input():
    def kernel(x):
        from plugrad.backends.cuda.elementwise import Elementwise

        out = ops.tanh.kernel_on("cuda")(x)
        if x.size:
            Elementwise("x * 2.0", inputs=("x",))(x, out=x)
        return out

    return unary(kernel)


@mutant("devices", words="shares memory with the input")
def returns_its_input():
    return unary(lambda x: x, function=lambda x: +x, rule=lambda grad: grad)


@mutant("devices", "determinism", words="output 0")
def leaves_elements_unwritten():
    return unary(
        launched(
            """TYPE *out, const TYPE *x, i64 n) {
    i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (i < n && i % 3 != 1) store(out[i], plugrad::tanh(load(x[i])));
}"""
        )
    )


@mutant("samples", "backward", "devices", "determinism")
def out_of_bounds():
    """One element too far: the last thread of the last block writes past the end."""
    return unary(
        launched(
            """TYPE *out, const TYPE *x, i64 n) {
    i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (i < n) store(out[i], plugrad::tanh(load(x[i])));
    if (i == n - 1) store(out[i + 1], 3.0f);
}"""
        )
    )


@mutant("samples", "backward", "devices", "determinism")
def missing_barrier():
    """Each element is read from shared memory that a neighbour writes, without a barrier in between."""
    return unary(
        launched(
            """TYPE *out, const TYPE *x, i64 n) {
    __shared__ TYPE row[32];
    i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (i < n) store(row[threadIdx.x], plugrad::tanh(load(x[i])));
    i64 other = threadIdx.x ^ 1;
    i64 left = i - threadIdx.x + other;
    if (left < n) out[left] = row[other];
}"""
        )
    )


@mutant("samples", words="arguments")
def wrong_argument_list():
    return unary(
        launched(
            """TYPE *out, const TYPE *x, i64 n, int m) {
    i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (i < n) store(out[i], plugrad::tanh(load(x[i])));
}"""
        )
    )


@mutant("samples", words="test_devices.py")
def does_not_compile():
    return unary("tanh(x) * does_not_exist(x)")


@mutant("kernel", words="no CUDA kernel")
def no_kernel():
    return unary(None)


@mutant("kernel", words="cannot be imported")
def a_name_that_leads_nowhere():
    return unary("no_such_package.cuda:tanh")


@mutant("samples", words="must return a GPUArray, got ndarray")
def returns_an_array_of_the_host():
    from plugrad.backends.cuda.array import to_host

    return unary(lambda x: np.tanh(to_host(x)))


@mutant("errors", words="does not raise")
def takes_what_the_cpu_refuses():
    def function(x):
        if x.ndim > 3:
            raise ValueError("mutant: unary takes at most 3 dimensions")
        return np.tanh(x)

    op = unary(TANH, function=function)
    op._default = True  # more samples

    @op.samples
    def _(make):
        yield from matrices(make)
        yield make.error(ValueError, "dimensions", make.normal(1, 1, 1, 1))

    return op


@pytest.mark.parametrize(("build", "checks", "words"), MUTANTS)
def test_mutants_are_refused(build, checks, words):
    report = contract.check(build(), device="cuda")
    assert not report.passed
    wrong = {failure.check for failure in report.failures}
    assert wrong & set(checks), str(report)
    assert words in str(report), str(report)
    assert "cuda" in str(report).partition("\n")[0]


# ---------------------------------------------------------------------------- what a refusal means


def test_it_is_refused_there_and_the_cpu_goes_on():
    op = unary("-tanh(x)")
    x = plugrad.tensor([0.5, 1.0], dtype="float64")
    np.testing.assert_allclose(op(x).numpy(), np.tanh([0.5, 1.0]))
    there = x.to("cuda")
    for _ in range(2):
        with pytest.raises(registry.OperatorRefused, match="mutant::unary on cuda.*refused"):
            op(there)
    np.testing.assert_allclose(op(x).numpy(), np.tanh([0.5, 1.0]))
    assert op.state == READY
    assert not registry.verification(op, "cuda").passed
    assert registry.verification(op).passed


def test_the_kernel_serves_after_the_battery():
    op = unary(TANH, "grad * (1.0 - out * out)")
    assert op.state_on("cuda") == UNVERIFIED
    x = plugrad.tensor([0.5, 1.0], dtype="float64", requires_grad=True)
    there = x.to("cuda")
    out = op(there)
    assert out.device == "cuda"
    assert op.state_on("cuda") == READY
    assert registry.verification(op, "cuda").how == "battery"
    out.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 1 - np.tanh([0.5, 1.0]) ** 2)


def test_constants_are_checked_as_on_the_cpu():
    @plugrad.operator("mutant::cap", elementwise=True, cuda="nan_min(x, cap)")
    def capped(x, *, cap=1.0):
        if cap <= 0:
            raise ValueError(f"cap: cap must be positive, got {cap}")
        return np.minimum(x, cap)

    @capped.backward
    def _(grad, x, cap):
        return grad * (x < cap)

    @capped.samples
    def _(make):
        yield from matrices(make)
        yield make.error(ValueError, "positive", make.normal(3), cap=-1.0)

    report = contract.check(capped, device="cuda")
    assert report.passed, str(report)
    with pytest.raises(ValueError, match="cap must be positive, got -2"):
        capped(plugrad.tensor([1.0]).to("cuda"), cap=-2.0)


def test_no_kernel_is_an_error_that_names_operator_and_device():
    op = unary(None)
    with pytest.raises(
        NotImplementedError, match=r"mutant::unary has no CUDA kernel.*'cuda'.*via_host"
    ):
        op(plugrad.tensor([1.0]).to("cuda"))


def test_emulated_and_hardware_are_told_apart():
    from plugrad.backends.cuda.device import emulated

    report = contract.check(unary(TANH), device="cuda")
    assert report.device == ("cuda (emulated)" if emulated() else "cuda")
    key = registry.hardware.environment_of("cuda")
    assert ("emulated" in key[0]) == emulated()


def test_a_device_out_of_memory_is_no_fault_of_the_operator(monkeypatch):
    from plugrad.backends.cuda.errors import OutOfMemoryError

    def kernel(x):
        if failing:
            raise OutOfMemoryError("the device has no memory for float64[3, 4]")
        return ops.tanh.kernel_on("cuda")(x)

    failing = [True]
    op = unary(kernel)
    x = plugrad.tensor([0.5, 1.0], dtype="float64").to("cuda")
    with pytest.raises(OutOfMemoryError):
        op(x)
    assert op.state_on("cuda") == UNVERIFIED
    failing.clear()
    np.testing.assert_allclose(op(x).cpu().numpy(), np.tanh([0.5, 1.0]))


# -------------------------------------------------------------------------------------- large samples

FIRST_BLOCK = """TYPE *out, const TYPE *x, i64 n) {
    i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (i < n && i < 256) store(out[i], plugrad::tanh(load(x[i])));
}"""


def rows_of_two(make):
    yield make.call(make.normal(3, 2))
    yield make.call(make.normal(2, 2))
    yield make.call(make.normal(1, 2))


def doubled(source):
    """Twice the input, declared as an operator that is not elementwise."""
    op = plugrad.operator("mutant::doubled", cuda=launched(source))(lambda x: 2 * x)
    op.backward(lambda grad: grad * 2)
    op.samples(rows_of_two)
    return op


def test_a_kernel_that_is_right_for_one_block_only_is_refused():
    report = contract.check(unary(launched(FIRST_BLOCK)), device="cuda")
    assert {failure.check for failure in report.failures} == {"large"}, str(report)


def test_a_backward_kernel_that_is_right_for_one_block_only_is_refused():
    cut = launched(FIRST_BLOCK.replace("plugrad::tanh(load(x[i]))", "load(x[i])"))
    multiply = ops.mul.kernel_on("cuda")
    op = unary(TANH, lambda grad, out: cut(multiply(grad, one_minus_square(out))))
    report = contract.check(op, device="cuda")
    assert "large" in {failure.check for failure in report.failures}, str(report)
    assert all(failure.check in ("large", "memory") for failure in report.failures), str(report)


def test_what_is_not_elementwise_is_repeated_along_its_first_dimension():
    whole = HAND_WRITTEN.replace("plugrad::tanh(load(x[i]))", "load(x[i]) * 2")
    report = contract.check(doubled(whole), device="cuda")
    assert report.passed, str(report)
    report = contract.check(doubled(whole.replace("i < n", "i < n && i < 256")), device="cuda")
    assert [failure.check for failure in report.failures] == ["large"], str(report)


def test_what_repeating_would_break_is_not_repeated():
    """Where a sequence that must ascend passes its middle; repeated it does not ascend."""

    def on_device(x):
        from plugrad.backends.cuda.array import from_host, to_host

        host = to_host(x)
        if np.any(np.diff(host) < 0):
            raise ValueError("mutant::middle: x must ascend")
        return from_host(np.asarray(middle(host)))

    def middle(x):
        return np.searchsorted(x, 0.5)

    def ascending(make):
        for n in (3, 2, 5):
            yield make.call(np.sort(make.normal(n)))

    op = plugrad.operator("mutant::middle", nondifferentiable=True, cuda=on_device)(
        lambda x: np.asarray(middle(x))
    )
    op.samples(ascending)
    report = contract.check(op, device="cuda")
    assert report.passed, str(report)
