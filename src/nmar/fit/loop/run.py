"""The one loop: sweeps of two half sweeps, each followed by M-steps from its own statistics where it sums any.

Solvers differ in the :class:`Schedule` handed to :func:`run`, never in the loop: what a sweep visits, how often
each cell counts and how far the state moves are arguments (:class:`BatchStep`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Any, Protocol

from nmar.fit.loop.blend import blend, blend_effects, blend_numbers
from nmar.fit.loop.remember import BatchSums
from nmar.kernels.spec import Kernels
from nmar.models.bound import bound
from nmar.models.context import Context
from nmar.models.half_sweep import half_sweep
from nmar.models.scaling import EXACT, Scaling
from nmar.models.shared import Info, balanced_noise, update_shared
from nmar.models.state import State
from nmar.models.views import tabulated
from nmar.prob.arrays import on_host
from nmar.prob.statistics import Statistics
from nmar.prob.tree import map_arrays

INTERRUPTED = "interrupted"  # the reason of a run that Ctrl-C ended


@dataclass(frozen=True)
class Trace:
    """What happened so far, one entry per finished sweep."""

    bound: tuple[float, ...] = ()  # bound of the state each sweep started from; estimated by a stochastic solver
    valid: tuple[float, ...] = ()  # held-out log likelihood after each sweep, where asked
    seconds: tuple[float, ...] = ()
    before: float = 0.0  # seconds that went before the first sweep, into choosing settings
    unit_term: float = 0.0  # part of every bound that is due to the units of the values

    @property
    def iterations(self) -> int:
        """Number of finished sweeps."""
        return len(self.bound)

    def longer(self, bound: float, seconds: float, unit_term: float) -> Trace:
        """The trace with one more sweep."""
        return replace(self, bound=(*self.bound, bound), seconds=(*self.seconds, seconds), unit_term=unit_term)


class Stop(Protocol):
    """Decides after each sweep whether to go on."""

    def __call__(self, trace: Trace) -> str | None:
        """A reason to stop, or None."""
        ...


@dataclass(frozen=True, eq=False)
class Memory:
    """What a stochastic solver remembers besides the state."""

    steps: int = 0  # steps taken on the other side so far
    stats: Statistics | None = None  # blended n-vectors of leading half sweeps, scaled to the whole matrix
    lines: int = 0  # leading lines seen so far (streams)
    kept: tuple[Statistics | None, ...] = ()  # vectors over counts of each batch's last visit (batches in memory)
    sums: BatchSums | None = None  # last contribution of each batch to the other side (batches in memory)
    counters: tuple[Any, ...] = ()  # visits of rows, columns and so on (entrywise)

    def at_noise(self, change: float, of_lead: bool) -> Memory:
        """What is remembered after noise levels of an axis and σ² were both multiplied by ``change``."""
        stats, kept = (
            tuple(None if each is None else each.with_squares(change) for each in given)
            for given in ((self.stats,), self.kept)
        )
        sums = self.sums if of_lead or self.sums is None else self.sums.at(1.0 / change)
        return replace(self, stats=stats[0], kept=kept, sums=sums)


@dataclass(frozen=True)
class BatchStep:
    """How a sweep over some leading lines stands for all of them."""

    share: float = 1.0  # lines of the whole over lines of the part, I/|B|
    scale: float = 1.0  # how often each summed cell counts: I/|B|, or I over all lines whose sums are remembered
    step: float = 1.0  # how far the other side and what is shared move to their targets; 1 is coordinate ascent
    local: int = 1  # half sweeps of the leading lines before the other side's
    batch: int = -1  # number of the batch where sums of the batches are remembered, else −1

    @property
    def exact(self) -> bool:
        """A sweep of coordinate ascent over everything there is."""
        return self.share == self.scale == self.step == 1.0 and self.batch < 0

    @property
    def weight(self) -> float:
        """Weight of the part's averages beside what was known: the step, or its share of the lines remembered."""
        return self.step if self.batch < 0 else min(1.0, self.scale / self.share)


WHOLE = BatchStep()


