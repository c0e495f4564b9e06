"""C loops over contiguous arrays, and the kernels that choose between such a loop and NumPy."""

cimport numpy as cnp
cimport plugrad.backends.simd  # its macros  # no-cython-lint
from plugrad.graph.op cimport Kernel


cdef extern from *:
    """
    /* A loop is written once, as an expression in x (and y) of the type `real`; these macros make the float
       and the double version of it, each for several generations of processors. */
    #include <math.h>
    #include <string.h>
    #define PG_LOOP PG_VECTOR static void

    typedef void (*pg_unary)(const void *, void *, Py_ssize_t);
    typedef void (*pg_binary)(const void *, const void *, void *, Py_ssize_t);
    /* [0] float, [1] double */
    typedef struct { pg_unary of[2]; } pg_unary_loops;
    /* array-array, array-number, number-array */
    typedef struct { pg_binary arrays[2], right_number[2], left_number[2]; } pg_binary_loops;

    /* PG_WIDE elements at a time, the last ones padded: one body without remainder loops takes a third of the code,
       and an element gets the same bits wherever it stands. Unrolled first, a body with a choice in it stays scalar. */
    enum { PG_WIDE = 16 };
    #if defined(__GNUC__)
    #define PG_EACH _Pragma("GCC ivdep") _Pragma("GCC unroll 1") for (int i = 0; i < PG_WIDE; i++)
    #define PG_APART __attribute__((noinline, unused)) static
    #else
    #define PG_EACH for (int i = 0; i < PG_WIDE; i++)
    #define PG_APART static
    #endif

    /* n < PG_WIDE elements, and the first again and again; gives `pad`. */
    PG_APART void *pg_padded(void *pad, const void *from, Py_ssize_t n, size_t size) {
        memcpy(pad, from, n * size);
        for (; n < PG_WIDE; n++)
            memcpy((char *)pad + n * size, from, size);
        return pad;
    }

    #define PG_UNARY_OF(name, T, expr)                                              \\
        PG_LOOP name##_##T(const void *pa, void *po, Py_ssize_t n) {                \\
            typedef T real;                                                         \\
            const real *a = (const real *)pa; real *o = (real *)po;                 \\
            real pad[PG_WIDE], last[PG_WIDE];                                       \\
            for (; n > 0; n -= PG_WIDE, a += PG_WIDE, o += PG_WIDE) {               \\
                real *restrict to = n < PG_WIDE ? last : o;                         \\
                if (n < PG_WIDE) a = (const real *)pg_padded(pad, a, n, sizeof(real)); \\
                PG_EACH { const real x = a[i]; to[i] = (real)(expr); }              \\
                if (n < PG_WIDE) { memcpy(o, last, n * sizeof(real)); return; } } }

    #define PG_BINARY_OF(name, T, OUT, expr)                                        \\
        PG_STREAM static void name##_vv_##T(const void *pa, const void *pb, void *po, Py_ssize_t n) { \\
            typedef T real;                                                         \\
            const real *a = (const real *)pa, *b = (const real *)pb; OUT *restrict o = (OUT *)po; \\
            for (Py_ssize_t i = 0; i < n; i++) { const real x = a[i], y = b[i]; o[i] = (OUT)(expr); } } \\
        PG_STREAM static void name##_vs_##T(const void *pa, const void *pb, void *po, Py_ssize_t n) { \\
            typedef T real;                                                         \\
            const real *a = (const real *)pa; const real y = *(const real *)pb; OUT *restrict o = (OUT *)po; \\
            for (Py_ssize_t i = 0; i < n; i++) { const real x = a[i]; o[i] = (OUT)(expr); } } \\
        PG_STREAM static void name##_sv_##T(const void *pa, const void *pb, void *po, Py_ssize_t n) { \\
            typedef T real;                                                         \\
            const real x = *(const real *)pa, *b = (const real *)pb; OUT *restrict o = (OUT *)po; \\
            for (Py_ssize_t i = 0; i < n; i++) { const real y = b[i]; o[i] = (OUT)(expr); } }

    #define PG_UNARY(name, expr)                                                    \\
        PG_UNARY_OF(name, float, expr) PG_UNARY_OF(name, double, expr)              \\
        static const pg_unary_loops name = {{name##_float, name##_double}};

    #define PG_TABLE(name)                                                          \\
        static const pg_binary_loops name = {{name##_vv_float, name##_vv_double},   \\
            {name##_vs_float, name##_vs_double}, {name##_sv_float, name##_sv_double}};

    #define PG_BINARY(name, expr)                                                   \\
        PG_BINARY_OF(name, float, float, expr) PG_BINARY_OF(name, double, double, expr) PG_TABLE(name)

    #define PG_COMPARE(name, expr)                                                  \\
        PG_BINARY_OF(name, float, npy_bool, expr) PG_BINARY_OF(name, double, npy_bool, expr) PG_TABLE(name)

    /* functions of the C library by the type of their argument */
    #define PG_F(name, x) _Generic((x), float: name##f, default: name)(x)
    """
    ctypedef void (*pg_unary)(const void *, void *, Py_ssize_t) noexcept nogil
    ctypedef void (*pg_binary)(const void *, const void *, void *, Py_ssize_t) noexcept nogil
    ctypedef struct pg_unary_loops:
        pg_unary[2] of
    ctypedef struct pg_binary_loops:
        pg_binary[2] arrays
        pg_binary[2] right_number
        pg_binary[2] left_number


cdef class Unary(Kernel):
    cdef Kernel otherwise
    cdef const pg_unary_loops *loops
    cdef Py_ssize_t limit


cdef class Binary(Kernel):
    cdef Kernel otherwise
    cdef const pg_binary_loops *loops
    cdef int out_type
    cdef cnp.ndarray new(self, cnp.ndarray like)
    cdef cnp.ndarray arrays(self, cnp.ndarray x, cnp.ndarray y, int kind)
    cdef cnp.ndarray with_number(self, cnp.ndarray x, double number, int kind, pg_binary loop, bint left)
    cdef cnp.ndarray with_value(self, cnp.ndarray x, const char *value, pg_binary loop, bint left)
    cdef object broadcast(self, cnp.ndarray x, cnp.ndarray y, int kind)
    cdef object repeat(self, cnp.ndarray x, cnp.ndarray y, int kind)
    cdef cnp.ndarray rows(
        self, cnp.ndarray whole, cnp.ndarray x, cnp.ndarray y, pg_binary loop, Py_ssize_t row, bint tail
    )


cdef Unary unary(object function, const pg_unary_loops *loops, Py_ssize_t limit=*)
cdef Binary binary(object function, const pg_binary_loops *loops, int out_type=*)

# What kernels of other forms need too.
cdef bint as_number(object value, double *number) except -1
cdef Kernel numpy_kernel(object function)
