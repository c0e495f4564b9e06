"""The fast path of elementwise kernels: from operands to a launch that was planned before.

(a) Everything that shapes, strides, dtypes and kinds of numbers decide is a `Plan`, made once in Python and found
    again by a tuple of them. A later call makes the results, converts the numbers and launches.
(b) Plans are forgotten all at once when there are many: they cost microseconds to make, and a program whose
    shapes never repeat must not grow.
(c) An operand that overlaps ``out=`` without being exactly it is read before it is written: the results are
    computed elsewhere first.
"""
from cpython.bool cimport PyBool_Check
from cpython.float cimport PyFloat_CheckExact
from cpython.long cimport PyLong_CheckExact

from plugrad.backends.cpu cimport overlaps_itself
from plugrad.backends.cuda.storage cimport allocated, new_array, pointer_of
from plugrad.backends.philox cimport Stream

import numpy as np

cdef enum:
    MOST_PLANS = 2048


cdef class Plan:
    """What a layout decides about a call.

    Parameters
    ----------
    function : Function or None
        The kernel; None where there is nothing to launch, or where `outer` says how the call is split.
    grid, block : int
    more : tuple
        The arguments after arrays and numbers.
    makes : tuple of (shape, dtype, strides)
        The results to be made.
    ranges : tuple of ((int, int) or None)
        Per number the range that an integer must be in; None: it is passed as a double.
    outer : tuple of int
        Dimensions to be looped over on the host, for layouts with more than a kernel takes.
    """

    cdef readonly object function
    cdef readonly int grid, block
    cdef readonly tuple more, makes, ranges, outer

    def __init__(self, function, int grid, int block, tuple more, makes, ranges, tuple outer=()):
        self.function = function
        self.grid = grid
        self.block = block
        self.more = more
        self.makes = tuple(makes)
        self.ranges = tuple(ranges)
        self.outer = outer


cdef class Caller:
    """What calls a kernel of expressions; a subclass has ``make_plan`` and ``run_in_parts``.

    Attributes
    ----------
    name : str
    inputs, constants : tuple of str
    several : bool
        Whether it has more than one result.
    decides : bool
        Whether all results are bools, so that an integer beyond the range of a dtype can be compared.
    """

    cdef readonly str name
    cdef readonly tuple inputs, constants
    cdef public bint several, decides
    cdef dict plans
    cdef object __weakref__
    cdef dict __dict__

    def __init__(self, str name, tuple inputs, tuple constants):
        self.name = name
        self.inputs = inputs
        self.constants = constants
        self.plans = {}

    def __call__(self, *operands, out=None, shape=None, dtype=None, **constants):
        """Compute.

        Parameters
        ----------
        *operands : GPUArray or number
            One per input, in order; they broadcast.
        out : GPUArray or tuple of GPUArray, optional
            Where the results go; operands may be among them.
        shape : tuple of int, optional
            Of the results, where the operands do not tell.
        dtype : dtype, optional
            Of the results, in place of the declared one.
        **constants : number or Stream
            All constants of the kernel.

        Returns
        -------
        GPUArray or tuple of GPUArray

        Raises
        ------
        TypeError
            Operands or constants are missing, too many, or of a type or dtype that kernels do not take.
        ValueError
            Shapes do not broadcast, or `out` does not fit.
        OverflowError
            An integer does not fit the dtype that is computed in.
        """
        cdef tuple numbers = self.bound(constants) if constants or self.constants else ()
        cdef Plan plan
        if len(operands) != len(self.inputs):
            raise TypeError(
                f"{self.name} takes {len(self.inputs)} operands ({', '.join(self.inputs)}), got {len(operands)}"
            )
        try:
            key = key_of(operands, numbers, out, shape, dtype)
        except AttributeError:
            operands = tuple([plain(self, x, name) for x, name in zip(operands, self.inputs)])
            numbers = tuple([plain(self, x, name) for x, name in zip(numbers, self.constants)])
            key = key_of(operands, numbers, out, shape, dtype)
        plan = self.plans.get(key)
        if plan is None:
            plan = self.make_plan(operands, numbers, out, shape, dtype)
            if len(self.plans) >= MOST_PLANS:
                self.plans.clear()
            self.plans[key] = plan
        try:
            return run(self, plan, operands, numbers, out)
        except OverflowError:
            compared = without_bounds(plan, operands) if self.decides else None
            if compared is None:
                raise
        return self(*compared, out=out, shape=shape, dtype=dtype, **constants)

    cdef tuple bound(self, dict given):
        cdef list values = []
        for name in self.constants:
            if name not in given:
                raise TypeError(f"{self.name}: the constant {name!r} is missing")
            values.append(given[name])
        if len(given) != len(values):
            extra = [name for name in given if name not in self.constants]
            raise TypeError(
                f"{self.name} has no constant {extra[0]!r}; it has {', '.join(self.constants) or 'none'}"
            )
        return tuple(values)


cdef tuple key_of(tuple operands, tuple numbers, object out, object shape, object dtype):
    """What the plan of a call depends on; AttributeError: there is something that is no array."""
    cdef list key = []
    for x in operands:
        add_key(key, x)
    for x in numbers:
        add_number(key, x)
    if out is not None:
        key.append("out")
        if isinstance(out, (tuple, list)):
            for x in out:
                add_key(key, x)
        else:
            add_key(key, out)
    if shape is not None:
        key.append(tuple(shape))
    if dtype is not None:
        key.append(np.dtype(dtype))
    return tuple(key)


cdef int add_key(list key, object x) except -1:
    if PyFloat_CheckExact(x) or PyLong_CheckExact(x) or PyBool_Check(x):
        return add_number(key, x)
    key.append(x.dtype.num)
    key.append(x.shape)
    key.append(x.strides)
    x.gpudata
    return 0


