"""Dtypes for storage only: tensors have them, kernels get and give a wider one.

(a) Such a dtype (float16 and bfloat16 on the CPU) has a kind of its own, which no fast path takes; `dispatch` widens
    what a kernel is passed and rounds what it returns, once. No operator and no kernel needs to know.
(b) Views, and operators for any dtype whatever, move elements without looking at them: they get the arrays as they are.
(c) What a result is to be rounded to is what the operator's declaration says of inputs of these dtypes.
"""
from cpython.object cimport PyObject

from plugrad.graph.backend cimport STORAGE, Backend, Meta
from plugrad.graph.node cimport Node, edge_node, edge_nr, output_meta
from plugrad.graph.op cimport GRAD, INPUT, LIKE, OUTPUT, Fused, Kernel, Op
from plugrad.graph.tensor cimport Tensor


cdef bint any_storage(list inputs):
    """Whether one of the inputs is of a dtype for storage only."""
    for value in inputs:
        if isinstance(value, Tensor) and (<Tensor>value).meta.kind == STORAGE:
            return True
    return False


cdef object call_widened(
    Op op, Kernel kernel, list inputs, list arrays, tuple constants, Meta expected, Backend backend
):
    """What the kernel makes of widened arrays, rounded."""
    cdef list wide = [backend.widened(array) for array in arrays]
    result = kernel.call(tuple(wide) + constants, op.constants)
    cdef list dtypes = declared_dtypes(op, inputs, constants) if expected is None else [expected.dtype] * op.n_outputs
    if op.n_outputs == 1:
        # An operator with options may put the limits of the dtype that it sees where there is an infinity.
        return backend.rounded(result, dtypes[0], op.elementwise and len(op.constants) > 0)
    if not isinstance(result, (tuple, list)) or len(result) != op.n_outputs:
        return result  # refused by the caller
    return tuple([backend.rounded(item, dtype) for item, dtype in zip(result, dtypes)])


cdef list declared_dtypes(Op op, list inputs, tuple constants):
    """The dtypes of the outputs; where nothing is declared, that of the inputs for all floating ones."""
    metas = [(<Tensor>x).meta if isinstance(x, Tensor) else x for x in inputs]
    found = op.output_dtypes(metas, constants)
    if found is not None:
        return found
    for meta in metas:
        if isinstance(meta, Meta) and (<Meta>meta).kind == STORAGE:
            return [(<Meta>meta).dtype] * op.n_outputs
    return []  # never: somebody found one


cdef int mutate_widened(Op op, Kernel kernel, list arrays, tuple constants, Backend backend) except -1:
    """Have a kernel write into widened copies, and write those back."""
    cdef list wide = [backend.widened(array) for array in arrays]
    kernel.call(tuple(wide) + constants, op.constants)
    for i in op.mutates:
        if wide[i] is not arrays[i]:
            backend.copy_into(arrays[i], backend.rounded(wide[i], arrays[i].dtype))
    return 0


cdef bint node_has_storage(Node node) except -1:
    """Whether outputs of a node, or its inputs, which have one floating dtype, are of a dtype for storage only."""
    cdef Node edge
    cdef int i
    if node.meta.kind == STORAGE:
        return True
    for i in range(node.n_inputs):
        edge = edge_node(node, i)
        if edge is not None:
            return output_meta(edge, edge_nr(node, i)).kind == STORAGE
    return False


cdef object backward_widened(Fused fused, Node node, PyObject **args, int n):
    """What a backward kernel makes of widened arrays, each gradient rounded as its input needs it."""
    cdef Backend backend = node.meta.backend
    cdef list wide = []
    cdef PyObject *items[32]
    cdef int i, kind
    for i in range(n):
        item = <object>args[i]
        kind = fused.plan.kinds[i]
        if kind == GRAD or kind == INPUT or kind == OUTPUT:
            item = widened_all(backend, item)
        elif kind == LIKE:
            item = widened_metas(backend, item)
        wide.append(item)
        items[i] = <PyObject *>item
    result = fused.kernel.call_all(items, n)
    if not isinstance(result, (tuple, list)):
        return rounded_for(node, 0, result)
    return tuple([rounded_for(node, i, item) for i, item in enumerate(result)])


cdef object widened_all(Backend backend, object value):
    """An array, or a tuple with arrays in it, widened."""
    if type(value) is not tuple:
        return backend.widened(value)
    return tuple([widened_all(backend, item) for item in <tuple>value])


cdef object widened_metas(Backend backend, object value):
    """A Meta, or a tuple with some in it, that says what widened arrays are."""
    if isinstance(value, Meta) and (<Meta>value).kind == STORAGE:
        return backend.describe((<Meta>value).shape, backend.widened_dtype((<Meta>value).dtype))
    if not isinstance(value, tuple):
        return value
    found = [widened_metas(backend, item) for item in value]
    return tuple(found) if type(value) is tuple else type(value)._make(found)


cdef object rounded_for(Node node, Py_ssize_t i, object array):
    """The gradient of input i in the dtype of that input."""
    cdef Node edge = None if array is None or i >= node.n_inputs else edge_node(node, i)
    cdef Meta meta
    if edge is None:
        return array
    meta = output_meta(edge, edge_nr(node, i))
    return meta.backend.rounded(array, meta.dtype) if meta.kind == STORAGE else array
