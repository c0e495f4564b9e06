# cython: boundscheck=False, wraparound=False
"""CPU kernels of binary cross entropies, divergences and likelihoods, element by element; as activation/cpu.pyx."""

cimport numpy as cnp

from plugrad.graph.op import PlainKernel
cimport plugrad_ops.vector_logs  # its macros  # no-cython-lint
from plugrad_ops.nary cimport Nary, nary, pg_nary_loops

from plugrad_ops.loss import reference

cnp.import_array()

cdef extern from *:
    """
    #define PG_E(v) PG_EXP(-PG_F(fabs, v))
    #define PG_SIGMOID(v) ((v >= 0 ? 1 : PG_E(v)) / (1 + PG_E(v)))
    /* bounded below; NaN stays NaN */
    PG_INLINE float pg_leastf(float v, float least) { return v < least ? least : v; }
    PG_INLINE double pg_least(double v, double least) { return v < least ? least : v; }
    #define PG_LEAST(v, least) _Generic((v), float: pg_leastf, default: pg_least)(v, least)  /* evaluates v once */
    #define PG_LOW(v) PG_LEAST(PG_LOG(v), -100)
    #define PG_HIGH(v) PG_LEAST(PG_LOG1P(-v), -100)

    /* x: the input; y: the target */
    PG_TWO(pg_logistic, (x > 0 ? x * (1 - y) : -x * y) + PG_F(pg_log1p_unit, PG_E(x)))
    PG_TWO(pg_entropy, -(y * PG_LOW(x) + (1 - y) * PG_HIGH(x)))
    PG_TWO(pg_divergence, (y == 0 ? 0 : y * PG_LOG(y)) - y * x)
    PG_TWO(pg_log_divergence, PG_EXP(y) == 0 ? 0 : PG_EXP(y) * (y - x))
    PG_TWO(pg_poisson_nll, PG_EXP(x) - y * x)
    PG_THREE(pg_gaussian_nll, (real)0.5 * (PG_LOG(z) + (x - y) * (x - y) / z))           /* z: the variance */

    /* x: the incoming gradient; y: the input; z: the target */
    PG_THREE(pg_logistic_input, x * (PG_SIGMOID(y) - z))
    PG_TWO(pg_minus_product, -x * y)
    PG_THREE(pg_entropy_input, x * ((1 - z) / PG_LEAST(1 - y, 1e-12) - z / PG_LEAST(y, 1e-12)))
    PG_TWO(pg_entropy_target, x * (PG_HIGH(y) - PG_LOW(y)))
    PG_THREE(pg_divergence_target, x * (PG_LOG(z) + (1 - y)))
    PG_TWO(pg_log_divergence_input, PG_EXP(y) == 0 ? 0 : -x * PG_EXP(y))         /* y: the target */
    PG_THREE(pg_poisson_nll_input, x * (PG_EXP(y) - z))
    PG_FOUR(pg_gaussian_nll_input, x * ((y - z) / w))                                    /* w: the variance */
    PG_FOUR(pg_gaussian_nll_target, x * ((z - y) / w))
    PG_FOUR(pg_gaussian_nll_variance, x * ((real)0.5 * (1 - (y - z) * (y - z) / w) / w))
    PG_THREE(pg_log_divergence_target, PG_EXP(z) == 0 ? 0 : x * (PG_EXP(z) * (z - y + 1)))
    """
    const pg_nary_loops pg_logistic, pg_entropy, pg_divergence, pg_log_divergence
    const pg_nary_loops pg_logistic_input, pg_minus_product, pg_entropy_input, pg_entropy_target
    const pg_nary_loops pg_divergence_target, pg_log_divergence_input, pg_log_divergence_target
    const pg_nary_loops pg_poisson_nll, pg_gaussian_nll, pg_poisson_nll_input
    const pg_nary_loops pg_gaussian_nll_input, pg_gaussian_nll_target, pg_gaussian_nll_variance


# ---- kernels -------------------------------------------------------------------------------------------------

logistic_loss = nary(reference.logistic_of, &pg_logistic)
binary_entropy = nary(reference.entropy_of, &pg_entropy)
divergence = nary(reference.divergence_of, &pg_divergence)
divergence_of_logs = nary(reference.log_divergence_of, &pg_log_divergence)
poisson = nary(reference.poisson_of, &pg_poisson_nll)
gaussian = nary(reference.gaussian_of, &pg_gaussian_nll)

cdef Nary _logistic_input = nary(reference.logistic_input_of, &pg_logistic_input)
cdef Nary _minus_product = nary(reference.minus_product_of, &pg_minus_product)
cdef Nary _entropy_input = nary(reference.entropy_input_of, &pg_entropy_input)
cdef Nary _entropy_target = nary(reference.entropy_target_of, &pg_entropy_target)
cdef Nary _divergence_target = nary(reference.divergence_target_of, &pg_divergence_target)
cdef Nary _log_divergence_input = nary(reference.log_divergence_input_of, &pg_log_divergence_input)
cdef Nary _log_divergence_target = nary(reference.log_divergence_target_of, &pg_log_divergence_target)
cdef Nary _poisson_input = nary(reference.poisson_input_of, &pg_poisson_nll_input)
cdef Nary _gaussian_input = nary(reference.gaussian_input_of, &pg_gaussian_nll_input)
cdef Nary _gaussian_target = nary(reference.gaussian_target_of, &pg_gaussian_nll_target)
cdef Nary _gaussian_variance = nary(reference.gaussian_variance_of, &pg_gaussian_nll_variance)


def _logistic_backward(grad, input, target, needs):
    return (
        _logistic_input.call((grad, input, target), ()) if (<tuple>needs)[0] else None,
        _minus_product.call2(grad, input) if (<tuple>needs)[1] else None,
    )


def _entropy_backward(grad, input, target, needs):
    return (
        _entropy_input.call((grad, input, target), ()) if (<tuple>needs)[0] else None,
        _entropy_target.call2(grad, input) if (<tuple>needs)[1] else None,
    )


def _divergence_backward(grad, input, target, needs):
    return (
        _minus_product.call2(grad, target) if (<tuple>needs)[0] else None,
        _divergence_target.call((grad, input, target), ()) if (<tuple>needs)[1] else None,
    )


def _log_divergence_backward(grad, input, target, needs):
    return (
        _log_divergence_input.call2(grad, target) if (<tuple>needs)[0] else None,
        _log_divergence_target.call((grad, input, target), ()) if (<tuple>needs)[1] else None,
    )


def _poisson_backward(grad, input, target, needs):
    return (
        _poisson_input.call((grad, input, target), ()) if (<tuple>needs)[0] else None,
        _minus_product.call2(grad, input) if (<tuple>needs)[1] else None,
    )


def _gaussian_backward(grad, input, target, var, needs):
    cdef tuple given = (grad, input, target, var)
    return (
        _gaussian_input.call(given, ()) if (<tuple>needs)[0] else None,
        _gaussian_target.call(given, ()) if (<tuple>needs)[1] else None,
        _gaussian_variance.call(given, ()) if (<tuple>needs)[2] else None,
    )


poisson_backward = PlainKernel(_poisson_backward)
gaussian_backward = PlainKernel(_gaussian_backward)
logistic_backward = PlainKernel(_logistic_backward)
entropy_backward = PlainKernel(_entropy_backward)
divergence_backward = PlainKernel(_divergence_backward)
log_divergence_backward = PlainKernel(_log_divergence_backward)
