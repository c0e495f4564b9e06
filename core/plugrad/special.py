"""Special functions under the names they have in ``torch.special``.

Each is an operator of the standard plugin, most of them under the same name.

>>> import plugrad
>>> plugrad.special.expit(plugrad.tensor(0.0))
tensor(0.5)
"""

from typing import Any

from plugrad import registry

OTHERS = {
    "expit": "sigmoid",
    "gammaln": "lgamma",
    "multigammaln": "mvlgamma",
    "psi": "digamma",
}
"""Names that differ from the operator's."""

SAME = (
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfinv",
    "exp2",
    "expm1",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "log1p",
    "log_softmax",
    "logit",
    "logsumexp",
    "ndtr",
    "polygamma",
    "round",
    "sinc",
    "softmax",
    "xlog1py",
    "xlogy",
)

__all__ = sorted((*OTHERS, *SAME))


def __getattr__(name: str) -> Any:
    if name not in OTHERS and name not in SAME:
        raise AttributeError(f"module 'plugrad.special' has no attribute {name!r}")
    return registry.standard(OTHERS.get(name, name))


def __dir__() -> list[str]:
    return __all__
