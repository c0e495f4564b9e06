"""Build of the wheel: finds the Cython files under both roots and compiles them.

Metadata lives in pyproject.toml; here is only what TOML cannot say.

1. A module's name is its path below its root (`core` or `ops`), so `core/plugrad/graph/op.pyx` is
   `plugrad.graph.op`. Every folder on the way needs an `__init__.py`: without it setuptools would
   put the extension at top level.
2. Cython runs when extensions are built, not when this file is read. Otherwise the generated C
   would be listed as source and end up in the sdist.
3. `include_path` names both roots and generated C goes to `build/cython`: without the first a
   cimport can silently take the `.pxd` of an older installed plugrad, without the second C files
   lie beside the sources.
4. `build/lib` is emptied before a build: a module that was deleted or renamed would else live on
   in the next wheel.
5. What Cython would write into every module (the type of its functions, a tenth of the wheel) goes to one
   module, `plugrad._cyutility`, which has no source of its own.
6. The egg-info folder lies in `build/`. In `core/`, which is on `sys.path` in development, it
   would be found as a second installed distribution named plugrad.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext
from setuptools.command.egg_info import egg_info

ROOTS = ("core", "ops")
HERE = Path(__file__).resolve().parent
SHARED = "plugrad._cyutility"
SHARED_SOURCE = "build/cython/_cyutility.c"

# Small where nothing is hot: a hundred modules must fit into a few megabytes. No -march=native: a wheel runs on
# other machines than the one that built it. Kernels compute what is written, with no contraction to FMA but where a
# loop allows it (plugrad.backends.simd); without errno a call such as sqrt() becomes one instruction and the loop
# around it vectorises.
COMPILE = ["-Os", "-g0", "-fvisibility=hidden"]
COMPILE_HOT = ["-O3"]
HOT = (
    *(
        "plugrad.graph.",
        "plugrad.backends.memory",
        "plugrad.backends.recycling",
        "plugrad.backends.philox",
    ),
    *("plugrad.backends.checksum", "plugrad.optim."),
)
COLD = ("copying", "custom", "grad_mode", "inplace", "instruments", "transfer")  # of the graph
COMPILE_KERNELS = [
    *(
        "-O2",
        "-ftree-vectorize",
        "-fvect-cost-model=dynamic",
        "-fno-math-errno",
        "-ffp-contract=off",
    ),
    *("-fno-align-functions", "-fno-align-jumps", "-fno-align-labels"),
]
KERNELS_OF_CORE = tuple(
    f"plugrad.backends.{n}" for n in ("copies", "cpu", "philox", "reducing", "sums")
)
KERNELS_OF_CORE += ("plugrad.optim.kernels.steps",)

# What is pickled says so itself, with __reduce__: methods that Cython would give to every class took 0.6 MB of the
# wheel, and made copies of kernels and backends that nothing asks for.
DIRECTIVES = {
    "language_level": 3,
    "embedsignature": True,
    "embedsignature.format": "python",
    "auto_pickle": False,
}
# Division as in C. As in Python, a zero divisor would raise in the middle of a loop without the GIL, which cannot
# pass it on: the loop would end there and leave the rest of its result unwritten.
DIRECTIVES_OF_KERNELS = {**DIRECTIVES, "cdivision": True}


def is_kernel(extension):
    """Whether an extension is one of loops over numbers."""
    return extension.sources[0].startswith("ops/") or extension.name in KERNELS_OF_CORE


def extensions():
    """One extension per `.pyx` file under the two roots."""
    found = []
    for root in ROOTS:
        for path in sorted((HERE / root).rglob("*.pyx")):
            below = path.relative_to(HERE / root)
            for folder in list(below.parents)[:-1]:
                if not (HERE / root / folder / "__init__.py").exists():
                    raise SystemExit(f"{root}/{below} needs {root}/{folder}/__init__.py")
            found.append(
                Extension(
                    ".".join(below.with_suffix("").parts),
                    [path.relative_to(HERE).as_posix()],
                    define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
                )
            )
    return found


def generate_shared():
    """Write the source of the shared module, unless this Cython has done so before."""
    from Cython import __version__

    path = Path(SHARED_SOURCE)
    if not path.exists() or f"Cython {__version__} " not in path.open(encoding="utf-8").readline():
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "cython", "--generate-shared", path], check=True)


class BuildExtensions(build_ext):
    """Runs Cython first and picks the compiler's options."""

    def initialize_options(self):
        super().initialize_options()
        self.parallel = 2
        if not any(e.name == SHARED for e in self.distribution.ext_modules):
            self.distribution.ext_modules.append(Extension(SHARED, [SHARED_SOURCE]))

    def get_source_files(self):
        return [path for path in super().get_source_files() if path != SHARED_SOURCE]

    def run(self):
        self.keep_names = self.inplace  # which setuptools resets while it builds
        if self.extensions:
            import numpy
            from Cython.Build import cythonize

            os.chdir(HERE)
            own = [e for e in self.extensions if e.name != SHARED]
            done = {}
            for kernels, directives in ((False, DIRECTIVES), (True, DIRECTIVES_OF_KERNELS)):
                translated = cythonize(
                    [Extension(e.name, list(e.sources)) for e in own if is_kernel(e) == kernels],
                    include_path=list(ROOTS),
                    build_dir="build/cython",
                    compiler_directives=directives,
                    shared_utility_qualified_name=SHARED,
                    nthreads=2 if sys.platform == "linux" else 0,
                    force=bool(self.force),
                    quiet=True,
                )
                done |= {e.name: e for e in translated}
            generate_shared()
            for e in self.extensions:
                e.kernels = is_kernel(e)
            for e in own:
                e.depends = [*done[e.name].depends, *e.sources]
                e.sources = done[e.name].sources
                e.include_dirs = [numpy.get_include(), *done[e.name].include_dirs]
        super().run()

    def build_extension(self, ext):
        if self.compiler.compiler_type != "msvc":
            # CFLAGS come last, so that who builds has the last word (-O0 for a quick build).
            own = shlex.split(os.environ.get("CFLAGS", ""))
            ext.extra_compile_args = COMPILE + (COMPILE_KERNELS if ext.kernels else [])
            if ext.name.startswith(HOT) and not ext.name.endswith(COLD):
                ext.extra_compile_args = ext.extra_compile_args + COMPILE_HOT
            ext.extra_compile_args = ext.extra_compile_args + own
            if sys.platform == "linux":
                # With a segment for code alone each of a hundred modules is padded to whole pages once more.
                ext.extra_link_args = ["-Wl,-z,noseparate-code"]
                if not self.keep_names:
                    # A seventh of the wheel is names that only profilers read; a build in place keeps them.
                    ext.extra_link_args += ["-Wl,--strip-all"]
        super().build_extension(ext)


class Build(build):
    """Starts from an empty `build/lib`."""

    def run(self):
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class EggInfo(egg_info):
    """Keeps `plugrad.egg-info` out of the import path."""

    def initialize_options(self):
        super().initialize_options()
        (HERE / "build").mkdir(exist_ok=True)
        self.egg_base = "build"


# The guard matters: where worker processes are spawned, cythonize's workers import this file again.
if __name__ == "__main__":
    setup(
        ext_modules=extensions(),
        cmdclass={"build": Build, "build_ext": BuildExtensions, "egg_info": EggInfo},
    )
