"""Recurrences along a dimension of arrays in C order, of floating and complex numbers (see cpu.pyx)."""


ctypedef fused number:
    float
    double
    float complex
    double complex


cdef inline void recur(
    const number *factor, const number *term, number *out, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner
) noexcept nogil:
    """out[o, i, k] = factor[o, i, k] * out[o, i - 1, k] + term[o, i, k], all in C order."""
    cdef Py_ssize_t line, begin, at
    for line in range(outer):
        begin = line * n * inner
        for at in range(begin, begin + inner):
            out[at] = term[at]
        for at in range(begin + inner, begin + n * inner):
            out[at] = factor[at] * out[at - inner] + term[at]


cdef inline void recur_back(
    const number *grad, const number *factor, const number *product, number *out,
    Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner
) noexcept nogil:
    """The gradient of running products: s[i - 1] * product[i - 1] with s[i] = grad[i] + factor[i + 1] * s[i + 1]."""
    cdef Py_ssize_t line, begin, at
    for line in range(outer):
        begin = line * n * inner
        for at in range(begin + (n - 1) * inner, begin + n * inner):
            out[at] = grad[at]
        for at in range(begin + (n - 1) * inner - 1, begin - 1, -1):
            out[at] = grad[at] + factor[at + inner] * out[at + inner]
        for at in range(begin + inner, begin + n * inner):
            out[at] = out[at] * product[at - inner]
