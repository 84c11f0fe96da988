"""The coupled model: a missingness pattern, a data model, and the count posterior between them.

Enters: a law (settings), a state (variational factors and shared parameters) and observed cells. Leaves: the next
state of one side, the n-vectors of the M-steps, and the bound. One half sweep serves rows and columns, every
data model, every linkage, the control and the two-stage baseline (theory.md, Bound and coordinate ascent).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from threading import Lock
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from nmar.data.cells import Cells
from nmar.kernels import reference
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
    Expectation,
    Kernels,
    Lines,
    SideView,
    aligned,
    bare_view,
    empty_view,
    fill_view,
    padded,
    refill_view,
)
from nmar.models.missingness import Pattern, PatternSide
from nmar.models.predictive import BinTable
from nmar.models.protocol import Block, DataModel, Features
from nmar.prob import counts, learn
from nmar.prob.factor import Summed
from nmar.prob.family import Family, Gaussian, family
from nmar.prob.linkage import Linkage
from nmar.prob.pieces import pieces
from nmar.prob.statistics import Statistics
from nmar.prob.units import Units

Array = NDArray[Any]

BLOCK = 1 << 18  # cells of one block, at most: q(n) is held for a block at a time, never for the matrix
HELD = 1 << 18  # numbers of q(n) that a block holds
SHARES = 16  # blocks that a matrix is cut into, at least, so that threads end at about the same time
SMALLEST = 1 << 13  # cells of a block in a small matrix: fewer would spend their time in Python
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
    shapes : learned prior shapes η and ζ of the pattern's two sides, or None where they are given
    scale : what the values were divided by after that; all the rest is in these units
    """

    dispersion: float
    linkage: Linkage
    data: Any
    rate: float | None = None
    center: float = 0.0
    table_size: int = 32
    scale: float = 1.0
    shapes: tuple[float, float] | None = None

    @property
    def units(self) -> Units:
        """Units of the values."""
        return Units(self.center, self.scale)


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
    trust : how far the pattern is believed; 1: a line's missing cells count, 0: the image of its observed ones at the
        overall density stands for them (theory.md, Blind control)
    density : share of observed cells among those that are not hidden
    pattern_fixed : leave the pattern as it is (second stage of the two-stage baseline)
    dtype : storage of the factors
    """

    pattern: Pattern
    data: DataModel
    lead: int = 0
    control: bool = False
    pattern_fixed: bool = False
    dtype: Any = np.float64
    trust: float = 1.0
    density: float = 1.0

    @property
    def family(self) -> Family:
        """Family of the values."""
        return family(self.data.family)

    @property
    def separate(self) -> bool:
        """Whether the pattern is fitted as if ignorable: control and two-stage baseline."""
        return self.control or self.pattern_fixed

    def exposure_weights(self, linkage: Linkage) -> tuple[float, float]:
        """How often a line is exposed to each cell that is not hidden, and how often more to its observed ones.

        ω and (1 − ω)/d + s − 1; 1 and 0 where values do not move the pattern.
        """
        if self.separate or not linkage.couples:
            return 1.0, 0.0
        return self.trust, (1.0 - self.trust) / self.density + linkage.events - 1.0


@dataclass(frozen=True, eq=False)
class Observed:
    """The cells a sweep reads, with what belongs to each cell.

    Attributes
    ----------
    cells : values as the model sees them (in its units)
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
    log_z : Σ log Z of the state it started from, less what lines pay for being exposed to their observed cells
    stats : n-vectors with q(n) held, where they were asked for
    weights : (2, cells) row-major, for cellwise data models, where n-vectors were asked for
    """

    log_z: float
    stats: Statistics | None
    weights: Array | None = None


class Executor(Protocol):
    """Runs independent block tasks; results come back in order whatever ran first. Knows where results can lie."""

    cuts: bool  # whether a line's cells may be spread over several tasks

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An uninitialised array for results."""
        ...

    def map(self, task: Callable[[Any], Any], blocks: Iterable[Any]) -> list[Any]:
        """``[task(b) for b in blocks]``."""
        ...


