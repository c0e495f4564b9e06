"""CUDA kernels of the activation family whose expression depends on a constant."""

from __future__ import annotations

from plugrad_ops.expressions import kernel

# The argument of tanh in the approximation, and its derivative.
INNER = "(0.79788456080286535588 * (input + 0.044715 * input * input * input))"
INNER_SLOPE = "(0.79788456080286535588 * (1 + 0.134145 * input * input))"
TANH = f"tanh({INNER})"

FORWARD = {"none": "input * normal_cdf(input)", "tanh": f"0.5 * input * (1 + {TANH})"}
BACKWARD = {
    "none": "grad * (normal_cdf(input) + input * normal_pdf(input))",
    "tanh": f"grad * 0.5 * ((1 + {TANH}) + input * (1 - {TANH} * {TANH}) * {INNER_SLOPE})",
}


def gelu(input, *, approximate="none"):
    """The kernel of ``standard::gelu``."""
    return kernel(_chosen(FORWARD, approximate), "input", name="gelu")(input)


def gelu_backward(grad, input, approximate):
    """Its gradient, in one pass."""
    return kernel(_chosen(BACKWARD, approximate), "grad", "input", name="backward of gelu")(
        grad, input
    )


def glu_backward(grad, input, gate, needs):
    """Both gradients of ``standard::glu_kernel``."""
    to_input = kernel("grad * sigmoid(gate)", "grad", "gate")
    to_gate = kernel("sigmoid(gate) * sigmoid(-gate) * grad * input", "grad", "input", "gate")
    return (
        to_input(grad, gate) if needs[0] else None,
        to_gate(grad, input, gate) if needs[1] else None,
    )


def _chosen(expressions, approximate):
    if approximate not in expressions:
        raise ValueError(f"gelu: approximate is 'none' or 'tanh', got {approximate!r}")
    return expressions[approximate]
