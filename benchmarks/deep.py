"""Checkpointing of a deep network, the one that asv tracks: its step, keeping everything or recomputing."""

from __future__ import annotations

import importlib.util
from functools import cache, partial
from pathlib import Path
from typing import Any

from measure import Body

FILE = Path(__file__).parents[1] / "asv_benchmarks" / "benchmarks" / "checkpoint.py"
WAYS = ("plain", "unchecked", "checked")


@cache
def _module() -> Any:
    spec = importlib.util.spec_from_file_location("plugrad_asv_checkpoint", FILE)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"cannot load {FILE}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def steps() -> dict[str, Body]:
    """By way: forward and backward of the network, which leaves no gradients."""
    network = _module().Network()
    return {way: partial(network.step, way) for way in WAYS}


def step_with_gradients(way: str) -> Body:
    """The same, added to gradients that are there: those made afresh would take the place of freed activations."""
    benchmark = _module().DeepMLPPeak()
    benchmark.setup(way)
    return partial(benchmark.peakmem_step, way)
