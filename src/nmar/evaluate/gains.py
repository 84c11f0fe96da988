"""Mean differences per held-out cell with standard errors that cover cells, rows, columns and fits.

Enters: a number per held-out cell and seed. Leaves: a :class:`Gain`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from nmar.arrays import Array
from nmar.data.cells import Cells

__all__ = ["FEWEST", "Errors", "Gain", "Judges", "share_error"]

FEWEST = 20  # held-out cells without which no standard error is given


class Errors(NamedTuple):
    """Standard errors of one mean if nothing is shared beyond cells, beyond rows, or beyond columns."""

    cells: float
    rows: float
    cols: float


@dataclass(frozen=True)
class Gain:
    """A mean in nats per cell, its standard error, and the degrees of freedom of that error.

    Attributes
    ----------
    mean : float
        Mean in nats per cell.
    se : float
        Standard error over cells, rows, columns and fits.
    df : float
        Degrees of freedom of ``se``.
    errors : Errors or None
        Standard errors that go into ``se``, each by itself; None where they were not computed.
    """

    mean: float
    se: float
    df: float = float("inf")
    errors: Errors | None = None

    def __post_init__(self) -> None:
        if not (np.isfinite(self.mean) and np.isfinite(self.se)):
            raise ValueError(
                f"a mean of {self.mean} ± {self.se} nats per cell cannot be judged; too few cells are held out,"
                " or a log density is not finite"
            )

    @property
    def z(self) -> float:
        """Mean over standard error (0 where both are 0)."""
        return self.mean / self.se if self.se > 0 else float(np.sign(self.mean)) * np.inf if self.mean else 0.0

    def above_zero(self, tests: int = 1) -> bool:
        """Whether it is above zero at 5 %, two-sided, shared among this many tests (Bonferroni)."""
        return self.z > float(student.isf(0.025 / tests, self.df))

    def __neg__(self) -> Gain:
        return replace(self, mean=-self.mean)

    def __str__(self) -> str:
        return f"{self.mean:+.4f} ± {self.se:.4f}"


class Groups(NamedTuple):
    """Which group each held-out cell of any seed belongs to."""

    of: Array
    size: int

    @classmethod
    def by(cls, keys: Array) -> Groups:
        """Groups of equal keys."""
        found, of = np.unique(keys, return_inverse=True)
        return cls(of, len(found))

    def variance(self, away: Array) -> float:
        """Variance of the sum of deviations if groups are independent of each other, in whatever way cells are not."""
        if self.size < 2:
            return 0.0
        sums = np.bincount(self.of, weights=away, minlength=self.size)
        return float(np.sum(sums**2)) * self.size / (self.size - 1)


@dataclass(frozen=True, eq=False)
class Judges:
    """The held-out cells of all seeds, prepared for standard errors."""

    sizes: tuple[int, ...]  # cells per seed
    cells: Groups  # groups of the concatenated cells: the same cell, row or column in any seed
    rows: Groups
    cols: Groups
    common: float  # mean share of cells that two seeds have in common

    @classmethod
    def of(cls, parts: Sequence[Cells]) -> Judges:
        """From the held-out cells of each seed, all on the same axes."""
        row, col = (np.concatenate([p.positions()[axis] for p in parts]).astype(np.int64) for axis in (0, 1))
        cells = Groups.by(row * parts[0].shape[1] + col)
        times = np.bincount(cells.of)
        pairs = len(row) * (len(parts) - 1)
        common = float(np.sum(times * (times - 1))) / pairs if pairs else 0.0
        return cls(tuple(len(p) for p in parts), cells, Groups.by(row), Groups.by(col), common)

    @classmethod
    def at(cls, row: Array, col: Array) -> Judges:
        """From the row and the column of each cell of one seed; no cell occurs twice."""
        size = len(row)
        return cls((size,), Groups(np.arange(size), size), Groups.by(row), Groups.by(col), 0.0)

    def error(self, values: Array, weights: Array | None = None) -> float:
        """Standard error of a mean over the cells of one seed: what ± is wherever a mean over cells is printed.

        Parameters
        ----------
        values : ndarray of shape (cells,)
            A number per cell.
        weights : array of shape (cells,) or None
            None: all cells count the same.

        Returns
        -------
        float
            The error covers cells, rows and columns, as in :meth:`average`. NaN for fewer than two cells.
        """
        if len(values) < 2:
            return float("nan")
        share = np.full(len(values), 1.0 / len(values)) if weights is None else weights / np.sum(weights)
        return float(np.sqrt(sum(self._variances(share * (values - share @ values)))))

    def average(self, values: Sequence[Array]) -> Gain:
        """Mean over cells and seeds with its standard error.

        Parameters
        ----------
        values : sequence of ndarray
            One array per seed, a number per held-out cell.

        Notes
        -----
        Two variances are added. *Cells*: deviations from the seed's own mean, summed by cell first (a cell that is
        tested twice counts once); dependence within rows and within columns, V_row + V_col − V_cell, is added where
        it is positive. *Fits*: each seed is a new split and a new start, so the spread of the seeds' means, less what
        their different cells explain, over the number of seeds. With one seed the second is unknown and left out.
        The degrees of freedom are Satterthwaite's: few seeds that disagree make a poorly known error.
        """
        means = np.array([v.mean() for v in values])
        seeds = len(means)
        away = np.concatenate([(v - m) / (seeds * len(v)) for v, m in zip(values, means, strict=True)])
        by_cell, *more = self._variances(away)
        fits = self._between(values, means)
        total = by_cell + sum(more) + fits
        df = (seeds - 1) * (total / fits) ** 2 if fits > 0 else float("inf")
        errors = Errors(*(float(np.sqrt(groups.variance(away))) for groups in (self.cells, self.rows, self.cols)))
        return Gain(float(means.mean()), float(np.sqrt(total)), df, errors)

    def _variances(self, away: Array) -> tuple[float, float, float]:
        """Variance of a sum of deviations over cells, and what rows and columns add to it where they add something."""
        by_cell, by_row, by_col = (groups.variance(away) for groups in (self.cells, self.rows, self.cols))
        return by_cell, max(0.0, by_row - by_cell), max(0.0, by_col - by_cell)

    def _between(self, values: Sequence[Array], means: Array) -> float:
        """Variance of the mean that comes from fits, over and above their different cells."""
        seeds = len(means)
        if seeds == 1:
            return 0.0
        sampling = (1.0 - self.common) * float(np.mean([v.var(ddof=1) / len(v) for v in values]))
        return max(0.0, float(means.var(ddof=1)) - sampling) / seeds


def share_error(judges: Judges, inside: Array, level: float) -> float:
    """Standard error of the share of cells inside intervals.

    Parameters
    ----------
    judges : Judges
        The cells.
    inside : ndarray of bool, shape (cells,)
        Whether each cell is inside.
    level : float
        The promised share.

    Returns
    -------
    float
        At least the error under the model: where all cells are inside, the one that was found is 0.
    """
    size = len(inside)
    found = judges.error(inside.astype(np.float64)) if size > 1 else 0.0
    return float(max(found, np.sqrt(level * (1.0 - level) / size)))
