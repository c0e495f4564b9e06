"""The README's example does what it says."""

import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_example(cuda_emulated):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    error, message = done.stdout.splitlines()
    assert error == "cuCtxSynchronize failed: an illegal memory access was encountered"
    assert "thread (100,0,0), kernel.cu:4: reads 4 bytes at" in message
    assert message.endswith("right past the end of a 400-byte allocation")


def test_every_public_name_and_variable_is_described():
    import plugrad_emulator

    package = Path(plugrad_emulator.__file__).parent
    for name in plugrad_emulator.__all__:
        assert (
            f"`{name}" in README
            or name.endswith("Error")
            or name == "EmulatorUnavailable"
            or name == "installed"
        ), name
    settings = set()
    for path in [*package.glob("host/*.cpp"), *package.glob("*.py")]:
        text = path.read_text()
        settings |= set(re.findall(r'setting\("(\w+)"', text)) | set(
            re.findall(r'"PLUGRAD_EMULATOR_(\w+)"', text)
        )
    for name in settings:
        assert f"PLUGRAD_EMULATOR_{name}" in README or f"`_{name}`" in README, name
