"""A block of a half sweep as a pure function: cells, lines and tables in, new lines and sums out.

Whatever a block reads and returns can be pickled, so that it can run in a thread, in another process or on another
machine with the same result.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from nmar.kernels.spec import (
    EMPTY_FLOAT,
    EMPTY_INT,
    NO_NOISE,
    Array,
    CellLaw,
    Expectation,
    Kernels,
    LineNoise,
    Lines,
    View,
)
from nmar.models.buffers import write_lines
from nmar.models.context import with_functions
from nmar.models.exposed import Exposed, Unseen, learned_effects, unseen_sums
from nmar.models.law import Law
from nmar.models.mechanism import Detection
from nmar.models.noise import Levels, cell_precision, levels_and_counts, line_noise, renewed, rescaled, updated_levels
from nmar.models.protocol import Block
from nmar.models.reading import ReadCells, given_cells, read_statistics, stand
from nmar.models.scaling import LineSums, Scaling
from nmar.models.state import Shared, Side
from nmar.models.views import view

MOST_OFF = 0.9  # of the scatter of observed values, the most that missing ones take off


class TableTooShort(Exception):
    """An open table of counts ended before a cell's sum had converged; the half sweep is repeated, longer."""


@dataclass(frozen=True, eq=False)
class HalfSweep:
    """What every block of a half sweep reads."""

    axis: int
    law: Law
    shared: Shared
    kernels: Kernels
    theirs: View  # the other side
    cell_law: CellLaw  # tables of the law of a cell
    exposure: Array  # (K,) what every line is exposed to
    their_means: Array | None  # E[v] of the other side, where lines also differ in what they are exposed to, else None
    their_noise: Levels | None = None  # noise levels of the other side, where its lines differ in noise, else None
    their_reading: Any = None  # what a reader keeps of the other side's lines, or None
    # effects of the other side's lines on being observed, or None where values do not decide
    their_detection: Detection | None = None
    # E[v] of the other side, where the pattern's rate is part of that of the mechanism
    their_weights: Array | None = None
    their_counts: Array | None = None  # observed cells of the other side's lines, where missing cells are drawn


class BlockInput(NamedTuple):
    """What one block reads besides."""

    cells: Lines
    hidden: Lines | None  # cells that are neither observed nor missing
    side: Side  # its lines as they are
    scaling: Scaling
    out: Side | None  # where new lines may be written; None: to new arrays
    start: int = 0  # number of its first line


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
    cross: Array | None = None  # what products of the pattern's covariates are learned from
    read: Any = None  # what a reader is learned from
    detected: Array | None = None  # what the mechanism is learned from


def update_block(half: HalfSweep, block: BlockInput) -> BlockResult:
    """New lines of a block and its sums: E-step, both models' updates, n-vectors."""
    data, shared, kernels = half.law.data, half.shared.data, half.kernels
    before = view(block.side, half.axis, half.law, half.shared, kernels)
    block, log_precision = _as_read(half, block)
    noise, cells, stands = _line_noise(half, block), block.cells, None
    if half.shared.reader is not None:
        given = _given(half, cells, before, block.side.reading, learns=False)
        stands = stand(half.shared.reader, given, half.shared.dispersion)
        noise, cells = stands.line_noise(noise), stands.cells
    read = Block(cells, before, half.theirs, half.cell_law, block.scaling.scale, noise)
    found = data.expect(kernels, read, block.side.data, half.axis, shared)
    found = found._replace(log_z=found.log_z + log_precision)
    if stands is not None:
        found, noise = stands.corrected(found), _line_noise(half, block)
    side = block.side
    if stands is not None and stands.reading.lines is not None:
        side = replace(side, reading=stands.reading.lines)
    unseen = None if half.their_detection is None else _unseen(half, block)
    more = _own_exposure(half, block, _observed_exposure(half, cells))
    made = _new_lines(half, block._replace(side=side), found, more, noise, unseen)
    _renew_view(half, before, found, made.side.data)
    if stands is None:
        vectors, by_value = _statistics(half, (renewed(cells, block.side.noise, made.side.noise), before, found))
        made = made._replace(vectors=vectors, by_value=by_value)
    else:
        made = _reread(half, block, made, before)
    return made if half.their_detection is None else _detected(half, block, made)


