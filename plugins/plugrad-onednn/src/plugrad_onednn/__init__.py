"""oneDNN's convolutions as kernels of plugrad's operators; see README.md."""

from __future__ import annotations

from typing import Any

import plugrad


@plugrad.hookimpl
def plugrad_register_kernels(registry: Any) -> None:
    """Offer a kernel for each of the three operators that convolutions consist of.

    Raises
    ------
    plugrad_onednn.library.LibraryNotFound
        oneDNN is not installed. The plugin is quarantined then, and the operators keep their own kernels.
    """
    from plugrad_onednn import kernels

    registry.kernel("standard::convolution", "cpu", kernels.convolution)
    registry.kernel("standard::convolution_input", "cpu", kernels.convolution_input)
    registry.kernel("standard::convolution_weight", "cpu", kernels.convolution_weight)
