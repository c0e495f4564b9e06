# cython: boundscheck=False, wraparound=False, cdivision=True
"""Reading, writing and adding along one dimension at indices, and the first elements of rows, in C.

(a) NumPy first makes a position of every index. Here an array is seen as (outer, n, inner) and the index as
    (outer, m, inner): neither broadcasts. For what does, and for an index outside, the functions return None, and the
    reference function does it or says what is wrong.
(b) Elements that are only moved travel as integers of their size. Sums are made in float64 and rounded once.
"""

cimport numpy as cnp
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

import numpy as np

from plugrad.backends.recycling cimport fresh
from plugrad.backends.copies import in_c_order
from plugrad.backends.dtypes import kind as kind_of, rounded

cnp.import_array()

ctypedef fused word:
    uint8_t
    uint16_t
    uint32_t
    uint64_t

ctypedef fused real:
    float
    double


cdef struct Along:
    Py_ssize_t outer
    Py_ssize_t n
    Py_ssize_t m
    Py_ssize_t inner
    Py_ssize_t[3] step      # from one of the source's elements to the next in outer, n and inner, where `take` reads


cdef bint outside(const int64_t *at, Py_ssize_t count, Py_ssize_t n) noexcept nogil:
    """Whether an index lies outside its dimension."""
    cdef Py_ssize_t j
    cdef bint found = False
    for j in range(count):
        found |= at[j] < -n or at[j] >= n
    return found


cdef void take(word *out, const word *source, const int64_t *at, Along a) noexcept nogil:
    cdef Py_ssize_t o, _j, i, k, where = 0
    for o in range(a.outer):
        for _j in range(a.m):
            for i in range(a.inner):
                k = at[where]
                if k < 0:
                    k += a.n
                out[where] = source[o * a.step[0] + k * a.step[1] + i * a.step[2]]
                where += 1


cdef void put(word *out, const word *source, const int64_t *at, Along a) noexcept nogil:
    cdef Py_ssize_t o, _j, i, k, where = 0
    for o in range(a.outer):
        for _j in range(a.m):
            for i in range(a.inner):
                k = at[where]
                if k < 0:
                    k += a.n
                out[(o * a.n + k) * a.inner + i] = source[where]
                where += 1


cdef void add(double *out, const real *source, const int64_t *at, Along a) noexcept nogil:
    cdef Py_ssize_t o, _j, i, k, where = 0
    for o in range(a.outer):
        for _j in range(a.m):
            for i in range(a.inner):
                k = at[where]
                if k < 0:
                    k += a.n
                out[(o * a.n + k) * a.inner + i] += <double>source[where]
                where += 1


cdef bint plan(tuple shape, tuple index_shape, object dim, Along *a) except -1:
    """Fill in what the loops need; False if the two shapes broadcast."""
    cdef Py_ssize_t d, ndim = len(shape), axis
    if not ndim or len(index_shape) != ndim:
        return False
    axis = dim if dim >= 0 else dim + ndim
    if not 0 <= axis < ndim:
        return False
    a.outer = a.inner = 1
    for d in range(ndim):
        if d == axis:
            continue
        if shape[d] != index_shape[d]:
            return False
        if d < axis:
            a.outer *= shape[d]
        else:
            a.inner *= shape[d]
    a.n = shape[axis]
    a.m = index_shape[axis]
    return True


cdef bint stepwise(cnp.ndarray source, object dim, Along *a) except -1:
    """Fill in the steps through an array; False if it has to be copied first."""
    cdef int nd = cnp.PyArray_NDIM(source), d
    cdef int axis = dim if dim >= 0 else dim + nd
    if not cnp.PyArray_ISBEHAVED_RO(source):
        return False
    if cnp.PyArray_IS_C_CONTIGUOUS(source):
        a.step[0], a.step[1], a.step[2] = a.n * a.inner, a.inner, 1
        return True
    for d in range(nd - 1):
        if d != axis and d + 1 != axis and cnp.PyArray_STRIDE(source, d) != (
            cnp.PyArray_STRIDE(source, d + 1) * cnp.PyArray_DIM(source, d + 1)
        ):
            return False
    a.step[0] = cnp.PyArray_STRIDE(source, axis - 1) if axis else 0
    a.step[1] = cnp.PyArray_STRIDE(source, axis)
    a.step[2] = cnp.PyArray_STRIDE(source, nd - 1) if axis < nd - 1 else 0
    for d in range(3):
        if a.step[d] % cnp.PyArray_ITEMSIZE(source):
            return False
        a.step[d] //= cnp.PyArray_ITEMSIZE(source)
    return True


