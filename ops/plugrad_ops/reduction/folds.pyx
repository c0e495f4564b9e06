# cython: boundscheck=False, wraparound=False
"""Reductions of float32 and float64 arrays in C, and their gradients; see plugrad.backends.reducing.

(a) What no loop serves goes to the NumPy function that a kernel was made with: other dtypes, 0-d and empty arrays,
    arguments that are wrong. So do results at the ends of the range, which take more care: norms whose squares overflow
    or vanish, products that are 0 or infinite.
(b) Variances: of some thousand elements at a time the mean and then, in the cache, the squares of what is left; these
    are joined as by Chan, Golub and LeVeque (Am. Stat. 37 (1983), 242-247). A large mean costs no digits.
"""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.math cimport INFINITY, NAN, sqrt

from plugrad.backends.memory cimport is_dense
from plugrad.backends.recycling cimport fresh, fresh_like
from plugrad.backends.reducing cimport Finish, Loops, Slopes, Walk, mark, plan, reduce, reduce_and_spread, results
from plugrad.backends.sums cimport sum_loops, sum_of, summable_real, sums
from plugrad.graph.op cimport Kernel
from plugrad_ops.reduction.fold_loops cimport (
    isnormal, pg_any_others, pg_centered, pg_largest, pg_moments, pg_others, pg_plus_of, pg_product, pg_ratio,
    pg_shifted_sums, pg_smallest, pg_squares, pg_tied, pg_ties
)

from plugrad.backends import CPU

cnp.import_array()

cdef enum:
    NOGIL_FROM = 16384

cdef enum Kind:
    LARGEST, SMALLEST, PRODUCT, VARIANCE, DEVIATION, LENGTH


# ---- results -------------------------------------------------------------------------------------------------

cdef struct Target:
    Kind kind
    void *out
    bint wide
    double degrees  # of freedom
    double least    # norm whose squares have lost no digits
    bint odd        # whether a result is at an end of the range


cdef void finish(
    void *context, const double *states, Py_ssize_t apart, Py_ssize_t first, Py_ssize_t step, Py_ssize_t n
) noexcept nogil:
    cdef Target *the = <Target *>context
    cdef Py_ssize_t i
    cdef double value
    for i in range(n):
        value = states[i]
        if the.kind == PRODUCT:
            the.odd = the.odd or (the.wide and not isnormal(value))
        elif the.kind == LENGTH:
            value = sqrt(pg_plus_of(states + i, apart))
            the.odd = the.odd or value < the.least or value == INFINITY
        elif the.kind == VARIANCE:
            value = states[i + 3 * apart] / the.degrees
        elif the.kind == DEVIATION:
            value = sqrt(states[i + 3 * apart] / the.degrees)
        if the.wide:
            (<double *>the.out)[first + i * step] = value
        else:
            (<float *>the.out)[first + i * step] = <float>value


cdef cnp.ndarray fold(cnp.ndarray x, Kind kind, const bint *summed, bint keep, double correction):
    """The results; None where one is at an end of the range."""
    cdef Walk walk
    cdef Target target
    cdef cnp.ndarray out
    cdef const Loops *loops
    cdef const char *data = cnp.PyArray_BYTES(x)
    cdef bint done
    plan(&walk, x, summed)
    out = results(x, summed, keep, cnp.PyArray_TYPE(x))
    target.kind, target.out, target.wide, target.odd = kind, cnp.PyArray_DATA(out), walk.size == 8, False
    target.least = sqrt(<double>walk.count) * (1e-145 if target.wide else 1e-15)
    target.degrees = walk.count - correction if walk.count > correction else NAN
    if kind == LARGEST:
        loops = pg_largest
    elif kind == SMALLEST:
        loops = pg_smallest
    elif kind == PRODUCT:
        loops = pg_product
    elif kind == LENGTH:
        loops = pg_squares
    else:
        loops = pg_moments
    loops += target.wide
    if cnp.PyArray_SIZE(x) < NOGIL_FROM:
        done = reduce(&walk, loops, data, NULL, finish, &target)
    else:
        with nogil:
            done = reduce(&walk, loops, data, NULL, finish, &target)
    if not done:
        raise MemoryError
    return None if target.odd else out


