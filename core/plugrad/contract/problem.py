"""A sample as a function of its arrays: what every check evaluates, perturbs and differentiates.

(a) The arrays of a call are kept flat, whatever lists, numbers and absent tensors stand between them;
    `Problem.args` puts them back in their places.
(b) Near a kink a central difference means nothing. Elements near a declared kink value are moved away when the
    problem is made; where a predicate tells kinks, they are left out: outputs by a zero weight, elements of
    the first input by never moving them.
(c) `prepare` runs the call once, forward and backward, and keeps the results: most checks compare with them.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from plugrad.contract.numeric import reals
from plugrad.contract.samples import Sample, fixed_stream
from plugrad.contract.targets import Target

__all__ = ["Problem", "Recording", "as_list"]

Array = np.ndarray
KINK_MARGIN = 1e-2


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
        found = self.tensors([library.tensor(seed) for seed in seeds], create_graph, keep)
        return [
            np.zeros_like(library.array(x)) if g is None else library.array(g)
            for g, x in zip(found, self.inputs)
        ]


class Problem:
    """A sample of a target as a function of arrays.

    Attributes
    ----------
    arrays : list of ndarray
        The arrays of the call, float64 where floating.
    names : list of str
    active : list of int
        Which arrays are floating, so that a derivative with respect to them exists.
    live : list of int
        Which outputs can be differentiated.
    seeds : list of ndarray
        Weights between 0.5 and 1.5 in size and of either sign, zero at kinks; one array per live output.
    outputs, gradients : list of ndarray
        Of the call itself, with `seeds`.
    columns : ndarray of bool or None
        Which elements of the first input may be moved; None: all.
    """

    def __init__(self, target: Target, sample: Sample) -> None:
        if target.random and sample.constants.get("generator") is None:
            sample = replace(sample, constants={**sample.constants, "generator": fixed_stream()})
        self.target = target
        self.sample = sample
        self.arrays: list[Array] = []
        self.names: list[str] = []
        self.places: list[Any] = []
        for i, value in enumerate(sample.args):
            name = target.input_names[i] if i < len(target.input_names) else f"argument {i}"
            variadic = target.schema is not None and target.schema.variadic
            if (
                variadic
                and i >= len(target.input_names) - 1
                and not isinstance(value, list | tuple)
            ):
                name = f"{target.input_names[-1]}[{i - len(target.input_names) + 1}]"
            if isinstance(value, list | tuple) and any(isinstance(v, np.ndarray) for v in value):
                self.places.append([self._place(v, f"{name}[{j}]") for j, v in enumerate(value)])
            else:
                self.places.append(self._place(value, name))
        self.keywords = {
            name: self._place(value, name)
            for name, value in sample.constants.items()
            if isinstance(value, np.ndarray)
        }
        self._move_from_kinks()
        self.active = [k for k, array in enumerate(self.arrays) if array.dtype.kind in "fc"]
        mutates = target.schema.mutates if target.schema is not None else ()
        self.mutated = [p for i in mutates if isinstance(p := self.places[i], int)]
        self._generators = any(
            isinstance(value, np.random.Generator) or hasattr(value, "get_state")
            for value in sample.constants.values()
        )
        self.columns: Array | None = None
        self.live: list[int] = []
        self.seeds: list[Array] = []
        self.outputs: list[Array] = []
        self.gradients: list[Array] = []

    def _place(self, value: Any, name: str) -> Any:
        if not isinstance(value, np.ndarray):
            return (value,)
        self.arrays.append(np.array(value))
        self.names.append(name)
        return len(self.arrays) - 1

    def _move_from_kinks(self) -> None:
        kinks = self.target.kinks
        if not isinstance(kinks, dict) or not self.arrays or self.arrays[0].dtype.kind != "f":
            return
        x = self.arrays[0]
        values = [float(v) for v in kinks]
        for value in values:
            others = [abs(value - v) for v in values if v != value]
            margin = min([KINK_MARGIN * max(1.0, abs(value)), *(0.2 * gap for gap in others)])
            near = np.abs(x - value) < margin
            if near.any():
                x[near] = np.where(x[near] < value, value - 2 * margin, value + 2 * margin)

    # ------------------------------------------------------------------------------------- calls

    def args(self, items: Sequence[Any]) -> list[Any]:
        """The positional arguments of the call, with `items` in place of the arrays."""
        return [
            items[p]
            if isinstance(p, int)
            else p[0]
            if isinstance(p, tuple)
            else [items[q] if isinstance(q, int) else q[0] for q in p]
            for p in self.places
        ]

    def constants(self, items: Sequence[Any] = ()) -> dict[str, Any]:
        """The keyword arguments, with `items` in place of arrays passed by keyword.

        Generators are copied, so that each call draws the same numbers.
        """
        constants = self.sample.constants
        if self.keywords:
            constants = {**constants, **{n: items[p] for n, p in self.keywords.items()}}
        if self._generators:
            constants = {name: copy.deepcopy(value) for name, value in constants.items()}
        return constants

    def point(
        self, function: Callable[..., Any], arrays: Sequence[Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """How a function that is declared beside the operator is called at `arrays`.

        The reference, the surrogate, kinks and infer take the tensors by position, an absent one
        as None and a list spread out, and every constant by keyword.
        """
        args = self.args(arrays)
        constants = dict(self.constants(arrays))
        schema = self.target.schema
        if schema is not None:
            return _as_declared(schema, args, constants)
        return args, {**_left_out(self.target.op, function, len(args), constants), **constants}

    def _call(self, tensors: list[Any]) -> tuple[list[Any], list[Any]]:
        found = as_list(self.target.call(self.args(tensors), self.constants(tensors)))
        # A composite may answer with a Python bool or number, as `allclose` does.
        returned = [
            self.target.library.tensor(np.asarray(value))
            if isinstance(value, bool | int | float)
            else value
            for value in found
        ]
        if self.sample.through is None:
            return returned, returned
        return returned, as_list(self.sample.through(*returned))

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """The outputs at `arrays`; nothing is recorded."""
        library = self.target.library
        if self.mutated:
            arrays = [a.copy() if k in self.mutated else a for k, a in enumerate(arrays)]
        with library.recording(False):
            outputs = self._call([library.tensor(array) for array in arrays])[1]
        return [library.array(out) for out in outputs]

    def record(
        self, arrays: Sequence[Array] | None = None, active: Sequence[int] | None = None
    ) -> Recording:
        """A recorded call at `arrays`; the `active` arrays require grad (by default all floating ones)."""
        library = self.target.library
        arrays = self.arrays if arrays is None else arrays
        active = self.active if active is None else active
        tensors = [library.tensor(array, k in active) for k, array in enumerate(arrays)]
        passed = tensors
        if self.mutated:
            passed = [library.copy(t) if k in self.mutated else t for k, t in enumerate(tensors)]
        returned, outputs = self._call(passed)
        return Recording(self, tensors, [tensors[k] for k in active], returned, outputs)

    # ------------------------------------------------------------------------------- the baseline

    def prepare(self, rng: np.random.Generator) -> None:
        """Run the call once, forward and backward, and keep what it gives."""
        # On copies: what writes into its arguments must not reach the arrays it is judged by.
        recording = self.record([array.copy() for array in self.arrays])
        library = self.target.library
        self.outputs = [np.array(library.array(out)) for out in recording.outputs]
        self.live = recording.live
        rows = self._exclude_kinks()
        self.seeds = [weights_like(rng, self.outputs[i], rows) for i in self.live]
        self.gradients = []
        if self.live and self.active:
            self.gradients = recording.gradient([seed.copy() for seed in self.seeds])

    def _exclude_kinks(self, tol: float = 1e-3) -> Array | None:
        """Set `columns`; return the mask of usable output elements, or None for all."""
        if not callable(self.target.kinks) or not self.outputs:
            return None
        mask = self.near_kink(self.arrays, tol)
        if not mask.any():
            return None
        if self.active and fits(mask.shape, self.arrays[self.active[0]].shape):
            self.columns = ~np.broadcast_to(mask, self.arrays[self.active[0]].shape)
        shape = self.outputs[0].shape
        return ~np.broadcast_to(mask, shape) if fits(mask.shape, shape) else None

    def near_kink(self, arrays: Sequence[Array], tol: float) -> Array:
        """Where the declared predicate sees a kink within `tol`."""
        args, constants = self.point(self.target.kinks, arrays)
        return np.asarray(self.target.kinks(*args, tol=tol, **constants), dtype=bool)

    def flat(self, arrays: Sequence[Array]) -> Array:
        """Live outputs at `arrays` as one vector of float64; zero at kinks."""
        return self.join(self.run(arrays))

    def join(self, outputs: Sequence[Any]) -> Array:
        """Live ones of `outputs` as one vector of float64; zero at kinks."""
        if len(self.live) == 1:
            seed = self.seeds[0]
            dtype = np.complex128 if seed.dtype.kind == "c" else np.float64
            out = np.array(outputs[self.live[0]], dtype=dtype)
            if out.shape != seed.shape:
                out = np.array(np.broadcast_to(out, seed.shape))
            if not seed.all():
                out[seed == 0.0] = 0.0
            return reals(out)
        parts = [np.zeros(0)]
        for i, seed in zip(self.live, self.seeds):
            parts.append(reals(np.where(seed == 0.0, 0.0, outputs[i])).astype(np.float64))
        return np.concatenate(parts)

    def model(self, arrays: Sequence[Array]) -> Array:
        """What backward must be the derivative of: the surrogate at `arrays` if there is one, else `flat`."""
        surrogate = self.target.surrogate
        if surrogate is None:
            return self.flat(arrays)
        args, constants = self.point(surrogate, arrays)
        if self.target.surrogate_takes_at:
            constants["at"] = tuple(self.point(surrogate, self.arrays)[0])
        found = as_list(surrogate(*args, **constants))
        if self.sample.through is not None:
            library = self.target.library
            with library.recording(False):
                tensors = [library.tensor(np.asarray(out)) for out in found]
                found = [library.array(out) for out in as_list(self.sample.through(*tensors))]
        if len(found) != len(self.outputs):
            found = _spread(found, self.live, len(self.outputs))
        return self.join(found)

    # --------------------------------------------------------------------------------- naming

    def output_name(self, row: int) -> str:
        """Name of the element at position `row` of ``flat``."""
        names = self.target.schema.outputs if self.target.schema is not None else ()
        for i, seed in zip(self.live, self.seeds):
            if row < reals(seed).size:
                name = names[i] if len(names) == len(self.outputs) else f"out {i}"
                name = name if len(self.outputs) > 1 else "out"
                return number_of(name, row, seed)
            row -= reals(seed).size
        return "out"

    def input_name(self, k: int, position: int) -> str:
        """Name of one of the numbers that ``arrays[k]`` holds."""
        return number_of(self.names[k], position, self.arrays[k])


def weights(rng: np.random.Generator, shape: tuple[int, ...], keep: Array | None = None) -> Array:
    """Random weights of either sign and size between 0.5 and 1.5; zero where `keep` is False."""
    values = np.asarray(rng.uniform(0.5, 1.5, shape) * rng.choice((-1.0, 1.0), shape))
    return np.where(keep, values, 0.0) if keep is not None and keep.shape == shape else values


def weights_like(rng: np.random.Generator, array: Any, keep: Array | None = None) -> Array:
    """`weights` of the shape and dtype of an array or tensor, either part of a complex one on its own."""
    found = weights(rng, array.shape, keep)
    if array.dtype.kind == "c":
        found = found + 1j * weights(rng, array.shape, keep)
    return found.astype(array.dtype)


def number_of(name: str, position: int, array: Array) -> str:
    """The element of an array that the real number at a flat position belongs to, and which part of it that is."""
    if array.dtype.kind != "c":
        return element(name, position, array.shape)
    return f"{element(name, position // 2, array.shape)}.{'imag' if position % 2 else 'real'}"


def element(name: str, position: int, shape: tuple[int, ...]) -> str:
    """``name[i, j]`` for a flat position."""
    if not shape:
        return name
    return f"{name}[{', '.join(str(int(i)) for i in np.unravel_index(position, shape))}]"


def fits(shape: tuple[int, ...], into: tuple[int, ...]) -> bool:
    """Whether an array of `shape` broadcasts to the shape `into`."""
    return len(shape) <= len(into) and all(
        a in (1, b) for a, b in zip(reversed(shape), reversed(into))
    )


def _as_declared(
    schema: Any, args: list[Any], constants: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of an operator's call, tensors by position and all constants by keyword."""
    fixed = len(schema.inputs) - int(schema.variadic)
    tensors, rest = args[:fixed], args[fixed:]
    for name in schema.inputs[len(tensors) : fixed]:
        tensors.append(constants.pop(name, None))
    if schema.variadic:
        if rest and isinstance(rest[0], list):
            tensors += rest.pop(0)
        else:
            tensors += [value for value in rest if value is not None]
            rest = []
    given = dict(zip((n for n in schema.constants if n not in constants), rest))
    return tensors, {**schema.defaults, **constants, **given}


def _left_out(
    op: Any, function: Callable[..., Any], given: int, constants: dict[str, Any]
) -> dict[str, Any]:
    """Defaults of a composite's parameters that the call leaves out and `function` takes."""
    try:
        theirs = inspect.signature(getattr(op, "function", op)).parameters
        ours = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    return {
        name: parameter.default
        for name, parameter in list(theirs.items())[given:]
        if parameter.default is not parameter.empty and name not in constants and name in ours
    }


def _spread(found: list[Any], live: list[int], count: int) -> list[Any]:
    if len(found) != len(live):
        raise ValueError(
            f"the surrogate gives {len(found)} outputs, expected {count} (or the {len(live)} that can be differentiated)"
        )
    spread: list[Any] = [None] * count
    for i, out in zip(live, found):
        spread[i] = out
    return spread
