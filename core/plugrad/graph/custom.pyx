"""CustomOp: a recorded call whose rule is private Python code with a state of its own.

The state (a Function's context) hangs on the node, so the node becomes visible to the garbage collector. It
must offer ``run(grads, needs)`` and ``free()``.
"""
from cpython.object cimport PyObject

from plugrad.graph.recording cimport complete, connect, hooked
from plugrad.graph.inplace cimport check_target, rebind
from plugrad.graph.inplace cimport refresh
from plugrad.graph.instruments cimport (
    DUAL, PACK, RESULTS, WATCH, Packed, Tangents, instruments, notify_recorded, notify_results
)
from plugrad.graph.node cimport Node, new_node, release, track
from plugrad.graph.op cimport READY_STATE, Op
from plugrad.graph.rule cimport unpacked
from plugrad.graph.roles cimport COPY, target_of
from plugrad.graph.tensor cimport Tensor, counter_of, make


cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject *)


cdef class CustomOp(Op):
    """The Op of one Function class. It is in no registry, so there is nothing to resolve."""

    def __init__(self, str name):
        Op.__init__(self, name)
        self.state = READY_STATE
        self.differentiable = True

    def __call__(self, *args, **kwargs):
        raise TypeError(f"{self.name} is called through its Function's apply()")

    cdef object needs_of(self, Node node, set wanted):
        return None

    cdef object gradients(self, Node node, object grad, object needs, bint record):
        if isinstance(grad, tuple):
            grads = tuple([own(<PyObject *>item, record) for item in <tuple>grad])
        else:
            grads = (own(<PyObject *>grad, record),)
        return node.state.run(grads)

    cdef list complete_grads(self, Node node, list pending):
        return node.state.complete(pending)

    cdef int forget(self, Node node) except -1:
        release(node)
        node.state.free()
        return 0

    def record(self, list inputs, list outs, tuple nondifferentiable, object state):
        """Record a call; `outs` become its outputs in place. Returns the node."""
        cdef Node node = new_node(self)
        track(node)
        node.state = state
        connect(self, node, inputs, ())
        complete(self, node, outs)
        if instruments & DUAL and any([isinstance(x, Tensor) and (<Tensor>x).tangent is not None for x in inputs]):
            for item in outs:
                (<Tensor>item).tangent = Tangents()  # what is saved of an output shares it
        for i in nondifferentiable:
            (<Tensor>outs[i]).fn = None
            (<Tensor>outs[i]).needs_grad = False
        if instruments & WATCH:
            notify_recorded(node)
        if instruments & RESULTS:
            notify_results(self, inputs, (), outs)
        return node


def pack(Tensor tensor):
    """What the hook for saved tensors makes of one: a Packed, or None where the tensor itself is to be kept."""
    if not instruments & PACK:
        return None
    found = hooked(tensor)
    return None if found is tensor else found


def unpack(Packed packed, str name):
    """The tensor that the hook gives back; it has no graph. `name`: who saved it."""
    return unpacked(packed, name)


cdef object own(PyObject *grad, bint record):
    """A gradient that the backward of a Function may write into: a copy if anything else can see its memory.

    The engine's reference is the one that counts as nobody's. Memory that cannot be written needs no copy.
    """
    cdef Tensor tensor
    cdef PyObject *array
    if <object>grad is None:
        return None
    array = <PyObject *>(<Tensor>grad)._array
    if Py_REFCNT(grad) == 1 and Py_REFCNT(array) == 1 and (<Tensor>grad).meta.backend.sole(<object>array):
        return <object>grad
    tensor = <Tensor>grad
    if record or tensor.tangent is not None:
        return target_of(COPY)(tensor)
    return make(tensor.meta.backend.copy_like(tensor._array, tensor._array), tensor.meta)


def writable(str name, Tensor tensor not None):
    """Refuse a tensor that a Function must not write in place where its call is recorded."""
    check_target(name, tensor, True)


def rewritten(Tensor tensor not None, Node node, int nr):
    """Say that a Function wrote `tensor` in place; its value is output `nr` of `node` (None: not recorded)."""
    rebind(tensor, node, nr)


def producer(Tensor tensor not None):
    """(node, output number) of a tensor that requires grad, its leaf node where there is no other; else None."""
    if tensor.base is not None:
        refresh(tensor)
    return (tensor.fn, tensor.output_nr) if tensor.needs_grad else None


def alias(Tensor tensor):
    """A new Tensor on the same array and version counter, outside the graph."""
    cdef Tensor out = make(tensor._array, tensor.meta)
    out.counter = counter_of(tensor)  # refuses inference tensors
    out.inference = False
    return out


def place(Tensor tensor, Node node, int nr):
    """A new Tensor on the same array that is output `nr` of `node`."""
    cdef Tensor out = alias(tensor)
    out.fn = node
    out.output_nr = nr
    out.needs_grad = True
    out.tangent = tensor.tangent
    return out
