"""The engine: runs a graph backward.

(a) Nodes are taken from a heap, largest sequence number first. An edge always leads to a smaller number, so
    when a node is taken every gradient that it will ever get in this run has arrived. No recursion.
(b) A leaf without hooks accumulates as soon as a gradient reaches it. While any leaf in the process has hooks, a run
    first counts the edges into such leaves; one of them accumulates, and runs its hooks, once all of its edges are
    done. Whatever is not complete by then (its gradient may be captured, or part of the graph got none) waits in the
    heap: a leaf's number is 0, so it comes last.
(c) Pending gradients belong to a run: a slot on the node, tagged with the run's number, or the run's side
    table when another run (nested in a hook, or on another thread) has the slot.
(d) A buffer is added to in place only when the engine alone owns it: Tensor and array have one reference
    each, the array owns its memory. Nothing handed in or kept by a rule is ever written.
"""
import os
from weakref import WeakSet

from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_SET_ITEM
from libc.stdlib cimport free, realloc
from cpython.pythread cimport (
    NOWAIT_LOCK,
    WAIT_LOCK,
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_release_lock,
    PyThread_type_lock,
)

from plugrad.graph.backend cimport Backend, Meta, same_meta
from plugrad.graph.grad_mode cimport inferring, set_recording
from plugrad.graph.inplace cimport refresh
from plugrad.graph.instruments cimport WATCH, instruments, notify_after, notify_before, notify_failed
from plugrad.graph.node cimport Leaf, Node, already_freed, edge_node, edge_nr, output_meta, track
from plugrad.graph.op cimport Op
from plugrad.graph.roles cimport ADD, CAST, COPY, SUM_TO, target_of
from plugrad.graph.tensor cimport Tensor, bump, make, wrap

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
    static long long plugrad_runs = 0;
    """
    int plugrad_depth
    PyObject *plugrad_run
    long long plugrad_runs

_hooked_leaves = WeakSet()

# Leaves share a few locks: one each would cost memory for what is contended only in multi-threaded programs.
cdef PyThread_type_lock _locks[16]


def _make_locks():
    for i in range(16):
        _locks[i] = PyThread_allocate_lock()


_make_locks()
if hasattr(os, "register_at_fork"):
    # A thread that held one of them does not exist in a child process.
    os.register_at_fork(after_in_child=_make_locks)


cdef class Run:
    """One backward pass.

    Attributes
    ----------
    id : int
        Larger for passes that started later.
    notes : dict
        For hooks that keep something from one node to another; gone with the pass.
    """

    def __dealloc__(self):
        free(self.heap)

    @property
    def id(self):
        return self.id

    @property
    def notes(self):
        if self.noted is None:
            self.noted = {}
        return self.noted

    def will_visit(self, Node node not None):
        """Whether this pass can reach a node; it does, unless a rule on the way returns None."""
        if self.wanted is not None:
            return id(node) in self.wanted
        if self.reached is None:
            self.reached = reachable(self.starts)
        return id(node) in self.reached

    def when_done(self, callback):
        """Call ``callback()`` when every node has run; not if an exception ends the pass."""
        if self.at_end is None:
            self.at_end = []
        self.at_end.append(callback)


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
            if grad is not None:
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


def hooks_of(Node node):
    """The hooks of a node, made on first use; the collector sees the node from then on."""
    if node.hooks is None:
        node.hooks = Hooks()
        track(node)
        if node.is_leaf:
            _hooked_leaves.add(node)
    return node.hooks


# ---- setting up --------------------------------------------------------------------------------------------

cdef inline bint by_operators(Run run, Tensor a, Tensor b) noexcept:
    """Whether gradients are added, summed and cast by operators: when they are recorded or have tangents."""
    return run.create or a.tangent is not None or b.tangent is not None


cdef Run new_run(object retain_graph, bint create_graph):
    global plugrad_runs
    if create_graph and inferring():
        raise RuntimeError("create_graph=True in inference_mode, where nothing is recorded")
    cdef Run run = Run.__new__(Run)
    plugrad_runs += 1
    run.id = plugrad_runs
    run.create = create_graph
    run.keep = create_graph if retain_graph is None else bool(retain_graph)
    return run


cdef list as_tensors(object value, str what):
    cdef list items = [value] if isinstance(value, Tensor) else list(value)
    for item in items:
        if not isinstance(item, Tensor):
            raise TypeError(f"{what} must be Tensors, got {type(item).__name__}")
        if (<Tensor>item).base is not None:
            refresh(<Tensor>item)
    return items


cdef list seeds_of(list roots, object given, str where):
    """The gradient to start from, per root."""
    cdef Tensor root
    cdef list seeds = []
    if given is None or isinstance(given, Tensor) or not isinstance(given, (list, tuple)):
        given = [given] if len(roots) == 1 or given is not None else [None] * len(roots)
    if len(given) != len(roots):
        raise RuntimeError(f"{where}: {len(roots)} tensors but {len(given)} gradients were given")
    for i in range(len(roots)):
        root = <Tensor>roots[i]
        if root.fn is None:
            raise RuntimeError(
                f"{where}: the tensor (shape {root.meta.shape}) does not require grad and was not "
                "computed from one that does: there is no graph to go back through"
            )
        seeds.append(one_seed(root, given[i], where))
    return seeds


cdef Tensor one_seed(Tensor root, object given, str where):
    cdef Tensor seed
    if given is None:
        if root.meta.numel() != 1:
            raise RuntimeError(
                f"{where}: a gradient is implied only for a tensor with one element; this one has "
                f"shape {root.meta.shape}: pass a gradient of that shape"
            )
        return make(root.meta.backend.full(root.meta, 1), root.meta)
    seed = <Tensor>given if isinstance(given, Tensor) else wrap(given)
    if seed is None:
        raise TypeError(f"{where}: a gradient must be a Tensor, got {type(given).__name__}")
    if seed.meta.shape != root.meta.shape:
        raise RuntimeError(
            f"{where}: the gradient has shape {seed.meta.shape}, the tensor has {root.meta.shape}"
        )
    if seed.meta.dtype != root.meta.dtype:
        seed = target_of(CAST)(seed, dtype=root.meta.dtype)
    seed.meta = root.meta  # equal; later comparisons are of pointers
    return seed


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
    cdef Op op
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
    op = <Op>node.op
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
    send(run, op, node)
    return 0


cdef object watched(Run run, Op op, Node node, object pending, object needs):
    """Run a rule while someone looks on."""
    notify_before(node)
    try:
        result = op.gradients(node, pending, needs, run.create)
    except Exception as error:
        notify_failed(node, error)
        raise
    return notify_after(node, result)


cdef bint wants_any(Node node, set wanted):
    cdef Py_ssize_t i
    cdef Node edge
    for i in range(node.n_inputs):
        edge = edge_node(node, i)
        if edge is not None and id(edge) in wanted:
            return True
    return False


cdef int send(Run run, Op op, Node node) except -1:
    """Check what a rule returned, which lies in `run.result`, and deliver it along the edges."""
    cdef object result = run.result
    cdef object grad
    cdef Py_ssize_t i, n = node.n_inputs
    cdef Node edge
    run.result = None
    if result is None or isinstance(result, Tensor):
        if n != 1 and not (n == 0 and result is None):
            raise wrong_count(op, n, 1)
        grad = result
        result = None
    elif isinstance(result, (tuple, list)):
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
        if not isinstance(grad, Tensor):
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


# ---- pending gradients -------------------------------------------------------------------------------------

cdef int deliver(Run run, Node node, int nr, Tensor grad) except -1:
    """A gradient has arrived at output `nr` of a node."""
    cdef list pending
    if node.is_leaf and node.hooks is None and run.captures is None:
        return accumulate(run, <Leaf>node, grad)
    if node.run == run.id:
        if node.metas is None:
            combine_pending(run, node, grad)
        else:
            put(run, <list>node.pending, nr, grad)
        return 0
    if node.metas is not None:
        pending = [None] * len(node.metas)  # before the slot is taken: an allocation may let another thread run
        pending[nr] = grad
    if node.run == 0 and (run.side is None or id(node) not in run.side):
        push(run, node)
        node.run = run.id
        node.pending = grad if node.metas is None else pending
        return 0
    # Another run, nested or on another thread, has the slot, or had it when the first gradient arrived here.
    if run.side is None:
        run.side = {}
    if id(node) not in run.side:
        run.side[id(node)] = [None] * (1 if node.metas is None else len(node.metas))
        push(run, node)
    put(run, <list>run.side[id(node)], nr, grad)
    return 0


cdef object take(Run run, Node node):
    """The pending gradient of a node (a list where it has several outputs); the slot is free again."""
    cdef object pending
    if node.run == run.id:
        pending = node.pending
        node.pending = None
        node.run = 0
        return pending
    pending = run.side.pop(id(node))
    return pending[0] if node.metas is None else pending


cdef bint waits(Run run, Node node):
    """Whether a gradient of this run is waiting at a node."""
    return node.run == run.id or (run.side is not None and id(node) in run.side)


cdef int combine_pending(Run run, Node node, Tensor grad) except -1:
    cdef PyObject *old = <PyObject *>node.pending
    if owned(old, 1) and not by_operators(run, <Tensor>node.pending, grad):
        (<Tensor>node.pending).meta.backend.add_into((<Tensor>node.pending)._array, grad._array)
    else:
        node.pending = total(run, <Tensor>node.pending, grad)
    return 0


cdef int put(Run run, list pending, int nr, Tensor grad) except -1:
    if pending[nr] is None:
        pending[nr] = grad
    else:
        pending[nr] = total(run, <Tensor>pending[nr], grad)
    return 0


cdef Tensor total(Run run, Tensor a, Tensor b):
    if by_operators(run, a, b):
        return target_of(ADD)(a, b)
    return make(a.meta.backend.add(a._array, b._array), a.meta)


cdef bint owned(PyObject *grad, Py_ssize_t references) except -1:
    """Whether the engine's references are the only ones to a gradient and to its buffer."""
    cdef PyObject *array
    if Py_REFCNT(grad) != references:
        return False
    array = <PyObject *>(<Tensor>grad)._array
    return Py_REFCNT(array) == 1 and (<Tensor>grad).meta.backend.sole(<object>array)


