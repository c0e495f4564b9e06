"""The training kit's functions: `functional` has PyTorch's names over plugrad's operators, `utils` clips gradients."""

from typing import Any

from plugrad.nn import functional, utils

__all__ = ["functional", "utils"]


def __getattr__(name: str) -> Any:
    from plugrad.registry.elsewhere import NN, instead

    hint = instead(name, NN, __all__, "plugrad.nn.")
    if not hint and name[:1].isupper():
        hint = f": there are no modules yet; {NN['Module'].replace('`', '')}"
    raise AttributeError(f"plugrad.nn has no attribute {name!r}{hint}")