@dataclass(frozen=True, eq=False)
class Around:
    """What a sweep needs besides the state: data, law, and where it runs."""

    observed: Observed
    law: Law
    kernels: Kernels
    executor: Executor


def pattern_of(law: Law, shared: Shared, axis: int) -> Pattern:
    """The law of one side of the pattern, with the prior shape it has learned."""
    return law.pattern if shared.shapes is None else replace(law.pattern, shape=shared.shapes[axis])


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
        separate=law.separate,
        allocate=law.data.allocates,
        diagonal=law.data.diagonal,
        mean_linkage=moves,
        concave=linear_table and code != GAUSSIAN,
        log_rate=float(np.log(rate)),
        log_norm=float(counts.log_truncation(np.array(rate), linkage.events)),
        dispersion=float(shared.dispersion),
        slopes=np.ascontiguousarray(slopes(code, inverse, phi1, delta, moves) + _spread(law, shared)),
        linear=inverse * phi1,
        shift=inverse * phi1 * delta,
        quadratic=inverse * phi1**2 if code == GAUSSIAN else inverse,
        by_value=by_value,
        log_factorial=counts.log_factorials(_counts_covered(linkage, len(phi2)), linkage.events),
        ceiling=float(-0.5 * np.log(2.0 * np.pi * shared.dispersion * low)) if code == GAUSSIAN else 0.0,
        low=float(low),
        high=float(high),
        thinning=linkage.events,
        starts=_starts(linkage, len(phi2)),
        shares=linkage.tail_shares,
    )


def _starts(linkage: Linkage, bins: int) -> Array:
    """First count of each closed bin; nothing without thinning."""
    plain = linkage.events == 1.0 and len(linkage.tail_shares) == 1
    if plain or linkage.bins != "tail":
        return EMPTY_INT
    return np.array(linkage.starts or range(1, bins + 1), np.int32)


def _counts_covered(linkage: Linkage, bins: int) -> int:
    """Length of the table of factorials: a thinned tail is summed as a series, some way beyond its start."""
    if linkage.events == 1.0 and len(linkage.tail_shares) == 1:
        return bins + 3
    last = bins if linkage.starts is None else linkage.starts[-1]
    return last + 64 + int(12.0 * np.sqrt(last))


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
    pattern = pair.pattern.tabulated(reference)
    bare = _bare(pattern, features)
    if bare is not None:
        return bare
    room = _room(pattern, features, np.empty)
    _show(room, slice(None), pattern, features)
    return room


def _bare(pattern: PatternSide, features: Features) -> SideView | None:
    """A view that needs no copy, where lines have no features."""
    if features.first.shape[1] or features.second.shape[1]:
        return None
    return bare_view(cast(Array, pattern.log_weights), cast(Array, pattern.geometric))


def _room(pattern: PatternSide, features: Features, empty: Callable[..., Array]) -> SideView:
    """Room for a view of a tabulated side whose lines have such features."""
    logs = cast(Array, pattern.log_weights)
    return empty_view(logs, (logs.shape[1], features.first.shape[1], features.second.shape[1]), empty)


def _show(room: SideView, lines: slice, pattern: PatternSide, features: Features) -> None:
    """Write some lines of a tabulated side."""
    fill_view(room, lines, cast(Array, pattern.geometric), features.first, features.second, features.top)


def whole_view(pair: Pair, axis: int, around: Around, shared: Shared) -> SideView:
    """All lines of a side as the kernels read them, made piece by piece."""
    data = around.law.data
    pair = replace(pair, pattern=_tabulated(pair.pattern, around))
    one = data.features(pair.data.take(slice(0, 1)), axis, shared.data)
    bare = _bare(pair.pattern, one)
    if bare is not None:
        return bare
    room = _room(pair.pattern, one, around.executor.empty)

    def fill(block: tuple[int, int]) -> None:
        part = pair.take(slice(*block))
        _show(room, slice(*block), part.pattern, data.features(part.data, axis, shared.data))

    around.executor.map(fill, _line_blocks(len(room.packed)))
    return room


