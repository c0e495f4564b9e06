"""What all optimizers share: groups of parameters, state per parameter, saving and loading both."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import Any

from plugrad.graph.grad_mode import enable_grad
from plugrad.graph.tensor import Tensor
from plugrad.optim.parameters import note_changes, with_gradient

Parameters = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
Closure = Callable[[], Any]


class Optimizer:
    """Base class: an optimizer defines ``update(params, group)`` on arrays.

    Parameters
    ----------
    params : iterable
        Leaf tensors, ``(name, tensor)`` pairs, or dicts with such an iterable under ``"params"`` and
        options of that group.
    defaults : dict
        Options of groups that do not give their own.

    Attributes
    ----------
    param_groups : list of dict
        The options and, under ``"params"``, the tensors of each group. Options may be changed at any time.
    state : dict
        What the optimizer remembers, per parameter; empty for one that never had a gradient.

    Raises
    ------
    TypeError
        `params` is a single tensor or holds something else than tensors.
    ValueError
        There is no parameter, one is no leaf, or one is in several groups.
    """

    def __init__(self, params: Parameters, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError("params must be an iterable of Tensors or dicts, got a Tensor")
        given: list[Any] = list(params)
        if not given:
            raise ValueError("the optimizer got an empty list of parameters")
        self.defaults = defaults
        self.state: dict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        self.stepped = False
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add tensors with options of their own, for instance layers that are unfrozen later.

        Raises
        ------
        TypeError
            `param_group` is no dict, holds a set (its order is not reproducible) or no tensors.
        ValueError
            A tensor is no leaf or has a group already.
        """
        if not isinstance(param_group, dict):
            raise TypeError(
                f"a group of parameters must be a dict, got {type(param_group).__name__}"
            )
        given = param_group["params"]
        if isinstance(given, set):
            raise TypeError("parameters must come in a fixed order, got a set")
        items = [given] if isinstance(given, Tensor) else list(given)
        named = bool(items) and all(isinstance(item, tuple) for item in items)
        params = [item[1] for item in items] if named else items
        taken = {id(p) for group in self.param_groups for p in group["params"]}
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"an optimizer changes Tensors, got {type(p).__name__}")
            if not p.is_leaf and not p.retains_grad:
                raise ValueError(
                    f"an optimizer changes leaf tensors; this one (shape {p.shape}) was computed by "
                    f"{p.grad_fn}"
                )
            if id(p) in taken:
                raise ValueError(f"a parameter (shape {p.shape}) is in more than one place")
            taken.add(id(p))
        group = {**self.defaults, **param_group, "params": params}
        if named:
            group["param_names"] = [item[0] for item in items]
        self.check_options(group)
        self.param_groups.append(group)

    def check_options(self, group: dict[str, Any]) -> None:
        """Refuse options that make no sense; for subclasses."""

    # ---- gradients and steps ----

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients; with ``set_to_none=False`` fill them with zeros in place."""
        for p in self._parameters():
            if set_to_none or p.grad is None:
                p.grad = None
            else:
                p.grad = p.grad.detach()
                p.grad.zero_()

    def step(self, closure: Closure | None = None) -> Any:
        """Change every parameter that has a gradient.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss and its gradients again; called first.

        Returns
        -------
        The result of `closure`, or None.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        self.stepped = True
        for group in self.param_groups:
            for params in with_gradient(group["params"]):
                try:
                    self.update(params, group)
                finally:  # an error may come when some have changed
                    note_changes(params)
        return loss

    def update(self, params: list[Tensor], group: dict[str, Any]) -> None:
        """Change the arrays of parameters of a group in place; for subclasses.

        All of them have a gradient, and lie on one device.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no update()")

    def _parameters(self) -> Iterator[Tensor]:
        return (p for group in self.param_groups for p in group["params"])

    # ---- saving and loading ----

    def state_dict(self) -> dict[str, Any]:
        """The options of all groups and the state of all parameters, which are numbered in order.

        Tensors in it are the optimizer's own, not copies.
        """
        numbers = {id(p): i for i, p in enumerate(self._parameters())}
        groups = [
            {**group, "params": [numbers[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        state = {numbers[id(p)]: value for p, value in self.state.items() if id(p) in numbers}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave, copied; state goes to the device of its parameter, and takes its dtype if floating.

        Raises
        ------
        ValueError
            The groups or their numbers of parameters differ.
        """
        groups = deepcopy(state_dict["param_groups"])
        found = [len(group["params"]) for group in groups]
        expected = [len(group["params"]) for group in self.param_groups]
        if found != expected:
            raise ValueError(
                f"the saved state has groups of {found} parameters, the optimizer has {expected}"
            )
        of_number: dict[int, Tensor] = {}
        for saved, group in zip(groups, self.param_groups):
            of_number.update(zip(saved["params"], group["params"]))
        state: dict[Tensor, dict[str, Any]] = defaultdict(dict)
        for number, values in state_dict["state"].items():
            p = of_number[number]
            state[p] = {name: _taken_over(name, value, p) for name, value in values.items()}
        self.state = state
        self.param_groups = [
            {**self.defaults, **saved, "params": group["params"]}
            for saved, group in zip(groups, self.param_groups)
        ]

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])


def _taken_over(name: str, value: Any, p: Tensor) -> Any:
    """A copy of saved state, where its parameter is and fit for it. A count of steps may come as a tensor, as PyTorch keeps it."""
    if name == "step":
        return int(value)
    if isinstance(value, Tensor):
        dtype = p.dtype if value.is_floating_point() else value.dtype
        return value.detach().to(dtype=dtype, device=p.device, copy=True)
    return deepcopy(value)


# ---- for the optimizers ------------------------------------------------------------------------------------


def require(condition: bool, name: str, value: Any, expected: str) -> None:
    """Raise the ValueError of an option that makes no sense."""
    if not condition:
        raise ValueError(f"{name} must be {expected}, got {value!r}")


def refuse(**flags: Any) -> None:
    """Raise for arguments of PyTorch that ask for what is not offered."""
    for name, value in flags.items():
        if value:
            raise NotImplementedError(f"{name}={value!r} is not offered")
