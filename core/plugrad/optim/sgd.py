"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from typing import Any

from plugrad.graph.tensor import Tensor
from plugrad.optim.kernels import kernels_for
from plugrad.optim.optimizer import Optimizer, Parameters, refuse, require
from plugrad.optim.parameters import arrays, gradients


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

    def update(self, params: list[Tensor], group: dict[str, Any]) -> None:
        if not group["momentum"]:
            self._follow(params, None, 1.0, group)
            return
        # By what their gradients are multiplied by: the first one is taken whole.
        shares: dict[float, list[Tensor]] = {}
        for p in params:
            state, share = self.state[p], 1.0
            if state.get("momentum_buffer") is None:
                state["momentum_buffer"] = Tensor(kernels_for(p.device).zeros_like(p.array))
            else:
                share -= group["dampening"]
            shares.setdefault(share, []).append(p)
        for share, own in shares.items():
            buffers = arrays([self.state[p]["momentum_buffer"] for p in own])
            self._follow(own, buffers, share, group)

    def _follow(
        self, params: list[Tensor], buffers: list[Any] | None, fresh: float, group: dict[str, Any]
    ) -> None:
        kernels_for(params[0].device).sgd(
            arrays(params),
            gradients(params),
            buffers,
            rate=float(group["lr"]),
            momentum=group["momentum"],
            fresh=fresh,
            decay=group["weight_decay"],
            nesterov=group["nesterov"],
            maximize=group["maximize"],
        )
