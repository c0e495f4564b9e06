"""Every input's gradient is the same, whichever others want one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from plugrad.contract.numeric import differs, shown
from plugrad.contract.problem import element
from plugrad.contract.report import Failure
from plugrad.contract.run import Run, crashed

__all__ = ["check"]


def check(run: Run) -> Iterator[Failure]:
    """One input at a time requires grad, on samples with several (on two of them when quick)."""
    able = [p for p in run.differentiable if len(p.active) > 1]
    for problem in able[:2] if run.quick else able:
        for position, k in enumerate(problem.active):
            wanted = problem.gradients[position]
            try:
                recording = problem.record(active=[k])
                if not recording.live:
                    got = np.zeros_like(wanted)
                else:
                    seeds = dict(zip(problem.live, problem.seeds))
                    got = recording.gradient([seeds[i] for i in recording.live])[0]
            except Exception as error:
                yield crashed(
                    "needs",
                    error,
                    f"{problem.sample}, only {problem.names[k]!r} requires grad",
                    "a rule that counts on gradients nobody asked for; test `needs` per input",
                )
                return
            j = differs(got, wanted, ulps=1024)
            if j is not None and wanted.size:
                yield Failure(
                    "needs",
                    str(problem.sample),
                    f"the gradient of {problem.names[k]!r} changes when the other inputs require none",
                    element(problem.names[k], j, wanted.shape),
                    shown(wanted, j),
                    shown(got, j),
                    "a condition on `needs` that tests the wrong input",
                )
                return