cdef bint corrected(object correction, object unbiased, double *value):
    """The correction of a variance, unless it takes a closer look."""
    if unbiased is True or unbiased is False:
        value[0] = unbiased
    elif unbiased is not None:
        return False
    elif correction is None:
        value[0] = 1.0
    elif type(correction) is int or type(correction) is float:
        value[0] = correction
    else:
        return False
    return True


cdef class Reduction(Kernel):
    """A kernel with a function for what no loop serves."""

    cdef Kernel otherwise

    def __init__(self, function):
        Kernel.__init__(self, function)
        self.otherwise = CPU.kernel(function)


cdef class Sum(Reduction):
    """``(input, dim, keepdim, dtype)``."""

    cdef object call(self, tuple args, tuple kwnames):
        return self.found(args, kwnames, False)

    cdef object found(self, tuple args, tuple kwnames, bint mean):
        cdef bint[64] summed
        cdef object x = args[0], dtype = args[3]
        if (
            summable_real(x) and (dtype is None or dtype is <object>cnp.PyArray_DESCR(<cnp.ndarray>x))
            and mark(args[1], cnp.PyArray_NDIM(<cnp.ndarray>x), summed)
        ):
            return sums(<cnp.ndarray>x, summed, args[2], mean)
        return self.otherwise.call(args, kwnames)


cdef class Mean(Sum):
    """``(input, dim, keepdim, dtype)``."""

    cdef object call(self, tuple args, tuple kwnames):
        return self.found(args, kwnames, True)


cdef class Extreme(Reduction):
    """``(input, dim, keepdim)``: the greatest or the smallest elements."""

    cdef Kind kind

    def __init__(self, function, bint greatest):
        Reduction.__init__(self, function)
        self.kind = LARGEST if greatest else SMALLEST

    cdef object call(self, tuple args, tuple kwnames):
        cdef bint[64] summed
        if summable_real(args[0]) and mark(args[1], cnp.PyArray_NDIM(<cnp.ndarray>args[0]), summed):
            return fold(<cnp.ndarray>args[0], self.kind, summed, args[2], 0.0)
        return self.otherwise.call(args, kwnames)


cdef class Product(Reduction):
    """``(input, dim, keepdim, dtype)``."""

    cdef object call(self, tuple args, tuple kwnames):
        cdef bint[64] summed
        cdef object x = args[0], dtype = args[3], out
        if (
            summable_real(x) and (dtype is None or dtype is <object>cnp.PyArray_DESCR(<cnp.ndarray>x))
            and mark(args[1], cnp.PyArray_NDIM(<cnp.ndarray>x), summed)
        ):
            out = fold(<cnp.ndarray>x, PRODUCT, summed, args[2], 0.0)
            if out is not None:
                return out
        return self.otherwise.call(args, kwnames)


cdef class Variance(Reduction):
    """``(input, dim, unbiased, keepdim, correction)``; the root of it with `root`."""

    cdef Kind kind

    def __init__(self, function, bint root):
        Reduction.__init__(self, function)
        self.kind = DEVIATION if root else VARIANCE

    cdef object call(self, tuple args, tuple kwnames):
        cdef bint[64] summed
        cdef double correction
        cdef object dim = args[1], unbiased = args[2]
        if type(dim) is bool:  # ``var(unbiased)``
            dim, unbiased = None, dim
        if (
            summable_real(args[0]) and corrected(args[4], unbiased, &correction)
            and mark(dim, cnp.PyArray_NDIM(<cnp.ndarray>args[0]), summed)
        ):
            return fold(<cnp.ndarray>args[0], self.kind, summed, args[3], correction)
        return self.otherwise.call(args, kwnames)


