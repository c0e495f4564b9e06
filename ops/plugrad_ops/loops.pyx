# cython: boundscheck=False, wraparound=False
"""Kernels that run a plain C loop where that is fastest, and NumPy everywhere else.

(a) A loop serves float32 and float64 arrays that are C-contiguous and aligned, of one shape, or with a Python
    number in place of either operand, or with one operand that repeats along the leading axes (a bias row). Such a
    call costs some 40 ns where a ufunc costs 400: no type resolution, no iterator, no floating-point error state.
    Everything else (other dtypes, strides, general broadcasting) goes to the NumPy function that the kernel was
    made with.
(b) A number takes the dtype of the array, as NumPy 2 does with Python numbers.
(c) `limit`: above that many elements NumPy is called after all. It is set for functions of the C library such as
    log, where NumPy's vectorised version wins on long arrays; there the two may differ in the last bit.
(d) From LARGE elements on the GIL is released around a loop.
"""

cimport numpy as cnp
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_AsDouble, PyLong_CheckExact
from libc.stdint cimport INTPTR_MAX

from plugrad.backends.recycling cimport fresh
from plugrad.graph.op cimport Kernel
from plugrad.backends import CPU

cnp.import_array()


cdef enum:
    LARGE = 10_000


cdef inline int real_kind(cnp.ndarray array) noexcept:
    """0 for a float32 and 1 for a float64 array that a loop may read; -1 for any other."""
    cdef int number
    if not cnp.PyArray_ISCARRAY_RO(array):
        return -1
    number = cnp.PyArray_TYPE(array)
    return 0 if number == cnp.NPY_FLOAT else 1 if number == cnp.NPY_DOUBLE else -1


cdef inline bint as_number(object value, double *number) except -1:
    """Whether `value` is a Python number; its value goes to `number`."""
    if PyFloat_CheckExact(value):
        number[0] = PyFloat_AS_DOUBLE(value)
        return True
    if PyLong_CheckExact(value):
        number[0] = PyLong_AsDouble(value)
        return True
    return False


cdef inline bint is_tail(cnp.ndarray whole, cnp.ndarray part) noexcept:
    """Whether `part` has the shape of the last axes of `whole`, so that it repeats along the others."""
    cdef int skipped = cnp.PyArray_NDIM(whole) - cnp.PyArray_NDIM(part)
    cdef int i
    if skipped < 0 or cnp.PyArray_SIZE(part) < 16:  # short rows: one call of the loop each is no gain
        return False
    for i in range(cnp.PyArray_NDIM(part) - 1, -1, -1):
        if cnp.PyArray_DIM(part, i) != cnp.PyArray_DIM(whole, skipped + i):
            break
    else:
        return True
    for i in range(i, -1, -1):
        if cnp.PyArray_DIM(part, i) != 1:
            return False
    return True


cdef inline cnp.ndarray empty_like(cnp.ndarray array, int number):
    return fresh(cnp.PyArray_NDIM(array), cnp.PyArray_DIMS(array), number)


cdef class Unary(Kernel):
    """A function of one array."""

    cdef object call1(self, object a):
        cdef cnp.ndarray x, out
        cdef Py_ssize_t n
        cdef int kind
        if cnp.PyArray_CheckExact(a):
            x = <cnp.ndarray>a
            kind = real_kind(x)
            n = cnp.PyArray_SIZE(x)
            if kind >= 0 and n <= self.limit:
                out = empty_like(x, cnp.PyArray_TYPE(x))
                if n < LARGE:
                    self.loops.of[kind](cnp.PyArray_DATA(x), cnp.PyArray_DATA(out), n)
                else:
                    with nogil:
                        self.loops.of[kind](cnp.PyArray_DATA(x), cnp.PyArray_DATA(out), n)
                return out
        return self.otherwise.call1(a)

    cdef object call(self, tuple args, tuple kwnames):
        return self.call1(args[0])


