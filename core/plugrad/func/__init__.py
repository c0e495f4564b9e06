"""Transforms of functions: each takes a function and gives the function of its derivative.

>>> import plugrad
>>> from plugrad import func
>>> func.grad(lambda x: (x**3).sum())(plugrad.tensor([1.0, 2.0]))
tensor([ 3., 12.])

Arguments and results are trees: Tensors, or lists, tuples and dictionaries of them. Transforms nest, in any order;
``requires_grad`` of the arguments does not matter to them. What they return has a graph only where it depends on a
tensor outside that requires grad.
"""

from plugrad.func.forward import jacfwd, jvp
from plugrad.func.reverse import grad, hessian, jacrev, value_and_grad, vjp

__all__ = ["grad", "hessian", "jacfwd", "jacrev", "jvp", "value_and_grad", "vjp"]
