"""The one loop: sweeps of two half sweeps, each followed by the M-steps from its own statistics."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from nmar.kernels.spec import Kernels
from nmar.models.coupled import Executor, Law, Observed, State, bound, half_sweep, update_shared


@dataclass(frozen=True)
class Trace:
    """What happened so far, one entry per finished sweep."""

    bound: tuple[float, ...] = ()  # bound of the state each sweep started from
    valid: tuple[float, ...] = ()  # held-out log likelihood after each sweep, where asked
    seconds: tuple[float, ...] = ()

    @property
    def iterations(self) -> int:
        """Number of finished sweeps."""
        return len(self.bound)


class Stop(Protocol):
    """Decides after each sweep whether to go on."""

    def __call__(self, trace: Trace) -> str | None:
        """A reason to stop, or None."""
        ...


@dataclass(frozen=True)
class Fit:
    """Result of a run."""

    state: State
    trace: Trace
    reason: str = "max_iter"
    extra: dict[str, object] = field(default_factory=dict)


def sweep(state: State, observed: Observed, law: Law, kernels: Kernels, executor: Executor) -> tuple[State, float]:
    """Update the leading axis, then the other; returns the new state and the bound of the old one."""
    first = 0.0
    for axis in (law.lead, 1 - law.lead):
        pair, info, size = half_sweep(axis, state, observed, law, kernels, executor)
        if axis == law.lead:
            first = bound(state, info.log_z, law, observed)
        state = State(state.sides, replace(state.shared, table_size=size)).with_side(axis, pair)
        state = State(state.sides, update_shared(axis, state, info, law))
    return state, first


def run(
    state: State,
    observed: Observed,
    law: Law,
    kernels: Kernels,
    executor: Executor,
    stop: Stop,
    after: Callable[[State, Trace], Trace] | None = None,
) -> Fit:
    """Sweep until ``stop`` gives a reason.

    Parameters
    ----------
    after : function, optional
        Called after each sweep with the new state and the trace; may extend the trace (validation, callbacks).
    """
    trace, reason, began = Trace(), None, time.perf_counter()
    while reason is None:
        state, value = sweep(state, observed, law, kernels, executor)
        now = time.perf_counter() - began
        trace = Trace((*trace.bound, value), trace.valid, (*trace.seconds, now))
        if after is not None:
            trace = after(state, trace)
        reason = stop(trace)
    return Fit(state, trace, reason)
