"""Dispatch: from a call to arrays, through the kernel, to tensors and a recorded node.

(a) Operands of one shape, dtype and device meet an elementwise operator in `apply1` and `apply2`, which go
    straight to the kernel. Everything else goes through `dispatch`, which promotes, broadcasts and
    checks first; kernels and rules never see a mixed dtype.
(b) Promotion is done by the operator that fills the role `cast`, so a cast is an edge like any other and
    gradients return in the dtype of the tensor they belong to.
(c) Nothing is recorded unless an input requires grad on a thread that records; a result of an integer dtype
    never requires grad.
"""
from cpython.bool cimport PyBool_Check
from cpython.complex cimport PyComplex_Check
from cpython.float cimport PyFloat_Check, PyFloat_CheckExact
from cpython.list cimport PyList_GET_ITEM
from cpython.long cimport PyLong_Check, PyLong_CheckExact

from plugrad.graph.backend cimport BOOL, COMPLEX, FLOATING, INTEGER, Backend, Meta, backend_of, same_meta
from plugrad.graph.grad_mode cimport recording
from plugrad.graph.instruments cimport (
    DUAL, OBSERVE, PACK, RESULTS, WATCH, Packed, SavedDual, Tangents, instruments, notify_observers,
    notify_recorded, notify_results, packed, push_forward
)
from plugrad.graph.inplace cimport check_target, rebind, refresh
from plugrad.graph.node cimport Edge, Node, Saved, edge_node, new_node, number_node, track
from plugrad.graph.op cimport READY_STATE, Kernel, Op, ensure_ready
from plugrad.graph.roles cimport CAST, target_of
from plugrad.graph.tensor cimport Tensor, bump, counter_of, make

cdef extern from "Python.h":
    void Py_INCREF(object)


cdef inline bint is_number(object value):
    return PyFloat_Check(value) or PyLong_Check(value) or PyComplex_Check(value)


cdef bint is_operand(object value):
    """Whether a value may stand next to a Tensor in an expression."""
    return isinstance(value, Tensor) or is_number(value) or backend_of(value) is not None


cdef Kernel kernel_for(Op op, Backend backend):
    cdef Py_ssize_t i = backend.index
    if i == 0 and op.first_kernel is not None:
        return op.first_kernel
    if i < len(op.kernels):
        kernel = <object>PyList_GET_ITEM(op.kernels, i)
        if kernel is not None:
            return <Kernel>kernel
    raise RuntimeError(
        f"operator {op.name} has no kernel for device {backend.name!r}; it has one for: "
        f"{', '.join(op._devices) or 'none'}"
    )


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


cdef inline bint keeps_dtype(Meta meta, object number):
    """Whether a Python number next to this dtype leaves it as it is."""
    if PyFloat_CheckExact(number):
        return meta.kind & (FLOATING | COMPLEX) != 0
    if PyLong_CheckExact(number):
        return meta.kind & (FLOATING | COMPLEX | INTEGER) != 0
    return False


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


cdef int record_simple(Op op, Tensor x, Tensor y, object number, Tensor out) except -1:
    """Record a call with one or two operands, one of which may be a number."""
    cdef Node node = new_node(op)
    cdef int code, slot = 0
    cdef Tensor kept
    if out.meta.kind == COMPLEX and not op.conjugates:
        raise no_complex_rule(op)
    node.meta = out.meta
    node.n_inputs = op.n_inputs
    if x is not None and x.needs_grad:
        node.edge0 = x.fn
        node.nr0 = x.output_nr
    if y is not None and y.needs_grad:
        node.edge1 = y.fn
        node.nr1 = y.output_nr
    for code in op.saves:
        kept = out if code < 0 else (x if code == 0 else y)
        if op.conditional and not wanted(op, slot, node):
            save(node, slot, None)
        elif slot == 0:
            if kept is None:
                node.saved0 = number
            else:
                node.saved0 = kept._array
                node.counter0 = counter_of(kept)
                node.version0 = node.counter0.version
        elif slot == 1:
            if kept is None:
                node.saved1 = number
            else:
                node.saved1 = kept._array
                node.counter1 = counter_of(kept)
                node.version1 = node.counter1.version
        else:
            save(node, slot, number if kept is None else kept)
        slot += 1
    if op.uses_like:
        node.input_metas = op.like_type._make(
            [number if t is None else (<Tensor>t).meta for t in ((x, y) if op.n_inputs == 2 else (x,))]
        )
    number_node(node)
    out.fn = node
    out.needs_grad = True
    return 0


