# cython: boundscheck=False, wraparound=False
"""Products of matrices by the BLAS that NumPy links, called directly.

(a) numpy.dot spends some 2500 instructions beside the product, on a matrix of 64 columns as much as on the product, and
    it needs the GIL. The same function of the same library is called here.
(b) It is looked up at import (blas.h) and tried before it is used. Where there is none, callers go to numpy.dot.
(c) Sizes are passed with 64 bits. A library that takes 32 reads the lower halves, which on these processors stand where
    it looks for them; sizes that 32 bits do not hold are left to NumPy.
(d) Large products are cut into tiles of the result, which our threads share, in place of BLAS's own (why: blas.h), and
    as many of them as BLAS would use. Where its number cannot be told, BLAS is left its threads.
(e) Products with a vector are left to NumPy, too, and those of a matrix with itself: it has functions for these.
"""

cimport numpy as cnp
from libc.stdint cimport INT32_MAX, int64_t
from libc.string cimport memcpy

from plugrad.backends.parallel cimport parallel_for, threads, times_limited

cnp.import_array()

cdef extern from "blas.h" nogil:
    ctypedef void (*pg_sgemm)(
        int, int, int, int64_t, int64_t, int64_t, float, const void *, int64_t, const void *, int64_t, float, void *,
        int64_t
    ) noexcept nogil
    ctypedef void (*pg_dgemm)(
        int, int, int, int64_t, int64_t, int64_t, double, const void *, int64_t, const void *, int64_t, double, void *,
        int64_t
    ) noexcept nogil
    pg_sgemm pg_single
    pg_dgemm pg_double
    enum:
        PG_ROWS_FIRST, PG_AS_IT_IS, PG_TURNED
    void pg_look_up()
    int pg_enter(unsigned int times_limited)
    void pg_leave(unsigned int times_limited)

cdef enum:
    SHARED_FROM = 524288  # multiplications of a product that several threads share
    TILE = 16             # a multiple of which tiles are cut: what a kernel of BLAS does at a time, and a cache line


cdef bint lie(
    Matrix *matrix, char *data, Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t down, Py_ssize_t along,
    Py_ssize_t item, bint turn
) noexcept:
    """Fill `matrix` in; False where BLAS cannot read these strides, in bytes."""
    cdef bint turned = False
    if (along == item or columns == 1) and down >= columns * item and down % item == 0:
        matrix.lead = down // item
    elif (down == item or rows == 1) and along >= rows * item and along % item == 0:
        matrix.lead, turned = along // item, True
    else:
        return False
    matrix.data, matrix.turned = data, turned != turn
    matrix.rows, matrix.columns = (columns, rows) if turn else (rows, columns)
    return True


cdef bint read(cnp.ndarray array, bint turn, Matrix *matrix) noexcept:
    cdef int nd = cnp.PyArray_NDIM(array), i
    cdef Py_ssize_t item = cnp.PyArray_ITEMSIZE(array), rows = 1, columns
    if nd == 0 or not cnp.PyArray_ISBEHAVED_RO(array):
        return False
    columns = cnp.PyArray_DIM(array, nd - 1)
    if nd != 2 and not cnp.PyArray_IS_C_CONTIGUOUS(array):
        return False
    for i in range(nd - 1):
        rows *= cnp.PyArray_DIM(array, i)
    if nd != 2:
        return lie(matrix, cnp.PyArray_BYTES(array), rows, columns, columns * item, item, item, turn)
    return lie(
        matrix, cnp.PyArray_BYTES(array), rows, columns, cnp.PyArray_STRIDE(array, 0), cnp.PyArray_STRIDE(array, 1),
        item, turn
    )


cdef bint read_last(cnp.ndarray array, bint turn, Matrix *matrix) noexcept:
    cdef int nd = cnp.PyArray_NDIM(array)
    return cnp.PyArray_ISBEHAVED_RO(array) and lie(
        matrix, cnp.PyArray_BYTES(array), cnp.PyArray_DIM(array, nd - 2), cnp.PyArray_DIM(array, nd - 1),
        cnp.PyArray_STRIDE(array, nd - 2), cnp.PyArray_STRIDE(array, nd - 1), cnp.PyArray_ITEMSIZE(array), turn
    )


cdef bint fits(const Matrix *a, const Matrix *b) noexcept nogil:
    return (
        pg_single != NULL
        and a.rows > 1 and a.columns > 1 and b.columns > 1
        and a.rows <= INT32_MAX and a.columns <= INT32_MAX and b.columns <= INT32_MAX
        and a.lead <= INT32_MAX and b.lead <= INT32_MAX
        and a.data != b.data
    )