class Schedule(Protocol):
    """What one entry of the trace is made of.

    ``keeps_states`` says whether states of earlier sweeps are read again, so that their memory must not be reused.
    """

    keeps_states: bool

    def advance(self, state: State, memory: Memory, context: Context) -> tuple[State, Memory, float]:
        """The state and the memory after one sweep, and the bound of the state it started from."""
        ...


@dataclass(frozen=True, eq=False)
class Progress:
    """A run so far: everything needed to go on with it (a checkpoint holds this)."""

    state: State
    trace: Trace = Trace()
    memory: Memory = field(default_factory=Memory)
    best: State | None = None  # by validation
    best_score: float = float("-inf")
    seed: Any = None
    settings: tuple[tuple[str, Any], ...] = ()  # of the options, where they were left open

    def placed(self, kernels: Kernels) -> Progress:
        """The run with what sweeps read where a backend keeps it."""
        return self._moved(kernels.place) if kernels.own_memory else self

    def on_host(self) -> Progress:
        """The run in NumPy's memory, to be written to a file or returned."""
        return self if self.state.in_host_memory else self._moved(on_host)

    def _moved(self, change: Callable[[Any], Any]) -> Progress:
        memory = replace(self.memory, sums=map_arrays(self.memory.sums, change))
        return replace(self, state=self.state.mapped(change), memory=memory)


@dataclass(frozen=True)
class Fit:
    """Result of a run."""

    state: State
    trace: Trace
    reason: str = "max_iter"
    progress: Progress | None = None


def sweep_batch(state: State, memory: Memory, context: Context, part: BatchStep = WHOLE) -> tuple[State, Memory, float]:
    """Update the leading lines given, then take a step on the other side and on what is shared.

    With ``WHOLE`` this is a sweep of coordinate ascent. Otherwise the leading lines are those of a batch: their
    update is exact; the other side's E-step is fresh, its data sums count ``scale`` times, and its natural
    parameters move a fraction ``step`` (theory.md, Stochastic scalings).
    """
    law, first = context.law, 0.0
    for axis in (law.lead, 1 - law.lead):
        leads = axis == law.lead
        state = tabulated(state, context)
        scaling = EXACT if leads else _scaling(memory, part)
        for turn in range(part.local if leads else 1):
            both = not (law.data.diagonal or state.shared.learns_in_turn)
            learns = (leads and turn == part.local - 1) or (not leads and part.exact and both)
            side, info, size = half_sweep(axis, state, context, learns, scaling)
            if leads and turn == 0:
                first = bound_at(state, info.log_z, context, part.share)
            if not leads:
                side = blend(state.sides[axis], side, part.step, law.pattern_of(state.shared, axis))
            state = State(state.sides, replace(state.shared, table_size=size)).with_side(axis, side)
        memory, info = _remember(memory, info, part, leads)
        shared = update_shared(axis, state, info, law)
        weight = part.weight if leads else 1.0
        data = blend_numbers(state.shared.data, shared.data, weight)
        effects = blend_effects(state.shared.effects, shared.effects, 1.0 if leads else part.step, weight)
        noise = None if shared.noise is None else shared.noise.part_way(state.shared.noise, axis, weight)
        new = State(state.sides, replace(shared, data=data, effects=effects, noise=noise))
        state = law.settled(axis, new, state.shared, context.kernels)
        state = balanced_noise(axis, state) if part.exact else state
    return state, replace(memory, steps=memory.steps + 1), first


def balance_noise(state: State, memory: Memory, lead: int, step: float = 1.0) -> tuple[State, Memory]:
    """The scales that noise levels share with σ², for solvers by parts, whose memory has to follow.

    ``step`` is that of the leading axis, of which the state may have a part.
    """
    for axis in (0, 1):
        before = state.shared.dispersion
        state = balanced_noise(axis, state, step if axis == lead else 1.0)
        if state.shared.dispersion != before:
            memory = memory.at_noise(state.shared.dispersion / before, axis == lead)
    return state, memory


class FullSweeps:
    """Coordinate ascent: every sweep sees every cell."""

    keeps_states = False
    advance = staticmethod(sweep_batch)


def _scaling(memory: Memory, part: BatchStep) -> Scaling:
    """How the cells of a part stand for all cells where they update the other axis."""
    if memory.sums is None or part.batch < 0:
        return Scaling(part.scale)
    return Scaling(part.scale, memory.sums.others(part.batch))