cdef cnp.npy_intp *dims_of(tuple shape, cnp.npy_intp *dims):
    for d in range(len(shape)):
        dims[d] = shape[d]
    return dims


cdef cnp.ndarray integers(object indices, Py_ssize_t n):
    """The indices as int64 in C order; None if one lies outside."""
    cdef cnp.ndarray at = in_c_order(indices, np.int64)
    if outside(<const int64_t *>cnp.PyArray_DATA(at), at.size, n):
        return None
    return at


cdef bint moved(void *out, const void *source, cnp.ndarray at, Along a, int size, bint reads) noexcept:
    """Whether elements of this size can be moved; then they are."""
    cdef const int64_t *index = <const int64_t *>cnp.PyArray_DATA(at)
    with nogil:
        if size == 1:
            if reads:
                take(<uint8_t *>out, <const uint8_t *>source, index, a)
            else:
                put(<uint8_t *>out, <const uint8_t *>source, index, a)
        elif size == 2:
            if reads:
                take(<uint16_t *>out, <const uint16_t *>source, index, a)
            else:
                put(<uint16_t *>out, <const uint16_t *>source, index, a)
        elif size == 4:
            if reads:
                take(<uint32_t *>out, <const uint32_t *>source, index, a)
            else:
                put(<uint32_t *>out, <const uint32_t *>source, index, a)
        elif size == 8:
            if reads:
                take(<uint64_t *>out, <const uint64_t *>source, index, a)
            else:
                put(<uint64_t *>out, <const uint64_t *>source, index, a)
    return size in (1, 2, 4, 8)


def take_along(object input, object indices, object dim):
    """``take_along_dim`` without broadcasting; None where that is asked for, or an index lies outside."""
    cdef Along a
    cdef cnp.ndarray source, at, out
    if not plan(input.shape, indices.shape, dim, &a):
        return None
    at = integers(indices, a.n)
    if at is None:
        return None
    source = np.asarray(input)
    if not stepwise(source, dim, &a):
        source = np.array(source, order="C")
        if not stepwise(source, dim, &a):
            return None
    out = fresh(cnp.PyArray_NDIM(at), cnp.PyArray_DIMS(at), cnp.PyArray_TYPE(source))
    if moved(cnp.PyArray_DATA(out), cnp.PyArray_DATA(source), at, a, <int>source.itemsize, True):
        return out
    return None


def write_along(cnp.ndarray out, object indices, object values, object dim):
    """Write values, in the shape of the indices, into `out`, an array in C order; the last of several writes stays.

    Returns `out`, or None, with `out` as it was, where something broadcasts or an index lies outside.
    """
    cdef Along a
    cdef cnp.ndarray source, at
    if not out.flags.c_contiguous or values.shape != indices.shape or values.dtype != out.dtype:
        return None
    if not plan((<object>out).shape, indices.shape, dim, &a):
        return None
    at = integers(indices, a.n)
    if at is None:
        return None
    source = in_c_order(values)
    if moved(cnp.PyArray_DATA(out), cnp.PyArray_DATA(source), at, a, <int>source.itemsize, False):
        return out
    return None


def add_along(object values, object indices, tuple shape, object dim):
    """Zeros of `shape` with floating values added at the indices; None as `take_along`, or for other dtypes."""
    cdef Along a
    cdef cnp.ndarray source, at, out
    cdef cnp.npy_intp[64] dims
    if values.shape != indices.shape or kind_of(values.dtype) != "f" or values.dtype.itemsize > 8:
        return None
    if not plan(shape, indices.shape, dim, &a):
        return None
    at = integers(indices, a.n)
    if at is None:
        return None
    if a.m == 1:  # no two meet
        source = in_c_order(values)
        out = fresh(len(shape), dims_of(shape, dims), cnp.PyArray_TYPE(source))
        memset(cnp.PyArray_DATA(out), 0, cnp.PyArray_NBYTES(out))
        moved(cnp.PyArray_DATA(out), cnp.PyArray_DATA(source), at, a, <int>source.itemsize, False)
        return out
    out = np.zeros(shape)
    wide = np.float64 if values.dtype.itemsize == 8 else np.float32
    source = in_c_order(values, wide)
    cdef double *sums = <double *>cnp.PyArray_DATA(out)
    cdef const int64_t *index = <const int64_t *>cnp.PyArray_DATA(at)
    cdef void *terms = cnp.PyArray_DATA(source)
    cdef bint double_terms = wide is np.float64
    with nogil:
        if double_terms:
            add(sums, <const double *>terms, index, a)
        else:
            add(sums, <const float *>terms, index, a)
    return rounded(out, values.dtype)


