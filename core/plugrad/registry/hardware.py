"""Which device "cuda" is in this process: hardware or the emulated one, whose results are never mixed.

A tensor's device is "cuda" on both. In reports, certificates and listings the emulated one is "cuda (emulated)".
"""

from __future__ import annotations

__all__ = ["EMULATED", "HARDWARE", "activate", "environment_of", "kind_of", "label", "name_of"]

HARDWARE, EMULATED = "hardware", "emulated"


def activate(name: str) -> str:
    """Make the device of a name available and return what tensors on it call it.

    Parameters
    ----------
    name : str
        "cpu", "cuda" (hardware unless an emulated device is there already), "cuda-emulated", or a device of a plugin.

    Raises
    ------
    ValueError
        There is no such device.
    RuntimeError
        There is one, but not in this process or on this machine; the message says why.
    """
    import plugrad.backends  # noqa: F401  (finds the backend of a device)
    from plugrad.graph.backend import backend_named

    return backend_named(name).name


def kind_of(device: str) -> str:
    """ "hardware" or "emulated" for "cuda"; the name of any other device."""
    if device != "cuda":
        return device
    from plugrad.backends.cuda.device import emulated

    return EMULATED if emulated() else HARDWARE


def label(device: str) -> str:
    """What reports call a device: "cpu", "cuda", "cuda (emulated)"."""
    if device != "cuda":
        return device
    return "cuda (emulated)" if kind_of(device) == EMULATED else "cuda"


def name_of(device: str) -> str:
    """What the command line calls a device: "cpu", "cuda", "cuda-emulated"."""
    return "cuda-emulated" if device == "cuda" and kind_of(device) == EMULATED else device


def environment_of(device: str) -> tuple[str, ...]:
    """What else a result on a device may depend on: its architecture, driver and compiler. Empty for the CPU."""
    if device == "cpu":
        return ()
    if device != "cuda":
        return (f"device {device}",)
    from plugrad.backends.cuda import compiler
    from plugrad.backends.cuda import device as cuda

    emulated = kind_of(device) == EMULATED
    made_by = compiler.compiler_for(compiler.EMULATED if emulated else cuda.architecture())
    return (
        f"device cuda {kind_of(device)} {cuda.architecture()}",
        f"driver {cuda.driver().get_driver_version()}",
        f"compiler {made_by.identity}",
    )
