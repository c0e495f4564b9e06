"""The engine: runs a graph backward.

(a) Nodes are taken from a heap, largest sequence number first. An edge always leads to a smaller number, so
    when a node is taken every gradient that it will ever get in this run has arrived. No recursion.
(b) A leaf without hooks accumulates as soon as a gradient reaches it. While any leaf in the process has hooks, a run
    first counts the edges into such leaves; one of them accumulates, and runs its hooks, once all of its edges are
    done. Whatever is not complete by then (its gradient may be captured, or part of the graph got none) waits in the
    heap: a leaf's number is 0, so it comes last.
(c) What happens to a gradient on its way, and when a buffer may be written, is told in `gradients.pyx`.
"""
from weakref import WeakSet

from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_SET_ITEM

from plugrad.graph.backend cimport Backend, Meta, same_meta
from plugrad.graph.grad_mode cimport set_recording
from plugrad.graph.gradient_hooks cimport run_post_hooks, run_pre_hooks, run_tensor_hooks
from plugrad.graph.gradients cimport (
    accumulate, add_to_grad, by_operators, deliver, deliver_array, note_captures, take, waits, zeros
)
from plugrad.graph.instruments cimport WATCH, instruments, notify_after, notify_before, notify_failed
from plugrad.graph.node cimport Leaf, Node, already_freed, edge_node, edge_nr, output_meta, track
from plugrad.graph.op cimport Fused, Op, fused_for
from plugrad.graph.roles cimport CAST, SUM_TO, target_of
from plugrad.graph.rule cimport run_on_arrays, tensor_like
from plugrad.graph.run cimport Run, new_run, pop
from plugrad.graph.seeds cimport as_tensors, seeds_of
from plugrad.graph.tensor cimport Tensor, make
from plugrad.graph.walks cimport edges_into_hooked_leaves, leading_to, wants_any

from plugrad.graph.hooks import Hooks

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject *)

cdef extern from *:
    """
    #if defined(_MSC_VER)
    #define PLUGRAD_THREAD_LOCAL __declspec(thread)
    #else
    #define PLUGRAD_THREAD_LOCAL __thread
    #endif
    static PLUGRAD_THREAD_LOCAL int plugrad_depth = 0;
    static PLUGRAD_THREAD_LOCAL PyObject *plugrad_run = NULL;
    """
    int plugrad_depth
    PyObject *plugrad_run

_hooked_leaves = WeakSet()


# ---- the public entries ------------------------------------------------------------------------------------

def backward(tensors, gradients=None, retain_graph=None, bint create_graph=False, inputs=None):
    """Accumulate gradients of `tensors` into leaves; see ``Tensor.backward``."""
    roots = as_tensors(tensors, "tensors")
    cdef Run run = new_run(retain_graph, create_graph)
    run.accumulate = True
    if inputs is not None:
        targets = as_tensors(inputs, "inputs")
        if not targets:
            raise RuntimeError("backward() got an empty list of inputs")
        for target in targets:
            if (<Tensor>target).fn is None:
                raise RuntimeError("backward(): one of the inputs does not require grad")
        found = capture(run, roots, seeds_of(roots, gradients, "backward()"), targets)
        for target, grad in zip(targets, found):
            if grad is None:
                continue
            if (<Tensor>target).fn.is_leaf:
                accumulate(run, <Leaf>(<Tensor>target).fn, <Tensor>grad)
            else:
                add_to_grad(run, <Tensor>target, <Tensor>grad)
        return
    execute(run, roots, seeds_of(roots, gradients, "backward()"))


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, bint create_graph=False,
         allow_unused=None, bint materialize_grads=False):
    """The gradients of `outputs` with respect to `inputs`; see ``plugrad.autograd.grad``."""
    roots = as_tensors(outputs, "outputs")
    targets = as_tensors(inputs, "inputs")
    if materialize_grads and allow_unused is False:
        raise ValueError("grad(): materialize_grads needs allow_unused, which was set to False")
    for i, target in enumerate(targets):
        if (<Tensor>target).fn is None:
            raise RuntimeError(f"grad(): input {i} (shape {target.shape}) does not require grad")
    cdef Run run = new_run(retain_graph, create_graph)
    found = capture(run, roots, seeds_of(roots, grad_outputs, "grad()"), targets)
    for i, target in enumerate(targets):
        if found[i] is not None:
            continue
        if materialize_grads:
            meta = (<Tensor>target).meta
            found[i] = zeros(meta)
        elif not allow_unused:
            raise RuntimeError(
                f"grad(): input {i} (shape {target.shape}) is not used in the graph of the outputs; "
                "allow_unused=True returns None for it"
            )
    return tuple(found)


def running():
    """Whether a backward pass is in progress on this thread."""
    return plugrad_depth > 0


def current_run():
    """The backward pass in progress on this thread (the innermost one), or None."""
    return None if plugrad_run == NULL else <object>plugrad_run


