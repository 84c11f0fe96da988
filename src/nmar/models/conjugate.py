"""Predictions where all cells share one natural parameter with a conjugate law (theory.md, Families)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nmar.arrays import Array
from nmar.models.predictive import BinTable
from nmar.prob.families import family
from nmar.prob.families.base import Conjugate, is_count


def conjugate(name: str) -> Conjugate:
    """The conjugate law of a family."""
    law = family(name).conjugate
    if law is None:
        raise ValueError(f"the {name} family has no conjugate law")
    return law


@dataclass(frozen=True, eq=False)
class ConjugatePredictive:
    """Cells of one shared θ: p(y | bin) = e^{h(y, κφ)} C(a + y, b + κφ) / C(a, b)."""

    name: str
    cells: int
    a: float
    b: float

    def log_density(self, y: Array, table: BinTable, plugin: bool) -> Array:
        """θ integrated out, or at its mean."""
        return self._log_at(y[:, None], table.dispersion * table.phi2, plugin)

    def _log_at(self, y: Array, x: Array, plugin: bool) -> Array:
        """log p(y) at dispersions x = κφ."""
        law, own = family(self.name), conjugate(self.name)
        if plugin:
            return law.log_density(y, own.theta(self.a, self.b), x)
        base = law.log_base(y, x)
        inside = np.isfinite(base)  # elsewhere the normaliser may not exist
        y, x = np.broadcast_arrays(y, x)
        rise = own.log_normaliser(self.a + np.where(inside, y, 0.0), self.b + x)
        return np.where(inside, base + rise - own.log_normaliser(self.a, self.b), -np.inf)

    def ceiling(self, y: Array, table: BinTable, limits: tuple[float, float], plugin: bool) -> Array:
        """A probability is at most 1; a density has one peak in the dispersion, clipped to the table's range."""
        law = family(self.name)
        if law.discrete:
            return np.where(is_count(y), 0.0, -np.inf)
        safe = np.where(y > 0.0, y, 1.0)
        at_mean = law.peak(safe, law.log_partition(conjugate(self.name).theta(self.a, self.b)))
        best = at_mean if plugin else conjugate(self.name).peak(self.a, self.b, safe, at_mean)
        x = np.clip(best, table.dispersion * limits[0], table.dispersion * limits[1])
        return np.where(y > 0.0, self._log_at(safe, x, plugin), -np.inf)

    def moments(self, table: BinTable) -> tuple[Array, Array]:
        """Mean κφ E[Ψ'] and variance κφ E[Ψ''] + (κφ)² Var[Ψ'], θ's own uncertainty included."""
        x = table.dispersion * table.phi2
        own = conjugate(self.name)
        noise, unsure = own.spread(self.a, self.b)
        mean, variance = x * own.slope(self.a, self.b), x * noise + x**2 * unsure
        shape = (self.cells, len(x))
        return np.broadcast_to(mean, shape), np.broadcast_to(variance, shape)

    def cumulative(self, y: Array, table: BinTable) -> None:
        """No closed form for all families: intervals come from draws."""

    def sample(self, bins: Array, table: BinTable, rng: np.random.Generator) -> Array:
        """Draw θ, then y."""
        theta = conjugate(self.name).draw(self.a, self.b, bins.shape, rng)
        return family(self.name).sample(theta, table.dispersion * table.phi2[bins], rng)
