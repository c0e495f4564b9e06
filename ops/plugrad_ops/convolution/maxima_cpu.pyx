# cython: boundscheck=False, wraparound=False, cdivision=True
"""Maxima over windows and where they are, in C.

(a) Maxima are taken along one dimension after the other: the width, then the height, then the depth. As the first of
    equals and the last nan win along each, they win altogether.
(b) Along the width lanes of a vector are neighbouring windows. Rows are copied with their padding, minus infinity, and
    with room for whole vectors; where a plane without padding is cut into windows with nothing left over, all its rows
    are one. Along the other dimensions whole rows are compared.
(c) Indices have the size of the elements while they are compared, so that there are as many in a vector.
(d) Windows that are not evenly spaced (adaptive) are gone through one by one along the width.
"""

cimport numpy as cnp
cimport plugrad.backends.simd  # its macros  # no-cython-lint
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset
from plugrad.backends.parallel cimport parallel_for, threads
from plugrad.backends.recycling cimport fresh

cnp.import_array()

cdef extern from *:
    """
    #include <math.h>
    #include <stdint.h>
    #define PG_TAKE(T, v, top, where, at) do {                                                                       \\
        const T pg_v = (v);                                                                                          \\
        const int pg_take = (pg_v > (top)) | (pg_v != pg_v);                                                         \\
        (where) = pg_take ? (at) : (where);                                                                          \\
        (top) = pg_take ? pg_v : (top);                                                                              \\
        } while (0)
    #define PG_MAXIMA(T, I)                                                                                          \\
        PG_VECTOR static void pg_start_##T(                                                                          \\
            const I *restrict first, I base, T *restrict top, I *restrict where, Py_ssize_t n) {                     \\
            for (Py_ssize_t i = 0; i < n; i++) { top[i] = (T)-INFINITY; where[i] = first[i] + base; }                \\
        }                                                                                                            \\
        PG_VECTOR static void pg_first_##T(                                                                          \\
            const T *restrict row, T *restrict top, I *restrict where, Py_ssize_t n, Py_ssize_t step) {              \\
            if (step == 2) for (Py_ssize_t i = 0; i < n; i++) { top[i] = row[2 * i]; where[i] = 2 * (I)i; }          \\
            else for (Py_ssize_t i = 0; i < n; i++) { top[i] = row[i * step]; where[i] = (I)(i * step); }            \\
        }                                                                                                            \\
        PG_VECTOR static void pg_seen_##T(                                                                           \\
            const T *restrict row, I at, T *restrict top, I *restrict where, Py_ssize_t n, Py_ssize_t step) {        \\
            if (step == 1)                                                                                           \\
                for (Py_ssize_t i = 0; i < n; i++) PG_TAKE(T, row[i], top[i], where[i], at + (I)i);                  \\
            else if (step == 2)                                                                                      \\
                for (Py_ssize_t i = 0; i < n; i++) PG_TAKE(T, row[2 * i], top[i], where[i], at + 2 * (I)i);          \\
            else                                                                                                     \\
                for (Py_ssize_t i = 0; i < n; i++) PG_TAKE(T, row[i * step], top[i], where[i], at + (I)(i * step));  \\
        }                                                                                                            \\
        PG_VECTOR static void pg_more_##T(                                                                           \\
            const T *restrict row, const I *restrict at, T *restrict top, I *restrict where, Py_ssize_t n) {         \\
            for (Py_ssize_t i = 0; i < n; i++) PG_TAKE(T, row[i], top[i], where[i], at[i]);                          \\
        }                                                                                                            \\
        PG_VECTOR static void pg_both_##T(                                                                           \\
            const T *restrict a, const I *restrict ia, const T *restrict b, const I *restrict ib, T *restrict top,   \\
            I *restrict where, Py_ssize_t n) {                                                                       \\
            for (Py_ssize_t i = 0; i < n; i++) {                                                                     \\
                T best = a[i];                                                                                       \\
                I is = ia[i];                                                                                        \\
                PG_TAKE(T, b[i], best, is, ib[i]);                                                                   \\
                top[i] = best;                                                                                       \\
                where[i] = is;                                                                                       \\
            }                                                                                                        \\
        }                                                                                                            \\
        PG_VECTOR static void pg_widen_##T(const I *restrict where, int64_t *restrict to, Py_ssize_t n) {            \\
            for (Py_ssize_t i = 0; i < n; i++) to[i] = where[i];                                                     \\
        }
    PG_MAXIMA(float, int32_t)
    PG_MAXIMA(double, int64_t)
    """
    void pg_start_float(const int32_t *, int32_t, float *, int32_t *, Py_ssize_t) noexcept nogil
    void pg_start_double(const int64_t *, int64_t, double *, int64_t *, Py_ssize_t) noexcept nogil
    void pg_first_float(const float *, float *, int32_t *, Py_ssize_t, Py_ssize_t) noexcept nogil
    void pg_first_double(const double *, double *, int64_t *, Py_ssize_t, Py_ssize_t) noexcept nogil
    void pg_seen_float(const float *, int32_t, float *, int32_t *, Py_ssize_t, Py_ssize_t) noexcept nogil
    void pg_seen_double(const double *, int64_t, double *, int64_t *, Py_ssize_t, Py_ssize_t) noexcept nogil
    void pg_more_float(const float *, const int32_t *, float *, int32_t *, Py_ssize_t) noexcept nogil
    void pg_more_double(const double *, const int64_t *, double *, int64_t *, Py_ssize_t) noexcept nogil
    void pg_both_float(
        const float *, const int32_t *, const float *, const int32_t *, float *, int32_t *, Py_ssize_t
    ) noexcept nogil
    void pg_both_double(
        const double *, const int64_t *, const double *, const int64_t *, double *, int64_t *, Py_ssize_t
    ) noexcept nogil
    void pg_widen_float(const int32_t *, int64_t *, Py_ssize_t) noexcept nogil
    void pg_widen_double(const int64_t *, int64_t *, Py_ssize_t) noexcept nogil


