"""Binomial counts (theory.md, Families)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import betaln, digamma, expit, logit, polygamma

from nmar.arrays import Array
from nmar.prob.families.base import Conjugate, CountFamily, Numbers, is_count, on_support
from nmar.prob.roots import log_root
from nmar.prob.statistics import Statistics


class BinomialConjugate(Conjugate):
    """logistic(theta) ~ Beta(a, b - a), b > a."""

    def theta(self, a: float, b: float) -> float:
        return float(digamma(a) - digamma(b - a))

    def psi(self, a: float, b: float) -> float:
        return float(digamma(b) - digamma(b - a))

    def spread(self, a: float, b: float) -> tuple[float, float]:
        failed = a * (b - a) / (b + 1.0)
        return failed / b, failed / b**2

    def log_normaliser(self, a: Numbers, b: Numbers) -> Array:
        return betaln(a, np.asarray(b) - a)

    def draw(self, a: float, b: float, size: Any, rng: np.random.Generator) -> Array:
        p = np.clip(rng.beta(a, b - a, size), 1e-300, 1.0 - 1e-16)
        return np.log(p) - np.log1p(-p)


@dataclass(frozen=True)
class Binomial(CountFamily):
    """Binomial with x trials (an integer) and log odds theta; kappa is given, never learned."""

    name: ClassVar[str] = "binomial"
    whole_dispersion: ClassVar[bool] = True
    learns_dispersion: ClassVar[bool] = False
    needs_values: ClassVar[bool] = True
    typical: ClassVar[float] = 0.3
    conjugate: ClassVar[Conjugate | None] = BinomialConjugate()

    def log_partition(self, theta: Numbers) -> Array:
        return np.logaddexp(0.0, np.asarray(theta, dtype=float))

    def log_base(self, y: Numbers, x: Numbers) -> Array:
        y, x = np.broadcast_arrays(np.asarray(y, dtype=float), np.asarray(x, dtype=float))
        inside = is_count(y) & (y <= x)
        room = np.where(inside, x - y, 0.0)  # trials without success
        return on_support(y, inside, lambda v: -betaln(room + 1, v + 1) - np.log(room + v + 1))

    def slopes(self, x: Array) -> Array:
        return np.stack([np.zeros_like(x), -x])

    def mean(self, theta: Numbers, x: Numbers) -> Array:
        return np.asarray(x, dtype=float) * expit(np.asarray(theta, dtype=float))

    def natural(self, slope: float) -> float:
        return float(logit(slope))

    def variance(self, theta: Numbers, x: Numbers) -> Array:
        theta = np.asarray(theta, dtype=float)
        return np.asarray(x, dtype=float) * expit(theta) * expit(-theta)

    def sample(self, theta: Numbers, x: Numbers, rng: np.random.Generator) -> Array:
        trials = np.asarray(x)
        if np.any(trials != np.floor(trials)):
            raise ValueError(f"x contains {trials!r}, but binomial trials are integers; round it")
        return np.asarray(rng.binomial(trials.astype(np.int64), expit(theta)), dtype=float)

    def peak(self, y: Numbers, e_psi: Numbers) -> Array:
        # digamma(x + 1) - digamma(x - y + 1) = E[Psi]; at the edge x = y where the slope is negative there
        y, e_psi = np.broadcast_arrays(np.asarray(y, dtype=float), np.asarray(e_psi, dtype=float))
        edge = digamma(y + 1) - digamma(1.0) <= e_psi
        count, target = np.where(edge, 1.0, y), np.where(edge, 0.5, e_psi)

        def slope(room: Array) -> tuple[Array, Array]:
            value = digamma(room + count + 1) - digamma(room + 1) - target
            return value, polygamma(1, room + count + 1) - polygamma(1, room + 1)

        start = np.maximum(count / np.expm1(target) - 0.5, 1e-3)
        return np.where(edge, y, count + log_root(slope, start))

    def derivatives(self, stats: Statistics, x: Array) -> tuple[Array, Array]:
        values, mass = stats.values_and_masses
        room = np.maximum(x - values[:, None], 0.0)
        slope = (mass * (digamma(x + 1) - digamma(room + 1))).sum(axis=0) - stats.vector("psi")
        return slope, (mass * (polygamma(1, x + 1) - polygamma(1, room + 1))).sum(axis=0)
