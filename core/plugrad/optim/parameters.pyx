"""What a step asks of its parameters: once for all of them, since a step of small ones is mostly such questions."""

from plugrad.graph.tensor cimport Tensor, bump


def with_gradient(params):
    """The parameters that have a gradient.

    Returns
    -------
    list of list of Tensor
        Those on one device are together.
    """
    cdef list found = []
    cdef Tensor p
    for item in params:
        p = <Tensor?>item
        if p._grad is None:
            continue
        for own in found:
            if (<Tensor>(<list>own)[0]).meta.backend is p.meta.backend:
                (<list>own).append(p)
                break
        else:
            found.append([p])
    return found


def arrays(list tensors):
    """Their arrays."""
    return [(<Tensor?>item)._array for item in tensors]


def gradients(list params):
    """The arrays of their gradients, which they must have."""
    return [(<Tensor?>(<Tensor?>item)._grad)._array for item in params]


def note_changes(list tensors):
    """Give each a new version: its memory was written."""
    for item in tensors:
        bump(<Tensor?>item)