def _line_blocks(lines: int) -> list[tuple[int, int]]:
    """Blocks for work that goes by line, not by cell."""
    return [(piece.start, piece.stop) for piece in pieces(lines, PIECE)]


def tabulated(state: State, around: Around) -> State:
    """The state with what follows from its gamma factors (PatternSide), computed where it is not there yet."""
    for axis, pair in enumerate(state.sides):
        state = state.with_side(axis, replace(pair, pattern=_tabulated(pair.pattern, around)))
    return state


def _tabulated(side: PatternSide, around: Around) -> PatternSide:
    if side.geometric is not None:
        return side
    room = Room(len(side.weights.shape), around.executor)

    def task(block: tuple[int, int]) -> None:
        room.put(side.take(slice(*block)).tabulated(around.kernels), slice(*block))

    around.executor.map(task, _line_blocks(len(side.weights.shape)))
    return PatternSide(side.weights, side.activity, *room.record.table)


def exposure(axis: int, state: State, law: Law, hidden: Cells | None) -> Array:
    """ω Σ_j E[v_jk] over the cells of a line of ``axis`` that are not hidden: (K,), or (n, K) where lines differ.

    Lines also differ where each is exposed to its observed cells once more (:class:`HalfSweep` adds that).
    """
    other, (trust, more) = state.sides[1 - axis].pattern.weights, law.exposure_weights(state.shared.linkage)
    total = trust * other.column_means
    if hidden is not None and hidden.n_observed:
        lines = hidden.by(axis)
        return total - trust * _sum_lines(lines.indptr, lines.indices, other.mean.astype(np.float64))
    lines_here = len(state.sides[axis].pattern.weights.shape)
    return np.broadcast_to(total, (lines_here, len(total))) if more else total


def _sum_lines(indptr: Array, indices: Array, other: Array) -> Array:
    """Σ over a line's cells of the other side's vectors."""
    from scipy.sparse import csr_matrix

    ones = np.ones(len(indices))
    return csr_matrix((ones, indices, indptr), shape=(len(indptr) - 1, len(other))) @ other


def half_sweep(
    axis: int, state: State, around: Around, learns: bool = True, given: SideView | None = None
) -> tuple[Pair, Info, int]:
    """Update all lines of ``axis`` given the other side and the shared parameters.

    ``learns`` asks for the n-vectors that :func:`update_shared` learns from. ``given`` is the view of the other side,
    for callers that keep it fixed over many half sweeps (fold-in).

    Returns the new side, the half sweep's information, and the size of open table that sufficed.
    """
    shared = state.shared
    while True:
        try:
            pair, info = _half_sweep(axis, State(state.sides, shared), around, learns, given)
            return pair, info, shared.table_size
        except TableTooShort:
            if shared.table_size >= LONGEST:
                raise FloatingPointError(
                    f"a cell needs counts beyond {LONGEST}: a value is too extreme for the linkage"
                    f" {shared.linkage.name!r}; check the data for outliers, drop or clip them, or use the free linkage"
                ) from None
            shared = replace(shared, table_size=2 * shared.table_size)


def _half_sweep(axis: int, state: State, around: Around, learns: bool, given: SideView | None) -> tuple[Pair, Info]:
    observed, law, shared = around.observed, around.law, state.shared
    theirs = whole_view(state.sides[1 - axis], 1 - axis, around, shared) if given is None else given
    table = crossing(law, shared, observed.distinct)._replace(learns=learns and law.data.has_values)
    old = state.sides[axis].pattern
    room = Room(len(old.weights.shape), around.executor)
    pattern = old if law.pattern_fixed else old.room(around.executor.empty)
    exposed = exposure(axis, state, law, observed.hidden)
    means = _means(state.sides[1 - axis].pattern, around) if law.exposure_weights(shared.linkage)[1] else None
    half = HalfSweep(axis, state, around, theirs, table, exposed, pattern, room, means)
    done = half.run(block_size(observed.cells, table))
    for side in (pattern.weights, room.record):
        if isinstance(side, Summed):
            side.sum_up(around.executor.map)
    return Pair(pattern, room.record), _gather(done, axis, around, shared, learns)