def update_long_line(half: HalfSweep, block: BlockInput, run: Callable[..., list[Any]], size: int) -> BlockResult:
    """One line in segments of ``size`` cells, several at once by ``run(task, common, parts)``, an executor's ``map``.

    Sums are added in the order of the segments.
    """
    before = view(block.side, half.axis, half.law, half.shared, half.kernels)
    block, log_precision = _as_read(half, block)
    segments = [block.cells.segment(start, start + size) for start in range(0, len(block.cells.indices), size)]
    found = run(_expect_segment, (half, before), segments)
    exposed = run(_observed_exposure, half, segments)
    more = None if exposed[0] is None else reduce(operator.add, exposed)
    total = _add_up(found)
    total = total._replace(log_z=total.log_z + log_precision)
    made = _new_lines(half, block, total, _own_exposure(half, block, more), _line_noise(half, block))
    _renew_view(half, before, total, made.side.data)
    cells = renewed(block.cells, block.side.noise, made.side.noise)
    after = [cells.segment(start, start + size) for start in range(0, len(cells.indices), size)]
    held = [(segment, before, each) for segment, each in zip(after, found, strict=True)]
    vectors, by_value = zip(*run(_statistics, half, held), strict=True)
    return made._replace(vectors=reduce(np.add, vectors), by_value=reduce(np.add, by_value))


def _given(half: HalfSweep, cells: Lines, before: View, mine: Any, learns: bool) -> ReadCells:
    """The cells of a block as the reader sees them."""
    found = half.kernels.moments(cells, before, half.theirs, half.cell_law)
    lines = (mine, half.their_reading)
    return given_cells(half.axis, cells, found, half.shared.dispersion, lines, half.kernels, learns)


def _reread(half: HalfSweep, block: BlockInput, made: BlockResult, before: View) -> BlockResult:
    """The result with what σ² and the reader are learned from, under the new lines."""
    side = made.side
    made = made._replace(by_value=np.zeros(half.cell_law.by_value.shape), vectors=np.zeros((2, 1)))
    if not half.cell_law.learns:
        return made
    given = _given(half, renewed(block.cells, block.side.noise, side.noise), before, side.reading, True)
    reading = half.shared.reader.read(given)
    return made._replace(vectors=read_statistics(reading, given, half.shared.dispersion), read=reading.sums)


def _exposed(half: HalfSweep, block: BlockInput, side: Side) -> Exposed:
    """The block with the lines of ``side`` as detection sees it."""
    mine = half.law.data.features(side.data, half.axis, half.shared.data)
    first, second = half.kernels.features(half.theirs)
    noise, n = Levels.of(side.noise), len(mine.first)
    precision = (np.ones(n) if noise is None else noise.mean) / half.shared.dispersion
    theirs = np.ones(len(first)) if half.their_noise is None else half.their_noise.mean
    assert side.detection is not None and half.their_detection is not None
    sides = (mine.first, mine.second, precision, side.detection, first, second, theirs, half.their_detection.mean)
    weights = None if half.their_weights is None else side.pattern.weights.mean
    more = (weights, half.their_weights, half.their_counts, block.start)
    return Exposed(half.axis, block.cells, block.hidden, *sides, *more)


def _unseen(half: HalfSweep, block: BlockInput) -> Unseen:
    """What the missing cells tell about the lines as they are."""
    assert half.shared.mechanism is not None
    return unseen_sums(_exposed(half, block, block.side), half.shared.mechanism, half.kernels)


def _detected(half: HalfSweep, block: BlockInput, made: BlockResult) -> BlockResult:
    """The result with new effects of detection, and what the mechanism and σ² learn from under the new lines."""
    assert half.shared.mechanism is not None
    found = learned_effects(_exposed(half, block, made.side), half.shared.mechanism, half.kernels)
    placed = made.placed and block.out is not None and write_lines(found.lines, block.out.detection)
    side, log_z = replace(made.side, detection=found.lines), made.log_z + found.log_z
    made = made._replace(side=side, placed=placed, log_z=log_z, detected=found.sums)
    if not half.cell_law.learns:
        return made
    vectors = made.vectors.copy()
    vectors[1, 0] += max(found.excess * half.shared.dispersion, -MOST_OFF * vectors[1, 0])
    return made._replace(vectors=vectors)


