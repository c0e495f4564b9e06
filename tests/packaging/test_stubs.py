"""The typed stubs say what the compiled modules hold, so that editors complete it."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import plugrad

CORE = Path(__file__).resolve().parents[2] / "core"
MODULES = [
    ".".join(path.relative_to(CORE).with_suffix("").parts) for path in sorted(CORE.rglob("*.pyx"))
]


def declared(body):
    """Name -> syntax node (or list of them, for overloads) of what a stub's body declares."""
    found = {}
    for item in body:
        if isinstance(item, ast.FunctionDef | ast.ClassDef):
            found[item.name] = item
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            found[item.target.id] = item
    return found


def stub_of(module):
    path = CORE / Path(*module.split(".")).with_suffix(".pyi")
    if not path.exists():
        pytest.fail(f"{module} is compiled and has no stub {path.relative_to(CORE)}")
    return declared(ast.parse(path.read_text()).body)


def public(names):
    return {name for name in names if not name.startswith("_")}


def own(module):
    """What a module defines itself: functions, classes, and nothing it imported."""
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) == module.__name__ and hasattr(value, "__name__"):
            yield name, value


@pytest.mark.parametrize("name", MODULES)
def test_stub_names_what_the_module_defines(name):
    module, stub = importlib.import_module(name), stub_of(name)
    missing = public(n for n, _ in own(module)) - set(stub)
    assert not missing, f"not in the stub: {sorted(missing)}"
    invented = {n for n in public(stub) if not hasattr(module, n)}
    assert not invented, f"only in the stub: {sorted(invented)}"


@pytest.mark.parametrize("name", MODULES)
def test_stub_names_every_public_attribute_of_each_class(name):
    module, stub = importlib.import_module(name), stub_of(name)
    for class_name, cls in own(module):
        if not inspect.isclass(cls) or class_name not in stub:
            continue
        members, bases = {}, [class_name]
        while bases:
            node = stub.get(bases.pop())
            if node is not None:
                members |= declared(node.body)
                bases += [b.id for b in node.bases if isinstance(b, ast.Name)]
        if cls is plugrad.Tensor:
            continue  # below: other plugins may have installed methods in this process
        foreign = set().union(*(dir(b) for b in cls.__mro__ if b.__module__ != name))
        missing = public(dir(cls)) - set(members) - foreign
        assert not missing, f"{class_name}: not in the stub: {sorted(missing)}"
        # What is only annotated may be set by __init__.
        methods = {n for n, node in members.items() if isinstance(node, ast.FunctionDef)}
        assert not public(methods) - set(dir(cls)), f"{class_name}: only in the stub"


@pytest.mark.parametrize("name", MODULES)
def test_stub_parameters_are_the_real_ones(name):
    module, stub = importlib.import_module(name), stub_of(name)
    pairs = [(n, getattr(module, n), node) for n, node in stub.items() if hasattr(module, n)]
    for n, cls, node in list(pairs):
        if isinstance(node, ast.ClassDef):
            pairs += [
                (f"{n}.{m}", vars(cls).get(m), inner) for m, inner in declared(node.body).items()
            ]
    for label, real, node in pairs:
        if (
            not isinstance(node, ast.FunctionDef)
            or not inspect.isroutine(real)
            or not callable(real)
        ):
            continue
        if node.name.startswith("__"):
            continue  # slots have no signature of their own
        try:
            parameters = list(inspect.signature(real).parameters)
        except ValueError:
            continue
        arguments = node.args
        names = [a.arg for a in arguments.posonlyargs + arguments.args]
        names += [arguments.vararg.arg] if arguments.vararg else []
        names += [a.arg for a in arguments.kwonlyargs]
        names += [arguments.kwarg.arg] if arguments.kwarg else []
        assert names == parameters, f"{name}.{label}"


def test_tensor_stub_has_every_attribute_and_every_operator_that_is_a_method(load_stubs):
    text = load_stubs.TENSOR.read_text()
    (tensor,) = (
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef) and node.name == "Tensor"
    )
    expected = load_stubs.block()
    found = text.partition(load_stubs.BEGIN)[2].partition(load_stubs.END)[0]
    unwrapped = {name: ast.dump(node) for name, node in methods_in(found).items()}
    assert unwrapped == {name: ast.dump(node) for name, node in methods_in(expected).items()}, (
        "run: python tests/packaging/stubs.py && ruff format core"
    )
    foreign = set()
    for operator in plugrad.registry.operators():
        if operator.method and not operator.name.startswith("standard::"):
            foreign.add(operator.name.partition("::")[2])
    known = set(declared(tensor.body)) | foreign
    known |= {f"{name}_" for name in known}  # in-place forms are there once somebody asked for them
    missing = public(dir(plugrad.Tensor)) - known
    assert not missing, f"not in tensor.pyi: {sorted(missing)}"
    example = plugrad.ones(2, 2, dtype=plugrad.complex64, requires_grad=True)  # has parts
    absent = {name for name in public(declared(tensor.body)) if not hasattr(example, name)}
    assert not absent, f"only in tensor.pyi: {sorted(absent)}"


def methods_in(block):
    return declared(ast.parse("class Tensor:\n    ...\n" + block).body[0].body)


@pytest.fixture
def load_stubs():
    """The script beside this test, which is no module of a package."""
    spec = importlib.util.spec_from_file_location("stubs", Path(__file__).with_name("stubs.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
