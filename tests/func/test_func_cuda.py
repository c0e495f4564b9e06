"""The transforms on a CUDA device."""

import numpy as np
import pytest

import plugrad
from plugrad import func

pytestmark = pytest.mark.usefixtures("cuda")


def tensors(value):
    if isinstance(value, dict):
        value = list(value.values())
    return (
        [value]
        if isinstance(value, plugrad.Tensor)
        else [t for item in value for t in tensors(item)]
    )


def loss(parameters, x):
    return (plugrad.tanh(x @ parameters["w"]) + parameters["b"]).pow(2).sum()


def each(parameters, x):
    return plugrad.tanh(x @ parameters["w"]) + parameters["b"]


@pytest.mark.parametrize(
    "call",
    [
        lambda p, x: func.grad(loss)(p, x),
        lambda p, x: func.value_and_grad(loss, argnums=(0, 1))(p, x),
        lambda p, x: func.vjp(each, p, x)[1](each(p, x)),
        lambda p, x: func.jvp(each, (p, x), (p, x)),
        lambda p, x: func.jacrev(each, argnums=1)(p, x),
        lambda p, x: func.jacfwd(each, argnums=1)(p, x),
        lambda p, x: func.hessian(loss, argnums=1)(p, x),
        lambda p, x: func.grad(lambda y: func.grad(lambda z: (z**3).sum())(y).sum())(x),
    ],
    ids=["grad", "value_and_grad", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "nested"],
)
def test_as_on_the_cpu(call):
    print("seed 0")
    rng = np.random.default_rng(0)
    w, b, x = rng.standard_normal((3, 2)), rng.standard_normal(2), rng.standard_normal((2, 3))
    found = []
    for device in ("cpu", "cuda"):
        parameters = {"w": plugrad.tensor(w, device=device), "b": plugrad.tensor(b, device=device)}
        result = tensors(call(parameters, plugrad.tensor(x, device=device)))
        assert all(t.device == device for t in result)
        found.append(np.concatenate([t.detach().cpu().numpy().ravel() for t in result]))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-11)
