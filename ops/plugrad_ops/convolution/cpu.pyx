# cython: boundscheck=False, wraparound=False, cdivision=True
"""The columns of a convolution and their adjoint, in C.

(a) Arrays are float32 or float64 and C-contiguous; an image has depth, height and width, of which those that it has not
    are 1. What surrounds an image is never stored.
(b) Neighbouring windows one element apart read neighbouring elements: such runs are copied or added as a whole. Most
    are shorter than a call of memcpy is worth.
(c) A column buffer may hold any range of the rows of windows (depth and height) and any number of images; two steps
    tell where an image and a tap begin in it.
"""

cimport numpy as cnp

cnp.import_array()

cdef extern from "runs.h":
    """
    /* Rows of n elements of which those from lo to hi are `step` apart in the image, and the others lie outside it. */
    #define PG_ROWS(T)                                                                                               \\
        static inline void pg_read_rows_##T(T *restrict to, const T *restrict from, Py_ssize_t rows, Py_ssize_t next,\\
                                            Py_ssize_t n, Py_ssize_t lo, Py_ssize_t hi, Py_ssize_t step) {           \\
            for (; rows > 0; rows--, to += n, from += next) {                                                        \\
                Py_ssize_t i;                                                                                        \\
                for (i = 0; i < lo; i++) to[i] = 0;                                                                  \\
                if (step == 1) pg_copy_bytes((char *)(to + lo), (const char *)(from + lo), (hi - lo) * sizeof(T));   \\
                else for (i = lo; i < hi; i++) to[i] = from[i * step];                                               \\
                for (i = hi; i < n; i++) to[i] = 0;                                                                  \\
            }                                                                                                        \\
        }                                                                                                            \\
        static inline void pg_add_rows_##T(T *restrict to, const T *restrict from, Py_ssize_t rows, Py_ssize_t next, \\
                                           Py_ssize_t n, Py_ssize_t lo, Py_ssize_t hi, Py_ssize_t step) {            \\
            for (; rows > 0; rows--, to += next, from += n) {                                                        \\
                Py_ssize_t i = lo;                                                                                   \\
                if (step == 1)                                                                                       \\
                    for (; i + 4 <= hi; i += 4) {                                                                    \\
                        T sum[4];                                                                                    \\
                        for (int k = 0; k < 4; k++) sum[k] = to[i + k] + from[i + k];                                \\
                        memcpy(to + i, sum, sizeof sum);                                                             \\
                    }                                                                                                \\
                for (; i < hi; i++) to[i * step] += from[i];                                                         \\
            }                                                                                                        \\
        }
    PG_ROWS(float)
    PG_ROWS(double)
    """
    void pg_read_rows_float(
        float *to, const float *source, Py_ssize_t rows, Py_ssize_t next, Py_ssize_t n, Py_ssize_t lo, Py_ssize_t hi,
        Py_ssize_t step
    ) noexcept nogil
    void pg_read_rows_double(
        double *to, const double *source, Py_ssize_t rows, Py_ssize_t next, Py_ssize_t n, Py_ssize_t lo,
        Py_ssize_t hi, Py_ssize_t step
    ) noexcept nogil
    void pg_add_rows_float(
        float *to, const float *source, Py_ssize_t rows, Py_ssize_t next, Py_ssize_t n, Py_ssize_t lo, Py_ssize_t hi,
        Py_ssize_t step
    ) noexcept nogil
    void pg_add_rows_double(
        double *to, const double *source, Py_ssize_t rows, Py_ssize_t next, Py_ssize_t n, Py_ssize_t lo,
        Py_ssize_t hi, Py_ssize_t step
    ) noexcept nogil

ctypedef fused real:
    float
    double


cdef struct Windows:
    Py_ssize_t size[3]
    Py_ssize_t kernel[3]
    Py_ssize_t stride[3]
    Py_ssize_t padding[3]
    Py_ssize_t dilation[3]
    Py_ssize_t out[3]


cdef inline Py_ssize_t first_inside(Py_ssize_t offset, Py_ssize_t stride) noexcept nogil:
    """The first window whose element at `offset` from its window's place lies in the image."""
    return (-offset + stride - 1) // stride if offset < 0 else 0


cdef inline Py_ssize_t last_inside(
    Py_ssize_t offset, Py_ssize_t stride, Py_ssize_t size, Py_ssize_t out
) noexcept nogil:
    """The window behind the last one whose element at `offset` lies in the image."""
    cdef Py_ssize_t last = (size - 1 - offset) // stride + 1 if size > offset else 0
    return last if last < out else out


