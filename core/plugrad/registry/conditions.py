"""The conditions under which a battery runs, whatever the thread was doing when it became due."""

from __future__ import annotations

import random
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np

from plugrad.graph.grad_mode import inference_mode
from plugrad.graph.instruments import suspended

__all__ = ["Progress", "neutral"]

_NUMPY_DEFAULTS = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}


@contextmanager
def neutral() -> Iterator[None]:
    """Grad mode on, inference mode off, NumPy's error state and warnings as in a new process; all restored after.

    The global random generators are restored too, plugrad's is set aside: a battery that runs because an
    operator is called for the first time must not change what a seeded program draws. Hooks of saved tensors
    and anomaly mode do not see it.
    """
    from plugrad.backends.generators import set_aside  # needed by batteries only

    with ExitStack() as stack:
        stack.enter_context(inference_mode(False))
        stack.enter_context(suspended())
        stack.enter_context(np.errstate(**_NUMPY_DEFAULTS, call=None))  # type: ignore[arg-type]
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.callback(random.setstate, random.getstate())
        # Restoring costs 2500 bytes; importing the module for it would cost far more.
        generators = sys.modules.get("numpy.random")
        if generators is not None:
            stack.callback(generators.set_state, generators.get_state(legacy=False))
        stack.enter_context(set_aside())
        yield


class Progress:
    """One line on a terminal's standard error, shown while checking takes longer than expected."""

    PATIENCE = 0.5
    """Seconds before anything is shown."""

    def __init__(self) -> None:
        self._deadline = time.monotonic() + self.PATIENCE
        self._shown = 0
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._text = ""
        self._closed = False
        self.on = sys.stderr is not None and sys.stderr.isatty()

    def update(self, done: int, left: int, name: str) -> None:
        """Say what is checked now; shown at once or, before the patience is over, then."""
        if not self.on:
            return
        self._text = f"plugrad: checking {name} before its first use ({done} done, {left} to go)"
        if time.monotonic() >= self._deadline:
            self._show()
        elif self._timer is None:
            # One battery alone may take long: the text must not wait for the next update.
            self._timer = threading.Timer(self.PATIENCE, self._show)
            self._timer.daemon = True
            self._timer.start()

    def close(self) -> None:
        """Take the line away."""
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._shown:
                sys.stderr.write("\r" + " " * self._shown + "\r")
                sys.stderr.flush()

    def _show(self) -> None:
        with self._lock:
            if not self._closed:
                sys.stderr.write("\r" + self._text.ljust(self._shown))
                sys.stderr.flush()
                self._shown = max(self._shown, len(self._text))