cdef Tensor zeros(Meta meta):
    return make(meta.backend.full(meta, 0), meta)


# ---- leaves ------------------------------------------------------------------------------------------------

cdef dict edges_into_hooked_leaves(list roots):
    """How many edges of this run lead to each leaf that has hooks, by the leaf's id."""
    cdef dict counts = {}
    cdef set seen = set()
    cdef list stack = []
    cdef Node node
    cdef Py_ssize_t i
    for root in roots:
        count_edge((<Tensor>root).fn, counts, seen, stack)
    while stack:
        node = <Node>stack.pop()
        for i in range(node.n_inputs):
            count_edge(edge_node(node, i), counts, seen, stack)
    return counts


cdef int count_edge(Node end, dict counts, set seen, list stack) except -1:
    if end is None:
        return 0
    if end.is_leaf:
        if end.hooks is not None:
            counts[id(end)] = counts.get(id(end), 0) + 1
    elif id(end) not in seen:
        seen.add(id(end))
        stack.append(end)
    return 0


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


cdef int accumulate(Run run, Leaf leaf, Tensor grad) except -1:
    cdef object found = leaf.tensor_ref()
    if found is None:
        return 0
    add_to_grad(run, <Tensor>found, grad)
    if leaf.hooks is not None:
        for hook in list(leaf.hooks.post_accumulate.values()):
            hook(found)
    return 0