def hooks_of(Node node not None):
    """The hooks of a node, made on first use; the collector sees the node from then on."""
    if node.hooks is None:
        node.hooks = Hooks(node.seq)
        track(node)
        if node.is_leaf:
            _hooked_leaves.add(node)
        else:
            node.hooked = True
    return node.hooks


# ---- the loop ----------------------------------------------------------------------------------------------

cdef int execute(Run run, list roots, list seeds) except -1:
    global plugrad_depth, plugrad_run
    cdef bint before = set_recording(run.create)
    cdef PyObject *outer = plugrad_run
    cdef Tensor root
    cdef Node node
    cdef Py_ssize_t i, n
    cdef unsigned int steps = 0
    plugrad_depth += 1
    plugrad_run = <PyObject *>run
    run.starts = roots
    try:
        if _hooked_leaves and run.captures is None:
            run.expected = edges_into_hooked_leaves(roots)
        n = len(roots)
        for i in range(n):
            root = <Tensor>roots[i]
            seed = seeds[i]
            seeds[i] = None
            deliver(run, root.fn, root.output_nr, <Tensor>seed)
            seed = None
            if run.expected is not None:
                edge_done(run, root.fn)
        while run.size > 0:
            while run.ready:
                visit(run, <Node>run.ready.pop())
            node = pop(run)
            if node.is_leaf and not waits(run, node):
                continue  # it was complete earlier
            visit(run, node)
            steps += 1
            if steps & 63 == 0:
                PyErr_CheckSignals()
        while run.at_end:
            run.at_end.pop(0)()
    finally:
        plugrad_depth -= 1
        plugrad_run = outer
        set_recording(before)
        while run.size > 0:  # empty unless an exception came through
            node = pop(run)
            if node.run == run.id:
                node.pending = None
                node.run = 0
        run.side = None
        run.noted = None
        run.expected = None
        run.ready = None
        run.at_end = None
        run.starts = None
    return 0


cdef int visit(Run run, Node node) except -1:
    """Run one node: its hooks, then its rule; send the results along the edges."""
    cdef object pending = take(run, node)
    cdef object needs, result
    cdef Op op = None if node.is_leaf else <Op>node.op
    if (
        op is not None
        and op.fused is not None
        and node.metas is None
        and node.hooks is None
        and run.captures is None
        and not run.create
        and not instruments
        and visit_arrays(run, op, node, pending)
    ):
        return 0
    if node.metas is None and not isinstance(pending, Tensor):
        pending = make(pending, node.meta)
    if node.hooks is not None:
        pending = run_tensor_hooks(run, node, pending)
    if run.captures is not None:
        note_captures(run, node, pending)
    if node.is_leaf:
        if run.accumulate:
            if node.hooks is not None:
                pending = run_pre_hooks(node, pending)
            accumulate(run, <Leaf>node, <Tensor>pending)
            if node.hooks is not None:
                run_post_hooks(node, (), pending)
        return 0
    needs = op.needs_of(node, run.wanted)
    if run.wanted is not None and not wants_any(node, run.wanted):
        return 0
    if node.freed and op.saves:
        raise already_freed(node)
    if node.metas is not None:
        pending = tuple(op.complete_grads(node, <list>pending))
    if node.hooks is not None:
        pending = run_pre_hooks(node, pending)
    if instruments & WATCH:
        result = watched(run, op, node, pending, needs)
    else:
        result = op.gradients(node, pending, needs, run.create)
    if node.hooks is not None:
        result = run_post_hooks(node, result, pending)
    pending = None
    if not run.keep:
        op.forget(node)
    run.result = result
    result = None  # `send` takes the last reference, so that a buffer nobody else holds can be kept
    send(run, op, node, False)
    return 0


cdef bint visit_arrays(Run run, Op op, Node node, object pending) except -1:
    """Run a node's backward kernel with no Tensor made where nobody looks; False where it has none."""
    cdef Backend backend = node.meta.backend
    cdef Fused fused = fused_for(op, backend)
    if fused is None:
        return False
    if node.freed and op.saves:
        raise already_freed(node)
    run.result = run_on_arrays(fused, op, node, pending, op.needs_of(node, None))
    if not isinstance(pending, Tensor):
        backend.recycle(<PyObject *>pending)
    if not run.keep:
        op.forget(node)
    send(run, op, node, True)
    return True


cdef object watched(Run run, Op op, Node node, object pending, object needs):
    """Run a rule while someone looks on."""
    notify_before(node)
    try:
        result = op.gradients(node, pending, needs, run.create)
    except Exception as error:
        notify_failed(node, error)
        raise
    return notify_after(node, result)


