"""What a block of lines learns from missing cells under the mechanism "value" (theory.md, Values that decide).

Enters: a block of lines with its observed, hidden and missing cells. Leaves: what missing cells tell about the lines,
as cells of a weight and a target in the data model's sums; new effects of detection; and sums from which a0, Γ and u
are learned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nmar.arrays import Array
from nmar.kernels.spec import Kernels, Lines
from nmar.models.mechanism import LEAP, Detection, Draw, Floats, Mechanism
from nmar.models.missing_cells import AllMissing, SomeMissing, drawn_missing
from nmar.prob.detection import FEWEST, Missing, seen
from nmar.prob.factor import pack
from nmar.prob.pieces import pieces

PIECE = 1 << 17  # cells of lines × the other axis worked on at a time


class Unseen(NamedTuple):
    """What the missing cells of a block tell about its lines."""

    linear: Floats  # (n, D1) their part of the data model's sums: weights times targets, and weights
    quadratic: Floats
    squares: Floats  # (n,) Σ E[(y − μ)²]/noise − 1: by how much they scatter more than noise would have them
    log_z: float  # Σ ℓ


class Exposed(NamedTuple):
    """A block of lines as detection sees them."""

    axis: int  # the axis of the lines
    cells: Lines  # observed cells, and those that are neither observed nor missing, or None
    hidden: Lines | None
    first: Array  # (n, D1) features of the lines; inner products with those of the other side are E[μ] and E[μ²]
    second: Array
    precision: Floats  # (n,) E[λ] of the lines over σ²
    lines: Detection  # effects of the lines
    their_first: Array  # the same of the whole other side
    their_second: Array
    their_precision: Floats
    their_effect: Array
    weights: Array | None = None  # (n, K) E[u] and E[v] of the pattern, where its rate is part of that of the mechanism
    their_weights: Array | None = None
    their_counts: Array | None = None  # observed cells of each line of the other side, where missing cells are drawn
    start: int = 0  # number of the first line on its axis

    def some(self, lines: slice) -> Exposed:
        """Some of the lines."""
        return self._replace(
            cells=_cut(self.cells, lines),
            hidden=None if self.hidden is None else _cut(self.hidden, lines),
            first=self.first[lines],
            second=self.second[lines],
            precision=self.precision[lines],
            lines=self.lines.take(lines),
            weights=None if self.weights is None else self.weights[lines],
            start=self.start + lines.start,
        )

    def offset(self, line: Array, other: Array) -> Floats:
        """What the log rate has beside Γ y: effects of both lines, and the pattern's rate, of each cell."""
        found = self.lines.mean[line] + self.their_effect[other]
        if self.weights is None or self.their_weights is None:
            return np.asarray(found, np.float64)
        rate = np.einsum("mk,mk->m", self.weights[line], self.their_weights[other], dtype=np.float64)
        return np.asarray(found + np.log(np.maximum(rate, 1e-300)), np.float64)


class _Missing(NamedTuple):
    """Missing cells of some lines and the moments of their values."""

    cells: AllMissing | SomeMissing
    mean: Floats
    noise: Floats
    scale: Floats
    found: Missing


def _cut(cells: Lines, lines: slice) -> Lines:
    """Cells of some lines of a block: places and values alone."""
    start, stop = int(cells.indptr[lines.start]), int(cells.indptr[lines.stop])
    indptr = cells.indptr[lines.start : lines.stop + 1] - start
    values = cells.values[start:stop] if cells.values.size else cells.values
    return Lines(indptr, cells.indices[start:stop], values, cells.group[:0], cells.offset[:0])


def _missing(block: Exposed, mechanism: Mechanism, kernels: Kernels) -> _Missing:
    """The cells of the lines that are neither observed nor hidden, all or some, under the lines as they are."""
    cells = _all_missing(block) if mechanism.draw is None else _some_missing(block, mechanism.draw)
    mean = cells.products(block.first, block.their_first)
    square = cells.products(block.second, block.their_second)
    noise = 1.0 / (block.precision[cells.line] * block.their_precision[cells.other])
    scale = np.sqrt(np.maximum(square - mean**2, 0.0) + noise)
    base = mechanism.intercept + block.offset(cells.line, cells.other)
    found = Missing(*kernels.moments_of_missing(base + mechanism.slope * mean, mechanism.slope * scale, mechanism.over))
    return _Missing(cells, mean, noise, scale, found)


