"""Negative binomial counts (theory.md, Families)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import betaln, digamma, polygamma

from nmar.arrays import Array
from nmar.prob.families.base import Conjugate, CountFamily, Numbers, above_one, is_count, on_support
from nmar.prob.roots import log_root
from nmar.prob.statistics import Statistics


class NegativeBinomialConjugate(Conjugate):
    """exp(theta) ~ Beta(a, b + 1)."""

    def theta(self, a: float, b: float) -> float:
        return float(digamma(a) - digamma(a + b + 1.0))

    def psi(self, a: float, b: float) -> float:
        return float(digamma(a + b + 1.0) - digamma(b + 1.0))

    def spread(self, a: float, b: float) -> tuple[float, float]:
        return above_one(b, a * (a + b) / b), above_one(b, a * (a + b) / b**2)

    def log_normaliser(self, a: Numbers, b: Numbers) -> Array:
        return betaln(a, np.asarray(b) + 1.0)

    def draw(self, a: float, b: float, size: Any, rng: np.random.Generator) -> Array:
        return np.log(np.clip(rng.beta(a, b + 1.0, size), 1e-300, 1.0 - 1e-16))


@dataclass(frozen=True)
class NegativeBinomial(CountFamily):
    """Negative binomial: y events of probability exp(theta) before the x-th event of the other kind."""

    name: ClassVar[str] = "negative_binomial"
    domain: ClassVar[tuple[float, float]] = (-np.inf, 0.0)
    needs_values: ClassVar[bool] = True
    conjugate: ClassVar[Conjugate | None] = NegativeBinomialConjugate()

    def log_partition(self, theta: Numbers) -> Array:
        return -np.log(-np.expm1(np.asarray(theta, dtype=float)))

    def log_base(self, y: Numbers, x: Numbers) -> Array:
        y, x = np.asarray(y, dtype=float), np.asarray(x, dtype=float)
        positive = on_support(y, is_count(y) & (y > 0), lambda v: -betaln(x, v) - np.log(v))
        return np.where(y == 0, 0.0, positive)

    def slopes(self, x: Array) -> Array:
        return np.stack([np.zeros_like(x), -x])

    def mean(self, theta: Numbers, x: Numbers) -> Array:
        return np.asarray(x, dtype=float) / np.expm1(-np.asarray(theta, dtype=float))

    def natural(self, slope: float) -> float:
        return -float(np.log1p(1.0 / slope))

    def variance(self, theta: Numbers, x: Numbers) -> Array:
        return -self.mean(theta, x) / np.expm1(np.asarray(theta, dtype=float))

    def sample(self, theta: Numbers, x: Numbers, rng: np.random.Generator) -> Array:
        stop = -np.expm1(np.asarray(theta, dtype=float))
        return np.asarray(rng.negative_binomial(np.asarray(x, dtype=float), stop), dtype=np.float64)

    def peak(self, y: Numbers, e_psi: Numbers) -> Array:
        # digamma(x + y) - digamma(x) = E[Psi]; falling in x when y = 0
        y, e_psi = np.broadcast_arrays(np.asarray(y, dtype=float), np.asarray(e_psi, dtype=float))
        count = np.where(y == 0, 1.0, y)

        def slope(x: Array) -> tuple[Array, Array]:
            value = digamma(x + count) - digamma(x) - e_psi
            return value, polygamma(1, x + count) - polygamma(1, x)

        start = count / np.expm1(np.clip(e_psi, 1e-12, 500.0))
        return np.where(y == 0, 0.0, log_root(slope, start))

    def derivatives(self, stats: Statistics, x: Array) -> tuple[Array, Array]:
        values, mass = stats.values_and_masses
        slope = (mass * (digamma(x + values[:, None]) - digamma(x))).sum(axis=0) - stats.vector("psi")
        return slope, (mass * (polygamma(1, x + values[:, None]) - polygamma(1, x))).sum(axis=0)
