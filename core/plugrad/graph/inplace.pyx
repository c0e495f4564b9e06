"""Writing in place, on tensors and through views, with gradients that stay right.

(a) Writing never changes a numbered node. A tensor that was written gets a new producer; if it is a view, its
    base gets one: a `CopySlices` node, whose inputs are the base as it was and the value that was written.
(b) A view knows its base and the chain of view operators that leads from there. When the shared version
    counter has moved, its producer is stale: it is made again, by taking the chain from the base's new producer,
    when the view is next used. Replaying operators holds for every stride and for views of any plugin.
(c) Views that one call returned together (split, unbind) carry a step without an operator in their chain, and so do
    views of them: they follow what is written to their base, but are not written themselves while recording.
(d) The in-place form of an operator (`mul_`, `exp_`, …) is the operator itself, followed by writing its result
    over its first input: no operator declares it, every operator has it.
"""
from plugrad.graph.backend cimport ANY_FLOATING, FLOATING, Backend, Meta
from plugrad.graph.dispatch cimport dispatch, kernel_for
from plugrad.graph.grad_mode cimport recording, swap_mode
from plugrad.graph.instruments cimport (
    DUAL, PACK, WATCH, SavedDual, instruments, notify_recorded, push_refreshed, push_written
)
from plugrad.graph.node cimport Counter, Node, new_node, number_node
from plugrad.graph.op cimport READY_STATE, Op
from plugrad.graph.roles cimport BROADCAST_TO, CAST, COPY, target_of
from plugrad.graph.tensor cimport Tensor, bump, counter_of, make

from weakref import ref as weak_reference

from plugrad.graph.hooks import attach


# ---- views -------------------------------------------------------------------------------------------------

cdef tuple TOGETHER = (None, ())


def mark_together(tuple views):
    """Mark the views that one call returns together: writing to one of them is refused while recording.

    For operators that return several views of one tensor, as ``split`` does. Tensors that are no views are left
    alone. Returns `views`.
    """
    cdef Tensor view
    for item in views:
        view = <Tensor?>item
        if view.base is not None and view.chain is not None and TOGETHER not in view.chain:
            view.chain = view.chain + (TOGETHER,)
    return views


cdef int refresh(Tensor view) except -1:
    """Bring the producer of a view up to date with what was written to its memory."""
    cdef Tensor base = view.base
    cdef Tensor again
    cdef int before
    if view.counter.version == view.fn_version:
        return 0
    if instruments & DUAL and (view.tangent is not None or base.tangent is not None):
        push_refreshed(view)
    if view.outside or (view.fn is not None and view.fn.is_leaf):
        view.fn_version = view.counter.version
        return 0
    if not base.needs_grad:
        view.fn = None
        view.needs_grad = False
    elif view.chain is None:
        raise RuntimeError(
            f"a view (shape {view.meta.shape}) that one call returned with others, or took from several tensors, was "
            "used after its base was changed in-place; take it again, or use a clone() of it"
        )
    else:
        before = swap_mode(0)
        try:
            again = replay(view.chain, base)
        finally:
            swap_mode(before)
        carry_retained(view, again.fn, again.output_nr)
        view.fn = again.fn
        view.output_nr = again.output_nr
        view.needs_grad = again.needs_grad
    view.fn_version = view.counter.version
    return 0


cdef Tensor replay(tuple chain, Tensor tensor):
    """The view that a chain of (operator, constants) gives of another tensor."""
    cdef object seen = tensor
    for op, constants in chain:
        if op is not None:
            seen = dispatch(<Op>op, [seen], <tuple>constants)
    return <Tensor>seen


