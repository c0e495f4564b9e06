"""Array backends. Importing this package makes the CPU one available; others are made when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plugrad.backends.cpu  # noqa: F401  (registers itself)
from plugrad.graph.backend import backend_named, set_finder

if TYPE_CHECKING:
    from plugrad.graph.backend import Backend

CPU = backend_named("cpu")


def _named(device: str) -> Backend | None:
    """The backend of a device name that no backend has yet."""
    from plugrad.backends.cuda import device as cuda

    kind = device.partition(":")[0]
    if kind != "cuda" and not cuda.make_available(device):
        return None
    if kind == "cuda" and device not in ("cuda", "cuda:0"):
        raise ValueError(
            f"device {device!r}: plugrad works on one CUDA device, 'cuda:0'; CUDA_VISIBLE_DEVICES says which that is"
        )
    return _cuda()


def _of_type(array_type: type) -> Backend | None:
    """The backend of a type of arrays that was not seen yet."""
    return _cuda() if array_type.__module__ == "pycuda.gpuarray" else None


def _cuda() -> Backend:
    from plugrad.backends.cuda.backend import backend

    return backend()


set_finder(_named, _of_type)

__all__ = ["CPU"]