def _means(side: PatternSide, around: Around) -> Array:
    """E[v] of a side as the kernels add it up."""
    shape, rate = side.weights.shape, side.weights.rate
    room = aligned(len(shape), padded(shape.shape[1]), shape.dtype, around.executor.empty)

    def fill(block: tuple[int, int]) -> None:
        lines, width = slice(*block), shape.shape[1]
        np.divide(shape[lines], rate[lines], out=room[lines, :width])
        room[lines, width:] = 0.0

    around.executor.map(fill, _line_blocks(len(shape)))
    return room


@dataclass(frozen=True, eq=False)
class HalfSweep:
    """A half sweep under way: what every block reads, and the room its lines are written to.

    Attributes
    ----------
    theirs : the other side
    table : the shared law of a cell
    exposed : what the lines are exposed to
    pattern : the pattern's new lines
    room : the data model's
    means : E[v] of the other side, where lines are exposed to their observed cells once more, else None
    """

    axis: int
    state: State
    around: Around
    theirs: SideView
    table: Crossing
    exposed: Array
    pattern: PatternSide
    room: Room
    means: Array | None = None

    def run(self, size: int) -> list[Done]:
        """All blocks, the longest first so that threads end together; results are in the order of the blocks."""
        whole = self.around.observed.cells.by(self.axis)
        blocks = whole.chunks(size)
        cells = whole.indptr[[stop for _, stop in blocks]] - whole.indptr[[start for start, _ in blocks]]
        done: dict[tuple[int, int], Done] = {}
        if self.around.law.data.additive and self.around.executor.cuts:
            for place in np.flatnonzero(cells > size):  # a line that is longer than a block
                done[blocks[place]] = self._long_line(blocks[place][0], size)
        rest = [blocks[place] for place in np.argsort(-cells, kind="stable") if blocks[place] not in done]
        done.update(zip(rest, self.around.executor.map(self._block, rest), strict=True))
        return [done[block] for block in blocks]

    def _block(self, block: tuple[int, int]) -> Done:
        """Whole lines: E-step, both updates, n-vectors."""
        law, kernels, shared = self.around.law, self.around.kernels, self.state.shared
        lines, part = self._cells(block), self.state.sides[self.axis].take(slice(*block))
        before = view(part, self.axis, law, shared)
        read = Block(lines, before, self.theirs, self.table)
        found, data = law.data.advance(kernels, read, part.data, self.axis, shared.data)
        paid = self._put(block, part, found, data, self._observed_exposure(lines))
        self._renew_view(before, found, data)
        return Done(found.log_z - paid, found.counted, found.cellwise, *self._statistics(lines, before, found))

    def _long_line(self, line: int, size: int) -> Done:
        """One line in segments, several at once: its sums are added in the order of the segments."""
        law, kernels, shared = self.around.law, self.around.kernels, self.state.shared
        part = self.state.sides[self.axis].take(slice(line, line + 1))
        before = view(part, self.axis, law, shared)
        whole = self._cells((line, line + 1))
        segments = [whole.segment(start, start + size) for start in range(0, len(whole.indices), size)]
        everywhere = self.around.executor.map
        found = everywhere(lambda lines: kernels.expect(lines, before, self.theirs, self.table), segments)
        total = add_up(found)
        data = part.data if total.short else law.data.update(part.data, self.axis, shared.data, total, kernels)
        more = None if self.means is None else reduce(np.add, everywhere(self._observed_exposure, segments))
        paid = self._put((line, line + 1), part, total, data, more)
        self._renew_view(before, total, data)
        held = zip(segments, found, strict=True)
        vectors, by_value = zip(*everywhere(lambda pair: self._statistics(pair[0], before, pair[1]), held), strict=True)
        return Done(total.log_z - paid, total.counted, None, reduce(np.add, vectors), reduce(np.add, by_value))

    def _observed_exposure(self, lines: Lines) -> Array | None:
        """What lines are exposed to by their observed cells beyond the share of all cells: (n, K), or None."""
        if self.means is None:
            return None
        _, more = self.around.law.exposure_weights(self.state.shared.linkage)
        return more * self.around.kernels.add_lines(lines, self.means)[:, : self.exposed.shape[-1]]

    def _cells(self, block: tuple[int, int]) -> Lines:
        offset = self.around.law.data.offset(self.state.shared.data)
        return self.around.observed.block(self.axis, *block, offset)

    def _put(
        self, block: tuple[int, int], part: Pair, found: Expectation, data: Any, more: Array | None = None
    ) -> float:
        """Write the new lines of both models; returns what the old ones paid for ``more`` exposure: ΣE[u]·more."""
        if found.short:
            raise TableTooShort
        law, lines = self.around.law, slice(*block)
        if not law.pattern_fixed:
            exposed = self.exposed if self.exposed.ndim == 1 else self.exposed[lines]
            exposed = exposed if more is None else exposed + more
            pattern, new = pattern_of(law, self.state.shared, self.axis), self.pattern.take(lines)
            pattern.update(part.pattern, found.pattern, exposed, self.around.kernels, new)
        self.room.put(data, lines)
        return 0.0 if more is None else float(np.sum(part.pattern.weights.mean * more))

    def _renew_view(self, before: SideView, found: Expectation, data: Any) -> None:
        """Show the new lines where the old ones were: the view is the block's own, nobody else reads it."""
        if self.table.learns and found.moments is None:
            new = self.around.law.data.features(data, self.axis, self.state.shared.data)
            refill_view(before, slice(None), new.first, new.second, new.top)

    def _statistics(self, lines: Lines, after: SideView, found: Expectation) -> tuple[Array, Array]:
        if not self.table.learns:
            return np.zeros(self.table.slopes.shape), np.zeros(self.table.by_value.shape)
        return self.around.kernels.statistics(lines, after, self.theirs, self.table, found)


