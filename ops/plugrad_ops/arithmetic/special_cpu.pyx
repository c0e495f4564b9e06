# cython: boundscheck=False, wraparound=False
"""CPU kernels of the special functions that NumPy lacks.

(a) `special.cuh` holds the formulas, one number at a time: `write_each`.
(b) float32 and float64 arrays go through the loops of `special_loops.pxd`, which differ from these in last bits. They
    are loops of doubles; floats are converted some at a time.
(c) A gradient is the incoming one times such a loop, in the same pass.
"""

cimport numpy as cnp
from cpython.object cimport PyObject

from plugrad.backends.copies cimport flat, laid_out_as
from plugrad.backends.parallel cimport parallel_for
from plugrad.backends.real cimport is_real
from plugrad.backends.recycling cimport fresh_like
from plugrad.graph.op cimport Kernel
from plugrad_ops.arithmetic.special_loops cimport Entry, pg_specials
from plugrad_ops.loops cimport numpy_kernel, pg_unary

cnp.import_array()

cdef enum:
    BLOCK = 512     # floats that are converted at a time
    WORK = 2048     # elements that are worth a thread's attention


cdef const Entry *entry(str name) except NULL:
    cdef int i
    for i in range(9):
        if name == pg_specials[i].name.decode():
            return &pg_specials[i]
    raise KeyError(name)


def write_each(str name, cnp.ndarray numbers, int order):
    """Write over an array of doubles, in C order, a special function of each."""
    cdef const Entry *the = entry(name)
    cdef double *values = <double *>cnp.PyArray_DATA(numbers)
    cdef Py_ssize_t i
    with nogil:
        for i in range(cnp.PyArray_SIZE(numbers)):
            values[i] = the.plain(values[i]) if the.plain != NULL else the.ordered(order, values[i])


cdef struct Job:
    pg_unary loop
    const char *grad            # what results are multiplied by; or NULL
    const char *x
    char *out
    bint wide


cdef void scale(double *values, const char *grad, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        values[i] *= (<const double *>grad)[i]


cdef void chunk(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef const Job *job = <const Job *>context
    cdef double[BLOCK] x
    cdef double[BLOCK] values
    cdef const float *narrow
    cdef Py_ssize_t at = begin, n, i
    while at < end:
        n = min(<Py_ssize_t>BLOCK, end - at)
        if job.wide:
            job.loop(job.x + 8 * at, job.out + 8 * at, n)
            if job.grad != NULL:
                scale(<double *>(job.out + 8 * at), job.grad + 8 * at, n)
        else:
            narrow = <const float *>job.x + at
            for i in range(n):
                x[i] = narrow[i]
            job.loop(x, values, n)
            if job.grad != NULL:
                narrow = <const float *>job.grad + at
                for i in range(n):
                    values[i] *= narrow[i]
            for i in range(n):
                (<float *>job.out)[at + i] = <float>values[i]
        at += n


cdef class Special(Kernel):
    """``(input)`` or, with loops for order 1, ``(input, order)``."""

    cdef Kernel otherwise
    cdef const Entry *entry

    def __init__(self, function, str name):
        Kernel.__init__(self, function)
        self.otherwise = numpy_kernel(function)
        self.entry = entry(name)

    cdef object call1(self, object a):
        return self.run(NULL, <cnp.ndarray>flat(<cnp.ndarray>a)) if is_real(a) else self.otherwise.call1(a)

    cdef object call(self, tuple args, tuple kwnames):
        if is_real(args[0]) and (len(args) == 1 or args[1] == 1):
            return self.run(NULL, flat(<cnp.ndarray>args[0]))
        return self.otherwise.call(args, kwnames)

    cdef object call2(self, object a, object b):
        return self.call((a, b), ())

    cdef cnp.ndarray run(self, const char *grad, cnp.ndarray x):
        cdef cnp.ndarray out = fresh_like(x, cnp.PyArray_TYPE(x))
        cdef Py_ssize_t n = cnp.PyArray_SIZE(x)
        cdef Job job
        job.grad, job.wide = grad, cnp.PyArray_TYPE(x) == cnp.NPY_DOUBLE
        job.loop = self.entry.loop if job.wide else self.entry.narrow
        job.x, job.out = cnp.PyArray_BYTES(x), cnp.PyArray_BYTES(out)
        if n < 2 * WORK:
            chunk(&job, 0, n)
        else:
            with nogil:
                parallel_for(n, WORK, chunk, &job)
        return out


cdef class Slope(Special):
    """``(grad, input)`` or ``(grad, out)``."""

    cdef object call2(self, object a, object b):
        cdef cnp.ndarray x, grad
        if (
            is_real(a) and is_real(b) and cnp.PyArray_TYPE(<cnp.ndarray>a) == cnp.PyArray_TYPE(<cnp.ndarray>b)
            and cnp.PyArray_SAMESHAPE(<cnp.ndarray>a, <cnp.ndarray>b)
        ):
            x = flat(<cnp.ndarray>b)
            grad = laid_out_as(<cnp.ndarray>a, x)
            return self.run(cnp.PyArray_BYTES(grad), x)
        return self.otherwise.call2(a, b)

    cdef object call(self, tuple args, tuple kwnames):
        return self.call2(args[0], args[1])

    cdef object call_all(self, PyObject **args, Py_ssize_t n):
        return self.call2(<object>args[0], <object>args[1])
