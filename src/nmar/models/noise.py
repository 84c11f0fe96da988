"""Noise by row and by column, with a Student tail (theory.md, Noise).

y_ij ~ N(μ_ij, σ² φ / (λ_i ρ_j ω_ij)) with λ_i ~ Ga(a, a), ρ_j ~ Ga(b, b) and ω_ij ~ Ga(ν/2, ν/2), shape and rate. A
side holds q(λ) or q(ρ) of its lines, what all cells share holds a, b and ν, and the kernels integrate ω out.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, polygamma, psi

from nmar.arrays import Array
from nmar.kernels.spec import EMPTY_FLOAT, NO_NOISE, Expectation, LineNoise, Lines
from nmar.models.scaling import Scaling
from nmar.prob.factor import GammaFactor
from nmar.prob.learn_dispersion import PRIOR_RATE, PRIOR_SHAPE

START = 5.0  # first shape a, b of the noise levels of rows and of columns, at least
LONGEST_START = 50.0  # and at most
CELLS_START = 2.5  # and for each cell that a line has on average
FREEDOM = 100.0  # first degrees of freedom of the tail: hardly one, so that it is not taken for factors
WAIT = 6  # half sweeps before the noise is learned: until then residuals hold what factors have not explained yet
LARGEST = 1e4  # shape beyond which lines do not differ in noise
MOST = 1e3  # degrees of freedom beyond which values are normal
LEAST = 0.5  # smallest shape


@dataclass(frozen=True)
class Noise:
    """What is learned of the noise, and its shared parameters."""

    axes: tuple[bool, bool] = (True, True)  # whether rows and columns have noise levels of their own
    shapes: tuple[float, float] = (START, START)  # prior shapes a and b of the noise levels of rows and columns
    freedom: float = 0.0  # degrees of freedom ν of the tail; 0 for normal values
    learns_freedom: bool = False  # whether ν is learned
    waits: int = 0  # half sweeps during which the noise stays as it is

    def begun(self, shape: tuple[int, int], cells: int) -> Noise:
        """The noise that a fit of so many cells starts from.

        Lines start alike and differ only after some sweeps. A factor that has not been learned yet looks like noise of
        the lines it belongs to, and is never learned where their noise is large from the start
        (docs/experiments/noise.md).
        """
        rows, cols = (float(np.clip(CELLS_START * cells / n, START, LONGEST_START)) for n in shape)
        return replace(self, shapes=(rows, cols), waits=WAIT)

    def start(self, axis: int, n: int) -> GammaFactor | None:
        """Noise levels of ``n`` lines of an axis before any cell is seen, all 1; None where the axis has none."""
        if not self.axes[axis]:
            return None
        return GammaFactor(np.full(n, self.shapes[axis]), np.full(n, self.shapes[axis]))

    def divergence(self, axis: int, levels: GammaFactor | None) -> float:
        """KL of the noise levels of an axis from their prior."""
        shape = self.shapes[axis]
        return 0.0 if levels is None else levels.divergence(shape, shape, np.log(shape))

    def learned(self, axis: int, levels: GammaFactor | None) -> Noise:
        """The prior shape of an axis from its new noise levels: log a − ψ(a) = −1 − mean(E log λ − E λ)."""
        if levels is None:
            return self
        new = matched_shape(float(np.mean(levels.mean - levels.log_mean)) - 1.0, LEAST, LARGEST)
        return replace(self, shapes=(new, self.shapes[1]) if axis == 0 else (self.shapes[0], new))

    def part_way(self, old: Noise | None, axis: int, weight: float) -> Noise:
        """The prior shape of an axis part of the way from the old one: averages over lines move linearly."""
        if old is None or weight == 1.0 or not self.axes[axis]:
            return self
        before, after = (np.log(a) - psi(a) for a in (old.shapes[axis], self.shapes[axis]))
        new = matched_shape(float((1.0 - weight) * before + weight * after), LEAST, LARGEST)
        return replace(self, shapes=(new, self.shapes[1]) if axis == 0 else (self.shapes[0], new))

    def with_tail(self, total: float, cells: float, before: float, after: float) -> Noise:
        """ν where a bound on Σ log p(y) is largest that touches it at the ν so far (theory.md, Noise).

        Expectation maximisation would need hundreds of sweeps from ν = 30 to either side.

        Parameters
        ----------
        total : float
            Σ (E log ω − E ω) over the cells.
        cells : float
            How often the cells count.
        before, after : float
            Σ E[ω] x of the cells under the old σ², and under the new one.
        """
        if not self.learns_freedom or not cells > 0.0:
            return self
        nu = self.freedom
        weights = ((nu + 1.0) * cells - before) / nu  # Σ E[ω]
        logs = cells * (psi(0.5 * (nu + 1.0)) - np.log(0.5 * nu)) - weights - total  # Σ log(1 + x/ν)

        at, slope = logs - before / (nu + 1.0), nu * after / (nu + 1.0)  # the tangent is at + slope/ν

        def gain(new: float) -> float:
            constant = gammaln(0.5 * (new + 1.0)) - gammaln(0.5 * new) - 0.5 * np.log(new)
            return float(cells * constant - 0.5 * (new + 1.0) * (at + slope / new))

        def rise(log_freedom: float) -> float:
            new = np.exp(log_freedom)
            constant = psi(0.5 * (new + 1.0)) - psi(0.5 * new) - 1.0 / new
            return float(cells * constant - at + slope / new**2)

        low, high = np.log(2.0 * LEAST), np.log(MOST)
        if rise(low) > 0.0 > rise(high):
            best = float(np.exp(brentq(rise, low, high, xtol=1e-13)))
        else:
            best = MOST if rise(high) >= 0.0 else 2.0 * LEAST
        return replace(self, freedom=best) if gain(best) > gain(nu) else self


def balanced(levels: GammaFactor, shape: float, dispersion: float, step: float) -> tuple[GammaFactor, float]:
    """Noise levels and σ², both multiplied by the t at which the bound is largest, or t^step (theory.md, Noise).

    Cells read λ/σ² alone. Coordinate steps on λ, σ² and the prior would go hundreds of sweeps along that ridge.
    """
    total = shape * float(np.sum(levels.mean, dtype=np.float64))
    lines = shape * len(levels.alpha) - PRIOR_SHAPE - 1.0
    t = (float(lines + np.sqrt(lines**2 + 4.0 * total * PRIOR_RATE / dispersion)) / (2.0 * total)) ** step
    return GammaFactor(levels.alpha, levels.beta / t), t * dispersion


def matched_shape(target: float, least: float, largest: float) -> float:
    """The shape with log a − ψ(a) = ``target``, by Newton's method in log a, between two limits."""
    shape = min(0.5 / max(target, 1e-12), largest)
    for _ in range(50):
        step = (np.log(shape) - psi(shape) - target) / (1.0 - shape * float(polygamma(1, shape)))
        shape = float(np.clip(shape * np.exp(-step), least, largest))
        if abs(step) < 1e-12:
            break
    return shape