def add_up(parts: list[Expectation]) -> Expectation:
    """Sums of the segments of a line, in their order."""

    def total(name: str) -> Any:
        return reduce(operator.add, [getattr(part, name) for part in parts])

    return Expectation(
        pattern=total("pattern"),
        linear=total("linear"),
        quadratic=total("quadratic"),
        log_z=total("log_z"),
        counted=total("counted"),
        probability=EMPTY_FLOAT,
        used=EMPTY_INT,
        short=any(part.short for part in parts),
    )


def block_size(cells: Cells, table: Crossing) -> int:
    """Cells of a block; depends on the data and the law alone, so that every sum has its order."""
    share = max(cells.n_observed // SHARES, SMALLEST)
    return max(min(BLOCK, share, HELD // table.bins), 1)


class Done(NamedTuple):
    """What a block leaves besides its lines when it is done; q(n) is not among it."""

    log_z: float
    counted: float
    cellwise: Array | None
    vectors: Array
    by_value: Array


def _gather(results: list[Done], axis: int, around: Around, shared: Shared, learns: bool) -> Info:
    """Sum the blocks' results, always in the order of the blocks."""
    log_z = sum(done.log_z for done in results)
    _check_finite(log_z, around.law)
    if not learns:
        return Info(log_z, None)
    observed, law, weights = around.observed, around.law, None
    count = sum(done.counted for done in results)
    vectors, by_value = (reduce(np.add, [getattr(done, name) for done in results]) for name in ("vectors", "by_value"))
    _check_finite(vectors, law)
    if law.data.cellwise:
        weights = np.concatenate([done.cellwise[:2] for done in results if done.cellwise is not None], axis=1)
        if axis == 1:
            weights = weights[:, np.argsort(observed.cells.order(1), kind="stable")]
    stats = statistics(law, shared, vectors, by_value, count, observed.distinct)
    return Info(log_z, stats, weights)


def _check_finite(sums: Any, law: Law) -> None:
    """Refuse sums that overflowed, naming the remedy."""
    if np.all(np.isfinite(sums)):
        return
    wider = (
        "" if np.dtype(law.dtype) == np.float64 else ", or use dtype='float64', which holds the squares of larger ones"
    )
    raise FloatingPointError(
        "the bound is not finite: a value is too extreme for the present dispersion; check the data for outliers and"
        f" drop or clip them{wider}"
    )


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

    def __init__(self, lines: int, executor: Executor) -> None:
        self.record: Any = None
        self._lines = lines
        self._empty = executor.empty
        self._lock = Lock()

    def put(self, part: Any, lines: slice) -> None:
        """Write the lines of one block."""
        with self._lock:
            if self.record is None:
                self.record = self._like(part)
        _write(self.record, part, lines)

    def _like(self, part: Any) -> Any:
        if part is None:
            return None
        if isinstance(part, np.ndarray):
            return self._empty((self._lines, *part.shape[1:]), part.dtype)
        return type(part)(**{name: self._like(getattr(part, name)) for name in part.__dataclass_fields__})


def _write(record: Any, part: Any, lines: slice) -> None:
    if isinstance(part, np.ndarray):
        record[lines] = part
    elif part is not None:
        for name in part.__dataclass_fields__:
            _write(getattr(record, name), getattr(part, name), lines)


def update_shared(axis: int, state: State, info: Info, law: Law) -> Shared:
    """M-steps from the half sweep just done, with its q(n) held (theory.md, M-steps).

    Priors are learned from the new lines. φ, σ² or κ, Λ̄ and posteriors that all cells share need n-vectors, and stay
    where the half sweep has summed none.
    """
    shared = _learn_shapes(axis, state, law)
    if not law.data.has_values:
        return shared
    if info.stats is not None:
        shared = _learn_shared(shared, info.stats, law)
    data = law.data.learn(state.sides[axis].data, axis, shared.data)
    if info.weights is not None:
        data = law.data.refit(data, info.weights)
    precision = law.data.precision(data)
    return replace(shared, data=data, dispersion=shared.dispersion if precision is None else 1.0 / precision.mean)


def _learn_shapes(axis: int, state: State, law: Law) -> Shared:
    """The prior shape of the side that was updated, where it is learned."""
    shapes = state.shared.shapes
    if shapes is None or law.pattern_fixed:
        return state.shared
    new = law.pattern.learned_shape(state.sides[axis].pattern)
    return replace(state.shared, shapes=(new, shapes[1]) if axis == 0 else (shapes[0], new))


def _learn_shared(shared: Shared, stats: Statistics, law: Law) -> Shared:
    """What is learned from n-vectors."""
    if shared.linkage.bins == "known":
        linkage, dispersion = shared.linkage.refit(stats, shared.dispersion)  # type: ignore[attr-defined]
    else:
        point = law.data.precision(shared.data) is None
        linkage, dispersion = learn.update(shared.linkage, law.family, shared.dispersion, stats, point)
    rate = shared.rate
    if rate is not None:
        rate = learn.event_rate(stats.mean_count_total / stats.cells, linkage.events)
    table = BinTable(*linkage.mean_tables(stats.size), linkage.bin_table(stats.size), dispersion)
    data = law.data.absorb(shared.data, stats, table)
    return replace(shared, linkage=linkage, dispersion=dispersion, rate=rate, data=data)


def bound(state: State, log_z: float, law: Law, observed: Observed) -> float:
    """Evidence lower bound of ``state``, whose E-step gave ``log_z`` (theory.md, Bound and coordinate ascent)."""
    rows, cols = (side.pattern.weights for side in state.sides)
    trust, _ = law.exposure_weights(state.shared.linkage)
    total = log_z - trust * float(rows.column_means @ cols.column_means)
    if observed.hidden is not None:
        lines = observed.hidden.by(0)
        away = _sum_lines(lines.indptr, lines.indices, cols.mean.astype(np.float64))
        total += trust * float(np.sum(rows.mean * away))
    for axis, side in enumerate(state.sides):
        pattern = pattern_of(law, state.shared, axis)
        total += pattern.log_prior() - pattern.divergence(side.pattern)
        total -= law.data.divergence(side.data, axis, state.shared.data)
    shared = state.shared
    if law.data.has_values and law.data.precision(shared.data) is None:
        total += learn.log_prior_dispersion(law.family, shared.dispersion)
    return total + shared.linkage.log_prior()