cdef int send(Run run, Op op, Node node, bint arrays) except -1:
    """Check what a rule returned, which lies in `run.result`, and deliver it along the edges.

    With `arrays` it is what a backward kernel returned.
    """
    cdef object result = run.result
    cdef object grad
    cdef Py_ssize_t i, n = node.n_inputs
    cdef Node edge
    run.result = None
    cdef bint several = isinstance(result, (tuple, list))
    if result is None or isinstance(result, Tensor) or (arrays and not several):
        if n != 1 and not (n == 0 and result is None):
            raise wrong_count(op, n, 1)
        grad = result
        result = None
    elif several:
        if len(result) != n:
            raise wrong_count(op, n, len(result))
        result = tuple(result)
        grad = None
    else:
        raise TypeError(
            f"backward of {op.name} must return Tensors or None, one per input, "
            f"got {type(result).__name__}"
        )
    for i in range(n):
        if result is not None:
            grad = taken(<PyObject *>result, i)
        edge = edge_node(node, i)
        if grad is None or edge is None or (run.wanted is not None and id(edge) not in run.wanted):
            if run.expected is not None and edge is not None:
                edge_done(run, edge)
            continue
        if arrays:
            if deliver_array(run, edge, grad):
                node.meta.backend.recycle(<PyObject *>grad)
                if run.expected is not None:
                    edge_done(run, edge)
                continue
            grad = tensor_like(grad, node.meta)
        elif not isinstance(grad, Tensor):
            raise TypeError(
                f"backward of {op.name} returned {type(grad).__name__} as the gradient of input {i}; "
                "expected a Tensor or None"
            )
        if (<Tensor>grad).meta is not edge.meta or edge.metas is not None:
            grad = fit(run, op, i, <Tensor>grad, output_meta(edge, edge_nr(node, i)))
        deliver(run, edge, edge_nr(node, i), <Tensor>grad)
        if run.expected is not None:
            edge_done(run, edge)
    return 0


cdef object taken(PyObject *items, Py_ssize_t i):
    """Item i of a tuple; out of a tuple that nobody else holds the item is moved."""
    cdef object item = <object>PyTuple_GET_ITEM(<object>items, i)
    if Py_REFCNT(items) == 1:
        Py_INCREF(None)
        PyTuple_SET_ITEM(<object>items, i, None)
        Py_DECREF(item)
    return item


cdef object wrong_count(Op op, Py_ssize_t expected, Py_ssize_t got):
    return RuntimeError(
        f"backward of {op.name} returned {got} gradient{'' if got == 1 else 's'}, "
        f"expected {expected} (one per input, None where there is none)"
    )


cdef Tensor fit(Run run, Op op, Py_ssize_t i, Tensor grad, Meta meta):
    """Bring a gradient to the shape and dtype of the tensor it belongs to, or refuse it."""
    cdef Backend backend = meta.backend
    if same_meta(grad.meta, meta):
        grad.meta = meta  # equal, and the next comparison is one of pointers
        return grad
    if grad.meta.backend is not backend:
        raise RuntimeError(
            f"backward of {op.name} returned a gradient on {grad.meta.backend.name!r} for input {i}, "
            f"which is on {backend.name!r}"
        )
    if grad.meta.shape != meta.shape:
        if not op.elementwise or not sums_to(grad.meta.shape, meta.shape):
            raise RuntimeError(
                f"backward of {op.name} returned a gradient of shape {grad.meta.shape} for input {i}, "
                f"which has shape {meta.shape}"
            )
        if by_operators(run, grad, grad):
            grad = target_of(SUM_TO)(grad, shape=meta.shape)
        else:
            array = backend.sum_to(grad._array, meta.shape)
            grad = make(array, backend.meta(array))
    if grad.meta.dtype != meta.dtype:
        if by_operators(run, grad, grad):
            grad = target_of(CAST)(grad, dtype=meta.dtype)
        else:
            grad = make(backend.cast(grad._array, meta.dtype), meta)
    return grad


cdef bint sums_to(tuple big, tuple small):
    """Whether broadcasting `small` gives `big`."""
    cdef Py_ssize_t added = len(big) - len(small)
    cdef Py_ssize_t i
    if added < 0:
        return False
    for i in range(len(small)):
        if small[i] != big[added + i] and small[i] != 1:
            return False
    return True


cdef int edge_done(Run run, Node end) except -1:
    """Whatever comes along one edge has come; a leaf for which it was the last one is ready."""
    cdef object left
    if not end.is_leaf:
        return 0
    left = run.expected.get(id(end))
    if left is None:
        return 0
    run.expected[id(end)] = left - 1
    if left == 1 and waits(run, end):
        if run.ready is None:
            run.ready = []
        run.ready.append(end)
    return 0


# ---- partial runs ------------------------------------------------------------------------------------------

cdef list capture(Run run, list roots, list seeds, list targets):
    """Run only what leads to `targets` and return their gradients."""
    cdef Tensor target
    run.captures = {}
    for item in targets:
        target = <Tensor>item
        run.captures[(id(target.fn), target.output_nr)] = None
    run.wanted = leading_to(roots, targets)
    cdef list live_roots = [], live_seeds = []
    for root, seed in zip(roots, seeds):
        if id((<Tensor>root).fn) in run.wanted:
            live_roots.append(root)
            live_seeds.append(seed)
    seeds.clear()
    seed = None
    cdef bint accumulating = run.accumulate
    run.accumulate = False
    execute(run, live_roots, live_seeds)
    run.accumulate = accumulating
    return [run.captures[(id((<Tensor>t).fn), (<Tensor>t).output_nr)] for t in targets]
