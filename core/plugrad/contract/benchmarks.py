"""Benchmarks for asv, generated from the registry: one class per operator.

A plugin's own benchmark suite needs one file::

    from plugrad.contract.benchmarks import operator_benchmarks

    globals().update(operator_benchmarks("my::*"))

What is measured
    ``time_forward`` calls the operator with nothing recorded, ``time_forward_backward`` records and differentiates,
    ``track_peak_memory`` is the most bytes that forward and backward hold at once beyond their inputs.

Sizes and dtypes
    They are constants of this module and of the schema: what is installed, and what was measured before, changes no
    parameter. An asv parameter that comes and goes cuts its own history.

Inputs
    An elementwise operator takes its first sample with every array repeated to the size wanted: the sample is known to
    lie in the operator's domain, and elementwise means that any shape will do. For any other operator a size cannot be
    guessed (the target of a reshape, the classes of a loss), so ``cases`` gives a builder, written like a sample; without
    one its largest sample is taken as it is, which measures little but the cost of a call.

Loops
    asv runs ``setup`` before every timed call and then calls once, so a body shorter than about a millisecond would
    measure the clock. A body therefore loops a number of times that depends on the size alone, and the time shown is
    that of the whole loop. ``setup`` builds the inputs once per process.

Memory
    Peak memory is counted by ``tracemalloc``, which sees every NumPy buffer and every Python object, to the byte and
    without noise. asv's own ``peakmem_`` is the resident set of the whole process: some 60 MB of interpreter in which
    an extra buffer of 400 bytes, or of 4 MB, drowns.
"""

from __future__ import annotations

import hashlib
import inspect
import tracemalloc
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any, ClassVar

import numpy as np

from plugrad import registry
from plugrad.contract.samples import Maker, Sample, collect
from plugrad.graph.engine import backward
from plugrad.graph.grad_mode import no_grad
from plugrad.graph.roles import call
from plugrad.graph.tensor import Tensor

__all__ = ["LOOPS", "OperatorBenchmark", "operator_benchmarks"]

#: Elements of the largest input, and how often a timed body then calls the operator.
LOOPS: dict[int, int] = {100: 1000, 10_000: 200, 1_000_000: 2}

#: What the inputs are where nothing says how to scale them, and its number of calls.
AS_SAMPLED, AS_SAMPLED_LOOPS = "as sampled", 1000

FLOATS = ("float32", "float64")

# Part of every class's version: asv discards what it measured with another. Raise it when a body or a size changes.
VERSION = "1"

#: Makes the call to measure, from a :class:`Maker` and the number of elements of the largest input.
Builder = Callable[[Maker, int], Sample]


# ------------------------------------------------------------------------------------------------ the public function


def operator_benchmarks(
    pattern: str,
    cases: Mapping[str, Builder] | None = None,
    forward_only: Collection[str] = (),
) -> dict[str, type[OperatorBenchmark]]:
    """One asv benchmark class for each operator whose name matches.

    Parameters
    ----------
    pattern : str
        As in ``plugrad ops``: ``"my::*"``.
    cases : mapping of str to callable, optional
        For operators by full name, ``build(make, elements)`` that returns ``make.call(...)`` with inputs of about
        `elements` elements. Needed where an operator is not elementwise; it may overrule the sample of one that is.
    forward_only : collection of str, optional
        Full names of composites that have no gradient, which a composite does not say of itself.

    Returns
    -------
    dict
        From class name, which is the operator's with ``__`` for ``::``, to class; for a module's ``globals()``.

    Raises
    ------
    LookupError
        No operator matches, or a case names one that does not exist. A benchmark suite that silently shrank to nothing
        would look like one without regressions.
    """
    cases = dict(cases or {})
    operators = registry.operators(pattern)
    if not operators:
        broken = [
            f"{plugin.name}: {plugin.reason}" for plugin in registry.plugins() if plugin.reason
        ]
        raise LookupError(
            f"no operator matches {pattern!r}, so there is nothing to benchmark"
            + "".join(f"\n  plugin {line}" for line in broken)
        )
    unknown = (cases.keys() | set(forward_only)) - {operator.name for operator in operators}
    if unknown:
        raise LookupError(
            f"there are benchmark cases for operators that do not exist: {sorted(unknown)}"
        )
    classes = {}
    for operator in operators:
        name = operator.name.replace("::", "__")
        differentiable = operator.name not in forward_only and not _nondifferentiable(operator)
        classes[name] = _benchmark_class(name, operator, cases.get(operator.name), differentiable)
    return classes


