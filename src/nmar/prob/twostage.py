"""The linkage of the two-stage baseline: a Gaussian whose log variance is a quadratic in log Λ, Λ fitted before.

Heteroscedastic, but without a latent count (theory.md, Control). It runs through the same half sweep: the *bin* of a
cell, among quantiles of log E[Λ], is known instead of latent, so q is one-hot and the M-step is a fit of the quadratic
to the bins' residual sums.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import minimize

from nmar.arrays import Array
from nmar.prob.families.base import Family
from nmar.prob.learn_dispersion import PRIOR_RATE, PRIOR_SHAPE
from nmar.prob.linkage.base import Linkage
from nmar.prob.statistics import Statistics

BINS = 64


@dataclass(frozen=True)
class Quadratic(Linkage):
    """φ of a bin is exp(b1 z + b2 z²), z the bin's standardised log rate."""

    name: ClassVar[str] = "two-stage"
    edges: tuple[float, ...] = ()  # log rates between bins, one fewer than there are bins
    places: tuple[float, ...] = ()  # standardised log rate z of each bin
    slope: float = 0.0  # coefficients b1 and b2
    bend: float = 0.0

    @property
    def bins(self) -> Any:
        """The bin of a cell is known."""
        return "known"

    @property
    def size(self) -> int:
        """Number of bins."""
        return len(self.places)

    @property
    def limits(self) -> tuple[float, float]:
        """Range of φ."""
        table = self.table(self.size)
        return float(table.min()), float(table.max())

    def start(self, sd: float = 1.0) -> Self:
        """Nothing to fill in."""
        return replace(self, learn=True)

    def table(self, n: int) -> Array:
        """φ of each bin."""
        z = np.array(self.places)
        return np.exp(np.clip(self.slope * z + self.bend * z**2, -20.0, 20.0))[:n]

    def group(self, rate: Array) -> Array:
        """Bin of each cell from its rate."""
        return np.searchsorted(np.array(self.edges), np.log(rate)).astype(np.int32)

    def expected(self, rate: Any) -> Array:
        """φ at a rate."""
        return self.table(self.size)[self.group(np.asarray(rate))]

    @property
    def parameters(self) -> int:
        """b1 and b2."""
        return 2

    def learn_spread(
        self, family: Family, dispersion: float, stats: Statistics, learn_dispersion: bool
    ) -> tuple[Linkage, float]:
        """b1, b2 and, where it is learned, σ² that maximise the expected log likelihood of the bins' residuals."""
        cells, residual = stats.vectors
        z = np.array(self.places)
        design = np.stack([np.ones_like(z), z, z**2])
        first = np.array([np.log(dispersion), self.slope, self.bend])
        held = 0 if learn_dispersion else 1  # numbers of b that stay

        def loss(free: Array) -> tuple[float, Array]:
            b = np.append(first[:held], free)
            log_variance = np.clip(b @ design, -60.0, 60.0)
            ratio = residual * np.exp(-log_variance)
            prior = PRIOR_RATE * np.exp(-b[0])  # inverse gamma on σ² = e^{b0}
            value = 0.5 * float(cells @ log_variance + ratio.sum()) + (PRIOR_SHAPE + 1.0) * b[0] + prior
            slope = 0.5 * design @ (cells - ratio)
            slope[0] += PRIOR_SHAPE + 1.0 - prior
            return value, slope[held:]

        found = minimize(loss, first[held:], jac=True, method="BFGS")
        if not found.fun < loss(first[held:])[0]:
            return self, dispersion
        best = np.append(first[:held], found.x)
        return replace(self, slope=float(best[1]), bend=float(best[2])), float(np.exp(best[0]))


def quadratic(rates: Array) -> Quadratic:
    """Bins from the quantiles of the training cells' rates, with a flat start."""
    logs = np.log(rates)
    edges = np.unique(np.quantile(logs, np.linspace(0.0, 1.0, BINS + 1)[1:-1]))
    which = np.searchsorted(edges, logs)
    occupied = np.bincount(which, minlength=len(edges) + 1)
    centers = np.bincount(which, weights=logs, minlength=len(edges) + 1) / np.maximum(occupied, 1)
    z = (centers - logs.mean()) / (logs.std() or 1.0)
    return Quadratic(edges=tuple(edges.tolist()), places=tuple(z.tolist()))
