"""`cuda=` of a declaration: its forms, what is refused at once, and the text that is made of a formula."""

import sys
import types

import numpy as np
import pytest

import plugrad
from plugrad import Tensor
from plugrad.registry import DeclarationError
from plugrad.registry.c_formula import backward_expressions, forward_expression
from plugrad.registry.cuda import Origin, is_reference, load_kernel, on_tensors
from plugrad.registry.declaration import operator
from plugrad.registry.device_backward import Expressions, FormulaBackward, Gradients
from plugrad.registry.fingerprint import of_operator


def declare(function=None, **flags):
    if function is None:

        def function(x, y, *, cap=6.0):
            return x * y

    return operator("my::f", **flags)(function)


# -------------------------------------------------------------------------------------------- forms


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (".cuda:softmax", True),
        ("..kernels.cuda:softmax", True),
        ("package.module:Class.method", True),
        ("x > 0 ? x : y", False),
        ("x", False),
        ("exp(x):y", False),
    ],
)
def test_a_name_of_a_kernel_is_no_expression(text, named):
    assert is_reference(text) is named


@pytest.mark.parametrize(
    ("cuda", "kind"),
    [
        ("x * y", "expression"),
        (".cuda:f", "kernel"),
        (lambda x, y, cap: x, "kernel"),
        (plugrad.via_host, "via host"),
        (plugrad.on_tensors(lambda x, y, cap: x), "composition"),
        (None, ""),
    ],
)
def test_kinds(cuda, kind):
    assert declare(elementwise=True, cuda=cuda).cuda_kind == kind


def test_a_view_needs_no_kernel():
    op = operator("my::flip", view_of="x")(lambda x: x[::-1])
    assert op.cuda_kind == "view"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"cuda": 3}, "via_host, got 3"),
        ({"cuda": "x * z"}, "CUDA expression.*uses 'z'.*x, y, cap"),
        ({"cuda": "x * caps"}, "did you mean 'cap'"),
        ({"cuda": "x ** y"}, r"write pow\(a, b\)"),
        ({"cuda": "return x;"}, "one C expression"),
        ({"cuda": ""}, "C text"),
        ({"cuda": "x * y", "elementwise": False}, "is not elementwise"),
        ({"cuda": "x * y", "outputs": ("a", "b")}, "several outputs"),
        ({"cuda": plugrad.via_host, "elementwise": False, "mutates": "x"}, "writes in place"),
        ({"cuda": plugrad.via_host, "elementwise": False, "view_of": "x"}, "returns a view"),
    ],
)
def test_what_cannot_work_is_refused_at_once(flags, words):
    with pytest.raises(DeclarationError, match=f"my::f.*{words}"):
        declare(**{"elementwise": True, **flags})


def test_an_expression_cannot_say_what_an_absent_tensor_means():
    with pytest.raises(DeclarationError, match="may be absent"):
        declare(lambda x, y=None: x, elementwise=True, cuda="x + y")
    with pytest.raises(DeclarationError, match="list of tensors"):
        declare(lambda *xs: xs[0], elementwise=True, cuda="xs")


def test_a_relative_name_needs_a_package(monkeypatch):
    module = types.ModuleType("lonely")
    module.__package__ = ""
    monkeypatch.setitem(sys.modules, "lonely", module)
    namespace = {"__name__": "lonely", "operator": operator}
    with pytest.raises(DeclarationError, match="relative to the package of the module 'lonely'"):
        exec("operator('my::f', cuda='.cuda:f')(lambda x: x)", namespace)


def test_functions_types_and_members_are_no_names():
    text = "static_cast<T>(x) > 1e-3f ? fma(x, y, 0x1F) : INF /* z */ + abs(y)"
    assert declare(elementwise=True, cuda=text).cuda == text


# -------------------------------------------------------------------------------- kernels by name


@pytest.fixture
def family(monkeypatch):
    package = types.ModuleType("family")
    package.__path__ = []
    kernels = types.ModuleType("family.cuda")
    kernels.double = lambda x: 2 * x
    kernels.number = 3
    for module in (package, kernels):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    package.__package__ = "family"


def in_family(text):
    namespace = {"__name__": "family", "operator": operator}
    exec(f"op = operator('my::f', cuda={text!r})(lambda x: x)", namespace)
    return namespace["op"]


