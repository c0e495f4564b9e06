"""Dispatch: from a call to arrays, through the kernel, to tensors and a recorded node.

(a) Operands of one shape, dtype and device meet an elementwise operator in `apply1` and `apply2`, which go
    straight to the kernel. Everything else goes through `dispatch`, which promotes, broadcasts and
    checks first; kernels and rules never see a mixed dtype.
(b) Promotion is done by the operator that fills the role `cast`, so a cast is an edge like any other and
    gradients return in the dtype of the tensor they belong to.
(c) Nothing is recorded unless an input requires grad on a thread that records; a result of an integer dtype
    never requires grad.
(d) Operands of a dtype for storage only are widened for the kernel (see `storage.pyx`).
"""
from cpython.list cimport PyList_GET_ITEM

from plugrad.graph.backend cimport STORAGE, Backend, Meta, same_meta
from plugrad.graph.grad_mode cimport recording
from plugrad.graph.inplace cimport check_target, rebind, refresh
from plugrad.graph.instruments cimport (
    DUAL, OBSERVE, RESULTS, WATCH, Tangents, instruments, notify_observers, notify_recorded,
    notify_results, push_forward
)
from plugrad.graph.node cimport Node, new_node, number_node
from plugrad.graph.op cimport READY_STATE, Kernel, Op, ensure_ready
from plugrad.graph.promotion cimport broadcast_meta, describe_inputs, gather, keeps_dtype, promote
from plugrad.graph.recording cimport connect, record, record_simple, replace_saved, save_values
from plugrad.graph.storage cimport any_storage, call_widened, mutate_widened
from plugrad.graph.tensor cimport Tensor, bump, counter_of, make


cdef Kernel kernel_for(Op op, Backend backend):
    cdef Py_ssize_t i = backend.index
    if i == 0 and op.first_kernel is not None:
        return op.first_kernel
    if i < len(op.kernels):
        kernel = <object>PyList_GET_ITEM(op.kernels, i)
        if kernel is not None:
            return <Kernel>kernel
    return found_kernel(op, backend)


cdef Kernel found_kernel(Op op, Backend backend):
    """The kernel that the operator's owner brings for a device on which it was not called yet."""
    kernel = op.find_kernel(backend.name)
    if kernel is None:
        raise RuntimeError(
            f"operator {op.name} has no kernel for device {backend.name!r}; it has one for: "
            f"{', '.join(op._devices) or 'none'}"
        )
    return <Kernel>kernel


cdef inline int prepare(Op op) except -1:
    if op.state != READY_STATE:
        ensure_ready(op)
    return 0


cdef object apply1(Op op, object a):
    cdef Tensor x, out
    cdef object array
    if op.simple and not instruments and isinstance(a, Tensor):
        x = <Tensor>a
        if x.base is not None:
            refresh(x)
        if op.kinds_allowed & x.meta.kind:
            prepare(op)
            array = kernel_for(op, x.meta.backend).call1(x._array)
            out = result_like(op, array, x.meta)
            if x.needs_grad and op.differentiable and recording():
                record_simple(op, x, None, None, out)
            return out
    return dispatch(op, [a], op.default_constants)


cdef object apply2(Op op, object a, object b):
    cdef Tensor x, y, out
    cdef object array
    cdef Meta meta
    if op.simple and not instruments:
        if isinstance(a, Tensor):
            x = <Tensor>a
            meta = x.meta
            if x.base is not None:
                refresh(x)
            if isinstance(b, Tensor):
                y = <Tensor>b
                if y.base is not None:
                    refresh(y)
                if op.kinds_allowed & meta.kind and (meta is y.meta or same_meta(meta, y.meta)):
                    prepare(op)
                    array = kernel_for(op, meta.backend).call2(x._array, y._array)
                    out = result_like(op, array, meta)
                    if (x.needs_grad or y.needs_grad) and op.differentiable and recording():
                        record_simple(op, x, y, None, out)
                    return out
            elif op.kinds_allowed & meta.kind and keeps_dtype(meta, b):
                prepare(op)
                array = kernel_for(op, meta.backend).call2(x._array, b)
                out = result_like(op, array, meta)
                if x.needs_grad and op.differentiable and recording():
                    record_simple(op, x, None, b, out)
                return out
        elif isinstance(b, Tensor):
            y = <Tensor>b
            meta = y.meta
            if y.base is not None:
                refresh(y)
            if op.kinds_allowed & meta.kind and keeps_dtype(meta, a):
                prepare(op)
                array = kernel_for(op, meta.backend).call2(a, y._array)
                out = result_like(op, array, meta)
                if y.needs_grad and op.differentiable and recording():
                    record_simple(op, None, y, a, out)
                return out
    return dispatch(op, [a, b], op.default_constants)


cdef inline Tensor result_like(Op op, object array, Meta meta):
    """The result of an elementwise kernel, which must have this shape and dtype."""
    if not meta.backend.fits(array, meta):
        array = meta.backend.adopt(array)
        if not meta.backend.fits(array, meta):
            raise wrong_result(op, meta.backend.meta(array), meta)
    return make(array, meta)


cdef object wrong_result(Op op, Meta got, Meta expected):
    return RuntimeError(
        f"the kernel of {op.name} returned shape {got.shape}, dtype {got.dtype}; "
        f"expected shape {expected.shape}, dtype {expected.dtype}"
    )


# ---- the general path --------------------------------------------------------------------------------------