cdef int add_to_grad(Run run, Tensor tensor, Tensor grad) except -1:
    """tensor.grad += grad, where the first gradient is kept by reference when nobody else has it."""
    cdef object old, new = None
    cdef Py_ssize_t version = 0
    cdef bint aside
    cdef PyThread_type_lock lock = _locks[(<size_t><PyObject *>tensor >> 5) & 15]
    # What is built without the lock, since an operator may run anything, is put in only if nobody was faster.
    while True:
        old = tensor._grad
        if old is None:
            new = first_grad(run, tensor, grad)
            if tensor._grad is None:
                tensor._grad = new
                return 0
            continue
        aside = by_operators(run, <Tensor>old, grad)
        if aside:
            version = (<Tensor>old)._version
            new = target_of(ADD)(old, grad)
        if not PyThread_acquire_lock(lock, NOWAIT_LOCK):
            with nogil:
                PyThread_acquire_lock(lock, WAIT_LOCK)
        try:
            if tensor._grad is not old:
                continue
            if not aside:
                tensor.meta.backend.add_into((<Tensor>old)._array, grad._array)
                bump(<Tensor>old)
                return 0
            if (<Tensor>old)._version == version:
                tensor._grad = new
                return 0
        finally:
            PyThread_release_lock(lock)


cdef Tensor first_grad(Run run, Tensor tensor, Tensor grad):
    cdef Backend backend = tensor.meta.backend
    if by_operators(run, grad, grad):
        return grad if owned(<PyObject *>grad, 1) else target_of(COPY)(grad)
    if (
        owned(<PyObject *>grad, 1)
        and type(grad) is Tensor
        and grad.fn is None
        and backend.same_layout(grad._array, tensor._array)
    ):
        return grad
    return make(backend.copy_like(grad._array, tensor._array), tensor.meta)


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


