"""Images as the tiles of a convolution read them, and arrays for results; see images.pyx."""

cimport numpy as cnp

cdef struct Layout:
    Py_ssize_t size[3]
    Py_ssize_t stride[3]
    Py_ssize_t shift[3]
    Py_ssize_t planes[3]
    Py_ssize_t rows[3]
    Py_ssize_t plane
    Py_ssize_t channel
    const Py_ssize_t *phases    # which remainders have planes, dimension after dimension


cdef struct Copying:
    Layout layout
    int size                # bytes of an element
    const char *images
    char *to

cdef enum:
    BEHIND = 64     # elements that a tile may read behind the last channel

cdef int read_layout(object given, Layout *l) except -1
cdef void copy_images(Copying *c, const char *images, Py_ssize_t channels) noexcept nogil
cdef cnp.ndarray buffer(Py_ssize_t n, int kind)
cdef cnp.ndarray new(tuple shape, int kind)
cdef int kind_of(cnp.ndarray a, cnp.ndarray b) except -1
