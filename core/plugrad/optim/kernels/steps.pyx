# cython: boundscheck=False, wraparound=False
"""Steps of optimizers in one pass over memory, for many parameters at once.

(a) The formulas are those of cpu.py, operation by operation and in the arrays' own precision, so that both give the
    same bits; numbers take that precision first, as NumPy has it.
(b) A loop takes arrays of one dtype, float32 or float64, that lie alike: all in C order or all in Fortran order. What
    it does not take it gives back.
(c) Threads share the elements of all parameters as if they were one array, so that many small parameters cost no more
    than a large one. An element depends on itself alone: the number of threads changes nothing.
"""

cimport numpy as cnp
from libc.stdlib cimport free, malloc

cimport plugrad.backends.simd  # its macros  # no-cython-lint
from plugrad.backends.parallel cimport parallel_for

cnp.import_array()

cdef extern from *:
    """
    #include <math.h>

    #if defined(__GNUC__) && !defined(__clang__)
    #define PG_STEP PG_VECTOR_EXACT __attribute__((optimize("fp-contract=off"))) static void
    #else
    #define PG_STEP PG_VECTOR_EXACT static void
    #endif
    #define PG_ROOT(x) _Generic((x), float: sqrtf, default: sqrt)(x)

    typedef struct { double rate, momentum, fresh, beta1, beta2, root, eps, decay, shrink; int maximize; } pg_numbers;
    /* arrays: the parameter, its gradient, and up to three more that are written; what is absent is not read */
    typedef void (*pg_step)(void *const *arrays, Py_ssize_t from, Py_ssize_t n, const pg_numbers *);

    /* A step on element i: x is the parameter, g the gradient to follow. A decay of 0 must not meet an infinite x. */
    #define PG_STEP_OF(name, T, body)                                                                      \\
        PG_STEP name##_##T(void *const *arrays, Py_ssize_t from, Py_ssize_t n, const pg_numbers *the) {    \\
            T *p = (T *)arrays[0] + from, *a = (T *)arrays[2] + from;                                      \\
            T *b = (T *)arrays[3] + from, *c = (T *)arrays[4] + from;                                      \\
            const T *grad = (const T *)arrays[1] + from;                                                   \\
            const T rate = (T)the->rate, decay = (T)the->decay, shrink = (T)the->shrink;                   \\
            const T momentum = (T)the->momentum, fresh = (T)the->fresh, root = (T)the->root;               \\
            const T gain1 = (T)(1.0 - the->beta1), beta2 = (T)the->beta2, gain2 = (T)(1.0 - the->beta2);   \\
            const T eps = (T)the->eps;                                                                     \\
            const T sign = the->maximize ? -1 : 1;                                                         \\
            const int decays = the->decay != 0;                                                            \\
            (void)a, (void)b, (void)c, (void)momentum, (void)fresh, (void)root, (void)eps;                 \\
            (void)gain1, (void)beta2, (void)gain2;                                                         \\
            for (Py_ssize_t i = 0; i < n; i++) {                                                           \\
                T x = p[i] * shrink, g = sign * grad[i];                                                   \\
                g = decays ? g + decay * x : g;                                                            \\
                body                                                                                       \\
                p[i] = x; } }

    #define PG_REMEMBERED a[i] = a[i] * momentum + fresh * g;
    #define PG_MOMENTS a[i] += (g - a[i]) * gain1; b[i] = b[i] * beta2 + g * g * gain2;
    #define PG_GREATEST c[i] = (c[i] >= b[i]) | (c[i] != c[i]) ? c[i] : b[i];   /* NaN if one is */
    #define PG_STEPS(T)                                                                             \\
        PG_STEP_OF(pg_sgd, T, x -= rate * g;)                                                       \\
        PG_STEP_OF(pg_momentum, T, PG_REMEMBERED x -= rate * a[i];)                                 \\
        PG_STEP_OF(pg_nesterov, T, PG_REMEMBERED x -= rate * (g + momentum * a[i]);)                \\
        PG_STEP_OF(pg_adam, T, PG_MOMENTS x -= a[i] / (PG_ROOT(b[i]) / root + eps) * rate;)         \\
        PG_STEP_OF(pg_amsgrad, T, PG_MOMENTS PG_GREATEST x -= a[i] / (PG_ROOT(c[i]) / root + eps) * rate;)
    PG_STEPS(float)
    PG_STEPS(double)

    enum { PG_SGD, PG_MOMENTUM, PG_NESTEROV, PG_ADAM, PG_AMSGRAD };
    static const pg_step pg_steps[][2] = {
        {pg_sgd_float, pg_sgd_double}, {pg_momentum_float, pg_momentum_double}, {pg_nesterov_float, pg_nesterov_double},
        {pg_adam_float, pg_adam_double}, {pg_amsgrad_float, pg_amsgrad_double}};
    """
    ctypedef struct pg_numbers:
        double rate, momentum, fresh, beta1, beta2, root, eps, decay, shrink
        int maximize
    ctypedef void (*pg_step)(void **arrays, Py_ssize_t start, Py_ssize_t n, const pg_numbers *the) noexcept nogil
    const pg_step pg_steps[5][2]
    enum:
        PG_SGD, PG_MOMENTUM, PG_NESTEROV, PG_ADAM, PG_AMSGRAD

cdef enum:
    MOST = 5           # arrays that a step reads or writes
    GRAIN = 16384      # elements of a piece of work for a thread
    NOGIL_FROM = 16384

# One parameter: its arrays, and where its elements stand among those of all.
cdef struct Part:
    void *arrays[MOST]
    pg_step step
    bint double_precision
    Py_ssize_t begin, end

