"""Samples of every operator with random numbers that no kernel has seen before.

An operator's own samples are the same in every run, so that a failure can be repeated; a kernel may fail on others. Here
the seed is new each time, and printed. Matrices are 10 by 10 or 110 by 110, so that not every row begins at a multiple of
16 bytes.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from plugrad.contract.samples import Maker, Sample, collect

SUITE = Path(__file__).parents[2] / "asv_benchmarks/benchmarks"


@cache
def cases() -> dict[str, Callable[[Maker, int], Sample]]:
    """How the benchmarks make inputs of any size, for operators that are not elementwise."""
    name = "plugrad_benchmark_cases"
    spec = importlib.util.spec_from_file_location(
        name, SUITE / "__init__.py", submodule_search_locations=[str(SUITE)]
    )
    assert spec is not None and spec.loader is not None
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
    return dict(importlib.import_module(f"{name}.cases").CASES)


def samples(operator: Any, seed: int, elements: int) -> Callable[[Maker], Iterator[Sample]] | None:
    """A sampler for `plugrad.contract.check`; None for an operator whose inputs cannot be guessed."""
    case = cases().get(operator.name)
    schema = getattr(operator, "schema", None)
    if case is not None:
        return lambda _: (case(Maker(f"{operator.name} {seed} {i}"), elements) for i in range(3))
    if schema is None or not schema.elementwise:
        return None

    def sampler(_: Maker) -> Iterator[Sample]:
        rng = np.random.default_rng([seed, len(operator.name), *operator.name.encode()])
        for sample in collect(operator.sampler, operator.name):
            if sample.raises is None:
                args = tuple(
                    mixed(rng, value, elements) if isinstance(value, np.ndarray) else value
                    for value in sample.args
                )
                yield Sample(args, sample.constants)

    return sampler


def mixed(rng: np.random.Generator, array: np.ndarray, elements: int) -> np.ndarray:
    """New values between those of a sample, which are known to lie in the operator's domain."""
    values = array.reshape(-1)
    if not values.size:
        return array
    a, b = values[rng.integers(0, values.size, (2, elements))]
    if values.dtype.kind != "f":
        return a
    share = rng.random(elements)
    return share * a + (1 - share) * b