cdef class CopySlices(Op):
    """The producer of a tensor part of which was overwritten: inputs are the old whole and the new part."""

    def __init__(self):
        Op.__init__(self, "CopySlices")
        self.state = READY_STATE
        self.differentiable = True

    cdef object needs_of(self, Node node, set wanted):
        return None

    cdef object gradients(self, Node node, object grad, object needs, bint record):
        cdef tuple chain = <tuple>(<tuple>node.state)[0]
        whole = None
        grad = in_layout(<Tensor>grad, (<tuple>node.state)[1])
        if node.edge0 is not None and (<Tensor>grad).tangent is not None:
            whole = cleared_by_operators(<Tensor>grad, chain)
        elif node.edge0 is not None:
            whole = cleared(<Tensor>grad, chain, record)
        part = None if node.edge1 is None else replay(chain, <Tensor>grad)
        return whole, part


cdef CopySlices COPY_SLICES = CopySlices()


cdef Node copy_slices(Node whole, int whole_nr, Node part, int part_nr, tuple chain, Tensor like):
    """A node for a tensor like `like`, whose layout tells in which memory order the chain can be taken."""
    cdef Node node = new_node(COPY_SLICES)
    node.n_inputs = 2
    node.edge0 = whole
    node.nr0 = whole_nr
    node.edge1 = part
    node.nr1 = part_nr
    node.meta = like.meta
    node.state = (chain, like.meta.backend.layout(like._array))
    number_node(node)
    if instruments & WATCH:
        notify_recorded(node)
    return node


cdef Tensor in_layout(Tensor grad, object layout):
    """The same gradient, in memory of the order that a chain of views was made for."""
    cdef object array = grad.meta.backend.in_layout(grad._array, layout)
    cdef Tensor out
    if array is grad._array:
        return grad
    out = make(array, grad.meta)
    out.counter = Counter.__new__(Counter)  # not the one that the producer knows
    out.fn = grad.fn
    out.output_nr = grad.output_nr
    out.needs_grad = grad.needs_grad
    out.tangent = grad.tangent
    return out


cdef Tensor cleared(Tensor grad, tuple chain, bint record):
    """`grad` with zeros where the chain looks: what reaches the old values of a tensor partly overwritten."""
    cdef Backend backend = grad.meta.backend
    cdef list steps = [(kernel_for(<Op>op, backend), constants, (<Op>op).constants) for op, constants in chain]
    cdef Tensor out = make(backend.cleared(grad._array, steps), grad.meta)
    if record and grad.needs_grad:
        out.fn = copy_slices(grad.fn, grad.output_nr, None, 0, chain, grad)
        out.needs_grad = True
    return out


cdef Tensor cleared_by_operators(Tensor grad, tuple chain):
    """The same through operators, which take the tangents of `grad` along."""
    cdef Tensor out = target_of(COPY)(grad)
    fill_(replay(chain, out), 0)
    return out


# ---- writing -----------------------------------------------------------------------------------------------

cdef int check_target(str name, Tensor target, bint records) except -1:
    """Refuse a tensor that must not be written now. `records`: whether the written value has a graph."""
    cdef Tensor base = target.base
    if target.meta.backend.overlaps(target._array):
        raise RuntimeError(
            f"{name}: elements of the tensor (shape {target.meta.shape}) share memory, as after expand(): writing "
            "one in-place would change others; write to a clone()"
        )
    if not recording():
        return 0
    if target.inference and records:
        raise RuntimeError(
            f"{name}: an inference tensor (shape {target.meta.shape}) cannot be changed in-place by a value that has a "
            "graph; use a clone() made outside inference_mode"
        )
    if target.needs_grad and target.fn.is_leaf:
        raise RuntimeError(
            f"{name}: a leaf that requires grad (shape {target.meta.shape}) cannot be changed in-place; "
            "use no_grad(), or change a copy"
        )
    if base is None:
        return 0
    if not (records or base.needs_grad):
        return 0
    if target.outside:
        raise RuntimeError(
            f"{name}: this view (shape {target.meta.shape}) was made under no_grad and cannot be changed "
            "in-place where a graph is recorded; take the view outside no_grad"
        )
    if base.needs_grad and base.fn.is_leaf:
        raise RuntimeError(
            f"{name}: a view (shape {target.meta.shape}) of a leaf that requires grad cannot be changed "
            "in-place; use no_grad(), or change a copy"
        )
    if target.chain is None or TOGETHER in target.chain:
        raise RuntimeError(
            f"{name}: this view (shape {target.meta.shape}) is one of several that one call returned; it "
            "cannot be changed in-place where a graph is recorded; take it by indexing, or change a copy"
        )
    return 0


