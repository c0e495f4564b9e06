"""Running a rule: its arguments out of what a node saved, and the guards around results.

(a) What a rule is passed was settled when it was declared: a plan with one (kind, index) per parameter, so a run
    fills an array of arguments and makes one vectorcall.
(b) A saved input returns as a Tensor on the edge with its index, a saved output as one on the node itself; a version
    that has moved since is an error that names operator, shape and versions.
"""
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_SET_ITEM

from plugrad.graph.backend cimport Backend, Meta, same_meta, storage_in_use
from plugrad.graph.grad_mode cimport set_recording
from plugrad.graph.instruments cimport Packed, SavedDual, concerns_tangents
from plugrad.graph.node cimport (
    Counter, Edge, Node, Saved, already_freed, edge_node, edge_nr, new_node, number_node, saved_counter
)
from plugrad.graph.op cimport CONSTANT, GRAD, INPUT, NEEDS, OUTPUT, Fused, Op, RulePlan
from plugrad.graph.storage cimport backward_widened, node_has_storage
from plugrad.graph.tensor cimport Tensor, make

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject *)
    object PyObject_Vectorcall(object function, PyObject **args, size_t n, PyObject *names)


cdef int gather(
    RulePlan plan, Op op, Node node, object grad, object needs, bint arrays, bint record, PyObject **args, int *n
) except -1:
    """Fill `args` with new references, counted in `n` as they come: what a rule or a backward kernel is passed.

    Saved values and the gradient come as Tensors, for a kernel as `arrays`.
    """
    cdef object item
    cdef int i
    for i in range(plan.n_args):
        if plan.kinds[i] == GRAD:
            item = raw(grad) if arrays else grad
        elif plan.kinds[i] == INPUT or plan.kinds[i] == OUTPUT:
            if arrays:
                item = unpack_raw(op, node, plan.slots[i])
            else:
                item = unpack(op, node, plan.slots[i], record)
        elif plan.kinds[i] == CONSTANT:
            item = node.constants[plan.slots[i]]
        elif plan.kinds[i] == NEEDS:
            item = needs
        else:
            item = node.input_metas
        Py_INCREF(item)
        args[i] = <PyObject *>item
        n[0] += 1
    if node.freed and op.saves:
        raise already_freed(node)  # by another thread, while this one was reading
    return 0


cdef object run_plan(Op op, RulePlan plan, Node node, object grad, object needs, bint record):
    cdef PyObject *args[32]
    cdef int i, n = 0
    try:
        gather(plan, op, node, grad, needs, False, record, args, &n)
        return PyObject_Vectorcall(plan.function, args, n, NULL)
    finally:
        for i in range(n):
            Py_XDECREF(args[i])


cdef object run_on_arrays(Fused fused, Op op, Node node, object grad, object needs):
    """What a backward kernel makes of a gradient, both raw arrays."""
    cdef PyObject *args[32]
    cdef int i, n = 0
    try:
        gather(fused.plan, op, node, grad, needs, True, False, args, &n)
        if storage_in_use and op.widens and node_has_storage(node):
            return backward_widened(fused, node, args, n)
        return fused.kernel.call_all(args, n)
    finally:
        for i in range(n):
            Py_XDECREF(args[i])


cdef object run_fused(Fused fused, Op op, Node node, object grad, object needs):
    """A backward kernel on raw arrays; its results as Tensors."""
    cdef object result = run_on_arrays(fused, op, node, grad, needs)
    cdef Py_ssize_t i
    if not isinstance(result, (tuple, list)):
        return tensor_like(result, node.meta)
    if type(result) is not tuple or Py_REFCNT(<PyObject *>result) > 1:
        return tuple([tensor_like(item, node.meta) for item in result])
    for i in range(len(<tuple>result)):  # nobody else has the tuple: its arrays are replaced in place
        replace(<PyObject *>result, i, node.meta)
    return result


cdef int replace(PyObject *arrays, Py_ssize_t i, Meta meta) except -1:
    """Put a Tensor in the place of item i of a tuple."""
    cdef object array = <object>PyTuple_GET_ITEM(<object>arrays, i)
    cdef object tensor = tensor_like(array, meta)
    Py_INCREF(tensor)
    PyTuple_SET_ITEM(<object>arrays, i, tensor)
    Py_DECREF(array)
    return 0