cdef bint wanted(Op op, int slot, Node node) except -1:
    """Whether an input on whose gradient this slot depends has an edge."""
    cdef long long mask = 0 if slot >= len(op.saves_when) else op.saves_when[slot]
    cdef Py_ssize_t i
    if mask == 0:
        return True
    for i in range(node.n_inputs):
        if mask >> i & 1 and edge_node(node, i) is not None:
            return True
    return False


cdef int save(Node node, int slot, object value) except -1:
    """Keep one value for backward: a Tensor's array with its version, or a number as it is."""
    if slot < 2 and instruments & PACK and isinstance(value, Tensor):
        value = hooked(<Tensor>value)
    if slot == 0:
        if isinstance(value, Tensor):
            node.saved0 = saved_array(<Tensor>value)
            node.counter0 = counter_of(<Tensor>value)
            node.version0 = node.counter0.version
        else:
            node.saved0 = value
    elif slot == 1:
        if isinstance(value, Tensor):
            node.saved1 = saved_array(<Tensor>value)
            node.counter1 = counter_of(<Tensor>value)
            node.version1 = node.counter1.version
        else:
            node.saved1 = value
    else:
        if node.more_saved is None:
            node.more_saved = []
        node.more_saved.append(saved_entry(value))
    return 0


cdef int save_list(Node node, int slot, list entries) except -1:
    """Keep the tensors of a list input, each with its own version."""
    if slot == 0:
        node.saved0 = entries
    elif slot == 1:
        node.saved1 = entries
    else:
        if node.more_saved is None:
            node.more_saved = []
        node.more_saved.append(entries)
    return 0


cdef inline object saved_array(Tensor tensor):
    """The array of a tensor, together with its tangents while it has some."""
    if tensor.tangent is None or not instruments & DUAL:
        return tensor._array
    return SavedDual(tensor._array, <Tangents>tensor.tangent)


cdef object hooked(Tensor tensor):
    """What the pack hook makes of a value to be saved, or the value."""
    cdef Tensor shown = make(tensor._array, tensor.meta)
    shown.counter = counter_of(tensor)
    shown.tangent = tensor.tangent
    cdef Py_ssize_t before = shown.counter.version
    found = packed(shown)
    if shown.counter.version != before:
        raise RuntimeError("a pack hook of saved tensors changed its argument in-place")
    if found is None:
        return tensor
    (<Packed>found).meta = tensor.meta
    (<Packed>found).tangents = tensor.tangent
    return found


cdef Saved saved_entry(object value):
    cdef Saved entry = Saved.__new__(Saved)
    if instruments & PACK and isinstance(value, Tensor):
        value = hooked(<Tensor>value)
    if isinstance(value, Tensor):
        entry.value = saved_array(<Tensor>value)
        entry.counter = counter_of(<Tensor>value)
        entry.version = entry.counter.version
    else:
        entry.value = value
    return entry


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
    if constants is None:
        constants = op._bind((), {})[1] if not op.inputs else op._bind(tuple(inputs), {})[1]
    prepare(op)
    if instruments & OBSERVE:
        notify_observers(op)
    backend = gather(op, inputs)
    promote(op, inputs, backend)
    if op.elementwise:
        expected = broadcast_meta(op, inputs, backend)
    arrays = [(<Tensor>x)._array if isinstance(x, Tensor) else x for x in inputs]
    if op.mutates:
        return mutate(op, inputs, arrays, constants, backend)
    try:
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
    if backend.sole(out._array):
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