cdef object dispatch(Op op, list inputs, tuple constants):
    """Call an operator: `inputs` are Tensors, arrays, numbers or None, flat; `constants` in order.

    Raises
    ------
    TypeError
        An input is of a type, dtype or number that the operator does not take.
    RuntimeError
        Shapes do not broadcast, devices differ, or the device has no kernel.
    """
    cdef Backend backend
    cdef Meta expected = None
    cdef list arrays
    cdef bint wide
    if constants is None:
        constants = op._bind((), {})[1] if not op.inputs else op._bind(tuple(inputs), {})[1]
    prepare(op)
    if instruments & OBSERVE:
        notify_observers(op)
    backend = gather(op, inputs)
    wide = promote(op, inputs, backend) & STORAGE and op.widens and any_storage(inputs)
    if op.elementwise:
        expected = broadcast_meta(op, inputs, backend)
    arrays = [(<Tensor>x)._array if isinstance(x, Tensor) else x for x in inputs]
    if op.mutates:
        return mutate(op, inputs, arrays, constants, backend, wide)
    try:
        if wide:
            result = call_widened(op, kernel_for(op, backend), inputs, arrays, constants, expected, backend)
        else:
            result = kernel_for(op, backend).call(tuple(arrays) + constants, op.constants)
    except Exception as error:
        error.add_note(f"in operator {op.name} on {describe_inputs(inputs)}")
        raise
    return finish(op, inputs, constants, result, expected, backend)


cdef object finish(
    Op op, list inputs, tuple constants, object result, Meta expected, Backend backend
):
    """Turn what the kernel returned into tensors, and record the call."""
    cdef list outs = []
    if op.n_outputs == 1:
        result = (result,)
    elif not isinstance(result, (tuple, list)) or len(result) != op.n_outputs:
        raise RuntimeError(
            f"the kernel of {op.name} must return {op.n_outputs} arrays, got {type(result).__name__}"
        )
    for array in result:
        array = backend.adopt(array)
        if expected is None:
            outs.append(make(array, backend.meta(array)))
        elif backend.fits(array, expected):
            outs.append(make(array, expected))
        else:
            raise wrong_result(op, backend.meta(array), expected)
    if op.view_of >= 0:
        for item in outs:
            mark_view(op, <Tensor>item, inputs, constants, backend)
    cdef bint dual = instruments & DUAL and any_tangent(inputs)
    if dual:
        for item in outs:
            (<Tensor>item).tangent = Tangents()  # filled below; what is saved before shares it
    if op.differentiable and recording() and any_needs_grad(inputs):
        record(op, inputs, constants, outs)
    if dual:
        push_forward(op, inputs, constants, outs)
    if instruments & RESULTS:
        notify_results(op, inputs, constants, outs)
    return outs[0] if op.n_outputs == 1 else tuple(outs)


cdef bint any_needs_grad(list inputs):
    for x in inputs:
        if isinstance(x, Tensor) and (<Tensor>x).needs_grad:
            return True
    return False


cdef bint any_tangent(list inputs):
    for x in inputs:
        if isinstance(x, Tensor) and (<Tensor>x).tangent is not None:
            return True
    return False


cdef int mark_view(Op op, Tensor out, list inputs, tuple constants, Backend backend) except -1:
    """Tie a view to its base: shared version counter, and how to take it again."""
    cdef Tensor source = <Tensor>inputs[op.view_of]
    if out._array is source._array:
        out._array = backend.view(out._array)
    elif backend.sole(out._array) or not backend.shares(out._array, source._array):
        return 0  # this layout needed a copy: no memory is shared
    out.inference = source.inference
    if source.inference:
        return 0
    out.counter = counter_of(source)
    out.base = source if source.base is None else source.base
    out.fn_version = out.counter.version
    out.outside = source.outside or not recording()
    if op.n_outputs == 1 and len(inputs) == 1 and (source.base is None or source.chain is not None):
        out.chain = (() if source.base is None else source.chain) + ((op, constants),)
    return 0


cdef object mutate(Op op, list inputs, list arrays, tuple constants, Backend backend, bint wide):
    """Call an operator that writes into its inputs; it returns the tensors it wrote."""
    cdef list targets = [inputs[i] for i in op.mutates]
    cdef bint records = op.differentiable and recording() and any_needs_grad(inputs)
    cdef Node node = None
    cdef Py_ssize_t i
    for item in targets:
        check_target(op.name, <Tensor>item, records)
    if records:
        # Inputs are saved with the version they have now; outputs with the one after the change.
        node = new_node(op)
        connect(op, node, inputs, constants)
        save_values(op, node, inputs, None)
    try:
        if wide:
            mutate_widened(op, kernel_for(op, backend), arrays, constants, backend)
        else:
            kernel_for(op, backend).call(tuple(arrays) + constants, op.constants)
    except BaseException as error:
        for item in targets:
            bump(<Tensor>item)  # it may have been written in part: what was saved of it cannot be trusted
        error.add_note(f"in operator {op.name} on {describe_inputs(inputs)}")
        raise
    if records:
        finish_mutation(op, node, targets)
        if instruments & WATCH:
            notify_recorded(node)
    for i in range(len(targets)):
        rebind(<Tensor>targets[i], node, <int>i)
    if instruments & DUAL and any_tangent(inputs):
        push_forward(op, inputs, constants, targets)
    return targets[0] if len(targets) == 1 else tuple(targets)


cdef int finish_mutation(Op op, Node node, list targets) except -1:
    """Note the outputs, save those that the rule names, with the version they are about to get."""
    cdef int code, slot = 0
    node.meta = (<Tensor>targets[0]).meta
    if len(targets) > 1:
        node.metas = tuple([(<Tensor>t).meta for t in targets])
    for code in op.saves:
        if code < 0:
            replace_saved(node, slot, <Tensor>targets[-1 - code])
        slot += 1
    number_node(node)
    return 0
