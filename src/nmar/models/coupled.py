"""The coupled model: a missingness pattern, a data model, and the count posterior between them.

Enters: a law (settings), a state (variational factors and shared parameters) and observed cells. Leaves: the next
state of one side, the n-vectors of the M-steps, and the bound. One half sweep serves rows and columns, every
data model, every linkage, the control and the two-stage baseline (theory.md, Bound and coordinate ascent).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from threading import Lock
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from nmar.data.cells import Cells
from nmar.kernels.spec import (
    EMPTY_FLOAT,
    EMPTY_INT,
    FAMILIES,
    GAMMA,
    GAUSSIAN,
    INVERSE_GAUSSIAN,
    KINDS,
    OPEN,
    POISSON,
    UNMODELLED,
    Crossing,
    Kernels,
    Lines,
    SideView,
    empty_view,
    fill_view,
    make_view,
    refill_view,
)
from nmar.models.missingness import Pattern, PatternSide
from nmar.models.predictive import BinTable
from nmar.models.protocol import Block, DataModel
from nmar.prob import counts, learn
from nmar.prob.family import Family, Gaussian, family
from nmar.prob.linkage import Linkage
from nmar.prob.statistics import Statistics

Array = NDArray[Any]

BLOCK = 1 << 15  # cells of one block: q(n) is held for a block at a time, never for the matrix
WIDE = 64  # bins from which blocks hold fewer cells, so that what is held stays of one size
LONGEST = 1 << 14  # counts an open table may cover
PIECE = 1 << 12  # lines of one piece of work that goes by line


class TableTooShort(Exception):
    """An open table of counts ended before a cell's sum had converged; the half sweep is repeated, longer."""


@dataclass(frozen=True, eq=False)
class Pair:
    """One side of both models."""

    pattern: PatternSide
    data: Any

    def take(self, lines: slice | Array) -> Pair:
        """The chosen lines."""
        return Pair(self.pattern.take(lines), self.data.take(lines))


@dataclass(frozen=True, eq=False)
class Shared:
    """What all cells share.

    Attributes
    ----------
    dispersion : σ² of the Gaussian, κ of the other families
    linkage : φ and, with a mean linkage, φ1 and δ
    data : the data model's own shared parameters
    rate : Λ̄ of the tail-only control, else None
    center : what was subtracted from the values before fitting
    table_size : counts covered by an open table
    """

    dispersion: float
    linkage: Linkage
    data: Any
    rate: float | None = None
    center: float = 0.0
    table_size: int = 32


@dataclass(frozen=True, eq=False)
class State:
    """Everything that is fitted. Immutable: each update returns a new one."""

    sides: tuple[Pair, Pair]
    shared: Shared

    def with_side(self, axis: int, pair: Pair) -> State:
        """The state with one side replaced."""
        return State((pair, self.sides[1]) if axis == 0 else (self.sides[0], pair), self.shared)

    def bare(self) -> State:
        """The state without what follows from it and only sweeps need."""
        rows, cols = (replace(side, pattern=side.pattern.bare()) for side in self.sides)
        return State((rows, cols), self.shared)


@dataclass(frozen=True)
class Law:
    """Settings of the model: they do not change during a fit.

    Parameters
    ----------
    pattern, data : the two models
    lead : axis that a sweep updates first
    control : counts share one rate Λ̄; the pattern is fitted as if ignorable (theory.md, Control)
    pattern_fixed : leave the pattern as it is (second stage of the two-stage baseline)
    dtype : storage of the factors
    """

    pattern: Pattern
    data: DataModel
    lead: int = 0
    control: bool = False
    pattern_fixed: bool = False
    dtype: Any = np.float64

    @property
    def family(self) -> Family:
        """Family of the values."""
        return family(self.data.family)


