"""The example of the README does what it says."""

import re
from pathlib import Path

import numpy as np

README = Path(__file__).parents[1] / "README.md"


def test_the_example_runs():
    code = next(
        block
        for block in re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
        if "fake_quantize(w" in block
    )
    names = {}
    exec(code, names)
    np.testing.assert_array_equal(names["q"].detach().numpy(), [-1.0, 0.0, 0.25, 1.75])
    np.testing.assert_array_equal(names["w"].grad.numpy(), [1, 1, 1, 0])
    w = np.float32([-0.9, -0.1, 0.2]) / np.float32(0.25)
    expected = 7 + (np.rint(w) - w).sum()
    np.testing.assert_allclose(names["scale"].grad.numpy(), expected, rtol=1e-6)
