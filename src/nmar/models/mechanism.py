"""Values that decide whether they are seen: the mechanism "value" (theory.md, Values that decide).

Every cell, observed or not, has a value y ~ N(μ, σ²/(λ_i ρ_j)), and is seen with probability 1 − exp(−L),
log L = a0 + α_i + β_j + Γ y, or, where counts vary more than Poisson ones, 1 − (1 + u L)^(−1/u). This is the law with
what all lines share; models/exposed.py has what a block learns from missing cells. The value of a missing cell is
integrated out under q(μ) inside the logarithm,

    ℓ = log ∫ N(y; E[μ], τ²) P(missing | y) dy,   τ² = σ²/(E[λ_i] E[ρ_j]) + Var[μ]

so that missing cells make no line surer than they should. It is no lower bound, by the width of q(μ).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nmar.arrays import Array

Floats = NDArray[np.float64]

LEAP = 0.3  # the longest step of a0, Γ, u or an effect of detection at a time
LARGEST = 4.0  # u, at most
NARROWEST = 0.03  # smallest prior standard deviation of the effects of detection


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
    """Effects of the lines of an axis on the log rate of being seen."""

    mean: Array  # (n,) of q(α), or q(β): normal around its mode
    variance: Array

    def take(self, lines: slice | Array) -> Detection:
        """The chosen lines."""
        return Detection(self.mean[lines], self.variance[lines])


@dataclass(frozen=True)
class Draw:
    """Which missing cells are read, where there are too many to read all."""

    seed: int  # seed of the fit's draws
    number: int = 0  # how many draws went before; each half sweep has its own

    def next(self) -> Draw:
        """That of the next half sweep."""
        return replace(self, number=self.number + 1)


@dataclass(frozen=True)
class Mechanism:
    """What all cells share of how values decide whether they are seen."""

    intercept: float  # a0
    slope: float = 0.0  # Γ, the change of the log rate of being seen with the value; values in units of their spread
    # prior standard deviations of the effects of detection of rows and of columns
    spreads: tuple[float, float] = (1.0, 1.0)
    learns: bool = True  # whether Γ is learned
    over: float = 0.0  # u, by how much the counts vary more than Poisson ones; learned
    # second derivatives in (a0, a0), (a0, Γ), (Γ, Γ) with the sign changed, lines held
    information: tuple[float, float, float] = (0.0, 0.0, 0.0)
    # sums over cells of products of the scores of a0, Γ and u: aa, aΓ, au, ΓΓ, Γu, uu
    outer: tuple[float, ...] = (0.0,) * 6
    # how much of it effects of rows, and of columns, could explain as well
    shared_with: tuple[tuple[float, float, float], tuple[float, float, float]] = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    # how much of that about Γ the values' lines of rows, and of columns, could explain
    by_values: tuple[float, float] = (0.0, 0.0)
    with_pattern: bool = False  # whether log E[Λ] of the pattern is added to the log rate
    draw: Draw | None = None  # how missing cells are drawn, or None where all of them are read

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