cdef set reachable(list roots):
    """Ids of the nodes that can be reached from the tensors."""
    cdef set seen = set()
    cdef list stack = [(<Tensor>root).fn for root in roots]
    cdef Node node, edge
    cdef Py_ssize_t i
    while stack:
        node = <Node>stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for i in range(node.n_inputs):
            edge = edge_node(node, i)
            if edge is not None and id(edge) not in seen:
                stack.append(edge)
    return seen


cdef set leading_to(list roots, list targets):
    """Ids of the nodes from which a target can be reached, targets included."""
    cdef set wanted = {id((<Tensor>t).fn) for t in targets}
    cdef set seen = set()
    cdef list stack = [(<Tensor>root).fn for root in roots]
    cdef list order = []
    cdef Node node, edge
    cdef Py_ssize_t i
    while stack:
        node = <Node>stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        order.append(node)
        for i in range(node.n_inputs):
            edge = edge_node(node, i)
            if edge is not None and id(edge) not in seen:
                stack.append(edge)
    order.sort(key=sequence_number)  # edges lead to smaller numbers: producers come first
    for item in order:
        node = <Node>item
        if id(node) in wanted:
            continue
        if wants_any(node, wanted):
            wanted.add(id(node))
    return wanted


def sequence_number(Node node):
    """The key nodes are sorted by."""
    return node.seq


cdef int note_captures(Run run, Node node, object pending) except -1:
    cdef Py_ssize_t i
    if node.metas is None:
        if (id(node), 0) in run.captures:
            run.captures[(id(node), 0)] = captured(run, pending)
        return 0
    for i in range(len(node.metas)):
        if (id(node), i) in run.captures:
            run.captures[(id(node), i)] = captured(run, pending[i])
    return 0


cdef object captured(Run run, object grad):
    """What the caller gets is a buffer of its own."""
    cdef Tensor tensor
    if grad is None:
        return None
    tensor = <Tensor>grad
    if run.create:
        return tensor
    if tensor.tangent is not None:
        return target_of(COPY)(tensor)
    return make(tensor.meta.backend.copy(tensor._array), tensor.meta)


