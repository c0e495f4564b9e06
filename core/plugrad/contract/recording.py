"""One recorded call of a problem: its tensors, and gradients through its graph as often as they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from plugrad.contract.problem import Problem

__all__ = ["Recording", "as_list"]

Array = np.ndarray


def as_list(value: Any) -> list[Any]:
    """Several outputs as a list; one output as a list of one."""
    return list(value) if isinstance(value, tuple | list) else [value]


class Recording:
    """One recorded call.

    Attributes
    ----------
    passed : list of tensors
        All that the call was given.
    inputs : list of tensors
        Those that require grad, in the order of ``problem.active``.
    returned : list of tensors
        What the call itself returned, before ``through=``.
    outputs : list of tensors
    live : list of int
        Which outputs can be differentiated.
    """

    def __init__(
        self,
        problem: Problem,
        passed: list[Any],
        inputs: list[Any],
        returned: list[Any],
        outputs: list[Any],
    ) -> None:
        self.problem = problem
        self.passed = passed
        self.inputs = inputs
        self.returned = returned
        self.outputs = outputs
        self.live = [i for i, out in enumerate(outputs) if out is not None and out.requires_grad]

    def tensors(self, seeds: Sequence[Any], create_graph: bool = False, keep: bool = True) -> Any:
        """Gradients as tensors (None where nothing flows); `seeds` are tensors, one per live output."""
        outputs = [self.outputs[i] for i in self.live]
        return self.problem.target.library.grad(
            outputs, self.inputs, list(seeds), create_graph, keep
        )

    def gradient(
        self, seeds: Sequence[Array], create_graph: bool = False, keep: bool = True
    ) -> list[Array]:
        """Gradients as arrays, zeros where nothing flows."""
        library = self.problem.target.library
        return self.arrays(
            self.tensors([library.tensor(seed) for seed in seeds], create_graph, keep)
        )

    def arrays(self, found: Sequence[Any]) -> list[Array]:
        """What `tensors` gave as arrays, zeros where nothing flows."""
        library = self.problem.target.library
        return [
            np.zeros_like(library.array(x)) if g is None else library.array(g)
            for g, x in zip(found, self.inputs)
        ]
