"""The M-step of the dispersion at a given table phi2(n) (theory.md, M-steps).

Enters: n-vectors and a table over bins. Leaves: the best sigma^2 (Gaussian) or kappa under the
inverse-gamma prior, in closed form for the Gaussian and by a 1-d search in its logarithm otherwise.
"""

from __future__ import annotations

import numpy as np

from nmar.prob.family_base import Family, log_root
from nmar.prob.statistics import Array, Statistics

__all__ = ["PRIOR_RATE", "PRIOR_SHAPE", "best_dispersion", "log_prior_dispersion", "value_at"]

PRIOR_SHAPE = 1.01  # inverse gamma prior of the dispersion, a0
PRIOR_RATE = 1.0  # b0


def log_prior_dispersion(family: Family, dispersion: float) -> float:
    """Return the log inverse-gamma prior of the dispersion, up to a constant; 0 where it is not learned."""
    if not family.learns_dispersion:
        return 0.0
    return float(-(PRIOR_SHAPE + 1) * np.log(dispersion) - PRIOR_RATE / dispersion)


def value_at(family: Family, stats: Statistics, table: Array, dispersion: float) -> float:
    """Return the summed E[log p] as a function of the table and the dispersion, with the latter's prior."""
    data = family.objective(stats, dispersion * table).sum()
    return float(data) + log_prior_dispersion(family, dispersion)


def best_dispersion(family: Family, stats: Statistics, table: Array, present: float) -> float:
    """Return the dispersion that maximises :func:`value_at`; never worse than `present`."""
    if not family.learns_dispersion:
        return present
    weighted = family.weighted_residual(stats, table)
    if weighted is not None:  # sigma^2 = (2 b0 + sum R / phi2) / (2 a0 + 2 + sum Q)
        return (2 * PRIOR_RATE + weighted) / (2 * PRIOR_SHAPE + 2 + stats.cells)

    def slope(kappa: Array) -> tuple[Array, Array]:
        """Derivative with respect to log kappa, and its derivative with respect to kappa."""
        first, second = family.derivatives(stats, kappa * table)
        value = kappa * (table @ first) - (PRIOR_SHAPE + 1) + PRIOR_RATE / kappa
        change = table @ first + kappa * (table**2 @ second) - PRIOR_RATE / kappa**2
        return np.asarray(value), np.asarray(change)

    found = float(log_root(slope, np.asarray(present)))
    better = value_at(family, stats, table, found) > value_at(family, stats, table, present)
    return found if better else present
