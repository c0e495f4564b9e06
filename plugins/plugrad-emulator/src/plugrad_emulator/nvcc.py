"""Stands in for ``nvcc`` as PyCUDA calls it: ``nvcc --cubin [options] kernel.cu``, ``--preprocess``, ``--version``."""

import sys
from pathlib import Path

from . import _compiler
from .errors import CompileError, EmulatorUnavailable

OUTPUTS = {
    "--cubin": "cubin",
    "-cubin": "cubin",
    "--ptx": "ptx",
    "-ptx": "ptx",
    "--fatbin": "fatbin",
    "-fatbin": "fatbin",
}


def _output(arguments: list[str], source: Path, kind: str) -> Path:
    return (
        Path(arguments[arguments.index("-o") + 1])
        if "-o" in arguments
        else source.with_suffix(f".{kind}")
    )


def main(arguments: list[str] | None = None) -> int:
    """Does what the arguments ask for; the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if "--version" in arguments:
        print(f"plugrad-emulator's stand-in for nvcc, {_compiler.version()}")
        return 0
    kind = next((OUTPUTS[a] for a in arguments if a in OUTPUTS), None)
    sources = [a for a in arguments if a.endswith(".cu")]
    if len(sources) != 1 or (kind is None and "--preprocess" not in arguments):
        print(
            "plugrad-emulator's nvcc: expected one .cu file and --cubin, --ptx, --fatbin or --preprocess",
            file=sys.stderr,
        )
        return 1
    source = Path(sources[0])
    where = {"name": source.name, "folder": str(source.parent)}
    try:
        if kind is None:
            sys.stdout.write(_compiler.preprocess(source.read_text(), arguments, **where))
        else:
            _output(arguments, source, kind).write_bytes(
                _compiler.compile(source.read_text(), options=arguments, **where)
            )
    except (CompileError, EmulatorUnavailable) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
