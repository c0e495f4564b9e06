"""Functions of several steps on float16: computed in float32 and rounded once, as on CUDA."""

import numpy as np


def once_rounded(function, *operands):
    """``function(*operands)``, in float32 where the arrays among the operands are float16."""
    if not any(getattr(x, "dtype", None) == np.float16 for x in operands):
        return function(*operands)
    wide = [x.astype(np.float32) if isinstance(x, np.ndarray) else x for x in operands]
    return function(*wide).astype(np.float16)
