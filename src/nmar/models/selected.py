"""What a cell's value is, given that it was seen or that it was missed, where the value decides (models/mechanism.py).

Enters: the law of a cell's value whether seen or not, and its log rate of being seen at value 0. Leaves: the same
questions answered given what happened, by Gauss–Legendre quadrature on panels that are narrow around the mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from nmar.arrays import Array
from nmar.kernels.predict import log_student
from nmar.models.predictive import BinTable, NormalPredictive
from nmar.prob.detection import MOST, log_missing, seen

FARTHEST = 40.0  # standardised value at which the last panel ends
PANELS = 64
_GIVEN = np.polynomial.legendre.leggauss(4)
POINT, SHARE = 0.5 * (_GIVEN[0] + 1.0), 0.5 * _GIVEN[1]  # on [0, 1]
EDGES = np.sinh(np.linspace(-np.arcsinh(FARTHEST), np.arcsinh(FARTHEST), PANELS + 1))
WIDTH = np.diff(EDGES)
NODES = (EDGES[:-1, None] + WIDTH[:, None] * POINT).ravel()
LOG_SHARE = np.log((WIDTH[:, None] * SHARE).ravel())


@dataclass(frozen=True, eq=False)
class Selected:
    """A normal or Student value of cells of one component, given that it was seen or that it was missed."""

    value: NormalPredictive  # the value of any cell
    log_rate: Array  # (cells,) a0 + α_i + β_j
    slope: float  # Γ
    over: float  # u, by how much counts vary more than Poisson ones
    missed: bool  # given that it is missing; else that it is observed

    def _log_chance(self, y: Array) -> Array:
        """log P(what happened | y) of cells (cells, …)."""
        rate = self.log_rate.reshape(-1, *(1,) * (y.ndim - 1)) + self.slope * y
        if self.missed:
            return log_missing(np.exp(np.minimum(rate, MOST)), self.over)
        return seen(rate, self.over).log_probability

    def _center(self, table: BinTable) -> tuple[Array, Array]:
        """Mean and scale of the value of each cell, (cells, 1)."""
        mean, variance = self.value._parts(table, False)
        return mean[:, 0], np.sqrt(variance[:, 0])

    def _panels(self, table: BinTable) -> tuple[Array, Array]:
        """Probability of what happened, its log (cells,), and shares of the nodes (cells, nodes)."""
        mean, scale = self._center(table)
        log = self._log_at(np.broadcast_to(NODES, (len(mean), len(NODES))), mean, scale) + LOG_SHARE
        total = logsumexp(log, axis=1)
        return total, np.exp(log - total[:, None])

    def _log_at(self, z: Array, mean: Array, scale: Array) -> Array:
        """log of density times chance at standardised values (cells, points), but for the scale."""
        freedom = None if self.value.freedom is None else self.value.freedom[:, None]
        return log_student(z**2, np.ones((1, 1)), freedom) + self._log_chance(mean + scale * z)

    def log_probability(self, table: BinTable) -> Array:
        """log P(what happened), (cells,)."""
        return self._panels(table)[0]

    def log_density(self, y: Array, table: BinTable, plugin: bool) -> Array:
        """log p(y | what happened), the posterior integrated out, or the mean of μ plugged in."""
        of = replace(self, value=self.value.at_mean()) if plugin else self
        found = self.value.log_density(y, table, plugin) + self._log_chance(y)[:, None]
        return np.asarray(found - of.log_probability(table)[:, None])

    def ceiling(self, y: Array, table: BinTable, limits: tuple[float, float], plugin: bool) -> Array:
        """That of any cell, over the probability of what happened."""
        return np.asarray(self.value.ceiling(y, table, limits, plugin) - self.log_probability(table))

    def moments(self, table: BinTable) -> tuple[Array, Array]:
        """Mean and variance, (cells, 1)."""
        (mean, scale), (_, share) = self._center(table), self._panels(table)
        first = share @ NODES
        second = share @ NODES**2 - first**2
        return mean + scale * first[:, None], scale**2 * second[:, None]

    @cached_property
    def _known(self) -> dict[int, tuple[Array, Array]]:
        return {}

    def _below(self, table: BinTable) -> tuple[Array, Array]:
        """log P(what happened), and the distribution function at the edges of the panels (cells, panels + 1)."""
        if id(table) not in self._known:  # asked for at many values
            total, share = self._panels(table)
            parts = share.reshape(len(total), PANELS, -1).sum(axis=2)
            self._known[id(table)] = total, np.hstack([np.zeros((len(total), 1)), np.cumsum(parts, axis=1)])
        return self._known[id(table)]

    def cumulative(self, y: Array, table: BinTable) -> Array:
        """P(Y ≤ y | what happened), (cells, 1)."""
        mean, scale = self._center(table)
        total, below = self._below(table)
        z = np.clip((y[:, None] - mean) / scale, EDGES[0], EDGES[-1])
        panel = np.clip(np.searchsorted(EDGES, z[:, 0], side="right") - 1, 0, PANELS - 1)
        width = z[:, 0] - EDGES[panel]
        at = EDGES[panel][:, None] + width[:, None] * POINT
        part = np.exp(self._log_at(at, mean, scale) - total[:, None]) @ SHARE * width
        return np.clip(below[np.arange(len(panel)), panel] + part, 0.0, 1.0)[:, None]

    def sample(self, bins: Array, table: BinTable, rng: np.random.Generator) -> Array:
        """Draws by the distribution function, which is taken to be linear within a panel."""
        mean, scale = self._center(table)
        below = self._below(table)[1]
        out = np.empty(bins.shape)
        for cell, edges in enumerate(below):
            out[cell] = np.interp(rng.random(bins.shape[1]) * edges[-1], edges, EDGES)
        return mean + scale * out
