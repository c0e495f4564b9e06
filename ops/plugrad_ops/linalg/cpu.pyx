# cython: boundscheck=False, wraparound=False
"""What LAPACK does and NumPy does not offer: substitution, and Gaussian elimination that keeps its factors.

(a) Both work in place on stacks of small blocks, row by row, so that the innermost loop runs along memory and
    vectorises. The callers cut large matrices into such blocks and leave the rest to `numpy.matmul`.
(b) Rows have unit stride; the other strides are free.
"""

ctypedef fused real:
    float
    double


def exchange(const long long[:, :] pivots, long long[:, ::1] order, Py_ssize_t start, bint inverse):
    """Write which row comes to each place once row ``start + i`` was exchanged with row ``pivots[i]``, in turn.

    Parameters
    ----------
    pivots : (stack, steps)
        Counted from 0.
    order : (stack, rows)
    inverse : bool
        Undo the exchanges instead: to which place each row comes.

    Raises
    ------
    IndexError
        There are more exchanges than rows, or a pivot is no row.
    """
    cdef Py_ssize_t stack = order.shape[0], rows = order.shape[1], steps = pivots.shape[1]
    cdef Py_ssize_t s, i, step
    cdef long long other, row
    if start + steps > rows:
        raise IndexError(f"{start + steps} pivots are too many for {rows} rows")
    for s in range(stack):
        for i in range(steps):
            if not 0 <= pivots[s, i] < rows:
                raise IndexError(f"the pivot {pivots[s, i] + 1} is none of {rows} rows, counted from 1")
    with nogil:
        for s in range(stack):
            for i in range(rows):
                order[s, i] = i
            for step in range(steps):
                i = steps - 1 - step if inverse else step
                other = pivots[s, i]
                row = order[s, start + i]
                order[s, start + i] = order[s, other]
                order[s, other] = row


def substitute(const real[:, :, :] matrix, real[:, :, ::1] right, bint upper, bint unit):
    """Solve ``matrix @ x = right`` for triangular matrices; x is written over `right`.

    Parameters
    ----------
    matrix : (stack, n, n)
        Only the triangle is read, and its diagonal only if not `unit`, when it counts as ones.
    right : (stack, n, k)
    """
    cdef Py_ssize_t stack = matrix.shape[0], n = matrix.shape[1], width = right.shape[2]
    cdef Py_ssize_t s, step, i, j, c
    cdef real factor
    with nogil:
        for s in range(stack):
            for step in range(n):
                i = n - 1 - step if upper else step
                for j in range(i + 1 if upper else 0, n if upper else i):
                    factor = matrix[s, i, j]
                    if factor != 0:
                        for c in range(width):
                            right[s, i, c] -= factor * right[s, j, c]
                if not unit:
                    factor = matrix[s, i, i]
                    for c in range(width):
                        right[s, i, c] /= factor


def eliminate(real[:, :, :] matrix, int[:, ::1] pivots, int[::1] info):
    """Factor ``P @ matrix = L @ U`` with partial pivoting; both factors are written over `matrix`.

    Parameters
    ----------
    matrix : (stack, m, n)
    pivots : (stack, min(m, n))
        Row i was exchanged with row ``pivots[i]``, counted from 0.
    info : (stack,)
        Gets the number, from 1, of the first pivot that is zero; stays as it is where there is none.
    """
    cdef Py_ssize_t stack = matrix.shape[0], m = matrix.shape[1], n = matrix.shape[2]
    cdef Py_ssize_t s, k, i, j, best
    cdef real largest, size, factor
    with nogil:
        for s in range(stack):
            for k in range(min(m, n)):
                best = k
                largest = -1
                for i in range(k, m):
                    size = matrix[s, i, k] if matrix[s, i, k] >= 0 else -matrix[s, i, k]
                    if size > largest or size != size:
                        best, largest = i, size
                        if size != size:
                            break
                pivots[s, k] = <int>best
                if best != k:
                    for j in range(n):
                        factor = matrix[s, k, j]
                        matrix[s, k, j] = matrix[s, best, j]
                        matrix[s, best, j] = factor
                if matrix[s, k, k] == 0:
                    if info[s] == 0:
                        info[s] = <int>(k + 1)
                    continue
                for i in range(k + 1, m):
                    factor = matrix[s, i, k] / matrix[s, k, k]
                    matrix[s, i, k] = factor
                    if factor != 0:
                        for j in range(k + 1, n):
                            matrix[s, i, j] -= factor * matrix[s, k, j]
