"""`gradcheck` and `gradgradcheck`: PyTorch's functions, for any function of Tensors.

They differ from PyTorch's where it accepts a wrong gradient: `atol` counts relative to the largest derivative when
that is below 1, so that a function scaled by 1e-6 is held as strictly; a dropped element of a large input is
found in fast mode too; an incoming gradient that backward changes in place is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from plugrad.contract.checker import (
    Checker,
    GradcheckError,
    as_tuple,
    differentiable,
    outputs_of,
)
from plugrad.contract.problem import weights_like

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of `func` with central differences.

    Parameters
    ----------
    func : callable
        From the inputs to a Tensor or a tuple of Tensors.
    inputs : Tensor or tuple
        At least one must require grad; float64 (or complex128, whose two parts count as two numbers) is what the
        tolerances are made for.
    eps : float
        Step of the central differences, times ``max(|x|, 1)``.
    atol, rtol : float
        Allowed is ``atol * min(scale, 1) + rtol * |numerical|`` and the rounding of `func` over the
        step, where scale is the largest derivative with respect to the same input.
    raise_exception : bool
        Whether a failure raises; else the result is False.
    nondet_tol : float
        Allowed difference between two runs of the same backward.
    check_undefined_grad : bool
        Whether a missing gradient for one of several outputs must count as zeros.
    check_grad_dtypes : bool
        Whether each gradient must have the dtype of its input.
    fast_mode : bool
        Random directions in groups of elements in place of every element.
    check_batched_grad, check_batched_forward_grad, check_forward_ad, masked
        Accepted for compatibility; only their default is implemented.

    Returns
    -------
    bool
        True if the gradients are right.

    Raises
    ------
    GradcheckError
        They are not, and `raise_exception` is True.
    ValueError
        No input requires grad, or nothing that can be checked was asked for.
    RuntimeError
        An input has overlapping memory (a stride of 0), so its elements cannot be moved one by one.
    NotImplementedError
        One of the arguments above that only exist for compatibility.

    Examples
    --------
    >>> x = plugrad.tensor([0.5, 2.0], dtype=plugrad.float64, requires_grad=True)
    >>> plugrad.autograd.gradcheck(plugrad.exp, x)
    True
    """
    _only_default("gradcheck", "check_batched_grad", check_batched_grad)
    _only_default("gradcheck", "check_batched_forward_grad", check_batched_forward_grad)
    _only_default("gradcheck", "check_forward_ad", check_forward_ad)
    _only_default("gradcheck", "masked", masked)
    if not check_backward_ad:
        raise ValueError("gradcheck: check_backward_ad=False leaves nothing to check")
    from plugrad import registry

    try:
        # Backward may meet an operator for the first time, and cannot wait for its battery.
        with registry.group(), np.errstate(all="ignore"):
            checker = Checker(func, inputs, eps, atol, rtol, nondet_tol)
            checker.check(fast_mode, check_undefined_grad, check_grad_dtypes)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare second derivatives with central differences of the gradients.

    What is checked is the function of the inputs and of `grad_outputs` that gives the gradients with respect to the
    inputs; the other parameters are those of `gradcheck`.

    Parameters
    ----------
    grad_outputs : Tensor or tuple of Tensors, optional
        Incoming gradients; by default random ones.
    gen_non_contig_grad_outputs : bool
        Whether the random ones are strided.
    check_fwd_over_rev
        Accepted for compatibility; only its default is implemented.

    Returns
    -------
    bool
    """
    _only_default("gradgradcheck", "check_fwd_over_rev", check_fwd_over_rev)
    if not check_rev_over_rev:
        raise ValueError("gradgradcheck: check_rev_over_rev=False leaves nothing to check")
    from plugrad.graph.engine import grad
    from plugrad.graph.tensor import Tensor

    given = as_tuple(inputs)
    outputs = differentiable(outputs_of(func(*given)))
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        seeds = []
        for out in outputs:
            seed = weights_like(rng, out)
            if gen_non_contig_grad_outputs and seed.ndim:
                wide = np.zeros((*seed.shape[:-1], 2 * seed.shape[-1]), seed.dtype)
                wide[..., ::2] = seed
                seed = wide[..., ::2]
            seeds.append(Tensor(seed.astype(out.dtype, copy=False), True))
    else:
        seeds = [Tensor(seed.array, True) for seed in as_tuple(grad_outputs)]
    if len(seeds) != len(outputs):
        raise ValueError(
            f"gradgradcheck: {len(seeds)} grad_outputs for {len(outputs)} differentiable outputs"
        )

    def gradients(*args: Any) -> tuple[Any, ...]:
        values = args[: len(given)]
        wanted = [v for v in values if isinstance(v, Tensor) and v.requires_grad]
        found = grad(
            differentiable(outputs_of(func(*values))),
            wanted,
            args[len(given) :],
            create_graph=True,
            allow_unused=True,
        )
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients,
        (*given, *seeds),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        fast_mode=fast_mode,
        masked=masked,
    )


def _only_default(function: str, name: str, value: Any) -> None:
    if value:
        raise NotImplementedError(
            f"{function}: {name}={value!r} is not implemented; leave it at its default"
        )