cdef inline bint is_two(object p):
    return p is None or (type(p) is float and <double>p == 2.0) or (type(p) is int and p == 2) or p == "fro"


cdef class Norm(Reduction):
    """``(input, p, dim, keepdim)``; loops serve p = 2."""

    cdef object call(self, tuple args, tuple kwnames):
        cdef bint[64] summed
        if summable_real(args[0]) and is_two(args[1]) and mark(args[2], cnp.PyArray_NDIM(<cnp.ndarray>args[0]), summed):
            out = fold(<cnp.ndarray>args[0], LENGTH, summed, args[3], 0.0)
            if out is not None:
                return out
        return self.otherwise.call(args, kwnames)


# ---- gradients -----------------------------------------------------------------------------------------------

cdef cnp.ndarray doubles(object array):
    """The numbers of an array in C order, as doubles."""
    cdef cnp.ndarray x = <cnp.ndarray>array, out
    cdef const float *narrow = <const float *>cnp.PyArray_DATA(x)
    cdef double *wide
    cdef Py_ssize_t i
    if cnp.PyArray_TYPE(x) == cnp.NPY_DOUBLE and cnp.PyArray_ISCARRAY_RO(x):
        return x
    out = fresh(cnp.PyArray_NDIM(x), cnp.PyArray_DIMS(x), cnp.NPY_DOUBLE)
    if cnp.PyArray_TYPE(x) == cnp.NPY_FLOAT and cnp.PyArray_ISCARRAY_RO(x):
        wide = <double *>cnp.PyArray_DATA(out)
        for i in range(cnp.PyArray_SIZE(x)):
            wide[i] = narrow[i]
    else:
        cnp.PyArray_CopyInto(out, x)
    return out


cdef inline double *room(cnp.ndarray like):
    return <double *>cnp.PyArray_DATA(like)


# What is known of each result and made of it: a and b are what slopes are functions of.
cdef struct Known:
    const double *grad
    const double *out
    double *a
    double *b
    double count
    bint unfit  # whether a product is too close to the ends of the range


cdef void share(
    void *context, const double *states, Py_ssize_t apart, Py_ssize_t first, Py_ssize_t step, Py_ssize_t n
) noexcept nogil:
    """The gradient for each of those that tie."""
    cdef Known *known = <Known *>context
    cdef Py_ssize_t i, at
    for i in range(n):
        at = first + i * step
        known.b[at] = known.grad[at] / states[i]


cdef void average(
    void *context, const double *states, Py_ssize_t apart, Py_ssize_t first, Py_ssize_t step, Py_ssize_t n
) noexcept nogil:
    cdef Known *known = <Known *>context
    cdef Py_ssize_t i
    for i in range(n):
        known.a[first + i * step] = sum_of(states + i, apart) / known.count


cdef void divide(
    void *context, const double *states, Py_ssize_t apart, Py_ssize_t first, Py_ssize_t step, Py_ssize_t n
) noexcept nogil:
    """Products that will be divided by each factor."""
    cdef Known *known = <Known *>context
    cdef Py_ssize_t i
    for i in range(n):
        known.a[first + i * step] = states[i]
        if not (1e-290 < abs(states[i]) < 1e290):
            known.unfit = True


cdef cnp.ndarray spread(
    cnp.ndarray x, const bint *summed, const Loops *loops, const double *given, Finish end, Known *known,
    const Slopes *slopes
):
    """slopes(x, a, b), where `end` puts a and b, or they are known."""
    cdef Walk walk
    cdef cnp.ndarray out
    cdef const char *data
    cdef char *place
    cdef int wide = cnp.PyArray_TYPE(x) == cnp.NPY_DOUBLE
    cdef bint done
    if not is_dense(x):
        x = cnp.PyArray_NewCopy(x, cnp.NPY_CORDER)
    out = fresh_like(x, cnp.PyArray_TYPE(x))
    plan(&walk, x, summed)
    known.count = walk.count
    data, place = cnp.PyArray_BYTES(x), cnp.PyArray_BYTES(out)
    if cnp.PyArray_SIZE(x) < NOGIL_FROM:
        done = reduce_and_spread(&walk, loops, data, given, end, known, slopes + wide, known.a, known.b, place)
    else:
        with nogil:
            done = reduce_and_spread(&walk, loops, data, given, end, known, slopes + wide, known.a, known.b, place)
    if not done:
        raise MemoryError
    return out


