"""What a signature and its flags say, and what they cannot say."""

import functools

import numpy as np
import pytest

from plugrad.registry.errors import DeclarationError
from plugrad.registry.parameters import read_parameters
from plugrad.registry.schema import Schema, check_name, read_schema


def schema(function, **flags):
    return read_schema("my::f", function, **flags)


# ------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize("name", ["my::swish", "standard::exp", "a::b_2", "my::_hidden"])
def test_a_name_is_a_namespace_and_an_identifier(name):
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "swish",
        "my:swish",
        "my::",
        "::swish",
        "my::a::b",
        "my.a::b",
        "my::a b",
        "my::lambda",
        "my::__x",
        "",
        None,
        np.exp,
    ],
)
def test_other_names_are_refused(name):
    with pytest.raises(DeclarationError, match="'namespace::name'"):
        check_name(name)


# -------------------------------------------------------------------------------------- signatures


def test_positional_parameters_are_tensors_and_keyword_only_ones_constants():
    def f(x, weight, bias=None, *, eps=1e-5, dim): ...

    s = schema(f)
    assert s.inputs == ("x", "weight", "bias")
    assert s.optional == (False, False, True)
    assert not s.variadic
    assert s.constants == ("eps", "dim")
    assert s.defaults == {"eps": 1e-5}
    assert s.outputs == ("out",)
    assert s.nondifferentiable == (False,)
    assert s.dtypes == ("floating",) * 3
    assert (s.elementwise, s.out_dtype, s.view_of, s.mutates, s.infer) == (
        False,
        None,
        -1,
        (),
        None,
    )


def test_a_starred_parameter_is_a_list_and_comes_last():
    def cat(first, *rest, dim=0): ...

    s = schema(cat)
    assert (s.inputs, s.variadic, s.optional) == (("first", "rest"), True, (False, False))
    assert s.constants == ("dim",)


def test_an_operator_may_take_no_tensor():
    def draw(*, shape): ...

    s = schema(draw, nondifferentiable=True)
    assert (s.inputs, s.constants, s.nondifferentiable) == ((), ("shape",), (True,))


def test_positional_only_parameters_are_tensors_too():
    def f(x, /, y): ...

    assert schema(f).inputs == ("x", "y")


def test_a_decorated_function_has_the_signature_that_it_wraps():
    def f(x, *, cap=1.0): ...

    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return f(*args, **kwargs)

    s = schema(wrapper)
    assert (s.inputs, s.constants, s.defaults) == (("x",), ("cap",), {"cap": 1.0})


def test_partials_and_objects_have_signatures():
    def f(x, *, cap): ...

    class Callable:
        def __call__(self, x, y=None, *z, mode=1): ...

    assert schema(functools.partial(f, cap=2.0)).defaults == {"cap": 2.0}
    s = schema(Callable())
    assert (s.inputs, s.optional, s.variadic) == (("x", "y", "z"), (False, True, False), True)


def test_the_fast_and_the_general_reading_agree():
    def f(a, b=None, *c, d, e=2): ...

    def g(a, b=None, *c, d, e=2): ...

    g.attribute = 1  # anything in its dictionary sends it to inspect
    assert read_parameters("my::f", f) == read_parameters("my::f", g)


def test_schemas_of_equal_declarations_are_equal():
    def f(x, *, cap=1.0): ...

    assert schema(f) == schema(f)
    assert schema(f) == Schema(
        inputs=("x",),
        optional=(False,),
        constants=("cap",),
        defaults={"cap": 1.0},
        dtypes=("floating",),
    )


def with_kwargs(x, **options): ...
def with_default(x, scale=2.0): ...
def with_out(x, *, out): ...
def with_at(x, *, at=None): ...
def with_grad(grad): ...
def with_needs(x, *, needs=0): ...
def with_like(like): ...
def with_unhashable(x, *, dims=[0]): ...  # noqa: B006
def with_underscore(_x): ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (with_kwargs, r"\*\*options is not possible"),
        (
            with_default,
            r"only default a tensor can have is None, got scale=2.0; put a constant after",
        ),
        (with_out, "cannot be called 'out'"),
        (with_at, "cannot be called 'at'"),
        (with_grad, "cannot be called 'grad'"),
        (with_needs, "cannot be called 'needs'"),
        (with_like, "cannot be called 'like'"),
        (with_unhashable, r"constants are hashable .* got dims=\[0\]"),
        (with_underscore, "cannot start with an underscore"),
        (3, "expected a function, got 3"),
    ],
)
def test_signatures_that_mean_nothing(function, words):
    with pytest.raises(DeclarationError, match=words) as caught:
        schema(function)
    assert str(caught.value).startswith("my::f: ")


def test_a_callable_without_a_signature(monkeypatch):
    def signature(function):
        raise ValueError("no signature found")

    monkeypatch.setattr("inspect.signature", signature)
    with pytest.raises(
        DeclarationError, match=r"my::f: the signature of .*dict.* cannot be read; wrap it"
    ):
        schema(dict)


# ----------------------------------------------------------------------------------------- outputs


def two(x, y, *, dim=0): ...


def listed(x, *xs): ...