def _all_missing(block: Exposed) -> AllMissing:
    """Every cell of the lines that is neither observed nor hidden."""
    free = np.ones((len(block.first), len(block.their_first)), np.bool_)
    for cells in (block.cells, block.hidden):
        if cells is not None:
            free[np.repeat(np.arange(len(free)), np.diff(cells.indptr)), cells.indices] = False
    where = np.flatnonzero(free)
    return AllMissing(*np.divmod(where, free.shape[1]), where, free.shape)


def _some_missing(block: Exposed, draw: Draw) -> SomeMissing:
    """Missing cells of the lines drawn with probability proportional to the counts of both lines, plus 1."""
    counts = np.diff(block.cells.indptr)
    away = [(cells.indptr, cells.indices) for cells in (block.cells, block.hidden) if cells is not None]
    rng = np.random.default_rng([draw.seed, draw.number, block.axis, block.start])
    assert block.their_counts is not None
    return drawn_missing(counts, block.their_counts, away, rng)


def unseen_sums(block: Exposed, mechanism: Mechanism, kernels: Kernels) -> Unseen:
    """What the missing cells tell about the lines: −∂²ℓ/∂m² as weights, and w t = w m + ∂ℓ/∂m (MATH §27)."""
    n, slope, log_z = len(block.first), mechanism.slope, 0.0
    linear, quadratic = np.zeros(block.first.shape), np.zeros(block.second.shape)
    squares = np.zeros(n)
    if not mechanism.moves_values:
        return Unseen(linear, quadratic, squares, _log_missing(block, mechanism, kernels))
    for lines in _pieces(block, mechanism):
        part = _missing(block.some(lines), mechanism, kernels)
        rate = part.found.rate
        weight = slope**2 * np.maximum(part.found.information, FEWEST * rate)
        linear[lines] = part.cells.sums(weight * part.mean - slope * rate, block.their_first)
        quadratic[lines] = part.cells.sums(weight, block.their_second)
        squares[lines] = part.cells.by_line(_excess(part)) if slope else 0.0
        log_z += part.cells.total(part.found.log_probability)
    return Unseen(linear, quadratic, squares, log_z)


def _log_missing(block: Exposed, mechanism: Mechanism, kernels: Kernels) -> float:
    """Σ ℓ alone."""
    parts = (_missing(block.some(lines), mechanism, kernels) for lines in _pieces(block, mechanism))
    return sum(part.cells.total(part.found.log_probability) for part in parts)


