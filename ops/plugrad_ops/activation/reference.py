"""The activations and their gradients in NumPy: what the kernels give, for every dtype and layout.

Plain Python, since NumPy does the work here: compiled, these lines would take twenty-five times the room.
"""

import numpy as np

from plugrad_ops.arithmetic.cpu import erfc_of

SCALE, ALPHA = 1.0507009873554804934193349852946, 1.7580993408473768599402175208123  # of selu


def relu_of(x):
    return np.maximum(x, 0)


def relu6_of(x):
    return np.minimum(np.maximum(x, 0), 6)


def sigmoid_of(x):
    decay = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, decay) / (decay + 1)


def silu_of(x):
    return x * sigmoid_of(x)


def logsigmoid_of(x):
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


def gelu_of(x):
    return x * (erfc_of(x * -(0.5**0.5)) * 0.5)


def gelu_tanh_of(x):
    return x * 0.5 * (np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * (x * x * x))) + 1)


def gelu_in_form(x, approximate="none"):
    return (gelu_tanh_of if approximate == "tanh" else gelu_of)(x)


def leaky_relu_of(x, slope):
    return np.where(x > 0, x, x * slope)


def elu_of(x, alpha):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)) * alpha)


def hardtanh_of(x, low, high):
    return np.minimum(np.maximum(x, low), high)


def softplus_of(x, beta, threshold):
    scaled = x * beta
    smooth = np.maximum(scaled, 0) + np.log1p(np.exp(-np.abs(scaled)))
    return np.where(scaled > threshold, x, smooth / beta)


def relu_grad_of(grad, out):
    return np.where(out <= 0, 0, grad)


def relu6_grad_of(grad, input):
    return np.where((input > 0) & (input < 6), grad, 0)


def sigmoid_grad_of(grad, out):
    return grad * (out * (1 - out))


def tanh_grad_of(grad, out):
    # conj(1 - out**2), without a copy of what is real
    return grad * (1 - out * out).conj() if out.dtype.kind == "c" else grad * (1 - out * out)


def silu_grad_of(grad, input):
    s = sigmoid_of(input)
    return grad * (s * (input * (1 - s) + 1))


def logsigmoid_grad_of(grad, input):
    return grad * sigmoid_of(-input)


def gelu_grad_of(grad, x):
    return grad * (
        erfc_of(x * -(0.5**0.5)) * 0.5 + x * (np.exp(x * x * -0.5) * (0.5 / np.pi) ** 0.5)
    )


def gelu_tanh_grad_of(grad, x):
    scale = (2 / np.pi) ** 0.5
    t = np.tanh(scale * (x + 0.044715 * (x * x * x)))
    return grad * 0.5 * ((t + 1) + x * (1 - t * t) * (scale * (1 + 0.134145 * (x * x))))


def leaky_relu_grad_of(grad, input, negative_slope):
    return np.where(input > 0, grad, grad * negative_slope)


def elu_grad_of(grad, input, alpha):
    return np.where(input > 0, grad, grad * np.exp(np.minimum(input, 0)) * alpha)


def hardtanh_grad_of(grad, input, min_val, max_val):
    return np.where((input > min_val) & (input < max_val), grad, 0)


def softplus_grad_of(grad, input, beta, threshold):
    scaled = input * beta
    return np.where(scaled > threshold, grad, grad * sigmoid_of(scaled))


# ---- activations that are declared as expressions ------------------------------------------------------------


def hardsigmoid_of(x):
    return np.clip(x / 6 + 0.5, 0, 1)


def hardswish_of(x):
    return np.where(x <= -3, 0, x * hardsigmoid_of(x))


def mish_of(x):
    return x * np.tanh(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def selu_of(x):
    return np.where(x >= 0, SCALE * x, ALPHA * np.expm1(np.minimum(x, 0)))


def softsign_of(x):
    return x / (np.abs(x) + 1)


def tanhshrink_of(x):
    return x - np.tanh(x)


def prelu_of(x, weight):
    return np.where(x > 0, x, weight * x)


def glu_of(x, gate):
    share = sigmoid_of(gate)
    return x * (share if isinstance(gate, np.ndarray) else float(share))


def celu_of(x, alpha):
    return np.where(x > 0, x, alpha * np.expm1(x / alpha))


def softshrink_of(x, lambd):
    return np.where(np.abs(x) <= lambd, 0, x - lambd * np.sign(x))


def hardshrink_of(x, lambd):
    return np.where(np.abs(x) <= lambd, 0, x)


def threshold_of(x, threshold, value):
    return np.where(x <= threshold, np.asarray(value, x.dtype), x)


def hardsigmoid_grad_of(grad, input):
    return np.where((input <= -3) | (input >= 3), 0, grad / 6)


def hardswish_grad_of(grad, input):
    return np.where(input <= -3, 0, np.where(input >= 3, grad, grad * (input / 3 + 0.5)))


def mish_grad_of(grad, input):
    decay = np.exp(-np.abs(input))
    t = np.tanh(np.maximum(input, 0) + np.log1p(decay))
    return grad * (t + input * (1 - t * t) * (np.where(input >= 0, 1, decay) / (1 + decay)))


def selu_grad_of(grad, input):
    return grad * np.where(input >= 0, SCALE, ALPHA * np.exp(np.minimum(input, 0)))


def softsign_grad_of(grad, input):
    scale = 1 / (np.abs(input) + 1)
    return grad * (scale * scale)


def tanhshrink_grad_of(grad, input):
    t = np.tanh(input)
    return grad * (t * t)


def celu_grad_of(grad, input, alpha):
    return np.where(input > 0, grad, grad * np.exp(np.minimum(input, 0) / alpha))


def shrink_grad_of(grad, input, lambd):
    return np.where(np.abs(input) <= lambd, 0, grad)


def threshold_grad_of(grad, input, threshold):
    return np.where(input <= threshold, 0, grad)


def prelu_grad_of(grad, input, weight):
    return np.where(input > 0, grad, weight * grad)


def prelu_weight_grad_of(grad, input):
    return np.where(input > 0, 0, grad * input)


def glu_gate_grad_of(grad, input, gate):
    decay = np.exp(-np.abs(gate))
    return decay / ((decay + 1) * (decay + 1)) * grad * input
