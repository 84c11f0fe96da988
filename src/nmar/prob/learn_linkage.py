"""The M-steps of the linkages: the parameter c, the free table, the location tables (theory.md, M-steps).

Enters: a linkage, a dispersion and n-vectors. Leaves: a better linkage, and the dispersion that goes with it.
Each function maximises its block of the joint objective exactly and never returns a worse point.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solveh_banded
from scipy.optimize import brentq, minimize_scalar

from nmar.arrays import Array
from nmar.prob.families.base import Family
from nmar.prob.learn_dispersion import PRIOR_RATE, PRIOR_SHAPE, best_dispersion, log_prior_dispersion, value_at
from nmar.prob.statistics import Statistics

if TYPE_CHECKING:
    from nmar.prob.linkage import Curve, Free
    from nmar.prob.linkage.base import Linkage

__all__ = ["learn_curve", "learn_free", "learn_mean"]

SMALLEST = 1e-12  # Newton step
SETTLED = 1e-13  # relative gain promised by a Newton step after which no other is made
GRID = 33  # points of the scan over c; floored tables have several modes


class _Profile:
    """The objective as a function of c, the dispersion at its best for each c."""

    def __init__(
        self, linkage: Curve, family: Family, dispersion: float, stats: Statistics, learn_dispersion: bool
    ) -> None:
        self.linkage, self.family, self.stats = linkage, family, stats
        self.dispersion, self.learn_dispersion = dispersion, learn_dispersion
        self.points: dict[float, tuple[float, float, float]] = {}  # c: value, slope, dispersion

    def value(self, c: float) -> float:
        """Return the objective."""
        return self._at(float(c))[0]

    def slope(self, c: float) -> float:
        """Return its derivative; the dispersion is at its best, so its own change does not enter."""
        return self._at(float(c))[1]

    def best(self) -> float:
        """Return the best c seen."""
        return max(self.points, key=self.value)

    def _at(self, c: float) -> tuple[float, float, float]:
        if c not in self.points:
            trial = replace(self.linkage, c=c)
            table = trial.bin_table(self.stats.size)
            dispersion = self.dispersion
            if self.learn_dispersion:
                near = min(self.points, key=lambda other: abs(other - c), default=None)
                start = dispersion if near is None else self.points[near][2]
                dispersion = best_dispersion(self.family, self.stats, table, start)
            value = value_at(self.family, self.stats, table, dispersion) + trial.log_prior()
            first, _ = self.family.derivatives(self.stats, dispersion * table)
            slope = dispersion * float(first @ trial.slope(self.stats.size)) - c / trial.prior_width**2
            self.points[c] = value, slope, dispersion
        return self.points[c]


def learn_curve(
    linkage: Curve, family: Family, dispersion: float, stats: Statistics, learn_dispersion: bool
) -> tuple[Linkage, float]:
    """Maximise over c and the dispersion: a scan, then the root of the slope beside its best point."""
    profile = _Profile(linkage, family, dispersion, stats, learn_dispersion)
    present = linkage.parameter
    grid = np.union1d(linkage.scan(GRID), present)
    for c in sorted(grid, key=lambda c: abs(c - present)):
        profile.value(c)
    peak = profile.best()
    slope = profile.slope(peak)
    place = int(np.searchsorted(grid, peak)) + (1 if slope > 0 else -1)
    if slope != 0 and 0 <= place < grid.size:
        _refine(profile, peak, float(grid[place]))
    c = profile.best()
    return replace(linkage, c=c), profile.points[c][2]


def _refine(profile: _Profile, peak: float, beside: float) -> None:
    """Find the maximum between the best point of the scan and the neighbour its slope points to."""
    before = profile.value(peak)
    if profile.slope(peak) * profile.slope(beside) < 0:
        root = brentq(profile.slope, peak, beside, xtol=1e-14, rtol=1e-14)
        if profile.value(root) > before:
            return
    interval = sorted((peak, beside))
    options = {"xatol": 1e-9}
    minimize_scalar(lambda c: -profile.value(c), bounds=interval, method="bounded", options=options)


class Chain:
    """The objective of a free table over (log dispersion, log phi2(2..levels)), with derivatives.

    The logarithm of a bin's dispersion is a sum of some of these numbers: ``design`` says of which.
    """

    def __init__(self, linkage: Free, family: Family, stats: Statistics, dispersion: float, learn: bool):
        self.linkage, self.family, self.stats = linkage, family, stats
        self.dispersion, self.own = dispersion, int(learn)
        table = np.eye(linkage.levels)[:, 1:]
        self.design = np.hstack([np.ones((linkage.levels, self.own)), table])

    @property
    def start(self) -> Array:
        """Where the linkage and the dispersion stand now."""
        return np.concatenate([np.log([self.dispersion])[: self.own], np.log(self.linkage.spread)[1:]])

    def split(self, point: Array) -> tuple[float, Array]:
        """Return the logarithms: of the dispersion, and of the table, whose first entry is 0."""
        log_dispersion = float(point[0]) if self.own else float(np.log(self.dispersion))
        return log_dispersion, np.append(0.0, point[self.own :])

    def bins(self, point: Array) -> Array:
        """Return the dispersion of every bin."""
        return np.exp(self.design @ point) * (1.0 if self.own else self.dispersion)

    def value(self, point: Array) -> float:
        """Return the objective."""
        log_dispersion, table = self.split(point)
        steps = np.diff(table)
        prior = self.linkage.strength * float(np.sum(-steps - np.expm1(-steps)))
        prior += log_prior_dispersion(self.family, np.exp(log_dispersion))
        return float(self.family.objective(self.stats, self.bins(point)).sum()) + prior

    def curvature(self, point: Array) -> tuple[Array, Array]:
        """Return the gradient and the Hessian."""
        x = self.bins(point)
        first, second = self.family.derivatives(self.stats, x)
        slope, bend = x * first, x * first + x * x * second  # with respect to log x
        gradient, hessian = self.design.T @ slope, self.design.T @ (bend[:, None] * self.design)
        log_dispersion, table = self.split(point)
        if self.own:
            weight = PRIOR_RATE * np.exp(-log_dispersion)
            gradient[0] += weight - (PRIOR_SHAPE + 1)
            hessian[0, 0] -= weight
        self._add_chain(gradient, hessian, table)
        return gradient, hessian

    def _add_chain(self, gradient: Array, hessian: Array, table: Array) -> None:
        """Add the derivatives of the chain prior of log phi2."""
        pull = self.linkage.strength * np.exp(-np.diff(table))
        push = pull - self.linkage.strength  # derivative of each factor of the chain by its step
        here = self.own + np.arange(len(pull))
        gradient[here] += push
        gradient[here[:-1]] -= push[1:]
        hessian[here, here] -= pull
        hessian[here[:-1], here[:-1]] -= pull[1:]
        hessian[here[:-1], here[1:]] += pull[1:]
        hessian[here[1:], here[:-1]] += pull[1:]


def learn_free(
    linkage: Free, family: Family, dispersion: float, stats: Statistics, learn_dispersion: bool
) -> tuple[Linkage, float]:
    """Maximise jointly over the free table and the dispersion, by damped Newton steps in their logarithms.

    At the optimum every entry satisfies the quadratic of theory.md, M-steps (Gaussian and Poisson); visiting
    the entries one by one converges to the same point, but takes hundreds of rounds where bins are empty.
    """
    chain = Chain(linkage, family, stats, dispersion, learn_dispersion and family.learns_dispersion)
    found = _climb(chain, chain.start)
    if chain.value(found) <= chain.value(chain.start):
        return linkage, dispersion
    log_dispersion, table = chain.split(found)
    better = replace(linkage, values=tuple(np.exp(table).tolist()))
    return better, float(np.exp(log_dispersion)) if chain.own else dispersion


def _climb(chain: Chain, point: Array) -> Array:
    """Newton's method with Levenberg damping: only steps that do not lower the objective are taken."""
    value, damping = chain.value(point), 0.0
    for _ in range(200):
        gradient, hessian = chain.curvature(point)
        step, damping = _newton_step(gradient, hessian, damping)
        trial = chain.value(point + step)
        while not trial >= value - 1e-14 * abs(value):
            if float(np.abs(step).max()) < SMALLEST:  # nothing nearby is better, or the objective is no number
                return point
            step, damping = _newton_step(gradient, hessian, _more(damping, hessian))
            trial = chain.value(point + step)
        point, value = point + step, max(trial, value)
        if float(step @ gradient) <= SETTLED * abs(value):  # the next step would square what is left
            break
        damping = 0.0 if damping < 1e-12 * float(np.abs(hessian).max()) else damping / 8
    return point


