"""Nodes: one per recorded operator call, and one leaf per tensor whose gradient is kept.

(a) A node holds the operator, edges to the producers of its inputs, what the rule saved, and the shape and
    dtype of its outputs. Two edges and two saved values lie in the object itself; more go into a tuple or list.
    A saved input's producer is the edge with its index, so it is not stored twice; a saved output's
    producer is the node itself and is not stored at all: no node refers to itself.
(b) Sequence numbers come from one counter and are taken once the edges are fixed: an edge always leads to a
    smaller number, which is what makes a heap a topological order. Leaves have number 0.
    The version of an array that only its producer knows of needs no Counter: saved are UNSHARED and version 0, and a
    Counter that is made later (for a view, a write) is found at the producer.
(c) Nodes carry the collector's header but are not tracked until Python state or a hook attaches; tracking
    doubles the cost of a graph of a million nodes.
(d) Deallocation is iterative: whatever a dying node alone keeps alive goes on a per-thread stack that the
    outermost one drains, so a chain of any length needs no C recursion.
"""
cimport cython
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from plugrad.graph.backend cimport Backend
from libc.stdlib cimport realloc

cdef extern from *:
    """
    #if defined(_MSC_VER)
    #define PLUGRAD_THREAD_LOCAL __declspec(thread)
    #else
    #define PLUGRAD_THREAD_LOCAL __thread
    #endif
    static PLUGRAD_THREAD_LOCAL PyObject **plugrad_dying = NULL;
    static PLUGRAD_THREAD_LOCAL Py_ssize_t plugrad_dying_size = 0;
    static PLUGRAD_THREAD_LOCAL Py_ssize_t plugrad_dying_room = 0;
    static PLUGRAD_THREAD_LOCAL int plugrad_draining = 0;
    static long long plugrad_sequence = 0;
    static Py_ssize_t plugrad_live_nodes = 0;
    """
    PyObject **plugrad_dying
    Py_ssize_t plugrad_dying_size
    Py_ssize_t plugrad_dying_room
    bint plugrad_draining
    long long plugrad_sequence
    Py_ssize_t plugrad_live_nodes

cdef extern from "dealloc.h":
    void plugrad_before_each_dealloc(PyTypeObject *type, void (*function)(PyObject *) noexcept)

cdef extern from "Python.h":
    void PyObject_GC_Track(object)
    void PyObject_GC_UnTrack(object)
    bint PyObject_GC_IsTracked(object)
    Py_ssize_t Py_REFCNT(PyObject *)
    void Py_DECREF(PyObject *)


@cython.freelist(256)
@cython.no_gc
@cython.final
cdef class Counter:
    """The version of a piece of memory, shared by every tensor that sees it."""


cdef Counter UNSHARED = Counter.__new__(Counter)


@cython.no_gc
@cython.final
cdef class Edge:
    """Where the gradient of an input goes: a node and which of its outputs."""


@cython.final
cdef class Saved:
    """A value kept for backward, with the version that its memory had then."""


@cython.freelist(1024)
cdef class Node:
    """One recorded call of an operator.

    Attributes
    ----------
    op : Op
        The operator.
    sequence_nr : int
        Larger for nodes recorded later; 0 for leaves.
    next_functions : tuple of (Node or None, int)
        For each input the node that produced it and which output it was.
    saved : tuple
        The raw arrays (or numbers) held for backward at this moment; empty once they were freed.
    """

    def __cinit__(self):
        global plugrad_live_nodes
        plugrad_live_nodes += 1

    def name(self):
        """The operator's name."""
        return self.op.name

    @property
    def op(self):
        return self.op

    @property
    def sequence_nr(self):
        return self.seq

    @property
    def metadata(self):
        """Shape, dtype and device of each output."""
        return self.metas if self.metas is not None else (self.meta,)

    @property
    def next_functions(self):
        cdef Py_ssize_t i
        return tuple((edge_node(self, i), edge_nr(self, i)) for i in range(self.n_inputs))

    @property
    def saved(self):
        if self.freed:
            return ()
        from plugrad.graph.instruments import SavedDual

        found = []
        for entry in [self.saved0, self.saved1, *(self.more_saved or ())]:
            for item in entry if isinstance(entry, list) else (entry,):
                if isinstance(item, Saved):
                    item = (<Saved>item).value
                if isinstance(item, SavedDual):
                    item = item.array
                if item is not None:
                    found.append(item)
        return tuple(found)

    def register_prehook(self, hook):
        """Call ``hook(grads)`` before the node's rule runs, with the gradients of its outputs as a tuple.

        What it returns, unless None, takes their place. Returns a handle with ``remove()``.
        """
        from plugrad.graph.hooks import attach

        return attach(self).add_pre(hook)

    def register_hook(self, hook):
        """Call ``hook(grad_inputs, grad_outputs)`` after the node's rule has run.

        What it returns, unless None, takes the place of the gradients of the inputs. Returns a handle with
        ``remove()``.
        """
        from plugrad.graph.hooks import attach

        return attach(self).add_post(hook)

    def __repr__(self):
        return f"<{self.name()}>"


cdef class Leaf(Node):
    """The end of the graph at a tensor that keeps its gradient.

    Attributes
    ----------
    variable : Tensor or None
        The tensor; None when it is gone.
    """

    def __dealloc__(self):
        _bury(<PyObject *>self)  # Cython calls the dealloc of Node itself, not what was put in front of it

    def name(self):
        return "AccumulateGrad"

    @property
    def variable(self):
        return self.tensor_ref()


