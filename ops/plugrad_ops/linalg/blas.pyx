# cython: boundscheck=False, wraparound=False
"""Products of matrices by the BLAS that NumPy links, called directly.

(a) numpy.dot spends some 2500 instructions beside the product, on a matrix of 64 columns as much as on the product, and
    it needs the GIL. The same function of the same library is called here, with the threads that NumPy would use.
(b) It is looked up in the libraries that NumPy's extension module was linked with, under the names that builds of NumPy
    give it. It is tried before it is used. Where there is none, callers go to numpy.dot.
(c) Sizes are passed with 64 bits. A library that takes 32 reads the lower halves, which on these processors stand where
    it looks for them; sizes that 32 bits do not hold are left to NumPy.
(d) Products with a vector are left to NumPy, too, and those of a matrix with itself: it has functions for these.
"""

cimport numpy as cnp
from libc.stdint cimport INT32_MAX, int64_t

cnp.import_array()

cdef extern from *:
    """
    #include <stdint.h>

    typedef void (*pg_sgemm)(int order, int turn_a, int turn_b, int64_t m, int64_t n, int64_t k, float alpha,
                             const void *a, int64_t lda, const void *b, int64_t ldb, float beta, void *c, int64_t ldc);
    typedef void (*pg_dgemm)(int order, int turn_a, int turn_b, int64_t m, int64_t n, int64_t k, double alpha,
                             const void *a, int64_t lda, const void *b, int64_t ldb, double beta, void *c, int64_t ldc);
    static pg_sgemm pg_single = NULL;
    static pg_dgemm pg_double = NULL;
    enum { PG_ROWS_FIRST = 101, PG_AS_IT_IS = 111, PG_TURNED = 112 };

    #if defined(__GNUC__) && !defined(_WIN32) && (defined(__x86_64__) || defined(__aarch64__))
    #include <dlfcn.h>

    static void pg_look_up(void)
    {
        static const char *const names[][2] = {
            {"scipy_cblas_sgemm64_", "scipy_cblas_dgemm64_"}, {"cblas_sgemm64_", "cblas_dgemm64_"},
            {"scipy_cblas_sgemm", "scipy_cblas_dgemm"},       {"cblas_sgemm", "cblas_dgemm"},
            {"cblas_sgemm$NEWLAPACK$ILP64", "cblas_dgemm$NEWLAPACK$ILP64"},
            {"cblas_sgemm$NEWLAPACK", "cblas_dgemm$NEWLAPACK"}};
        Dl_info numpy;
        void *library;
        size_t i;
        if (!dladdr((void *)PyArray_API[0], &numpy) || !numpy.dli_fname)
            return;
        library = dlopen(numpy.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        if (!library)
            return;
        for (i = 0; i < sizeof names / sizeof *names && !pg_single; i++) {
            void *single = dlsym(library, names[i][0]), *twice = dlsym(library, names[i][1]);
            if (single && twice) {
                pg_single = (pg_sgemm)single;
                pg_double = (pg_dgemm)twice;
            }
        }
        dlclose(library);  /* NumPy holds it */
    }
    #else
    static void pg_look_up(void) {}
    #endif
    """
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


cdef void multiply(int type_num, const Matrix *a, const Matrix *b, char *out) noexcept nogil:
    cdef int turn_a = PG_TURNED if a.turned else PG_AS_IT_IS
    cdef int turn_b = PG_TURNED if b.turned else PG_AS_IT_IS
    if type_num == cnp.NPY_FLOAT:
        pg_single(
            PG_ROWS_FIRST, turn_a, turn_b, a.rows, b.columns, a.columns, 1.0, a.data, a.lead, b.data, b.lead, 0.0,
            out, b.columns
        )
    else:
        pg_double(
            PG_ROWS_FIRST, turn_a, turn_b, a.rows, b.columns, a.columns, 1.0, a.data, a.lead, b.data, b.lead, 0.0,
            out, b.columns
        )


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
    multiply(cnp.NPY_FLOAT, &x, &y, <char *>&c[0])
    x.data, y.data = <char *>&d[0], <char *>&e[0]
    multiply(cnp.NPY_DOUBLE, &x, &y, <char *>&f[0])
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