cdef class _Barrier(Op):
    """Stands behind tensors that must not be differentiated."""

    cdef str why

    cdef object needs_of(self, Node node, set wanted):
        return None

    cdef object gradients(self, Node node, object grad, object needs, bint record):
        raise RuntimeError(self.why)


cdef bint has_tangents(Node node, object grad):
    """Whether forward mode goes through this step of a backward pass, which differentiates it."""
    found = [grad] if isinstance(grad, Tensor) else list(grad)
    tangents = [(<Tensor>item).tangent for item in found if isinstance(item, Tensor)]
    for entry in [node.saved0, node.saved1, *(node.more_saved or ())]:
        for item in entry if isinstance(entry, list) else (entry,):
            if isinstance(item, Saved):
                item = (<Saved>item).value
            if isinstance(item, SavedDual):
                tangents.append((<SavedDual>item).tangents)
            elif isinstance(item, Packed):
                tangents.append((<Packed>item).tangents)
    return concerns_tangents([record for record in tangents if record])


cdef object run_once(Op op, Node node, object grad, object needs):
    """Run a rule that cannot be differentiated while gradients are recorded."""
    set_recording(False)
    try:
        result = run_plan(op, op.rule_plan, node, grad, needs, False)
    finally:
        set_recording(True)
    return sealed(op.name, node, result)


def sealed(str name, Node node, result, str why=None):
    """`result` as Tensors that depend on the inputs of `node`, but raise `why` when that is differentiated."""
    if isinstance(result, (tuple, list)):
        return [sealed(name, node, item, why) for item in result]
    if not isinstance(result, Tensor):
        return result
    cdef Tensor out = make((<Tensor>result)._array, (<Tensor>result).meta)
    cdef _Barrier op = _Barrier(name)
    cdef Node barrier = new_node(op)
    cdef Py_ssize_t i
    op.why = why
    if why is None:
        op.why = f"the backward of {name} is once_differentiable: its gradients cannot be differentiated"
    out.counter = (<Tensor>result).counter
    cdef Edge edge
    barrier.meta = out.meta
    barrier.n_inputs = node.n_inputs
    barrier.edge0, barrier.nr0 = node.edge0, node.nr0
    barrier.edge1, barrier.nr1 = node.edge1, node.nr1
    if node.more_edges is not None:
        more = []
        for i in range(2, node.n_inputs):
            edge = Edge.__new__(Edge)
            edge.node = edge_node(node, i)
            edge.nr = edge_nr(node, i)
            more.append(edge)
        barrier.more_edges = tuple(more)
    number_node(barrier)
    out.fn = barrier
    out.needs_grad = True
    return out


cdef object raw(object value):
    if isinstance(value, Tensor):
        return (<Tensor>value)._array
    if isinstance(value, tuple):
        return tuple([raw(item) for item in value])
    return value


cdef Tensor tensor_like(object array, Meta meta):
    """What a backward kernel returned as a Tensor; mostly it has the shape and dtype of the operator's output."""
    cdef Backend backend = meta.backend
    if array is None:
        return None
    if backend.fits(array, meta):
        return make(array, meta)
    array = backend.adopt(array)
    return make(array, backend.meta(array))


cdef object unpack_raw(Op op, Node node, int slot):
    """A saved value as a backward kernel sees it: an array or a plain number."""
    cdef object value = node.saved0 if slot == 0 else node.saved1
    cdef Counter counter = node.counter0 if slot == 0 else node.counter1
    if slot > 1 or counter is None or type(value) is SavedDual:
        return raw(unpack(op, node, slot, False))
    counter = saved_counter(node, op.save_codes[slot], counter)
    if counter is None:
        return value
    if counter.version != (node.version0 if slot == 0 else node.version1):
        return unpack(op, node, slot, False)  # raises
    return value


cdef object unpack(Op op, Node node, int slot, bint record):
    """A saved value as the rule sees it: a Tensor in its place in the graph, or a plain number."""
    cdef Saved entry
    cdef int code = op.saves[slot]
    cdef Py_ssize_t i
    cdef object found
    if slot == 0:
        found = node.saved0
        if not isinstance(found, list):
            return restore(node, found, node.counter0, node.version0, code, record)
    elif slot == 1:
        found = node.saved1
        if not isinstance(found, list):
            return restore(node, found, node.counter1, node.version1, code, record)
    else:
        found = node.more_saved[slot - 2]
    if isinstance(found, list):
        items = []
        for i in range(len(<list>found)):
            entry = <Saved>(<list>found)[i]
            items.append(restore(node, entry.value, entry.counter, entry.version, code + i, record))
        return tuple(items)
    entry = <Saved>found
    return restore(node, entry.value, entry.counter, entry.version, code, record)


