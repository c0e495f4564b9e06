"""What happens to the operands of a call before its kernel sees them: wrapping, promotion, broadcasting.

Promotion itself is the backend's (it knows dtypes); a cast is done by the operator that fills the role `cast`.
"""
from cpython.bool cimport PyBool_Check
from cpython.complex cimport PyComplex_Check
from cpython.float cimport PyFloat_Check, PyFloat_CheckExact
from cpython.long cimport PyLong_Check, PyLong_CheckExact

from plugrad.graph.backend cimport (
    ANY_FLOATING, BOOL, COMPLEX, INEXACT, INTEGER, Backend, Meta, backend_of
)
from plugrad.graph.inplace cimport refresh
from plugrad.graph.op cimport Op
from plugrad.graph.roles cimport CAST, target_of
from plugrad.graph.tensor cimport Tensor, make


cdef inline bint is_number(object value):
    return PyFloat_Check(value) or PyLong_Check(value) or PyComplex_Check(value)


cdef bint is_operand(object value):
    """Whether a value may stand next to a Tensor in an expression."""
    return isinstance(value, Tensor) or is_number(value) or backend_of(value) is not None


cdef bint keeps_dtype(Meta meta, object number):
    """Whether a Python number next to this dtype leaves it as it is."""
    if PyFloat_CheckExact(number):
        return meta.kind & INEXACT != 0
    if PyLong_CheckExact(number):
        return meta.kind & (INEXACT | INTEGER) != 0
    return False


cdef Backend gather(Op op, list inputs):
    """Wrap arrays, refuse what is not an operand, and return the one backend of all tensors."""
    cdef Backend backend = None, home, found
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
            if found.is_scalar(value):
                home = home_of(inputs)
                if home is not None and home is not found:
                    array = home.filled((), array.dtype, value)
                    found = home
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


cdef Backend home_of(list inputs):
    """The backend of the first tensor."""
    for value in inputs:
        if isinstance(value, Tensor):
            return (<Tensor>value).meta.backend
    return None


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
    """Bring the tensors that are computed with together to one dtype, through the role `cast`.

    Returns the kinds that they had.
    """
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
        elif (<Tensor>value).meta.dtype is not first and (<Tensor>value).meta.dtype != first:
            mixed = True
        dtypes.append((<Tensor>value).meta.dtype)
        if not allowed & (<Tensor>value).meta.kind:
            # Integers meet a floating elementwise operator: they are promoted. Nothing else is.
            if not (op.elementwise and floating and (<Tensor>value).meta.kind & (BOOL | INTEGER)):
                raise wrong_dtype(op, i, value)
            mixed = True
    if first is None and numbers:
        number_to_tensor(op, inputs, backend, backend.result_dtype(dtypes, numbers, floating))
        return kinds
    if first is None or not (mixed or any_raises(numbers, kinds)):
        return kinds
    target = backend.result_dtype(dtypes, numbers, floating)
    for i in range(len(inputs)):
        value = inputs[i]
        if (
            isinstance(value, Tensor)
            and op.joined[position(op, i)]
            and (<Tensor>value).meta.dtype != target
        ):
            inputs[i] = target_of(CAST)(value, dtype=target)
    return kinds


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
            if not kinds & INEXACT:
                return True
        elif not PyBool_Check(number) and not kinds & (INTEGER | INEXACT):
            return True
    return False


cdef object wrong_dtype(Op op, Py_ssize_t i, Tensor value):
    cdef int allowed = op.allowed[position(op, i)]
    names = [
        name
        for kind, name in ((BOOL, "bool"), (INTEGER, "integer"), (ANY_FLOATING, "floating"), (COMPLEX, "complex"))
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
    if op.real_result and dtype.kind == "c":
        dtype = dtype.type(0).real.dtype
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