ctypedef fused real:
    float
    double

cdef enum:
    LANES = 16          # rows have room for a multiple of so many
    PIECE = 1 << 14     # elements that are worth giving to a thread


cdef struct Maxima:
    Py_ssize_t size[3]
    Py_ssize_t out[3]
    Py_ssize_t step[3]              # from element to element of a window
    const int64_t *ends[3]          # the first element of each window, and the one behind its last
    Py_ssize_t stride, taps         # of windows along the width, if they are evenly spaced (else taps is 0) …
    Py_ssize_t before               # … and the padding in front of them
    Py_ssize_t pitch                # of rows of windows
    Py_ssize_t row                  # elements of a copied row; 0 where none is copied
    Py_ssize_t count, pieces        # planes, and of work
    Py_ssize_t bytes                # of scratch for a piece
    int size_of                     # an element
    const char *images
    char *values
    int64_t *indices
    char *scratch


cdef void along_width(
    const real *image, real *top, real *index, real *row, const real *first, const Maxima *m
) noexcept nogil:
    """The maxima of all windows along the width, for each row of a plane."""
    cdef Py_ssize_t rows = m.size[0] * m.size[1], r, i, t, at, width = m.size[2]
    cdef const int64_t *ends = m.ends[2]
    cdef real best, value
    if m.taps and not m.row:  # all rows are one
        if real is float:
            pg_first_float(image, top, <int32_t *>index, rows * m.pitch, m.stride)
        else:
            pg_first_double(image, top, <int64_t *>index, rows * m.pitch, m.stride)
        for t in range(1, m.taps):
            at = t * m.step[2]
            if real is float:
                pg_seen_float(image + at, <int32_t>at, top, <int32_t *>index, rows * m.pitch, m.stride)
            else:
                pg_seen_double(image + at, at, top, <int64_t *>index, rows * m.pitch, m.stride)
        return
    for r in range(rows):
        if m.taps:
            memcpy(row + m.before, image, width * sizeof(real))
            if real is float:
                pg_start_float(<const int32_t *>first, <int32_t>(r * width), top, <int32_t *>index, m.pitch)
            else:
                pg_start_double(<const int64_t *>first, r * width, top, <int64_t *>index, m.pitch)
            for t in range(m.taps):
                at = t * m.step[2]
                if real is float:
                    pg_seen_float(
                        row + at, <int32_t>(r * width + at - m.before), top, <int32_t *>index, m.pitch, m.stride
                    )
                else:
                    pg_seen_double(row + at, r * width + at - m.before, top, <int64_t *>index, m.pitch, m.stride)
        else:
            for i in range(m.out[2]):
                at = ends[2 * i]
                best = image[at]
                for t in range(ends[2 * i], ends[2 * i + 1]):
                    value = image[t]
                    if value > best or value != value:
                        best = value
                        at = t
                top[i] = best
                if real is float:
                    (<int32_t *>index)[i] = <int32_t>(r * width + at)
                else:
                    (<int64_t *>index)[i] = r * width + at
        image += width
        top += m.pitch
        index += m.pitch


