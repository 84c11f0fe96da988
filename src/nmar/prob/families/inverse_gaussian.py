"""Inverse Gaussian values (theory.md, Families)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_ndtr

from nmar.arrays import Array
from nmar.prob.families.base import Conjugate, Numbers, PositiveFamily, on_support
from nmar.prob.roots import log_root
from nmar.prob.statistics import Statistics


class InverseGaussianConjugate(Conjugate):
    """r = sqrt(-2 theta) has a density proportional to r exp(b r - a r^2 / 2).

    Closed in terms of z = b / sqrt(a) and D = z + N(z) / Phi(z).
    """

    @staticmethod
    def _parts(a: Any, b: Any) -> tuple[Array, Array, Array]:
        """Return z, D and log Phi(z)."""
        z = b / np.sqrt(a)
        log_cumulative = log_ndtr(z)
        ratio = np.exp(-0.5 * z**2 - 0.5 * np.log(2.0 * np.pi) - log_cumulative)
        return z, z + ratio, log_cumulative

    def theta(self, a: float, b: float) -> float:
        z, d, _ = self._parts(a, b)
        return float(-(z**2 + 2.0 + z / d) / (2.0 * a))

    def psi(self, a: float, b: float) -> float:
        z, d, _ = self._parts(a, b)
        return float(-(z + 1.0 / d) / np.sqrt(a))

    def slope(self, a: float, b: float) -> float:
        _, d, _ = self._parts(a, b)
        return float(np.sqrt(a) / d)

    def spread(self, a: float, b: float) -> tuple[float, float]:
        # E[1/r^3] and Var[1/r] diverge at r = 0 however improbable it is: r below a hundredth of the mode is left out
        r, mass = self._grid(a, b)
        mean = float(mass @ (1.0 / r))
        return float(mass @ r**-3.0), float(mass @ (1.0 / r - mean) ** 2)

    @staticmethod
    def _grid(a: float, b: float) -> tuple[Array, Array]:
        """Return places r and their probabilities."""
        top, reach = (b + np.sqrt(b * b + 4.0 * a)) / (2.0 * a), 12.0 / np.sqrt(a)
        grid = np.linspace(max(top - reach, 0.01 * top), top + reach, 20_001)
        logs = np.log(grid) + b * grid - 0.5 * a * grid**2
        mass = np.exp(logs - logs.max())
        return grid, mass / mass.sum()

    def log_normaliser(self, a: Numbers, b: Numbers) -> Array:
        z, d, log_cumulative = self._parts(a, b)
        return 0.5 * np.log(2.0 * np.pi) - np.log(a) + 0.5 * z**2 + log_cumulative + np.log(d)

    def draw(self, a: float, b: float, size: Any, rng: np.random.Generator) -> Array:
        r, mass = self._grid(a, b)  # by inversion on a fine grid
        return -0.5 * np.interp(rng.random(size), np.cumsum(mass), r) ** 2

    def peak(self, a: float, b: float, y: Array, start: Array) -> Array:
        # 1/x - x/y + E[r | y, x] = 0; the slope falls, since that mean rises by at most 1/(a + y) < 1/y
        def slope(x: Array) -> tuple[Array, Array]:
            z, d, _ = self._parts(a + y, b + x)
            return 1.0 / x - x / y + (z + 1.0 / d) / np.sqrt(a + y), -1.0 / x**2 - 1.0 / y + 1.0 / (a + y)

        return log_root(slope, start)


@dataclass(frozen=True)
class InverseGaussian(PositiveFamily):
    """Inverse Gaussian with mean x / sqrt(-2 theta) and shape x^2."""

    name: ClassVar[str] = "inverse_gaussian"
    unit_power: ClassVar[float | None] = 0.5
    domain: ClassVar[tuple[float, float]] = (-np.inf, 0.0)
    basis: ClassVar[tuple[str, ...]] = ("cells", "inverse_y", "psi")
    conjugate: ClassVar[Conjugate | None] = InverseGaussianConjugate()

    def log_partition(self, theta: Numbers) -> Array:
        return -np.sqrt(-2 * np.asarray(theta, dtype=float))

    def log_base(self, y: Numbers, x: Numbers) -> Array:
        y, x = np.asarray(y, dtype=float), np.asarray(x, dtype=float)
        return on_support(y, y > 0, lambda v: -0.5 * np.square(x) / v + np.log(x) - 0.5 * np.log(2 * np.pi * v**3))

    def slopes(self, x: Array) -> Array:
        return np.stack([np.log(x), -0.5 * np.square(x), -x])

    def functions(self, y: Array) -> tuple[Array, ...]:
        return (1.0 / y,)

    def constant(self, y: Array) -> Array:
        return -0.5 * np.log(2.0 * np.pi * y**3)

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

    def derivatives(self, stats: Statistics, x: Array) -> tuple[Array, Array]:
        cells, inverse_y, psi = stats.vectors
        return cells / x - x * inverse_y - psi, -cells / np.square(x) - inverse_y