cdef void multiply_alone(
    int type_num, const Matrix *a, const Matrix *b, char *out, Py_ssize_t lead, const char *row
) noexcept nogil:
    cdef int turn_a = PG_TURNED if a.turned else PG_AS_IT_IS
    cdef int turn_b = PG_TURNED if b.turned else PG_AS_IT_IS
    cdef Py_ssize_t item = 4 if type_num == cnp.NPY_FLOAT else 8, i
    cdef int kept = 0 if row == NULL else 1  # BLAS adds to what is there, where it else would write zeros first
    if row != NULL:
        for i in range(a.rows):
            memcpy(out + i * lead * item, row, b.columns * item)
    if type_num == cnp.NPY_FLOAT:
        pg_single(
            PG_ROWS_FIRST, turn_a, turn_b, a.rows, b.columns, a.columns, 1.0, a.data, a.lead, b.data, b.lead, kept,
            out, lead
        )
    else:
        pg_double(
            PG_ROWS_FIRST, turn_a, turn_b, a.rows, b.columns, a.columns, 1.0, a.data, a.lead, b.data, b.lead, kept,
            out, lead
        )


# ---- products that threads share ------------------------------------------------------------------------------

cdef int enter_blas() noexcept nogil:
    return min(pg_enter(times_limited()), threads())


cdef void leave_blas() noexcept nogil:
    pg_leave(times_limited())


cdef struct Product:
    const Matrix *a
    const Matrix *b
    char *out
    const char *row
    int type_num
    Py_ssize_t height, width, across  # of a tile of the result, and how many of them lie side by side


cdef inline Py_ssize_t cut(Py_ssize_t n, Py_ssize_t parts) noexcept nogil:
    """How much of n falls to each part."""
    return ((n + parts - 1) // parts + TILE - 1) // TILE * TILE


cdef void lay_tiles(Product *whole, Py_ssize_t count) noexcept nogil:
    """Cut the result into `count` tiles, or somewhat fewer; of all ways the one whose tiles take the least input."""
    cdef Py_ssize_t down, height, width, least = -1
    for down in range(1, count + 1):
        if count % down == 0:
            height, width = cut(whole.a.rows, down), cut(whole.b.columns, count // down)
            if least < 0 or height + width < least:
                least, whole.height, whole.width = height + width, height, width
    whole.across = (whole.b.columns + whole.width - 1) // whole.width


cdef void multiply_tiles(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Product *whole = <Product *>context
    cdef Matrix a, b
    cdef Py_ssize_t tile, row, column, item = 4 if whole.type_num == cnp.NPY_FLOAT else 8
    for tile in range(begin, end):
        a, b = whole.a[0], whole.b[0]
        row, column = tile // whole.across * whole.height, tile % whole.across * whole.width
        a.data += row * (1 if a.turned else a.lead) * item
        b.data += column * (b.lead if b.turned else 1) * item
        a.rows, b.columns = min(whole.height, a.rows - row), min(whole.width, b.columns - column)
        multiply_alone(
            whole.type_num, &a, &b, whole.out + (row * whole.b.columns + column) * item, whole.b.columns,
            NULL if whole.row == NULL else whole.row + column * item
        )


cdef void multiply(int type_num, const Matrix *a, const Matrix *b, char *out, const char *row) noexcept nogil:
    cdef Product whole
    cdef Py_ssize_t work = a.rows * a.columns * b.columns
    cdef int count
    if work < ALONE_UP_TO:
        multiply_alone(type_num, a, b, out, b.columns, row)
        return
    count = enter_blas()
    if count < 2 or work < SHARED_FROM:
        multiply_alone(type_num, a, b, out, b.columns, row)
    else:
        whole.a, whole.b, whole.out, whole.row, whole.type_num = a, b, out, row, type_num
        lay_tiles(&whole, min(count, work // (SHARED_FROM // 2)))
        parallel_for((a.rows + whole.height - 1) // whole.height * whole.across, 1, multiply_tiles, &whole)
    leave_blas()


cdef bint works() noexcept:
    """Whether what was found multiplies: [[1, 2, 3], [4, 5, 6]] by the rows of [[1, 0, 2], [0, 1, 1]]."""
    cdef float[6] a = [1, 2, 3, 4, 5, 6]
    cdef float[6] b = [1, 0, 2, 0, 1, 1]
    cdef float[4] c = [-1, -1, -1, -1]
    cdef double[6] d
    cdef double[6] e
    cdef double[4] f = [-1, -1, -1, -1]
    cdef Matrix x, y
    cdef int i
    for i in range(6):
        d[i], e[i] = a[i], b[i]
    x.rows, x.columns, x.lead, x.turned = 2, 3, 3, False
    y.rows, y.columns, y.lead, y.turned = 3, 2, 3, True
    x.data, y.data = <char *>&a[0], <char *>&b[0]
    multiply(cnp.NPY_FLOAT, &x, &y, <char *>&c[0], NULL)
    x.data, y.data = <char *>&d[0], <char *>&e[0]
    multiply(cnp.NPY_DOUBLE, &x, &y, <char *>&f[0], NULL)
    for i in range(4):
        if c[i] != f[i]:
            return False
    return c[0] == 7 and c[1] == 5 and c[2] == 16 and c[3] == 11


def found():
    """Whether NumPy's BLAS can be called without NumPy."""
    return pg_single != NULL


pg_look_up()
if pg_single != NULL and not works():
    pg_single = NULL
