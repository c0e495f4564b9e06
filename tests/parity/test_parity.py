"""Every public operator against PyTorch: values, gradients, gradients of gradients, shapes, dtypes and errors.

The examples are the same in every run. ``PLUGRAD_PARITY_EXAMPLES=50`` draws that many for each situation, other ones each
time unless ``PLUGRAD_PARITY_SEED`` gives the seed that a run has printed.
"""

import os
import secrets

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tables import TABLE, compared, entry, kinds

pytest.importorskip("torch", reason="PyTorch is not installed")

from calls import COMPLEX, REGULAR, Draw
from differences import avoiding
from harness import Plugrad, Torch, compare, found, steps_of

MORE = os.environ.get("PLUGRAD_PARITY_EXAMPLES")
EXAMPLES = int(MORE or 3)
SEED = int(os.environ.get("PLUGRAD_PARITY_SEED") or (secrets.randbits(32) if MORE else 0))
SETTINGS = settings(
    derandomize=not MORE,
    max_examples=EXAMPLES,
    database=None,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


def theirs(path):
    return found(Torch, path)


def ours(path):
    return found(Plugrad, path)


def cases():
    """(path, kind): the first path of a name in all kinds, the others in the first, to see that they lead there."""
    for places in compared(ours, theirs).values():
        for i, path in enumerate(places):
            case = entry(path)
            if case is not None:
                each = kinds(path)
                yield from (
                    (path, kind) for kind in (each if i == 0 or path in TABLE else each[:1])
                )
    for path, case in TABLE.items():
        if path.startswith("Tensor.__"):
            yield from ((path, kind) for kind in case.kinds)


def examine(case, path, kind, situation):
    """Compare a number of calls in one situation; returns how many of them PyTorch takes."""
    taken = 0
    steps = steps_of(case, kind, situation)

    @SETTINGS
    @given(st.data())
    def check(data):
        nonlocal taken
        call = case.make(Draw(data.draw, kind, situation))
        for these, changed in avoiding(path, call, steps):
            taken += compare(path, case, changed, these)

    (seed(SEED)(check) if MORE else check)()
    return taken


@pytest.mark.parametrize(("path", "kind"), sorted(cases()))
def test_operator(path, kind):
    case = entry(path)
    if MORE:
        print(f"PLUGRAD_PARITY_SEED={SEED}")
    situations = [s for s in case.situations if kind != COMPLEX or s in REGULAR]
    taken = sum(examine(case, path, kind, situation) for situation in situations)
    assert taken, f"{path}: PyTorch refuses every call of kind {kind}; name the kinds that it takes"
