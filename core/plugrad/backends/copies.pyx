# cython: boundscheck=False, wraparound=False
"""Copies of arrays from one layout to another, shared between threads where they are long.

(a) Dimensions are taken in the order in which the target lies in memory, and merged where both arrays allow it. What is
    left along the nearest one is a run of neighbours, one element again and again (an expanded array), or steps.
(b) Steps are taken in tiles if another dimension of the source holds neighbours, as in a transposed array: each cache
    line is read once for all its elements.
(c) Elements of four and eight bytes in a target without gaps are copied here, everything else by NumPy.
"""

from libc.string cimport memcpy

cimport numpy as cnp
import numpy as np

cimport plugrad.backends.simd  # its macros  # no-cython-lint
from plugrad.backends.memory cimport is_dense
from plugrad.backends.parallel cimport parallel_for, threads
from plugrad.backends.recycling cimport fresh, fresh_like

cnp.import_array()

cdef extern from *:
    """
    #include <stdint.h>

    /* A block of 16 bytes by 16 is turned in registers: interleaving the first half of its rows with the second brings
       two elements of each column together, and doing so again four. Any processor has an instruction for it. */
    #if defined(__has_builtin)
    #if __has_builtin(__builtin_shufflevector)
    #define PG_SHUFFLES
    #endif
    #endif
    enum { PG_TILE = 16, PG_WIDTH_uint32_t = 4, PG_WIDTH_uint64_t = 2 };

    #ifdef PG_SHUFFLES
    typedef uint32_t pg_near_uint32_t __attribute__((vector_size(16)));
    typedef uint64_t pg_near_uint64_t __attribute__((vector_size(16)));
    #define PG_LOW_uint32_t(x, y) __builtin_shufflevector(x, y, 0, 4, 1, 5)
    #define PG_HIGH_uint32_t(x, y) __builtin_shufflevector(x, y, 2, 6, 3, 7)

    static inline void pg_block_uint32_t(char *o, const char *a, Py_ssize_t apart, Py_ssize_t step) {
        pg_near_uint32_t x[4], y[4];
        for (int k = 0; k < 4; k++) memcpy(&x[k], a + k * step, 16);
        for (int k = 0; k < 2; k++) {
            y[2 * k] = PG_LOW_uint32_t(x[k], x[k + 2]);
            y[2 * k + 1] = PG_HIGH_uint32_t(x[k], x[k + 2]);
        }
        for (int k = 0; k < 2; k++) {
            x[2 * k] = PG_LOW_uint32_t(y[k], y[k + 2]);
            x[2 * k + 1] = PG_HIGH_uint32_t(y[k], y[k + 2]);
        }
        for (int k = 0; k < 4; k++) memcpy(o + k * apart, &x[k], 16);
    }

    static inline void pg_block_uint64_t(char *o, const char *a, Py_ssize_t apart, Py_ssize_t step) {
        pg_near_uint64_t x[2], y[2];
        for (int k = 0; k < 2; k++) memcpy(&x[k], a + k * step, 16);
        y[0] = __builtin_shufflevector(x[0], x[1], 0, 2);
        y[1] = __builtin_shufflevector(x[0], x[1], 1, 3);
        for (int k = 0; k < 2; k++) memcpy(o + k * apart, &y[k], 16);
    }
    #else
    #define PG_BLOCK(T)                                                                                              \
        static void pg_block_##T(char *o, const char *a, Py_ssize_t apart, Py_ssize_t step) {                        \
            for (int k = 0; k < PG_WIDTH_##T; k++)                                                                   \
                for (int m = 0; m < PG_WIDTH_##T; m++)                                                               \
                    memcpy(o + m * apart + k * sizeof(T), a + k * step + m * sizeof(T), sizeof(T)); }
    PG_BLOCK(uint32_t)
    PG_BLOCK(uint64_t)
    #endif

    #define PG_COPIES(T)                                                                                             \
        PG_VECTOR_EXACT static void pg_fill_##T(void *o, const void *a, Py_ssize_t n) {                              \
            T *out = (T *)o; const T x = *(const T *)a;                                                              \
            for (Py_ssize_t i = 0; i < n; i++) out[i] = x; }                                                         \
        static void pg_gather_##T(void *o, const char *a, Py_ssize_t n, Py_ssize_t step) {                           \
            T *out = (T *)o;                                                                                         \
            for (Py_ssize_t i = 0; i < n; i++) out[i] = *(const T *)(a + i * step); }                                \
        /* rows of n neighbours, `apart` bytes from one to the next, from columns of neighbours `step` apart */      \
        static void pg_turn_##T(                                                                                     \
            char *o, const char *a, Py_ssize_t rows, Py_ssize_t n, Py_ssize_t apart, Py_ssize_t step                 \
        ) {                                                                                                          \
            const int width = PG_WIDTH_##T;                                                                          \
            Py_ssize_t i, j = 0, k;                                                                                  \
            for (; j + PG_TILE <= n; j += PG_TILE, o += PG_TILE * sizeof(T), a += PG_TILE * step) {                  \
                for (i = 0; i + width <= rows; i += width)                                                           \
                    for (k = 0; k < PG_TILE; k += width)                                                             \
                        pg_block_##T(o + i * apart + k * sizeof(T), a + k * step + i * sizeof(T), apart, step);      \
                for (; i < rows; i++)                                                                                \
                    pg_gather_##T(o + i * apart, a + i * sizeof(T), PG_TILE, step);                                  \
            }                                                                                                        \
            for (i = 0; i < rows; i++)                                                                               \
                pg_gather_##T(o + i * apart, a + i * sizeof(T), n - j, step); }
    PG_COPIES(uint32_t)
    PG_COPIES(uint64_t)
    """
    void pg_fill_uint32_t(void *o, const void *a, Py_ssize_t n) noexcept nogil
    void pg_fill_uint64_t(void *o, const void *a, Py_ssize_t n) noexcept nogil
    void pg_gather_uint32_t(void *o, const char *a, Py_ssize_t n, Py_ssize_t step) noexcept nogil
    void pg_gather_uint64_t(void *o, const char *a, Py_ssize_t n, Py_ssize_t step) noexcept nogil
    void pg_turn_uint32_t(
        char *o, const char *a, Py_ssize_t rows, Py_ssize_t n, Py_ssize_t apart, Py_ssize_t step
    ) noexcept nogil
    void pg_turn_uint64_t(
        char *o, const char *a, Py_ssize_t rows, Py_ssize_t n, Py_ssize_t apart, Py_ssize_t step
    ) noexcept nogil

