"""The families on counts: Poisson, binomial, negative binomial (theory.md, Families).

Parametrised as in table 1 of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import betaln, digamma, expit, gammaln, logit, polygamma, xlogy

from nmar.prob.family_base import CountFamily, Numbers, is_count, log_root, on_support
from nmar.prob.statistics import Array, Statistics

__all__ = ["Binomial", "NegativeBinomial", "Poisson"]


@dataclass(frozen=True)
class Poisson(CountFamily):
    """Poisson with rate x exp(theta); kappa is 1, since only its product with the rate is identified."""

    name: ClassVar[str] = "poisson"
    learns_dispersion: ClassVar[bool] = False
    basis: ClassVar[tuple[str, ...]] = ("cells", "y", "psi")

    def log_partition(self, theta: Numbers) -> Array:
        return np.exp(np.asarray(theta, dtype=float))

    def log_base(self, y: Numbers, x: Numbers) -> Array:
        y, x = np.asarray(y, dtype=float), np.asarray(x, dtype=float)
        return on_support(y, is_count(y), lambda v: xlogy(v, x) - gammaln(v + 1))

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

    def objective(self, stats: Statistics, x: Array) -> Array:
        return stats.vector("y") * np.log(x) - x * stats.vector("psi")

    def derivatives(self, stats: Statistics, x: Array) -> tuple[Array, Array]:
        y = stats.vector("y")
        return y / x - stats.vector("psi"), -y / np.square(x)


@dataclass(frozen=True)
class Binomial(CountFamily):
    """Binomial with x trials (an integer) and log odds theta; kappa is given, never learned."""

    name: ClassVar[str] = "binomial"
    whole_dispersion: ClassVar[bool] = True
    learns_dispersion: ClassVar[bool] = False
    needs_values: ClassVar[bool] = True

    def log_partition(self, theta: Numbers) -> Array:
        return np.logaddexp(0.0, np.asarray(theta, dtype=float))

    def log_base(self, y: Numbers, x: Numbers) -> Array:
        y, x = np.broadcast_arrays(np.asarray(y, dtype=float), np.asarray(x, dtype=float))
        inside = is_count(y) & (y <= x)
        room = np.where(inside, x - y, 0.0)  # trials without success
        return on_support(y, inside, lambda v: -betaln(room + 1, v + 1) - np.log(room + v + 1))

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

    def objective(self, stats: Statistics, x: Array) -> Array:
        values, mass = _by_value(stats)
        room = x - values
        safe = np.maximum(room, 0.0)
        log_choose = -betaln(safe + 1, values + 1) - np.log(safe + values + 1) + gammaln(values + 1)
        inside = room >= 0
        total = np.where(inside, mass * np.where(inside, log_choose, 0.0), np.where(mass > 0, -np.inf, 0.0))
        return total.sum(axis=0) - x * stats.vector("psi")

    def derivatives(self, stats: Statistics, x: Array) -> tuple[Array, Array]:
        values, mass = _by_value(stats)
        room = np.maximum(x - values, 0.0)
        slope = (mass * (digamma(x + 1) - digamma(room + 1))).sum(axis=0) - stats.vector("psi")
        return slope, (mass * (polygamma(1, x + 1) - polygamma(1, room + 1))).sum(axis=0)


@dataclass(frozen=True)
class NegativeBinomial(CountFamily):
    """Negative binomial: y events of probability exp(theta) before the x-th event of the other kind."""

    name: ClassVar[str] = "negative_binomial"
    domain: ClassVar[tuple[float, float]] = (-np.inf, 0.0)
    needs_values: ClassVar[bool] = True

    def log_partition(self, theta: Numbers) -> Array:
        return -np.log(-np.expm1(np.asarray(theta, dtype=float)))

    def log_base(self, y: Numbers, x: Numbers) -> Array:
        y, x = np.asarray(y, dtype=float), np.asarray(x, dtype=float)
        positive = on_support(y, is_count(y) & (y > 0), lambda v: -betaln(x, v) - np.log(v))
        return np.where(y == 0, 0.0, positive)

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

    def objective(self, stats: Statistics, x: Array) -> Array:
        values, mass = _by_value(stats, positive=True)
        rising = gammaln(values) - betaln(x, values)  # log Gamma(x + y) - log Gamma(x)
        return (mass * rising).sum(axis=0) - x * stats.vector("psi")

    def derivatives(self, stats: Statistics, x: Array) -> tuple[Array, Array]:
        values, mass = _by_value(stats, positive=True)
        slope = (mass * (digamma(x + values) - digamma(x))).sum(axis=0) - stats.vector("psi")
        return slope, (mass * (polygamma(1, x + values) - polygamma(1, x))).sum(axis=0)


def _by_value(stats: Statistics, positive: bool = False) -> tuple[Array, Array]:
    """Return the distinct values as a column (D, 1) and their masses (D, N)."""
    if stats.distinct is None or stats.by_value is None:
        raise ValueError("stats has no masses by distinct value; collect them with this family")
    keep = stats.distinct > 0 if positive else np.ones(stats.distinct.shape, dtype=bool)
    return stats.distinct[keep, None], stats.by_value[keep]
