"""Poisson counts (theory.md, Families)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln, psi, xlogy

from nmar.arrays import Array
from nmar.prob.families.base import Conjugate, CountFamily, Numbers, is_count, on_support
from nmar.prob.statistics import Statistics

LEAST = float(np.finfo(np.float64).tiny)  # of a rate that is drawn: the draw itself may be 0


class PoissonConjugate(Conjugate):
    """exp(theta) ~ Ga(a, b)."""

    def theta(self, a: float, b: float) -> float:
        return float(psi(a) - np.log(b))

    def psi(self, a: float, b: float) -> float:
        return a / b

    def spread(self, a: float, b: float) -> tuple[float, float]:
        return a / b, a / b**2

    def log_normaliser(self, a: Numbers, b: Numbers) -> Array:
        return gammaln(a) - a * np.log(b)

    def draw(self, a: float, b: float, size: Any, rng: np.random.Generator) -> Array:
        return np.log(np.maximum(rng.gamma(a, 1.0 / b, size), LEAST))


@dataclass(frozen=True)
class Poisson(CountFamily):
    """Poisson with rate x exp(theta); kappa is 1, since only its product with the rate is identified."""

    name: ClassVar[str] = "poisson"
    learns_dispersion: ClassVar[bool] = False
    basis: ClassVar[tuple[str, ...]] = ("cells", "y", "psi")
    conjugate: ClassVar[Conjugate | None] = PoissonConjugate()

    def log_partition(self, theta: Numbers) -> Array:
        return np.exp(np.asarray(theta, dtype=float))

    def log_base(self, y: Numbers, x: Numbers) -> Array:
        y, x = np.asarray(y, dtype=float), np.asarray(x, dtype=float)
        return on_support(y, is_count(y), lambda v: xlogy(v, x) - gammaln(v + 1))

    def slopes(self, x: Array) -> Array:
        return np.stack([np.zeros_like(x), np.log(x), -x])

    def functions(self, y: Array) -> tuple[Array, ...]:
        return (y,)

    def constant(self, y: Array) -> Array:
        return -gammaln(y + 1.0)

    def mean(self, theta: Numbers, x: Numbers) -> Array:
        return np.asarray(x, dtype=float) * np.exp(np.asarray(theta, dtype=float))

    def natural(self, slope: float) -> float:
        return float(np.log(slope))

    def variance(self, theta: Numbers, x: Numbers) -> Array:
        return self.mean(theta, x)

    def sample(self, theta: Numbers, x: Numbers, rng: np.random.Generator) -> Array:
        return np.asarray(rng.poisson(self.mean(theta, x)), dtype=float)

    def peak(self, y: Numbers, e_psi: Numbers) -> Array:
        return np.asarray(y, dtype=float) / np.asarray(e_psi, dtype=float)

    def derivatives(self, stats: Statistics, x: Array) -> tuple[Array, Array]:
        y = stats.vector("y")
        return y / x - stats.vector("psi"), -y / np.square(x)