@pytest.mark.parametrize("text", [".cuda:double", "family.cuda:double"])
def test_a_kernel_is_found_by_its_name(family, text):
    assert load_kernel(in_family(text), text)(4) == 8


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (".cuda:triple", "my::f does not exist: family.cuda has no 'triple'"),
        (".absent:f", "my::f cannot be imported"),
        (".cuda:number", "is a int, which cannot be called"),
    ],
)
def test_a_kernel_that_is_not_there(family, text, words):
    with pytest.raises(ImportError, match=words):
        load_kernel(in_family(text), text)


def test_a_kernel_outside_the_package_has_no_fingerprint(family):
    assert of_operator(in_family(".cuda:double"))
    from plugrad.registry.fingerprint import Opaque

    with pytest.raises(Opaque, match="in the module other.kernels"):
        of_operator(in_family("other.kernels:double"))


def test_the_fingerprint_depends_on_the_cuda_text():
    texts = ["x * y", "y * x", None]
    prints = {of_operator(declare(elementwise=True, cuda=text)) for text in texts}
    assert len(prints) == 3


def test_the_line_of_a_text_is_found():
    op = operator(
        "my::f",
        elementwise=True,
        cuda="x * y * 17",
    )(lambda x, y: x * y)
    found = op.origin.at(op.cuda)
    assert found.file == __file__
    with open(__file__) as file:
        assert 'cuda="x * y * 17"' in file.readlines()[found.line - 1]
    assert Origin(__file__, 1).at("nowhere to be found " * 2) == Origin(__file__, 1)


# ---------------------------------------------------------------------------------- no kernel at all


def test_without_a_kernel_the_error_says_what_to_do():
    op = declare(elementwise=True)
    with pytest.raises(NotImplementedError, match=r"my::f has no CUDA kernel.*'cuda'.*via_host"):
        op.kernel_on("cuda")
    with pytest.raises(
        NotImplementedError, match="no kernel for device 'tpu'; it has one for: cpu"
    ):
        op.kernel_on("tpu")


# -------------------------------------------------------------------------- functions of Tensors


def test_a_function_of_tensors_as_a_kernel():
    @on_tensors
    def kernel(x, y, *, scale):
        assert isinstance(x, Tensor) and y == 2.0
        assert not plugrad.is_grad_enabled()
        return x * y * scale, None

    found, nothing = kernel(np.ones(3), 2.0, scale=4.0)
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, [8.0] * 3)
    assert nothing is None
    with pytest.raises(TypeError, match="got 3"):
        on_tensors(3)


# ------------------------------------------------------------------------------------ backward kernels


def two_inputs():
    op = declare(elementwise=True, cuda="x * y")
    op.backward(lambda grad, x, y: (grad * y, grad * x))
    return op


@pytest.mark.parametrize(
    ("cuda", "words"),
    [
        ("grad * x", "is one expression, but there are the inputs x, y"),
        ({"z": "grad"}, "'z', which is no input"),
        ({"x": "grad * z"}, "uses 'z'"),
        ({"x": "x * y"}, "without the incoming gradient"),
        ({"x": 3}, "is a C expression, got 3"),
        ({}, "no gradient at all"),
        (3, "got 3"),
    ],
)
def test_backward_texts_that_cannot_work(cuda, words):
    with pytest.raises(DeclarationError, match=words):
        two_inputs().backward_kernel(cuda=cuda)


def test_what_a_backward_text_names_is_saved():
    op = operator("my::tanh", elementwise=True, cuda="tanh(x)")(lambda x: np.tanh(x))
    op.backward(lambda grad, x: grad * (1 - plugrad.tanh(x) ** 2))
    op.backward_kernel(cuda="grad * (1.0 - out * out)")
    assert set(op._saved_names) == {"x", "out"}
    assert isinstance(op.cuda_backward, Expressions)
    assert op.cuda_backward.names == ("out",)


def test_it_is_given_once():
    op = two_inputs()
    op.backward_kernel(cuda={"x": "grad * y"})
    with pytest.raises(DeclarationError, match="given twice"):
        op.backward_kernel(cuda={"x": "grad * y"})


def test_a_kernel_takes_what_the_rule_takes():
    op = two_inputs()
    op.backward_kernel(cuda=lambda grad, x, y: (grad, grad))
    assert set(op._saved_names) == {"x", "y"}
    bare = declare(elementwise=True)
    with pytest.raises(DeclarationError, match="declare @f.backward before it"):
        bare.backward_kernel(cuda=lambda grad: grad)


