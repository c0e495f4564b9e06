"""How much is measured: on hardware, and in a dry run on the emulated device, where figures mean nothing."""

from __future__ import annotations

from dataclasses import dataclass

TESTS = ("tests/backends/cuda", "tests/*/test_*cuda*.py", "tests/contract/test_devices.py")


@dataclass(frozen=True)
class Settings:
    """Sizes, and how often each body runs.

    Attributes
    ----------
    warm_ups, samples : int
        Calls before the clock runs, and calls that are timed one by one.
    elements : int
        Of the arrays whose bandwidth is measured.
    columns : int
        Length of a row of these arrays, for softmax, norms and sums.
    products : tuple of (int, int)
        (stack, n): that many products of two n by n matrices.
    launches : int
        Calls between two waits for the device, where the time of a call is measured on the host.
    layers : tuple of int
        Widths of the network that is trained.
    rows : int
        Of its batch.
    steps : int
        Training steps in a sample.
    tests : tuple of str
        What pytest is given: patterns of paths in the repository.
    keyword : str
        pytest's -k.
    operators : str
        Patterns of the operators whose battery runs, with commas between.
    fresh_elements : int
        Of the arrays in the battery's fresh random samples, a square of an even number.
    """

    warm_ups: int = 10
    samples: int = 50
    elements: int = 1 << 26
    columns: int = 1024
    products: tuple[tuple[int, int], ...] = ((1, 512), (1, 1024), (1, 4096), (1, 8192), (64, 512))
    launches: int = 200
    layers: tuple[int, ...] = (784, 512, 512, 10)
    rows: int = 256
    steps: int = 20
    tests: tuple[str, ...] = TESTS
    keyword: str = ""
    operators: str = "*::*"
    fresh_elements: int = 12_100


FULL = Settings()

DRY = Settings(
    warm_ups=1,
    samples=2,
    elements=1 << 10,
    columns=64,
    products=((1, 16), (2, 8)),
    launches=3,
    layers=(16, 8, 4),
    rows=8,
    steps=2,
    tests=("tests/ops/test_cuda_shape.py",),
    keyword="flip",
    operators="standard::add,standard::exp,standard::sum,standard::softmax,standard::matmul",
    fresh_elements=100,
)