@dataclass(frozen=True, eq=False)
class Levels:
    """Noise levels of all lines of a side as cells read them."""

    mean: Array  # (n,) E λ and E log λ of each line
    log_mean: Array

    @classmethod
    def of(cls, levels: GammaFactor | None) -> Levels | None:
        """The levels of a side, or None where its lines do not differ."""
        return None if levels is None else cls(*_expected(levels))


def _expected(levels: GammaFactor) -> tuple[Array, Array]:
    """E λ and E log λ."""
    return levels.mean.astype(np.float64, copy=False), levels.log_mean.astype(np.float64, copy=False)


def cell_precision(cells: Lines, mine: GammaFactor | None, theirs: Levels | None) -> tuple[Lines, float]:
    """Cells with E[λ_i] E[ρ_j], and Σ ½ (E log λ_i + E log ρ_j) over them, each as often as it counts."""
    if mine is None and theirs is None:
        return cells, 0.0
    parts, log_total = [], 0.0
    if theirs is not None:
        parts.append(np.take(theirs.mean, cells.indices))
        logs = np.take(theirs.log_mean, cells.indices)
        log_total += float(np.sum(logs if not cells.weight.size else logs * cells.weight))
    if mine is not None:
        mean, log_mean = _expected(mine)
        parts.append(np.repeat(mean, np.diff(cells.indptr)))
        log_total += float(line_counts(cells) @ log_mean)
    return cells._replace(precision=reduce(operator.mul, parts)), 0.5 * log_total


def renewed(cells: Lines, old: GammaFactor | None, new: GammaFactor | None) -> Lines:
    """Cells with E[λ_i] of the new noise levels of their lines in place of the old ones."""
    if old is None or new is None:
        return cells
    change = _expected(new)[0] / _expected(old)[0]
    return cells._replace(precision=cells.precision * np.repeat(change, np.diff(cells.indptr)))


def line_counts(cells: Lines) -> Array:
    """How often the cells of each line count."""
    if not cells.weight.size:
        return np.diff(cells.indptr).astype(np.float64)
    sums = np.cumsum(cells.weight, dtype=np.float64)
    before = np.where(cells.indptr > 0, sums[cells.indptr - 1], 0.0)
    return np.diff(before)


def line_noise(cells: Lines, mine: GammaFactor | None, shape: float, scaling: Scaling) -> LineNoise:
    """What the update of the noise levels of a block needs."""
    if mine is None:
        return NO_NOISE
    return LineNoise(_expected(mine)[0], shape + 0.5 * scaling.all_counts(line_counts(cells)), shape)


def levels_and_counts(cells: Lines, mine: GammaFactor | None) -> tuple[Array, Array]:
    """E λ of the lines of a block and how often their cells count; empty where lines do not differ."""
    return (EMPTY_FLOAT, EMPTY_FLOAT) if mine is None else (_expected(mine)[0], line_counts(cells))


def updated_levels(noise: LineNoise, squares: Array, like: GammaFactor) -> GammaFactor:
    """q(λ_i) = Ga(a + n_i/2, a + ½ Σ_j ρ̂_j ω̂_ij R_ij/(σ²φ)) from Σ ω E[(y − μ)²] under the old levels."""
    rate = noise.rate + 0.5 * squares / noise.mean
    return GammaFactor(noise.shape.astype(like.alpha.dtype), rate.astype(like.beta.dtype))


def rescaled(found: Expectation, noise: LineNoise, cells: Lines) -> Expectation:
    """A block's sums with the new noise levels of its lines, to which all weights of a line are proportional."""
    if not noise.mean.size:
        return found
    change = noise.shape / (noise.rate * noise.mean + 0.5 * found.squares)
    found = found._replace(linear=found.linear * change[:, None], quadratic=found.quadratic * change[:, None])
    if found.cellwise is None:
        return found
    each = np.repeat(change, np.diff(cells.indptr))
    return found._replace(cellwise=np.stack([found.cellwise[0] * each, found.cellwise[1] * each, found.cellwise[2]]))
