"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from typing import Any

from plugrad.graph.tensor import Tensor
from plugrad.optim.kernels import kernels_for
from plugrad.optim.optimizer import Optimizer, Parameters, refuse, require


class SGD(Optimizer):
    """``p -= lr * b`` with ``b = momentum * b + (1 - dampening) * grad``; the first b is the gradient.

    Parameters
    ----------
    params : iterable
        See `Optimizer`.
    lr : float
    momentum, dampening : float
    weight_decay : float
        Times the parameter, added to the gradient.
    nesterov : bool
        Step along ``grad + momentum * b``; needs momentum and no dampening.
    maximize : bool
        Step along the gradient, not against it.
    foreach, fused : bool, optional
        Accepted for PyTorch's sake: they say how, not what is computed.

    Raises
    ------
    ValueError
        An option is out of its range.
    NotImplementedError
        `differentiable` is set.

    Examples
    --------
    >>> p = plugrad.tensor([1.0], requires_grad=True)
    >>> optimizer = plugrad.optim.SGD([p], lr=0.1)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p.tolist()
    [0.800000011920929]
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        refuse(differentiable=differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def check_options(self, group: dict[str, Any]) -> None:
        for name in ("lr", "momentum", "weight_decay"):
            require(group[name] >= 0, name, group[name], "at least 0")
        if group["nesterov"]:
            require(group["momentum"] > 0, "momentum", group["momentum"], "above 0 for nesterov")
            require(group["dampening"] == 0, "dampening", group["dampening"], "0 for nesterov")

    def update(
        self, parameter: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        kernels, momentum = kernels_for(parameter.device), group["momentum"]
        buffer, fresh = None, 1.0
        if momentum:
            if state.get("momentum_buffer") is None:
                state["momentum_buffer"] = Tensor(kernels.zeros_like(parameter.array))
            else:
                fresh = 1.0 - group["dampening"]
            buffer = state["momentum_buffer"].array
        kernels.sgd(
            parameter.array,
            grad.array,
            buffer,
            rate=float(group["lr"]),
            momentum=momentum,
            fresh=fresh,
            decay=group["weight_decay"],
            nesterov=group["nesterov"],
            maximize=group["maximize"],
        )
