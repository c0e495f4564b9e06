"""The list of intended differences is true, and docs/pytorch.md shows it."""

import importlib.util

import numpy as np
import pytest
from differences import PAGE, written
from intended import INTENDED

ids = [f"{one.names.split()[0]}-{one.aspect}-{i}" for i, one in enumerate(INTENDED)]
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"
)


def shown(library, one):
    """What a library gives for the example: the value, the first or the second derivative."""
    with library.calling():
        return evaluated(library, one)


def evaluated(library, one):
    x, y = (None if v is None else library.tensor(np.array(v), True) for v in (one.x, one.y))
    names = {"lib": library.lib, "F": library.lib.nn.functional, "x": x, "y": y}
    try:
        out = eval(one.example, names)
    except (TypeError, ValueError, RuntimeError):
        return "error"
    if one.aspect in ("value", "zero", "dtype", "shape", "error"):
        array = library.numpy(out)
        return {"dtype": array.dtype.name, "shape": array.shape}.get(one.aspect, array)
    grad = library.lib.autograd.grad
    leaves = [t for t in (x, y) if t is not None]
    total = out.sum()
    if one.aspect == "second":
        first = grad(total, leaves, create_graph=True, allow_unused=True)
        total = sum(g.sum() for g in first if g is not None)
    return library.numpy(grad(total, x)[0])


@needs_torch
@pytest.mark.parametrize("one", INTENDED, ids=ids)
def test_the_example_shows_the_difference(one):
    from harness import Plugrad, Torch

    theirs, ours = shown(Torch, one), shown(Plugrad, one)
    assert repr(theirs) != repr(ours)
    for got, expected in ((theirs, one.theirs), (ours, one.ours)):
        if isinstance(expected, str):
            assert got == expected
        else:
            np.testing.assert_allclose(got, np.asarray(expected), rtol=1e-4)
            if one.aspect == "zero":
                np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))


def test_the_page_shows_the_list():
    page = PAGE.read_text(encoding="utf-8")
    assert page == written(page), "run python tests/parity/differences.py"
