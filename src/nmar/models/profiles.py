"""Profiles of clusters: a value of each line of the axis that is not clustered, for each cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nmar.arrays import Array
from nmar.prob.tree import LineRecord


@dataclass(frozen=True, eq=False)
class NormalProfile(LineRecord):
    """Profile values of the clusters for each line: q(m_gj) = N(mean, variance)."""

    mean: Array  # (n, G)
    variance: Array

    def blend(self, target: NormalProfile, step: float) -> NormalProfile:
        """Blend precision and precision × mean."""
        precision = (1.0 - step) / self.variance + step / target.variance
        right = (1.0 - step) * self.mean / self.variance + step * target.mean / target.variance
        return replace(self, mean=right / precision, variance=1.0 / precision)


@dataclass(frozen=True, eq=False)
class DesignedProfile(NormalProfile):
    """Profile values of lines with their covariates ``x`` (n, F)."""

    x: Array

    @property
    def variances(self) -> Array:
        """(n, G), under the name that other lines have for them."""
        return self.variance
