"""Running the hooks of a node in a backward pass; `hooks.py` holds them."""
from plugrad.graph.backend cimport same_meta
from plugrad.graph.gradients cimport add_to_grad
from plugrad.graph.node cimport Node
from plugrad.graph.run cimport Run
from plugrad.graph.tensor cimport Tensor


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
