"""Walks over a graph without running it: what can be reached, what leads somewhere, how many edges end in a leaf.

All are iterative, so that a chain of any length needs no C recursion.
"""
from plugrad.graph.node cimport Node, edge_node, track
from plugrad.graph.tensor cimport Tensor


cdef bint wants_any(Node node, set wanted):
    cdef Py_ssize_t i
    cdef Node edge
    for i in range(node.n_inputs):
        edge = edge_node(node, i)
        if edge is not None and id(edge) in wanted:
            return True
    return False


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


def sequence_number(Node node not None):
    """The key nodes are sorted by."""
    return node.seq


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


def reveal(Tensor tensor not None, long long after):
    """Let the collector see the nodes that led to a tensor, down to sequence number `after`.

    For a tensor that a hook refers to: the cycle through the hook's node can only be collected if all of it is seen.
    """
    cdef list stack = [tensor.fn]
    cdef Node node
    cdef Py_ssize_t i
    while stack:
        found = stack.pop()
        if found is None:
            continue
        node = <Node>found
        if node.is_leaf or node.hooked or node.seq <= after:
            continue
        node.hooked = True
        track(node)
        for i in range(node.n_inputs):
            stack.append(edge_node(node, i))