def _pieces(block: Exposed, mechanism: Mechanism) -> list[slice]:
    """Lines whose missing cells are worked on at a time."""
    n, width = len(block.first), len(block.their_first)
    if mechanism.draw is not None:
        width = len(block.cells.indices) // max(n, 1) + 1
    return list(pieces(n, max(1, PIECE // max(width, 1))))


def _excess(part: _Missing) -> Floats:
    """E[(y − μ)²]/noise − 1 of each missing cell: (noise/τ²)(E[x²] − 1)."""
    return part.noise / part.scale**2 * (part.found.square - 1.0)


class Learned(NamedTuple):
    """New effects of detection of a block of lines, and what all cells share learns from."""

    lines: Detection  # new effects
    # (16,) Gradient of (a0, Γ, u), information about (a0, Γ) (3 numbers), products of the scores of all three (6), what
    # of the information the effects could explain (3), and what the lines of the values could explain of Γ's
    sums: Floats
    excess: float  # Σ E[(y − μ)²]/noise − 1 over the missing cells, under the lines as they are
    log_z: float  # Σ log P(observed | y) over the observed cells, under the effects before


class Scores(NamedTuple):
    """Sums of derivatives, filled part by part."""

    by_line: Floats  # (4, n): gradient of the effect, its information, and what it shares with Γ and with u
    whole: Floats  # (4,): gradient of Γ, its information, gradient of u, what lines of the values could explain
    outer: Floats  # (6,): products of scores

    def add_outer(self, total: Callable[[Floats], float], scores: tuple[Floats, Floats, Floats]) -> None:
        """Add products of scores of cells, summed by ``total``."""
        pairs = [(i, j) for i in range(3) for j in range(i, 3)]
        self.outer[:] += [total(scores[i] * scores[j]) for i, j in pairs]


def learned_effects(block: Exposed, mechanism: Mechanism, kernels: Kernels) -> Learned:
    """A Newton step on the effects of the lines, and the sums that a0, Γ and u are learned from, after that step."""
    made = Scores(np.zeros((4, len(block.first))), np.zeros(4), np.zeros(6))
    excess, log_z = 0.0, _add_seen(block, mechanism, made)
    for lines in _pieces(block, mechanism):
        some = block.some(lines)
        part = _missing(some, mechanism, kernels)
        _add_missing(part, lines, made)
        if mechanism.learns:
            made.whole[3] += _by_values(some, part, mechanism.slope)
        excess += part.cells.total(_excess(part)) if mechanism.slope else 0.0
    return _stepped(block, mechanism, made, excess, log_z)


def _by_values(block: Exposed, part: _Missing, slope: float) -> float:
    """How much of the information about Γ lines of the values could explain: Σ c' Cov[a] c, c = −∂²ℓ/∂Γ∂a.

    Each line's effect of detection moves with Γ as far as its missing cells let it.
    """
    found, cells = part.found, part.cells
    mixed = part.mean * found.information + part.scale * found.information_x
    by_line = [cells.by_line(each) for each in (mixed, found.information)]
    moves = by_line[0] / np.maximum(by_line[1], 1e-12)
    cross = found.rate + slope * (mixed - moves[cells.line] * found.information)
    c = cells.sums(cross, block.their_first)
    square = pack(np.einsum("ik,il->ikl", c, c))
    return float(np.sum(block.second * square) - np.sum(np.einsum("ik,ik->i", c, block.first) ** 2))


def _add_missing(part: _Missing, lines: slice, made: Scores) -> None:
    """Missing cells' part of the sums."""
    found, mean, scale, cells = part.found, part.mean, part.scale, part.cells
    information = np.maximum(found.information, FEWEST * found.rate)
    rate_y = mean * found.rate + scale * found.rate_x
    mixed = mean * information + scale * found.information_x
    both = mean**2 * information + 2.0 * mean * scale * found.information_x + scale**2 * found.information_xx
    for row, each in enumerate((-found.rate, information, mixed, -found.rate * found.over)):
        made.by_line[row, lines] += cells.by_line(each)
    made.whole[:3] += [-cells.total(rate_y), cells.total(both), cells.total(found.over)]
    made.add_outer(cells.total, (-found.rate, -rate_y, found.over))


def _add_seen(block: Exposed, mechanism: Mechanism, made: Scores) -> float:
    """The observed cells' part of the sums; returns Σ log P(observed | y)."""
    line = np.repeat(np.arange(len(block.first)), np.diff(block.cells.indptr))
    y = block.cells.values.astype(np.float64)
    base = mechanism.intercept + block.offset(line, block.cells.indices)
    found = seen(base + mechanism.slope * y, mechanism.over)
    each = (found.score, found.information, y * found.information, found.score * found.over)
    for row, one in enumerate(each):
        made.by_line[row] += np.bincount(line, one, made.by_line.shape[1])
    made.whole[:3] += [np.sum(y * found.score), np.sum(y**2 * found.information), np.sum(found.over)]
    made.add_outer(np.sum, (found.score, y * found.score, found.over))
    return float(np.sum(found.log_probability))


def _stepped(block: Exposed, mechanism: Mechanism, made: Scores, excess: float, log_z: float) -> Learned:
    """New effects; the gradient of (a0, Γ, u) is carried to them along the second derivatives."""
    gradient, information, mixed, over = made.by_line
    prior = mechanism.spreads[block.axis] ** -2
    precision = information + prior
    old = block.lines.mean.astype(np.float64)
    step = np.clip((gradient - prior * old) / precision, -LEAP, LEAP)
    variance = 1.0 / precision
    carried = [gradient.sum() - information @ step, made.whole[0] - mixed @ step, made.whole[2] - over @ step]
    shared = [information**2 @ variance, (information * mixed) @ variance, mixed**2 @ variance]
    sums = np.array([*carried, information.sum(), mixed.sum(), made.whole[1], *made.outer, *shared, made.whole[3]])
    dtype: Any = block.lines.mean.dtype
    return Learned(Detection((old + step).astype(dtype), variance.astype(dtype)), sums, excess, log_z)
