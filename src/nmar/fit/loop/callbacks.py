"""Callbacks: functions of the user, called after each sweep, which may stop the fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nmar.fit.loop.run import Progress
from nmar.models.state import State

Phase = Literal["search", "fit"]


@dataclass(frozen=True, eq=False)
class Record:
    """A fit after a sweep."""

    iteration: int  # number of finished sweeps, from 1
    bound: float  # bound of the state the sweep started from (an estimate with a stochastic solver)
    validation: float | None  # predictive log likelihood of the validation cells, or None
    seconds: float  # seconds since the fit began
    state: State  # variational factors and shared parameters, a copy that no later sweep changes
    # phase of the fit: "search" while a start or settings are chosen by short runs, each counted from 1; then "fit"
    phase: Phase = "fit"


Callback = Callable[[Record], Any]  # returning True stops the fit


def record(progress: Progress, phase: Phase = "fit") -> Record:
    """The last sweep as callbacks see it."""
    trace = progress.trace
    validation = trace.valid[-1] if trace.valid else None
    state = progress.state.on_host().bare().copy()
    return Record(trace.iterations, trace.bound[-1], validation, trace.seconds[-1], state, phase)


class Control:
    """Reasons to stop that come from outside the trace: a callback that asks for it."""

    def __init__(self, callbacks: Sequence[Callback] = (), phase: Phase = "fit") -> None:
        for callback in callbacks:
            if not callable(callback):
                raise ValueError(f"callbacks holds {callback!r}, which cannot be called; give functions of a record")
        self._callbacks = tuple(callbacks)
        self._phase = phase
        self._reason: str | None = None

    def preparing(self) -> Control:
        """The control of a fit that prepares this one: callbacks receive its sweeps as those of a search."""
        return Control(self._callbacks, "search")

    def tell(self, progress: Progress, phase: Phase | None = None) -> None:
        """Call every callback with the last sweep; one that returns True asks to stop, but for sweeps of a search.

        Sweeps of short runs are counted from 1 again and again: "stop after the tenth" is meant for the fit.
        """
        if not self._callbacks:
            return
        phase = self._phase if phase is None else phase
        told = record(progress, phase)
        asked = [callback(told) is True for callback in self._callbacks]  # each is called, whatever others say
        if phase == "fit" and any(asked):
            self._reason = self._reason or "callback"

    def __call__(self) -> str | None:
        """A reason to stop, or None."""
        return self._reason
