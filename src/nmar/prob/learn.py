"""The M-step of the shared parameters: linkage and dispersion from n-vectors (theory.md, M-steps; Control).

Enters: a linkage, a family, a dispersion (sigma^2 of the Gaussian, kappa otherwise) and the
:class:`~nmar.prob.statistics.Statistics` of a half sweep, taken while q(n) is held.
Leaves: the linkage and dispersion that maximise :func:`objective`, which never falls.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nmar.prob.families.base import Family
from nmar.prob.learn_dispersion import PRIOR_RATE, log_prior_dispersion, value_at
from nmar.prob.learn_linkage import learn_mean
from nmar.prob.linkage.base import Linkage
from nmar.prob.statistics import Statistics

__all__ = ["event_rate", "log_prior_dispersion", "objective", "update"]

ROUNDS = 200  # most alternations between the spread and the location tables
GAIN = 1e-12  # relative gain of the objective below which they stop


def objective(linkage: Linkage, family: Family, dispersion: float, stats: Statistics) -> float:
    """Return what :func:`update` maximises: sum of q(n) E[log p], and the log priors.

    Terms that depend on neither the linkage nor the dispersion are left out.
    """
    reduced = _reduce(linkage, family, stats)
    value = value_at(family, reduced, linkage.bin_table(stats.size), dispersion)
    return value + linkage.log_prior()


def update(
    linkage: Linkage, family: Family, dispersion: float, stats: Statistics, learn_dispersion: bool = True
) -> tuple[Linkage, float]:
    """Return the linkage and the dispersion that maximise :func:`objective`.

    Parameters
    ----------
    linkage : Linkage
        Present linkage; one that has not been started is started.
    family : Family
        Family of the values.
    dispersion : float
        Present sigma^2 (Gaussian) or kappa; unchanged for the Poisson and the binomial.
    stats : Statistics
        n-vectors over the linkage's bins.
    learn_dispersion : bool
        False: keep the dispersion (e.g. where it has its own posterior).

    Returns
    -------
    linkage : Linkage
    dispersion : float
    """
    linkage.supports(family)
    if linkage.learn is None:
        linkage = linkage.start()
    if linkage.learns_mean and stats.names != family.statistic_names(mean_linkage=True):
        raise ValueError(f"stats holds {stats.names}; collect them with mean_linkage=True")
    before = value = objective(linkage, family, dispersion, stats)
    best = linkage, dispersion
    for _ in range(ROUNDS):
        reduced = _reduce(linkage, family, stats)
        linkage, dispersion = linkage.learn_spread(family, dispersion, reduced, learn_dispersion)
        if linkage.learns_mean:
            linkage = learn_mean(linkage, dispersion, stats)
        reached = objective(linkage, family, dispersion, stats)
        if not linkage.learns_mean or reached - value <= GAIN * abs(value):
            break
        value = reached
    return (linkage, dispersion) if reached >= before else best


def _reduce(linkage: Linkage, family: Family, stats: Statistics) -> Statistics:
    """Return statistics whose only unknowns are the dispersions of the bins."""
    reduced = family.reduced(stats, *linkage.mean_tables(stats.size))
    return _positive(reduced) if family.location else reduced


def _positive(stats: Statistics) -> Statistics:
    """Return the statistics with no sum of squares below 0: rounding is taken off, and refused where it is large."""
    cells, residual = stats.vectors
    if residual.min() >= 0.0:
        return stats
    if residual.min() < -PRIOR_RATE:  # more than the prior of sigma^2 holds: there would be no best table
        raise FloatingPointError(
            f"a sum of squared residuals is {residual.min():.3g}: the square of a value is so large that rounding takes"
            " the rest; check the data for outliers and drop or clip them, or use dtype='float64', not 'float32'"
        )
    return replace(stats, vectors=np.stack([cells, np.maximum(residual, 0.0)]))


def event_rate(mean_count: float, thinning: float = 1.0) -> float:
    """Return the rate of recorded events at which an observed cell has this mean count (theory.md, Control).

    The root of rate / (1 - exp(-rate)) + (thinning - 1) rate = mean. A mean of 1 or less gives a tiny positive rate,
    since a rate of 0 could never be left again.

    Examples
    --------
    >>> round(event_rate(1.5819767068693265), 12)
    1.0
    """
    excess, others = float(mean_count) - 1.0, float(thinning) - 1.0
    rate = excess / (0.5 + others)  # the left side is convex and above 1 + rate / 2: Newton falls to the root
    if not rate > 1e-8:
        return 1e-8
    for _ in range(60):
        value, slope = _truncated_excess(rate)
        step = (value + others * rate - excess) / (slope + others)
        rate -= step
        if abs(step) <= 1e-15 * rate:
            break
    return rate


def _truncated_excess(rate: float) -> tuple[float, float]:
    """Return E[n] - 1 of a zero-truncated Poisson and its derivative, without cancellation at small rates."""
    if rate < 0.1:  # rate / (1 - exp(-rate)) = 1 + rate / 2 + sum of Bernoulli terms
        square = rate * rate
        value = rate / 2 + square / 12 - square**2 / 720 + square**3 / 30240 - square**4 / 1209600
        slope = 0.5 + rate / 6 - rate**3 / 180 + rate**5 / 5040 - rate**7 / 151200
        return value, slope
    missing = float(np.exp(-rate))
    observed = -float(np.expm1(-rate))
    return rate / observed - 1, (observed - rate * missing) / observed**2