cdef void between(
    real *image, real *columns, const Windows *w, Py_ssize_t first, Py_ssize_t last, Py_ssize_t a, Py_ssize_t b,
    Py_ssize_t e, bint adjoint
) noexcept nogil:
    """For one tap of one channel: read the rows `first` to `last` of windows from the image, or add them to it."""
    cdef Py_ssize_t offset_d = a * w.dilation[0] - w.padding[0], offset_h = b * w.dilation[1] - w.padding[1]
    cdef Py_ssize_t offset = e * w.dilation[2] - w.padding[2], width = w.out[2], step = w.stride[2]
    cdef Py_ssize_t lo = first_inside(offset, step), hi = last_inside(offset, step, w.size[2], width)
    cdef Py_ssize_t top = first_inside(offset_h, w.stride[1])
    cdef Py_ssize_t bottom = last_inside(offset_h, w.stride[1], w.size[1], w.out[1])
    cdef Py_ssize_t next = w.stride[1] * w.size[2], row = first, d, h, end, begin, stop, i
    cdef real *line
    cdef real *cells
    if hi < lo:
        lo = hi = 0
    while row < last:  # the rows of one depth
        d = row // w.out[1]
        h = row - d * w.out[1]
        end = w.out[1] if last - row > w.out[1] - h else h + last - row
        row += end - h
        d = d * w.stride[0] + offset_d
        begin = h if top < h else top if top < end else end
        stop = end if bottom > end else bottom if bottom > begin else begin
        if d < 0 or d >= w.size[0]:
            begin = stop = end
        if not adjoint:
            for i in range((begin - h) * width):
                columns[i] = 0
            for i in range((stop - h) * width, (end - h) * width):
                columns[i] = 0
        if stop > begin and hi > lo:
            line = image + (d * w.size[1] + begin * w.stride[1] + offset_h) * w.size[2] + offset
            cells = columns + (begin - h) * width
            if real is float:
                if adjoint:
                    pg_add_rows_float(line, cells, stop - begin, next, width, lo, hi, step)
                else:
                    pg_read_rows_float(cells, line, stop - begin, next, width, lo, hi, step)
            else:
                if adjoint:
                    pg_add_rows_double(line, cells, stop - begin, next, width, lo, hi, step)
                else:
                    pg_read_rows_double(cells, line, stop - begin, next, width, lo, hi, step)
        elif not adjoint:
            for i in range((begin - h) * width, (stop - h) * width):
                columns[i] = 0
        columns += (end - h) * width


cdef void every(
    real *image, real *columns, const Windows *w, Py_ssize_t channels, Py_ssize_t tap_step, Py_ssize_t first,
    Py_ssize_t last, bint adjoint
) noexcept nogil:
    """All taps of all channels: for each a row of `columns`, `tap_step` apart."""
    cdef Py_ssize_t _, a, b, e
    for _ in range(channels):
        for a in range(w.kernel[0]):
            for b in range(w.kernel[1]):
                for e in range(w.kernel[2]):
                    between(image, columns, w, first, last, a, b, e, adjoint)
                    columns += tap_step
        image += w.size[0] * w.size[1] * w.size[2]


cdef int read_windows(cnp.ndarray table, Windows *w) except -1:
    if cnp.PyArray_SIZE(table) != 18 or cnp.PyArray_TYPE(table) != cnp.NPY_INTP or not cnp.PyArray_ISCARRAY_RO(table):
        raise ValueError("windows are told by 18 intp numbers")
    cdef const Py_ssize_t *numbers = <const Py_ssize_t *>cnp.PyArray_DATA(table)
    cdef int i
    for i in range(3):
        w.size[i] = numbers[i]
        w.kernel[i] = numbers[3 + i]
        w.stride[i] = numbers[6 + i]
        w.padding[i] = numbers[9 + i]
        w.dilation[i] = numbers[12 + i]
        w.out[i] = numbers[15 + i]
    return 0


cdef bint suits(cnp.ndarray a, cnp.ndarray b):
    """Whether both are C-contiguous, of one dtype that the loops know."""
    cdef int kind = cnp.PyArray_TYPE(a)
    return (
        (kind == cnp.NPY_FLOAT or kind == cnp.NPY_DOUBLE) and cnp.PyArray_TYPE(b) == kind
        and cnp.PyArray_ISCARRAY_RO(a) and cnp.PyArray_ISCARRAY_RO(b)
    )


def columns_of(
    cnp.ndarray images, cnp.ndarray columns, cnp.ndarray table, Py_ssize_t channels, Py_ssize_t image_step,
    Py_ssize_t tap_step, Py_ssize_t first, Py_ssize_t last
):
    """Write what the windows see to `columns`.

    Parameters
    ----------
    images : ndarray
        So many images of `channels` channels as its size says.
    columns : ndarray
    table : ndarray
        `geometry.Windows.table`.
    image_step, tap_step : int
        In elements of `columns`: from image to image, from tap to tap.
    first, last : int
        The range of rows of windows.
    """
    move(images, columns, table, channels, image_step, tap_step, first, last, False)


def add_columns(
    cnp.ndarray images, cnp.ndarray columns, cnp.ndarray table, Py_ssize_t channels, Py_ssize_t image_step,
    Py_ssize_t tap_step, Py_ssize_t first, Py_ssize_t last
):
    """Add each element of `columns` where `columns_of` would have read it; the arguments are the same."""
    move(images, columns, table, channels, image_step, tap_step, first, last, True)


cdef int move(
    cnp.ndarray images, cnp.ndarray columns, cnp.ndarray table, Py_ssize_t channels, Py_ssize_t image_step,
    Py_ssize_t tap_step, Py_ssize_t first, Py_ssize_t last, bint adjoint
) except -1:
    cdef Windows w
    cdef Py_ssize_t n, i, size
    if not suits(images, columns):
        raise ValueError("images and columns must be C-contiguous, both float32 or float64")
    read_windows(table, &w)
    size = channels * w.size[0] * w.size[1] * w.size[2]
    n = cnp.PyArray_SIZE(images) // size if size else 0
    with nogil:
        for i in range(n):
            if cnp.PyArray_TYPE(images) == cnp.NPY_FLOAT:
                every[float](
                    <float *>cnp.PyArray_DATA(images) + i * size,
                    <float *>cnp.PyArray_DATA(columns) + i * image_step, &w, channels, tap_step, first, last, adjoint
                )
            else:
                every[double](
                    <double *>cnp.PyArray_DATA(images) + i * size,
                    <double *>cnp.PyArray_DATA(columns) + i * image_step, &w, channels, tap_step, first, last, adjoint
                )
    return 0