cdef Node new_node(object op):
    cdef Node node = Node.__new__(Node)
    PyObject_GC_UnTrack(node)
    node.op = op
    return node


cdef void number_node(Node node) noexcept:
    """Give the node its sequence number; its edges are fixed from now on."""
    global plugrad_sequence
    plugrad_sequence += 1
    node.seq = plugrad_sequence


cdef Leaf new_leaf(object tensor_ref, Meta meta):
    cdef Leaf leaf = Leaf.__new__(Leaf)
    leaf.is_leaf = True
    leaf.tensor_ref = tensor_ref
    leaf.meta = meta
    return leaf


cdef Node edge_node(Node node, Py_ssize_t i):
    """The producer of input i, or None."""
    if i == 0:
        return node.edge0
    if i == 1:
        return node.edge1
    cdef object edge = node.more_edges[i - 2]
    return None if edge is None else (<Edge>edge).node


cdef int edge_nr(Node node, Py_ssize_t i) noexcept:
    if i == 0:
        return node.nr0
    if i == 1:
        return node.nr1
    cdef object edge = node.more_edges[i - 2]
    return 0 if edge is None else (<Edge>edge).nr


cdef Meta output_meta(Node node, int nr):
    if node.metas is None:
        return node.meta
    return <Meta>node.metas[nr]


cdef Counter saved_counter(Node node, int code, Counter counter):
    """The Counter of a saved value, or None if its memory has none yet, and so was never written since."""
    if counter is not UNSHARED:
        return counter
    return (node if code < 0 else edge_node(node, code)).counter


cdef int release(Node node) except -1:
    """Drop what the node saved; a later backward through it is an error."""
    node.freed = True
    recycle_saved(node)
    node.saved0 = None
    node.saved1 = None
    node.counter0 = None
    node.counter1 = None
    node.more_saved = None
    return 0


cdef void recycle_saved(Node node) noexcept:
    """Give back the arrays that the node alone still holds."""
    cdef Backend backend
    if node.meta is None:
        return
    backend = node.meta.backend
    if node.counter0 is not None:
        backend.recycle(<PyObject *>node.saved0)
    if node.counter1 is not None:
        backend.recycle(<PyObject *>node.saved1)


cdef object already_freed(Node node):
    return RuntimeError(
        f"backward went through {node.name()} a second time, but the values it saved were already "
        "freed by the first; pass retain_graph=True to the first backward to keep them"
    )


cdef int track(Node node) except -1:
    """Let the garbage collector see the node: Python state or a hook may close a cycle through it."""
    if not PyObject_GC_IsTracked(node):
        PyObject_GC_Track(node)
    return 0


def live_nodes():
    """How many nodes exist in this process."""
    return plugrad_live_nodes


# ---- deallocation ------------------------------------------------------------------------------------------

cdef void push_dying(object thing) noexcept:
    """Move one reference to `thing` onto the stack of the dying; the caller forgets its own."""
    global plugrad_dying, plugrad_dying_size, plugrad_dying_room
    cdef Py_ssize_t room
    cdef PyObject **larger
    if plugrad_dying_size == plugrad_dying_room:
        room = 64 if plugrad_dying_room == 0 else 2 * plugrad_dying_room
        larger = <PyObject **>realloc(plugrad_dying, room * sizeof(PyObject *))
        if larger == NULL:
            return  # no memory for the stack: the ordinary, recursive way is all that is left
        plugrad_dying = larger
        plugrad_dying_room = room
    Py_INCREF(thing)
    plugrad_dying[plugrad_dying_size] = <PyObject *>thing
    plugrad_dying_size += 1


cdef void _bury(PyObject *dead) noexcept:
    """Put everything through which a chain may go on onto the stack, whoever else holds it now.

    What others hold too may still come to hang on this node alone before it is gone. The node's reference count
    is 0: it is only borrowed here.
    """
    global plugrad_live_nodes
    plugrad_live_nodes -= 1
    _take_apart(<Node>dead)


cdef void _take_apart(Node node) noexcept:
    cdef Edge edge
    if node.edge0 is not None and not node.edge0.is_leaf:
        push_dying(node.edge0)
        node.edge0 = None
    if node.edge1 is not None and not node.edge1.is_leaf:
        push_dying(node.edge1)
        node.edge1 = None
    if node.more_edges is not None:
        for item in node.more_edges:
            if item is not None:
                edge = <Edge>item
                if edge.node is not None:
                    push_dying(edge.node)
                    edge.node = None
    recycle_saved(node)
    # Mostly plain arrays; but what hooks or tangents put in their place may hold tensors.
    if node.saved0 is not None:
        push_dying(node.saved0)
        node.saved0 = None
    if node.saved1 is not None:
        push_dying(node.saved1)
        node.saved1 = None
    if node.more_saved is not None:
        push_dying(node.more_saved)
        node.more_saved = None
    if node.state is not None:
        push_dying(node.state)
        node.state = None
    if node.pending is not None:
        push_dying(node.pending)
        node.pending = None
    drain_dying()


cdef void drain_dying() noexcept:
    """Let the dying go, one after the other; whatever they hold alone joins the stack."""
    global plugrad_dying_size, plugrad_draining
    if plugrad_draining:
        return
    plugrad_draining = True
    while plugrad_dying_size > 0:
        plugrad_dying_size -= 1
        Py_DECREF(plugrad_dying[plugrad_dying_size])
    plugrad_draining = False


# As for Tensor: what Cython puts around a __dealloc__ costs more than the work in it.
plugrad_before_each_dealloc(<PyTypeObject *>Node, _bury)