# ---------------------------------------------------------------------------------------------------- the benchmarks


@dataclass
class Prepared:
    """Inputs, and what is needed to differentiate at them."""

    args: list[Any]
    constants: dict[str, Any]
    leaves: list[Tensor]
    seeds: list[tuple[int, Tensor]]
    written: tuple[int, ...]
    loops: int


class OperatorBenchmark:
    """What all generated classes do; `operator`, `build` and the parameters differ."""

    operator: ClassVar[Any]
    param_names = ("elements", "dtype")
    params: ClassVar[tuple[tuple[Any, ...], tuple[str, ...]]]
    version: ClassVar[str]

    warmup_time = 0.02
    repeat = (3, 10, 1.0)
    rounds = 2

    _key: tuple[Any, ...] | None = None
    _forward: Prepared
    _backward: Prepared

    @staticmethod
    def build(elements: int | str) -> Sample:
        """The call to measure."""
        raise TypeError("operator_benchmarks() makes the classes that can be measured")

    def setup(self, elements: int | str, dtype: str) -> None:
        # asv runs this before every timed call; the inputs are those of the first.
        if self._key == (elements, dtype):
            return
        sample = self.build(elements)
        loops = AS_SAMPLED_LOOPS if isinstance(elements, str) else LOOPS[elements]
        self._forward = _prepare(self.operator, sample, dtype, loops, record=False)
        if isinstance(self, DifferentiableBenchmark):
            self._backward = _prepare(self.operator, sample, dtype, loops, record=True)
        self._key = (elements, dtype)

    def time_forward(self, elements: int | str, dtype: str) -> None:
        _forward(self.operator, self._forward, self._forward.loops)

    def track_peak_memory(self, elements: int | str, dtype: str) -> int:
        return _peak(lambda: _forward(self.operator, self._forward, 1))

    track_peak_memory.unit = "bytes"  # type: ignore[attr-defined]


class DifferentiableBenchmark(OperatorBenchmark):
    """An operator with gradients."""

    def time_forward_backward(self, elements: int | str, dtype: str) -> None:
        _forward_backward(self.operator, self._backward, self._backward.loops)

    def track_peak_memory(self, elements: int | str, dtype: str) -> int:
        return _peak(lambda: _forward_backward(self.operator, self._backward, 1))

    track_peak_memory.unit = "bytes"  # type: ignore[attr-defined]


def _benchmark_class(
    name: str, operator: Any, case: Builder | None, differentiable: bool
) -> type[OperatorBenchmark]:
    # An alias is a composite whose function is an operator.
    schema = getattr(operator, "schema", getattr(operator.function, "schema", None))
    elements: tuple[int | str, ...] = tuple(LOOPS)
    if case is None and not (schema is not None and schema.elementwise):
        elements = (AS_SAMPLED,)

    def build(size: int | str) -> Sample:
        if case is not None and not isinstance(size, str):
            return case(Maker(operator.name), size)
        return _largest_sample(operator, size)

    base = DifferentiableBenchmark if differentiable else OperatorBenchmark
    return type(
        name,
        (base,),
        {
            "__doc__": f"{operator.name}: {inspect.getdoc(operator) or ''}".split("\n")[0],
            "__module__": __name__,
            "operator": operator,
            "build": staticmethod(build),
            "params": (elements, _dtypes(schema)),
            "version": _version([str(build(size)) for size in elements[:2]]),
        },
    )


def _nondifferentiable(operator: Any) -> bool:
    return operator.nondifferentiable or getattr(operator.function, "nondifferentiable", False)


def _dtypes(schema: Any) -> tuple[str, ...]:
    """The dtypes to measure: two floating ones, unless the operator takes integers or bools only."""
    kinds = set(schema.dtypes) if schema is not None else set()
    if kinds and kinds <= {"integer", "bool"}:
        return ("int64",) if "integer" in kinds else ("bool",)
    return FLOATS


