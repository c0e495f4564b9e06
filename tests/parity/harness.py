"""One call on both libraries, step by step, and where the two differ."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from calls import Call, Case, Fixed

import plugrad

torch.set_num_threads(1)

STEPS = ("value", "zero", "gradient", "second")
EPS = {"float16": 1e-3, "float32": 2.0**-23, "float64": 2.0**-52, "complex64": 2.0**-23, "complex128": 2.0**-52}  # fmt: skip
TOLERANCE = {"value": 32, "gradient": 128, "second": 512}


class Torch:
    """PyTorch, as far as the comparison needs it."""

    name = "PyTorch"
    lib = torch

    @staticmethod
    def tensor(array: np.ndarray, requires_grad: bool) -> Any:
        return (
            torch.tensor(np.ascontiguousarray(array))
            .reshape(array.shape)
            .requires_grad_(requires_grad)
        )

    @staticmethod
    def dtype(dtype: np.dtype) -> Any:
        return getattr(torch, dtype.name)

    @staticmethod
    def numpy(tensor: Any) -> np.ndarray:
        return tensor.numpy(
            force=True
        )  # also what is conjugated or negated lazily, or known to be zero

    is_tensor = staticmethod(torch.is_tensor)

    @staticmethod
    @contextmanager
    def calling() -> Iterator[None]:
        """Around calls: PyTorch's warnings are its own affair."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield


class Plugrad:
    """plugrad, under the same names; arrays keep their strides."""

    name = "plugrad"
    lib = plugrad

    @staticmethod
    def tensor(array: np.ndarray, requires_grad: bool) -> Any:
        return plugrad.Tensor(array, requires_grad=requires_grad)

    @staticmethod
    def dtype(dtype: np.dtype) -> Any:
        return dtype

    @staticmethod
    def numpy(tensor: Any) -> np.ndarray:
        return tensor.detach().numpy()

    is_tensor = staticmethod(plugrad.is_tensor)
    calling = staticmethod(nullcontext)


def found(library: Any, path: str) -> Callable[..., Any] | None:
    """What a library has under a path, or None."""
    at = library.lib
    if path.startswith("Tensor."):
        at, path = library.tensor(np.zeros(1), False), path.removeprefix("Tensor.")
    for name in path.split("."):
        try:
            at = getattr(at, name, None)
        except RuntimeError:  # an attribute of complex tensors alone
            return None
    return at


class Difference(AssertionError):
    """What differs between the libraries; `aspect` says in which respect."""

    def __init__(self, aspect: str, text: str) -> None:
        super().__init__(text)
        self.aspect = aspect


# ---- one library -----------------------------------------------------------------------------------------