cdef int rebind(Tensor target, Node node, int nr) except -1:
    """The memory of `target` was written: its value now comes from output `nr` of `node` (None: no graph)."""
    cdef Tensor base = target.base
    bump(target)
    if not recording():
        return 0
    if base is None:
        if node is None and target.needs_grad:
            # Still part of the graph, though nothing of the old value is left.
            node = copy_slices(target.fn, target.output_nr, None, 0, (), target)
            nr = 0
        if node is not None:
            carry_retained(target, node, nr)
            target.fn = node
            target.output_nr = nr
            target.needs_grad = True
        return 0
    if node is not None or base.needs_grad:
        written = copy_slices(base.fn, base.output_nr, node, nr, target.chain, base)
        carry_retained(base, written, 0)
        base.fn = written
        base.output_nr = 0
        base.needs_grad = True
    return refresh(target)


cdef int carry_retained(Tensor tensor, Node node, int nr) except -1:
    """retain_grad() belongs to the tensor: after a write it means the gradient of the new value."""
    cdef Node old = tensor.fn
    if old is None or node is None or old.is_leaf or old.hooks is None:
        return 0
    if old.hooks.forget(tensor.output_nr, tensor):
        attach(node).retain(nr, weak_reference(tensor))
    return 0


cdef Tensor absorb(str name, Tensor target, Tensor result):
    """Write the values of `result` over `target` and let it take its place in the graph."""
    if target.base is not None:
        refresh(target)
    check_target(name, target, result.needs_grad)
    if result.meta.backend is not target.meta.backend:
        raise RuntimeError(
            f"{name}: a result on {result.meta.backend.name!r} cannot be written into a tensor on "
            f"{target.meta.backend.name!r}"
        )
    if result.meta.dtype != target.meta.dtype:
        if not may_hold(target.meta, result.meta):
            raise RuntimeError(
                f"{name}: a {result.meta.dtype} result cannot be written into a {target.meta.dtype} tensor"
            )
        result = target_of(CAST)(result, dtype=target.meta.dtype)
    if result.meta.shape != target.meta.shape:
        raise RuntimeError(
            f"{name}: a result of shape {result.meta.shape} cannot be written into a tensor of shape "
            f"{target.meta.shape}"
        )
    keep_saved_input(target, result)
    target.meta.backend.copy_into(target._array, result._array)
    rebind(target, result.fn, result.output_nr)
    if instruments & DUAL:
        push_written(target, result.tangent)
    return target


cdef bint may_hold(Meta target, Meta result):
    """Whether results of one dtype may be written into the other: the kind may not get lower."""
    return level(result.kind) <= level(target.kind)


cdef inline int level(int kind) noexcept:
    return FLOATING if kind & ANY_FLOATING else kind


cdef int keep_saved_input(Tensor target, Tensor result) except -1:
    """The node that made `result` may have saved the value that is about to be overwritten: give it a copy.

    Only where it was the operator's first input; if the same tensor was another operand too, that one is found
    changed at backward, as after any other in-place operation.
    """
    cdef Node node = result.fn
    if node is None or not isinstance(node.op, Op) or not (<Op>node.op).saves:
        return 0
    cdef object saved = node.saved0.array if type(node.saved0) is SavedDual else node.saved0
    if (<Op>node.op).saves[0] == 0 and saved is target._array:
        saved = target.meta.backend.copy(saved)
        node.saved0 = saved if target.tangent is None else SavedDual(saved, target.tangent)
        node.counter0 = Counter.__new__(Counter)
        node.version0 = 0
    return 0