@dataclass(frozen=True, eq=False)
class Observed:
    """The cells a sweep reads, with what belongs to each cell.

    Attributes
    ----------
    cells : values as the model sees them (centred)
    hidden : cells that are neither observed nor missing, or None
    group : class of each cell in row-major order (known bins; distinct values), or None
    distinct : values of the classes, for families that need them
    """

    cells: Cells
    hidden: Cells | None = None
    group: Array | None = None
    distinct: Array | None = None

    def block(self, axis: int, start: int, stop: int, offset: Array | None = None) -> Lines:
        """Lines ``start`` … ``stop`` of an axis as the kernels read them.

        ``offset`` is a known part of E[μ] of each cell, row-major.
        """
        whole = self.cells.by(axis)
        part = whole.lines(start, stop)
        cells = slice(int(whole.indptr[start]), int(whole.indptr[stop]))
        group = EMPTY_INT if self.group is None else self._along(self.group, axis, cells)
        known = EMPTY_FLOAT if offset is None else self._along(offset, axis, cells)
        return Lines(part.indptr, part.indices, part.values, group, known)

    def _along(self, per_cell: Array, axis: int, cells: slice) -> Array:
        if axis == 0:
            return per_cell[cells]
        return per_cell[self.cells.order(1)[cells]]


@dataclass(frozen=True, eq=False)
class Info:
    """Additive results of a half sweep.

    Attributes
    ----------
    log_z : Σ log Z of the state it started from
    stats : n-vectors with q(n) held
    weights : (2, cells) row-major, for cellwise data models
    """

    log_z: float
    stats: Statistics
    weights: Array | None = None


class Executor(Protocol):
    """Runs independent block tasks; results come back in order whatever ran first."""

    def map(self, task: Callable[[tuple[int, int]], Any], blocks: Iterable[tuple[int, int]]) -> list[Any]:
        """``[task(b) for b in blocks]``."""
        ...


@dataclass(frozen=True, eq=False)
class Around:
    """What a sweep needs besides the state: data, law, and where it runs."""

    observed: Observed
    law: Law
    kernels: Kernels
    executor: Executor


def crossing(law: Law, shared: Shared, distinct: Array | None = None) -> Crossing:
    """Tables over the bins of q(n), for the present shared parameters."""
    linkage = shared.linkage
    code = FAMILIES.index(law.data.family) if law.data.has_values else UNMODELLED
    kind = KINDS.index(linkage.bins)
    size = shared.table_size if kind == OPEN else None
    phi2 = linkage.bin_table(size)
    phi1, delta = linkage.mean_tables(size)
    low, high = linkage.limits
    moves = linkage.mean is not None or law.data.keeps_moments
    inverse = 1.0 / (shared.dispersion * phi2) if code == GAUSSIAN else shared.dispersion * phi2
    linear_table = linkage.name == "compound" or (linkage.name == "exponential" and high > 1.0)
    rate = shared.rate if shared.rate is not None else 1.0
    by_value = np.empty((0, len(phi2)))
    if distinct is not None:
        by_value = law.family.log_base(distinct[:, None], inverse)
    return Crossing(
        family=code,
        kind=kind,
        separate=law.control or law.pattern_fixed,
        allocate=law.data.allocates,
        diagonal=law.data.diagonal,
        mean_linkage=moves,
        concave=linear_table and code != GAUSSIAN,
        log_rate=float(np.log(rate)),
        log_norm=float(counts.log_truncation(np.array(rate))),
        dispersion=float(shared.dispersion),
        slopes=np.ascontiguousarray(slopes(code, inverse, phi1, delta, moves) + _spread(law, shared)),
        linear=inverse * phi1,
        shift=inverse * phi1 * delta,
        quadratic=inverse * phi1**2 if code == GAUSSIAN else inverse,
        by_value=by_value,
        log_factorial=gammaln(np.arange(len(phi2) + 3) + 1.0),
        ceiling=float(-0.5 * np.log(2.0 * np.pi * shared.dispersion * low)) if code == GAUSSIAN else 0.0,
        low=float(low),
        high=float(high),
    )


def _spread(law: Law, shared: Shared) -> Array:
    """E[log 1/σ²] exceeds neither log E[1/σ²]: half the difference, taken off the constant of every bin."""
    precision = law.data.precision(shared.data)
    if precision is None:
        return np.zeros((1, 1))
    rows = 6 if law.data.keeps_moments or shared.linkage.mean is not None else 2
    off = np.zeros((rows, 1))
    off[0] = 0.5 * (precision.log_mean - np.log(precision.mean))
    return off


