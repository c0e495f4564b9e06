"""Run: the state of one backward pass, with the heap of nodes that wait in it.

The heap holds strong references and is ordered by sequence number, largest first.
"""
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdlib cimport free, realloc

from plugrad.graph.grad_mode cimport inferring
from plugrad.graph.node cimport Node
from plugrad.graph.walks cimport reachable

cdef long long _runs = 0


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


cdef Run new_run(object retain_graph, bint create_graph):
    global _runs
    if create_graph and inferring():
        raise RuntimeError("create_graph=True in inference_mode, where nothing is recorded")
    cdef Run run = Run.__new__(Run)
    _runs += 1
    run.id = _runs
    run.create = create_graph
    run.keep = create_graph if retain_graph is None else bool(retain_graph)
    return run


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
