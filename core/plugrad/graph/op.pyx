"""Op: what the graph knows of an operator — its kernels, its rule, and what the rule wants saved.

(a) The registry fills an Op in from a declaration; the core never looks into one by name.
(b) A rule is any callable from Tensors to Tensors. What it is passed was settled when it was
    declared: a plan with one (kind, index) per parameter, so running it is one vectorcall.
(c) An Op is called only when its state is READY. Every other state goes through `resolve()`, which the
    registry overrides: one integer is compared per call, and nothing can be called around the check.
"""
import functools
import inspect
from collections import namedtuple

from cpython.object cimport PyObject

from plugrad.graph.backend cimport ANY_FLOATING, BOOL, COMPLEX, INTEGER, OTHER, STORAGE, Backend, Meta
from plugrad.graph.dispatch cimport apply1, apply2, dispatch
from plugrad.graph.instruments cimport DUAL, instruments
from plugrad.graph.node cimport Node, edge_node, release
from plugrad.graph.rule cimport has_tangents, run_fused, run_once, run_plan
from plugrad.graph.tensor cimport Tensor, make

from plugrad.graph.backend import backend_named, backends
from plugrad.graph.instruments import observe  # no-cython-lint: public here

cdef extern from "Python.h":
    object PyObject_Vectorcall(object function, PyObject **args, size_t n, PyObject *names)

cdef extern from *:
    """
    static PyObject **plugrad_items(PyObject *items) { return ((PyTupleObject *)items)->ob_item; }
    """
    PyObject **plugrad_items(PyObject *)

UNVERIFIED = UNVERIFIED_STATE
VERIFYING = VERIFYING_STATE
READY = READY_STATE
REFUSED = REFUSED_STATE

NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim"}  # of keywords, understood wherever ours are

cdef dict _kinds_of_class = {
    "floating": ANY_FLOATING,
    "complex": ANY_FLOATING | COMPLEX,
    "numeric": BOOL | INTEGER | ANY_FLOATING,
    "integer": INTEGER,
    "bool": BOOL,
    "number": BOOL | INTEGER | ANY_FLOATING | COMPLEX,
    "any": BOOL | INTEGER | ANY_FLOATING | COMPLEX | OTHER,
}

# Classes of dtypes under which a rule is one for complex numbers too, or has none to deal with.
cdef tuple _conjugating = ("complex", "number", "any", "integer", "bool")

cdef dict _arg_kinds = {
    "grad": GRAD, "input": INPUT, "output": OUTPUT, "constant": CONSTANT, "needs": NEEDS, "like": LIKE,
}


@functools.lru_cache(None)
def named(str kind, tuple fields):
    """A named tuple type; many operators share one, since making it takes longer than all the rest."""
    return namedtuple(kind, fields)


cdef class Kernel:
    """A function on raw arrays, called ``f(*arrays, **constants)``.

    Subclasses in Cython override ``call1`` and ``call2``; Python numbers may stand in for arrays there.
    """

    def __init__(self, function):
        if not callable(function):
            raise TypeError(f"a kernel must be callable, got {type(function).__name__}")
        self.function = function

    def __call__(self, *args, **constants):
        """Call from Python, constants in their order. What other numbers of arguments mean, the function knows."""
        if len(args) + len(constants) != _arity(self.function) >= 0:
            return self.function(*args, **constants)
        return self.call(args + tuple(constants.values()), tuple(constants))

    cdef object call1(self, object a):
        return self.call((a,), ())

    cdef object call2(self, object a, object b):
        return self.call((a, b), ())

    cdef object call(self, tuple args, tuple kwnames):
        return vectorcall(self.function, args, kwnames)

    cdef object call_all(self, PyObject **args, Py_ssize_t n):
        """Call with `n` arguments, all by position, out of a C array."""
        return self.call(tuple([<object>args[i] for i in range(n)]), ())


@functools.lru_cache(None)
def _arity(function):
    """The number of a function's parameters; -1 where it does not tell, or takes any number."""
    if not hasattr(function, "__code__"):
        return getattr(function, "nin", -1)  # of a ufunc
    found = inspect.signature(function).parameters.values()
    return -1 if any(p.kind is p.VAR_POSITIONAL or p.kind is p.VAR_KEYWORD for p in found) else len(found)


cdef class PlainKernel(Kernel):
    """A kernel whose function is called as it is: no floating-point warnings to switch off."""

    cdef object call_all(self, PyObject **args, Py_ssize_t n):
        return PyObject_Vectorcall(self.function, args, n, NULL)


