"""Every operator's tangent is the transpose of its gradient, on the operator's own samples: ⟨v, J u⟩ = ⟨Jᵀ v, u⟩.

Complex numbers count as two real ones.
"""

import numpy as np
import pytest

from plugrad import Tensor, registry
from plugrad.autograd import forward_ad as fw
from plugrad.autograd import grad
from plugrad.contract.checks.declaration import check_samples
from plugrad.contract.numeric import reals
from plugrad.contract.problem import as_list, weights_like
from plugrad.contract.run import Run
from plugrad.contract.targets import target_for
from plugrad.registry import Operator

OPERATORS = [op for op in registry.operators("standard") if not op.nondifferentiable]


def problems(op):
    op.resolve()
    run = Run(target_for(op), True)
    assert not list(check_samples(run))
    return run.differentiable


def outputs(problem, tensors):
    """The sample's outputs, with these tensors in place of its arrays."""
    found = as_list(problem.target.call(problem.args(tensors), problem.constants(tensors)))
    return as_list(problem.sample.through(*found)) if problem.sample.through else found


def finite(problem):
    values = [*problem.gradients, *(problem.outputs[i] for i in problem.live)]
    return all(np.isfinite(value).all() for value in values)


def directions(problem):
    """A direction per active array."""
    rng = np.random.default_rng(7)
    return {k: weights_like(rng, problem.arrays[k]) for k in problem.active}


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name.partition("::")[2])
def test_the_tangent_is_the_transpose_of_the_gradient(op):
    for problem in problems(op):
        if not finite(problem):
            continue  # an infinite derivative times zero is no number, in either direction
        u = directions(problem)
        with fw.dual_level():
            tensors = [Tensor(array.copy()) for array in problem.arrays]
            for k, direction in u.items():
                tensors[k] = fw.make_dual(tensors[k], Tensor(direction))
            tangents = [fw.unpack_dual(out).tangent for out in outputs(problem, tensors)]
        forward, size = 0.0, 0.0
        for i, seed in zip(problem.live, problem.seeds):
            if tangents[i] is not None:
                assert tangents[i].shape == seed.shape
                assert tangents[i].dtype == seed.dtype
                forward += np.sum(reals(seed) * reals(tangents[i].array))
                size += np.sum(np.abs(seed * tangents[i].array))
        backward = 0.0
        for k, gradient in zip(problem.active, problem.gradients):
            backward += np.sum(reals(gradient) * reals(u[k]))
            size += np.sum(np.abs(gradient * u[k]))
        eps = max(np.finfo(problem.outputs[i].dtype).eps for i in problem.live)
        assert forward == pytest.approx(backward, rel=0, abs=1e4 * eps * size), problem.sample


SMOOTH = [op for op in OPERATORS if isinstance(op, Operator) and not op.once_differentiable]


@pytest.mark.parametrize("op", SMOOTH, ids=lambda op: op.name.partition("::")[2])
def test_the_gradient_of_a_tangent_is_the_tangent_of_a_gradient(op):
    """Forward over reverse and reverse over forward are the same second derivative."""
    problem = problems(op)[0]
    if not finite(problem) or problem.mutated:
        return
    u = directions(problem)
    seeds = [Tensor(seed) for seed in problem.seeds]
    with fw.dual_level():
        leaves = {k: Tensor(problem.arrays[k].copy(), requires_grad=True) for k in problem.active}
        tensors = [Tensor(array.copy()) for array in problem.arrays]
        for k, leaf in leaves.items():
            tensors[k] = fw.make_dual(leaf, Tensor(u[k]))
        outs = outputs(problem, tensors)
        live = [outs[i] for i in problem.live]
        tangents = [fw.unpack_dual(out).tangent for out in live]
        xs = list(leaves.values())
        slopes = grad(live, xs, seeds, retain_graph=True, materialize_grads=True)
        first = [fw.unpack_dual(slope).tangent for slope in slopes]
        pairs = [(t, s) for t, s in zip(tangents, seeds) if t is not None and t.requires_grad]
        second = [None] * len(xs)
        if pairs:
            second = grad([t for t, _ in pairs], xs, [s for _, s in pairs], allow_unused=True)
    for a, b, x in zip(first, second, xs):
        a = np.zeros(x.shape) if a is None else a.array
        b = np.zeros(x.shape) if b is None else b.array
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10 * (1 + np.abs(b).max(initial=0)))
