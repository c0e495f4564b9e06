"""What is compared: plugrad, PyTorch and CuPy, each as a module of functions and a way to bring arrays to the device.

In a dry run PyTorch works on the CPU, where it is installed: its figures mean nothing there, and neither do plugrad's,
but every line that will run on hardware has run.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Library", "find"]


@dataclass(frozen=True)
class Library:
    """A library that works on the device.

    Attributes
    ----------
    name : str
    module : module
    device : str
        What it calls the device.
    """

    name: str
    module: Any
    device: str

    def array(self, host: np.ndarray, requires_grad: bool = False) -> Any:
        """Its own kind of array on the device, a copy."""
        if self.name == "cupy":
            return self.module.asarray(host)
        made = self.module.tensor(host, device=self.device)
        return made.requires_grad_() if requires_grad else made

    @property
    def differentiates(self) -> bool:
        return self.name != "cupy"

    @property
    def functional(self) -> Any:
        return importlib.import_module(f"{self.name}.nn.functional")

    def allow_tf32(self, allowed: bool) -> None:
        """Whether products of float32 may be computed with fewer digits."""
        if self.name == "plugrad":
            self.module.cuda.matmul_allow_tf32 = allowed
        elif self.name == "torch":
            self.module.backends.cuda.matmul.allow_tf32 = allowed

    def reset_peak(self) -> None:
        if self.differentiates and self.device == "cuda":
            self.module.cuda.reset_peak_memory_stats()

    def peak(self) -> int:
        """The most bytes that its arrays held at one time since `reset_peak`; 0 where it cannot tell."""
        return self.module.cuda.max_memory_allocated() if self.device == "cuda" else 0

    def allocated(self) -> int:
        return self.module.cuda.memory_allocated() if self.device == "cuda" else 0


def find(emulated: bool) -> tuple[list[Library], dict[str, str]]:
    """The libraries at hand, and why the others are not."""
    found = [Library("plugrad", importlib.import_module("plugrad"), "cuda")]
    skipped = {}
    for name in ("torch", "cupy"):
        reason = _why_not(name, emulated)
        if reason:
            skipped[name] = reason
        else:
            device = "cpu" if emulated else "cuda"
            found.append(Library(name, importlib.import_module(name), device))
    return found, skipped


def _why_not(name: str, emulated: bool) -> str:
    if importlib.util.find_spec(name) is None:
        return "not installed"
    if emulated:
        return "it has no emulated device" if name == "cupy" else ""
    try:
        module = importlib.import_module(name)
        there = module.cuda.is_available()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "" if there else "it finds no CUDA device (a build for the CPU?)"
