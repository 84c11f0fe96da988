"""Values that decide whether they are seen: the mechanism "value" (theory.md, Values that decide).

Every cell, observed or not, has a value y ~ N(μ, σ²/(λ_i ρ_j)), and is seen with probability 1 − exp(−L),
log L = a0 + α_i + β_j + Γ y, or, where counts vary more than Poisson ones, 1 − (1 + u L)^(−1/u). Enters: a block of
lines with its observed, hidden and missing cells. Leaves: what missing cells tell about the lines, as cells of a weight
and a target in the data model's sums; new effects of detection; and sums from which a0, Γ and u are learned. The value
of a missing cell is integrated out under q(μ) inside the logarithm,

    ℓ = log ∫ N(y; E[μ], τ²) P(missing | y) dy,   τ² = σ²/(E[λ_i] E[ρ_j]) + Var[μ]

so that missing cells make no line surer than they should. It is no lower bound, by the width of q(μ).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmar.arrays import Array
from nmar.kernels.spec import Kernels, Lines
from nmar.models.missing_cells import AllMissing, SomeMissing, drawn_missing
from nmar.prob.detection import FEWEST, Missing, seen
from nmar.prob.factor import pack
from nmar.prob.pieces import pieces

Floats = NDArray[np.float64]

LEAP = 0.3  # the longest step of a0, Γ, u or an effect of detection at a time
LARGEST = 4.0  # u, at most
NARROWEST = 0.03  # smallest prior standard deviation of the effects of detection
PIECE = 1 << 17  # cells of lines × the other axis worked on at a time


@dataclass(frozen=True)
class ByValue:
    """The mechanism "value" with a slope that is given.

    Parameters
    ----------
    slope : float or None, default None
        Γ: by how much the log rate of being seen rises with a value, for each spread of the observed values (the
        standard deviation of a normal with their tenth and ninetieth percentile). None: learned.
    pattern : bool, default False
        Whether the factors of the pattern say, beside rows and columns, which cells are seen: their log rate is added
        to that of the mechanism.

    Examples
    --------
    >>> ByValue(0.5)
    ByValue(slope=0.5, pattern=False)
    """

    slope: float | None = None
    pattern: bool = False

    def __post_init__(self) -> None:
        if self.slope is not None and not np.isfinite(self.slope):
            raise ValueError(f"slope={self.slope!r}; give a number, or None to learn it")


@dataclass(frozen=True, eq=False)
class Detection:
    """Effects of the lines of an axis on the log rate of being seen.

    Attributes
    ----------
    mean, variance : arrays of shape (n,)
        Of q(α), or q(β): normal around its mode.
    """

    mean: Array
    variance: Array

    def take(self, lines: slice | Array) -> Detection:
        """The chosen lines."""
        return Detection(self.mean[lines], self.variance[lines])


@dataclass(frozen=True)
class Draw:
    """Which missing cells are read, where there are too many to read all.

    Attributes
    ----------
    seed : int
        Seed of the fit's draws.
    number : int
        How many draws went before; each half sweep has its own.
    """

    seed: int
    number: int = 0

    def next(self) -> Draw:
        """That of the next half sweep."""
        return replace(self, number=self.number + 1)


@dataclass(frozen=True)
class Mechanism:
    """What all cells share of how values decide whether they are seen.

    Attributes
    ----------
    intercept : float
        a0.
    slope : float
        Γ, the change of the log rate of being seen with the value; values in units of their spread.
    spreads : tuple of float
        Prior standard deviations of the effects of detection of rows and of columns.
    learns : bool
        Whether Γ is learned.
    over : float
        u, by how much the counts vary more than Poisson ones; learned.
    information : tuple of float
        Second derivatives in (a0, a0), (a0, Γ), (Γ, Γ) with the sign changed, lines held.
    outer : tuple of float
        Sums over cells of products of the scores of a0, Γ and u: aa, aΓ, au, ΓΓ, Γu, uu.
    shared_with : tuple of tuples of float
        How much of it effects of rows, and of columns, could explain as well.
    by_values : tuple of float
        How much of that about Γ the values' lines of rows, and of columns, could explain.
    with_pattern : bool
        Whether log E[Λ] of the pattern is added to the log rate.
    draw : Draw or None
        How missing cells are drawn, or None where all of them are read.
    """

    intercept: float
    slope: float = 0.0
    spreads: tuple[float, float] = (1.0, 1.0)
    learns: bool = True
    over: float = 0.0
    information: tuple[float, float, float] = (0.0, 0.0, 0.0)
    outer: tuple[float, ...] = (0.0,) * 6
    shared_with: tuple[tuple[float, float, float], tuple[float, float, float]] = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    by_values: tuple[float, float] = (0.0, 0.0)
    with_pattern: bool = False
    draw: Draw | None = None

    @classmethod
    def start(cls, density: float, given: ByValue, draw: Draw | None = None) -> Mechanism:
        """Before any cell is seen: all cells alike, or as the pattern says, and Γ as given, or 0 and learned."""
        intercept = 0.0 if given.pattern else float(np.log(-np.log1p(-density)))
        return cls(intercept, given.slope or 0.0, learns=given.slope is None, with_pattern=given.pattern, draw=draw)

    @property
    def moves_values(self) -> bool:
        """Whether missing cells tell anything about values."""
        return self.learns or self.slope != 0.0

    def first_lines(self, axis: int, n: int) -> Detection:
        """Effects of detection of ``n`` lines without cells: their prior."""
        return Detection(np.zeros(n), np.full(n, self.spreads[axis] ** 2))

    def learned(self, axis: int, lines: Detection, sums: Floats) -> Mechanism:
        """A step on u, one on (a0, Γ) under the prior Γ, u ~ N(0, 1), and the spread of the axis just updated.

        The step on u is that of all three along the products of their scores; (a0, Γ) take a Newton step from there.
        """
        gradient, outer = sums[:3] - np.array([0.0, self.slope, self.over]), _square(sums[6:12])
        free = [0, 1, 2] if self.learns else [0, 2]
        along = np.linalg.lstsq(outer[np.ix_(free, free)], gradient[free], rcond=1e-12)[0][-1]
        over = float(np.clip(self.over + np.clip(along, -LEAP, LEAP), 0.0, LARGEST))
        gradient = gradient[:2] - outer[:2, 2] * (over - self.over)
        information = np.array([[sums[3], sums[4]], [sums[4], sums[5] + 1.0]])
        if not self.learns:
            step = np.array([gradient[0] / max(information[0, 0], 1e-12), 0.0])
        else:
            size, direction = np.linalg.eigh(information)
            step = direction @ (direction.T @ gradient / np.maximum(np.abs(size), 1e-9))
        step = np.clip(step, -LEAP, LEAP)
        spread = max(float(np.sqrt(np.mean(lines.mean**2 + lines.variance))), NARROWEST)
        shared = [self.shared_with[0], self.shared_with[1]]
        shared[axis] = _three(sums[12:15])
        by_values = [*self.by_values]
        by_values[axis] = float(sums[15])
        return replace(
            self,
            intercept=self.intercept + float(step[0]),
            slope=self.slope + float(step[1]),
            spreads=(spread, self.spreads[1]) if axis == 0 else (self.spreads[0], spread),
            over=over,
            information=_three(sums[3:6]),
            outer=tuple(float(one) for one in sums[6:12]),
            shared_with=(shared[0], shared[1]),
            by_values=(by_values[0], by_values[1]),
            draw=None if self.draw is None else self.draw.next(),
        )

    @property
    def error(self) -> float:
        """Standard deviation of Γ, with a0, u, the effects of detection and the values' lines free.

        What each of them could explain is taken off one after the other, as in an analysis of variance.
        """
        if not self.learns:
            return 0.0
        alone = max(_left(self.information), 1e-12)
        left = [_left(_three(np.subtract(self.information, one))) / alone for one in self.shared_with]
        left += [1.0 - one / alone for one in self.by_values]
        return float(1.0 / np.sqrt(alone * np.prod(np.clip(left, 0.0, 1.0)) * self._beside_shape + 1.0))

    @property
    def _beside_shape(self) -> float:
        """Share of the information about Γ that u does not explain; all of it where u is at an end of its range."""
        if not 0.0 < self.over < LARGEST:
            return 1.0
        outer = _square(np.array(self.outer))
        left = outer[1:, 1:] - np.outer(outer[0, 1:], outer[0, 1:]) / max(outer[0, 0], 1e-12)
        return float(1.0 - left[0, 1] ** 2 / (left[0, 0] * left[1, 1]))

    def errors_at(self, y: Floats) -> Floats:
        """Standard deviation of a0 + Γ y, the effects of detection at 0."""
        flat, mixed, _ = self.information
        return np.sqrt(1.0 / max(flat, 1e-12) + ((y - mixed / max(flat, 1e-12)) * self.error) ** 2)

    def log_prior(self) -> float:
        """Log prior of Γ and u, but for constants."""
        return -0.5 * (self.slope**2 + self.over**2)

    def divergence(self, axis: int, lines: Detection) -> float:
        """KL of the effects of detection of an axis from their prior."""
        variance = self.spreads[axis] ** 2
        ratio = lines.variance.astype(np.float64) / variance
        return 0.5 * float(np.sum(ratio - 1.0 - np.log(ratio) + lines.mean.astype(np.float64) ** 2 / variance))


def _left(information: tuple[float, float, float]) -> float:
    """Information about Γ once a0 is free."""
    flat, mixed, steep = information
    return steep - mixed**2 / max(flat, 1e-12)


def _square(outer: Floats) -> Floats:
    """The products of scores as a matrix, under the priors of Γ and u."""
    found = np.diag([0.0, 1.0, 1.0])
    places = np.triu_indices(3)
    found[places] += outer
    return np.triu(found) + np.triu(found, 1).T


def _three(numbers: Floats) -> tuple[float, float, float]:
    return float(numbers[0]), float(numbers[1]), float(numbers[2])


class Unseen(NamedTuple):
    """What the missing cells of a block tell about its lines.

    Attributes
    ----------
    linear, quadratic : arrays of shape (n, D1) and (n, D2)
        Their part of the data model's sums: weights times targets, and weights.
    squares : array of shape (n,)
        Σ E[(y − μ)²]/noise − 1: by how much they scatter more than noise would have them.
    log_z : float
        Σ ℓ.
    """

    linear: Floats
    quadratic: Floats
    squares: Floats
    log_z: float


class Exposed(NamedTuple):
    """A block of lines as detection sees them.

    Attributes
    ----------
    axis : int
        The axis of the lines.
    cells, hidden : Lines
        Observed cells, and those that are neither observed nor missing, or None.
    first, second : arrays of shape (n, D1) and (n, D2)
        Features of the lines; inner products with those of the other side are E[μ] and E[μ²].
    precision : array of shape (n,)
        E[λ] of the lines over σ².
    lines : Detection
        Effects of the lines.
    their_first, their_second, their_precision, their_effect : arrays
        The same of the whole other side.
    weights, their_weights : array of shape (n, K) or None
        E[u] and E[v] of the pattern, where its rate is part of that of the mechanism.
    their_counts : array or None
        Observed cells of each line of the other side, where missing cells are drawn.
    start : int
        Number of the first line on its axis.
    """

    axis: int
    cells: Lines
    hidden: Lines | None
    first: Array
    second: Array
    precision: Floats
    lines: Detection
    their_first: Array
    their_second: Array
    their_precision: Floats
    their_effect: Array
    weights: Array | None = None
    their_weights: Array | None = None
    their_counts: Array | None = None
    start: int = 0

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
    """New effects of detection of a block of lines, and what all cells share learns from.

    Attributes
    ----------
    lines : Detection
        New effects.
    sums : array of shape (16,)
        Gradient of (a0, Γ, u), information about (a0, Γ) (3 numbers), products of the scores of all three (6), what of
        the information the effects could explain (3), and what the lines of the values could explain of Γ's.
    excess : float
        Σ E[(y − μ)²]/noise − 1 over the missing cells, under the lines as they are.
    log_z : float
        Σ log P(observed | y) over the observed cells, under the effects before.
    """

    lines: Detection
    sums: Floats
    excess: float
    log_z: float


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
