"""The families on real values: Gaussian, gamma, inverse Gaussian (theory.md, Families).

Parametrised as in table 1 of the paper. The Gaussian is also used in location form,
y ~ N(phi1 * mu + delta, phi2 / precision); its n-vectors belong to that form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from nmar.prob.family_base import Family, Numbers, PositiveFamily, log_root, on_support
from nmar.prob.statistics import Array, Statistics

__all__ = ["Gamma", "Gaussian", "InverseGaussian"]


@dataclass(frozen=True)
class Gaussian(Family):
    """Gaussian: y ~ N(x theta, x), and in location form y ~ N(phi1 mu + delta, phi2 / precision).

    The n-vectors belong to the location form, where the dispersion x of a bin is its variance.
    """

    name: ClassVar[str] = "gaussian"
    unit_power: ClassVar[float | None] = 2.0
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

    def location_log(
        self,
        y: Numbers,
        mean: Numbers,
        second: Numbers,
        phi1: Numbers,
        delta: Numbers,
        phi2: Numbers,
        precision: Numbers,
        log_precision: Numbers,
    ) -> Array:
        """Return E[log N(y; phi1 mu + delta, phi2 / precision)].

        Parameters
        ----------
        y : values
        mean, second : E[mu] and E[mu^2]
        phi1, delta, phi2 : location scale, location shift and variance linkage at n
        precision, log_precision : E and E log of the inverse variance
        """
        phi1, phi2 = np.asarray(phi1, dtype=float), np.asarray(phi2, dtype=float)
        centred = np.asarray(y, dtype=float) - np.asarray(delta)
        square = expected_square(centred, phi1 * np.asarray(mean), np.square(phi1) * np.asarray(second))
        spread = np.asarray(log_precision) - np.log(2 * np.pi * phi2)
        return 0.5 * spread - 0.5 * np.asarray(precision) / phi2 * square

    def statistic_names(self, mean_linkage: bool = False) -> tuple[str, ...]:
        return self.mean_basis if mean_linkage else self.basis

    def statistics(self, y: Numbers, first: Numbers, second: Numbers, mean_linkage: bool = False) -> tuple[Array, ...]:
        y, mu, mu2 = np.broadcast_arrays(*(np.asarray(v, dtype=float) for v in (y, first, second)))
        if mean_linkage:
            return np.ones_like(y), y.copy(), y * y, y * mu, mu.copy(), mu2.copy()
        return np.ones_like(y), expected_square(y, mu, mu2)

    def residual(self, stats: Statistics, scale: Array, shift: Array) -> Statistics:
        """Reduce the six vectors to ("cells", "residual") at given location tables.

        R = Y2 - 2 phi1 X - 2 delta Y1 + phi1^2 M2 + 2 phi1 delta M1 + delta^2 Q  (theory.md, M-steps);
        statistics collected without a mean linkage are returned as they are.
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
        return -0.5 * cells * np.log(x) - 0.5 * residual / x

    def derivatives(self, stats: Statistics, x: Array) -> tuple[Array, Array]:
        cells, residual = stats.vector("cells"), stats.vector("residual")
        ratio = residual / x
        return (0.5 * ratio - 0.5 * cells) / x, (0.5 * cells - ratio) / x / x


def expected_square(y: Array, mu: Array, mu2: Array) -> Array:
    """Return E[(y - mu)^2] as a square plus a variance: no cancellation far from zero."""
    return np.square(y - mu) + np.maximum(mu2 - np.square(mu), 0.0)


