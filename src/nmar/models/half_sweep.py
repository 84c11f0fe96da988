"""The half sweep: new lines of one axis given the other, block by block (theory.md, Bound and coordinate ascent).

Enters: a state and its context. Leaves: the new side and additive sums. One half sweep serves rows and columns, every
data model, every linkage, the controls, the two-stage baseline and every solver. A block is a pure function
(:func:`update_block`): it can run in a thread, in another process or on another machine with the same result.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from nmar.data.cells import Cells
from nmar.kernels.spec import EMPTY_FLOAT, EMPTY_INT, Array, CellLaw, Expectation, Kernels, Lines, SideView, refill_view
from nmar.models.buffers import write_lines
from nmar.models.cell_law import cell_law
from nmar.models.context import Context
from nmar.models.exposure import exposure
from nmar.models.law import Law
from nmar.models.protocol import Block
from nmar.models.scaling import EXACT, LineSums, Scaling
from nmar.models.shared import Info
from nmar.models.state import Shared, Side, State, join
from nmar.models.views import expected_weights, view, whole_view
from nmar.prob.factor import Summed
from nmar.prob.family import Gaussian
from nmar.prob.statistics import Statistics

BLOCK = 1 << 18  # cells of one block, at most: q(n) is held for a block at a time, never for the matrix
HELD = 1 << 18  # numbers of q(n) that a block holds
SHARES = 16  # blocks that a matrix is cut into, at least, so that threads end at about the same time
SMALLEST = 1 << 13  # cells of a block in a small matrix: fewer would spend their time in Python
LONGEST = 1 << 14  # counts an open table may cover


class TableTooShort(Exception):
    """An open table of counts ended before a cell's sum had converged; the half sweep is repeated, longer."""


@dataclass(frozen=True, eq=False)
class HalfSweep:
    """What every block of a half sweep reads.

    Attributes
    ----------
    theirs : the other side
    cell_law : tables of the law of a cell
    their_means : E[v] of the other side, where lines are exposed to their observed cells once more, else None
    """

    axis: int
    law: Law
    shared: Shared
    kernels: Kernels
    theirs: SideView
    cell_law: CellLaw
    their_means: Array | None


class BlockInput(NamedTuple):
    """What one block reads besides."""

    cells: Lines
    side: Side  # its lines as they are
    exposure: Array  # (K,) or (n, K)
    scaling: Scaling
    out: Side | None  # where new lines may be written; None: to new arrays


class BlockResult(NamedTuple):
    """What a block leaves; q(n) is not among it."""

    side: Side  # new lines
    placed: bool  # they were written to ``out``
    log_z: float
    counted: float  # Σ E[n]
    cellwise: Array | None
    vectors: Array  # n-vectors
    by_value: Array
    sums: LineSums | None


def half_sweep(
    axis: int,
    state: State,
    context: Context,
    learns: bool = True,
    scaling: Scaling = EXACT,
    theirs: SideView | None = None,
) -> tuple[Side, Info, int]:
    """Update all lines of ``axis`` given the other side and the shared parameters.

    Parameters
    ----------
    learns : whether to sum the n-vectors that :func:`update_shared` learns from
    scaling : how the cells stand for all cells
    theirs : the view of the other side, for callers that keep it fixed over many half sweeps (fold-in)

    Returns
    -------
    The new side, additive results, and the size of open table that sufficed.
    """
    shared = state.shared
    while True:
        try:
            side, info = _half_sweep(axis, State(state.sides, shared), context, (learns, scaling, theirs))
            return side, info, shared.table_size
        except TableTooShort:
            if shared.table_size >= LONGEST:
                raise FloatingPointError(
                    f"a cell needs counts beyond {LONGEST}: a value is too extreme for the linkage"
                    f" {shared.linkage.name!r}; check the data for outliers, drop or clip them, or use the free linkage"
                ) from None
            shared = replace(shared, table_size=2 * shared.table_size)


