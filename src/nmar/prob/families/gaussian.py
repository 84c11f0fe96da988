"""Gaussian values, in location form (theory.md, Families).

Parametrised as in table 1 of the paper. Its n-vectors and the tables that kernels read belong to the location form,
y ~ N(phi1 * mu + delta, phi2 / precision).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nmar.arrays import Array
from nmar.prob.families.base import CellTables, Family, Numbers
from nmar.prob.statistics import Statistics


@dataclass(frozen=True)
class Gaussian(Family):
    """Gaussian: y ~ N(x theta, x), and in location form y ~ N(phi1 mu + delta, phi2 / precision).

    The n-vectors belong to the location form, where the dispersion x of a bin is its variance.
    """

    name: ClassVar[str] = "gaussian"
    unit_power: ClassVar[float | None] = 2.0
    location: ClassVar[bool] = True
    basis: ClassVar[tuple[str, ...]] = ("cells", "residual")
    mean_basis: ClassVar[tuple[str, ...]] = ("cells", "y", "y2", "y_mu", "mu", "mu2")

    def weighted_residual(self, stats: Statistics, table: Array) -> float:
        """Return the sum of the bins' residuals over phi2."""
        return float(np.sum(stats.vector("residual") / table))

    def log_partition(self, theta: Numbers) -> Array:
        return 0.5 * np.square(np.asarray(theta, dtype=float))

    def log_base(self, y: Numbers, x: Numbers) -> Array:
        y, x = np.asarray(y, dtype=float), np.asarray(x, dtype=float)
        return -0.5 * np.square(y) / x - 0.5 * np.log(2 * np.pi * x)

    def mean(self, theta: Numbers, x: Numbers) -> Array:
        return np.asarray(x, dtype=float) * np.asarray(theta, dtype=float)

    def natural(self, slope: float) -> float:
        return slope

    def variance(self, theta: Numbers, x: Numbers) -> Array:
        return np.asarray(x, dtype=float) + np.zeros_like(theta, dtype=float)

    def sample(self, theta: Numbers, x: Numbers, rng: np.random.Generator) -> Array:
        return np.asarray(rng.normal(self.mean(theta, x), np.sqrt(x)))

    def peak(self, y: Numbers, e_psi: Numbers) -> Array:
        # 2 E[Psi] x^2 + x - y^2 = 0, the positive root without cancellation
        y2 = np.square(np.asarray(y, dtype=float))
        return 2 * y2 / (1 + np.sqrt(1 + 8 * np.asarray(e_psi) * y2))

    def statistic_names(self, mean_linkage: bool = False) -> tuple[str, ...]:
        return self.mean_basis if mean_linkage else self.basis

    def statistics(self, y: Numbers, first: Numbers, second: Numbers, mean_linkage: bool = False) -> tuple[Array, ...]:
        y, mu, mu2 = np.broadcast_arrays(*(np.asarray(v, dtype=float) for v in (y, first, second)))
        if mean_linkage:
            return np.ones_like(y), y.copy(), y * y, y * mu, mu.copy(), mu2.copy()
        return np.ones_like(y), expected_square(y, mu, mu2)

    def slopes(self, x: Array) -> Array:
        return np.stack([-0.5 * np.log(2.0 * np.pi * x), -0.5 / x])

    def tables(self, dispersion: float, phi1: Array, delta: Array, phi2: Array, moves: bool) -> CellTables:
        inverse = 1.0 / (dispersion * phi2)
        scaled = inverse * phi1
        constant = 0.5 * np.log(inverse / (2.0 * np.pi))
        slopes = [constant, -0.5 * inverse]
        if moves:  # cells, y, y2, y_mu, mu, mu2
            square = constant - 0.5 * inverse * delta**2
            slopes = [square, inverse * delta, -0.5 * inverse, scaled, -scaled * delta, -0.5 * scaled * phi1]
        return CellTables(np.stack(slopes), scaled, scaled * delta, scaled * phi1)

    def reduced(self, stats: Statistics, scale: Array, shift: Array) -> Statistics:
        """Return the sums of squared residuals at given location tables.

        R = Y2 - 2 phi1 X - 2 delta Y1 + phi1^2 M2 + 2 phi1 delta M1 + delta^2 Q  (theory.md, M-steps)
        """
        if stats.names == self.basis:
            return stats
        cells, y, y2, y_mu, mu, mu2 = stats.vectors
        square = y2 - 2 * scale * y_mu - 2 * shift * y
        square = square + scale**2 * mu2 + 2 * scale * shift * mu + shift**2 * cells
        vectors = np.stack([cells, np.maximum(square, 0.0)])
        return Statistics(self.basis, vectors, mean_count_total=stats.mean_count_total)

    def objective(self, stats: Statistics, x: Array) -> Array:
        cells, residual = stats.vector("cells"), stats.vector("residual")
        return -0.5 * cells * np.log(x) - 0.5 * residual / x  # without log 2 pi, which would cost searches digits

    def derivatives(self, stats: Statistics, x: Array) -> tuple[Array, Array]:
        cells, residual = stats.vector("cells"), stats.vector("residual")
        ratio = residual / x
        return (0.5 * ratio - 0.5 * cells) / x, (0.5 * cells - ratio) / x / x


def expected_square(y: Array, mu: Array, mu2: Array) -> Array:
    """Return E[(y - mu)^2] as a square plus a variance: no cancellation far from zero."""
    return np.square(y - mu) + np.maximum(mu2 - np.square(mu), 0.0)
