"""Gradients on their way: waiting at a node, added up, arriving at a leaf.

(a) Pending gradients belong to a run: a slot on the node, tagged with the run's number, or the run's side
    table when another run (nested in a hook, or on another thread) has the slot.
(b) A buffer is added to in place only when the engine alone owns it: Tensor and array have one reference
    each, the array owns its memory. Nothing handed in or kept by a rule is ever written.
(c) Whatever is recorded, or has tangents, is added by operators, out of place.
(d) Between backward kernels a gradient needs no Tensor: it may wait at a node as a raw array, and be added to a
    leaf's gradient as one. `deliver_array` says where that holds; whoever needs a Tensor makes it.
"""
import os

from cpython.object cimport PyObject
from cpython.pythread cimport (
    NOWAIT_LOCK,
    WAIT_LOCK,
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_release_lock,
    PyThread_type_lock,
)

from plugrad.graph.backend cimport Backend, Meta
from plugrad.graph.node cimport Leaf, Node
from plugrad.graph.roles cimport ADD, COPY, target_of
from plugrad.graph.run cimport Run, push
from plugrad.graph.tensor cimport Tensor, bump, make

cdef extern from *:
    """
    /* What a weak reference refers to, or None; calling it costs twice as much. */
    static PyObject *plugrad_referent(PyObject *reference)
    {
        PyObject *found;
    #if PY_VERSION_HEX >= 0x030D0000
        if (PyWeakref_GetRef(reference, &found) < 0) return NULL;
        if (found != NULL) return found;
        found = Py_None;
    #else
        found = PyWeakref_GetObject(reference);
        if (found == NULL) return NULL;
    #endif
        Py_INCREF(found);
        return found;
    }
    """
    object plugrad_referent(object reference)

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject *)

# Leaves share a few locks: one each would cost memory for what is contended only in multi-threaded programs.
cdef PyThread_type_lock _locks[16]


def _make_locks():
    for i in range(16):
        _locks[i] = PyThread_allocate_lock()


_make_locks()
if hasattr(os, "register_at_fork"):
    # A thread that held one of them does not exist in a child process.
    os.register_at_fork(after_in_child=_make_locks)


# ---- waiting at a node ------------------------------------------------------------------------------------

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


cdef bint deliver_array(Run run, Node node, object array) except -1:
    """Deliver what a backward kernel returned as it is; False where a Tensor must be made of it."""
    cdef Meta meta = node.meta
    if node.metas is not None or run.side is not None or not meta.backend.fits(array, meta):
        return False
    if node.is_leaf:
        return node.hooks is None and run.captures is None and add_array(<Leaf>node, array)
    if node.run != 0:
        return False
    push(run, node)
    node.run = run.id
    node.pending = array
    return True


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
    cdef PyObject *old
    if not isinstance(node.pending, Tensor):
        node.pending = make(node.pending, node.meta)
    old = <PyObject *>node.pending
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


cdef bint by_operators(Run run, Tensor a, Tensor b) noexcept:
    """Whether gradients are added, summed and cast by operators: when they are recorded or have tangents."""
    return run.create or a.tangent is not None or b.tangent is not None


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

cdef int accumulate(Run run, Leaf leaf, Tensor grad) except -1:
    cdef object found = plugrad_referent(leaf.tensor_ref)
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
        # A gradient that the user put there may repeat elements: it cannot be added to in place.
        aside = aside or tensor.meta.backend.overlaps((<Tensor>old)._array)
        if aside:
            version = (<Tensor>old)._version
            new = total(run, <Tensor>old, grad)
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


cdef bint add_array(Leaf leaf, object array) except -1:
    """tensor.grad += array in the simplest case, which is most of all: False, and nothing done, in others."""
    cdef object found = plugrad_referent(leaf.tensor_ref)
    cdef object old
    cdef Backend backend
    cdef PyThread_type_lock lock
    if found is None:
        return True
    old = (<Tensor>found)._grad
    if old is None:
        return False
    backend = (<Tensor>found).meta.backend
    if (<Tensor>old).tangent is not None or backend.overlaps((<Tensor>old)._array):
        return False
    lock = _locks[(<size_t><PyObject *>found >> 5) & 15]
    if not PyThread_acquire_lock(lock, NOWAIT_LOCK):
        return False
    try:
        if (<Tensor>found)._grad is not old:
            return False
        backend.add_into((<Tensor>old)._array, array)
        bump(<Tensor>old)
    finally:
        PyThread_release_lock(lock)
    return True


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


# ---- captured instead of accumulated -----------------------------------------------------------------------

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
