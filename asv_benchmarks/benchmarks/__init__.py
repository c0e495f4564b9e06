"""plugrad's benchmarks for asv. README.md in the folder above tells how to run them.

Every process that asv starts imports this file first, before NumPy, so that this is the one place where the number of
threads can be set; and a benchmark that opened a progress bar or a window would not be one.
"""

import os

THREADS = "2"

for _variable in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
):
    os.environ.setdefault(_variable, THREADS)
