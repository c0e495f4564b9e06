"""Products of matrices and vectors. Transposes are views: BLAS reads them as they are."""

import math

import numpy as np

from plugrad import composite, operator, ops
from plugrad_ops.linalg import matmul_cpu
from plugrad_ops.reduction.ops import accumulate, sum_array_to

# ---- matmul --------------------------------------------------------------------------------------------------


def _product_shape(name, a, b):
    """The shape of the product of two shapes.

    Raises
    ------
    RuntimeError
        One is 0-d, the inner sizes differ, or the leading dimensions do not broadcast.
    """
    if not a or not b:
        raise RuntimeError(
            f"{name}: both tensors need at least 1 dimension, got shapes {a} and {b}"
        )
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        raise RuntimeError(
            f"{name}: shapes {a} and {b} cannot be multiplied: the last size of the first, {a[-1]}, "
            f"must equal {inner}"
        )
    try:
        batch = np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        raise RuntimeError(
            f"{name}: the leading dimensions of shapes {a} and {b} do not broadcast"
        ) from None
    return (*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def _matmul_meta(input, other):
    shape = _product_shape("matmul", input.shape, other.shape)
    return shape, np.result_type(input.dtype, other.dtype)


def product(a, b):
    """``numpy.matmul``; a stack times one matrix is one product of matrices."""
    if a.ndim > 2 and b.ndim == 2 and a.flags.c_contiguous and a.shape[-1] == b.shape[0]:
        rows = math.prod(a.shape[:-1])
        return np.matmul(a.reshape(rows, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[1])
    return np.matmul(a, b)


def conjugate(array):
    """The complex conjugate; a real array itself."""
    return np.conjugate(array) if array.dtype.kind == "c" else array


def matmul(input, other):
    """The matrix product; leading dimensions broadcast, a 1-d tensor is a row on the left and a column on the right.

    Raises
    ------
    RuntimeError
        Shapes do not fit together.
    """
    try:
        return product(input, other)
    except ValueError:
        _product_shape("matmul", input.shape, other.shape)
        raise


matmul = operator(
    "standard::matmul",
    dtypes="number",
    infer=_matmul_meta,
    method=True,
    cpu=matmul_cpu.Matmul(matmul),
    cuda=".cuda:matmul",
)(matmul)


@matmul.backward
def _(grad, input, other, needs):
    a, b = input.conj(), other.conj()
    if a.ndim == 1 and b.ndim == 1:
        return (grad * b if needs.input else None), (grad * a if needs.other else None)
    shape_a, shape_b = a.shape, b.shape
    if len(shape_a) == 1:
        a, grad = ops.unsqueeze(a, dim=0), ops.unsqueeze(grad, dim=-2)
    if len(shape_b) == 1:
        b, grad = ops.unsqueeze(b, dim=1), ops.unsqueeze(grad, dim=-1)
    grad_a = grad_b = None
    if needs.input:
        grad_a = _summed(ops.matmul(grad, ops.transpose(b, dim0=-1, dim1=-2)), a.shape, shape_a)
    if needs.other:
        if a.ndim > 2 and b.ndim == 2:
            # One product over all leading dimensions, rather than one per matrix and then their sum.
            rows = math.prod(a.shape[:-1])
            a = ops.reshape(a, (rows, a.shape[-1]))
            grad = ops.reshape(grad, (rows, grad.shape[-1]))
        grad_b = _summed(ops.matmul(ops.transpose(a, dim0=-1, dim1=-2), grad), b.shape, shape_b)
    return grad_a, grad_b


def _summed(grad, matrix_shape, shape):
    """A gradient summed over leading dimensions that were broadcast, and without a dimension put in for a vector."""
    if grad.shape != matrix_shape:
        grad = ops.sum_to(grad, shape=matrix_shape)
    return grad if grad.shape == shape else ops.reshape(grad, shape)


def _matmul_gradients(grad, input, other, needs):
    a, b = conjugate(input), conjugate(other)
    if a.ndim == 1 and b.ndim == 1:
        return (grad * b if needs.input else None), (grad * a if needs.other else None)
    if a.ndim == 1:
        a, grad = a[None], np.expand_dims(grad, -2)
    if b.ndim == 1:
        b, grad = b[:, None], grad[..., None]
    grad_a = grad_b = None
    if needs.input:
        grad_a = sum_array_to(product(grad, b.swapaxes(-1, -2)), a.shape).reshape(input.shape)
    if needs.other:
        if a.ndim > 2 and b.ndim == 2:
            rows = math.prod(a.shape[:-1])
            a, grad = a.reshape(rows, a.shape[-1]), grad.reshape(rows, grad.shape[-1])
        grad_b = sum_array_to(product(a.swapaxes(-1, -2), grad), b.shape).reshape(other.shape)
    return grad_a, grad_b


matmul.backward_kernel(matmul_cpu.MatmulGradients(_matmul_gradients))


@matmul.samples
def _(make):
    yield make.call(make.normal(2, 3), make.normal(3, 2))
    yield make.call(make.normal(3), make.normal(3))
    yield make.call(make.normal(3), make.normal(3, 2))
    yield make.call(make.normal(2, 3), make.normal(3))
    yield make.call(make.normal(2, 2, 3), make.normal(3, 2))
    yield make.call(make.normal(2, 3), make.normal(2, 3, 2))
    yield make.call(make.complex(2, 3), make.complex(3, 2))
    yield make.call(make.complex(2), make.complex(2))
    yield make.call(make.normal(2, 1, 2, 3), make.normal(2, 3, 2))
    yield make.call(make.normal(3), make.normal(2, 3, 2))
    yield make.call(make.normal(2, 2, 3), make.normal(3))
    yield make.call(make.normal(0, 3), make.normal(3, 2))
    yield make.call(make.normal(2, 0), make.normal(0, 3))
    yield make.error(RuntimeError, "cannot be multiplied", make.normal(2, 3), make.normal(2, 3))
    yield make.error(RuntimeError, "at least 1 dimension", make.normal(), make.normal(2))
    yield make.error(RuntimeError, "broadcast", make.normal(2, 2, 3), make.normal(3, 3, 2))


def _of_rank(name, wanted, *tensors, instead="matmul"):
    for x in tensors:
        if x.ndim != wanted:
            shapes = " and ".join(str(t.shape) for t in tensors)
            raise RuntimeError(
                f"{name}: expected {wanted}-d tensors, got shapes {shapes}; use {instead}"
            )


@composite("standard::mm", method=True)
def mm(input, mat2):
    """The product of two matrices."""
    _of_rank("mm", 2, input, mat2)
    return ops.matmul(input, mat2)


@mm.samples
def _(make):
    yield make.call(make.normal(2, 3), make.normal(3, 2))
    yield make.call(make.normal(1, 1), make.normal(1, 1))
    yield make.call(make.normal(0, 3), make.normal(3, 2))
    yield make.error(RuntimeError, "2-d", make.normal(3), make.normal(3, 2))


@composite("standard::bmm", method=True)
def bmm(input, mat2):
    """The products of two stacks of equally many matrices."""
    _of_rank("bmm", 3, input, mat2)
    if input.shape[0] != mat2.shape[0]:
        raise RuntimeError(
            f"bmm: the stacks must be equally high, got shapes {input.shape} and {mat2.shape}"
        )
    return ops.matmul(input, mat2)


@bmm.samples
def _(make):
    yield make.call(make.normal(2, 2, 3), make.normal(2, 3, 2))
    yield make.call(make.normal(1, 1, 1), make.normal(1, 1, 1))
    yield make.call(make.normal(0, 2, 3), make.normal(0, 3, 2))
    yield make.error(RuntimeError, "equally high", make.normal(1, 2, 3), make.normal(2, 3, 2))


@composite("standard::mv", method=True)
def mv(input, vec):
    """The product of a matrix and a vector."""
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(
            f"mv: expected a matrix and a vector, got shapes {input.shape} and {vec.shape}"
        )
    return ops.matmul(input, vec)


@mv.samples
def _(make):
    yield make.call(make.normal(2, 3), make.normal(3))
    yield make.call(make.normal(1, 1), make.normal(1))
    yield make.call(make.normal(0, 3), make.normal(3))
    yield make.error(RuntimeError, "a matrix and a vector", make.normal(3), make.normal(3))


@composite("standard::dot", method=True)
def dot(input, tensor):
    """The inner product of two vectors."""
    _of_rank("dot", 1, input, tensor)
    return ops.matmul(input, tensor)


@dot.samples
def _(make):
    yield make.call(make.normal(3), make.normal(3))
    yield make.call(make.normal(1), make.normal(1))
    yield make.call(make.normal(0), make.normal(0))
    yield make.error(RuntimeError, "1-d", make.normal(2, 3), make.normal(3))


# ---- linear --------------------------------------------------------------------------------------------------


def _linear_shape(x, weight, bias):
    fits = x and len(weight) == 2 and x[-1] == weight[1]
    if not fits:
        raise RuntimeError(
            f"linear: expected input (*, in_features) and weight (out_features, in_features), got shapes {x} and "
            f"{weight}"
        )
    if bias is not None and bias != weight[:1]:
        raise RuntimeError(f"linear: bias must have shape {weight[:1]}, got {bias}")
    return (*x[:-1], weight[0])


def _linear_meta(input, weight, bias=None):
    shape = _linear_shape(input.shape, weight.shape, None if bias is None else bias.shape)
    return shape, np.result_type(*(m.dtype for m in (input, weight, bias) if m is not None))


def linear(input, weight, bias=None):
    """``input @ weight.T + bias``.

    Parameters
    ----------
    input : (..., in_features)
    weight : (out_features, in_features)
    bias : (out_features,), optional
    """
    _linear_shape(input.shape, weight.shape, None if bias is None else bias.shape)
    out = product(input, weight.T)
    return out if bias is None else np.add(out, bias, out=out)


linear = operator(
    "standard::linear",
    dtypes="complex",
    infer=_linear_meta,
    cpu=matmul_cpu.Linear(linear),
    cuda=".cuda:linear",
)(linear)


@linear.backward(when={"input": "weight", "weight": "input"})
def _(grad, input, weight, needs):
    grad_input = ops.matmul(grad, weight.conj()) if needs.input else None
    grad_weight = grad_bias = None
    if needs.weight or needs.bias:
        rows = math.prod(grad.shape[:-1])
        flat = grad if grad.ndim == 2 else ops.reshape(grad, (rows, grad.shape[-1]))
        if needs.weight:
            features = input.shape[-1]
            seen = input if input.ndim == 2 else ops.reshape(input, (rows, features))
            grad_weight = ops.matmul(ops.transpose(flat, dim0=0, dim1=1), seen.conj())
        if needs.bias:
            grad_bias = ops.sum(flat, dim=0)
    return grad_input, grad_weight, grad_bias


def _linear_gradients(grad, input, weight, needs):
    input, weight = (None if x is None else conjugate(x) for x in (input, weight))
    grad_input = product(grad, weight) if needs.input else None
    grad_weight = grad_bias = None
    flat = grad.reshape(math.prod(grad.shape[:-1]), grad.shape[-1])
    if needs.weight:
        grad_weight = product(flat.T, input.reshape(flat.shape[0], input.shape[-1]))
    if needs.bias:
        grad_bias = accumulate(np.add, flat, 0, False, grad.dtype)
    return grad_input, grad_weight, grad_bias


linear.backward_kernel(matmul_cpu.LinearGradients(_linear_gradients))


@linear.samples
def _(make):
    yield make.call(make.normal(2, 3), make.normal(4, 3), make.normal(4))
    yield make.call(make.normal(3), make.normal(2, 3), make.normal(2))
    yield make.call(make.normal(2, 2, 3), make.normal(2, 3))
    yield make.call(make.normal(0, 3), make.normal(2, 3), make.normal(2))
    yield make.call(make.complex(2, 3), make.complex(2, 3), make.complex(2))
    yield make.error(RuntimeError, "in_features", make.normal(2, 4), make.normal(4, 3))
    yield make.error(
        RuntimeError, "bias must have shape", make.normal(2, 3), make.normal(4, 3), make.normal(3)
    )
