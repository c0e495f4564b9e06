"""Roles: the names under which the core asks for operators it does not know.

(a) A role is a name and, once asked for, the operator that the registry gave for it. The registry installs
    the resolver; without one, or without a plugin that offers the name, using the role says so.
(b) Methods of Tensor that the core does not define are operators, too. They are put into the type's own
    dictionary when their plugin is loaded, so that calling one costs no search.
"""
from cpython.object cimport PyObject, PyTypeObject
from types import MethodType

from plugrad.graph.dispatch cimport apply1, apply2
from plugrad.graph.inplace cimport inplace
from plugrad.graph.op cimport Op
from plugrad.graph.promotion cimport is_operand
from plugrad.graph.tensor cimport Tensor

cdef extern from "Python.h":
    void PyType_Modified(PyTypeObject *)

cdef extern from *:
    """
    static PyObject *plugrad_type_dict(PyTypeObject *type) { return type->tp_dict; }
    """
    PyObject *plugrad_type_dict(PyTypeObject *)

from plugrad.graph.inplace import InPlace

cdef dict _roles = {}
cdef object _resolver = None
cdef object _method_resolver = None
cdef dict _ufuncs = {}


cdef class Role:
    """A name that the core uses and a plugin fills."""

    def __repr__(self):
        return f"<role {self.name!r}>"


cdef Role _role(str name):
    cdef Role role = _roles.get(name)
    if role is None:
        role = Role.__new__(Role)
        role.name = name
        _roles[name] = role
    return role


ADD = _role("add")
SUB = _role("sub")
MUL = _role("mul")
DIV = _role("div")
FLOOR_DIVIDE = _role("floor_divide")
REMAINDER = _role("remainder")
MATMUL = _role("matmul")
POW = _role("pow")
AND = _role("bitwise_and")
OR = _role("bitwise_or")
XOR = _role("bitwise_xor")
LEFT_SHIFT = _role("bitwise_left_shift")
RIGHT_SHIFT = _role("bitwise_right_shift")
NEG = _role("neg")
POSITIVE = _role("positive")
ABS = _role("abs")
INVERT = _role("bitwise_not")
EQ = _role("eq")
NE = _role("ne")
LT = _role("lt")
LE = _role("le")
GT = _role("gt")
GE = _role("ge")
GETITEM = _role("getitem")
SETITEM = _role("setitem")
PERMUTE = _role("permute")
TRANSPOSE = _role("transpose")
CONJ = _role("conj_physical")
REAL = _role("real")
IMAG = _role("imag")
BROADCAST_TO = _role("broadcast_to")
SUM_TO = _role("sum_to")
CAST = _role("cast")
COPY = _role("copy")


cdef object target_of(Role role):
    if role.target is None:
        if _resolver is None:
            raise LookupError(f"no registry is loaded that could offer the operator {role.name!r}")
        role.target = _resolver(role.name)
    return role.target


cdef object binary(Role role, object a, object b):
    """What Python's binary operators do: a operator b, or NotImplemented for foreign types."""
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)) and not (is_operand(a) and is_operand(b)):
        return NotImplemented
    cdef object target = role.target
    if target is None:
        target = target_of(role)
    if isinstance(target, Op):
        return apply2(<Op>target, a, b)
    return target(a, b)


cdef object unary(Role role, object a):
    cdef object target = role.target
    if target is None:
        target = target_of(role)
    if isinstance(target, Op):
        return apply1(<Op>target, a)
    return target(a)


cdef object update(Role role, object a, object b):
    """What Python's augmented assignments do: a operator= b, in place."""
    if not is_operand(b):
        return NotImplemented
    return inplace(target_of(role), <Tensor>a, (b,), {})


def call(str name, *args, **kwargs):
    """Call the operator that fills the role `name`.

    Raises
    ------
    LookupError
        No plugin offers it; the message says which one is missing.
    """
    return target_of(_role(name))(*args, **kwargs)


def set_resolver(resolver):
    """Install ``resolver(name) -> operator``, asked once per role; None forgets all that was resolved."""
    global _resolver
    _resolver = resolver
    reset()


def reset():
    """Ask the resolver again for every role: an operator was replaced."""
    for role in _roles.values():
        (<Role>role).target = None


# ---- methods and NumPy ufuncs ------------------------------------------------------------------------------

cdef class _Method:
    """A descriptor: an operator as a method of Tensor."""

    cdef object target

    def __init__(self, target):
        self.target = target

    def __get__(self, instance, owner):
        return self.target if instance is None else MethodType(self.target, instance)


def set_method_resolver(resolver):
    """Install ``resolver(name) -> callable or None``, asked when Tensor has no attribute `name`."""
    global _method_resolver
    _method_resolver = resolver


def install_method(str name, target):
    """Make `target` the method `name` of Tensor.

    Raises
    ------
    ValueError
        Tensor itself defines `name`.
    """
    cdef dict members = <dict><object>plugrad_type_dict(<PyTypeObject *>Tensor)
    present = members.get(name)
    if present is not None and not isinstance(present, _Method):
        raise ValueError(f"Tensor defines {name!r} itself; an operator cannot take its place")
    # A static type's dictionary may be written as long as the method caches are told.
    members[name] = _Method(target)
    PyType_Modified(<PyTypeObject *>Tensor)


def remove_method(str name):
    """Take a method that `install_method` made away again."""
    cdef dict members = <dict><object>plugrad_type_dict(<PyTypeObject *>Tensor)
    if isinstance(members.get(name), _Method):
        del members[name]
        PyType_Modified(<PyTypeObject *>Tensor)


cdef object missing_attribute(object tensor, str name):
    if _method_resolver is not None and not (name.startswith("__") and name.endswith("__")):
        try:
            target = _method_resolver(name)
        except LookupError as error:  # a plugin that could offer it is missing or quarantined
            raise AttributeError(f"a Tensor has no attribute {name!r}: {error}") from error
        if target is not None:
            return MethodType(target, tensor)
        if name.endswith("_") and not name.startswith("_"):
            target = _method_resolver(name[:-1])
            if target is not None:
                install_method(name, InPlace(target))
                return getattr(tensor, name)
    raise AttributeError(f"a Tensor has no attribute {name!r}")


def set_ufunc_table(table):
    """Say which operator stands for a NumPy ufunc: ``{np.add: "add", …}``."""
    global _ufuncs
    _ufuncs = dict(table)


cdef object array_ufunc(object ufunc, str method, tuple inputs, dict kwargs):
    if method != "__call__" or kwargs:
        extra = ", ".join(sorted(kwargs))
        raise TypeError(
            f"numpy.{ufunc.__name__} on a Tensor takes plain calls only, got "
            f"{'method ' + repr(method) if method != '__call__' else 'the arguments ' + extra}; "
            "use detach().numpy() for the array"
        )
    name = _ufuncs.get(ufunc)
    if name is None:
        raise TypeError(
            f"numpy.{ufunc.__name__} has no operator that could differentiate it; "
            "use detach().numpy() for the array"
        )
    return call(name, *inputs)
