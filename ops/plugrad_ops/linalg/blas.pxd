"""Products of matrices by the BLAS that NumPy links; see blas.pyx."""

cimport numpy as cnp

# A matrix in memory: `lead` elements from one row to the next, or from one column to the next if it is `turned`.
cdef struct Matrix:
    char *data
    Py_ssize_t rows
    Py_ssize_t columns
    Py_ssize_t lead
    bint turned

# Reads an array as a matrix whose rows are all dimensions but the last; turned on request. Whether BLAS can read it so.
cdef bint read(cnp.ndarray array, bint turn, Matrix *matrix) noexcept

# The same for the last two dimensions, of which there must be two, at index 0 of the others.
cdef bint read_last(cnp.ndarray array, bint turn, Matrix *matrix) noexcept

# Whether `multiply` can do this product.
cdef bint fits(const Matrix *a, const Matrix *b) noexcept nogil

cdef enum:
    ALONE_UP_TO = 262144  # multiplications of a product to which BLAS gives one thread anyway

# out = a @ b, in C order, for the dtype of that number, float32 or float64; threads share a large one. `row`, if it is
# not NULL, is added to each row.
cdef void multiply(int type_num, const Matrix *a, const Matrix *b, char *out, const char *row) noexcept nogil

# The same in this thread, between the next two or for a product up to that size; `lead` elements from row to row.
cdef void multiply_alone(
    int type_num, const Matrix *a, const Matrix *b, char *out, Py_ssize_t lead, const char *row
) noexcept nogil

# From now on no product uses threads of BLAS. How many threads of ours may share one; 0 where BLAS will not be told.
cdef int enter_blas() noexcept nogil
cdef void leave_blas() noexcept nogil