cdef bint alike(object grad, object x):
    """Whether both are float32 or float64 arrays of one dtype, and `x` is one that a loop takes."""
    return (
        summable_real(x) and cnp.PyArray_CheckExact(grad)
        and cnp.PyArray_TYPE(<cnp.ndarray>grad) == cnp.PyArray_TYPE(<cnp.ndarray>x)
    )


cdef class ExtremeSlopes(Reduction):
    """``(grad, input, out, dim, keepdim)``: equal shares for those that tie."""

    cdef object call_all(self, PyObject **args, Py_ssize_t n):
        cdef bint[64] summed
        cdef cnp.ndarray x, grad, top, shares
        cdef Known known
        if not alike(<object>args[0], <object>args[1]) or not mark(
            <object>args[3], cnp.PyArray_NDIM(<cnp.ndarray>args[1]), summed
        ):
            return self.otherwise.call_all(args, n)
        grad, top = doubles(<object>args[0]), doubles(<object>args[2])
        shares = fresh(cnp.PyArray_NDIM(grad), cnp.PyArray_DIMS(grad), cnp.NPY_DOUBLE)
        known.grad, known.out, known.a, known.b = room(grad), room(top), room(top), room(shares)
        x = <cnp.ndarray>args[1]
        return spread(
            x, summed, &pg_ties[cnp.PyArray_TYPE(x) == cnp.NPY_DOUBLE], known.out, share, &known, pg_tied
        )


cdef class VarianceSlopes(Reduction):
    """``(grad, input, dim, unbiased, keepdim, correction)``."""

    cdef object call_all(self, PyObject **args, Py_ssize_t n):
        cdef double correction
        cdef object dim = <object>args[2], unbiased = <object>args[3]
        if type(dim) is bool:
            dim, unbiased = None, dim
        if not corrected(<object>args[5], unbiased, &correction):
            return self.otherwise.call_all(args, n)
        out = deviations(<object>args[0], <object>args[1], None, dim, correction)
        return self.otherwise.call_all(args, n) if out is None else out


cdef class DeviationSlopes(Reduction):
    """``(grad, input, out, dim, unbiased, keepdim, correction)``."""

    cdef object call_all(self, PyObject **args, Py_ssize_t n):
        cdef double correction
        cdef object dim = <object>args[3], unbiased = <object>args[4]
        if type(dim) is bool:
            dim, unbiased = None, dim
        if not corrected(<object>args[6], unbiased, &correction):
            return self.otherwise.call_all(args, n)
        out = deviations(<object>args[0], <object>args[1], <object>args[2], dim, correction)
        return self.otherwise.call_all(args, n) if out is None else out