def _remember(memory: Memory, info: Info, part: BatchStep, leads: bool) -> tuple[Memory, Info]:
    """The memory after a half sweep, and its results with n-vectors that stand for all cells."""
    if leads and info.stats is not None:
        memory = _remember_stats(memory, info.stats, part)
        return memory, replace(info, stats=memory.stats)
    if memory.sums is not None and info.sums is not None:
        memory = replace(memory, sums=memory.sums.replaced(part.batch, info.sums))
    return memory, info


def _remember_stats(memory: Memory, stats: Statistics, part: BatchStep) -> Memory:
    """n-vectors scaled to the whole matrix and blended with those of earlier batches."""
    old, new = memory.stats, stats.scale(part.scale)
    if part.batch >= 0:
        batches = list(memory.kept)
        batches[part.batch] = stats
        memory = replace(memory, kept=tuple(batches))
        new = reduce(add, [each for each in batches if each is not None]).scale(part.scale)
    if old is not None and part.step < 1.0:
        new = old.scale(1.0 - part.step) + new.scale(part.step)
    return replace(memory, stats=new)


def bound_at(state: State, log_z: float, context: Context, scale: float) -> float:
    """The bound of the values as they were given; from a part of the leading lines an unbiased estimate of it: their
    terms count ``scale`` times."""
    value = bound(state, log_z, context.law) + unit_term(state, context)
    if scale == 1.0:
        return value
    lead = context.law.lead
    empty = state.with_side(lead, state.sides[lead].take(slice(0, 0)))
    rest = bound(empty, 0.0, context.law)
    return scale * (value - rest) + rest


def unit_term(state: State, context: Context) -> float:
    """What the units of the values add to the bound of what the model sees."""
    levels = context.law.scale is not None  # have probabilities, which know no units
    return 0.0 if levels else state.shared.units.log_jacobian(context.observed.cells.n_observed)


def sweep(state: State, context: Context) -> tuple[State, float]:
    """Update the leading axis, then the other; returns the new state and the bound of the old one."""
    state, _, value = sweep_batch(state, Memory(), context, WHOLE)
    return state, value


def run(
    progress: Progress,
    context: Context,
    stop: Stop,
    judge: Callable[[Progress], Progress] | None = None,
    tell: Callable[[Progress], None] | None = None,
    schedule: Schedule | None = None,
    stopped: Callable[[], str | None] | None = None,
    keeps: bool = False,
) -> Fit:
    """Sweep until there is a reason to stop.

    Parameters
    ----------
    progress : Progress
        Where to start, or to go on from.
    context : Context
        Data, law, kernels and executor.
    stop : Stop
        Looks at the trace after each sweep.
    judge : callable, optional
        Extends the progress by what is measured after a sweep (validation); the sweep is finished then.
    tell : callable, optional
        Receives each finished sweep (checkpoints, the progress bar, callbacks).
    schedule : Schedule, optional
        What a sweep is. Default: full sweeps.
    stopped : callable, optional
        Asked after each sweep for a reason from outside (a callback).
    keeps : bool, default=False
        Whether Ctrl-C gives up the sweep under way and returns the last finished one, with the reason
        ``INTERRUPTED``. Where no sweep was finished KeyboardInterrupt is raised.
    """
    schedule = schedule or FullSweeps()
    context = context if schedule.keeps_states else context.with_buffers()
    progress = progress.placed(context.kernels)
    spent = progress.trace.seconds[-1] if progress.trace.seconds else progress.trace.before
    began = time.perf_counter() - spent
    reason = stop(progress.trace) if progress.trace.iterations else None
    try:
        while reason is None:
            state, memory, value = schedule.advance(progress.state, progress.memory, context)
            trace = progress.trace.longer(value, time.perf_counter() - began, unit_term(state, context))
            now = replace(progress, state=state, memory=memory, trace=trace)
            progress = now if judge is None else judge(now)
            if tell is not None:
                tell(progress)
            reason = stop(progress.trace) or (stopped() if stopped is not None else None)
    except KeyboardInterrupt:
        if not (keeps and progress.trace.iterations):
            raise
        reason = INTERRUPTED
    progress = progress.on_host()
    return Fit(progress.state, progress.trace, reason, progress)
