# cython: boundscheck=False, wraparound=False
"""CPU kernels of softmax, log_softmax and logsumexp, forward and backward; see softmax_walk.pyx.

They take float32 and float64 arrays without gaps, in any order of dimensions: what runs along one dimension of those
(or several that are neighbours in memory) is, for each of `outer` parts, n times `inner` neighbours. Others are copied,
or left to the NumPy function of the declaration.
"""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.string cimport memset

from plugrad.backends.copies cimport flat, laid_out_as
from plugrad.backends.real cimport is_real
from plugrad.backends.recycling cimport fresh, fresh_like
from plugrad.graph.op cimport Kernel
from plugrad_ops.activation.softmax_walk cimport LOG_SOFTMAX, LOGSUMEXP, SOFTMAX, Job, Kind, run

from plugrad.backends import CPU

cnp.import_array()

cdef enum:
    MOST_DIMS = 64


# ---- where rows lie ------------------------------------------------------------------------------------------

cdef inline Py_ssize_t real_size(object array) noexcept:
    """The bytes of an element of a float32 or float64 array that a loop may read; 0 for any other."""
    return cnp.PyArray_ITEMSIZE(<cnp.ndarray>array) if is_real(array) else 0


cdef bint locate(Job *job, cnp.ndarray x, const bint *along, bint *ordered) noexcept:
    """Set `outer`, `n` and `inner` for an array without gaps; False where no such three numbers tell where rows lie.

    `ordered`: whether the other dimensions lie in memory in their order.
    """
    cdef int nd = cnp.PyArray_NDIM(x), d, i, found = 0
    cdef int[64] order
    job.outer = job.n = job.inner = 1
    for d in range(nd):
        if cnp.PyArray_DIM(x, d) == 1:
            continue
        i = found
        while i > 0 and cnp.PyArray_STRIDE(x, order[i - 1]) < cnp.PyArray_STRIDE(x, d):
            order[i] = order[i - 1]
            i -= 1
        order[i] = d
        found += 1
    d = -1
    ordered[0] = True
    for i in range(found):
        if not along[order[i]]:
            ordered[0] = ordered[0] and order[i] > d
            d = order[i]
    i = 0
    while i < found and not along[order[i]]:
        job.outer *= cnp.PyArray_DIM(x, order[i])
        i += 1
    while i < found and along[order[i]]:
        job.n *= cnp.PyArray_DIM(x, order[i])
        i += 1
    while i < found and not along[order[i]]:
        job.inner *= cnp.PyArray_DIM(x, order[i])
        i += 1
    if job.n == 1:
        job.inner, job.outer = job.outer, 1
    return i == found


cdef int axis_of(cnp.ndarray x, object dim) except -2:
    """The dimension that `dim` names; -1 if there is none."""
    cdef Py_ssize_t axis, nd = cnp.PyArray_NDIM(x)
    if type(dim) is not int:
        return -1
    axis = dim
    if axis < 0:
        axis += nd if nd else 1
    return <int>axis if 0 <= axis < (nd if nd else 1) and nd <= MOST_DIMS else -1


# ---- kernels -------------------------------------------------------------------------------------------------

cdef class WithReference(Kernel):
    """A kernel that leaves what its loops do not take to the function that it was made with."""

    cdef Kernel otherwise

    def __init__(self, function):
        Kernel.__init__(self, function)
        self.otherwise = CPU.kernel(function)


cdef class AlongOne(WithReference):
    """What has the shape of its input, from (input, dim)."""

    cdef Kind kind

    cdef object call(self, tuple args, tuple kwnames):
        cdef cnp.ndarray x, out
        cdef bint[64] along
        cdef bint ordered
        cdef Job job
        cdef int axis
        job.size = real_size(args[0])
        if job.size == 0:
            return self.otherwise.call(args, kwnames)
        x = <cnp.ndarray>args[0]
        axis = axis_of(x, args[1])
        if axis < 0 or cnp.PyArray_SIZE(x) == 0:
            return self.otherwise.call(args, kwnames)
        x = flat(x)
        memset(along, 0, sizeof(along))
        along[axis] = True
        locate(&job, x, along, &ordered)
        out = fresh_like(x, cnp.PyArray_TYPE(x))
        job.kind, job.x, job.out = self.kind, cnp.PyArray_BYTES(x), cnp.PyArray_BYTES(out)
        run(&job, False)
        return out