cdef enum:
    MOST_DIMS = 64
    GRAIN = 16_384   # elements that are worth another thread
    # Rows that a piece turns at a time, so that it reads a kilobyte and more of each column; fewer where threads would
    # have nothing to do.
    BAND = 256
    LEAST_BAND = 64

# Dimensions from the nearest in the target's memory to the farthest.
cdef struct Walk:
    int nd
    Py_ssize_t[64] n
    Py_ssize_t[64] step_out     # in bytes
    Py_ssize_t[64] step_in
    Py_ssize_t size             # of an element
    Py_ssize_t band             # rows
    char *out
    const char *source


cdef bint plan(Walk *the, cnp.ndarray out, cnp.ndarray array):
    """Fill `the`; False where this is for NumPy."""
    cdef int nd = cnp.PyArray_NDIM(out), skipped = nd - cnp.PyArray_NDIM(array), d, i, at = 0
    cdef Py_ssize_t n, step_out, step_in
    cdef int code = cnp.PyArray_TYPE(out)
    the.size = cnp.PyArray_ITEMSIZE(out)
    if (
        code != cnp.PyArray_TYPE(array) or not cnp.PyTypeNum_ISNUMBER(code) or (the.size != 4 and the.size != 8)
        or not cnp.PyArray_ISBEHAVED(out) or not cnp.PyArray_ISBEHAVED_RO(array) or skipped < 0 or not is_dense(out)
    ):
        return False
    for d in range(nd - 1, -1, -1):
        n = cnp.PyArray_DIM(out, d)
        if n == 1:
            continue
        step_out, step_in = cnp.PyArray_STRIDE(out, d), 0
        if d >= skipped:
            if cnp.PyArray_DIM(array, d - skipped) == n:
                step_in = cnp.PyArray_STRIDE(array, d - skipped)
            elif cnp.PyArray_DIM(array, d - skipped) != 1:
                return False
        i = at
        while i > 0 and the.step_out[i - 1] > step_out:
            the.n[i], the.step_out[i], the.step_in[i] = the.n[i - 1], the.step_out[i - 1], the.step_in[i - 1]
            i -= 1
        the.n[i], the.step_out[i], the.step_in[i] = n, step_out, step_in
        at += 1
    nd = 0
    for i in range(at):
        if nd and the.step_in[i] == the.step_in[nd - 1] * the.n[nd - 1]:
            the.n[nd - 1] *= the.n[i]  # the target has no gaps, so that its steps fit
        else:
            the.n[nd], the.step_out[nd], the.step_in[nd] = the.n[i], the.step_out[i], the.step_in[i]
            nd += 1
    the.nd = nd
    the.out, the.source = cnp.PyArray_BYTES(out), cnp.PyArray_BYTES(array)
    return True