cdef object mutate(Op op, list inputs, list arrays, tuple constants, Backend backend):
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


# ---- recording ---------------------------------------------------------------------------------------------

cdef object no_complex_rule(Op op):
    return RuntimeError(
        f"{op.name}: the rule of this operator is for real numbers only; gradients of complex tensors need an "
        "operator that declares them (dtypes='complex')"
    )


cdef int record(Op op, list inputs, tuple constants, list outs) except -1:
    cdef Node node
    if not any((<Tensor>t).meta.kind & (FLOATING | COMPLEX) for t in outs):
        return 0
    if not op.conjugates and any(
        isinstance(t, Tensor) and (<Tensor>t).meta.kind == COMPLEX for t in inputs
    ):
        raise no_complex_rule(op)
    node = new_node(op)
    connect(op, node, inputs, constants)
    save_values(op, node, inputs, outs)
    complete(op, node, outs)
    if instruments & WATCH:
        notify_recorded(node)
    return 0


cdef int connect(Op op, Node node, list inputs, tuple constants) except -1:
    """Fix the node's edges and keep what its rule asks of the call."""
    cdef Tensor x
    cdef Edge edge
    cdef list more = None
    cdef Py_ssize_t i
    node.n_inputs = <int>len(inputs)
    for i in range(len(inputs)):
        if i >= 2 and more is None:
            more = []
        if not isinstance(inputs[i], Tensor) or not (<Tensor>inputs[i]).needs_grad:
            if i >= 2:
                more.append(None)
            continue
        x = <Tensor>inputs[i]
        if i == 0:
            node.edge0 = x.fn
            node.nr0 = x.output_nr
        elif i == 1:
            node.edge1 = x.fn
            node.nr1 = x.output_nr
        else:
            edge = Edge.__new__(Edge)
            edge.node = x.fn
            edge.nr = x.output_nr
            more.append(edge)
    if more is not None:
        node.more_edges = tuple(more)
    if op.uses_constants:
        node.constants = constants
    if op.uses_like:
        metas = [(<Tensor>each).meta if isinstance(each, Tensor) else each for each in inputs]
        if op.variadic:
            metas = metas[: op.n_inputs - 1] + [tuple(metas[op.n_inputs - 1:])]
        node.input_metas = op.like_type._make(metas)
    return 0


cdef int save_values(Op op, Node node, list inputs, list outs) except -1:
    """Fill the saved slots. `outs` is None before an in-place kernel has run; its slots follow later."""
    cdef int code, slot = 0
    if instruments & PACK:
        track(node)  # what a hook returns may lead back here
    for code in op.saves:
        if op.conditional and not wanted(op, slot, node):
            save(node, slot, None)
        elif code < 0:
            save(node, slot, None if outs is None else outs[-1 - code])
        elif op.variadic and code == op.n_inputs - 1:
            save_list(node, slot, [saved_entry(x) for x in inputs[code:]])
        else:
            save(node, slot, inputs[code])
        slot += 1
    return 0


cdef int complete(Op op, Node node, list outs) except -1:
    """Note the outputs, number the node and make it their producer."""
    cdef Tensor out
    cdef int i
    node.meta = (<Tensor>outs[0]).meta
    if len(outs) > 1:
        node.metas = tuple([(<Tensor>t).meta for t in outs])
    number_node(node)
    for i in range(len(outs)):
        out = <Tensor>outs[i]
        if op.nondifferentiable_outputs is not None and op.nondifferentiable_outputs[i]:
            continue
        if out.meta.kind & (FLOATING | COMPLEX):
            out.fn = node
            out.output_nr = i
            out.needs_grad = True
    return 0