def _as_read(half: HalfSweep, block: BlockInput) -> tuple[BlockInput, float]:
    """The block with all that its cells carry, and what the noise levels of both sides add to its log Z."""
    cells, log_precision = cell_precision(with_functions(block.cells, half.law), block.side.noise, half.their_noise)
    return block._replace(cells=cells), log_precision


def _line_noise(half: HalfSweep, block: BlockInput) -> LineNoise:
    """What the update of the block's noise levels needs."""
    noise = half.shared.noise
    if noise is None or noise.waits:
        return NO_NOISE
    return line_noise(block.cells, block.side.noise, noise.shapes[half.axis], block.scaling)


def _expect_segment(common: tuple[HalfSweep, View], segment: Lines) -> Expectation:
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
        squares=total("squares"),
    )


def _observed_exposure(half: HalfSweep, cells: Lines) -> Array | None:
    """What lines are exposed to by their observed cells beyond the share of all cells: (n, K), or None."""
    more = half.law.extra_exposure(half.shared.linkage)
    if half.their_means is None or not more:
        return None
    return more * half.kernels.add_lines(cells, half.their_means, len(half.exposure))


def _own_exposure(half: HalfSweep, block: BlockInput, more: Array | None) -> Array | None:
    """What lines are exposed to beyond the share of all cells (n, K): ``more`` by observed cells, less by hidden."""
    if block.hidden is None or half.their_means is None:
        return more
    less = half.kernels.add_lines(block.hidden, half.their_means, len(half.exposure))
    return -less if more is None else more - less


def _new_lines(
    half: HalfSweep,
    block: BlockInput,
    found: Expectation,
    more: Array | None,
    noise: LineNoise,
    unseen: Unseen | None = None,
) -> BlockResult:
    """New noise levels, then both models' new lines.

    What the old lines paid for ``more`` exposure, ΣE[u]·more, is taken off log Z.
    """
    if found.short:
        raise TableTooShort
    law, old, out = half.law, block.side, block.out
    if unseen is not None:
        scattered = np.maximum(found.squares + unseen.squares, (1.0 - MOST_OFF) * found.squares)
        found = found._replace(log_z=found.log_z + unseen.log_z, squares=scattered)
    exposed = half.exposure if more is None else half.exposure + more
    found, exposed, sums = block.scaling.apply(found, exposed, *levels_and_counts(block.cells, old.noise))
    levels = old.noise
    if levels is not None and noise.mean.size:
        levels = updated_levels(noise, found.squares, levels)
    found = rescaled(found, noise, block.cells)
    if unseen is not None:
        found = found._replace(linear=found.linear + unseen.linear, quadratic=found.quadratic + unseen.quadratic)
    data = law.data.update(old.data, half.axis, half.shared.data, found, half.kernels)
    pattern, cross = old.pattern, None
    if not law.pattern_fixed:
        pattern = old.pattern.empty(half.kernels.empty) if out is None else out.pattern
        mine = law.pattern_of(half.shared, half.axis)
        mine.update(old.pattern, found.pattern, exposed, half.kernels, pattern)
        cross = mine.cross_sums(old.pattern, found.pattern, exposed)
    placed = out is not None and write_lines((data, levels, old.reading), (out.data, out.noise, out.reading))
    paid = 0.0 if more is None else float(np.sum(old.pattern.weights.mean * more))
    return BlockResult(
        Side(pattern, data, levels, old.reading, old.detection),
        placed,
        found.log_z - paid,
        found.counted,
        found.cellwise,
        EMPTY_FLOAT,
        EMPTY_FLOAT,
        sums,
        cross,
    )


def _renew_view(half: HalfSweep, before: View, found: Expectation, data: Any) -> None:
    """Show the block's new lines where the old ones were, for the n-vectors: the view is the block's own."""
    if half.cell_law.learns and (found.moments is None or half.shared.reader is not None):
        new = half.law.data.features(data, half.axis, half.shared.data)
        half.kernels.refill_view(before, slice(None), new.first, new.second, new.top)


def _statistics(half: HalfSweep, held: tuple[Lines, View, Expectation]) -> tuple[Array, Array]:
    """n-vectors of a block with q(n) held."""
    tables = half.cell_law
    if not tables.learns:
        rows = len(tables.slopes) + bool(tables.tail)
        return np.zeros((rows, tables.bins)), np.zeros(tables.by_value.shape)
    cells, after, found = held
    return half.kernels.statistics(cells, after, half.theirs, tables, found)