def slopes(family: int, inverse: Array, phi1: Array, delta: Array, moves: bool) -> Array:
    """Coefficients (V, B) of the family's statistics in the expected log density of each bin.

    ``inverse`` is 1/(σ²φ2) of each bin for the Gaussian, κφ for the others.
    """
    if family == GAUSSIAN:
        constant = 0.5 * np.log(inverse / (2.0 * np.pi))
        if not moves:  # residual E[(y − μ)²]
            return np.stack([constant, -0.5 * inverse])
        scaled = inverse * phi1  # y, y², yμ, μ, μ²
        return np.stack(
            [
                constant - 0.5 * inverse * delta**2,
                inverse * delta,
                -0.5 * inverse,
                scaled,
                -scaled * delta,
                -0.5 * scaled * phi1,
            ]
        )
    zero = np.zeros_like(inverse)
    if family == UNMODELLED:
        return zero[None, :]
    if family == POISSON:  # y, E[Ψ]
        return np.stack([zero, np.log(inverse), -inverse])
    if family == GAMMA:  # log y, E[Ψ]
        return np.stack([-gammaln(inverse), inverse, -inverse])
    if family == INVERSE_GAUSSIAN:  # 1/y, E[Ψ]
        return np.stack([np.log(inverse), -0.5 * inverse**2, -inverse])
    return np.stack([zero, -inverse])  # E[Ψ]; h(y, κφ) comes by value


def view(pair: Pair, axis: int, law: Law, shared: Shared) -> SideView:
    """A block of lines as the kernels read it."""
    features = law.data.features(pair.data, axis, shared.data)
    return make_view(_log_weights(pair), features.first, features.second, features.top)


def _log_weights(pair: Pair) -> Array:
    known = pair.pattern.log_weights
    return pair.pattern.weights.log_mean if known is None else known


def whole_view(pair: Pair, axis: int, around: Around, shared: Shared) -> SideView:
    """All lines of a side as the kernels read them, made piece by piece."""
    data = around.law.data
    one = data.features(pair.data.take(slice(0, 1)), axis, shared.data)
    logs = _log_weights(pair)
    room = empty_view(logs, (logs.shape[1], one.first.shape[1], one.second.shape[1]))

    def fill(piece: tuple[int, int]) -> None:
        lines = slice(*piece)
        features = data.features(pair.data.take(lines), axis, shared.data)
        fill_view(room, lines, features.first, features.second, features.top)

    around.executor.map(fill, pieces(len(logs)))
    return room


def pieces(lines: int) -> list[tuple[int, int]]:
    """Ranges of lines for work that goes by line, not by cell."""
    return [(start, min(start + PIECE, lines)) for start in range(0, lines, PIECE)]


def tabulated(state: State, around: Around) -> State:
    """The state with what follows from its gamma factors (PatternSide), computed where it is not there yet."""
    for axis, pair in enumerate(state.sides):
        if pair.pattern.log_weights is None:
            state = state.with_side(axis, replace(pair, pattern=_tabulated(pair.pattern, around)))
    return state


def _tabulated(side: PatternSide, around: Around) -> PatternSide:
    room = Room(len(side.weights.shape))

    def task(piece: tuple[int, int]) -> None:
        room.put(side.take(slice(*piece)).tabulated(around.kernels), slice(*piece))

    around.executor.map(task, pieces(len(side.weights.shape)))
    return PatternSide(side.weights, side.activity, room.record.log_weights, room.record.totals)


def exposure(axis: int, state: State, hidden: Cells | None) -> Array:
    """Σ_j E[v_jk] that a line of ``axis`` is exposed to: (K,), or (n, K) where hidden cells are taken out."""
    other = state.sides[1 - axis].pattern.weights
    if hidden is None or hidden.n_observed == 0:
        return other.column_means
    lines = hidden.by(axis)
    return other.column_means - _sum_lines(lines.indptr, lines.indices, other.mean.astype(np.float64))


