"""Gamma values (theory.md, Families)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from nmar.arrays import Array
from nmar.prob.families.base import Conjugate, Numbers, PositiveFamily, above_one, on_support
from nmar.prob.families.negative_binomial import NegativeBinomial
from nmar.prob.roots import log_root
from nmar.prob.statistics import Statistics


class GammaConjugate(Conjugate):
    """-theta ~ Ga(b + 1, a)."""

    def theta(self, a: float, b: float) -> float:
        return -(b + 1.0) / a

    def psi(self, a: float, b: float) -> float:
        return float(np.log(a) - digamma(b + 1.0))

    def spread(self, a: float, b: float) -> tuple[float, float]:
        return above_one(b, a**2 / b), above_one(b, a**2 / b**2)

    def log_normaliser(self, a: Numbers, b: Numbers) -> Array:
        a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
        return gammaln(b + 1.0) - (b + 1.0) * np.log(a)

    def draw(self, a: float, b: float, size: Any, rng: np.random.Generator) -> Array:
        return -rng.gamma(b + 1.0, 1.0 / a, size)

    def peak(self, a: float, b: float, y: Array, start: Array) -> Array:
        # digamma(x + b + 1) - digamma(x) = log(1 + a / y), the equation of a negative binomial
        return NegativeBinomial().peak(b + 1.0, np.log1p(a / y))


@dataclass(frozen=True)
class Gamma(PositiveFamily):
    """Gamma with shape x and rate -theta."""

    name: ClassVar[str] = "gamma"
    unit_power: ClassVar[float | None] = 0.0
    domain: ClassVar[tuple[float, float]] = (-np.inf, 0.0)
    basis: ClassVar[tuple[str, ...]] = ("cells", "log_y", "psi")
    conjugate: ClassVar[Conjugate | None] = GammaConjugate()

    def log_partition(self, theta: Numbers) -> Array:
        return -np.log(-np.asarray(theta, dtype=float))

    def log_base(self, y: Numbers, x: Numbers) -> Array:
        y, x = np.asarray(y, dtype=float), np.asarray(x, dtype=float)
        return on_support(y, y > 0, lambda v: (x - 1) * np.log(v) - gammaln(x))

    def slopes(self, x: Array) -> Array:
        return np.stack([-gammaln(x), x, -x])

    def functions(self, y: Array) -> tuple[Array, ...]:
        return (np.log(y),)

    def constant(self, y: Array) -> Array:
        return -np.log(y)

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

    def derivatives(self, stats: Statistics, x: Array) -> tuple[Array, Array]:
        cells = stats.vector("cells")
        slope = stats.vector("log_y") - stats.vector("psi") - cells * digamma(x)
        return slope, -cells * polygamma(1, x)
