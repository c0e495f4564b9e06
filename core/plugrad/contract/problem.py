"""A sample as a function of its arrays: what every check evaluates, perturbs and differentiates.

(a) The arrays of a call are kept flat, whatever lists, numbers and absent tensors stand between them;
    `Problem.args` puts them back in their places.
(b) Near a kink a central difference means nothing. Elements near a declared kink value are moved away when the
    problem is made; where a predicate tells kinks, they are left out: outputs by a zero weight, elements of
    the first input by never moving them.
(c) `prepare` runs the call once, forward and backward, and keeps the results and the graph: most checks compare with
    them, and ask that graph for other gradients. What `unchanged` computes beside is kept too, for the checks after it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from plugrad.contract.arguments import as_declared, left_out
from plugrad.contract.numeric import peak, reals
from plugrad.contract.recording import Recording, as_list
from plugrad.contract.samples import Sample, fixed_stream
from plugrad.contract.targets import Target

__all__ = ["Problem", "as_list"]

Array = np.ndarray
KINK_MARGIN = 1e-2


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
    others, other_gradients : list of ndarray
        Other weights, as random as `seeds` and zero where those are, and the gradients with them.
    again : tuple of two lists of ndarray or None
        Outputs and gradients of a second call, as the check `unchanged` left them.
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
        self.others: list[Array] = []
        self.again: tuple[list[Array], list[Array]] | None = None
        self._other_gradients: list[Array] | None = None
        self._recording: Recording | None = None
        self._grads: list[Any] | None = None
        self._by_rule: list[Any] | None = None

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
            return as_declared(schema, args, constants)
        return args, {**left_out(self.target.op, function, len(args), constants), **constants}

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

    @property
    def recording(self) -> Recording:
        """The call at `arrays`, recorded once; gradients with any seeds can be asked of it."""
        if self._recording is None:
            # On copies: what writes into its arguments must not reach the arrays it is judged by.
            self._recording = self.record([array.copy() for array in self.arrays])
        return self._recording

    def forget(self) -> None:
        """Let the recorded call go: it will be made anew."""
        self._recording = self._grads = self._by_rule = None

    @property
    def grads(self) -> list[Any]:
        """`seeds` as tensors that require grad."""
        if self._grads is None:
            self._grads = [self.target.library.tensor(seed.copy(), True) for seed in self.seeds]
        return self._grads

    @property
    def by_rule(self) -> list[Any]:
        """The gradients with `grads` under ``create_graph=True``: tensors, None where nothing flows."""
        if self._by_rule is None:
            self._by_rule = list(self.recording.tensors(self.grads, create_graph=True))
        return self._by_rule

    def prepare(self, rng: np.random.Generator) -> None:
        """Run the call once, forward and backward, and keep what it gives."""
        library = self.target.library
        self.outputs = [np.array(library.array(out)) for out in self.recording.outputs]
        self.live = self.recording.live
        rows = self._exclude_kinks()
        self.seeds = [weights_like(rng, self.outputs[i], rows) for i in self.live]
        self.others = [weights_like(rng, self.outputs[i], rows) for i in self.live]

    def differentiate(self) -> None:
        """Run backward with `seeds`."""
        self.gradients = []
        if self.live and self.active:
            self.gradients = self.recording.gradient([seed.copy() for seed in self.seeds])

    @property
    def other_gradients(self) -> list[Array]:
        """The gradients with `others`."""
        if self._other_gradients is None:
            self._other_gradients = self.recording.gradient([seed.copy() for seed in self.others])
        return self._other_gradients

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

    # ----------------------------------------------------------------------------------- sizes

    @cached_property
    def peaks(self) -> list[float]:
        """The largest element of each gradient."""
        return [peak(gradient) for gradient in self.gradients]

    @cached_property
    def natural_scale(self) -> float:
        """The size a derivative has by the sizes of outputs, seeds and inputs: outputs over inputs.

        Rounding is relative to it where terms cancel, whatever little is left of them.
        """
        outputs = sum(peak(self.outputs[i]) * peak(s) for i, s in zip(self.live, self.seeds))
        inputs = max((peak(self.arrays[k]) for k in self.active), default=0.0)
        return outputs / inputs if inputs > 0.0 else outputs

    @cached_property
    def constants_text(self) -> str:
        """The constants of the call, to tell whether two are the same."""
        return repr(self.sample.constants)

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
    values = np.asarray(rng.uniform(-1.0, 1.0, shape))
    values = values + np.copysign(0.5, values)
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


def _spread(found: list[Any], live: list[int], count: int) -> list[Any]:
    if len(found) != len(live):
        raise ValueError(
            f"the surrogate gives {len(found)} outputs, expected {count} (or the {len(live)} that can be differentiated)"
        )
    spread: list[Any] = [None] * count
    for i, out in zip(live, found):
        spread[i] = out
    return spread