cdef class Binary(Kernel):
    """A function of two arrays, either of which may be a Python number."""

    cdef object call2(self, object a, object b):
        cdef cnp.ndarray x, y
        cdef int kind
        cdef double number
        if cnp.PyArray_CheckExact(a):
            x = <cnp.ndarray>a
            kind = real_kind(x)
            if kind >= 0:
                if cnp.PyArray_CheckExact(b):
                    y = <cnp.ndarray>b
                    if cnp.PyArray_TYPE(x) == cnp.PyArray_TYPE(y) and cnp.PyArray_ISCARRAY_RO(y):
                        if cnp.PyArray_SAMESHAPE(x, y):
                            return self.arrays(x, y, kind)
                        if is_tail(x, y):
                            return self.rows(x, x, y, kind)
                        if is_tail(y, x):
                            return self.rows(y, x, y, kind)
                elif as_number(b, &number):
                    return self.with_number(x, number, kind, self.loops.right_number[kind], False)
        elif cnp.PyArray_CheckExact(b):
            y = <cnp.ndarray>b
            kind = real_kind(y)
            if kind >= 0 and as_number(a, &number):
                return self.with_number(y, number, kind, self.loops.left_number[kind], True)
        return self.otherwise.call2(a, b)

    cdef object call(self, tuple args, tuple kwnames):
        return self.call2(args[0], args[1])

    cdef inline cnp.ndarray arrays(self, cnp.ndarray x, cnp.ndarray y, int kind):
        cdef cnp.ndarray out = self.new(x)
        cdef Py_ssize_t n = cnp.PyArray_SIZE(x)
        if n < LARGE:
            self.loops.arrays[kind](cnp.PyArray_DATA(x), cnp.PyArray_DATA(y), cnp.PyArray_DATA(out), n)
        else:
            with nogil:
                self.loops.arrays[kind](cnp.PyArray_DATA(x), cnp.PyArray_DATA(y), cnp.PyArray_DATA(out), n)
        return out

    cdef cnp.ndarray with_number(self, cnp.ndarray x, double number, int kind, pg_binary loop, bint left):
        cdef cnp.ndarray out = self.new(x)
        cdef Py_ssize_t n = cnp.PyArray_SIZE(x)
        cdef float narrow = <float>number
        cdef void *scalar = <void *>&narrow if kind == 0 else <void *>&number
        cdef void *p = scalar if left else cnp.PyArray_DATA(x)
        cdef void *q = cnp.PyArray_DATA(x) if left else scalar
        if n < LARGE:
            loop(p, q, cnp.PyArray_DATA(out), n)
        else:
            with nogil:
                loop(p, q, cnp.PyArray_DATA(out), n)
        return out

    cdef cnp.ndarray rows(self, cnp.ndarray whole, cnp.ndarray x, cnp.ndarray y, int kind):
        """One operand repeats along the leading axes of the other, `whole`."""
        cdef cnp.ndarray out = self.new(whole)
        cdef Py_ssize_t n = cnp.PyArray_SIZE(whole), row
        cdef Py_ssize_t step_x, step_y, step_out, i
        cdef const char *p = <const char *>cnp.PyArray_DATA(x)
        cdef const char *q = <const char *>cnp.PyArray_DATA(y)
        cdef char *r = <char *>cnp.PyArray_DATA(out)
        row = cnp.PyArray_SIZE(y) if whole is x else cnp.PyArray_SIZE(x)
        step_x = row * cnp.PyArray_ITEMSIZE(x) if whole is x else 0
        step_y = row * cnp.PyArray_ITEMSIZE(y) if whole is y else 0
        step_out = row * cnp.PyArray_ITEMSIZE(out)
        with nogil:
            for i in range(n // row):
                self.loops.arrays[kind](p + i * step_x, q + i * step_y, r + i * step_out, row)
        return out

    cdef inline cnp.ndarray new(self, cnp.ndarray like):
        return empty_like(like, cnp.PyArray_TYPE(like) if self.out_type < 0 else self.out_type)


cdef Kernel numpy_kernel(object function):
    """The kernel that the CPU backend makes of a NumPy function; it never warns."""
    return CPU.kernel(function)


cdef Unary unary(object function, const pg_unary_loops *loops, Py_ssize_t limit=INTPTR_MAX):
    """A kernel for `function`, with loops for its float32 and float64 cases up to `limit` elements."""
    cdef Unary kernel = Unary(function)
    kernel.otherwise = numpy_kernel(function)
    kernel.loops = loops
    kernel.limit = limit
    return kernel


cdef Binary binary(object function, const pg_binary_loops *loops, int out_type=-1):
    """A kernel for `function`, with loops for its float32 and float64 cases; `out_type` -1: the operands' own."""
    cdef Binary kernel = Binary(function)
    kernel.otherwise = numpy_kernel(function)
    kernel.loops = loops
    kernel.out_type = out_type
    return kernel