def _sum_lines(indptr: Array, indices: Array, other: Array) -> Array:
    """Σ over a line's cells of the other side's vectors."""
    from scipy.sparse import csr_matrix

    ones = np.ones(len(indices))
    return csr_matrix((ones, indices, indptr), shape=(len(indptr) - 1, len(other))) @ other


def half_sweep(axis: int, state: State, around: Around, given: SideView | None = None) -> tuple[Pair, Info, int]:
    """Update all lines of ``axis`` given the other side and the shared parameters.

    ``given`` is the view of the other side, for callers that keep it fixed over many half sweeps (fold-in); nothing
    shared is learned then, and the n-vectors are left at zero.

    Returns the new side, the half sweep's information, and the size of open table that sufficed.
    """
    shared = state.shared
    while True:
        try:
            pair, info = _half_sweep(axis, State(state.sides, shared), around, given)
            return pair, info, shared.table_size
        except TableTooShort:
            if shared.table_size >= LONGEST:
                raise FloatingPointError(
                    f"a cell needs counts beyond {LONGEST}: a value is too extreme for the linkage"
                    f" {shared.linkage.name!r}; check the data for outliers, rescale them, or use the free linkage"
                ) from None
            shared = replace(shared, table_size=2 * shared.table_size)


def _half_sweep(axis: int, state: State, around: Around, given: SideView | None) -> tuple[Pair, Info]:
    observed, law, kernels = around.observed, around.law, around.kernels
    shared, mine = state.shared, state.sides[axis]
    theirs = whole_view(state.sides[1 - axis], 1 - axis, around, shared) if given is None else given
    table = crossing(law, shared, observed.distinct)
    exposed = exposure(axis, state, observed.hidden)
    offset = law.data.offset(shared.data)

    room = Room(len(mine.pattern.weights.shape))

    def task(block: tuple[int, int]) -> Done:
        lines, part = observed.block(axis, *block, offset), mine.take(slice(*block))
        before = view(part, axis, law, shared)
        found, data = law.data.advance(kernels, Block(lines, before, theirs, table), part.data, axis, shared.data)
        if found.short:
            raise TableTooShort
        pattern = part.pattern
        if not law.pattern_fixed:
            exposed_block = exposed if exposed.ndim == 1 else exposed[block[0] : block[1]]
            pattern = law.pattern.update(pattern, found.pattern, exposed_block, kernels)
        vectors, by_value = np.zeros(table.slopes.shape), np.zeros(table.by_value.shape)
        if given is None and law.data.has_values:
            if found.moments is None:  # the block's own view: nobody else reads it
                new = law.data.features(data, axis, shared.data)
                refill_view(before, slice(None), new.first, new.second, new.top)
            vectors, by_value = kernels.statistics(lines, before, theirs, table, found)
        room.put(Pair(pattern, data), slice(*block))
        return Done(found.log_z, found.counted, found.cellwise, vectors, by_value)

    cells_per_block = max(BLOCK * WIDE // max(table.bins, WIDE), 1)
    results = around.executor.map(task, observed.cells.by(axis).chunks(cells_per_block))
    return room.record, _gather(results, axis, observed, law, shared)


class Done(NamedTuple):
    """What a block leaves besides its lines when it is done; q(n) is not among it."""

    log_z: float
    counted: float
    cellwise: Array | None
    vectors: Array
    by_value: Array


def _gather(results: list[Done], axis: int, observed: Observed, law: Law, shared: Shared) -> Info:
    """Sum the blocks' results, always in the order of the blocks."""
    log_z = sum(done.log_z for done in results)
    count = sum(done.counted for done in results)
    vectors, by_value = (reduce(np.add, [getattr(done, name) for done in results]) for name in ("vectors", "by_value"))
    if not np.isfinite(log_z):
        raise FloatingPointError(
            "the bound is not finite: a value is too extreme for the present dispersion; check the data for"
            " outliers or rescale the values"
        )
    weights = None
    if law.data.cellwise:
        weights = np.concatenate([done.cellwise[:2] for done in results if done.cellwise is not None], axis=1)
        if axis == 1:
            weights = weights[:, np.argsort(observed.cells.order(1), kind="stable")]
    stats = statistics(law, shared, vectors, by_value, count, observed.distinct)
    return Info(log_z, stats, weights)


def statistics(
    law: Law, shared: Shared, vectors: Array, by_value: Array, count: float, distinct: Array | None
) -> Statistics:
    """n-vectors under the names their family knows them by."""
    names = law.family.basis if law.data.has_values else ("cells",)
    if law.data.has_values and isinstance(law.family, Gaussian):
        names = law.family.statistic_names(shared.linkage.mean is not None or law.data.keeps_moments)
    if distinct is None:
        return Statistics(names, vectors, mean_count_total=count)
    return Statistics(names, vectors, distinct, by_value, count)


def join(parts: list[Any]) -> Any:
    """Concatenate the lines of like-built records, field by field; what some do not know, the whole does not."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if any(part is None for part in parts):
        return None
    if isinstance(first, np.ndarray):
        return np.concatenate(parts)
    fields = {name: join([getattr(p, name) for p in parts]) for name in first.__dataclass_fields__}
    return type(first)(**fields)


class Room:
    """A record of all lines, filled block by block: the first block shows what a line needs."""

    def __init__(self, lines: int) -> None:
        self.record: Any = None
        self._lines = lines
        self._lock = Lock()

    def put(self, part: Any, lines: slice) -> None:
        """Write the lines of one block."""
        with self._lock:
            if self.record is None:
                self.record = _like(part, self._lines)
        _write(self.record, part, lines)


def _like(part: Any, lines: int) -> Any:
    if part is None:
        return None
    if isinstance(part, np.ndarray):
        return np.empty((lines, *part.shape[1:]), part.dtype)
    return type(part)(**{name: _like(getattr(part, name), lines) for name in part.__dataclass_fields__})


def _write(record: Any, part: Any, lines: slice) -> None:
    if isinstance(part, np.ndarray):
        record[lines] = part
    elif part is not None:
        for name in part.__dataclass_fields__:
            _write(getattr(record, name), getattr(part, name), lines)


def update_shared(axis: int, state: State, info: Info, law: Law) -> Shared:
    """M-steps from the half sweep just done, with its q(n) held (theory.md, M-steps): φ, σ² or κ, Λ̄, priors."""
    shared = state.shared
    if not law.data.has_values:
        return shared
    if shared.linkage.bins == "known":
        linkage, dispersion = shared.linkage.refit(info.stats, shared.dispersion)  # type: ignore[attr-defined]
    else:
        linkage, dispersion = learn.update(
            shared.linkage, law.family, shared.dispersion, info.stats, law.data.precision(shared.data) is None
        )
    rate = shared.rate
    if rate is not None:
        rate = learn.ztp_rate(info.stats.mean_count_total / info.stats.cells)
    moved = replace(shared, linkage=linkage, dispersion=dispersion, rate=rate)
    table = BinTable(*linkage.mean_tables(info.stats.size), linkage.bin_table(info.stats.size), dispersion)
    data = law.data.learn(state.sides[axis].data, axis, moved.data, info.stats, table)
    if info.weights is not None and axis == law.lead:
        data = law.data.refit(data, info.weights)
    precision = law.data.precision(data)
    return replace(moved, data=data, dispersion=dispersion if precision is None else 1.0 / precision.mean)


def bound(state: State, log_z: float, law: Law, observed: Observed) -> float:
    """Evidence lower bound of ``state``, whose E-step gave ``log_z`` (theory.md, Bound and coordinate ascent)."""
    rows, cols = (side.pattern.weights for side in state.sides)
    total = log_z - float(rows.column_means @ cols.column_means)
    if observed.hidden is not None:
        lines = observed.hidden.by(0)
        total += float(np.sum(rows.mean * _sum_lines(lines.indptr, lines.indices, cols.mean.astype(np.float64))))
    for axis, side in enumerate(state.sides):
        total -= law.pattern.divergence(side.pattern)
        total -= law.data.divergence(side.data, axis, state.shared.data)
    shared = state.shared
    if law.data.has_values and law.data.precision(shared.data) is None:
        total += learn.log_prior_dispersion(law.family, shared.dispersion)
    return total + shared.linkage.log_prior()
