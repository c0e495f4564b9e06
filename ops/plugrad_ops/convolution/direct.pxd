"""Which tiles are in use; see direct.pyx and tiles.h."""

cdef extern from "tile_types.h" nogil:
    ctypedef struct pg_grid:
        Py_ssize_t depth, length, pitch, width, step, row, channel
        const Py_ssize_t *offsets
    ctypedef struct pg_stretch:
        Py_ssize_t grad, image, n
    ctypedef void (*pg_rows_of)(
        const pg_grid *, const void *, const void *, const void *, void *, Py_ssize_t, Py_ssize_t, Py_ssize_t,
        Py_ssize_t
    ) noexcept
    ctypedef void (*pg_dots_of)(
        const pg_stretch *, Py_ssize_t, const void *, Py_ssize_t, Py_ssize_t, const void *, const Py_ssize_t *,
        Py_ssize_t, void *, Py_ssize_t, int
    ) noexcept
    ctypedef void (*pg_tile_of)(
        int, int, Py_ssize_t, const void *, const void *, const Py_ssize_t *, const void *, void *, int
    ) noexcept
    ctypedef struct pg_tiles:
        int lanes, high, wide
        pg_rows_of rows
        pg_dots_of dots
        pg_tile_of tile

cdef const pg_tiles *tiles_of(int size) except NULL