cdef int replace_saved(Node node, int slot, Tensor value) except -1:
    """Fill a slot that was left open, with the version that the write in progress will give."""
    cdef Saved entry
    if slot == 0:
        save(node, 0, value)
        node.version0 += 1
    elif slot == 1:
        save(node, 1, value)
        node.version1 += 1
    else:
        entry = saved_entry(value)
        entry.version += 1
        node.more_saved[slot - 2] = entry
    return 0


# ---- promotion and shapes ----------------------------------------------------------------------------------

cdef Backend gather(Op op, list inputs):
    """Wrap arrays, refuse what is not an operand, and return the one backend of all tensors."""
    cdef Backend backend = None
    cdef Meta meta
    cdef Py_ssize_t i
    for i in range(len(inputs)):
        value = inputs[i]
        if value is None:
            if not is_optional(op, i):
                raise TypeError(f"{op.name}: tensor argument {input_name(op, i)!r} is missing (None)")
            continue
        if not isinstance(value, Tensor):
            if is_number(value):
                if not op.elementwise:
                    raise TypeError(
                        f"{op.name}: {input_name(op, i)!r} must be a Tensor, got the number {value!r}"
                    )
                inputs[i] = plain_number(value)
                continue
            found = backend_of(value)
            if found is None:
                raise TypeError(
                    f"{op.name}: {input_name(op, i)!r} must be a Tensor, an array or a number, "
                    f"got {type(value).__name__}"
                )
            array = found.adopt(value)
            inputs[i] = value = make(array, found.meta(array))
        if (<Tensor>value).base is not None:
            refresh(<Tensor>value)
        meta = (<Tensor>value).meta
        if backend is None:
            backend = meta.backend
        elif meta.backend is not backend:
            raise RuntimeError(
                f"{op.name}: tensors on different devices, {backend.name!r} and {meta.backend.name!r}"
            )
    if backend is None:
        raise TypeError(f"{op.name} needs at least one tensor, got {describe_inputs(inputs)}")
    return backend


cdef object plain_number(object value):
    """The number itself; a NumPy scalar that is also a Python number counts as one."""
    if PyFloat_CheckExact(value) or PyLong_CheckExact(value) or PyBool_Check(value):
        return value
    if PyFloat_Check(value):
        return float(value)
    if PyComplex_Check(value):
        return complex(value)
    return int(value)


cdef int position(Op op, Py_ssize_t i):
    return <int>min(i, op.n_inputs - 1) if op.variadic else <int>i


cdef str input_name(Op op, Py_ssize_t i):
    return op.inputs[position(op, i)]


cdef bint is_optional(Op op, Py_ssize_t i):
    return op.optional[position(op, i)]


cdef int promote(Op op, list inputs, Backend backend) except -1:
    """Bring the tensors that are computed with together to one dtype, through the role `cast`."""
    cdef list dtypes = [], numbers = []
    cdef bint mixed = False, floating = False
    cdef int kinds = 0, allowed, where
    cdef object first = None, target
    cdef Py_ssize_t i
    for i in range(len(inputs)):
        where = position(op, i)
        value = inputs[i]
        if value is None:
            continue
        if not isinstance(value, Tensor):
            if op.joined[where]:
                numbers.append(value)
            continue
        allowed = op.allowed[where]
        if not op.joined[where]:
            if not allowed & (<Tensor>value).meta.kind:
                raise wrong_dtype(op, i, value)
            continue
        kinds |= (<Tensor>value).meta.kind
        if not allowed & INTEGER:
            floating = True
        if first is None:
            first = (<Tensor>value).meta.dtype
        elif (<Tensor>value).meta.dtype != first:
            mixed = True
        dtypes.append((<Tensor>value).meta.dtype)
        if not allowed & (<Tensor>value).meta.kind:
            # Integers meet a floating elementwise operator: they are promoted. Nothing else is.
            if not (op.elementwise and floating and (<Tensor>value).meta.kind & (BOOL | INTEGER)):
                raise wrong_dtype(op, i, value)
            mixed = True
    if first is None and numbers:
        number_to_tensor(op, inputs, backend, backend.result_dtype(dtypes, numbers, floating))
        return 0
    if first is None or not (mixed or any_raises(numbers, kinds)):
        return 0
    target = backend.result_dtype(dtypes, numbers, floating)
    for i in range(len(inputs)):
        value = inputs[i]
        if (
            isinstance(value, Tensor)
            and op.joined[position(op, i)]
            and (<Tensor>value).meta.dtype != target
        ):
            inputs[i] = target_of(CAST)(value, dtype=target)
    return 0


