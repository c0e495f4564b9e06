"""The battery tested on real operators: with their rules spoiled in one place, all are refused.

Each rule is wrapped so that the gradient of one input is changed a little, or in one dtype, or in one element; the
operator's own samples must show it.
"""

import numpy as np
import pytest

import plugrad
from plugrad import contract
from plugrad.graph.tensor import Tensor


def scaled(grad):
    return grad * 1.001


def scaled_in_float32(grad):
    return grad * 1.01 if grad.dtype == np.float32 else grad


def scaled_in_float16(grad):
    return grad * 1.25 if grad.dtype == np.float16 else grad


def first_element_dropped(grad):
    keep = np.ones(grad.shape, grad.dtype)
    keep.reshape(-1)[:1] = 0
    return grad * (Tensor(keep) if isinstance(grad, Tensor) else keep)


def detached(grad):
    return grad.detach() if isinstance(grad, Tensor) else grad


def missing(grad):
    return None


CHANGES = [scaled, scaled_in_float32, scaled_in_float16, first_element_dropped, detached, missing]
OPERATORS = ["mul", "div", "exp", "pow", "matmul", "sum", "softmax", "cumsum", "expand", "sub"]
# Their gradients are kernels', which get float16 as float32.
BY_KERNEL = {"mul", "div", "pow", "matmul", "sum", "softmax", "cumsum"}
SPOILED = [
    (name, change)
    for name in OPERATORS
    for change in CHANGES
    if not (change is scaled_in_float16 and name in BY_KERNEL)
]


def spoiled(rule, position, change):
    """`rule` with one of its gradients changed."""

    def wrong(*args):
        found = rule(*args)
        several = isinstance(found, tuple | list)
        grads = list(found) if several else [found]
        if grads[position] is not None:
            grads[position] = change(grads[position])
        return grads if several else grads[0]

    return wrong


@pytest.mark.parametrize(("name", "change"), SPOILED, ids=[f"{n}-{c.__name__}" for n, c in SPOILED])
def test_a_spoiled_rule_is_refused(name, change):
    op = getattr(plugrad.ops, name)
    op.resolve()
    rule, kernel = op.rule, op.rule_kernel
    plan = op._plan("the rule", rule)
    for position in range(len(op.schema.inputs)):
        op._set_rule(spoiled(rule, position, change), plan)
        if kernel is not None:
            kernel_plan = op._plan("the kernel", kernel)
            op._set_backward_kernel(spoiled(kernel, position, change), kernel_plan)
        try:
            report = contract.check(op)
        finally:
            op._set_rule(rule, plan)
            if kernel is not None:
                op._set_backward_kernel(kernel, kernel_plan)
        assert not report.passed, f"{name}: {change.__name__} of {op.schema.inputs[position]!r}"
    assert contract.check(op).passed