cdef class AlongOneGradient(WithReference):
    """Its gradient, from (grad, out, dim)."""

    cdef Kind kind

    cdef object call_all(self, PyObject **args, Py_ssize_t n):
        cdef cnp.ndarray y, g, out
        cdef bint[64] along
        cdef bint ordered
        cdef Job job
        cdef int axis
        job.size = real_size(<object>args[1])
        if job.size == 0 or real_size(<object>args[0]) != job.size:
            return self.otherwise.call_all(args, n)
        y = <cnp.ndarray>args[1]
        axis = axis_of(y, <object>args[2])
        if axis < 0 or cnp.PyArray_SIZE(y) == 0:
            return self.otherwise.call_all(args, n)
        y = flat(y)
        g = laid_out_as(<cnp.ndarray>args[0], y)
        memset(along, 0, sizeof(along))
        along[axis] = True
        locate(&job, y, along, &ordered)
        out = fresh_like(y, cnp.PyArray_TYPE(y))
        job.kind, job.x, job.out = self.kind, cnp.PyArray_BYTES(y), cnp.PyArray_BYTES(out)
        job.g = cnp.PyArray_BYTES(g)
        run(&job, True)
        return out


cdef bint mark(cnp.ndarray x, object dim, bint *along) except -1:
    """Mark the dimensions that `dim`, an integer or a tuple, names; False where it names none, or one twice."""
    cdef int axis
    memset(along, 0, MOST_DIMS * sizeof(bint))
    if type(dim) is not tuple:
        dim = (dim,)
    for each in <tuple>dim:
        axis = axis_of(x, each)
        if axis < 0 or along[axis]:
            return False
        along[axis] = True
    return len(<tuple>dim) > 0


cdef class LogSumExp(WithReference):
    """The forward kernel, from (input, dim, keepdim)."""

    cdef object call(self, tuple args, tuple kwnames):
        cdef cnp.ndarray x, out
        cdef cnp.npy_intp[64] dims
        cdef bint[64] along
        cdef bint ordered
        cdef bint keep = args[2]
        cdef Job job
        cdef int d, nd = 0
        job.size = real_size(args[0])
        if job.size == 0:
            return self.otherwise.call(args, kwnames)
        x = <cnp.ndarray>args[0]
        if cnp.PyArray_SIZE(x) == 0 or not mark(x, args[1], along):
            return self.otherwise.call(args, kwnames)
        x = flat(x)
        if not locate(&job, x, along, &ordered) or not ordered:
            return self.otherwise.call(args, kwnames)
        for d in range(cnp.PyArray_NDIM(x)):
            if keep or not along[d]:
                dims[nd] = 1 if along[d] else cnp.PyArray_DIM(x, d)
                nd += 1
        out = fresh(nd, dims, cnp.PyArray_TYPE(x))
        job.kind, job.x, job.out = LOGSUMEXP, cnp.PyArray_BYTES(x), cnp.PyArray_BYTES(out)
        run(&job, False)
        return out


cdef class LogSumExpGradient(WithReference):
    """Its gradient, from (grad, input, out, dim, keepdim)."""

    cdef object call_all(self, PyObject **args, Py_ssize_t n):
        cdef cnp.ndarray x, g, value, out
        cdef bint[64] along
        cdef bint ordered
        cdef Job job
        job.size = real_size(<object>args[1])
        if job.size == 0 or real_size(<object>args[0]) != job.size or real_size(<object>args[2]) != job.size:
            return self.otherwise.call_all(args, n)
        x = <cnp.ndarray>args[1]
        if cnp.PyArray_SIZE(x) == 0 or not mark(x, <object>args[3], along):
            return self.otherwise.call_all(args, n)
        x = flat(x)
        if not locate(&job, x, along, &ordered) or not ordered:
            return self.otherwise.call_all(args, n)
        g, value = cnp.PyArray_GETCONTIGUOUS(<cnp.ndarray>args[0]), cnp.PyArray_GETCONTIGUOUS(<cnp.ndarray>args[2])
        out = fresh_like(x, cnp.PyArray_TYPE(x))
        job.kind, job.x, job.out = LOGSUMEXP, cnp.PyArray_BYTES(x), cnp.PyArray_BYTES(out)
        job.g, job.value = cnp.PyArray_BYTES(g), cnp.PyArray_BYTES(value)
        run(&job, True)
        return out


def softmax(function):
    """The kernel for `function`, which is softmax in NumPy."""
    return along_one(function, SOFTMAX)


def log_softmax(function):
    return along_one(function, LOG_SOFTMAX)


def softmax_gradient(function):
    """The kernel for `function`, which is the gradient of softmax in NumPy."""
    return gradient_along_one(function, SOFTMAX)


def log_softmax_gradient(function):
    return gradient_along_one(function, LOG_SOFTMAX)


cdef AlongOne along_one(object function, Kind kind):
    cdef AlongOne kernel = AlongOne(function)
    kernel.kind = kind
    return kernel


cdef AlongOneGradient gradient_along_one(object function, Kind kind):
    cdef AlongOneGradient kernel = AlongOneGradient(function)
    kernel.kind = kind
    return kernel