@dataclass(frozen=True)
class Gamma(PositiveFamily):
    """Gamma with shape x and rate -theta."""

    name: ClassVar[str] = "gamma"
    unit_power: ClassVar[float | None] = 0.0
    domain: ClassVar[tuple[float, float]] = (-np.inf, 0.0)
    basis: ClassVar[tuple[str, ...]] = ("cells", "log_y", "psi")

    def log_partition(self, theta: Numbers) -> Array:
        return -np.log(-np.asarray(theta, dtype=float))

    def log_base(self, y: Numbers, x: Numbers) -> Array:
        y, x = np.asarray(y, dtype=float), np.asarray(x, dtype=float)
        return on_support(y, y > 0, lambda v: (x - 1) * np.log(v) - gammaln(x))

    def mean(self, theta: Numbers, x: Numbers) -> Array:
        return -np.asarray(x, dtype=float) / np.asarray(theta, dtype=float)

    def natural(self, slope: float) -> float:
        return -1.0 / slope

    def variance(self, theta: Numbers, x: Numbers) -> Array:
        return np.asarray(x, dtype=float) / np.square(np.asarray(theta, dtype=float))

    def sample(self, theta: Numbers, x: Numbers, rng: np.random.Generator) -> Array:
        return np.asarray(rng.gamma(np.asarray(x, dtype=float), -1 / np.asarray(theta, dtype=float)))

    def peak(self, y: Numbers, e_psi: Numbers) -> Array:
        target = np.log(np.asarray(y, dtype=float)) - np.asarray(e_psi)  # digamma(x) = target
        start = np.where(target > -2.2, np.exp(np.clip(target, -3, 60)) + 0.5, -1 / np.minimum(target, -1))
        return log_root(lambda x: (target - digamma(x), -polygamma(1, x)), start)

    def objective(self, stats: Statistics, x: Array) -> Array:
        return x * (stats.vector("log_y") - stats.vector("psi")) - stats.vector("cells") * gammaln(x)

    def derivatives(self, stats: Statistics, x: Array) -> tuple[Array, Array]:
        cells = stats.vector("cells")
        slope = stats.vector("log_y") - stats.vector("psi") - cells * digamma(x)
        return slope, -cells * polygamma(1, x)


@dataclass(frozen=True)
class InverseGaussian(PositiveFamily):
    """Inverse Gaussian with mean x / sqrt(-2 theta) and shape x^2."""

    name: ClassVar[str] = "inverse_gaussian"
    unit_power: ClassVar[float | None] = 0.5
    domain: ClassVar[tuple[float, float]] = (-np.inf, 0.0)
    basis: ClassVar[tuple[str, ...]] = ("cells", "inverse_y", "psi")

    def log_partition(self, theta: Numbers) -> Array:
        return -np.sqrt(-2 * np.asarray(theta, dtype=float))

    def log_base(self, y: Numbers, x: Numbers) -> Array:
        y, x = np.asarray(y, dtype=float), np.asarray(x, dtype=float)
        return on_support(y, y > 0, lambda v: -0.5 * np.square(x) / v + np.log(x) - 0.5 * np.log(2 * np.pi * v**3))

    def mean(self, theta: Numbers, x: Numbers) -> Array:
        return np.asarray(x, dtype=float) * (-2 * np.asarray(theta, dtype=float)) ** -0.5

    def natural(self, slope: float) -> float:
        return -0.5 / slope**2

    def variance(self, theta: Numbers, x: Numbers) -> Array:
        return np.asarray(x, dtype=float) * (-2 * np.asarray(theta, dtype=float)) ** -1.5

    def sample(self, theta: Numbers, x: Numbers, rng: np.random.Generator) -> Array:
        return np.asarray(rng.wald(self.mean(theta, x), np.square(np.asarray(x, dtype=float))))

    def peak(self, y: Numbers, e_psi: Numbers) -> Array:
        # x^2 / y + E[Psi] x - 1 = 0
        y, g = np.broadcast_arrays(np.asarray(y, dtype=float), -np.asarray(e_psi, dtype=float))
        s = np.sqrt(np.square(g) + 4 / y)
        return np.where(g >= 0, 0.5 * y * (g + s), 2 / (s + np.abs(g)))

    def objective(self, stats: Statistics, x: Array) -> Array:
        cells, inverse_y, psi = stats.vectors
        return cells * np.log(x) - 0.5 * np.square(x) * inverse_y - x * psi

    def derivatives(self, stats: Statistics, x: Array) -> tuple[Array, Array]:
        cells, inverse_y, psi = stats.vectors
        return cells / x - x * inverse_y - psi, -cells / np.square(x) - inverse_y