def test_both_kernels_from_one_decorator():
    op = two_inputs()

    @op.backward_kernel(cuda={"x": "grad * y", "y": "grad * x"})
    def kernel(grad, x, y, needs):
        return grad * y, grad * x

    assert op.rule_kernel is kernel
    assert op.cuda_backward.texts == {"x": "grad * y", "y": "grad * x"}


def test_several_outputs_are_named():
    def function(x):
        return x, x

    op = operator("my::two", elementwise=True, outputs=("a", "b"), cuda=".cuda:two")(function)
    op.backward(lambda grad: grad[0] + grad[1])
    with pytest.raises(DeclarationError, match="several outputs"):
        op.backward_kernel(cuda="grad_a + grad_b")


# ------------------------------------------------------------------------- which kernels are made


class FakeElementwise:
    """Evaluates the expressions in Python, and remembers which kernels were made."""

    made: list = []  # noqa: RUF012

    def __init__(self, expression, inputs, constants, name, origin, line):
        self.expressions = expression if isinstance(expression, dict) else {"out": expression}
        self.inputs, self.several = inputs, isinstance(expression, dict)
        FakeElementwise.made.append((tuple(self.expressions), inputs, constants))

    def __call__(self, *arrays, **constants):
        names = dict(zip(self.inputs, arrays)) | constants
        found = tuple(eval(text, {}, names) for text in self.expressions.values())
        return found if self.several else found[0]


def test_only_what_is_needed_is_computed(monkeypatch):
    import plugrad.backends.cuda.elementwise as module

    monkeypatch.setattr(module, "Elementwise", FakeElementwise)
    FakeElementwise.made = []
    op = two_inputs()
    given = Expressions({"x": "grad * y * cap", "y": "grad * x"}, ("x", "y", "cap"))
    gradients = Gradients(op, given)
    assert gradients(2.0, 3.0, 5.0, 7.0, (True, True)) == (70.0, 6.0)
    assert gradients(2.0, None, 5.0, 7.0, (True, False)) == (70.0, None)
    assert gradients(2.0, None, 5.0, 7.0, (True, False)) == (70.0, None)
    assert gradients(2.0, None, None, 7.0, (False, False)) == (None, None)
    assert FakeElementwise.made == [
        (("x", "y"), ("grad", "x", "y"), ("cap",)),
        (("out",), ("grad", "y"), ("cap",)),
    ]


# ----------------------------------------------------------------------------------- formulas in C


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        ("x * tanh(softplus(x))", "x * tanh(softplus(x))"),
        ("x / 3 - 2", "x / 3.0 - 2.0"),
        ("where(x > 0, x, 2 * x)", "(x > 0.0 ? x : 2.0 * x)"),
        ("maximum(x, 1) ** 2", "square(nan_max(x, 1.0))"),
        ("x ** y + minimum(x, y)", "pow(x, y) + nan_min(x, y)"),
        ("x - (y - x)", "x - (y - x)"),
        ("relu(x) / reciprocal(x)", "nan_max(x, 0.0) / (1.0 / x)"),
        ("-x * 1e-20 + pi", "3.141592653589793 - x * 1e-20"),
    ],
)
def test_formulas_are_written_as_c(formula, text):
    assert forward_expression("my::f", formula, ()) == text


def test_gradients_of_a_formula_are_written_as_c():
    found = backward_expressions("my::f", "x * sigmoid(beta * x)", ("x", "beta"), ())
    assert set(found) == {"x", "beta"}
    assert "grad" in found["x"] and "grad" in found["beta"]


def test_a_gradient_that_is_zero_is_left_out():
    assert set(backward_expressions("my::f", "x * sign(y)", ("x", "y"), ())) == {"x"}


def test_a_formula_that_explodes_has_no_kernel():
    formula = "x"
    for _ in range(40):
        formula = f"sin({formula} * x) + cos({formula})" if len(formula) < 4000 else formula
    assert backward_expressions("my::f", formula, ("x",), ()) is None


def test_an_operator_from_a_formula_has_both_kernels():
    mish = plugrad.elementwise("my::mish", "x * tanh(softplus(x))")
    assert mish.cuda_kind == "expression"
    assert isinstance(mish.cuda_backward, FormulaBackward)
    assert mish.cuda_backward.names == ("x",)
    other = plugrad.elementwise("my::twice", "2 * x", cuda="x + x")
    assert (other.cuda, other.cuda_backward) == ("x + x", None)