class Run:
    """A call on one library: its outputs, then its gradients, then those of the gradients."""

    def __init__(self, library: Any, path: str, case: Case, call: Call) -> None:
        self.library, self.leaves = library, []
        args, named = call.parts(path)
        args, named = self._given(args), self._given(named)
        self.error: Exception | None = None
        self.outputs: list[Any] = []
        try:
            with library.calling():
                result = self._call(path, case, args, named)
                if case.through is not None:
                    result = case.through(library.lib, result, *args)
        except Exception as error:
            self.error = error
        else:
            self.outputs = list(_flat(result))

    def _given(self, value: Any) -> Any:
        if isinstance(value, Fixed):
            return self.library.tensor(value.array, False)
        if isinstance(value, np.ndarray):
            leaf = self.library.tensor(value, value.dtype.kind in "fc")
            if value.dtype.kind in "fc":
                self.leaves.append(leaf)
            return leaf
        if isinstance(value, np.dtype):
            return self.library.dtype(value)
        if isinstance(value, dict):
            return {name: self._given(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._given(each) for each in value)
        return value

    def _call(self, path: str, case: Case, args: list[Any], named: dict[str, Any]) -> Any:
        if case.run is not None:
            return case.run(self.library.lib, *args, **named)
        if path.startswith("Tensor."):
            return getattr(args[0], path.removeprefix("Tensor."))(*args[1:], **named)
        return found(self.library, path)(*args, **named)

    def tensors(self) -> list[Any]:
        return [out for out in self.outputs if self.library.is_tensor(out)]

    def differentiable(self) -> list[Any]:
        return [out for out in self.tensors() if out.requires_grad]

    def gradients(self, rng: np.random.Generator, *, create_graph: bool) -> list[Any]:
        """The gradients of the outputs, each weighted at random; zeros where there is none."""
        outputs = self.differentiable()
        self.seeds = [self._seed(rng, out) for out in outputs]
        self.first = self._grad(outputs, self.leaves, self.seeds, create_graph)
        return self.first

    def second(self, rng: np.random.Generator) -> list[Any]:
        """The gradients of the gradients, to the inputs and to the weights of the outputs."""
        weights = [self._seed(rng, leaf, False) for leaf in self.leaves]
        pairs = [(g, w) for g, w in zip(self.first, weights) if g is not None and g.requires_grad]
        outputs, weights = [g for g, _ in pairs], [w for _, w in pairs]
        return self._grad(outputs, self.leaves + self.seeds, weights, False)

    def _seed(self, rng: np.random.Generator, out: Any, requires_grad: bool = True) -> Any:
        array = self.library.numpy(out)
        seed = np.asarray(rng.uniform(0.5, 1.5, array.shape) * rng.choice([-1.0, 1.0], array.shape))
        if array.dtype.kind == "c":
            seed = seed + 1j * rng.uniform(0.5, 1.5, array.shape)
        return self.library.tensor(np.asarray(seed).astype(array.dtype), requires_grad)

    def _grad(self, outputs, inputs, seeds, create_graph):
        if not outputs:
            return [None] * len(inputs)
        grad = self.library.lib.autograd.grad
        how = {"create_graph": create_graph, "retain_graph": True, "allow_unused": True}
        with self.library.calling():
            return list(grad(outputs, inputs, seeds, **how))


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for each in value:
            yield from _flat(each)
    else:
        yield value


# ---- both ------------------------------------------------------------------------------------------------


def compare(path: str, case: Case, call: Call, steps: tuple[str, ...] = STEPS) -> bool:
    """Run `call` on both libraries; raises `Difference`. True unless both refuse it."""
    theirs, ours = Run(Torch, path, case, call), Run(Plugrad, path, case, call)
    more = not theirs.leaves or _not_implemented(
        theirs.error
    )  # taking more dtypes is no difference
    if theirs.error is not None and (ours.error is not None or more):
        return False
    for one, other in ((theirs, ours), (ours, theirs)):
        if one.error is not None:
            shown = " ".join(f"{type(one.error).__name__}: {one.error}".split())[:300]
            values = ", ".join(_shown(other, out) for out in other.outputs)[:300]
            raise Difference(
                "error",
                f"{path}({call}): {one.library.name} raises {shown}; {other.library.name}: {values}",
            )
    about = f"{path}({call})"
    if len(theirs.outputs) != len(ours.outputs):
        raise Difference(
            "value", f"{about}: {len(ours.outputs)} outputs, {len(theirs.outputs)} expected"
        )
    for i, (got, expected) in enumerate(zip(ours.outputs, theirs.outputs)):
        compare_output(f"{about}: output {i}", got, expected, case, steps)
    differentiable = [[out.requires_grad for out in run.tensors()] for run in (ours, theirs)]
    if "gradient" not in steps or not theirs.leaves:
        return True
    if differentiable[0] != differentiable[1]:
        raise Difference(
            "gradient", f"{about}: requires_grad {differentiable[0]}, expected {differentiable[1]}"
        )
    second = "second" in steps
    # What went through an output of fewer digits has no more of them.
    coarse = max(
        (EPS.get(Torch.numpy(out).dtype.name, 0.0) for out in theirs.tensors()), default=0.0
    )
    rngs = [np.random.default_rng(7), np.random.default_rng(7)]
    got = ours.gradients(rngs[0], create_graph=second)
    try:
        expected = theirs.gradients(rngs[1], create_graph=second)
    except RuntimeError:
        return True  # PyTorch fails
    _compare_gradients(about, "gradient", case, got, expected, theirs.leaves, coarse)
    if second:
        got = ours.second(rngs[0])
        if not all(map(_finite, theirs.first)):
            return True  # a singular point
        try:
            expected = theirs.second(rngs[1])
        except RuntimeError:
            return True  # PyTorch has no second order there
        _compare_gradients(
            about, "second", case, got, expected, theirs.leaves + theirs.seeds, coarse
        )
    return True


def _finite(gradient: Any) -> bool:
    return gradient is None or bool(np.isfinite(Torch.numpy(gradient)).all())


def _not_implemented(error: Exception | None) -> bool:
    """Whether PyTorch refuses no more than a dtype."""
    return isinstance(error, NotImplementedError) or "not implemented for" in str(error)


def _shown(run: Run, out: Any) -> str:
    return repr(run.library.numpy(out)) if run.library.is_tensor(out) else repr(out)


def compare_output(about: str, got: Any, expected: Any, case: Case, steps: tuple[str, ...]) -> None:
    if not torch.is_tensor(expected):
        if isinstance(expected, torch.dtype):
            expected = str(expected).removeprefix("torch.")
            got = np.dtype(got).name
        same = type(got) is type(expected) and (
            got == expected or (got != got and expected != expected)
        )
        if not same:
            raise Difference("value", f"{about} is {got!r}, expected {expected!r}")
        return
    if not plugrad.is_tensor(got):
        raise Difference("value", f"{about} is {got!r}, expected a tensor")
    got, expected = Plugrad.numpy(got), Torch.numpy(expected)
    if got.shape != expected.shape:
        raise Difference("shape", f"{about} has shape {got.shape}, expected {expected.shape}")
    if got.dtype != expected.dtype:
        raise Difference("dtype", f"{about} has dtype {got.dtype}, expected {expected.dtype}")
    if "value" in steps:
        close(
            about,
            "value",
            got,
            expected,
            case.loose,
            None if case.exact else max(1.0, _scale(expected)),
        )
    if "zero" in steps and case.exact and expected.dtype.kind == "f":
        bad = (expected == 0) & (got == 0) & (np.signbit(got) != np.signbit(expected))
        _raise_at(about, "zero", got, expected, bad)


def _compare_gradients(
    about: str,
    aspect: str,
    case: Case,
    got: list[Any],
    expected: list[Any],
    of: list[Any],
    coarse: float,
) -> None:
    word = {"gradient": "gradient", "second": "second-order gradient"}[aspect]
    arrays = []
    for one, other, leaf in zip(got, expected, of):
        zeros = np.zeros_like(Torch.numpy(leaf))
        arrays.append(
            (
                zeros if one is None else Plugrad.numpy(one),
                zeros if other is None else Torch.numpy(other),
            )
        )
    loose = case.loose * case.gradient * (case.second if aspect == "second" else 1)
    scale = max([1.0] + [_scale(other) for _, other in arrays])
    for i, (one, other) in enumerate(arrays):
        close(f"{about}: {word} to tensor {i}", aspect, one, other, loose, scale, coarse)


def _scale(array: np.ndarray) -> float:
    if array.dtype.kind not in "fc":
        return 0.0
    sizes = np.abs(array[np.isfinite(array)])
    return float(sizes.max()) if sizes.size else 0.0


def close(
    about: str,
    aspect: str,
    got: np.ndarray,
    expected: np.ndarray,
    loose: float,
    scale: float | None,
    coarse: float = 0.0,
) -> None:
    """Raise where two arrays of one dtype differ by more than rounding; `scale`: what absolute errors are relative to."""
    if got.shape != expected.shape:
        raise Difference(aspect, f"{about} has shape {got.shape}, expected {expected.shape}")
    if got.dtype != expected.dtype:
        raise Difference(aspect, f"{about} has dtype {got.dtype}, expected {expected.dtype}")
    if expected.dtype.kind not in "fc":
        bad = got != expected
    else:
        relative = TOLERANCE[aspect] * loose * max(EPS[expected.dtype.name], coarse)
        info = np.finfo(expected.dtype)
        # Below the smallest normal number there are fewer digits.
        absolute = float(info.tiny) if scale is None else relative * scale
        with np.errstate(all="ignore"):
            near = np.abs(got - expected) <= relative * np.abs(expected) + absolute
            same = (
                (got == expected)
                | (np.isnan(got) & np.isnan(expected))
                | (near & np.isfinite(expected))
            )
        bad = ~same
    _raise_at(about, aspect, got, expected, bad)


def _raise_at(
    about: str, aspect: str, got: np.ndarray, expected: np.ndarray, bad: np.ndarray
) -> None:
    if bad.any():
        at = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(bad)))
        one, other = np.atleast_1d(got)[at], np.atleast_1d(expected)[at]
        raise Difference(
            aspect,
            f"{about}: {one!r} at {at}, expected {other!r} ({int(bad.sum())} of {bad.size} differ)",
        )


def steps_of(case: Case, kind: str, situation: str) -> tuple[str, ...]:
    """What is compared: the second order in float64 only, and not where derivatives overflow."""
    if kind == "integer":
        return STEPS[:1]
    orders = (
        case.orders
        if kind in ("float64", "complex128") and situation != "extreme"
        else min(case.orders, 1)
    )
    return STEPS[: 2 + orders]