cdef void along_rows(
    const real *seen, const real *seen_index, real *top, void *index, const int64_t *ends, Py_ssize_t step,
    Py_ssize_t next, Py_ssize_t n
) noexcept nogil:
    """The maxima of a window over rows of n elements, `next` apart."""
    cdef Py_ssize_t first = ends[0], last = ends[1], at = first * next, other = (first + step) * next
    if first + step >= last:
        memcpy(top, seen + at, n * sizeof(real))
        memcpy(index, seen_index + at, n * sizeof(real))
        return
    if real is float:
        pg_both_float(
            seen + at, <const int32_t *>(seen_index + at), seen + other, <const int32_t *>(seen_index + other), top,
            <int32_t *>index, n
        )
    else:
        pg_both_double(
            seen + at, <const int64_t *>(seen_index + at), seen + other, <const int64_t *>(seen_index + other), top,
            <int64_t *>index, n
        )
    first += 2 * step
    while first < last:
        at = first * next
        if real is float:
            pg_more_float(seen + at, <const int32_t *>(seen_index + at), top, <int32_t *>index, n)
        else:
            pg_more_double(seen + at, <const int64_t *>(seen_index + at), top, <int64_t *>index, n)
        first += step


cdef void of_plane(const real *image, real *values, int64_t *indices, char *scratch, const Maxima *m) noexcept nogil:
    cdef Py_ssize_t pitch = m.pitch, d, h, n = m.out[2], wide = (n + LANES - 1) // LANES * LANES
    cdef Py_ssize_t slice = m.size[1] * pitch, whole = m.size[0] * slice + LANES
    cdef real *first = <real *>scratch          # of a copied row: the first element of each window
    cdef real *row = first + wide
    cdef real *best = row + m.row               # of a row of windows
    cdef real *where = best + wide
    cdef real *top = where + wide               # of windows along the width …
    cdef real *index = top + whole
    cdef real *tops = index + whole             # … and the height
    cdef real *places = tops + m.size[0] * m.out[1] * pitch + LANES
    along_width(image, top, index, row, first, m)
    if m.size[0] > 1:
        for d in range(m.size[0]):
            for h in range(m.out[1]):
                along_rows(
                    top + d * slice, index + d * slice, tops + (d * m.out[1] + h) * pitch,
                    places + (d * m.out[1] + h) * pitch, m.ends[1] + 2 * h, m.step[1], pitch, wide
                )
    for d in range(m.out[0]):
        for h in range(m.out[1]):
            if m.size[0] > 1:
                along_rows(
                    tops + h * pitch, places + h * pitch, best, where, m.ends[0] + 2 * d, m.step[0],
                    m.out[1] * pitch, wide
                )
            else:
                along_rows(top, index, best, where, m.ends[1] + 2 * h, m.step[1], pitch, wide)
            memcpy(values, best, n * sizeof(real))
            if real is float:
                pg_widen_float(<const int32_t *>where, indices, n)
            else:
                pg_widen_double(<const int64_t *>where, indices, n)
            values += n
            indices += n


