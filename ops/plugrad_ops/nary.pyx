# cython: boundscheck=False, wraparound=False
"""Kernels of two to four operands: backward passes and formulas with constants, in one pass over memory.

(a) As in `loops`, a C loop serves float32 and float64 and everything else goes to the NumPy function that the kernel
    was made with. Here one loop takes arrays and numbers in any place: a number is written out a block long and read
    again and again, which costs little next to what a block costs. `loops` has a form of the loop for each place of a
    number instead: better for a sum, three times the code for everything that is not that short.
(b) An operand that broadcasts is copied to the full shape first.
(c) The first operand of a choice is an array of bools.
"""

cimport numpy as cnp
from cpython.object cimport PyObject

from plugrad.backends.copies cimport is_flat, laid_out_as
from plugrad.backends.parallel cimport parallel_for
from plugrad.backends.recycling cimport fresh_like
from plugrad.graph.op cimport Kernel
from plugrad_ops.loops cimport as_number, numpy_kernel

cnp.import_array()


cdef enum:
    MOST = 4        # operands
    BLOCK = 512     # elements of a number that is written out
    LARGE = 10_000  # these two as in `loops`
    GRAIN = 16_384


cdef struct Job:
    pg_nary loop
    int arity
    bint double
    const char *data[MOST]
    Py_ssize_t step[MOST]   # bytes from one element to the next; 0 for a number
    char *out
    Py_ssize_t size


