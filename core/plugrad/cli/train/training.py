"""The training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import plugrad
from plugrad import Tensor
from plugrad.cli.train.data import Digits, jitter
from plugrad.cli.train.model import MLP
from plugrad.nn import functional as F
from plugrad.optim import Adam
from plugrad.optim.lr_scheduler import LambdaLR


@dataclass(frozen=True)
class Config:
    """The options of ``plugrad train digits``."""

    epochs: int
    batch_size: int
    lr: float
    hidden: tuple[int, ...]
    quantize: int | None
    seed: int
    device: str
    out: Path


class Diverged(Exception):
    """The loss is no finite number any more."""


def fit(
    model: MLP,
    train: Digits,
    test: Digits,
    config: Config,
    rng: np.random.Generator,
    advance: Callable[[float], None],
) -> Iterator[dict[str, Any]]:
    """Train for ``config.epochs`` epochs and give the numbers of each.

    Parameters
    ----------
    advance : callable
        Told the loss of every batch.

    Raises
    ------
    Diverged
        A loss is NaN or infinite; the epochs given before are unaffected.
    """
    n, size = len(train.labels), config.batch_size
    total = config.epochs * math.ceil(n / size)
    optimizer = Adam(model.parameters(), lr=config.lr)
    schedule = LambdaLR(optimizer, lambda step: 0.5 * (1.0 + math.cos(math.pi * step / total)))
    for number in range(1, config.epochs + 1):
        start = time.perf_counter()
        order = rng.permutation(n)
        for first in range(0, n, size):
            chosen = order[first : first + size]
            images = jitter(train.images[chosen], rng)
            _, loss = scores_and_loss(model, Digits(images, train.labels[chosen]))
            value = loss.item()
            if not math.isfinite(value):
                raise Diverged(f"The loss became {value} in epoch {number}")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            advance(value)
        numbers: dict[str, Any] = {"epoch": number}
        for part, data in (("train", train), ("test", test)):
            numbers[f"{part}_loss"], numbers[f"{part}_accuracy"] = evaluate(model, data)
            if not math.isfinite(numbers[f"{part}_loss"]):
                raise Diverged(f"The loss became {numbers[f'{part}_loss']} in epoch {number}")
        numbers["seconds"] = round(time.perf_counter() - start, 4)
        yield numbers


def scores_and_loss(model: MLP, data: Digits) -> tuple[Tensor, Tensor]:
    """The network's scores, and their mean cross-entropy (nats), where the network computes."""
    scores = model(plugrad.from_numpy(data.images).to(model.device))
    return scores, F.cross_entropy(scores, plugrad.from_numpy(data.labels).to(model.device))


def evaluate(model: MLP, data: Digits) -> tuple[float, float]:
    """Mean cross-entropy (nats) and share of images that are classified rightly."""
    with plugrad.no_grad():
        scores, loss = scores_and_loss(model, data)
    right = scores.cpu().numpy().argmax(axis=1) == data.labels
    return float(loss.item()), float(right.mean())