cdef Tensor inplace(object target, Tensor tensor, tuple args, dict kwargs):
    """``tensor.name_(…)``: the operator's result written over its first input."""
    name = f"{getattr(target, 'name', target)}_"
    if tensor.base is not None:
        refresh(tensor)
    check_target(name, tensor, False)
    # The graph of a tangent saves the old value, too, and so may any of the operators that a composite is made of.
    operand = tensor
    if (
        instruments & PACK
        or tensor.tangent is not None
        or (tensor.needs_grad and recording() and not isinstance(target, Op))
    ):
        operand = unshared(tensor)
    result = target(operand, *args, **kwargs)
    if not isinstance(result, Tensor):
        raise TypeError(f"{name}: the operator returns {type(result).__name__}; it has no in-place form")
    if result is not operand and lies_in(<Tensor>result, <Tensor>operand):
        plain = name.rpartition("::")[2][:-1]
        raise RuntimeError(
            f"{name}: the operator returns a view, which has no in-place form: nothing is to be written. "
            f"Name the view instead: x = x.{plain}(…)"
        )
    return absorb(name, tensor, <Tensor>result)


cdef bint lies_in(Tensor result, Tensor operand) except -1:
    """Whether an operator's result is a view of its operand."""
    if result.base is None and not result.inference or result.meta.backend is not operand.meta.backend:
        return False
    return operand.meta.backend.shares(result._array, operand._array)


cdef Tensor unshared(Tensor tensor):
    """The same value in memory of its own: what a pack hook keeps of it must survive the write that follows."""
    cdef Tensor out = make(tensor.meta.backend.copy(tensor._array), tensor.meta)
    out.counter = Counter.__new__(Counter)  # not the one that the producer knows
    out.fn = tensor.fn
    out.output_nr = tensor.output_nr
    out.needs_grad = tensor.needs_grad
    out.tangent = tensor.tangent
    return out


class InPlace:
    """The in-place form of an operator: a callable whose first argument is written."""

    def __init__(self, target):
        self.target = target
        self.name = f"{getattr(target, 'name', target)}_"
        self.__doc__ = f"{self.name}: writes the result over the first argument and returns it."

    def __call__(self, Tensor tensor not None, *args, **kwargs):
        return inplace(self.target, tensor, args, kwargs)

    def __repr__(self):
        return f"<in-place {self.name}>"


def copy_(Tensor target not None, source):
    """Write `source` (a Tensor, moved, broadcast and cast as needed) into `target`, recorded."""
    cdef Tensor value
    if not isinstance(source, Tensor):
        raise TypeError(f"copy_() takes a Tensor, got {type(source).__name__}")
    value = <Tensor>source
    if value.meta.backend is not target.meta.backend:
        from plugrad.graph.transfer import transfer  # which needs this module

        value = transfer(value, target.meta.backend.name)
    if value.meta.dtype != target.meta.dtype:
        value = target_of(CAST)(value, dtype=target.meta.dtype)
    if value.meta.shape != target.meta.shape:
        value = target_of(BROADCAST_TO)(value, target.meta.shape)
    return absorb("copy_", target, value)


def fill_(Tensor target not None, value):
    """Write one number, or a 0-d Tensor, into every element."""
    if isinstance(value, Tensor):
        if (<Tensor>value).meta.shape != ():
            raise RuntimeError(f"fill_() takes a number or a 0-d tensor, got shape {value.shape}")
        return copy_(target, value)
    target.meta.backend.check_number("fill_", value, target.meta.dtype)
    return copy_(target, make(target.meta.backend.full(target.meta, value), target.meta))


def increment_version(Tensor target not None):
    """Note that the tensor's memory was written by other means than an operator, as optimizers do."""
    bump(target)


def detach_(Tensor target not None):
    """Take the tensor out of its graph, in place."""
    if target.base is not None:
        raise RuntimeError("detach_() on a view would leave its base in the graph; use detach()")
    if not target.inference:
        counter_of(target)  # while the producer is known, to which it must be told
    target.fn = None
    target.needs_grad = False
    target.output_nr = 0
    target.tangent = None
    return target


def replayed(tuple chain, Tensor tensor not None):
    """The view of `tensor` that the chain of another view gives; recorded as operators are."""
    return replay(chain, tensor)
