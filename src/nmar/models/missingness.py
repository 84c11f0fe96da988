"""Hierarchical Poisson factorization of which cells are observed (theory.md, Model; Bound and coordinate ascent).

    r_i ~ Ga(ρ, ϱ),  u_ik ~ Ga(η, r_i);   w_j ~ Ga(υ, ν),  v_jk ~ Ga(ζ, w_j);   n_ij ~ Po(Σ_k u_ik v_jk)

Both sides are the same object: one update serves rows and columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import psi

from nmar.data.cells import Cells
from nmar.kernels.layout import aligned
from nmar.kernels.spec import GammaTable, GammaUpdate, Kernels
from nmar.prob.factor import GammaFactor, Lines, gamma_divergence

Array = NDArray[Any]

SHAPE = 0.3  # of the prior of the weights, η = ζ, where it is not learned or where that starts
SHAPES = (1e-3, 1e2)  # between which it is learned

DERIVED = {"derived": True}  # fields that follow from the others: not written to files


@dataclass(frozen=True, eq=False)
class PatternSide:
    """The variational factors of one side of the pattern.

    The table (kernels: tabulate) follows from the weights: ``log_weights`` (n, K) E[log u], ``geometric`` (n, K)
    exp E[log u], and ``totals`` (n, 3). A half sweep computes it along with the weights, so that
    the next one need not. It is None where nobody has yet, and no part of a model file.
    """

    weights: GammaFactor  # q(u_ik) = Ga; paper α^u, β^u (columns: v)
    activity: GammaFactor  # q(r_i) = Ga; paper α^r, β^r (columns: w, popularity)
    log_weights: Array | None = field(default=None, metadata=DERIVED)
    geometric: Array | None = field(default=None, metadata=DERIVED)
    totals: Array | None = field(default=None, metadata=DERIVED)

    @property
    def table(self) -> tuple[Any, ...]:
        """What follows from the weights, or Nones."""
        return self.log_weights, self.geometric, self.totals

    def take(self, lines: Lines) -> PatternSide:
        """The chosen lines."""
        table = (None if part is None else part[lines] for part in self.table)
        return PatternSide(self.weights.take(lines), self.activity.take(lines), *table)

    def empty(self, empty: Callable[..., Array]) -> PatternSide:
        """A side like this one in uninitialised arrays, with its table."""
        (lines, factors), dtype = self.weights.alpha.shape, self.weights.alpha.dtype
        shape, rate, logs = (empty((lines, factors), dtype) for _ in range(3))
        geometric = aligned(lines, factors, dtype, empty)  # as kernels read it
        activity_shape, activity_rate = (empty((lines,), dtype) for _ in range(2))
        totals = empty((lines, 3), np.float64)
        weights, activity = GammaFactor(shape, rate), GammaFactor(activity_shape, activity_rate)
        return PatternSide(weights, activity, logs, geometric, totals)

    def bare(self) -> PatternSide:
        """The factors alone."""
        return PatternSide(self.weights, self.activity)

    def tabulated(self, kernels: Kernels) -> PatternSide:
        """The same side with its table."""
        if self.geometric is not None:
            return self
        return PatternSide(self.weights, self.activity, *kernels.tabulate(self.weights.alpha, self.weights.beta))


@dataclass(frozen=True)
class Pattern:
    """The law of the missingness pattern: K and the priors, the same for rows and columns.

    Parameters
    ----------
    factors : number of components K
    shape : prior shape of the weights; the paper's η = ζ
    activity_shape, activity_rate : prior of activities and popularities; the paper's ρ = υ and ϱ = ν
    learns : whether the prior shape of each side is learned; ``shape`` is where it starts
    """

    factors: int = 10
    shape: float = SHAPE
    activity_shape: float = 0.01
    activity_rate: float = 0.1
    learns: bool = False

    def as_in_paper(self, cells: Cells) -> Pattern:
        """The paper's prior shape η = ρ √(E[n]/K) / ϱ, E[n] from the density: tiny on sparse data."""
        count = -np.log1p(-min(cells.density, 1.0 - 1e-12))
        shape = self.activity_shape * np.sqrt(count / self.factors) / self.activity_rate
        return replace(self, shape=float(shape))

    def init(self, n_lines: int, degree: Array, density: float, rng: np.random.Generator) -> PatternSide:
        """A start for one side: weights near the scale that gives ``density``, larger for busier lines.

        ``degree`` (n_lines,) is the number of observed cells of each line. The random part breaks the symmetry
        between components.
        """
        rate = -np.log1p(-min(density, 0.999))
        busy = np.sqrt((degree + 0.5) / (np.mean(degree) + 0.5))
        level = np.sqrt(rate / self.factors) * busy[:, None]
        shape = self.shape + rng.gamma(5.0, 0.2, (n_lines, self.factors))
        weights = GammaFactor(shape, shape / (level * rng.gamma(20.0, 0.05, (n_lines, self.factors))))
        return PatternSide(weights, self.activity(weights))

    def activity(self, weights: GammaFactor) -> GammaFactor:
        """q(r): α^r = ρ + Kη, β^r = ϱ + Σ_k E[u_ik]."""
        dtype, total = weights.alpha.dtype, weights.mean.sum(axis=1, dtype=np.float64)
        shape = np.full(len(total), self._activity_shape, dtype)
        return GammaFactor(shape, (self.activity_rate + total).astype(dtype))

    @property
    def _activity_shape(self) -> float:
        return self.activity_shape + self.factors * self.shape

    def update(self, side: PatternSide, allocated: Array, exposure: Array, kernels: Kernels, new: PatternSide) -> None:
        """Coordinate update: α^u = η + Σ E[n]ϕ, β^u = E[r] + Σ_j E[v] (hidden cells taken out), then q(r).

        Parameters
        ----------
        allocated : (n, K)
            Σ_j E[n_ij] ϕ_ijk.
        exposure : (K,) or (n, K)
            Σ_j E[v_jk] over the cells that are observed or missing.
        new :
            Where the new side is written, with its table.
        """
        active, table, weights = side.activity.mean.astype(np.float64), GammaTable(*new.table), new.weights
        update = GammaUpdate(allocated, np.atleast_2d(exposure), active, self.shape)
        kernels.update_gamma(update, weights.alpha, weights.beta, table)
        new.activity.alpha[:] = self._activity_shape
        new.activity.beta[:] = self.activity_rate + table.totals[:, 2]

    def learned_shape(self, side: PatternSide) -> float:
        """η that maximises the bound given a side's factors, with log η ~ N(log SHAPE, 1).

        The root of nK(mean E[log r] + mean E[log u] − ψ(η)) η = log η − log SHAPE, by bisection: the left side less the
        right one falls in log η.
        """
        count = side.weights.alpha.size
        totals = side.weights.totals if side.totals is None else side.totals
        level = float(side.activity.log_mean.mean()) + float(totals[:, 1].sum()) / count
        low, high = np.log(SHAPES)
        for _ in range(60):
            middle = 0.5 * (low + high)
            eta = float(np.exp(middle))
            rising = count * eta * (level - float(psi(eta))) > middle - np.log(SHAPE)
            low, high = (middle, high) if rising else (low, middle)
        return float(np.exp(0.5 * (low + high)))

    def log_prior(self) -> float:
        """Log prior of a learned shape, 0 at its mode."""
        return -0.5 * float(np.log(self.shape / SHAPE)) ** 2 if self.learns else 0.0

    def divergence(self, side: PatternSide) -> float:
        """KL(u) + KL(r) of one side."""
        activity, totals = side.activity, side.weights.totals if side.totals is None else side.totals
        of_weights = gamma_divergence(totals, self.factors, self.shape, activity.mean, activity.log_mean)
        prior_rate = self.activity_rate
        return of_weights + activity.divergence(self.activity_shape, prior_rate, float(np.log(prior_rate)))