def _version(inputs: list[str]) -> str:
    """Changes with the shapes and constants of the inputs; results for others cannot be compared."""
    return f"{VERSION}-{hashlib.sha256(repr(inputs).encode()).hexdigest()[:12]}"


# ------------------------------------------------------------------------------------------------------------- inputs


def _largest_sample(operator: Any, size: int | str) -> Sample:
    """The first of the operator's largest samples; given a size, with each array repeated to it."""
    good = [s for s in collect(operator.sampler, operator.name) if s.raises is None]
    sample = max(good, key=lambda s: sum(np.size(a) for a in _arrays(s.args)))
    if isinstance(size, str):
        return sample
    args = tuple(
        np.resize(value, size) if isinstance(value, np.ndarray) else value for value in sample.args
    )
    return Sample(args, sample.constants)


def _arrays(args: Any) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    for value in args:
        if isinstance(value, np.ndarray):
            found.append(value)
        elif isinstance(value, list | tuple):
            found.extend(_arrays(value))
    return found


def _prepare(operator: Any, sample: Sample, dtype: str, loops: int, record: bool) -> Prepared:
    leaves: list[Tensor] = []

    def convert(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            floating = value.dtype.kind in "fc" and dtype in FLOATS
            if floating:
                value = value.astype(
                    np.result_type(dtype, np.complex64) if value.dtype.kind == "c" else dtype
                )
            tensor = Tensor(np.ascontiguousarray(value))
            if record and floating:
                tensor.requires_grad_()
                leaves.append(tensor)
            return tensor
        if isinstance(value, list):
            return [convert(item) for item in value]
        return value

    args = [convert(value) for value in sample.args]
    # A composite takes tensors by name, too.
    constants = {name: convert(value) for name, value in sample.constants.items()}
    # The first call verifies the operator, so that no timed one does.
    with no_grad():
        versions = _versions(args)
        operator(*args, **constants)
        written = tuple(i for i, v in enumerate(_versions(args)) if v != versions[i])
    prepared = Prepared(args, constants, leaves, [], written, loops)
    if record:
        outputs = operator(*_fresh(prepared), **constants)
        outputs = outputs if isinstance(outputs, tuple | list) else (outputs,)
        rng = np.random.default_rng(0)
        for index, output in enumerate(outputs):
            if output.requires_grad:
                seed = rng.standard_normal(output.shape).astype(output.dtype)
                prepared.seeds.append((index, Tensor(np.asarray(seed))))
        if not prepared.seeds:
            raise RuntimeError(
                f"{operator.name}: no output requires grad, so there is no backward to measure; its case needs "
                "floating inputs"
            )
    return prepared


def _versions(args: list[Any]) -> list[int | None]:
    return [value._version if isinstance(value, Tensor) else None for value in args]


def _fresh(prepared: Prepared) -> list[Any]:
    """The arguments, with copies of what the operator overwrites: a leaf may not be overwritten."""
    if not prepared.written:
        return prepared.args
    return [
        call("copy", value) if i in prepared.written else value
        for i, value in enumerate(prepared.args)
    ]


# ------------------------------------------------------------------------------------------------------------- bodies


def _forward(operator: Any, prepared: Prepared, loops: int) -> None:
    args, constants = prepared.args, prepared.constants
    with no_grad():
        for _ in repeat(None, loops):
            operator(*args, **constants)


def _forward_backward(operator: Any, prepared: Prepared, loops: int) -> None:
    constants = prepared.constants
    leaves, seeds = prepared.leaves, prepared.seeds
    for _ in repeat(None, loops):
        outputs = operator(*_fresh(prepared), **constants)
        if isinstance(outputs, tuple | list):
            backward([outputs[index] for index, _ in seeds], [seed for _, seed in seeds])
        else:
            outputs.backward(seeds[0][1])
        for leaf in leaves:
            leaf.grad = None


def _peak(body: Callable[[], None]) -> int:
    """Most bytes allocated at once while `body` runs, beyond what there was before."""
    body()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        body()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