cdef object deviations(object grad, object input, object out, object dim, double correction):
    """The gradient of variances, or of their roots `out`: deviations from the mean times what is the same for all."""
    cdef bint[64] summed
    cdef cnp.ndarray x, g, middle, factor, roots = None
    cdef Known known
    cdef const Loops *adding
    cdef Py_ssize_t i, many, count = 1
    cdef int d
    cdef double degrees
    if not alike(grad, input) or not mark(dim, cnp.PyArray_NDIM(<cnp.ndarray>input), summed):
        return None
    x, g = <cnp.ndarray>input, doubles(grad)
    for d in range(cnp.PyArray_NDIM(x)):
        if summed[d]:
            count *= cnp.PyArray_DIM(x, d)
    degrees = count - correction if count > correction else NAN
    middle = fresh(cnp.PyArray_NDIM(g), cnp.PyArray_DIMS(g), cnp.NPY_DOUBLE)
    factor = fresh(cnp.PyArray_NDIM(g), cnp.PyArray_DIMS(g), cnp.NPY_DOUBLE)
    known.grad, known.a, known.b = room(g), room(middle), room(factor)
    many = cnp.PyArray_SIZE(g)
    if out is None:
        for i in range(many):
            known.b[i] = known.grad[i] * (2.0 / degrees)
    else:
        roots = doubles(out)
        known.out = room(roots)
        for i in range(many):
            known.b[i] = (0.0 if known.out[i] == 0 else known.grad[i] / known.out[i]) / degrees
    adding = sum_loops(True) if cnp.PyArray_TYPE(x) == cnp.NPY_DOUBLE else pg_shifted_sums
    return spread(x, summed, adding, NULL, average, &known, pg_centered)


cdef class NormSlopes(Reduction):
    """``(grad, input, out, p, dim, keepdim)``; loops serve p = 2."""

    cdef object call_all(self, PyObject **args, Py_ssize_t n):
        cdef bint[64] summed
        cdef cnp.ndarray grad, out, length, factor
        cdef Known known
        cdef Py_ssize_t i
        if not alike(<object>args[0], <object>args[1]) or not is_two(<object>args[3]) or not mark(
            <object>args[4], cnp.PyArray_NDIM(<cnp.ndarray>args[1]), summed
        ):
            return self.otherwise.call_all(args, n)
        grad, out = doubles(<object>args[0]), doubles(<object>args[2])
        length = fresh(cnp.PyArray_NDIM(grad), cnp.PyArray_DIMS(grad), cnp.NPY_DOUBLE)
        factor = fresh(cnp.PyArray_NDIM(grad), cnp.PyArray_DIMS(grad), cnp.NPY_DOUBLE)
        known.grad, known.out, known.a, known.b = room(grad), room(out), room(length), room(factor)
        for i in range(cnp.PyArray_SIZE(grad)):
            known.a[i] = 1.0 if known.out[i] == 0 else known.out[i]
            known.b[i] = 0.0 if known.out[i] == 0 else known.grad[i]
        return spread(<cnp.ndarray>args[1], summed, NULL, NULL, NULL, &known, pg_ratio)


cdef class ProductSlopes(Reduction):
    """``(grad, input, out, dim, keepdim)``: the product divided by each factor where that is exact enough."""

    cdef object call_all(self, PyObject **args, Py_ssize_t n):
        cdef bint[64] summed
        cdef cnp.ndarray x, grad, out, products, found
        cdef Known known
        cdef Py_ssize_t i
        cdef bint in_range = True
        if not alike(<object>args[0], <object>args[1]) or not alike(<object>args[2], <object>args[1]) or not mark(
            <object>args[3], cnp.PyArray_NDIM(<cnp.ndarray>args[1]), summed
        ):
            return self.otherwise.call_all(args, n)
        x, grad, out = <cnp.ndarray>args[1], doubles(<object>args[0]), doubles(<object>args[2])
        known.out, known.a, known.b = room(out), room(out), room(grad)
        for i in range(cnp.PyArray_SIZE(out)):
            in_range &= 1e-30 < abs(known.out[i]) < 1e30
        if in_range:
            return spread(x, summed, NULL, NULL, NULL, &known, pg_others)
        # Once more then, all in double.
        products = fresh(cnp.PyArray_NDIM(out), cnp.PyArray_DIMS(out), cnp.NPY_DOUBLE)
        known.a, known.unfit = room(products), False
        found = spread(
            x, summed, pg_product + (cnp.PyArray_TYPE(x) == cnp.NPY_DOUBLE), NULL, divide, &known, pg_any_others
        )
        return self.otherwise.call_all(args, n) if known.unfit else found