cdef struct Work:
    Part *parts
    Py_ssize_t count
    pg_numbers numbers


cdef void piece(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """The steps of elements `begin` to `end`."""
    cdef Work *work = <Work *>context
    cdef Part *part
    cdef Py_ssize_t low = 0, high = work.count, middle, stop
    while high - low > 1:
        middle = (low + high) // 2
        if work.parts[middle].begin <= begin:
            low = middle
        else:
            high = middle
    while begin < end:
        part = &work.parts[low]
        stop = min(end, part.end)
        if begin < stop:
            part.step(part.arrays, begin - part.begin, stop - begin, &work.numbers)
            begin = stop
        low += 1


cdef bint alike(cnp.ndarray a, cnp.ndarray b, bint written) noexcept:
    """Whether two arrays have one dtype and shape, and their elements lie in one order without gaps."""
    return (
        cnp.PyArray_TYPE(a) == cnp.PyArray_TYPE(b)
        and (cnp.PyArray_ISBEHAVED(b) if written else cnp.PyArray_ISBEHAVED_RO(b))
        and cnp.PyArray_SAMESHAPE(a, b)
        and (
            (cnp.PyArray_IS_C_CONTIGUOUS(a) and cnp.PyArray_IS_C_CONTIGUOUS(b))
            or (cnp.PyArray_IS_F_CONTIGUOUS(a) and cnp.PyArray_IS_F_CONTIGUOUS(b))
        )
    )


cdef bint fill(Part *part, tuple lists, Py_ssize_t i, const pg_step *of_type):
    """Note the arrays of parameter i, the first ones of the lists; False where a loop does not take them."""
    cdef cnp.ndarray p = <cnp.ndarray?>(<list?>lists[0])[i], array
    cdef Py_ssize_t k
    cdef int kind = cnp.PyArray_TYPE(p)
    if kind != cnp.NPY_FLOAT and kind != cnp.NPY_DOUBLE:
        return False
    part.double_precision = kind == cnp.NPY_DOUBLE
    part.step = of_type[part.double_precision]
    for k in range(len(lists)):
        array = <cnp.ndarray?>(<list?>lists[k])[i]
        if not alike(p, array, k != 1):
            return False
        part.arrays[k] = cnp.PyArray_DATA(array)
    for k in range(len(lists), MOST):
        part.arrays[k] = part.arrays[0]
    return True


cdef bint overlap(const Work *work):
    """Whether parameters share memory, as a view that is one of its own does: their steps go one after the other."""
    cdef list spans = []
    cdef Py_ssize_t i, item
    for i in range(work.count):
        if work.parts[i].end > work.parts[i].begin:
            item = 8 if work.parts[i].double_precision else 4
            spans.append((<size_t>work.parts[i].arrays[0], item * (work.parts[i].end - work.parts[i].begin)))
    spans.sort()
    for i in range(1, len(spans)):
        if spans[i - 1][0] + spans[i - 1][1] > spans[i][0]:
            return True
    return False


cdef list run(int which, tuple lists, Work *work):
    """Do a step for all parameters that a loop takes; the arrays of the others."""
    cdef list left = []
    cdef Py_ssize_t i, total = 0
    work.count = 0
    work.parts = <Part *>malloc(max(1, len(<list?>lists[0])) * sizeof(Part))
    if work.parts == NULL:
        raise MemoryError
    try:
        for i in range(len(<list>lists[0])):
            if not fill(&work.parts[work.count], lists, i, pg_steps[which]):
                left.append(tuple([own[i] for own in lists]))
                continue
            work.parts[work.count].begin = total
            total += cnp.PyArray_SIZE(<cnp.ndarray>(<list>lists[0])[i])
            work.parts[work.count].end = total
            work.count += 1
        if total < NOGIL_FROM or overlap(work):
            piece(work, 0, total)
        else:
            with nogil:
                parallel_for(total, GRAIN, piece, work)
    finally:
        free(work.parts)
    return left


def sgd(
    tuple lists, double rate, double momentum, double fresh, double decay, bint nesterov, bint maximize
):
    """A step of SGD; see `plugrad.optim.kernels.Kernels`.

    Parameters
    ----------
    lists : tuple of list of numpy.ndarray
        The parameters, their gradients and, with momentum, what is remembered of those before.

    Returns
    -------
    list of tuple of numpy.ndarray
        The arrays of each parameter whose step is left to the caller.
    """
    cdef Work work
    work.numbers.rate, work.numbers.momentum, work.numbers.fresh = rate, momentum, fresh
    work.numbers.decay, work.numbers.shrink, work.numbers.maximize = decay, 1.0, maximize
    work.numbers.beta1, work.numbers.beta2, work.numbers.root, work.numbers.eps = 0.0, 0.0, 1.0, 0.0
    return run(PG_SGD if len(lists) == 2 else PG_NESTEROV if nesterov else PG_MOMENTUM, lists, &work)


def adam(
    tuple lists, double rate, double root, double eps, betas, double decay, double shrink, bint maximize
):
    """A step of Adam, as `sgd`.

    The lists end with the means of the gradients, those of their squares and, with amsgrad, the greatest of these.
    """
    cdef Work work
    work.numbers.rate, work.numbers.root, work.numbers.eps = rate, root, eps
    work.numbers.beta1, work.numbers.beta2 = betas
    work.numbers.decay, work.numbers.shrink, work.numbers.maximize = decay, shrink, maximize
    work.numbers.momentum, work.numbers.fresh = 0.0, 1.0
    return run(PG_ADAM if len(lists) == 4 else PG_AMSGRAD, lists, &work)
