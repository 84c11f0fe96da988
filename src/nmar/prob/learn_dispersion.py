"""The M-step of the dispersion at a given table phi2(n) (theory.md, M-steps).

Enters: n-vectors and a table over bins. Leaves: the best sigma^2 (Gaussian) or kappa under the
inverse-gamma prior, in closed form for the Gaussian and by a 1-d search in its logarithm otherwise.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from nmar.arrays import Array
from nmar.prob.families.base import Family
from nmar.prob.roots import log_root
from nmar.prob.statistics import Statistics

__all__ = ["PRIOR_RATE", "PRIOR_SHAPE", "best_dispersion", "first_dispersion", "log_prior_dispersion", "value_at"]

PRIOR_SHAPE = 1.01  # inverse gamma prior of the dispersion, a0
PRIOR_RATE = 1.0  # b0
LOG_KAPPA = (-7.0, 23.0)  # where a first kappa is looked for


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


def first_dispersion(family: Family, values: Array) -> float:
    """Return the kappa at which values that share one natural parameter are most probable; 1 where it is not learned.

    Kappa and the natural parameter are learned in turn, and the larger kappa the smaller their steps: from 1 a fit of
    values that hardly differ would need thousands of sweeps to get there.
    """
    if not family.learns_dispersion:
        return 1.0
    values = np.asarray(values, dtype=float)
    stats = family.collect(values, 0.0, 0.0, np.ones((len(values), 1)))
    mean, count = max(float(values.mean()), 1e-6), len(values)

    def loss(log_kappa: float) -> float:
        kappa = float(np.exp(log_kappa))
        theta = family.natural(mean / kappa)
        fit = count * (mean * theta - kappa * float(family.log_partition(theta)))
        return -(value_at(family, stats, np.ones(1), kappa) + fit)

    return float(np.exp(minimize_scalar(loss, bounds=LOG_KAPPA, method="bounded").x))
