"""Recording a call: the node's edges, what its rule wants saved, and its outputs.

(a) A value is saved with the version that its memory has; one that an in-place kernel is about to write is saved
    with the version that the write will give.
(b) Pack hooks and tangents, where they are in use, change what is put into a slot; the slot stays the same.
"""
from plugrad.graph.backend cimport COMPLEX, INEXACT
from plugrad.graph.instruments cimport (
    DUAL, PACK, WATCH, Packed, SavedDual, Tangents, instruments, notify_recorded, packed
)
from plugrad.graph.node cimport (
    UNSHARED, Edge, Node, Saved, edge_node, new_node, number_node, track
)
from plugrad.graph.op cimport Op
from plugrad.graph.tensor cimport Tensor, counter_of, make, produced_alone


cdef int record_simple(Op op, Tensor x, Tensor y, object number, Tensor out) except -1:
    """Record a call with one or two operands, one of which may be a number."""
    cdef Node node = new_node(op)
    cdef int code, slot = 0
    cdef long long edges = 0
    cdef Tensor kept
    if out.meta.kind == COMPLEX and not op.conjugates:
        raise no_complex_rule(op)
    node.meta = out.meta
    node.n_inputs = op.n_inputs
    if x is not None and x.needs_grad:
        node.edge0 = x.fn
        node.nr0 = x.output_nr
        edges = 1
    if y is not None and y.needs_grad:
        node.edge1 = y.fn
        node.nr1 = y.output_nr
        edges |= 2
    for slot in range(op.n_saves):
        code = op.save_codes[slot]
        kept = out if code < 0 else (x if code == 0 else y)
        if op.save_masks[slot] and not op.save_masks[slot] & edges:
            save(node, slot, None)
        elif slot == 0:
            if kept is None:
                node.saved0 = number
            else:
                node.saved0 = kept._array
                if code < 0 or versionless(kept):
                    node.counter0 = UNSHARED
                else:
                    node.counter0 = counter_of(kept)
                    node.version0 = node.counter0.version
        elif slot == 1:
            if kept is None:
                node.saved1 = number
            else:
                node.saved1 = kept._array
                if code < 0 or versionless(kept):
                    node.counter1 = UNSHARED
                else:
                    node.counter1 = counter_of(kept)
                    node.version1 = node.counter1.version
        else:
            save(node, slot, number if kept is None else kept)
    if op.uses_like:
        node.input_metas = op.like_type._make(
            [number if t is None else (<Tensor>t).meta for t in ((x, y) if op.n_inputs == 2 else (x,))]
        )
    if (node.edge0 is not None and node.edge0.hooked) or (node.edge1 is not None and node.edge1.hooked):
        follow_hooked(node)
    number_node(node)
    out.fn = node
    out.needs_grad = True
    return 0


cdef inline bint versionless(Tensor tensor) noexcept:
    """Whether the tensor's memory has no version yet, and its producer will know of one."""
    return (
        tensor.counter is None
        and tensor.needs_grad
        and produced_alone(tensor)
        and tensor.fn.counter is None
    )


cdef int follow_hooked(Node node) except -1:
    """A hook further up may refer to what is computed here: let the collector see such a cycle whole."""
    node.hooked = True
    track(node)
    return 0


cdef bint wanted(Op op, int slot, Node node) except -1:
    """Whether an input on whose gradient this slot depends has an edge."""
    cdef long long mask = op.save_masks[slot]
    cdef Py_ssize_t i
    if mask == 0:
        return True
    for i in range(node.n_inputs):
        if mask >> i & 1 and edge_node(node, i) is not None:
            return True
    return False


cdef int save(Node node, int slot, object value) except -1:
    """Keep one value for backward: a Tensor's array with its version, or a number as it is."""
    if slot < 2 and instruments & PACK and isinstance(value, Tensor):
        value = hooked(<Tensor>value)
    if slot == 0:
        if isinstance(value, Tensor):
            node.saved0 = saved_array(<Tensor>value)
            node.counter0 = counter_of(<Tensor>value)
            node.version0 = node.counter0.version
        else:
            node.saved0 = value
    elif slot == 1:
        if isinstance(value, Tensor):
            node.saved1 = saved_array(<Tensor>value)
            node.counter1 = counter_of(<Tensor>value)
            node.version1 = node.counter1.version
        else:
            node.saved1 = value
    else:
        if node.more_saved is None:
            node.more_saved = []
        node.more_saved.append(saved_entry(value))
    return 0


cdef int save_list(Node node, int slot, list entries) except -1:
    """Keep the tensors of a list input, each with its own version."""
    if slot == 0:
        node.saved0 = entries
    elif slot == 1:
        node.saved1 = entries
    else:
        if node.more_saved is None:
            node.more_saved = []
        node.more_saved.append(entries)
    return 0


cdef inline object saved_array(Tensor tensor):
    """The array of a tensor, together with its tangents while it has some."""
    if tensor.tangent is None or not instruments & DUAL:
        return tensor._array
    return SavedDual(tensor._array, <Tangents>tensor.tangent)