def _half_sweep(
    axis: int, state: State, context: Context, how: tuple[bool, Scaling, SideView | None]
) -> tuple[Side, Info]:
    observed, law, shared, (learns, scaling, theirs) = context.observed, context.law, state.shared, how
    if theirs is None:
        theirs = whole_view(state.sides[1 - axis], 1 - axis, context, shared)
    tables = cell_law(law, shared, observed.distinct)._replace(learns=learns and law.data.has_values)
    means = None
    if law.exposure_weights(shared.linkage)[1]:
        means = expected_weights(state.sides[1 - axis].pattern, 1 - axis, context)
    half = HalfSweep(axis, law, shared, context.kernels, theirs, tables, means)
    out = None if context.buffers is None else context.buffers.side(axis, state.sides[axis])
    results = _run(half, state, context, scaling, out)
    side = out if out is not None and all(r.placed for r in results) else join([r.side for r in results])
    if law.pattern_fixed:
        side = Side(state.sides[axis].pattern, side.data)
    for record in (side.pattern.weights, side.data):
        if isinstance(record, Summed):
            record.sum_up(context.here)
    return side, _gather(results, axis, context, shared, learns)


def block_size(cells: Cells, tables: CellLaw) -> int:
    """Cells of a block; depends on the data and the law alone, so that every sum has its order."""
    share = max(cells.n_observed // SHARES, SMALLEST)
    return max(min(BLOCK, share, HELD // tables.bins), 1)


def _run(half: HalfSweep, state: State, context: Context, scaling: Scaling, out: Side | None) -> list[BlockResult]:
    """All blocks, the longest first so that workers end together; results are in the order of the blocks."""
    whole, size = context.observed.cells.by(half.axis), block_size(context.observed.cells, half.cell_law)  # type: ignore[arg-type]
    blocks = whole.chunks(size)
    exposed = exposure(half.axis, state, half.law, context.observed.hidden)
    offset = half.law.data.offset(half.shared.data)

    def given(block: tuple[int, int]) -> BlockInput:
        lines = slice(*block)
        return BlockInput(
            context.observed.block(half.axis, *block, offset),
            state.sides[half.axis].take(lines),
            exposed if exposed.ndim == 1 else exposed[lines],
            scaling.of_block(lines),
            None if out is None or not context.executor.shares_memory else out.take(lines),
        )

    cells = whole.indptr[[stop for _, stop in blocks]] - whole.indptr[[start for start, _ in blocks]]
    done: dict[int, BlockResult] = {}
    if half.law.data.additive and context.cuts_lines:
        for place in np.flatnonzero(cells > size).tolist():  # a line that is longer than a block
            done[place] = _update_long_line(half, given(blocks[place]), context, size)
    rest = [place for place in np.argsort(-cells, kind="stable").tolist() if place not in done]
    done.update(zip(rest, context.executor.map(update_block, half, [given(blocks[p]) for p in rest]), strict=True))
    return [done[place] for place in range(len(blocks))]


def update_block(half: HalfSweep, block: BlockInput) -> BlockResult:
    """New lines of a block and its sums: E-step, both models' updates, n-vectors."""
    data, shared, kernels = half.law.data, half.shared.data, half.kernels
    before = view(block.side, half.axis, half.law, half.shared, kernels)
    read = Block(block.cells, before, half.theirs, half.cell_law, block.scaling.scale)
    found = data.expect(kernels, read, block.side.data, half.axis, shared)
    made = _new_lines(half, block, found, _observed_exposure(half, block.cells))
    _renew_view(half, before, found, made.side.data)
    vectors, by_value = _statistics(half, (block.cells, before, found))
    return made._replace(cellwise=found.cellwise, vectors=vectors, by_value=by_value)


def _update_long_line(half: HalfSweep, block: BlockInput, context: Context, size: int) -> BlockResult:
    """One line in segments, several at once: its sums are added in the order of the segments."""
    before = view(block.side, half.axis, half.law, half.shared, half.kernels)
    segments = [block.cells.segment(start, start + size) for start in range(0, len(block.cells.indices), size)]
    run = context.executor.map
    found = run(_expect_segment, (half, before), segments)
    more = None
    if half.their_means is not None:
        more = reduce(operator.add, run(_observed_exposure, half, segments))
    total = _add_up(found)
    made = _new_lines(half, block, total, more)
    _renew_view(half, before, total, made.side.data)
    held = [(segment, before, each) for segment, each in zip(segments, found, strict=True)]
    vectors, by_value = zip(*run(_statistics, half, held), strict=True)
    return made._replace(vectors=reduce(np.add, vectors), by_value=reduce(np.add, by_value))


def _expect_segment(common: tuple[HalfSweep, SideView], segment: Lines) -> Expectation:
    half, before = common
    return half.kernels.expect(segment, before, half.theirs, half.cell_law)


def _add_up(parts: list[Expectation]) -> Expectation:
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


def _observed_exposure(half: HalfSweep, cells: Lines) -> Array | None:
    """What lines are exposed to by their observed cells beyond the share of all cells: (n, K), or None."""
    if half.their_means is None:
        return None
    _, more = half.law.exposure_weights(half.shared.linkage)
    return more * half.kernels.add_lines(cells, half.their_means)[:, : half.theirs.sizes[0]]


def _new_lines(half: HalfSweep, block: BlockInput, found: Expectation, more: Array | None) -> BlockResult:
    """Both models' new lines. What the old ones paid for ``more`` exposure, ΣE[u]·more, is taken off log Z."""
    if found.short:
        raise TableTooShort
    law, old = half.law, block.side
    exposed = block.exposure if more is None else block.exposure + more
    scaled, exposed, sums = block.scaling.apply(found, exposed)
    data = law.data.update(old.data, half.axis, half.shared.data, scaled, half.kernels)
    pattern = old.pattern
    if not law.pattern_fixed:
        pattern = old.pattern.empty(np.empty) if block.out is None else block.out.pattern
        law.pattern_of(half.shared, half.axis).update(old.pattern, scaled.pattern, exposed, half.kernels, pattern)
    placed = block.out is not None and write_lines(data, block.out.data)
    paid = 0.0 if more is None else float(np.sum(old.pattern.weights.mean * more))
    return BlockResult(
        Side(pattern, data), placed, found.log_z - paid, found.counted, None, EMPTY_FLOAT, EMPTY_FLOAT, sums
    )


def _renew_view(half: HalfSweep, before: SideView, found: Expectation, data: Any) -> None:
    """Show the block's new lines where the old ones were, for the n-vectors: the view is the block's own."""
    if half.cell_law.learns and found.moments is None:
        new = half.law.data.features(data, half.axis, half.shared.data)
        refill_view(before, slice(None), new.first, new.second, new.top)


def _statistics(half: HalfSweep, held: tuple[Lines, SideView, Expectation]) -> tuple[Array, Array]:
    """n-vectors of a block with q(n) held."""
    tables = half.cell_law
    if not tables.learns:
        return np.zeros(tables.slopes.shape), np.zeros(tables.by_value.shape)
    cells, after, found = held
    return half.kernels.statistics(cells, after, half.theirs, tables, found)


def _gather(results: list[BlockResult], axis: int, context: Context, shared: Shared, learns: bool) -> Info:
    """Sum the blocks' results, always in the order of the blocks."""
    log_z = sum(result.log_z for result in results)
    _check_finite(log_z, context.law)
    sums = _join_sums([result.sums for result in results])
    if not learns:
        return Info(log_z, None, sums=sums)
    observed, law, weights = context.observed, context.law, None
    count = sum(result.counted for result in results)
    vectors, by_value = (
        reduce(np.add, [getattr(result, name) for result in results]) for name in ("vectors", "by_value")
    )
    _check_finite(vectors, law)
    if law.data.cellwise:
        weights = np.concatenate([result.cellwise[:2] for result in results if result.cellwise is not None], axis=1)
        if axis == 1:
            weights = weights[:, np.argsort(observed.cells.order(1), kind="stable")]
    stats = _named(law, shared, vectors, by_value, count, observed.distinct)
    return Info(log_z, stats, weights, sums)


def _join_sums(parts: list[LineSums | None]) -> LineSums | None:
    """Sums of all lines; an exposure that all lines share stays one vector."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    exposed = [part.exposure for part in known]
    return LineSums(
        pattern=np.concatenate([part.pattern for part in known]),
        linear=np.concatenate([part.linear for part in known]),
        quadratic=np.concatenate([part.quadratic for part in known]),
        exposure=exposed[0] if exposed[0].ndim == 1 else np.concatenate(exposed),
    )


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
    names = law.family.basis if law.data.has_values else ("cells",)
    if law.data.has_values and isinstance(law.family, Gaussian):
        names = law.family.statistic_names(shared.linkage.mean is not None or law.data.keeps_moments)
    if distinct is None:
        return Statistics(names, vectors, mean_count_total=count)
    return Statistics(names, vectors, distinct, by_value, count)