cdef void prepare(char *scratch, const Maxima *m, real kind) noexcept nogil:
    """What all planes of a piece find the same: first elements, and minus infinity around a row."""
    cdef Py_ssize_t i, n = m.out[2], wide = (n + LANES - 1) // LANES * LANES
    cdef real *row = <real *>scratch + wide
    for i in range(wide):
        if real is float:
            (<int32_t *>scratch)[i] = <int32_t>m.ends[2][2 * i] if i < n else 0
        else:
            (<int64_t *>scratch)[i] = m.ends[2][2 * i] if i < n else 0
    for i in range(m.row):
        row[i] = -INFINITY


cdef void of_planes(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Maxima *m = <Maxima *>context
    cdef Py_ssize_t piece, i, size = m.size[0] * m.size[1] * m.size[2], out = m.out[0] * m.out[1] * m.out[2]
    cdef char *scratch
    for piece in range(begin, end):
        scratch = m.scratch + piece * m.bytes
        if m.size_of == 4:
            prepare[float](scratch, m, 0)
        else:
            prepare[double](scratch, m, 0)
        for i in range(piece * m.count // m.pieces, (piece + 1) * m.count // m.pieces):
            if m.size_of == 4:
                of_plane(
                    <const float *>m.images + i * size, <float *>m.values + i * out, m.indices + i * out, scratch, m
                )
            else:
                of_plane(
                    <const double *>m.images + i * size, <double *>m.values + i * out, m.indices + i * out, scratch, m
                )


cdef int real_kind(cnp.ndarray array) except -1:
    cdef int kind = cnp.PyArray_TYPE(array)
    if (kind != cnp.NPY_FLOAT and kind != cnp.NPY_DOUBLE) or not cnp.PyArray_ISCARRAY_RO(array):
        raise ValueError("arrays must be C-contiguous, float32 or float64")
    return kind


cdef cnp.ndarray new(tuple shape, int kind):
    cdef cnp.npy_intp dims[64]
    cdef int i
    for i in range(min(len(shape), 64)):
        dims[i] = shape[i]
    return fresh(<int>len(shape), dims, kind)


def maxima_over(cnp.ndarray images, list spans, tuple size, tuple step, tuple even, tuple shape):
    """The maxima over windows, and where in its plane each lies.

    Parameters
    ----------
    images : ndarray
        Planes of `size`, one after the other.
    spans : list of ndarray
        Per dimension (three) the first element of each window and the one behind its last, int64 (out, 2).
    size, step : tuple of int
        Per dimension; `step` goes from element to element of a window.
    even : tuple of int
        Of evenly spaced windows along the last dimension: how many elements they have, how far apart they are, and how
        far the first one reaches beyond the front. Empty for other windows.
    shape : tuple of int
        Of both results.

    Returns
    -------
    values, indices : ndarray
        `indices` are int64.

    Raises
    ------
    ValueError
        `images` is not C-contiguous or of another dtype, or a plane is too large for its places to be counted.
    """
    cdef int kind = real_kind(images), i
    cdef cnp.ndarray values = new(shape, kind), indices = new(shape, cnp.NPY_INT64), ends, scratch
    cdef cnp.npy_intp length
    cdef Maxima m
    cdef Py_ssize_t wide, plane = 1, results = 1
    if not cnp.PyArray_SIZE(values):
        return values, indices
    for i in range(3):
        ends = spans[i]
        m.ends[i] = <const int64_t *>cnp.PyArray_DATA(ends)
        m.out[i] = cnp.PyArray_DIM(ends, 0)
        m.size[i] = size[i]
        m.step[i] = step[i]
        plane *= m.size[i]
        results *= m.out[i]
    m.size_of = 4 if kind == cnp.NPY_FLOAT else 8
    if m.size_of == 4 and plane >= 1 << 31:
        raise ValueError(f"max_pool: a plane has {plane} elements, more than can be counted for float32")
    m.taps = m.row = 0
    wide = m.pitch = (m.out[2] + LANES - 1) // LANES * LANES
    if even:
        m.taps, m.stride, m.before = even
        if m.before == 0 and m.size[2] == m.out[2] * m.stride and (m.taps - 1) * m.step[2] < m.stride:
            m.pitch = m.out[2]
        else:
            m.row = max(m.before + m.size[2], (m.taps - 1) * m.step[2] + (wide - 1) * m.stride + 1) + LANES
    m.count = cnp.PyArray_SIZE(values) // results
    m.pieces = clamp_pieces(m.count, m.count * plane // PIECE)
    m.bytes = 3 * wide + m.row + 2 * (m.size[0] * m.size[1] * m.pitch + LANES)
    if m.size[0] > 1:
        m.bytes += 2 * (m.size[0] * m.out[1] * m.pitch + LANES)
    m.bytes = (m.bytes * m.size_of + 63) // 64 * 64
    length = m.bytes * m.pieces
    scratch = fresh(1, &length, cnp.NPY_INT8)
    m.scratch = <char *>cnp.PyArray_DATA(scratch)
    m.images = <const char *>cnp.PyArray_DATA(images)
    m.values = <char *>cnp.PyArray_DATA(values)
    m.indices = <int64_t *>cnp.PyArray_DATA(indices)
    with nogil:
        parallel_for(m.pieces, 1, of_planes, &m)
    return values, indices


cdef Py_ssize_t clamp_pieces(Py_ssize_t planes, Py_ssize_t worth) noexcept nogil:
    """Into how many pieces planes are cut: each has its own scratch."""
    cdef Py_ssize_t most = min(planes, 4 * threads())
    return max(1, min(worth, most))


# ---- the adjoint ---------------------------------------------------------------------------------------------------


cdef struct Scatter:
    const char *grad
    const int64_t *indices
    char *out
    Py_ssize_t each, plane
    int size_of


cdef void add_at(const real *grad, const int64_t *indices, real *out, Py_ssize_t each, Py_ssize_t plane) noexcept nogil:
    cdef Py_ssize_t i
    memset(out, 0, plane * sizeof(real))
    for i in range(each):
        out[indices[i]] += grad[i]


cdef void add_to_planes(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Scatter *s = <Scatter *>context
    cdef Py_ssize_t i
    for i in range(begin, end):
        if s.size_of == 4:
            add_at(
                <const float *>s.grad + i * s.each, s.indices + i * s.each, <float *>s.out + i * s.plane, s.each,
                s.plane
            )
        else:
            add_at(
                <const double *>s.grad + i * s.each, s.indices + i * s.each, <double *>s.out + i * s.plane, s.each,
                s.plane
            )


def add_at_maxima(cnp.ndarray grad, cnp.ndarray indices, tuple shape, Py_ssize_t count):
    """Zeros of `shape`, `count` planes, with each element of `grad` added to its plane at its index."""
    cdef int kind = real_kind(grad)
    cdef cnp.ndarray out = new(shape, kind)
    cdef Scatter s
    if cnp.PyArray_TYPE(indices) != cnp.NPY_INT64 or not cnp.PyArray_ISCARRAY_RO(indices):
        raise ValueError("indices must be C-contiguous, int64")
    if count:
        s.grad = <const char *>cnp.PyArray_DATA(grad)
        s.indices = <const int64_t *>cnp.PyArray_DATA(indices)
        s.out = <char *>cnp.PyArray_DATA(out)
        s.each = cnp.PyArray_SIZE(grad) // count
        s.plane = cnp.PyArray_SIZE(out) // count
        s.size_of = 4 if kind == cnp.NPY_FLOAT else 8
        with nogil:
            parallel_for(count, 1 + PIECE // (s.plane + 1), add_to_planes, &s)
    return out
