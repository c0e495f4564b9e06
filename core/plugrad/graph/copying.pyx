"""Copies of tensors: copy.copy, copy.deepcopy and pickling.

(a) Only leaves are copied. What an operator produced has a place in a graph that a copy could not have; silently
    losing it would lose gradients.
(b) A deep copy keeps what tensors shared: one array seen by several tensors becomes one new array, with one version
    counter. Arrays that are views of each other become separate.
(c) Hooks are not copied.
"""
from plugrad.graph.backend cimport Backend
from plugrad.graph.node cimport Counter
from plugrad.graph.tensor cimport Tensor, counter_of


cdef int check_leaf(Tensor tensor, str what) except -1:
    if not tensor.is_leaf:
        raise RuntimeError(
            f"{what}: only leaf tensors can be copied with their place in the graph; this one (shape "
            f"{tensor.meta.shape}) was produced by {tensor.fn.name()}: use detach() or clone()"
        )
    return 0


cdef Tensor built(object kind, object array, bint requires_grad, object attributes):
    """A tensor of class `kind` on an array; the initializer of a subclass is not run."""
    cdef Tensor out = <Tensor>kind.__new__(kind)
    Tensor.__init__(out, array)
    if requires_grad:
        out.requires_grad = True
    if attributes:
        out.__dict__.update(attributes)
    return out


def shallow(Tensor tensor not None):
    """Another tensor on the same memory, with the same gradient."""
    check_leaf(tensor, "copy()")
    cdef Tensor out = built(
        type(tensor), tensor._array, tensor.needs_grad, getattr(tensor, "__dict__", None)
    )
    if not tensor.inference:
        out.counter = counter_of(tensor)
    out._grad = tensor._grad
    return out


def deep(Tensor tensor not None, dict memo):
    """A tensor on memory of its own, with a copy of the gradient."""
    cdef Backend backend = tensor.meta.backend
    cdef Tensor out
    from copy import deepcopy

    check_leaf(tensor, "deepcopy()")
    array = memo.get(id(tensor._array))
    if array is None:
        array = backend.copy_like(tensor._array, tensor._array)
        memo[id(tensor._array)] = array
    out = built(type(tensor), array, tensor.needs_grad, None)
    memo[id(tensor)] = out
    if tensor.counter is not None and not out.inference:
        counter = memo.get(id(tensor.counter))
        if counter is None:
            counter = memo[id(tensor.counter)] = Counter.__new__(Counter)
        out.counter = counter
    if tensor._grad is not None:
        out._grad = deepcopy(tensor._grad, memo)
    attributes = getattr(tensor, "__dict__", None)
    if attributes:
        out.__dict__.update(deepcopy(attributes, memo))
    return out


def reduced(Tensor tensor not None):
    """What pickle stores: values, requires_grad, the gradient, and a subclass's attributes."""
    check_leaf(tensor, "pickle")
    return rebuilt, (
        type(tensor),
        tensor.meta.backend.to_numpy(tensor._array),
        tensor.meta.backend.name,
        tensor.needs_grad,
        tensor._grad,
        getattr(tensor, "__dict__", None),
    )


def rebuilt(kind, array, str device, bint requires_grad, grad, attributes):
    """A tensor from what `reduced` gave."""
    cdef Tensor moved, out = built(kind, array, False, attributes)
    if device != out.meta.backend.name:
        moved = <Tensor>Tensor(array).to(device)
        out._array = moved._array
        out.meta = moved.meta
    if requires_grad:
        out.requires_grad = True
    out._grad = grad
    return out
