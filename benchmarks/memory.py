"""Prints by how many bytes one workload raises the peak of its process's resident set. Run by `peers.py`.

`python memory.py chain plugrad 1000000`
"""

from __future__ import annotations

import sys

import convnet
import deep
from chains import long_chain
from measure import peak_growth
from training import LARGE, SMALL, with_library


def main(workload: str, peer: str, size: int) -> int:
    if workload == "chain":
        # A short chain first: what a library sets up on first use is not the graph's.
        long_chain((peer,), 1_000)[peer]()
        return peak_growth(long_chain((peer,), size)[peer])
    if workload == "training":
        # A tiny model first, for the same reason. Then parameters, moments, gradients and activations together.
        with_library(peer, SMALL)()

        def train() -> None:
            step = with_library(peer, LARGE)
            for _ in range(size):
                step()

        return peak_growth(train)
    if workload == "convnet":
        convnet.with_library(peer, 2)()

        def train_convnet() -> None:
            step = convnet.with_library(peer)
            for _ in range(size):
                step()

        return peak_growth(train_convnet)
    if workload == "deep":  # in plugrad; the peer is the way of keeping or recomputing
        return peak_growth(deep.step_with_gradients(peer))
    raise SystemExit(f"no workload {workload!r}: chain, training, convnet or deep")


if __name__ == "__main__":
    print(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
