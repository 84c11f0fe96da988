"""Mini-batches of leading lines: exact local half sweeps, natural-gradient steps on everything else.

Enters: settings, and cells or a stream of cells. Leaves: a schedule for the one loop (fit/loop/run.py). Each batch's
lines are updated exactly, then the other side moves a step (t0 + t)^−ξ to the target that the batch, counted
I/|B| times, would give (theory.md, Stochastic scalings). One full batch with step 1 is coordinate ascent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.fit.loop.remember import BatchSums
from nmar.fit.loop.run import BatchStep, Memory, balance_noise, sweep_batch
from nmar.fit.problem import observe
from nmar.fit.solvers.align import align
from nmar.models.arguments import check_count
from nmar.models.context import Context, Observed
from nmar.models.law import Law
from nmar.models.state import Side, State
from nmar.posterior.posterior import Posterior
from nmar.prob.tree import join

TURNS = 4  # times a pass at which factors are aligned with their priors
SHORT = 20.0  # cells of a line below which batches are not remembered
PLAIN = 0.8  # exponent of the steps where batches are not remembered
BATCHES = 16  # batches of a pass unless a size is given: few enough that the columns' sums are hardly noisy


@dataclass(frozen=True)
class Minibatch:
    """Settings of ``solver="minibatch"``.

    Parameters
    ----------
    batch_size : int or None, default=None
        Number of lines of the leading axis in a batch. None: a sixteenth of them, or a quarter where rows are short.
    passes : int, default=5
        Largest number of passes over the data.
    t0 : float, default=1.0
        Offset of the steps. The step after t batches is (t0 + t)^−xi.
    xi : float or None, default=None
        Exponent of the steps; with 0 every step is 1. None: 0 where batches are remembered, and 0.8 otherwise.
    local : int, default=1
        Number of half sweeps of a batch's own lines at each visit.
    remember : bool or None, default=None
        Whether to keep the last contribution of each batch to the columns, so that a step sees all batches and not a
        single one counted I/|B| times. None: True, unless rows are short (below 20 cells on average). Needs memory of
        (batches × columns × features). Impossible for streams and for a diagonal covariance, whose steps are plain
        natural gradients.
    rows : int or None, default=None
        Number of rows that a stream stands for. None: as many as it has had so far.

    Notes
    -----
    The target of a column is a sum over its few cells, so on sparse tables a batch alone says nothing about most
    columns: with plain steps the noise holds the fit up (0.015 nats on MovieLens-1M). With the batches remembered
    the target has no noise, steps of 1 are right, and each pass makes as many good steps on the columns as there
    are batches. The first step is 1 in any case: the random start is forgotten at once. Lines keep their factors
    between passes. Short rows are different: their own factors follow every move of the columns, so what a batch gave
    a pass ago misleads more than noise does, and plain steps on quarters of the data with two local half sweeps end
    closer to batch (yelp_250k, docs/experiments/solvers.md). More than one local half sweep per visit was found not to
    pay for remembered batches (streams, whose rows start anew each time, use at least three).

    Examples
    --------
    >>> Minibatch(batch_size=100, passes=3).step(0)
    1.0
    """

    batch_size: int | None = None
    passes: int = 5
    t0: float = 1.0
    xi: float | None = None
    local: int = 1
    remember: bool | None = None
    rows: int | None = None

    def __post_init__(self) -> None:
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size, 1)
        if self.rows is not None:
            check_count("rows", self.rows, 1)
        check_count("passes", self.passes, 1)
        check_count("local", self.local, 1)
        if not self.t0 >= 1.0:
            raise ValueError(f"t0={self.t0!r}; give a number of at least 1, so that no step exceeds 1")
        if self.xi is not None and not 0.0 <= self.xi <= 1.0:
            raise ValueError(f"xi={self.xi!r}; give a number from 0 to 1")

    def step(self, taken: int, remembered: bool = False) -> float:
        """The step after ``taken`` steps."""
        xi = (0.0 if remembered else PLAIN) if self.xi is None else self.xi
        return float((self.t0 + taken) ** -xi)


def check_streams(law: Law) -> None:
    """Refuse models whose shared parameters are sums over lines, which no batch can stand for."""
    if law.pattern_fixed or not law.data.streams:
        raise ValueError(
            f"solver='minibatch' cannot fit {type(law.data).__name__}; it serves factorizations, effects and"
            " regressions. Use solver='batch'"
        )


def _resolved(settings: Minibatch, cells_per_line: float, lines: int) -> Minibatch:
    """Settings with what was left open decided from the length of the lines."""
    if settings.remember is not None:
        return settings
    if cells_per_line >= SHORT:
        return replace(settings, remember=True)
    size = settings.batch_size or max(1, -(-lines // 4))
    return replace(settings, remember=False, batch_size=size, local=max(settings.local, 2))


def leading_part(cells: Cells, lead: int, lines: Array) -> Cells:
    """The chosen lines of the leading axis, on the other axis as it is."""
    return cells.take_rows(lines) if lead == 0 else cells.transpose().take_rows(lines).transpose()


class Batches:
    """Cells in memory, in a fixed partition of leading lines; every pass visits the batches in a new order."""

    keeps_states = True

    def __init__(self, settings: Minibatch, observed: Observed, law: Law, seed: np.random.SeedSequence) -> None:
        check_streams(law)
        count = observed.cells.shape[law.lead]
        settings = _resolved(settings, observed.cells.n_observed / count, count)
        self.settings, self._entropy = settings, seed.entropy
        size = settings.batch_size or max(1, -(-count // BATCHES))
        number = -(-count // min(size, count))
        order = np.arange(count)
        if number > 1:
            order = self._generator(0).permutation(count)
        self.parts = [np.sort(part) for part in np.array_split(order, number)]
        self.back = np.argsort(np.concatenate(self.parts), kind="stable")
        self.turning = max(1, number // TURNS)
        self.observed = [self._take(observed, law.lead, part) for part in self.parts]

    def _generator(self, number: int) -> np.random.Generator:
        """Random numbers of the partition (0) and of each pass (1, 2, …): nothing to store between passes."""
        return np.random.default_rng(np.random.SeedSequence(self._entropy, spawn_key=(7, number)))

    @staticmethod
    def _take(observed: Observed, lead: int, lines: Array) -> Observed:
        hidden = observed.hidden
        return Observed(
            leading_part(observed.cells, lead, lines),
            None if hidden is None else leading_part(hidden, lead, lines),
        )

    def advance(self, state: State, memory: Memory, context: Context) -> tuple[State, Memory, float]:
        """One pass over all batches."""
        lead, whole = context.law.lead, state.sides[context.law.lead]
        sides: list[Side] = [whole.take(part) for part in self.parts]
        total = sum(len(part) for part in self.parts)
        finished = memory.steps // len(self.parts)
        state, memory = self._waiting(state, memory), self.remembering(state, memory, context)
        bounds = []
        for b in self._generator(finished + 1).permutation(len(self.parts)):
            part = self._part(int(b), memory, total)
            here = replace(context, observed=self.observed[b])
            state, memory, value = sweep_batch(state.with_side(lead, sides[b]), memory, here, part)
            sides[b] = state.sides[lead]
            bounds.append(value)
            if memory.sums is not None and memory.steps % self.turning == 0:
                state, sides, sums = align(state, context.law, sides, memory.sums)
                memory = replace(memory, sums=sums)
        state = state.with_side(lead, join(sides).take(self.back))
        if len(self.parts) > 1:
            state, memory = balance_noise(state, memory, lead)
        return state, memory, float(np.mean(bounds))

    def _waiting(self, state: State, memory: Memory) -> State:
        """Noise is learned when every batch has been visited: until then factors have not seen all cells."""
        noise = state.shared.noise
        if noise is None or memory.steps or not noise.waits:
            return state
        noise = replace(noise, waits=max(noise.waits, 2 * len(self.parts)))
        return State(state.sides, replace(state.shared, noise=noise))

    def remembering(self, state: State, memory: Memory, context: Context) -> Memory:
        """Where the batches are remembered, at the first pass."""
        law = context.law
        if not self.settings.remember or len(self.parts) == 1 or law.data.diagonal or memory.sums is not None:
            return memory
        sums = BatchSums.empty(len(self.parts), state, context)
        return replace(memory, sums=sums, kept=(None,) * len(self.parts))

    def _part(self, batch: int, memory: Memory, total: int) -> BatchStep:
        mine, local = len(self.parts[batch]), self.settings.local
        if memory.sums is None:
            exact = len(self.parts) == 1  # nothing to average over
            return BatchStep(total / mine, total / mine, self.settings.step(memory.steps, exact), local)
        seen = {b for b, kept in enumerate(memory.kept) if kept is not None} | {batch}
        lines = sum(len(self.parts[b]) for b in seen)
        return BatchStep(total / mine, total / lines, self.settings.step(memory.steps, True), local, batch)


Source = Iterable[Cells] | Callable[[], Iterable[Cells]]


def is_stream(X: Any) -> bool:
    """Whether this is a stream of batches: an iterable of Cells, or a function that returns one."""
    if isinstance(X, list | tuple):
        return len(X) > 0 and isinstance(X[0], Cells)
    return callable(X) or isinstance(X, Iterator)


class Stream:
    """Batches of rows that come from an iterator; only the columns, what is shared and one batch are in memory.

    Parameters
    ----------
    settings : Minibatch
        Settings, as for batches in memory.
    source : iterable of Cells or callable
        Batches on one common column axis, each with whole rows. A list, an object that can be iterated again, or a
        function that returns a new iterator allows several passes.
    """

    keeps_states = True

    def __init__(self, settings: Minibatch, source: Source) -> None:
        self.settings, self._source = settings, source
        again = callable(source) or iter(source) is not source
        self.passes = settings.passes if again else 1
        self._begun = iter(self._source() if callable(self._source) else self._source)
        first = next(self._begun, None)
        if not isinstance(first, Cells):
            raise ValueError(
                f"the stream begins with {type(first).__name__}; it must give Cells, one batch after another"
            )
        self._first: Cells | None = first
        self.rows = first.rows

    @property
    def first(self) -> Cells:
        """The first batch, from which the fit starts; it is held until the first pass begins."""
        assert self._first is not None
        return self._first

    def __iter__(self) -> Iterator[Cells]:
        if self._first is not None:  # what was read to start from is not lost to a one-shot iterator
            first, rest, self._first = self._first, self._begun, None
            return chain([first], rest)
        return iter(self._source() if callable(self._source) else self._source)

    def advance(self, state: State, memory: Memory, context: Context) -> tuple[State, Memory, float]:
        """One pass; rows start from the prior at every visit, and those of the last batch stay in the state."""
        law, columns, rows, bounds = context.law, context.observed.cells.cols, self.rows, []
        new = memory.steps == 0  # rows are counted during the first pass
        for cells in self:
            if cells.cols != columns:
                raise ValueError("a batch of the stream has other columns than the first; use cells.align(cols=…)")
            if new:
                memory = replace(memory, lines=memory.lines + cells.shape[0])
            share = max(self.settings.rows or memory.lines, cells.shape[0]) / cells.shape[0]
            part = BatchStep(share, share, self.settings.step(memory.steps), max(self.settings.local, 3))
            here = replace(context, observed=observe(cells, law, None, state.shared.units, law.dtype))
            start = unseen_lines(law, state, 0, cells.row_ids)
            state, memory, value = sweep_batch(state.with_side(0, start), memory, here, part)
            state, memory = balance_noise(state, memory, law.lead, part.step)
            bounds.append(value)
            rows = cells.rows
        self.rows = rows  # of a finished pass: one that is interrupted leaves those of the last
        return state, memory, float(np.mean(bounds))


def unseen_lines(law: Law, state: State, axis: int, ids: Array) -> Side:
    """Lines of ids never seen: the prior, at the level of the lines there are, or that of their covariates."""
    from nmar.data.axis import Axis

    nothing = Axis.range(0)
    given = (ids, ids[:0]) if axis == 0 else (ids[:0], ids)
    extended = Posterior(law, state, nothing, nothing).extended(*given).state.sides[axis]
    return extended.take(slice(-1 - len(ids), -1))
