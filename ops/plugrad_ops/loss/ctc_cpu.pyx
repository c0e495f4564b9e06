# cython: boundscheck=False, wraparound=False
"""Connectionist temporal classification in C: sums over all alignments of a sequence, in log space and in double.

States are the labels with blanks between and around them. Of state s at time t, alpha is the logarithm of the sum over
the alignments up to there, with what t itself contributes; beta that over what follows, without. Where nothing leads,
both are -inf: sums of exponentials start from the greatest, and -inf has no difference from itself.
"""

cimport numpy as cnp
import numpy as np
from libc.math cimport INFINITY, exp, log
from libc.stdlib cimport free, malloc

cnp.import_array()

ctypedef fused real:
    float
    double


cdef inline double log_sum(double a, double b, double c) noexcept nogil:
    cdef double top = a if a > b else b
    top = c if c > top else top
    if top == -INFINITY:
        return a + b + c  # NaN if one of them is
    return top + log(exp(a - top) + exp(b - top) + exp(c - top))


cdef inline Py_ssize_t label_of(const cnp.int64_t *target, Py_ssize_t s, Py_ssize_t blank) noexcept nogil:
    return target[s // 2] if s % 2 else blank


cdef inline bint skips(const cnp.int64_t *target, Py_ssize_t s) noexcept nogil:
    """Whether state s is reached from s - 2: from another label, over the blank between."""
    return s % 2 == 1 and s > 1 and target[s // 2] != target[s // 2 - 1]


cdef double forward(
    const real *x, Py_ssize_t step, const cnp.int64_t *target, Py_ssize_t times, Py_ssize_t states, Py_ssize_t blank,
    double *alpha, bint keep
) noexcept nogil:
    """Minus the logarithm of the sum over all alignments; alpha has room for every time if `keep`, else for two."""
    cdef Py_ssize_t t, s
    cdef double *now = alpha
    cdef double *before
    if times == 0:
        return 0.0 if states == 1 else INFINITY
    for s in range(states):
        now[s] = <double>x[label_of(target, s, blank)] if s < 2 else -INFINITY
    for t in range(1, times):
        before = now
        now = alpha + (t if keep else t % 2) * states
        x += step
        for s in range(states):
            now[s] = <double>x[label_of(target, s, blank)] + log_sum(
                before[s], before[s - 1] if s > 0 else -INFINITY, before[s - 2] if skips(target, s) else -INFINITY
            )
    return -log_sum(now[states - 1], now[states - 2] if states > 1 else -INFINITY, -INFINITY)


cdef void backward(
    const real *x, Py_ssize_t step, const cnp.int64_t *target, Py_ssize_t times, Py_ssize_t states, Py_ssize_t blank,
    const double *alpha, double *beta, double *shares, Py_ssize_t classes, double loss, double scale, real *out
) noexcept nogil:
    """out = -scale times the share of the alignments that take each class at each time."""
    cdef Py_ssize_t t, s, c
    cdef double *now
    cdef double *after = beta
    for t in range(times - 1, -1, -1):
        now = beta + t % 2 * states
        for s in range(states):
            if t == times - 1:
                now[s] = 0.0 if s + 2 >= states else -INFINITY
            else:
                now[s] = log_sum(
                    after[s] + x[(t + 1) * step + label_of(target, s, blank)],
                    after[s + 1] + x[(t + 1) * step + label_of(target, s + 1, blank)] if s + 1 < states else -INFINITY,
                    after[s + 2] + x[(t + 1) * step + label_of(target, s + 2, blank)]
                    if s + 2 < states and skips(target, s + 2) else -INFINITY,
                )
        for c in range(classes):
            shares[c] = 0.0
        for s in range(states):
            shares[label_of(target, s, blank)] += exp(alpha[t * states + s] + now[s] + loss)
        for c in range(classes):
            out[t * step + c] = <real>(-scale * shares[c])
        after = now


def ctc_losses(const real[:, :, ::1] log_probs, const cnp.int64_t[:, ::1] targets, const cnp.int64_t[::1] input_lengths,
               const cnp.int64_t[::1] target_lengths, Py_ssize_t blank, const real[::1] grad=None):
    """The loss of each sequence or, given the gradient of these, that of `log_probs`.

    Parameters
    ----------
    log_probs : (T, N, C), float32 or float64
    targets : (N, S)
    input_lengths, target_lengths : (N)
        They and the targets are within bounds.
    grad : (N), optional
        What an infinite loss gives is NaN, or 0 where its gradient is 0.

    Returns
    -------
    ndarray
        (N), or (T, N, C).
    """
    cdef Py_ssize_t times = log_probs.shape[0], count = log_probs.shape[1], classes = log_probs.shape[2]
    cdef Py_ssize_t widest = 2 * targets.shape[1] + 1, n, t, c, step = count * classes, states
    cdef bint keep = grad is not None
    cdef double loss
    cdef double *alpha
    cdef const cnp.int64_t *target
    dtype = np.float32 if real is float else np.float64
    losses = np.empty(0 if keep else count, dtype)
    gradient = np.zeros((times, count, classes if keep else 0), dtype)
    cdef real[::1] found = losses
    cdef real[:, :, ::1] out = gradient
    alpha = <double *>malloc(((max(times, 1) + 2 if keep else 2) * widest + classes + 1) * sizeof(double))
    if alpha == NULL:
        raise MemoryError()
    if classes:
        with nogil:
            for n in range(count):
                target = &targets[n, 0] if targets.shape[1] else NULL
                states = 2 * target_lengths[n] + 1
                loss = forward[real](
                    &log_probs[0, n, 0] if times else NULL, step, target, input_lengths[n], states, blank, alpha, keep
                )
                if not keep:
                    found[n] = <real>loss
                elif grad[n] == 0:
                    continue
                elif loss == INFINITY:
                    for t in range(input_lengths[n]):
                        for c in range(classes):
                            out[t, n, c] = <real>(loss - loss)
                elif input_lengths[n]:
                    backward[real](
                        &log_probs[0, n, 0], step, target, input_lengths[n], states, blank, alpha,
                        alpha + times * widest, alpha + (times + 2) * widest, classes, loss, grad[n], &out[0, n, 0]
                    )
    free(alpha)
    return gradient if keep else losses