def _more(damping: float, hessian: Array) -> float:
    return max(4 * damping, 1e-3 * float(np.abs(hessian).max()), 1e-8)


def _newton_step(gradient: Array, hessian: Array, damping: float) -> tuple[Array, float]:
    """A step of at most 2 in every coordinate, and the damping at which the matrix was positive definite."""
    while True:
        try:
            factor = cho_factor(-hessian + damping * np.eye(gradient.size))
            break
        except LinAlgError:
            damping = _more(damping, hessian)
    step = cho_solve(factor, gradient)
    return step * min(1.0, 2.0 / float(np.abs(step).max(initial=1e-300))), damping


def learn_mean(linkage: Linkage, dispersion: float, stats: Statistics) -> Linkage:
    """Maximise over the location table, delta(n) or phi1(n), at a given table phi2(n) and variance."""
    scale, shift = linkage.mean_tables(stats.size)
    variance = dispersion * linkage.bin_table(stats.size)
    cells, y, _, y_mu, mu, mu2 = stats.vectors / variance
    if linkage.mean == "shift" and linkage.shift_width is not None:
        weight = _fold(cells, linkage.levels)[1:]
        target = _fold(y - scale * mu, linkage.levels)[1:]
        tie = np.full(weight.size, linkage.shift_width**-2)
        bands = np.zeros((2, weight.size))
        bands[0, 1:] = -tie[1:]
        bands[1] = weight + tie
        bands[1, :-1] += tie[1:]
        steps = solveh_banded(bands[-weight.size :], target) if weight.size else target  # one step has no neighbour
        return replace(linkage, shift=(0.0, *(float(v) for v in steps)))
    tie_scale = linkage.scale_width**-2
    top = _fold(y_mu - shift * mu, linkage.levels)[1:] + tie_scale
    best = top / (_fold(mu2, linkage.levels)[1:] + tie_scale)
    return replace(linkage, scale=(1.0, *(float(v) for v in best)))


def _fold(vector: Array, levels: int) -> Array:
    """Sum a vector over bins into `levels` entries, the last one taking all later bins."""
    folded = np.zeros(levels)
    np.add.at(folded, np.minimum(np.arange(vector.size), levels - 1), vector)
    return folded
