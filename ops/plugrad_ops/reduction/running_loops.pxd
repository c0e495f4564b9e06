"""C loops of running sums and products (see cpu.pyx), of float32 [0] and float64 [1], which are carried in double."""

cimport plugrad.backends.simd  # its macros  # no-cython-lint


cdef extern from *:
    """
    enum { PG_TOGETHER = 8, PG_TILE = 1024 };   /* PG_TILE running numbers stay in the nearest cache */
    #define PG_RUNNING_OF(name, T, START, OP)                                                                     \\
    /* along `lines` lines of n, up to PG_TOGETHER: one alone would wait for each sum before the next */          \\
    PG_VECTOR static void name##_along_##T(const void *vx, void *vo, Py_ssize_t n, Py_ssize_t step, int lines,    \\
                                           Py_ssize_t apart) {                                                    \\
        const T *x = vx; T *restrict o = vo; double at[PG_TOGETHER];                                              \\
        for (int k = 0; k < PG_TOGETHER; k++) at[k] = START;                                                      \\
        if (lines == PG_TOGETHER)                                                                                 \\
            for (Py_ssize_t i = 0; i < n; i++)                                                                    \\
                for (int k = 0; k < PG_TOGETHER; k++) {                                                           \\
                    at[k] = at[k] OP x[i * step + k * apart]; o[i * step + k * apart] = (T)at[k]; }               \\
        else                                                                                                      \\
            for (int k = 0; k < lines; k++)                                                                       \\
                for (Py_ssize_t i = 0; i < n; i++) {                                                              \\
                    at[k] = at[k] OP x[i * step + k * apart]; o[i * step + k * apart] = (T)at[k]; }               \\
    }                                                                                                             \\
    /* across n rows of up to PG_TILE neighbours */                                                               \\
    PG_VECTOR static void name##_across_##T(const void *vx, void *vo, Py_ssize_t n, Py_ssize_t step,              \\
                                            Py_ssize_t many) {                                                    \\
        const T *x = vx; T *restrict o = vo; double at[PG_TILE];                                                  \\
        for (Py_ssize_t j = 0; j < many; j++) at[j] = START;                                                      \\
        for (Py_ssize_t i = 0; i < n; i++, x += step, o += step)                                                  \\
            for (Py_ssize_t j = 0; j < many; j++) { at[j] = at[j] OP x[j]; o[j] = (T)at[j]; }                     \\
    }
    typedef struct {
        void (*along)(const void *, void *, Py_ssize_t, Py_ssize_t, int, Py_ssize_t);
        void (*across)(const void *, void *, Py_ssize_t, Py_ssize_t, Py_ssize_t);
    } pg_running;
    #define PG_RUNNING(name, START, OP)                                                                           \\
    PG_RUNNING_OF(name, float, START, OP) PG_RUNNING_OF(name, double, START, OP)                                  \\
    static const pg_running name[2] = {{name##_along_float, name##_across_float},                                 \\
                                       {name##_along_double, name##_across_double}};
    PG_RUNNING(pg_sums_so_far, 0, +)
    PG_RUNNING(pg_products_so_far, 1, *)
    """
    ctypedef struct Loops "pg_running":
        void (*along)(const void *, void *, Py_ssize_t, Py_ssize_t, int, Py_ssize_t) noexcept nogil
        void (*across)(const void *, void *, Py_ssize_t, Py_ssize_t, Py_ssize_t) noexcept nogil
    const Loops[2] pg_sums_so_far, pg_products_so_far
