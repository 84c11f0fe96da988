"""What every additive exponential dispersion family offers (theory.md, Families).

Enters: values y, a natural parameter theta and a dispersion x = kappa * phi(n).
Leaves: log densities, moments, samples, the tables that the kernels read, and the per-cell statistics from which kappa
and phi are learned. All families share one form, vectorised over arrays,

    log p(y) = y * theta - x * log_partition(theta) + log_base(y, x)        (paper: Psi, h)
    log_base(y, x) = constant(y) + slopes(x)[0] + slopes(x)[1:-1] . functions(y)

so that kernels need the slopes of each bin and the functions of each cell, and know no family. Where the log base has
no such form (`needs_values`), it is tabulated for every distinct value instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from nmar.arrays import Array
from nmar.prob.statistics import Statistics

__all__ = [
    "CellTables",
    "Conjugate",
    "CountFamily",
    "Family",
    "Numbers",
    "PositiveFamily",
    "above_one",
    "is_count",
    "on_support",
]

Numbers = npt.ArrayLike


class Conjugate(ABC):
    """The law proportional to exp(a theta - b Psi(theta)) of a natural parameter."""

    @abstractmethod
    def theta(self, a: float, b: float) -> float:
        """Return E[theta]."""

    @abstractmethod
    def psi(self, a: float, b: float) -> float:
        """Return E[Psi(theta)]."""

    @abstractmethod
    def spread(self, a: float, b: float) -> tuple[float, float]:
        """Return E[Psi''(theta)] and Var[Psi'(theta)].

        They are the noise of a value at x = 1 and the uncertainty of its mean; infinite where they do not exist.
        """

    @abstractmethod
    def log_normaliser(self, a: Numbers, b: Numbers) -> Array:
        """Return the logarithm of the integral of exp(a theta - b Psi(theta))."""

    @abstractmethod
    def draw(self, a: float, b: float, size: Any, rng: np.random.Generator) -> Array:
        """Draw values of theta."""

    def slope(self, a: float, b: float) -> float:
        """Return E[Psi'(theta)]."""
        return a / b

    def peak(self, a: float, b: float, y: Array, start: Array) -> Array:
        """Return the x where log p(y | x) is largest with theta integrated out: for families with a density.

        `start` is where it is largest with theta at its mean.
        """
        raise NotImplementedError(f"{type(self).__name__} has no peak; a family whose values are no counts needs one")


class CellTables(NamedTuple):
    """What kernels read of a family in each of B bins (kernels/spec.py, CellLaw)."""

    slopes: Array  # (V, B) coefficients of the cell's statistics in its expected log density
    linear: Array  # (B,) location form: E[1/sigma^2] phi1 / phi2, which multiplies y in a cell's weighted target
    shift: Array  # (B,) location form: the same times delta, which is taken off
    quadratic: Array  # (B,) location form: E[1/sigma^2] phi1^2 / phi2; otherwise kappa phi, the exposure


@dataclass(frozen=True)
class Family(ABC):
    """One additive exponential dispersion family; stateless."""

    name: ClassVar[str]
    domain: ClassVar[tuple[float, float]] = (-np.inf, np.inf)  # open interval of theta
    learns_dispersion: ClassVar[bool] = True  # kappa is learned unless it is not identified or given
    discrete: ClassVar[bool] = False  # whether values are counts
    needs_values: ClassVar[bool] = False  # statistics are kept by distinct value of y
    whole_dispersion: ClassVar[bool] = False  # the dispersion is a number of trials
    unit_power: ClassVar[float | None] = None  # the dispersion of s·y is s^power that of y; None: counts have no units
    location: ClassVar[bool] = False  # values are a mean plus noise, whose variance the linkage scales
    typical: ClassVar[float] = 2.0  # mean of a value at kappa = 1 in simulations
    basis: ClassVar[tuple[str, ...]] = ("cells", "psi")  # names of the statistics: "cells", the functions, "psi"
    conjugate: ClassVar[Conjugate | None] = None

    @abstractmethod
    def log_partition(self, theta: Numbers) -> Array:
        """Return the cumulant function at theta (paper: Psi)."""

    @abstractmethod
    def log_base(self, y: Numbers, x: Numbers) -> Array:
        """Return log h(y, x); -inf off the support."""

    @abstractmethod
    def mean(self, theta: Numbers, x: Numbers) -> Array:
        """Return E[y] = x Psi'(theta)."""

    @abstractmethod
    def variance(self, theta: Numbers, x: Numbers) -> Array:
        """Return Var[y] = x Psi''(theta)."""

    @abstractmethod
    def natural(self, slope: float) -> float:
        """Return the theta at which Psi'(theta) is `slope`."""

    @abstractmethod
    def sample(self, theta: Numbers, x: Numbers, rng: np.random.Generator) -> Array:
        """Draw one y for each (theta, x)."""

    @abstractmethod
    def peak(self, y: Numbers, e_psi: Numbers) -> Array:
        """Return the x > 0 (or the limit 0) where ``expected_log(y, ., e_psi, x)`` is largest.

        The function is unimodal in x, so clipping the peak to a table's range gives the supremum over
        the table (theory.md, Count posterior).
        """

    @abstractmethod
    def slopes(self, x: Array) -> Array:
        """Return the coefficients (V, B) of the statistics in the expected log density at dispersions x (B,)."""

    def functions(self, y: Array) -> tuple[Array, ...]:
        """Return the functions of a value that `slopes` multiplies, between the constant 1 and E[Psi]."""
        return ()

    def constant(self, y: Array) -> Array:
        """Return the part of the log base that depends on the value alone."""
        return np.zeros_like(y)

    def tables(self, dispersion: float, phi1: Array, delta: Array, phi2: Array, moves: bool) -> CellTables:
        """Return what kernels read of the bins; `moves`: statistics are those of a location that moves."""
        x = dispersion * phi2
        return CellTables(self.slopes(x), np.zeros_like(x), np.zeros_like(x), x)

    def objective(self, stats: Statistics, x: Array) -> Array:
        """Return, for each bin, the sum of q(n) E[log p] as a function of its dispersion x.

        Terms that do not depend on x are left out; a bin without mass contributes 0.
        """
        value = np.einsum("vb,vb->b", stats.vectors, self.slopes(x))
        if self.needs_values:
            values, mass = stats.values_and_masses
            seen = np.where(mass > 0, self.log_base(values[:, None], x), 0.0)
            value = value + (mass * seen).sum(axis=0)
        return value

    @abstractmethod
    def derivatives(self, stats: Statistics, x: Array) -> tuple[Array, Array]:
        """Return the first and second derivative of :meth:`objective` with respect to x, for each bin."""

    def reduced(self, stats: Statistics, scale: Array, shift: Array) -> Statistics:
        """Return statistics whose only unknowns are the dispersions of the bins, given their location tables."""
        return stats

    def weighted_residual(self, stats: Statistics, table: Array) -> float | None:
        """Return sum R / phi2, where the best dispersion follows from it in closed form, else None."""
        return None

    def log_density(self, y: Numbers, theta: Numbers, x: Numbers) -> Array:
        """Return log p(y | theta, x)."""
        return self.expected_log(y, theta, self.log_partition(theta), x)

    def expected_log(self, y: Numbers, e_theta: Numbers, e_psi: Numbers, x: Numbers) -> Array:
        """Return E[log p(y | theta, x)] given E[theta] and E[Psi(theta)]."""
        y, x = np.asarray(y, dtype=float), np.asarray(x, dtype=float)
        return y * np.asarray(e_theta) - x * np.asarray(e_psi) + self.log_base(y, x)

    def statistic_names(self, mean_linkage: bool = False) -> tuple[str, ...]:
        """Return the names of what :meth:`statistics` returns."""
        return self.basis

    def statistics(self, y: Numbers, first: Numbers, second: Numbers, mean_linkage: bool = False) -> tuple[Array, ...]:
        """Return the per-cell statistics b_v, whose sums weighted by q(n) are the n-vectors.

        Parameters
        ----------
        y : ndarray
            Values.
        first, second : arrays
            E[theta] and E[Psi(theta)]; for the Gaussian E[mu] and E[mu^2].
        mean_linkage : bool
            Whether the location tables are learned (Gaussian only).
        """
        y, second = np.broadcast_arrays(np.asarray(y, dtype=float), np.asarray(second, dtype=float))
        return np.ones_like(y), *self.functions(y), second.copy()

    def collect(
        self,
        y: Numbers,
        first: Numbers,
        second: Numbers,
        weights: Numbers,
        mean_counts: Numbers = 0.0,
        mean_linkage: bool = False,
    ) -> Statistics:
        """Sum the statistics of a few cells; `weights` (cells, N) holds q(n), `mean_counts` E[n]."""
        q = np.asarray(weights, dtype=float)
        basis = self.statistics(y, first, second, mean_linkage)
        vectors = np.stack([b @ q for b in basis])
        distinct = by_value = None
        if self.needs_values:
            distinct, where = np.unique(np.asarray(y, dtype=float), return_inverse=True)
            by_value = np.zeros((distinct.size, q.shape[1]))
            np.add.at(by_value, where, q)
        names = self.statistic_names(mean_linkage)
        return Statistics(names, vectors, distinct, by_value, float(np.sum(mean_counts)))

    def check_values(self, values: Numbers) -> None:
        """Raise ValueError if some value cannot come from this family."""
        array = np.asarray(values, dtype=float)
        self._refuse(array, ~np.isfinite(array), "finite numbers", "drop those cells: absent means missing")

    def _refuse(self, array: Array, wrong: npt.NDArray[np.bool_], wanted: str, remedy: str) -> None:
        """Raise ValueError naming the first offending value."""
        if np.any(wrong):
            offender = float(array[wrong].flat[0])
            raise ValueError(f"values contains {offender:g}, but the {self.name} family takes {wanted}; {remedy}")


class PositiveFamily(Family):
    """Families on y > 0."""

    def check_values(self, values: Numbers) -> None:
        super().check_values(values)
        array = np.asarray(values, dtype=float)
        self._refuse(array, array <= 0, "values above zero", "drop or shift them, or use family='gaussian'")


class CountFamily(Family):
    """Families on y = 0, 1, 2, ..."""

    discrete: ClassVar[bool] = True

    def check_values(self, values: Numbers) -> None:
        super().check_values(values)
        array = np.asarray(values, dtype=float)
        self._refuse(array, array < 0, "counts 0, 1, 2, ...", "drop or shift them, or use family='gaussian'")
        self._refuse(array, array != np.floor(array), "integers", "round them, or use family='gaussian'")


def on_support(y: Array, inside: npt.NDArray[np.bool_], formula: Callable[[Array], Array]) -> Array:
    """Evaluate a log density where y is inside the support, -inf elsewhere."""
    safe = np.where(inside, y, 1.0)
    return np.where(inside, formula(safe), -np.inf)


def is_count(y: Array) -> npt.NDArray[np.bool_]:
    return (y >= 0) & (y == np.floor(y))


def above_one(b: float, numerator: float) -> float:
    """Return numerator / (b - 1), or infinity: a moment that exists only where b > 1."""
    return numerator / (b - 1.0) if b > 1.0 else np.inf
