"""Functions that make tensors, called as they stand on both libraries."""

CREATION = {
    "arange": [
        "arange(5)",
        "arange(2, 9, 3)",
        "arange(0.0, 1.0, 0.3)",
        "arange(3, dtype=float64)",
        "arange(5, 0, -2)",
    ],
    "linspace": [
        "linspace(0, 1, 5)",
        "linspace(-1.0, 2.0, 1)",
        "linspace(3, 0, 4, dtype=float64)",
        "linspace(0, 1, 0)",
    ],
    "logspace": ["logspace(0, 2, 3)", "logspace(0, 1, 4, base=2.0, dtype=float64)"],
    "eye": ["eye(3)", "eye(2, 3)", "eye(0)", "eye(2, dtype=int64)"],
    "zeros": ["zeros(2, 3)", "zeros((2, 0))", "zeros(3, dtype=int32)", "zeros(())"],
    "ones": ["ones(2, 3)", "ones((2, 0))", "ones(3, dtype=bool)"],
    "full": [
        "full((2, 3), 1.5)",
        "full((2,), 3)",
        "full((), True)",
        "full((2,), 3, dtype=float64)",
    ],
    "empty": ["empty(2, 3).shape", "empty((0, 2)).dtype"],
    "zeros_like": ["zeros_like(x)", "zeros_like(x, dtype=int64)"],
    "ones_like": ["ones_like(x)", "ones_like(x, dtype=float64)"],
    "full_like": ["full_like(x, 2)", "full_like(x, 2, dtype=int64)"],
    "empty_like": ["empty_like(x).shape", "empty_like(x).dtype"],
    "tensor": [
        "tensor([[1, 2], [3, 4]])",
        "tensor(1.5)",
        "tensor([True])",
        "tensor([1, 2.5])",
        "tensor([])",
        "tensor([1, 2], dtype=float64)",
    ],
    "as_tensor": ["as_tensor([1.0, 2.0])", "as_tensor(x)", "as_tensor(3)"],
    "asarray": ["asarray([1.0, 2.0])", "asarray(x)"],
    "scalar_tensor": ["scalar_tensor(2)", "scalar_tensor(2.5)"],
    "tril_indices": ["tril_indices(3, 3)", "tril_indices(3, 4, 1)", "tril_indices(2, 4, -1)"],
    "triu_indices": ["triu_indices(3, 3)", "triu_indices(3, 4, 1)", "triu_indices(2, 4, -1)"],
    "broadcast_shapes": [
        "tuple(broadcast_shapes((2, 1), (3,)))",
        "tuple(broadcast_shapes((), (0, 1)))",
    ],
    "Tensor.new_zeros": ["x.new_zeros(2, 3)", "x.new_zeros((2,), dtype=int64)"],
    "Tensor.new_ones": ["x.new_ones(2, 3)"],
    "Tensor.new_full": ["x.new_full((2,), 3)"],
    "Tensor.new_tensor": ["x.new_tensor([1, 2])"],
}
"""Path to expressions in the names of the library, with ``x`` a float32 tensor of shape (2, 3)."""