# ---- hooks -------------------------------------------------------------------------------------------------

cdef object run_tensor_hooks(Run run, Node node, object pending):
    cdef Py_ssize_t i
    if node.metas is None:
        return hook_output(run, node, 0, pending)
    for i in range(len(node.metas)):
        if (<list>pending)[i] is not None:
            (<list>pending)[i] = hook_output(run, node, i, (<list>pending)[i])
    return pending


cdef object hook_output(Run run, Node node, int nr, object grad):
    for hook in node.hooks.for_output(nr):
        grad = replaced(node, hook, hook(grad), grad)
    for reference in node.hooks.retained.get(nr, ()):
        found = reference()
        if found is not None:
            add_to_grad(run, <Tensor>found, <Tensor>grad)
    return grad


cdef object replaced(Node node, object hook, object returned, object grad):
    """What a tensor hook returned in place of the gradient."""
    if returned is None:
        return grad
    if not isinstance(returned, Tensor):
        raise TypeError(
            f"a gradient hook on {node.name()} returned {type(returned).__name__}; expected a Tensor or None"
        )
    if not same_meta((<Tensor>returned).meta, (<Tensor>grad).meta):
        raise RuntimeError(
            f"a gradient hook on {node.name()} returned {(<Tensor>returned).meta}; "
            f"expected {(<Tensor>grad).meta}"
        )
    return returned


cdef object run_pre_hooks(Node node, object pending):
    for hook in list(node.hooks.pre.values()):
        grads = pending if isinstance(pending, tuple) else (pending,)
        returned = hook(grads)
        if returned is not None:
            returned = (returned,) if isinstance(returned, Tensor) else tuple(returned)
            if len(returned) != len(grads):
                raise RuntimeError(
                    f"a pre-hook on {node.name()} returned {len(returned)} gradients, expected "
                    f"{len(grads)} (one per output)"
                )
            for new, old in zip(returned, grads):
                if new is not old and old is not None:
                    replaced(node, hook, new, old)
            pending = returned if isinstance(pending, tuple) else returned[0]
    return pending


cdef object run_post_hooks(Node node, object result, object pending):
    cdef tuple grads = pending if isinstance(pending, tuple) else (pending,)
    for hook in list(node.hooks.post.values()):
        inputs = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        returned = hook(inputs, grads)
        if returned is not None:
            result = (returned,) if isinstance(returned, Tensor) else tuple(returned)
    return result


# ---- the heap: largest sequence number first ---------------------------------------------------------------

cdef int push(Run run, Node node) except -1:
    cdef Py_ssize_t i, parent
    cdef PyObject **heap
    if run.size == run.room:
        run.room = 2 * run.room + 16
        heap = <PyObject **>realloc(run.heap, run.room * sizeof(PyObject *))
        if heap == NULL:
            raise MemoryError()
        run.heap = heap
    heap = run.heap
    Py_INCREF(node)
    i = run.size
    run.size += 1
    while i > 0:
        parent = (i - 1) >> 1
        if (<Node>heap[parent]).seq >= node.seq:
            break
        heap[i] = heap[parent]
        i = parent
    heap[i] = <PyObject *>node
    return 0


cdef Node pop(Run run):
    """Take the node with the largest number out; the heap's reference becomes the caller's."""
    cdef PyObject **heap = run.heap
    cdef PyObject *top = heap[0]
    cdef PyObject *last
    cdef Py_ssize_t i = 0, child, n = run.size - 1
    cdef Node node = <Node>top
    Py_DECREF(node)
    run.size = n
    if n == 0:
        return node
    last = heap[n]
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and (<Node>heap[child + 1]).seq > (<Node>heap[child]).seq:
            child += 1
        if (<Node>heap[child]).seq <= (<Node>last).seq:
            break
        heap[i] = heap[child]
        i = child
    heap[i] = last
    return node