cdef inline void run(const Walk *the, char *out, const char *source, Py_ssize_t n) noexcept nogil:
    """n elements of the nearest dimension."""
    if the.step_in[0] == the.size:
        memcpy(out, source, n * the.size)
    elif the.step_in[0] == 0:
        if the.size == 4:
            pg_fill_uint32_t(out, source, n)
        else:
            pg_fill_uint64_t(out, source, n)
    elif the.size == 4:
        pg_gather_uint32_t(out, source, n, the.step_in[0])
    else:
        pg_gather_uint64_t(out, source, n, the.step_in[0])


cdef inline void start(const Walk *the, Py_ssize_t place, int first, char **out, const char **source) noexcept nogil:
    """Where index `place` of the dimensions from `first` on, counted through, begins."""
    cdef int d
    for d in range(first, the.nd):
        out[0] += place % the.n[d] * the.step_out[d]
        source[0] += place % the.n[d] * the.step_in[d]
        place //= the.n[d]


cdef void elements(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Walk *the = <Walk *>context
    run(the, the.out + begin * the.size, the.source + begin * the.step_in[0], end - begin)


cdef void rows(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Walk *the = <Walk *>context
    cdef Py_ssize_t i
    cdef char *out
    cdef const char *source
    for i in range(begin, end):
        out, source = the.out, the.source
        start(the, i, 1, &out, &source)
        run(the, out, source, the.n[0])


cdef void bands(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """Bands of rows along dimension 1, in which the source has its neighbours."""
    cdef Walk *the = <Walk *>context
    cdef Py_ssize_t many = (the.n[1] + the.band - 1) // the.band, i, at, height
    cdef char *out
    cdef const char *source
    for i in range(begin, end):
        out, source = the.out, the.source
        start(the, i // many, 2, &out, &source)
        at = i % many * the.band
        height = min(the.band, the.n[1] - at)
        out += at * the.step_out[1]
        source += at * the.size
        if the.size == 4:
            pg_turn_uint32_t(out, source, height, the.n[0], the.step_out[1], the.step_in[0])
        else:
            pg_turn_uint64_t(out, source, height, the.n[0], the.step_out[1], the.step_in[0])


cdef bint bring_neighbours_near(Walk *the) noexcept:
    """Make the dimension in which the source has neighbours number 1; False if it has none."""
    cdef int d, k
    cdef Py_ssize_t n, step_out, step_in
    for d in range(1, the.nd):
        if the.step_in[d] == the.size:
            n, step_out, step_in = the.n[d], the.step_out[d], the.step_in[d]
            for k in range(d, 1, -1):
                the.n[k], the.step_out[k], the.step_in[k] = the.n[k - 1], the.step_out[k - 1], the.step_in[k - 1]
            the.n[1], the.step_out[1], the.step_in[1] = n, step_out, step_in
            return True
    return False


cdef int copy_over(cnp.ndarray out, cnp.ndarray array) except -1:
    cdef Walk the
    cdef Py_ssize_t total = cnp.PyArray_SIZE(out), others
    if total == 0 or not plan(&the, out, array):
        return cnp.PyArray_CopyInto(out, array)
    if the.nd == 0:
        memcpy(the.out, the.source, the.size)
    elif the.nd == 1:
        with nogil:
            parallel_for(total, GRAIN, elements, &the)
    elif the.step_in[0] == the.size or the.step_in[0] == 0 or not bring_neighbours_near(&the):
        with nogil:
            parallel_for(total // the.n[0], GRAIN // the.n[0] + 1, rows, &the)
    else:
        others = total // (the.n[0] * the.n[1])
        the.band = BAND
        while the.band > LEAST_BAND and the.n[1] * others < 4 * threads() * the.band:
            the.band //= 2
        with nogil:
            parallel_for(
                (the.n[1] + the.band - 1) // the.band * others, GRAIN // (the.band * the.n[0]) + 1, bands, &the
            )
    return 0


# ---- layouts -------------------------------------------------------------------------------------------------

cdef bint is_flat(cnp.ndarray array) noexcept:
    return cnp.PyArray_IS_C_CONTIGUOUS(array) or is_dense(array)


cdef bint lie_alike(cnp.ndarray x, cnp.ndarray y) noexcept:
    cdef Py_ssize_t size_x = cnp.PyArray_ITEMSIZE(x), size_y = cnp.PyArray_ITEMSIZE(y)
    cdef int i
    if cnp.PyArray_IS_C_CONTIGUOUS(x) and cnp.PyArray_IS_C_CONTIGUOUS(y):
        return True
    for i in range(cnp.PyArray_NDIM(x)):
        if cnp.PyArray_DIM(x, i) > 1:
            if cnp.PyArray_STRIDE(x, i) * size_y != cnp.PyArray_STRIDE(y, i) * size_x:
                return False
    return True


cdef cnp.ndarray flat(cnp.ndarray array):
    if is_flat(array):
        return array
    return cnp.PyArray_NewCopy(array, cnp.NPY_KEEPORDER)


cdef cnp.ndarray copy_in_order(cnp.ndarray array):
    cdef cnp.ndarray out = fresh(cnp.PyArray_NDIM(array), cnp.PyArray_DIMS(array), cnp.PyArray_TYPE(array))
    copy_over(out, array)
    return out


cdef cnp.ndarray copy_laid_out_as(cnp.ndarray array, cnp.ndarray x):
    cdef cnp.ndarray out = fresh_like(x, cnp.PyArray_TYPE(array))
    copy_over(out, array)
    return out


cdef cnp.ndarray contiguous(cnp.ndarray array):
    return array if cnp.PyArray_ISCARRAY_RO(array) else copy_in_order(array)


def in_c_order(object array, object dtype=None):
    """An array as it is, or a copy if it has to be: in C order, aligned and of `dtype`, as compiled functions take it.

    `numpy.ascontiguousarray` lets an array pass that begins between two elements' places.
    """
    cdef cnp.ndarray found = array
    if dtype is not None:
        found = found.astype(dtype, order="K", copy=False)
    return contiguous(found)


def copied(object array, object shape=None):
    """A copy in C order that owns its memory, under `shape` where one is given; of a NumPy scalar, too."""
    cdef cnp.ndarray source = np.asarray(array), out
    cdef cnp.npy_intp[MOST_DIMS] dims
    cdef int nd = cnp.PyArray_NDIM(source), d
    if shape is None:
        shape = (<object>source).shape
    if cnp.PyTypeNum_ISNUMBER(cnp.PyArray_TYPE(source)):
        nd = len(shape)
        for d in range(nd):
            dims[d] = shape[d]
        out = fresh(nd, dims, cnp.PyArray_TYPE(source))
    else:
        out = np.empty(shape, source.dtype)
    copy_over(out.reshape((<object>source).shape), source)
    return out


def copied_alike(object array):
    """A copy that owns its memory, laid out as the array is where that has no gaps or overlaps."""
    cdef cnp.ndarray source = np.asarray(array)
    if not cnp.PyTypeNum_ISNUMBER(cnp.PyArray_TYPE(source)) or not is_flat(source):
        return source.copy("K")
    return copy_laid_out_as(source, source)


cdef cnp.ndarray laid_out_as(cnp.ndarray array, cnp.ndarray x):
    if cnp.PyArray_SAMESHAPE(array, x) and lie_alike(array, x) and cnp.PyArray_ISBEHAVED_RO(array):
        return array
    return copy_laid_out_as(array, x)