cdef int number_to_tensor(Op op, list inputs, Backend backend, object dtype) except -1:
    """Numbers alone carry no dtype, as in where(mask, 1.0, 2.0): the first becomes a 0-d tensor."""
    cdef Py_ssize_t i
    cdef Meta meta
    for i in range(len(inputs)):
        if inputs[i] is not None and not isinstance(inputs[i], Tensor) and op.joined[position(op, i)]:
            meta = backend.describe((), dtype)
            inputs[i] = make(backend.full(meta, inputs[i]), meta)
            return 0
    return 0


cdef bint any_raises(list numbers, int kinds):
    """Whether a Python number is of a higher kind than every tensor: 2.5 next to integers."""
    for number in numbers:
        if PyComplex_Check(number):
            if not kinds & COMPLEX:
                return True
        elif PyFloat_Check(number):
            if not kinds & (FLOATING | COMPLEX):
                return True
        elif not PyBool_Check(number) and not kinds & (INTEGER | FLOATING | COMPLEX):
            return True
    return False


cdef object wrong_dtype(Op op, Py_ssize_t i, Tensor value):
    cdef int allowed = op.allowed[position(op, i)]
    names = [
        name
        for kind, name in ((BOOL, "bool"), (INTEGER, "integer"), (FLOATING, "floating"), (COMPLEX, "complex"))
        if allowed & kind
    ]
    return TypeError(
        f"{op.name}: {input_name(op, i)!r} must be {' or '.join(names)}, got {value.meta.dtype} "
        f"of shape {value.meta.shape}"
    )


cdef Meta broadcast_meta(Op op, list inputs, Backend backend):
    """Shape and dtype of an elementwise result."""
    cdef Meta meta
    cdef tuple shape = None
    cdef object dtype = op.out_dtype
    for i, value in enumerate(inputs):
        if not isinstance(value, Tensor):
            continue
        meta = (<Tensor>value).meta
        shape = meta.shape if shape is None else broadcast(op, inputs, shape, meta.shape)
        if op.out_dtype is None and (dtype is None or op.joined[position(op, i)]):
            dtype = meta.dtype
    for value in inputs:
        if isinstance(value, Tensor):
            meta = (<Tensor>value).meta
            if meta.shape == shape and meta.dtype == dtype:
                return meta
    return backend.describe(shape, dtype)


cdef tuple broadcast(Op op, list inputs, tuple a, tuple b):
    cdef Py_ssize_t i, m, n
    if a == b:
        return a
    if len(a) < len(b):
        a, b = b, a
    m = len(a) - len(b)
    out = list(a)
    for i in range(len(b)):
        n = b[i]
        if out[m + i] != n:
            if out[m + i] == 1:
                out[m + i] = n
            elif n != 1:
                shapes = " and ".join(
                    str((<Tensor>x).meta.shape) for x in inputs if isinstance(x, Tensor)
                )
                raise RuntimeError(
                    f"{op.name}: shapes {shapes} cannot be broadcast together "
                    f"(lengths {out[m + i]} and {n} in dimension {i - len(b)})"
                )
    return tuple(out)


cdef str describe_inputs(list inputs):
    return ", ".join(
        f"{(<Tensor>x).meta.dtype}{list((<Tensor>x).meta.shape)}" if isinstance(x, Tensor) else repr(x)
        for x in inputs
    ) or "nothing"
