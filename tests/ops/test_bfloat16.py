"""Every standard operator in bfloat16, on its own samples: what float32 gives, rounded once."""

import numpy as np
import pytest

import plugrad
from plugrad import registry
from plugrad.contract.problem import Problem
from plugrad.contract.samples import collect
from plugrad.contract.targets import target_for

ml_dtypes = pytest.importorskip("ml_dtypes")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

# Uniform numbers have the bits that their dtype has room for: they are cut off, not rounded.
CUT_OFF = ("standard::uniform_",)
# The gradient is an exponential of what bfloat16 tells to three digits: with large values these show.
COARSE = ("standard::logsumexp", "standard::logcumsumexp")
# There is no complex dtype of that precision.
REFUSED = ("standard::view_as_complex",)

OPERATORS = [
    op
    for op in registry.operators()
    if op.kind == "operator" and op.name.startswith("standard::") and op.name not in REFUSED
]


def narrow(array, dtype):
    """Floating arrays in `dtype`, with values that bfloat16 has; others as they are."""
    return array.astype(BFLOAT16).astype(dtype) if array.dtype.kind == "f" else array


def run(op, sample, dtype):
    """Outputs and gradients of a call in a dtype."""
    problem = Problem(target_for(op), sample)
    tensors = [plugrad.tensor(narrow(array, dtype)) for array in problem.arrays]
    leaves = [
        t.requires_grad_()
        for k, t in enumerate(tensors)
        if t.is_floating_point() and k not in problem.mutated
    ]
    returned, outputs = problem._call(list(tensors))
    live = [out for out in outputs if out.requires_grad and out.is_floating_point()]
    gradients = ()
    if live and leaves:
        rng = np.random.default_rng(5)
        seeds = [plugrad.tensor(narrow(rng.standard_normal(x.shape), x.dtype)) for x in live]
        gradients = plugrad.autograd.grad(live, leaves, seeds, allow_unused=True)
    return [out.detach().array for out in returned], [
        None if g is None else g.array for g in gradients
    ]


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name.partition("::")[2])
def test_bfloat16_is_float32_rounded(op):
    for sample in collect(op.sampler, op.name):
        floats = any(array.dtype.kind == "f" for array in Problem(target_for(op), sample).arrays)
        if sample.raises is not None or not floats:
            continue
        outputs, gradients = run(op, sample, BFLOAT16)
        expected, wide = run(op, sample, np.dtype(np.float32))
        for out, want in zip(outputs, expected):
            assert out.dtype in (BFLOAT16, want.dtype)
            if op.name not in CUT_OFF:
                with np.errstate(all="ignore"):
                    want = want.astype(out.dtype)
                np.testing.assert_array_equal(out, want, str(sample))
        for got, want in zip(gradients, wide):
            assert (got is None) == (want is None)
            if got is None or not want.size:
                continue
            assert got.dtype == BFLOAT16
            if op.name not in COARSE and np.isfinite(want).all():  # rules round after each operator
                error = np.abs(got.astype(np.float64) - want).max()
                assert error <= 0.05 * max(np.abs(want).max(), 1e-3), str(sample)
