"""cuBLAS, opened when the first product needs it: stacks of matrix products in row-major order.

(a) Nothing of it is needed to build or to import. The library is the one that `cuda-pathfinder` finds (the extra
    ``plugrad[cublas]`` brings both) or that the system's loader knows; the environment variable PLUGRAD_CUBLAS names a
    file, or with ``0`` says that it is not to be used.
(b) cuBLAS reads matrices in column-major order. A row-major matrix read that way is its transpose, and (A B)ᵀ is Bᵀ Aᵀ:
    operands and sizes change places, nothing is copied.
(c) A handle belongs to the process and its primary context. Choosing a stream and queueing a product are one step under
    the GIL, so threads do not disturb each other.
(d) Half is summed up in float; float in float unless TF32 is asked for. Sums are never atomic: same input, same bits.
"""

import ctypes
import importlib.util
import os
import sys

cdef enum:
    FLOAT_SUMS = 68  # cublasComputeType_t
    DOUBLE_SUMS = 70
    TF32_SUMS = 77
    DEFAULT_ALGORITHM = -1
    EXACT_HALF_SUMS = 16  # CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION

cdef dict TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}  # cudaDataType_t
cdef tuple NAMES = (
    ("libcublas.so.13", "libcublas.so.12") if sys.platform != "win32" else ("cublas64_13.dll", "cublas64_12.dll")
)
cdef dict STATUS = {
    1: "not initialised", 3: "out of memory", 7: "invalid value", 8: "not supported by this device",
    11: "mapping error", 13: "execution failed", 14: "internal error", 15: "not supported",
}

ctypedef int (*create_t)(void **) noexcept
ctypedef int (*version_t)(void *, int *) noexcept
ctypedef int (*stream_t)(void *, void *) noexcept
ctypedef int (*mode_t)(void *, int) noexcept
ctypedef int (*gemm_t)(
    void *, int, int, int, int, int, const void *, const void *, int, int, long long, const void *, int, int, long long,
    const void *, void *, int, int, long long, int, int, int
) noexcept


class CublasError(RuntimeError):
    """cuBLAS refused a call."""


cdef class Cublas:
    """One handle of the library.

    Parameters
    ----------
    path : str
        The library's file, or a name that the system's loader knows.

    Raises
    ------
    OSError, AttributeError
        It cannot be opened, or lacks a function.
    CublasError
        It finds no device that it supports.
    """

    cdef readonly str path
    cdef object library
    cdef void *handle
    cdef stream_t set_stream
    cdef gemm_t gemm

    def __init__(self, str path):
        self.path = path
        self.library = ctypes.CDLL(path)
        self.set_stream = <stream_t>address(self.library, "cublasSetStream_v2")
        self.gemm = <gemm_t>address(self.library, "cublasGemmStridedBatchedEx")
        check(self, (<create_t>address(self.library, "cublasCreate_v2"))(&self.handle), "cublasCreate")
        cdef mode_t set_mode = <mode_t>address(self.library, "cublasSetMathMode")
        check(self, set_mode(self.handle, EXACT_HALF_SUMS), "cublasSetMathMode")

    @property
    def version(self):
        """The library's version as one number."""
        cdef int found = 0
        check(self, (<version_t>address(self.library, "cublasGetVersion_v2"))(self.handle, &found), "cublasGetVersion")
        return found

    def multiply(
        self, size_t stream, str dtype, int m, int n, int k,
        size_t a, bint a_transposed, int a_leading, long long a_step,
        size_t b, bint b_transposed, int b_leading, long long b_step,
        size_t c, int c_leading, long long c_step, int count, bint add=False, bint tf32=False,
    ):
        """Queue ``c[i] = a[i] @ b[i]``, or ``c[i] += a[i] @ b[i]`` with `add`, for `count` row-major matrices.

        Parameters
        ----------
        stream : int
            Its address; 0 is the default stream.
        m, n, k : int
            The results are m x n, each the sum of k products.
        a, b, c : int
            Device addresses.
        a_transposed, b_transposed : bool
            The operand lies in memory as its transpose.
        a_leading, b_leading, c_leading : int
            Elements from one row in memory to the next.
        a_step, b_step, c_step : int
            Elements from one matrix to the next.

        Raises
        ------
        CublasError
            The library refused the call.
        """
        cdef int type = TYPES[dtype]
        cdef int sums = DOUBLE_SUMS if type == 1 else TF32_SUMS if tf32 and type == 0 else FLOAT_SUMS
        cdef float one = 1, old = 1 if add else 0
        cdef double wide_one = 1, wide_old = old
        cdef const void *alpha = &one
        cdef const void *beta = &old
        if type == 1:
            alpha, beta = &wide_one, &wide_old
        check(self, self.set_stream(self.handle, <void *>stream), "cublasSetStream")
        check(
            self,
            self.gemm(
                self.handle, b_transposed, a_transposed, n, m, k, alpha, <const void *>b, type, b_leading, b_step,
                <const void *>a, type, a_leading, a_step, beta, <void *>c, type, c_leading, c_step, count, sums,
                DEFAULT_ALGORITHM,
            ),
            "cublasGemmStridedBatchedEx",
        )


cdef void *address(object library, str name) except NULL:
    """A function of a library."""
    cdef size_t found = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    return <void *>found


cdef int check(Cublas of, int status, str call) except -1:
    if status:
        raise CublasError(f"{call} of {of.path}: status {status} ({STATUS.get(status, 'unknown')})")
    return 0


def find():
    """cuBLAS, or None where it is not installed.

    Raises
    ------
    OSError
        The file that PLUGRAD_CUBLAS names cannot be opened.
    """
    asked = os.environ.get("PLUGRAD_CUBLAS", "")
    if asked == "0":
        return None
    if asked:
        return Cublas(asked)
    for path in candidates():
        try:
            return Cublas(path)
        except (OSError, AttributeError):
            continue
    return None


def candidates():
    """Where cuBLAS may be."""
    if importlib.util.find_spec("cuda") is not None and importlib.util.find_spec("cuda.pathfinder") is not None:
        from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

        try:
            yield load_nvidia_dynamic_lib("cublas").abs_path
        except (DynamicLibNotFoundError, RuntimeError):
            pass
    yield from NAMES