cdef object vectorcall(object function, tuple args, tuple kwnames):
    """``function(*args)`` where the last arguments go by the names in `kwnames`."""
    cdef size_t n = len(args) - len(kwnames)
    if len(args) == 0:
        return function()
    return PyObject_Vectorcall(
        function, plugrad_items(<PyObject *>args), n, <PyObject *>kwnames if kwnames else NULL
    )


cdef class RulePlan:
    """A rule and, for each of its parameters, where the argument comes from."""

    def __init__(self, function, tuple plan, list saves):
        """`saves` is the operator's list of saved things, extended by what this rule names."""
        if len(plan) > 32:
            raise ValueError(f"a rule takes at most 32 parameters, got {len(plan)}")
        self.function = function
        self.plan = plan
        self.n_args = len(plan)
        for i, (kind, index) in enumerate(plan):
            self.kinds[i] = _arg_kinds[kind]
            self.slots[i] = index
            if kind == "input" or kind == "output":
                code = index if kind == "input" else -1 - index
                if code not in saves:
                    saves.append(code)
                self.slots[i] = saves.index(code)


cdef class Fused:
    """A backward on the arrays of one device, made a kernel of that device's backend when first used."""


cdef class Op:
    """An operator as the graph sees it.

    Attributes
    ----------
    name : str
        ``namespace::name``.
    state : int
        UNVERIFIED, VERIFYING, READY or REFUSED; only a READY operator runs without asking `resolve`.
    widens : bool
        Whether its kernels get arrays of dtypes for storage only as wider ones.
    """

    def __init__(self, str name):
        self.name = name
        self.state = UNVERIFIED_STATE
        self.kernels = []
        self.saves = []
        self.saved_when = {}
        self.needs_cache = []
        self.view_of = -1
        self.n_outputs = 1
        self.mutates = ()
        self.constants = ()
        self.default_constants = ()
        self.inputs = ()

    def _define(self, schema):
        """Take over a declaration's schema (see ``plugrad.registry.schema.Schema``)."""
        self.inputs = schema.inputs
        self.optional = schema.optional
        self.variadic = schema.variadic
        self.n_inputs = len(schema.inputs)
        self.constants = schema.constants
        self.defaults = dict(schema.defaults)
        self.default_constants = None
        if all(name in self.defaults for name in schema.constants):
            self.default_constants = tuple(self.defaults[name] for name in schema.constants)
        self.outputs = schema.outputs
        self.n_outputs = len(schema.outputs)
        self.nondifferentiable_outputs = schema.nondifferentiable
        self.allowed = tuple(_kinds_of_class[name] for name in schema.dtypes)
        self.joined = tuple(name not in ("integer", "bool") for name in schema.dtypes)
        self.conjugates = all(name in _conjugating for name in schema.dtypes)
        self.elementwise = schema.elementwise
        self.real_result = schema.out_dtype == "real"
        self.out_dtype = None if self.real_result else schema.out_dtype
        self.view_of = schema.view_of
        self.mutates = schema.mutates
        self.kinds_allowed = self.allowed[0] & ~STORAGE if self.allowed else 0  # what the fast paths take
        if self.real_result:
            self.kinds_allowed &= ~COMPLEX
        self.widens = schema.view_of < 0 and "any" not in schema.dtypes
        self.simple = (
            schema.elementwise
            and not schema.variadic
            and not schema.constants
            and self.n_outputs == 1
            and not schema.mutates
            and schema.view_of < 0
            and self.out_dtype is None
            and not any(schema.optional)
            and len(set(schema.dtypes)) == 1
            and all(self.joined)
        )
        self.needs_type = named("Needs", schema.inputs)
        self.like_type = named("Like", schema.inputs)
        if not self.variadic and self.n_inputs <= 3:
            self.needs_cache = [
                self.needs_type(*(bool(mask >> i & 1) for i in range(self.n_inputs)))
                for mask in range(1 << self.n_inputs)
            ]

    def _set_rule(self, function, tuple plan):
        """The backward rule, and per parameter (kind, index)."""
        self.rule_plan = RulePlan(function, plan, self.saves)
        self.differentiable = True
        self._note_uses(plan)

    def _save_when(self, dict conditions):
        """Save an input or output only if one of some inputs wants a gradient: {code: input indices}.

        The rule gets None in place of what was not saved.
        """
        self.saved_when = {code: sum(1 << i for i in inputs) for code, inputs in conditions.items()}
        self._count_saves()

    def _count_saves(self):
        """What is saved, and when, as C integers."""
        cdef Py_ssize_t i
        if len(self.saves) > 64:
            raise ValueError(f"{self.name}: at most 64 values can be saved, got {len(self.saves)}")
        self.n_saves = <int>len(self.saves)
        for i in range(self.n_saves):
            self.save_codes[i] = self.saves[i]
            self.save_masks[i] = self.saved_when.get(self.saves[i], 0)

    def _set_backward_kernel(self, function, tuple plan, str device="cpu"):
        """A backward on the arrays of a device, used when nothing is recorded.

        What it names is saved whatever device a call is on; `function` may be anything that
        `make_backward_kernel` makes a callable of.
        """
        cdef Fused entry = Fused.__new__(Fused)
        entry.function = function
        entry.plan = RulePlan(function, plan, self.saves)
        if self.fused_of is None:
            self.fused_of = {}
        self.fused_of[device] = entry
        self.fused = []
        self._note_uses(plan)

    def _note_uses(self, tuple plan):
        self._count_saves()
        for kind, _ in plan:
            if kind == "like":
                self.uses_like = True
            elif kind == "constant":
                self.uses_constants = True

    def _set_variant(self, str keyword, function):
        """Calls that give this keyword, which the operator does not have, go to `function` instead."""
        if self.variants is None:
            self.variants = {}
        self.variants[keyword] = function

    def _set_kernel(self, str device, kernel):
        """The forward on a device: a Kernel, or a callable that its backend makes one of."""
        cdef Backend backend = backend_named(device)
        if not isinstance(kernel, Kernel):
            kernel = backend.kernel(kernel)
        while len(self.kernels) <= backend.index:
            self.kernels.append(None)
        self.kernels[backend.index] = kernel
        self.first_kernel = self.kernels[0]

    def _kernel(self, str device):
        """The kernel that serves a device, or None."""
        cdef Backend backend = backend_named(device)
        return self.kernels[backend.index] if backend.index < len(self.kernels) else None

    @property
    def _devices(self):
        """Names of the devices that have a kernel."""
        return tuple(b.name for b in backends() if self._kernel(b.name) is not None)

    @property
    def _saved_names(self):
        """What a node of this operator keeps, by name."""
        return tuple(self.inputs[c] if c >= 0 else self.outputs[-1 - c] for c in self.saves)

    def find_kernel(self, str device):
        """The kernel for a device on which the operator was not called yet, or None; the registry overrides this."""
        return None

    def make_backward_kernel(self, function, str device):
        """What was given to `_set_backward_kernel` as a callable on arrays; the registry overrides this."""
        return function

    def output_dtypes(self, metas, constants):
        """The dtype of each output as the declaration tells it, or None; the registry overrides this."""
        return None

    def resolve(self):
        """Make the operator callable or raise why it is not; the registry overrides this."""
        raise RuntimeError(f"operator {self.name} was not verified and has no registry to ask")

    def pushforward(self, inputs, constants, outputs, tangents):
        """Tangents of a call's outputs, from those of its inputs; None is zero. The registry overrides this."""
        raise RuntimeError(f"operator {self.name} has no rule that takes tangents forward")

    def __call__(self, *args, **kwargs):
        cdef Py_ssize_t n = len(args)
        if not kwargs and not self.variadic and n == self.n_inputs and self.default_constants is not None:
            if self.simple:
                if n == 2:
                    return apply2(self, args[0], args[1])
                if n == 1:
                    return apply1(self, args[0])
            return dispatch(self, list(args), self.default_constants)
        if kwargs and self.variants is not None:
            for name in kwargs:
                if name in self.variants:
                    return self.variants[name](*args, **kwargs)
        inputs, constants = self._bind(args, kwargs)
        return dispatch(self, inputs, constants)

    def _bind(self, tuple args, dict kwargs):
        """Sort a call's arguments into tensors (flat) and constants (in order)."""
        cdef Py_ssize_t fixed = self.n_inputs - 1 if self.variadic else self.n_inputs
        cdef list inputs = list(args[:fixed])
        cdef list rest = list(args[fixed:])
        cdef dict left = dict(kwargs)
        if left and ("axis" in left or "keepdims" in left):
            for theirs, ours in NUMPY_NAMES.items():
                if theirs in left and theirs not in self.constants and ours in self.constants and ours not in left:
                    left[ours] = left.pop(theirs)
        for name in self.inputs[len(inputs):fixed]:
            if name in left:
                inputs.append(left.pop(name))
            elif self.optional[len(inputs)]:
                inputs.append(None)
            else:
                raise TypeError(f"{self.name}: missing tensor argument {name!r}; {self._usage()}")
        if self.variadic:
            name = self.inputs[fixed]
            if name in left:
                items = left.pop(name)
            elif rest and isinstance(rest[0], (list, tuple)):
                items = rest.pop(0)
            else:
                items, rest = rest, []
            inputs += list(items)
        if len(self.constants) == 1 and len(rest) > 1:
            rest = [tuple(rest)]  # x.view(2, 3): several integers for the one constant
        values = []
        for name in self.constants:
            if rest:
                if name in left:
                    raise TypeError(f"{self.name}: {name!r} was given twice; {self._usage()}")
                value = rest.pop(0)
            elif name in left:
                value = left.pop(name)
            elif name in self.defaults:
                value = self.defaults[name]
            else:
                raise TypeError(f"{self.name}: missing argument {name!r}; {self._usage()}")
            values.append(_constant(self, name, value))
        if rest:
            raise TypeError(
                f"{self.name} takes {len(self.inputs) + len(self.constants)} arguments, "
                f"got {len(args)}; {self._usage()}"
            )
        if left:
            wrong = ", ".join(repr(name) for name in left)
            raise TypeError(f"{self.name} has no argument {wrong}; {self._usage()}")
        return inputs, tuple(values)

    def _usage(self):
        names = list(self.inputs)
        if self.variadic:
            names[-1] = "*" + names[-1]
        if self.constants:
            names += ["*"] if not self.variadic else []
            names += [
                f"{name}={self.defaults[name]!r}" if name in self.defaults else name
                for name in self.constants
            ]
        return f"usage: {self.name}({', '.join(names)})"

    # ---- running the rule ----

    cdef object needs_of(self, Node node, set wanted):
        """Which inputs want a gradient: edges that exist and, in a partial run, lead to `wanted` nodes."""
        cdef Py_ssize_t i, fixed, mask = 0
        cdef Node edge
        if self.needs_cache and node.n_inputs <= 3:
            for i in range(node.n_inputs):
                edge = edge_node(node, i)
                if edge is not None and (wanted is None or id(edge) in wanted):
                    mask |= 1 << i
            return self.needs_cache[mask]
        flags = []
        for i in range(node.n_inputs):
            edge = edge_node(node, i)
            flags.append(edge is not None and (wanted is None or id(edge) in wanted))
        if not self.variadic:
            return self.needs_type(*flags)
        fixed = self.n_inputs - 1
        return self.needs_type(*flags[:fixed], tuple(flags[fixed:]))

    cdef object gradients(self, Node node, object grad, object needs, bint record):
        """What the rule returns: a Tensor, None, or a sequence with one per input."""
        cdef bint dual = instruments & DUAL and has_tangents(node, grad)
        cdef Fused fused
        if self.fused is not None and not record and not dual:
            fused = fused_for(self, node.meta.backend)
            if fused is not None:
                return run_fused(fused, self, node, grad, needs)
        if dual and self.once_differentiable:
            raise RuntimeError(
                f"the backward of {self.name} is once_differentiable: its gradients cannot be differentiated, so "
                "they have no tangents"
            )
        if record and self.once_differentiable:
            return run_once(self, node, grad, needs)
        return run_plan(self, self.rule_plan, node, grad, needs, record)

    cdef list complete_grads(self, Node node, list pending):
        """Zeros for differentiable outputs that got no gradient."""
        cdef Py_ssize_t i
        cdef Meta meta
        for i in range(len(pending)):
            if pending[i] is None and not self.nondifferentiable_outputs[i]:
                meta = <Meta>node.metas[i]
                pending[i] = make(meta.backend.full(meta, 0), meta)
        return pending

    cdef int forget(self, Node node) except -1:
        """Drop what the node kept for its rule."""
        return release(node)


cdef object _constant(Op op, str name, object value):
    """Constants are hashable; lists become tuples."""
    if isinstance(value, list):
        value = tuple(value)
    if isinstance(value, Tensor):
        raise TypeError(
            f"{op.name}: {name!r} is a constant and takes no tensor; {op._usage()}"
        )
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"{op.name}: constant {name!r} must be hashable, got {type(value).__name__}"
        ) from None
    return value


cdef Fused fused_for(Op op, Backend backend):
    """The backward kernel for a backend's device, or None."""
    cdef Fused entry
    cdef list found = op.fused
    if len(found) <= backend.index:
        found = []  # replaced, not extended: another thread may be here, too
        for other in backends():
            found.append(op.fused_of.get(other.name))
        op.fused = found
    entry = <Fused>found[backend.index]
    if entry is not None and entry.kernel is None:
        entry.kernel = backend.kernel(op.make_backward_kernel(entry.function, backend.name))
    return entry


cdef object ensure_ready(Op op):
    """Resolve an operator that is not READY, or raise."""
    op.resolve()
    if op.state == REFUSED_STATE:
        raise RuntimeError(f"operator {op.name} was refused")
