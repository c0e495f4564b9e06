"""One gradcheck in progress: a function of Tensors as a function of arrays, and its gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from plugrad.contract.numeric import EPS, from_reals, reals
from plugrad.contract.problem import number_of

__all__ = ["Checker", "GradcheckError", "as_tuple", "differentiable", "outputs_of"]

Array = np.ndarray


def widest(dtype: np.dtype[Any]) -> type[np.generic]:
    return np.complex128 if dtype.kind == "c" else np.float64


class GradcheckError(RuntimeError):
    """The gradients of a function are not its derivatives; the message tells where and how."""


def as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def outputs_of(value: Any) -> list[Any]:
    from plugrad.graph.tensor import Tensor

    outputs = list(as_tuple(value))
    for out in outputs:
        if not isinstance(out, Tensor):
            raise ValueError(
                f"gradcheck: the function must return Tensors, got {type(out).__name__}"
            )
    return outputs


def differentiable(outputs: list[Any]) -> list[Any]:
    return [out for out in outputs if out.requires_grad]


class Checker:
    """One gradcheck: the function as arrays to arrays, and its gradients."""

    def __init__(
        self,
        func: Callable[..., Any],
        inputs: Any,
        eps: float,
        atol: float,
        rtol: float,
        nondet_tol: float,
    ) -> None:
        from plugrad.graph.engine import grad
        from plugrad.graph.tensor import Tensor

        self._tensor, self._grad = Tensor, grad
        self.func, self.eps, self.atol, self.rtol = func, eps, atol, rtol
        self.nondet_tol = nondet_tol
        self.given = as_tuple(inputs)
        self.places = [
            i for i, v in enumerate(self.given) if isinstance(v, Tensor) and v.requires_grad
        ]
        if not self.places:
            raise ValueError("gradcheck: at least one input must be a Tensor that requires grad")
        for i in self.places:
            array = self.given[i].array
            if array.size and any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape)):
                raise RuntimeError(
                    f"gradcheck: input {i} has a stride of 0, so its elements share memory and cannot be "
                    "moved one by one; pass a copy"
                )
        self.arrays = [np.array(self.given[i].array) for i in self.places]
        self.outputs = outputs_of(func(*self.given))
        self.live = [n for n, out in enumerate(self.outputs) if out.requires_grad]
        self.likes = [np.asarray(self.outputs[n].array) for n in self.live]
        self.sizes = [reals(like).size for like in self.likes]

    # -------------------------------------------------------------------------------- evaluation

    def call(self, arrays: Sequence[Array]) -> list[Any]:
        """The function at other arrays; its inputs require grad, for it may differentiate inside."""
        values = list(self.given)
        for place, array in zip(self.places, arrays):
            values[place] = self._tensor(array, True)
        return outputs_of(self.func(*values))

    def vector(self, arrays: Sequence[Array], which: Sequence[int] | None = None) -> Array:
        """Outputs as one float64 vector: the differentiable ones, or `which`."""
        outputs = self.call(arrays)
        chosen = self.live if which is None else which
        parts = [reals(outputs[n].array).astype(np.float64) for n in chosen]
        return np.concatenate(parts) if parts else np.zeros(0)

    def gradient(self, seeds: Sequence[Array]) -> list[Any]:
        """Backward with `seeds` through the graph of the inputs as given."""
        return list(
            self._grad(
                [self.outputs[n] for n in self.live],
                [self.given[i] for i in self.places],
                [self._tensor(seed) for seed in seeds],
                retain_graph=True,
                allow_unused=True,
            )
        )

    def dense(self, found: list[Any]) -> list[Array]:
        return [
            np.zeros_like(a) if g is None else np.asarray(g.array, widest(a.dtype))
            for g, a in zip(found, self.arrays)
        ]

    def split(self, vector: Array) -> list[Array]:
        """A vector over all differentiable outputs as one array per output, in their dtypes."""
        parts = np.split(vector, np.cumsum(self.sizes)[:-1])
        return [from_reals(part, like).astype(like.dtype) for part, like in zip(parts, self.likes)]

    # -------------------------------------------------------------------------------------- checks

    def check(self, fast: bool, undefined: bool, grad_dtypes: bool) -> None:
        self._detached()
        if not self.live:
            return
        rows = sum(self.sizes)
        rng = np.random.default_rng(0)
        weights = rng.uniform(0.5, 1.5, rows) * rng.choice((-1.0, 1.0), rows)
        self._same_twice(weights, grad_dtypes)
        if undefined and len(self.live) > 1:
            self._undefined(weights)
        analytic = None if fast else self._jacobian(rows)
        for position, x in enumerate(self.arrays):
            if analytic is None:
                self._compare_groups(position, weights, rng)
            else:
                for j in range(reals(x).size):
                    self._compare_column(position, j, analytic[position][:, j])

    def _detached(self) -> None:
        """Outputs that do not require grad do not depend on the inputs."""
        dead = [
            n
            for n, out in enumerate(self.outputs)
            if not out.requires_grad and out.dtype.kind in "fc"
        ]
        if not dead:
            return
        rng = np.random.default_rng(0)
        for position, x in enumerate(self.arrays):
            h = self.step(x)
            shift = from_reals(h * rng.choice((-1.0, 1.0), h.size), x)
            slope, noise = self.difference(position, shift, dead)
            if (
                np.abs(slope) > 4.0 * noise + self.atol * 1e-3 * np.abs(shift).max(initial=0.0)
            ).any():
                raise GradcheckError(
                    f"gradcheck: an output that does not require grad depends on input {self.places[position]}: "
                    "it was detached on the way"
                )

    def _same_twice(self, weights: Array, grad_dtypes: bool) -> None:
        seeds = self.split(weights)
        before = [seed.copy() for seed in seeds]
        first = self.gradient(seeds)
        for n, seed, old in zip(self.live, seeds, before):
            if not np.array_equal(seed, old):
                raise GradcheckError(
                    f"gradcheck: backward changes the incoming gradient of output {n} in place; "
                    "other users of the same array then get a wrong gradient"
                )
        second = self.gradient(seeds)
        for place, a, b in zip(self.places, self.dense(first), self.dense(second)):
            if not (np.abs(a - b) <= self.nondet_tol)[np.isfinite(a)].all():
                raise GradcheckError(
                    f"gradcheck: the gradient of input {place} differs between two runs of the same backward "
                    f"by {np.abs(a - b).max():.3g}, more than nondet_tol={self.nondet_tol:g}"
                )
        if not grad_dtypes:
            return
        for place, g in zip(self.places, first):
            if g is not None and g.dtype != self.given[place].dtype:
                raise GradcheckError(
                    f"gradcheck: the gradient of input {place} is {g.dtype}, the input {self.given[place].dtype}"
                )

    def _undefined(self, weights: Array) -> None:
        """A gradient for one output only is one with zeros for the others."""
        seeds = self.split(weights)
        for i, n in enumerate(self.live):
            zeros = [s if j == i else np.zeros_like(s) for j, s in enumerate(seeds)]
            wanted = self.dense(self.gradient(zeros))
            found = self._grad(
                [self.outputs[n]],
                [self.given[p] for p in self.places],
                [self._tensor(seeds[i])],
                retain_graph=True,
                allow_unused=True,
            )
            for place, a, b in zip(self.places, self.dense(list(found)), wanted):
                if not np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True):
                    raise GradcheckError(
                        f"gradcheck: with a gradient for output {n} only, that of input {place} differs from the "
                        "one with zeros for the other outputs (check_undefined_grad)"
                    )

    def _jacobian(self, rows: int) -> list[Array]:
        blocks = [np.zeros((rows, reals(a).size)) for a in self.arrays]
        seed = np.zeros(rows)
        for row in range(rows):
            seed[row] = 1.0
            for block, gradient in zip(blocks, self.dense(self.gradient(self.split(seed)))):
                block[row] = reals(gradient)
            seed[row] = 0.0
        return blocks

    def step(self, x: Array) -> Array:
        """Of each number in ``reals(x)``."""
        h = self.eps * np.maximum(np.abs(x), 1.0).reshape(-1)
        return np.repeat(h, 2) if x.dtype.kind == "c" else h

    def difference(
        self, position: int, shift: Array, which: Sequence[int] | None = None
    ) -> tuple[Array, Array]:
        """Half of ``f(x + shift) - f(x - shift)``, and its rounding."""
        x = self.arrays[position]
        results = []
        for sign in (1.0, -1.0):
            moved = list(self.arrays)
            moved[position] = (x + sign * shift).astype(x.dtype)
            results.append(self.vector(moved, which))
        unit = EPS
        for n in self.live if which is None else which:
            unit = max(unit, float(np.finfo(self.outputs[n].dtype).eps))
        sizes = np.abs(results[0]) + np.abs(results[1])
        # A small number may be what is left of large ones that cancelled, as large as its neighbours.
        noise = 2.0 * unit * np.maximum(sizes, sizes[np.isfinite(sizes)].max(initial=0.0))
        return (results[0] - results[1]) / 2.0, noise

    def _wrong(self, analytic: Array, numeric: Array, noise: Array, scale: float) -> Array:
        allowed = self.atol * min(scale, 1.0) + self.rtol * np.abs(numeric) + noise
        same = (analytic == numeric) | (np.isnan(analytic) & np.isnan(numeric))
        return ~(np.abs(analytic - numeric) <= allowed) & ~same

    def _compare_column(self, position: int, j: int, analytic: Array) -> None:
        x = self.arrays[position]
        steps = self.step(x)
        h = float(steps[j])
        shift = from_reals(np.where(np.arange(steps.size) == j, h, 0.0), x)
        slope, noise = self.difference(position, shift)
        numeric, noise = slope / h, noise / h
        finite = np.abs(np.concatenate([numeric, analytic]))
        scale = float(finite[np.isfinite(finite)].max(initial=0.0))
        wrong = self._wrong(analytic, numeric, noise, scale)
        if wrong.any():
            row = int(
                np.argmax(
                    np.where(wrong, np.nan_to_num(np.abs(analytic - numeric), nan=np.inf), -1)
                )
            )
            raise GradcheckError(
                f"gradcheck: the gradient differs from the numerical derivative at d {self._output(row)} / "
                f"d {number_of(f'input {self.places[position]}', j, x)}: "
                f"numerical {numeric[row]:.10g}, analytical {analytic[row]:.10g} "
                f"(allowed difference {self.atol * min(scale, 1.0) + self.rtol * abs(numeric[row]) + noise[row]:.3g}). "
                f"{self._hint(position, shift, row)}"
            )

    def _hint(self, position: int, shift: Array, row: int) -> str:
        """Whether the slopes to the left and to the right differ: then it is a kink."""
        middle = self.vector(self.arrays)[row]
        x = self.arrays[position]
        sides = []
        for sign in (1.0, -1.0):
            moved = list(self.arrays)
            moved[position] = x + sign * shift
            sides.append(sign * (self.vector(moved)[row] - middle) / float(np.abs(shift).max()))
        if abs(sides[0] - sides[1]) > 1e-2 * (abs(sides[0]) + abs(sides[1])):
            return (
                f"The slope is {sides[1]:.4g} on the left and {sides[0]:.4g} on the right: the function has a kink "
                "there; check it at another point."
            )
        return "Usual causes: a factor, a sign, a transposed index or an unsummed broadcast axis."

    def _compare_groups(self, position: int, weights: Array, rng: np.random.Generator) -> None:
        """Groups of elements move together; a wrong group is halved until it is one element."""
        x = self.arrays[position]
        if not x.size:
            return
        gradient = reals(self.dense(self.gradient(self.split(weights)))[position])
        h = self.step(x)
        h = h * rng.choice((-1.0, 1.0), h.size)

        def wrong(members: Array) -> tuple[float, float] | None:
            shift = np.zeros(h.size)
            shift[members] = h[members]
            slope, noise = self.difference(position, from_reals(shift, x))
            numeric = np.array([weights @ slope])
            analytic = np.array([gradient[members] @ h[members]])
            # One wrong element among many must show: the tolerance is that of one element.
            slack = np.abs(weights) @ noise
            size = float(np.abs(gradient[members] * h[members]).max(initial=0.0))
            size = max(size, float(np.abs(numeric[0])) / members.size)
            allowed = (self.atol + self.rtol) * size + slack
            if abs(float(analytic[0] - numeric[0])) <= allowed:
                return None
            return float(numeric[0]), float(analytic[0])

        order = rng.permutation(h.size)
        for group in np.array_split(order, min(4, h.size)):
            found = wrong(group)
            while found is not None and group.size > 1:
                halves = np.array_split(group, 2)
                results = [wrong(half) for half in halves]
                gaps = [-1.0 if r is None else abs(r[0] - r[1]) for r in results]
                best = int(np.argmax(gaps))
                if results[best] is None:
                    break
                group, found = halves[best], results[best]
            if found is not None:
                j = int(group[0])
                raise GradcheckError(
                    "gradcheck: the gradient differs from the numerical derivative at d (weighted sum of outputs) / "
                    f"d {number_of(f'input {self.places[position]}', j, x)}: "
                    f"numerical {found[0] / h[j]:.10g}, analytical {found[1] / h[j]:.10g}"
                )

    def _output(self, row: int) -> str:
        for n, like, size in zip(self.live, self.likes, self.sizes):
            if row < size:
                return number_of(f"output {n}" if len(self.outputs) > 1 else "output", row, like)
            row -= size
        return "output"
