"""Binary cross entropies, divergences, likelihoods and their gradients in NumPy, element by element.

Plain Python for the reason that activation/reference.py gives.
"""

import numpy as np

LOWEST_LOG = -100.0
LEAST = 1e-12  # divisor


def logistic_of(input, target):
    linear = np.where(input > 0, input * (1 - target), -input * target)
    return linear + np.log1p(np.exp(-np.abs(input)))


def _low(x):
    return np.maximum(np.log(x), LOWEST_LOG)


def _high(x):
    return np.maximum(np.log1p(-x), LOWEST_LOG)


def entropy_of(input, target):
    return -(target * _low(input) + (1 - target) * _high(input))


def divergence_of(input, target):
    return np.where(target == 0, 0, target * np.log(target)) - target * input


def log_divergence_of(input, target):
    weight = np.exp(target)
    return np.where(weight == 0, 0, weight * (target - input))


def poisson_of(input, target):
    return np.exp(input) - target * input


def gaussian_of(input, target, var):
    return 0.5 * (np.log(var) + np.square(input - target) / var)


def poisson_input_of(grad, input, target):
    return grad * (np.exp(input) - target)


def gaussian_input_of(grad, input, target, var):
    return grad * ((input - target) / var)


def gaussian_target_of(grad, input, target, var):
    return grad * ((target - input) / var)


def gaussian_variance_of(grad, input, target, var):
    return grad * (0.5 * (1 - np.square(input - target) / var) / var)


def logistic_input_of(grad, input, target):
    decay = np.exp(-np.abs(input))
    return grad * (np.where(input >= 0, 1, decay) / (1 + decay) - target)


def minus_product_of(x, y):
    return -x * y


def entropy_input_of(grad, input, target):
    return grad * ((1 - target) / np.maximum(1 - input, LEAST) - target / np.maximum(input, LEAST))


def entropy_target_of(grad, input):
    return grad * (_high(input) - _low(input))


def divergence_target_of(grad, input, target):
    return grad * (np.log(target) + (1 - input))


def log_divergence_input_of(grad, target):
    weight = np.exp(target)
    return np.where(weight == 0, 0, -grad * weight)


def log_divergence_target_of(grad, input, target):
    weight = np.exp(target)
    return np.where(weight == 0, 0, grad * (weight * (target - input + 1)))
