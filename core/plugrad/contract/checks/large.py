"""On a device: one sample of more elements than a block of threads has, as the CPU computes it.

(a) The samples of authors are small, so that they can be differentiated numerically. A kernel that works on its first block
    alone is right for all of them.
(b) The values are theirs, repeated, so that they stay where the operator is defined. An elementwise operator takes any
    number of them. Another one may ask for what repeating breaks, such as order, or may choose freely among elements that
    are now equal. So it is asked only where the CPU shows that repeating is harmless: outputs are repeated, too, or are as
    many floating numbers as before, and each gradient is the same for all copies of an element.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from plugrad.contract.automatic import large_sample, repeated, repeated_samples
from plugrad.contract.checks.devices import against_cpu
from plugrad.contract.problem import Problem
from plugrad.contract.report import Failure
from plugrad.contract.run import Run, crashed
from plugrad.contract.samples import Sample

__all__ = ["check"]

Array = np.ndarray

TRIES = 3  # repeated samples that are looked at
MOST = 20_000  # elements of an output: outer products grow with the square


def check(run: Run) -> Iterator[Failure]:
    """Outputs and gradients of a large sample, where there is one."""
    assert run.reference is not None
    sample = _chosen(run)
    if sample is None:
        return
    problem, cpu = Problem(run.target, sample), Problem(run.reference, sample)
    try:
        problem.prepare(run.rng)
        problem.differentiate()
    except Exception as error:
        yield crashed("large", error, str(sample), "a kernel that is right for small arrays only")
        return
    for failure in against_cpu(run, problem, cpu):
        yield replace(failure, check="large")


def _chosen(run: Run) -> Sample | None:
    own = [problem.sample for problem in run.problems]
    if run.target.elementwise:
        sample = large_sample(own)
        return sample if sample is not None and _prepared(run, sample) is not None else None
    if run.target.kind == "composite":
        return None  # its operators are checked on their own
    for base, sample, times in itertools.islice(repeated_samples(own), TRIES):
        few, many = _prepared(run, base), _prepared(run, sample)
        if few is not None and many is not None and _harmless(few, many, times):
            return sample
    return None


def _prepared(run: Run, sample: Sample) -> Problem | None:
    """The sample as the CPU computes it, with the same weight for all copies of an output; None if it does not."""
    assert run.reference is not None
    try:
        problem = Problem(run.reference, sample)
        recording = problem.record()
        problem.outputs = [np.array(out.array) for out in recording.outputs]
        if sum(out.size for out in problem.outputs) > MOST:
            return None
        problem.live = recording.live
        problem.seeds = [np.ones_like(problem.outputs[i]) for i in problem.live]
        if problem.live and problem.active:
            problem.gradients = recording.gradient(problem.seeds)
    except Exception:
        return None
    return problem


def _harmless(few: Problem, many: Problem, times: int) -> bool:
    for out, larger in zip(few.outputs, many.outputs):
        if out.shape == larger.shape:
            if out.dtype.kind not in "fc":
                return False
        elif not out.ndim or not _same(repeated(out, times), larger):
            return False
    return all(_periodic(g, a, times) for g, a in _copies(few, many))


def _copies(few: Problem, many: Problem) -> Iterator[tuple[Array, Sequence[int]]]:
    """Gradients of the arrays that were repeated, with the shapes that these had."""
    for gradient, k in zip(many.gradients, many.active):
        if gradient.shape != few.arrays[k].shape:
            yield gradient, few.arrays[k].shape


def _periodic(gradient: Array, shape: Sequence[int], times: int) -> bool:
    return _same(repeated(gradient[: shape[0]], times), gradient)


def _same(a: Array, b: Array) -> bool:
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-6, atol=1e-12, equal_nan=True)
