"""Random numbers, and scripts that use the emulated device in a process of their own."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def rng():
    """Random numbers; the seed is printed."""
    seed = np.random.SeedSequence().entropy % 2**32
    print("seed", seed)
    return np.random.default_rng(seed)


@pytest.fixture
def script(cuda, tmp_path):
    """Run Python code in a process of its own, after the emulated device was installed there."""
    if not cuda.is_emulated():
        pytest.skip("needs the emulated device, and these tests run on a real one")
    import plugrad_emulator

    def run(code, *, before="import plugrad_emulator; plugrad_emulator.install()", **variables):
        path = tmp_path / "script.py"
        path.write_text(f"{before}\n{textwrap.dedent(code)}", encoding="utf-8")
        file = Path(plugrad_emulator.__file__)
        place = file.parent.parent if file.name == "__init__.py" else file.parent
        paths = [str(place), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            **variables,
        }
        return subprocess.run(
            [sys.executable, "-X", "faulthandler", str(path)],
            capture_output=True,
            text=True,
            env=environment,
            timeout=120,
        )

    return run
