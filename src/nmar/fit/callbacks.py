"""What a fit tells and is told while it runs: callbacks after each sweep, and signals that end it in good order."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from nmar.fit.run import Progress
from nmar.models.state import State

log = logging.getLogger("nmar")


@dataclass(frozen=True, eq=False)
class Record:
    """A fit after a sweep.

    Attributes
    ----------
    iteration : sweeps finished, from 1
    bound : bound of the state the sweep started from (an estimate with a stochastic solver)
    validation : predictive log likelihood of the validation cells, or None
    seconds : since the fit began
    state : the variational factors and shared parameters, immutable
    """

    iteration: int
    bound: float
    validation: float | None
    seconds: float
    state: State


Callback = Callable[[Record], Any]  # returning True stops the fit


def record(progress: Progress) -> Record:
    """The last sweep as callbacks see it."""
    trace = progress.trace
    validation = trace.valid[-1] if trace.valid else None
    return Record(trace.iterations, trace.bound[-1], validation, trace.seconds[-1], progress.state.bare())


class Control:
    """Reasons to stop that come from outside the trace: a signal, a callback."""

    def __init__(self, callbacks: Sequence[Callback] = ()) -> None:
        for callback in callbacks:
            if not callable(callback):
                raise ValueError(f"callbacks holds {callback!r}, which cannot be called; give functions of a record")
        self._callbacks = tuple(callbacks)
        self._reason: str | None = None

    def tell(self, progress: Progress) -> None:
        """Call every callback with the last sweep; one that returns True asks to stop."""
        if not self._callbacks:
            return
        told = record(progress)
        if any([callback(told) is True for callback in self._callbacks]):  # each is called, whatever others say
            self._reason = self._reason or "callback"

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Signal handler: the first signal ends the fit after the sweep, a second Ctrl-C at once."""
        if self._reason == "interrupted" and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._reason = "interrupted"
        log.warning("%s: the fit ends after this sweep and keeps the model", signal.Signals(number).name)

    def __call__(self) -> str | None:
        """A reason to stop, or None."""
        return self._reason


@contextmanager
def signals(control: Control) -> Iterator[None]:
    """SIGINT and SIGTERM end the fit in good order; only in the main thread, and handlers are put back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        found = signal.getsignal(number)
        if found is not None:  # None: a handler not made in Python, which could not be put back
            before[number] = found
            signal.signal(number, control.interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
