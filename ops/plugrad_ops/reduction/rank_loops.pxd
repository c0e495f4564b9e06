"""One number of many by its rank (see cpu.pyx), for float32 and float64.

Quickselect (Hoare, CACM 4 (1961), 321) without branches on what is compared. Its pivots are drawn from a generator, so
that no order of the numbers is a bad one, and what equals the smallest is set apart, so that many equal ones are not.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc


cdef extern from *:
    """
    #include <stdint.h>
    enum { PG_FEW = 12 };
    #define PG_RANKED_OF(T)                                                                                       \\
    /* where the number with this rank stands, of n that are `step` bytes apart; negative ranks count from the    \\
       end, NaN are the greatest, and of equal numbers the first has the lower rank; there is room for n */       \\
    static Py_ssize_t pg_ranked_##T(const char *x, Py_ssize_t n, Py_ssize_t step, Py_ssize_t rank, void *space) { \\
        T *room = space, value = 0;                                                                               \\
        Py_ssize_t numbers = 0, low = 0, high, less, i;                                                           \\
        uint32_t state = 1;                                                                                       \\
        for (i = 0; i < n; i++) {                                                                                 \\
            const T e = *(const T *)(x + i * step);                                                               \\
            room[numbers] = e;                                                                                    \\
            numbers += e == e;                                                                                    \\
        }                                                                                                         \\
        rank += rank < 0 ? n : 0;                                                                                 \\
        if (rank >= numbers) {                                                                                    \\
            for (i = 0; i < n; i++) {                                                                             \\
                const T e = *(const T *)(x + i * step);                                                           \\
                if (e != e && rank-- == numbers) break;                                                           \\
            }                                                                                                     \\
            return i;                                                                                             \\
        }                                                                                                         \\
        for (high = numbers;;) {                                                                                  \\
            if (high - low <= PG_FEW) {     /* one after the other: how many are smaller, and how many the same? */\\
                Py_ssize_t same;                                                                                  \\
                for (Py_ssize_t k = low;; k++) {                                                                  \\
                    less = low; same = 0; value = room[k];                                                        \\
                    for (i = low; i < high; i++) { less += room[i] < value; same += room[i] == value; }           \\
                    if (less <= rank && rank < less + same) break;                                                \\
                }                                                                                                 \\
                break;                                                                                            \\
            }                                                                                                     \\
            T some[3];                                                                                            \\
            for (i = 0; i < 3; i++) {                                                                             \\
                state = state * 1664525u + 1013904223u;                                                           \\
                some[i] = room[low + (Py_ssize_t)((uint64_t)(high - low) * state >> 32)];                         \\
            }                                                                                                     \\
            value = (some[0] < some[1]) == (some[1] < some[2]) ? some[1] :                                        \\
                    (some[0] < some[1]) == (some[2] < some[0]) ? some[0] : some[2];                               \\
            less = low;                                                                                           \\
            for (i = low; i < high; i++) {                                                                        \\
                const T e = room[i]; room[i] = room[less]; room[less] = e; less += e < value; }                   \\
            if (rank < less) { high = less; continue; }                                                           \\
            if (less > low) { low = less; continue; }   /* else nothing is smaller: away with what is equal */    \\
            for (i = low; i < high; i++) {                                                                        \\
                const T e = room[i]; room[i] = room[low]; room[low] = e; low += e == value; }                     \\
            if (rank < low) break;                                                                                \\
        }                                                                                                         \\
        for (i = 0; i < n; i++)                                                                                   \\
            if (*(const T *)(x + i * step) == value && rank-- == less) break;                                     \\
        return i;                                                                                                 \\
    }
    PG_RANKED_OF(float)
    PG_RANKED_OF(double)
    """
    Py_ssize_t pg_ranked_float(
        const char *x, Py_ssize_t n, Py_ssize_t step, Py_ssize_t rank, void *space
    ) noexcept nogil
    Py_ssize_t pg_ranked_double(
        const char *x, Py_ssize_t n, Py_ssize_t step, Py_ssize_t rank, void *space
    ) noexcept nogil


cdef struct Choice:
    const char *x
    const int64_t *ranks
    char *values
    int64_t *at
    Py_ssize_t n, inner, step, outer_step, inner_step
    bint wide, failed


cdef inline void choose_chunk(void *context, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Choice *the = <Choice *>context
    cdef Py_ssize_t line, at
    cdef const char *x
    cdef void *room = malloc(the.n * 8)
    if room == NULL:
        the.failed = True
        return
    for line in range(begin, end):
        x = the.x + line // the.inner * the.outer_step + line % the.inner * the.inner_step
        if the.wide:
            at = pg_ranked_double(x, the.n, the.step, the.ranks[line], room)
            (<double *>the.values)[line] = (<const double *>(x + at * the.step))[0]
        else:
            at = pg_ranked_float(x, the.n, the.step, the.ranks[line], room)
            (<float *>the.values)[line] = (<const float *>(x + at * the.step))[0]
        the.at[line] = at
    free(room)
