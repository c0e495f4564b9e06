"""Reductions over any dimensions of an array of any layout; see reducing.pyx."""

cimport numpy as cnp

cdef enum:
    MOST_DIMS = 66  # NumPy's, and the two parts of complex numbers
    TILE = 1024     # results that are worked on together; a page of float32

cdef extern from *:
    """
    typedef struct {
        int fields;
        double start;
        void (*along)(const void *, Py_ssize_t, Py_ssize_t, Py_ssize_t, const double *, double *, Py_ssize_t);
        void (*across)(const void *, Py_ssize_t, Py_ssize_t, Py_ssize_t, const double *, double *, Py_ssize_t);
        void (*join)(double *, const double *, Py_ssize_t, Py_ssize_t);
    } pg_reduction;
    typedef struct {
        void (*along)(const void *, void *, Py_ssize_t, double, double);
        void (*across)(const void *, void *, Py_ssize_t, const void *, const void *);
        int wide;
    } pg_slopes;
    """
    # The loops of a reduction of numbers of one type. A result has `fields` doubles of state, each in a plane of its
    # own, `apart` doubles from the one before. `given` has a number for each result, or is NULL.
    ctypedef struct Loops "pg_reduction":
        int fields
        double start    # what states begin with
        # n neighbours into one state, for each of `lines` runs of them
        void (*along)(
            const void *x, Py_ssize_t n, Py_ssize_t lines, Py_ssize_t step, const double *given, double *states,
            Py_ssize_t apart
        ) noexcept nogil
        # rows of n neighbours into n states
        void (*across)(
            const void *x, Py_ssize_t rows, Py_ssize_t step, Py_ssize_t n, const double *given, double *states,
            Py_ssize_t apart
        ) noexcept nogil
        # states of a later part onto those of an earlier one
        void (*join)(double *states, const double *later, Py_ssize_t n, Py_ssize_t apart) noexcept nogil

    # The loops of a function of an element and two numbers, a and b, of its result.
    ctypedef struct Slopes "pg_slopes":
        # neighbours of one result, and of n results
        void (*along)(const void *x, void *out, Py_ssize_t n, double a, double b) noexcept nogil
        void (*across)(const void *x, void *out, Py_ssize_t n, const void *a, const void *b) noexcept nogil
        bint wide       # whether a and b of n results are doubles, not of the elements' type

# What is made of the states of `n` results, the first of which has number `first`, the next first + step, ...
ctypedef void (*Finish)(
    void *context, const double *states, Py_ssize_t apart, Py_ssize_t first, Py_ssize_t step, Py_ssize_t n
) noexcept nogil

cdef struct Dim:
    Py_ssize_t n, step, place   # length; bytes of the array; results (0 where it is reduced)

cdef struct Walk:
    Py_ssize_t size             # bytes of an element
    Py_ssize_t count            # elements of a result
    bint along                  # whether neighbours in memory are of one result
    Dim rows                    # reduced; innermost if `along`
    Dim lanes                   # kept; innermost if not
    int reduced, kept           # how many others there are, from the farthest apart in memory to the nearest
    Dim[66] over
    Dim[66] at
    Py_ssize_t places           # of `at`, together
    const char *factor          # an array that lies as this one does, both without gaps: products are reduced; or NULL
    const char *first           # where this one starts, if so

# How an array is reduced over the dimensions that are marked. A complex array is one of its parts.
cdef void plan(Walk *walk, cnp.ndarray x, const bint *summed) noexcept

# False where there was no memory. The states of results go to `finish`.
cdef bint reduce(
    const Walk *walk, const Loops *loops, const char *x, const double *given, Finish finish, void *context
) noexcept nogil

# The same, and then out = f(x, a, b), where `finish` has put a and b (doubles, one per result; a may be NULL).
# `out` lies as x does. Without loops, a and b are there already.
cdef bint reduce_and_spread(
    const Walk *walk, const Loops *loops, const char *x, const double *given, Finish finish, void *context,
    const Slopes *slopes, const double *a, const double *b, char *out
) noexcept nogil

# Marks the dimensions that `dim` names; False where it is none of None, an integer and a tuple of those, in range.
cdef bint mark(object dim, int nd, bint *summed) except -1

# A new array for results.
cdef cnp.ndarray results(cnp.ndarray x, const bint *summed, bint keep, int type_num)
