"""Adam, and AdamW with its decoupled weight decay."""

from __future__ import annotations

from typing import Any

from plugrad.graph.tensor import Tensor
from plugrad.optim.kernels import kernels_for
from plugrad.optim.optimizer import Optimizer, Parameters, refuse, require
from plugrad.optim.parameters import arrays, gradients


class Adam(Optimizer):
    """Kingma and Ba, arXiv:1412.6980, algorithm 1.

    Parameters
    ----------
    params : iterable
        See `Optimizer`.
    lr : float
    betas : (float, float)
        Decay of the running means of the gradient and of its square.
    eps : float
        Added to the root of the latter, after its correction for the start at zero.
    weight_decay : float
        Times the parameter, added to the gradient; see `decoupled_weight_decay`.
    amsgrad : bool
        Divide by the root of the greatest mean square so far (Reddi et al., arXiv:1904.09237).
    maximize : bool
        Step along the gradient, not against it.
    decoupled_weight_decay : bool
        Shrink the parameter by ``lr * weight_decay`` instead (Loshchilov and Hutter, arXiv:1711.05101).
    foreach, fused : bool, optional
        Accepted for PyTorch's sake: they say how, not what is computed.

    Raises
    ------
    ValueError
        An option is out of its range.
    TypeError
        A parameter is complex.
    NotImplementedError
        `capturable` or `differentiable` is set.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        refuse(capturable=capturable, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def check_options(self, group: dict[str, Any]) -> None:
        for name in ("lr", "eps", "weight_decay"):
            require(group[name] >= 0, name, group[name], "at least 0")
        for beta in group["betas"]:
            require(0 <= beta < 1, "each of betas", beta, "at least 0 and below 1")
        for p in group["params"]:
            if p.dtype.kind == "c":
                raise TypeError(
                    f"{type(self).__name__} is for real parameters, got {p.dtype} of shape {p.shape}"
                )

    def update(self, params: list[Tensor], group: dict[str, Any]) -> None:
        amsgrad = group["amsgrad"]
        names = ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if amsgrad else ()))
        # By how many steps they have made: one that had no gradient at times is behind.
        stepped: dict[int, list[Tensor]] = {}
        for p in params:
            state = self.state[p]
            if not state:
                zeros_like = kernels_for(p.device).zeros_like
                state["step"] = 0
                state.update({name: Tensor(zeros_like(p.array)) for name in names})
            state["step"] += 1
            stepped.setdefault(state["step"], []).append(p)
        lr, betas, decay = float(group["lr"]), group["betas"], group["weight_decay"]
        decoupled = group["decoupled_weight_decay"]
        for steps, own in stepped.items():
            states = [self.state[p] for p in own]
            kernels_for(own[0].device).adam(
                arrays(own),
                gradients(own),
                arrays([state["exp_avg"] for state in states]),
                arrays([state["exp_avg_sq"] for state in states]),
                arrays([state["max_exp_avg_sq"] for state in states]) if amsgrad else None,
                # Both means start at zero; these undo the bias that this gives them.
                rate=lr / (1.0 - betas[0] ** steps),
                root=(1.0 - betas[1] ** steps) ** 0.5,
                eps=group["eps"],
                betas=betas,
                decay=0.0 if decoupled else decay,
                shrink=1.0 - lr * decay if decoupled else 1.0,
                maximize=group["maximize"],
            )


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, arXiv:1711.05101); arguments as `Adam`."""

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
