"""What usually causes an exception of a kernel or of a function that was called, read off the exception."""

from __future__ import annotations

import sys

__all__ = ["cause_of"]

ARGUMENTS = "the launch does not fit the kernel's parameters: their number, order or types (an int is a long long)"

# What messages of kernels hold (the emulated device says more than hardware does), and what that usually comes from.
SAID = (
    ("race in ", "threads touch the same memory in no order: a missing __syncthreads(), or a sum of many threads without atomicAdd"),
    ("barrier", "not all threads of a block reach the same __syncthreads(): it stands in a branch, or after a return"),
    ("deadlock", "threads wait for others that have returned or wait elsewhere"),
    ("near the null pointer", "the kernel was given no array, or a number in the place of one"),
    ("the null pointer", "the kernel was given no array, or a number in the place of one"),
    ("not device memory", "the kernel was given an array of the host"),
    ("has been freed", "the array was let go before the kernel ran: keep a reference to it"),
    ("end of a", "an index goes past an array: no `if (i < n)` for the last block, or a wrong length or stride"),
    ("before the start of", "an index is negative"),
    ("illegal memory access", "an index goes past an array, or an array of the host was given"),
    ("is not a multiple of", "an address that is not aligned, of a slice for example, is read as a larger type"),
    (" bytes of arguments", ARGUMENTS),
    ("has no kernel named", 'a kernel is declared extern "C" __global__, and function() is given its name'),
)  # fmt: skip


def cause_of(error: BaseException) -> str:
    """A sentence on what usually causes `error`; empty where only its message can tell."""
    if isinstance(error, FileNotFoundError):
        return "a file that the package needs was not installed with it: a .cu file must be listed in [tool.setuptools.package-data]"
    if isinstance(error, ImportError):
        return "a module's name is misspelt, or a package that it needs is not installed"
    if isinstance(error, TypeError) and "called with the wrong arguments" in str(error):
        return ARGUMENTS
    errors = sys.modules.get("plugrad.backends.cuda.errors")
    if errors is None or not isinstance(error, errors.CudaError):
        return ""
    if isinstance(error, errors.CompileError):
        return "the kernel's text is no CUDA C++: the compiler's first error counts, later ones follow from it"
    text = str(error)
    return next((hint for word, hint in SAID if word in text), "")
