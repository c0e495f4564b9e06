"""docs/gpu.md: its code runs on the emulated device, and its table is one that the hardware script prints."""

import importlib
import re
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs" / "gpu.md"
BLOCK = re.compile(r"^<!-- (run|file: [^\n]+) -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = BLOCK.findall(DOCS.read_text(encoding="utf-8"))


def run(text, folder):
    code = "import plugrad_emulator\nplugrad_emulator.install()\n" + text
    return subprocess.run(
        [sys.executable, "-"], input=code, cwd=folder, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    "text", [text for mark, text in BLOCKS if mark == "run"], ids=lambda text: text.split("\n")[0]
)
def test_examples(cuda, tmp_path, text):
    done = run(text, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_operator_with_a_launcher(cuda, tmp_path):
    for mark, text in BLOCKS:
        if mark.startswith("file: "):
            path = tmp_path / mark.removeprefix("file: ")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    script = """
        import plugrad
        from energy.ops import energy

        plugrad.register(energy)
        report = plugrad.contract.check(energy, device="cuda-emulated")
        assert report.passed, report
        print(energy(plugrad.tensor([[1.0, 2.0], [3.0, 4.0]], device="cuda")).tolist())
    """
    done = run(textwrap.dedent(script), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "[5.0, 25.0]\n"


def test_the_wheel_of_that_operator_holds_its_kernel(tmp_path, monkeypatch):
    for mark, text in BLOCKS:
        if mark.startswith("file: "):
            path = tmp_path / mark.removeprefix("file: ")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    name = importlib.import_module("setuptools.build_meta").build_wheel(str(tmp_path))
    with zipfile.ZipFile(tmp_path / name) as wheel:
        names = set(wheel.namelist())
        files = ("__init__.py", "ops.py", "cuda.py", "cuda.cu")
        assert {f"energy/{file}" for file in files} <= names
        assert b"mine = energy" in wheel.read("plugrad_energy-0.1.dist-info/entry_points.txt")


def test_the_table_of_results_is_what_the_script_prints(scripts):
    printed = scripts(ROOT / "benchmarks" / "gpu")("report").markdown().splitlines()
    text = DOCS.read_text(encoding="utf-8")
    (table,) = re.findall(r"<!-- results -->\n((?:\|.*\n)+)", text)
    rows = table.splitlines()
    assert [row.split("|")[1:3] for row in rows] == [row.split("|")[1:3] for row in printed]
    for row in rows[2:]:
        result, *where = (cell.strip() for cell in row.split("|")[3:7])
        assert (result == "not run") == (where == ["not run"] * 3), row


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)]+)\)", DOCS.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (DOCS.parent / target).exists(), target
