"""C loops over up to four operands, and the kernels that run them; see nary.pyx."""

from cpython.object cimport PyObject
from plugrad.graph.op cimport Kernel
cimport plugrad_ops.loops  # its macros  # no-cython-lint


cdef extern from *:
    """
    /* A loop is an expression in x, y, z and w of the type `real`, the operands in their order. Each operand is an
       array of n elements here; numbers are repeated before. In PG_CHOICE x is a boolean. */
    typedef void (*pg_nary)(const void *const *, void *, Py_ssize_t);
    typedef struct { pg_nary of[2]; int arity, choice; } pg_nary_loops;

    #define PG_NARY_OF(name, T, names, expr)                                            \\
        PG_LOOP name##_##T(const void *const *in, void *out, Py_ssize_t n) {            \\
            typedef T real;                                                             \\
            const real *a = (const real *)in[0]; real *o = (real *)out;                 \\
            real first[PG_WIDE], pad[3][PG_WIDE], last[PG_WIDE];                         \\
            names(real)                                                                 \\
            for (; n > 0; n -= PG_WIDE, a += PG_WIDE, names##_NEXT, o += PG_WIDE) {     \\
                real *restrict to = n < PG_WIDE ? last : o;                             \\
                if (n < PG_WIDE) {                                                      \\
                    a = (const real *)pg_padded(first, a, n, sizeof(real)); names##_PADDED; }   \\
                PG_EACH { const real x = a[i]; names##_AT; to[i] = (real)(expr); }         \\
                if (n < PG_WIDE) { memcpy(o, last, n * sizeof(real)); return; } } }

    #define PG_PADDED(p, k) p = (const real *)pg_padded(pad[k], p, n, sizeof(real))
    #define PG_Y(T) const T *b = (const T *)in[1];
    #define PG_Y_AT const real y = b[i]
    #define PG_Y_NEXT b += PG_WIDE
    #define PG_Y_PADDED PG_PADDED(b, 0)
    #define PG_YZ(T) PG_Y(T) const T *c = (const T *)in[2];
    #define PG_YZ_AT PG_Y_AT, z = c[i]
    #define PG_YZ_NEXT PG_Y_NEXT, c += PG_WIDE
    #define PG_YZ_PADDED PG_Y_PADDED; PG_PADDED(c, 1)
    #define PG_YZW(T) PG_YZ(T) const T *d = (const T *)in[3];
    #define PG_YZW_AT PG_YZ_AT, w = d[i]
    #define PG_YZW_NEXT PG_YZ_NEXT, d += PG_WIDE
    #define PG_YZW_PADDED PG_YZ_PADDED; PG_PADDED(d, 2)

    #define PG_NARY(name, names, arity, expr)                                           \\
        PG_NARY_OF(name, float, names, expr) PG_NARY_OF(name, double, names, expr)      \\
        static const pg_nary_loops name = {{name##_float, name##_double}, arity, 0};

    #define PG_TWO(name, expr) PG_NARY(name, PG_Y, 2, expr)
    #define PG_THREE(name, expr) PG_NARY(name, PG_YZ, 3, expr)
    #define PG_FOUR(name, expr) PG_NARY(name, PG_YZW, 4, expr)
    /* Of two operands; a block in which `fits` does not hold of all is left to the expression `otherwise`. */
    #define PG_TWO_GUARDED_OF(name, T, fits, expr, otherwise)                           \\
        PG_LOOP name##_##T(const void *const *in, void *out, Py_ssize_t n) {            \\
            typedef T real;                                                             \\
            const real *a = (const real *)in[0], *b = (const real *)in[1]; real *restrict o = (real *)out; \\
            for (Py_ssize_t begin = 0, end; begin < n; begin = end) {                   \\
                end = n - begin < 256 ? n : begin + 256;                                \\
                int far = 0;                                                            \\
                for (Py_ssize_t i = begin; i < end; i++) { const real x = a[i], y = b[i]; far |= !(fits); } \\
                if (far) for (Py_ssize_t i = begin; i < end; i++) {                     \\
                    const real x = a[i], y = b[i]; o[i] = (real)(otherwise); }          \\
                else for (Py_ssize_t i = begin; i < end; i++) {                         \\
                    const real x = a[i], y = b[i]; o[i] = (real)(expr); } } }
    #define PG_TWO_GUARDED(name, fits, expr, otherwise)                                 \\
        PG_TWO_GUARDED_OF(name, float, fits, expr, otherwise)                           \\
        PG_TWO_GUARDED_OF(name, double, fits, expr, otherwise)                          \\
        static const pg_nary_loops name = {{name##_float, name##_double}, 2, 0};

    /* Bytes next to numbers: a loop of PG_WIDE bytes would leave most of each vector empty. */
    #define PG_CHOICE_OF(name, T, expr)                                                 \\
        PG_LOOP name##_##T(const void *const *in, void *out, Py_ssize_t n) {            \\
            typedef T real;                                                             \\
            const npy_bool *a = (const npy_bool *)in[0]; real *restrict o = (real *)out; \\
            PG_YZ(real)                                                                 \\
            for (Py_ssize_t i = 0; i < n; i++) { const npy_bool x = a[i]; PG_YZ_AT; o[i] = (real)(expr); } }
    #define PG_CHOICE(name, expr)                                                       \\
        PG_CHOICE_OF(name, float, expr) PG_CHOICE_OF(name, double, expr)                \\
        static const pg_nary_loops name = {{name##_float, name##_double}, 3, 1};
    """
    ctypedef void (*pg_nary)(const void *const *, void *, Py_ssize_t) noexcept nogil
    ctypedef struct pg_nary_loops:
        pg_nary[2] of
        int arity
        int choice


cdef class Nary(Kernel):
    cdef Kernel otherwise
    cdef const pg_nary_loops *loops
    cdef object run(self, PyObject **args)


cdef Nary nary(object function, const pg_nary_loops *loops)