cdef int add_number(list key, object x) except -1:
    if PyFloat_CheckExact(x):
        key.append("f")
    elif PyBool_Check(x):
        key.append("b")
    elif PyLong_CheckExact(x):
        key.append("i")
    elif type(x) is Stream:
        key.append("s")
    else:
        raise AttributeError
    return 0


cdef object plain(Caller kernel, object x, str name):
    """An operand as an array of a device or a Python number."""
    if hasattr(x, "gpudata") or type(x) in (float, int, bool, Stream):
        return x
    if isinstance(x, (np.bool_, bool)):
        return bool(x)
    if isinstance(x, (np.integer, int)):
        return int(x)
    if isinstance(x, (np.floating, float)):
        return float(x)
    raise TypeError(
        f"{kernel.name}: {name!r} must be an array on the device or a number, got {type(x).__name__}"
    )


# ---- running a plan ----------------------------------------------------------------------------------------

cdef object run(Caller kernel, Plan plan, tuple operands, tuple numbers, object out):
    cdef list arguments = [], results
    cdef Py_ssize_t k = 0
    for x in operands:
        if not (PyFloat_CheckExact(x) or PyLong_CheckExact(x) or PyBool_Check(x)):
            arguments.append(x)
    if out is None:
        results = [made(make) for make in plan.makes]
    else:
        results = list(out) if isinstance(out, (tuple, list)) else [out]
        if len(results) > 1:
            check_apart(kernel, results)
        if in_the_way(arguments, results):
            return kernel.run_aside(operands, numbers, results, out)
    if plan.outer:
        kernel.run_in_parts(operands, numbers, results, plan.outer)
    elif plan.function is not None:
        arguments += results
        for x in operands:
            if PyFloat_CheckExact(x) or PyLong_CheckExact(x) or PyBool_Check(x):
                arguments.append(converted(kernel, plan, x, k))
                k += 1
        for x in numbers:
            arguments.append(converted(kernel, plan, x, k))
            k += 1
        arguments += plan.more
        plan.function(plan.grid, plan.block, *arguments)
    return tuple(results) if kernel.several else results[0]


cdef tuple without_bounds(Plan plan, tuple operands):
    """Integers that the dtype has no room for as infinities, which compare alike; None where there are none."""
    cdef list found = []
    cdef Py_ssize_t k = 0
    cdef bint changed = False
    for x in operands:
        if PyFloat_CheckExact(x) or PyLong_CheckExact(x) or PyBool_Check(x):
            limits = plan.ranges[k]
            k += 1
            if limits is not None and not limits[0] <= x <= limits[1]:
                x = float("inf") if x > 0 else float("-inf")
                changed = True
        found.append(x)
    return tuple(found) if changed else None


cdef object converted(Caller kernel, Plan plan, object x, Py_ssize_t k):
    """A number as it is passed: a float is a double, an int a 64-bit integer; a stream is its two."""
    limits = plan.ranges[k]
    if limits is None:
        return x.packed if type(x) is Stream else float(x)
    if not limits[0] <= x <= limits[1]:
        raise OverflowError(
            f"{kernel.name}: the number {x} is outside of {limits[0]} to {limits[1]}, the range of the dtype that is "
            "computed in"
        )
    return int(x) if x < 2**63 else int(x) - 2**64


cdef object made(tuple make):
    shape, dtype, strides = make
    array = allocated(shape, dtype)
    if array.strides == strides or not array.size:
        return array
    return new_array(shape, dtype, strides, array.size, array.gpudata, array.base)


cdef int check_apart(Caller kernel, list results) except -1:
    """Refuse results that have elements in common: which of them would be kept is left to chance."""
    cdef Py_ssize_t i, k
    for i in range(1, len(results)):
        low, high = reach(results[i], pointer_of(results[i]))
        for k in range(i):
            other_low, other_high = reach(results[k], pointer_of(results[k]))
            if low < other_high and other_low < high and np.shares_memory(shadow(results[i]), shadow(results[k])):
                raise ValueError(f"{kernel.name}: the arrays {k} and {i} of out= share memory")
    return 0


cdef object shadow(object array):
    """An array of NumPy with these addresses, to ask where they meet; never to be read."""
    source = Shadow()
    source.__array_interface__ = {
        "version": 3, "shape": tuple(array.shape), "strides": tuple(array.strides), "data": (pointer_of(array), True),
        "typestr": f"|V{array.dtype.itemsize}",
    }
    return np.asarray(source)


class Shadow:
    """What has ``__array_interface__``."""


def overlaps(array):
    """Whether two elements of an array share memory."""
    return overlaps_itself(array)


cdef bint in_the_way(list arrays, list results) except -1:
    """Whether writing a result could change an element that is still to be read."""
    cdef unsigned long long a, b
    for out in results:
        b = pointer_of(out)
        for x in arrays:
            if x is out:
                continue
            a = pointer_of(x)
            if a == b and x.strides == out.strides and x.shape == out.shape and x.dtype == out.dtype:
                continue
            low_a, high_a = reach(x, a)
            low_b, high_b = reach(out, b)
            if low_a < high_b and low_b < high_a:
                return True
    return False


cdef tuple reach(object array, unsigned long long start):
    """The addresses from the first to behind the last byte of an array."""
    cdef object low = start, high = start
    for n, stride in zip(array.shape, array.strides):
        if n == 0:
            return start, start
        if stride < 0:
            low += stride * (n - 1)
        else:
            high += stride * (n - 1)
    return low, high + array.dtype.itemsize