# ---- what was written ----------------------------------------------------------------------------------------

cdef void take_back(word *grad, word *out, const int64_t *at, Along a) noexcept nogil:
    """From the last write to the first: what stayed takes the gradient of its place, and nothing is left there."""
    cdef Py_ssize_t o, _j, i, k, where = a.outer * a.m * a.inner
    for o in range(a.outer - 1, -1, -1):
        for _j in range(a.m):
            for i in range(a.inner - 1, -1, -1):
                where -= 1
                k = at[where]
                if k < 0:
                    k += a.n
                out[where] = grad[(o * a.n + k) * a.inner + i]
                grad[(o * a.n + k) * a.inner + i] = 0


def unwrite_along(object grad, object indices, object dim):
    """The gradients of both operands of `write_along_dim`; None as `take_along`."""
    cdef Along a
    cdef cnp.ndarray left, at, out
    if not plan(grad.shape, indices.shape, dim, &a):
        return None
    at = integers(indices, a.n)
    if at is None:
        return None
    left = grad.copy("C")
    out = np.empty(indices.shape, left.dtype)
    cdef void *there = cnp.PyArray_DATA(left)
    cdef void *found = cnp.PyArray_DATA(out)
    cdef const int64_t *index = <const int64_t *>cnp.PyArray_DATA(at)
    cdef int size = <int>left.itemsize
    with nogil:
        if size == 2:
            take_back(<uint16_t *>there, <uint16_t *>found, index, a)
        elif size == 4:
            take_back(<uint32_t *>there, <uint32_t *>found, index, a)
        elif size == 8:
            take_back(<uint64_t *>there, <uint64_t *>found, index, a)
    return (left, out) if size in (2, 4, 8) else None


# ---- the first of a row --------------------------------------------------------------------------------------

ctypedef fused ordered:
    float
    double
    int64_t


cdef inline bint leads(ordered a, ordered b, bint largest) noexcept nogil:
    """Whether `a` comes strictly before `b`; NaN counts as the greatest."""
    if a != a or b != b:
        return (a != a) > (b != b) if largest else (a != a) < (b != b)
    return a > b if largest else a < b


cdef void first_of_row(
    const ordered *row, Py_ssize_t n, ordered *best, int64_t *at, Py_ssize_t k, bint largest
) noexcept nogil:
    """The `k` first elements in order, equal ones as they come: each goes in front of those that it leads."""
    cdef Py_ssize_t count = 0, j, place
    cdef ordered value
    for j in range(n):
        value = row[j]
        if count == k and not leads(value, best[k - 1], largest):
            continue
        place = count if count < k else k - 1
        count = place + 1
        while place > 0 and leads(value, best[place - 1], largest):
            best[place] = best[place - 1]
            at[place] = at[place - 1]
            place -= 1
        best[place] = value
        at[place] = j


def first_of_rows(object rows, Py_ssize_t k, bint largest):
    """For each row of a matrix the indices of its `k` greatest, or smallest, elements; 0 < k <= columns."""
    cdef cnp.ndarray source, best, out
    cdef Py_ssize_t count = rows.shape[0], n = rows.shape[1], r
    wide = np.float64 if rows.dtype == np.float64 else np.float32 if rows.dtype.kind == "f" else np.int64
    source = in_c_order(rows, wide)
    best = np.empty(k, wide)
    out = np.empty((count, k), np.int64)
    cdef void *there = cnp.PyArray_DATA(source)
    cdef void *kept = cnp.PyArray_DATA(best)
    cdef int64_t *at = <int64_t *>cnp.PyArray_DATA(out)
    cdef int kind = 0 if wide is np.float32 else 1 if wide is np.float64 else 2
    with nogil:
        for r in range(count):
            if kind == 0:
                first_of_row(<const float *>there + r * n, n, <float *>kept, at + r * k, k, largest)
            elif kind == 1:
                first_of_row(<const double *>there + r * n, n, <double *>kept, at + r * k, k, largest)
            else:
                first_of_row(<const int64_t *>there + r * n, n, <int64_t *>kept, at + r * k, k, largest)
    return out