cdef object restore(
    Node node, object value, Counter counter, Py_ssize_t version, int code, bint record
):
    cdef Tensor tensor
    cdef Node edge
    cdef Meta meta = node.meta
    cdef object tangents = None
    if type(value) is SavedDual:
        tangents = (<SavedDual>value).tangents
        value = (<SavedDual>value).array
    if counter is None:
        if not isinstance(value, Packed):
            return value
        tensor = unpacked(<Packed>value, node.name())
    else:
        counter = saved_counter(node, code, counter)
        if counter is not None and counter.version != version:
            raise overwritten(node, value, counter.version, version, code)
        tensor = make(value, meta if meta.backend.fits(value, meta) else meta.backend.meta(value))
        tensor.tangent = tangents
    if record:
        tensor.counter = counter
        if code < 0:
            tensor.fn = node
            tensor.output_nr = -1 - code
            tensor.needs_grad = True
        else:
            edge = edge_node(node, code)
            if edge is not None:
                tensor.fn = edge
                tensor.output_nr = edge_nr(node, code)
                tensor.needs_grad = True
    return tensor


cdef Tensor unpacked(Packed saved, str name):
    """What an unpack hook gives back for a value that the operator of that name saved."""
    found = saved.unpack(saved.content)
    if not isinstance(found, Tensor):
        raise TypeError(
            f"the unpack hook for a value that {name} saved returned {type(found).__name__}; "
            "expected a Tensor"
        )
    if not same_meta((<Tensor>found).meta, <Meta>saved.meta):
        raise RuntimeError(
            f"the unpack hook for a value that {name} saved returned {(<Tensor>found).meta}; "
            f"what was packed is {saved.meta}"
        )
    cdef Tensor tensor = make((<Tensor>found)._array, (<Tensor>found).meta)
    tensor.tangent = (<Tensor>found).tangent
    return tensor


cdef object overwritten(Node node, object value, Py_ssize_t now, Py_ssize_t then, int code):
    """The error for a saved value that an in-place operation changed."""
    cdef Meta meta = node.meta.backend.meta(value)
    cdef Node producer = node if code < 0 else edge_node(node, code)
    if code < 0:
        origin = f"output {-1 - code} of {node.name()}"
    elif producer is None or producer.is_leaf:
        origin = f"input {code} of {node.name()}"
    else:
        origin = f"output {edge_nr(node, code)} of {producer.name()}"
    return RuntimeError(
        f"a value that {node.name()} saved for backward was changed by an in-place operation: "
        f"{origin}, shape {list(meta.shape)}, dtype {meta.dtype}, is at version {now}, expected {then}. "
        "Change a copy (clone()) instead, or do it after backward."
    )


# ---- what a node holds -------------------------------------------------------------------------------------

def saved_entries(Node node not None):
    """(slot, value, unchanged) of each value that the node holds: `unchanged` by the version of its memory.

    What a hook packed is left out.
    """
    cdef list found = []
    if node.freed:
        return found
    _note_slot(found, node, 0, node.saved0, node.counter0, node.version0)
    _note_slot(found, node, 1, node.saved1, node.counter1, node.version1)
    for i, entry in enumerate(node.more_saved or ()):
        _note_entries(found, i + 2, entry)
    return found


cdef int _note_slot(
    list found, Node node, int slot, object value, Counter counter, Py_ssize_t version
) except -1:
    if isinstance(value, list):
        _note_entries(found, slot, value)
    elif counter is not None:
        counter = saved_counter(node, (<Op>node.op).save_codes[slot], counter)
        found.append((slot, value, counter is None or counter.version == version))
    return 0


cdef int _note_entries(list found, int slot, object value) except -1:
    cdef Saved entry
    for item in value if isinstance(value, list) else (value,):
        if isinstance(item, Saved):
            entry = <Saved>item
            if entry.counter is not None:
                found.append((slot, entry.value, entry.counter.version == entry.version))
    return 0