cdef void nary_chunk(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Job *job = <Job *>context
    cdef double filled[MOST][BLOCK]
    cdef const void *at[MOST]
    cdef Py_ssize_t block = end - begin, done
    cdef bint numbers = False
    cdef int i
    for i in range(job.arity):
        if job.step[i] == 0:
            numbers = True
    if numbers and block > BLOCK:
        block = BLOCK
    for i in range(job.arity):
        at[i] = job.data[i] + begin * job.step[i]
        if job.step[i] == 0:
            fill(filled[i], job.data[i], block, job.double)
            at[i] = filled[i]
    done = begin
    while done < end:
        job.loop(at, job.out + done * job.size, block if block < end - done else end - done)
        done += block
        for i in range(job.arity):
            at[i] = <const char *>at[i] + block * job.step[i]


cdef inline void fill(void *target, const void *value, Py_ssize_t n, bint double) noexcept nogil:
    cdef Py_ssize_t i
    if double:
        for i in range(n):
            (<double *>target)[i] = (<const double *>value)[0]
    else:
        for i in range(n):
            (<float *>target)[i] = (<const float *>value)[0]


cdef inline bint broadcasts_to(cnp.ndarray x, cnp.ndarray whole) noexcept:
    cdef int extra = cnp.PyArray_NDIM(whole) - cnp.PyArray_NDIM(x), i
    if extra < 0:
        return False
    for i in range(cnp.PyArray_NDIM(x)):
        if cnp.PyArray_DIM(x, i) != 1 and cnp.PyArray_DIM(x, i) != cnp.PyArray_DIM(whole, extra + i):
            return False
    return True


cdef inline bint is_number(cnp.ndarray x) noexcept:
    """Whether x is one number, or repeats one, as the gradient of a sum does."""
    cdef int i
    for i in range(cnp.PyArray_NDIM(x)):
        if cnp.PyArray_DIM(x, i) != 1 and (cnp.PyArray_STRIDE(x, i) != 0 or cnp.PyArray_DIM(x, i) == 0):
            return False
    return True


cdef class Nary(Kernel):
    """A function of two to four arrays and numbers, at least one of them an array of the result's shape."""

    cdef object call2(self, object a, object b):
        cdef PyObject *args[2]
        if self.loops.arity != 2:
            return self.otherwise.call((a, b), ())
        args[0], args[1] = <PyObject *>a, <PyObject *>b
        return self.run(args)

    cdef object call(self, tuple args, tuple kwnames):
        cdef PyObject *items[MOST]
        cdef int i
        if len(args) != self.loops.arity:
            return self.otherwise.call(args, ())
        for i in range(self.loops.arity):
            items[i] = <PyObject *>args[i]
        return self.run(items)

    cdef object call_all(self, PyObject **args, Py_ssize_t n):
        if n != self.loops.arity:
            return self.otherwise.call_all(args, n)
        return self.run(args)

    cdef object run(self, PyObject **args):
        cdef Job job
        cdef double wide[MOST]
        cdef float narrow[MOST]
        cdef cnp.ndarray x, whole = None, like = None, out
        cdef list kept = None
        cdef Py_ssize_t n
        cdef int i, type_num = -1

        job.arity = self.loops.arity
        for i in range(job.arity):
            if not cnp.PyArray_CheckExact(<object>args[i]):
                if i == 0 and self.loops.choice or not as_number(<object>args[i], &wide[i]):
                    return self.otherwise.call_all(args, job.arity)
                continue
            x = <cnp.ndarray>args[i]
            if not cnp.PyArray_ISBEHAVED_RO(x):
                return self.otherwise.call_all(args, job.arity)
            if i == 0 and self.loops.choice:
                if cnp.PyArray_TYPE(x) != cnp.NPY_BOOL:
                    return self.otherwise.call_all(args, job.arity)
            elif type_num < 0:
                type_num = cnp.PyArray_TYPE(x)
            elif type_num != cnp.PyArray_TYPE(x):
                return self.otherwise.call_all(args, job.arity)
            if whole is None or larger(x, whole):
                whole = x
        if whole is None or type_num != cnp.NPY_FLOAT and type_num != cnp.NPY_DOUBLE:
            return self.otherwise.call_all(args, job.arity)

        n = cnp.PyArray_SIZE(whole)
        job.double = type_num == cnp.NPY_DOUBLE
        for i in range(job.arity):  # the first of full shape without gaps says how all are laid out
            if cnp.PyArray_CheckExact(<object>args[i]):
                x = <cnp.ndarray>args[i]
                if not broadcasts_to(x, whole):
                    return self.otherwise.call_all(args, job.arity)
                if like is None and cnp.PyArray_SAMESHAPE(x, whole) and is_flat(x):
                    like = x
        if like is None:
            like = cnp.PyArray_NewCopy(whole, cnp.NPY_CORDER)
            kept = [like]
        out = fresh_like(like, type_num)
        for i in range(job.arity):
            if not cnp.PyArray_CheckExact(<object>args[i]):
                narrow[i] = <float>wide[i]
                job.data[i] = <const char *>&wide[i] if job.double else <const char *>&narrow[i]
                job.step[i] = 0
                continue
            x = <cnp.ndarray>args[i]
            if is_number(x) and not (i == 0 and self.loops.choice):
                job.data[i], job.step[i] = cnp.PyArray_BYTES(x), 0
                continue
            x = laid_out_as(x, like)
            if <PyObject *>x != args[i]:
                if kept is None:
                    kept = []
                kept.append(x)
            job.data[i], job.step[i] = cnp.PyArray_BYTES(x), cnp.PyArray_ITEMSIZE(x)
        job.loop = self.loops.of[1 if job.double else 0]
        job.out, job.size = cnp.PyArray_BYTES(out), cnp.PyArray_ITEMSIZE(out)
        if n < LARGE:
            nary_chunk(&job, 0, n)
        else:
            with nogil:
                parallel_for(n, GRAIN, nary_chunk, &job)
        return out


cdef inline bint larger(cnp.ndarray x, cnp.ndarray whole) noexcept:
    """Whether x rather than `whole` may have the shape of the result."""
    if cnp.PyArray_SIZE(x) != cnp.PyArray_SIZE(whole):  # an empty one has it against a single element
        return cnp.PyArray_SIZE(x) > cnp.PyArray_SIZE(whole) or cnp.PyArray_SIZE(x) == 0
    return cnp.PyArray_NDIM(x) > cnp.PyArray_NDIM(whole)


cdef Nary nary(object function, const pg_nary_loops *loops):
    """A kernel for `function`, with loops for its float32 and float64 cases."""
    cdef Nary kernel = Nary(function)
    kernel.otherwise = numpy_kernel(function)
    kernel.loops = loops
    return kernel