cdef object hooked(Tensor tensor):
    """What the pack hook makes of a value to be saved, or the value; shown without its graph, a leaf as a leaf."""
    cdef Tensor shown = make(tensor._array, tensor.meta)
    shown.counter = counter_of(tensor)
    shown.tangent = tensor.tangent
    shown.needs_grad = tensor.needs_grad and (tensor.fn is None or tensor.fn.is_leaf)
    cdef Py_ssize_t before = shown.counter.version
    found = packed(shown)
    if shown.counter.version != before:
        raise RuntimeError("a pack hook of saved tensors changed its argument in-place")
    if found is None:
        return tensor
    (<Packed>found).meta = tensor.meta
    (<Packed>found).tangents = tensor.tangent
    return found


cdef Saved saved_entry(object value):
    cdef Saved entry = Saved.__new__(Saved)
    if instruments & PACK and isinstance(value, Tensor):
        value = hooked(<Tensor>value)
    if isinstance(value, Tensor):
        entry.value = saved_array(<Tensor>value)
        entry.counter = counter_of(<Tensor>value)
        entry.version = entry.counter.version
    else:
        entry.value = value
    return entry


cdef object no_complex_rule(Op op):
    return RuntimeError(
        f"{op.name}: the rule of this operator is for real numbers only; gradients of complex tensors need an "
        "operator that declares them (dtypes='complex' or 'number')"
    )


cdef int record(Op op, list inputs, tuple constants, list outs) except -1:
    cdef Node node
    cdef int kinds = 0
    for value in outs:
        kinds |= (<Tensor>value).meta.kind
    if not kinds & INEXACT:
        return 0
    if not op.conjugates:
        for value in inputs:
            if isinstance(value, Tensor) and (<Tensor>value).meta.kind == COMPLEX:
                raise no_complex_rule(op)
    node = new_node(op)
    connect(op, node, inputs, constants)
    save_values(op, node, inputs, outs)
    complete(op, node, outs)
    if instruments & WATCH:
        notify_recorded(node)
    return 0


cdef int connect(Op op, Node node, list inputs, tuple constants) except -1:
    """Fix the node's edges and keep what its rule asks of the call."""
    cdef Tensor x
    cdef Edge edge
    cdef list more = None
    cdef Py_ssize_t i
    node.n_inputs = <int>len(inputs)
    for i in range(len(inputs)):
        if i >= 2 and more is None:
            more = []
        if not isinstance(inputs[i], Tensor) or not (<Tensor>inputs[i]).needs_grad:
            if i >= 2:
                more.append(None)
            continue
        x = <Tensor>inputs[i]
        if i == 0:
            node.edge0 = x.fn
            node.nr0 = x.output_nr
        elif i == 1:
            node.edge1 = x.fn
            node.nr1 = x.output_nr
        else:
            edge = Edge.__new__(Edge)
            edge.node = x.fn
            edge.nr = x.output_nr
            more.append(edge)
    if more is not None:
        node.more_edges = tuple(more)
    if op.uses_constants:
        node.constants = constants
    if op.uses_like:
        metas = [(<Tensor>each).meta if isinstance(each, Tensor) else each for each in inputs]
        if op.variadic:
            metas = metas[: op.n_inputs - 1] + [tuple(metas[op.n_inputs - 1:])]
        node.input_metas = op.like_type._make(metas)
    return 0


cdef int save_values(Op op, Node node, list inputs, list outs) except -1:
    """Fill the saved slots. `outs` is None before an in-place kernel has run; its slots follow later."""
    cdef int code, slot = 0
    if instruments & PACK:
        track(node)  # what a hook returns may lead back here
    for code in op.saves:
        if not wanted(op, slot, node):
            save(node, slot, None)
        elif code < 0:
            save(node, slot, None if outs is None else outs[-1 - code])
        elif op.variadic and code == op.n_inputs - 1:
            save_list(node, slot, [saved_entry(x) for x in inputs[code:]])
        else:
            save(node, slot, inputs[code])
        slot += 1
    return 0


cdef int complete(Op op, Node node, list outs) except -1:
    """Note the outputs, number the node and make it their producer."""
    cdef Tensor out
    cdef Node edge
    cdef int i
    for i in range(node.n_inputs):
        edge = edge_node(node, i)
        if edge is not None and edge.hooked:
            follow_hooked(node)
            break
    node.meta = (<Tensor>outs[0]).meta
    if len(outs) > 1:
        node.metas = tuple([(<Tensor>t).meta for t in outs])
    number_node(node)
    for i in range(len(outs)):
        out = <Tensor>outs[i]
        if op.nondifferentiable_outputs is not None and op.nondifferentiable_outputs[i]:
            continue
        if out.meta.kind & INEXACT:
            out.fn = node
            out.output_nr = i
            out.needs_grad = True
    return 0


cdef int replace_saved(Node node, int slot, Tensor value) except -1:
    """Fill a slot that was left open, with the version that the write in progress will give."""
    cdef Saved entry
    if slot == 0:
        save(node, 0, value)
        node.version0 += 1
    elif slot == 1:
        save(node, 1, value)
        node.version1 += 1
    else:
        entry = saved_entry(value)
        entry.version += 1
        node.more_saved[slot - 2] = entry
    return 0
