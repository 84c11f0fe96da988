"""The half sweep: new lines of one axis given the other, block by block (theory.md, Bound and coordinate ascent).

Enters: a state and its context. Leaves: the new side and additive sums. One half sweep serves rows and columns, every
data model, every linkage, the controls, the two-stage baseline and every solver except the entrywise one, which visits
single cells. Blocks are pure (models/block.py).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any

import numpy as np

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.kernels.spec import CellLaw, View
from nmar.models.block import BlockInput, BlockResult, HalfSweep, TableTooShort, update_block, update_long_line
from nmar.models.buffers import write_lines
from nmar.models.cell_law import cell_law
from nmar.models.context import Context, Observed
from nmar.models.exposure import exposure, lines_differ
from nmar.models.law import Law
from nmar.models.noise import Levels
from nmar.models.scaling import EXACT, LineSums, Scaling
from nmar.models.shared import Info
from nmar.models.state import Shared, Side, State
from nmar.models.views import expected_weights, whole_view
from nmar.prob.arrays import on_host
from nmar.prob.blas import one_blas_thread
from nmar.prob.factor import Summed
from nmar.prob.statistics import Statistics
from nmar.prob.tree import join

BLOCK = 1 << 18  # cells of one block, at most: q(n) is held for a block at a time, never for the matrix
HELD = 1 << 18  # numbers of q(n) that a block holds
SHARES = 16  # blocks that a matrix is cut into, at least, so that threads end at about the same time
SMALLEST = 1 << 13  # cells of a block in a small matrix: fewer would spend their time in Python
LONGEST = 1 << 14  # counts an open table may cover


def half_sweep(
    axis: int,
    state: State,
    context: Context,
    learns: bool = True,
    scaling: Scaling = EXACT,
    theirs: View | None = None,
) -> tuple[Side, Info, int]:
    """Update all lines of ``axis`` given the other side and the shared parameters.

    Parameters
    ----------
    learns : bool, default=True
        Whether to sum the n-vectors that :func:`update_shared` learns from.
    scaling : Scaling, optional
        How the cells stand for all cells.
    theirs : View or None, default=None
        View of the other side, for callers that keep it fixed over many half sweeps (fold-in).

    Returns
    -------
    The new side, additive results, and the size of open table that sufficed.
    """
    while True:
        half = _common(axis, state, context, learns, theirs)
        out = None if context.buffers is None else context.buffers.side(axis, state.sides[axis])
        try:
            work = _divided(half, state, context, scaling, out)
            with nullcontext() if state.shared.mechanism is None else one_blas_thread():
                found = context.executor.map(update_lines, work.given, [work.blocks[place] for place in work.rest])
            break
        except TableTooShort:
            state = _with_longer_table(state)
    results = work.results(found)
    side = join([r.side for r in results]) if out is None else _placed(work.blocks, results, out, context)
    if context.law.pattern_fixed:
        side = replace(side, pattern=state.sides[axis].pattern)
    for record in (side.pattern.weights, side.data):
        if isinstance(record, Summed):
            record.sum_up(context.here)
    return side, _gather(results, axis, context, state.shared, learns), state.shared.table_size


def _with_longer_table(state: State) -> State:
    """The state with twice as many counts in its open table."""
    size = state.shared.table_size
    if size >= LONGEST:
        raise FloatingPointError(
            f"a cell needs counts beyond {LONGEST}: a value is too extreme for the linkage"
            f" {state.shared.linkage.name!r}; check the data for outliers, drop or clip them, or use the free linkage"
        ) from None
    return State(state.sides, replace(state.shared, table_size=2 * size))


def _common(axis: int, state: State, context: Context, learns: bool, theirs: View | None) -> HalfSweep:
    """What all blocks read."""
    observed, law, shared, other = context.observed, context.law, state.shared, state.sides[1 - axis]
    if theirs is None:
        theirs = whole_view(other, 1 - axis, context, shared)
    tables = cell_law(law, shared, _tabulated_values(law, observed))._replace(learns=learns and law.data.has_values)
    means = None
    if lines_differ(law, shared.linkage, observed.hidden):
        means = expected_weights(other.pattern, 1 - axis, context)
    at, levels = exposure(axis, state), Levels.of(other.noise)
    weights = counts = None
    if shared.mechanism is not None and shared.mechanism.with_pattern:
        weights = other.pattern.weights.mean
    if shared.mechanism is not None and shared.mechanism.draw is not None:
        counts = np.diff(observed.cells.by(1 - axis).indptr)
    known = (other.reading, other.detection, weights, counts)
    return HalfSweep(axis, law, shared, context.kernels, theirs, tables, at, means, levels, *known)


@dataclass(frozen=True, eq=False)
class HalfSweepInput:
    """Everything a half sweep reads, of which each task takes the part of its lines."""

    half: HalfSweep  # what all blocks read
    observed: Observed  # cells
    side: Side  # lines that are updated
    scaling: Scaling  # how the cells stand for all cells
    offset: Array | None  # what the data model adds to the predictions of cells
    out: Side | None  # where new lines may be written, or None
    cut: int | None  # cells of a segment of a line that is longer than that, or None where lines are not cut

    @property
    def label(self) -> str:
        """What dashboards call its tasks."""
        return ("rows", "columns")[self.half.axis]

    def block(self, block: tuple[int, int]) -> BlockInput:
        """What the block of lines from the first number up to the second reads."""
        lines = slice(*block)
        return BlockInput(
            *self.observed.read(self.half.axis, block, self.half.law, self.half.kernels, self.offset),
            self.side.take(lines),
            self.scaling.of_block(lines),
            None if self.out is None else self.out.take(lines),
            block[0],
        )


def _placed(blocks: list[tuple[int, int]], results: list[BlockResult], out: Side, context: Context) -> Side:
    """The new lines where there was room for them; where they do not fit, joined."""
    rest = [(block, result.side) for block, result in zip(blocks, results, strict=True) if not result.placed]
    if all(context.here(_place, out, rest)):
        return out
    return join([result.side for result in results])


def _place(out: Side, given: tuple[tuple[int, int], Side]) -> bool:
    block, side = given
    return write_lines(side, out.take(slice(*block)))


def update_lines(given: HalfSweepInput, block: tuple[int, int]) -> BlockResult:
    """The task of an executor: one block, from cells to new lines; a line that is too long for one, in segments."""
    part = given.block(block)
    if given.cut is not None and block[1] - block[0] == 1 and len(part.cells.indices) > given.cut:
        return update_long_line(given.half, part, _here, given.cut)
    return update_block(given.half, part)


def _here(task: Callable[[Any, Any], Any], common: Any, parts: list[Any]) -> list[Any]:
    return [task(common, part) for part in parts]


def block_size(cells: Cells, tables: CellLaw) -> int:
    """Cells of a block; depends on the data and the law alone, so that every sum has its order."""
    share = max(cells.n_observed // SHARES, SMALLEST)
    return max(min(BLOCK, share, HELD // tables.bins), 1)


@dataclass(frozen=True, eq=False)
class Work:
    """The blocks of a half sweep."""

    blocks: list[tuple[int, int]]  # first line of each block, and the line after its last
    done: dict[int, BlockResult]  # results of blocks that were updated in segments, by position
    # Positions of the others, the longest first, so that workers end together. Cells on disk are read in the order of
    # the file.
    rest: list[int]
    given: HalfSweepInput  # what the tasks read

    def results(self, found: list[BlockResult]) -> list[BlockResult]:
        """All results in the order of the blocks, from those of ``rest``."""
        every = self.done | dict(zip(self.rest, found, strict=True))
        return [every[place] for place in range(len(self.blocks))]


def _divided(half: HalfSweep, state: State, context: Context, scaling: Scaling, out: Side | None) -> Work:
    """The half sweep cut into blocks; a line that is longer than a block is updated here, in segments."""
    whole, size = context.observed.cells.by(half.axis), block_size(context.observed.cells, half.cell_law)  # type: ignore[arg-type]
    blocks = whole.chunks(size)
    offset = half.law.data.offset(half.shared.data)
    cut = size if half.law.data.additive and context.cuts_lines and _by_sums(half.shared) else None
    room = out if context.executor.shares_memory else None
    given = HalfSweepInput(half, context.observed, state.sides[half.axis], scaling, offset, room, cut)
    cells = whole.indptr[[stop for _, stop in blocks]] - whole.indptr[[start for start, _ in blocks]]
    done: dict[int, BlockResult] = {}
    if cut is not None and context.executor.shares_memory:
        for place in np.flatnonzero(cells > size).tolist():
            done[place] = update_long_line(half, given.block(blocks[place]), context.executor.map, size)
    order = np.argsort(-cells, kind="stable") if context.observed.cells.in_memory else np.arange(len(blocks))
    return Work(blocks, done, [place for place in order.tolist() if place not in done], given)


def _by_sums(shared: Shared) -> bool:
    """Whether sums over observed cells are all that a line is updated from."""
    return shared.reader is None and shared.mechanism is None


def _gather(results: list[BlockResult], axis: int, context: Context, shared: Shared, learns: bool) -> Info:
    """Sum the blocks' results, always in the order of the blocks."""
    log_z = sum(result.log_z for result in results)
    if context.law.data.has_values:
        log_z += context.observed.log_constant(context.law.family)
    _check_finite(log_z, context.law)
    sums = _join_sums([result.sums for result in results])
    crosses = [result.cross for result in results if result.cross is not None]
    cross = reduce(np.add, crosses) if crosses else None
    if not learns:
        return Info(log_z, None, sums=sums, cross=cross)
    observed, law, weights = context.observed, context.law, None
    count = sum(result.counted for result in results)
    counted = observed.cells.mean_weight()
    if counted is not None:  # the mean count is that of cells, however often their values count
        count *= counted
    vectors, by_value = (
        reduce(np.add, [getattr(result, name) for result in results]) for name in ("vectors", "by_value")
    )
    _check_finite(vectors, law)
    if law.data.cellwise:
        found = [on_host(result.cellwise)[:2] for result in results if result.cellwise is not None]
        weights = np.concatenate(found, axis=1)
        if axis == 1:
            weights = weights[:, np.argsort(observed.cells.order(1), kind="stable")]
    tail = None
    if shared.noise is not None and shared.noise.freedom:
        vectors, tail = vectors[:-1], float(vectors[-1].sum())
    stats = replace(_named(law, shared, vectors, by_value, count, _tabulated_values(law, observed)), tail=tail)
    read, detected = (_added([getattr(result, name) for result in results]) for name in ("read", "detected"))
    return Info(log_z, stats, weights, sums, cross, read, detected)


def _added(parts: list[Any]) -> Any:
    """The sum of what blocks returned, or None where they returned nothing."""
    known = [part for part in parts if part is not None]
    return reduce(operator.add, known) if known else None


def _tabulated_values(law: Law, observed: Observed) -> Array | None:
    """Values of the classes of cells, where tables are made for each."""
    return observed.distinct if law.family.needs_values else None


def _join_sums(parts: list[LineSums | None]) -> LineSums | None:
    """Sums of all lines; an exposure that all lines share stays one vector."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    joined = {f.name: np.concatenate([getattr(part, f.name) for part in known]) for f in fields(LineSums)}
    if known[0].exposure.ndim == 1:
        joined["exposure"] = known[0].exposure
    return LineSums(**joined)


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


def _named(
    law: Law, shared: Shared, vectors: Array, by_value: Array, count: float, distinct: Array | None
) -> Statistics:
    """n-vectors under the names their family knows them by."""
    moves = shared.linkage.mean is not None or law.data.keeps_moments
    names = law.family.statistic_names(moves) if law.data.has_values else ("cells",)
    if distinct is None:
        return Statistics(names, vectors, mean_count_total=count)
    return Statistics(names, vectors, distinct, by_value, count)