def test_several_outputs():
    s = schema(two, outputs=("values", "indices"), nondifferentiable=("indices",))
    assert s.outputs == ("values", "indices")
    assert s.nondifferentiable == (False, True)
    assert schema(two, outputs=["a", "b"], nondifferentiable=True).nondifferentiable == (True, True)
    assert schema(two, outputs="values").outputs == ("values",)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"outputs": ()}, "at least one output"),
        ({"outputs": ("a", "a")}, "'a' is named twice"),
        ({"outputs": ("a", "x")}, "'x' is both an output and a parameter"),
        ({"outputs": ("dim",)}, "'dim' is both an output and a parameter"),
        ({"outputs": ("a b",)}, "outputs are identifiers"),
        ({"outputs": ("grad",)}, "outputs are identifiers"),
        ({"outputs": (1, 2)}, "outputs is a name or a tuple of names"),
        ({"outputs": 2}, "outputs is a name or a tuple of names, got 2"),
        (
            {"nondifferentiable": ("indices",)},
            "names an output, got 'indices'; the outputs are out",
        ),
        (
            {"outputs": ("values", "indices"), "nondifferentiable": "indexes"},
            "got 'indexes'.*did you mean 'indices'",
        ),
    ],
)
def test_outputs_that_mean_nothing(flags, words):
    with pytest.raises(DeclarationError, match=words):
        schema(two, **flags)


# ------------------------------------------------------------------------------------------ dtypes


def test_dtype_classes_per_input():
    assert schema(two, dtypes="numeric").dtypes == ("numeric", "numeric")
    assert schema(two, dtypes={"y": "integer"}).dtypes == ("floating", "integer")
    assert schema(listed, dtypes={"xs": "any"}).dtypes == ("floating", "any")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            {"dtypes": "float"},
            "'float' is no class of dtypes; they are floating, complex, .*did you mean 'floating'",
        ),
        ({"dtypes": {"z": "bool"}}, "dtypes names an input, got 'z'; the inputs are x, y"),
        ({"dtypes": {"dim": "integer"}}, "dtypes names an input, got 'dim'"),
        ({"dtypes": {"x": "int"}}, "'int' is no class of dtypes"),
        ({"dtypes": 3}, "dtypes is a class of dtypes or a dict"),
        ({"dtypes": None}, "dtypes is a class of dtypes or a dict"),
        ({"out_dtype": "bool"}, "out_dtype belongs to elementwise operators"),
        ({"out_dtype": "boole", "elementwise": True}, "out_dtype is the name of a dtype"),
        ({"out_dtype": bool, "elementwise": True}, "out_dtype is the name of a dtype"),
        (
            {"out_dtype": "bool", "elementwise": True},
            "bool has no gradient; declare nondifferentiable",
        ),
    ],
)
def test_dtypes_that_mean_nothing(flags, words):
    with pytest.raises(DeclarationError, match=words):
        schema(two, **flags)


def test_an_elementwise_result_of_another_dtype():
    s = schema(two, elementwise=True, out_dtype="bool", nondifferentiable=True)
    assert (s.elementwise, s.out_dtype) == (True, "bool")
    assert schema(two, elementwise=True, out_dtype="float32").out_dtype == "float32"


# ---------------------------------------------------------------------------- aliasing, inference


def test_views_and_mutation():
    assert schema(two, view_of="y").view_of == 1
    assert schema(two, mutates="x").mutates == (0,)
    assert schema(two, mutates=("x", "y"), outputs=("a", "b")).mutates == (0, 1)


@pytest.mark.parametrize(
    ("function", "flags", "words"),
    [
        (two, {"view_of": "z"}, "view_of names an input that is no list, got 'z'; those are x, y"),
        (two, {"view_of": "dim"}, "view_of names an input"),
        (two, {"mutates": "dim"}, "mutates names an input"),
        (two, {"mutates": 0}, "mutates is a name or a tuple of names, got 0"),
        (listed, {"mutates": "xs"}, "no list, got 'xs'; those are x"),
        (listed, {"view_of": "xs"}, "no list, got 'xs'"),
        (two, {"view_of": "x", "mutates": "x"}, "view_of='x' describes one output"),
        (two, {"view_of": "x", "elementwise": True}, "view_of='x' describes one output"),
        (two, {"view_of": "x", "outputs": ("a", "b")}, "view_of='x' describes one output"),
    ],
)
def test_aliasing_that_means_nothing(function, flags, words):
    with pytest.raises(DeclarationError, match=words):
        schema(function, **flags)


def test_infer_is_called_with_metas_and_constants():
    def infer(x, y, *, dim):
        return x.shape, x.dtype

    def loose(*metas, **constants): ...

    assert schema(two, infer=infer).infer is infer
    assert schema(two, infer=loose).infer is loose
    assert schema(listed, infer=loose).infer is loose


@pytest.mark.parametrize(
    ("function", "infer", "words"),
    [
        (two, "same", "infer is a function of the inputs' metas, got 'same'"),
        (two, lambda x: x, "but it takes 1 positional"),
        (two, lambda x, y: x, "but it does not take 'dim'"),
        (two, lambda x, y, z, dim: x, "but it also requires 'z'"),
        (two, lambda x, y, *, dim, more: x, "but it also requires 'more'"),
        (listed, lambda x: x, r"does not take a list like \*xs"),
    ],
)
def test_infer_that_cannot_be_called(function, infer, words):
    with pytest.raises(DeclarationError, match=words):
        schema(function, infer=infer)


def test_elementwise_operators_infer_themselves():
    with pytest.raises(DeclarationError, match="follow from its inputs"):
        schema(two, elementwise=True, infer=lambda x, y, dim: x)
