"""CustomOp: a recorded call whose rule is private Python code with a state of its own.

The state (a Function's context) hangs on the node, so the node becomes visible to the garbage collector. It
must offer ``run(grads, needs)`` and ``free()``.
"""
from plugrad.graph.dispatch cimport complete, connect
from plugrad.graph.instruments cimport WATCH, instruments, notify_recorded
from plugrad.graph.node cimport Node, new_node, release, track
from plugrad.graph.op cimport READY_STATE, Op
from plugrad.graph.tensor cimport Tensor, make


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
        return node.state.run(grad if isinstance(grad, tuple) else (grad,))

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
        for i in nondifferentiable:
            (<Tensor>outs[i]).fn = None
            (<Tensor>outs[i]).needs_grad = False
        if instruments & WATCH:
            notify_recorded(node)
        return node


def alias(Tensor tensor):
    """A new Tensor on the same array and version counter, outside the graph."""
    cdef Tensor out = make(tensor._array, tensor.meta)
    out.counter = tensor.counter
    return out


def place(Tensor tensor, Node node, int nr):
    """A new Tensor on the same array that is output `nr` of `node`."""
    cdef Tensor out = alias(tensor)
    out.fn = node
    out.output_nr = nr
    out.needs_grad = True
    return out
