from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

def ctc_losses(
    log_probs: Array,
    targets: Array,
    input_lengths: Array,
    target_lengths: Array,
    blank: int,
    grad: Array | None = None,
) -> Array: ...
