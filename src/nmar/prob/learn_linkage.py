"""The M-steps of the linkages: the parameter c, the free table, the location tables (theory.md, M-steps).

Enters: a linkage, a dispersion and n-vectors. Leaves: a better linkage, and the dispersion that goes with it.
Each function maximises its block of the joint objective exactly and never returns a worse point.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solveh_banded
from scipy.optimize import brentq, minimize_scalar

from nmar.prob.family_base import Family
from nmar.prob.learn_dispersion import PRIOR_RATE, PRIOR_SHAPE, best_dispersion, value_at
from nmar.prob.linkage import Curve, Free
from nmar.prob.linkage_base import Linkage
from nmar.prob.statistics import Array, Statistics

__all__ = ["learn_curve", "learn_free", "learn_mean"]

TURNS, SETTLED = 50, 1e-11  # most turns between table and tail, and the relative gain at which they end
TAIL_LIMIT = 5.0  # of |log psi(m)|
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


class _Chain:
    """The objective of a free table over (log dispersion, log phi2(2..levels)), with its derivatives."""

    def __init__(self, linkage: Free, family: Family, stats: Statistics, dispersion: float, learn: bool):
        self.linkage, self.family, self.stats = linkage, family, stats
        self.dispersion, self.learn, self.tail = dispersion, learn, linkage.tail_table

    def unpack(self, point: Array) -> tuple[float, Array]:
        """Return the dispersion and the table."""
        own = int(self.learn)
        dispersion = float(np.exp(point[0])) if self.learn else self.dispersion
        return dispersion, np.exp(np.concatenate([[0.0], point[own:]]))

    def value(self, point: Array) -> float:
        """Return the objective."""
        dispersion, table = self.unpack(point)
        steps = np.diff(np.log(table))
        prior = self.linkage.strength * float(np.sum(-steps - np.expm1(-steps)))
        return value_at(self.family, self.stats, np.outer(table, self.tail).ravel(), dispersion) + prior

    def curvature(self, point: Array) -> tuple[Array, Array]:
        """Return the gradient and the Hessian."""
        dispersion, table = self.unpack(point)
        x = np.outer(dispersion * table, self.tail).ravel()
        first, second = self.family.derivatives(self.stats, x)
        slope, bend = x * first, x * first + x * x * second  # with respect to log x
        slope, bend = (part.reshape(-1, len(self.tail)).sum(axis=1) for part in (slope, bend))
        pull = self.linkage.strength * table[:-1] / table[1:]
        push = pull - self.linkage.strength  # derivative of each factor of the chain by its step
        gradient, hessian = slope[1:] + push, np.diag(bend[1:] - pull)
        gradient[:-1] -= push[1:]
        rows = np.arange(len(pull) - 1)
        hessian[rows, rows] -= pull[1:]
        hessian[rows, rows + 1] = hessian[rows + 1, rows] = pull[1:]
        if not self.learn:
            return gradient, hessian
        top = slope.sum() - (PRIOR_SHAPE + 1) + PRIOR_RATE / dispersion
        corner = bend.sum() - PRIOR_RATE / dispersion
        full = np.block([[np.array([[corner]]), bend[None, 1:]], [bend[1:, None], hessian]])
        return np.concatenate([[top], gradient]), full


def learn_free(
    linkage: Free, family: Family, dispersion: float, stats: Statistics, learn_dispersion: bool
) -> tuple[Linkage, float]:
    """Maximise over the free table and the dispersion, and over the tail in turn if there is one."""
    if linkage.tail == 1:
        return _learn_table(linkage, family, dispersion, stats, learn_dispersion)
    linkage = _learn_shares(linkage, stats)
    value = -np.inf
    for _ in range(TURNS):
        linkage, dispersion = _learn_table(linkage, family, dispersion, stats, learn_dispersion)
        linkage = _learn_tail(linkage, family, dispersion, stats)
        reached = value_at(family, stats, linkage.bin_table(), dispersion) + linkage.log_prior()
        if reached - value <= SETTLED * abs(reached):
            break
        value = reached
    return linkage, dispersion


def _learn_shares(linkage: Free, stats: Statistics) -> Free:
    """P(m) from the cells at each level and one more."""
    cells = stats.vector("cells").reshape(-1, linkage.tail).sum(axis=0) + 1.0
    return replace(linkage, tail_parts=tuple((cells / cells.sum()).tolist()))


def _learn_tail(linkage: Free, family: Family, dispersion: float, stats: Statistics) -> Free:
    """psi(m), one level after another, by a search in its logarithm; the present value stays if it is better."""

    def loss(log_psi: float, linkage: Free, level: int) -> float:
        trial = _with_psi(linkage, level, float(np.exp(log_psi)))
        return -value_at(family, stats, trial.bin_table(), dispersion) - trial.log_prior()

    options = {"xatol": 1e-9}
    for level in range(1, linkage.tail):
        present = loss(float(np.log(linkage.tail_table[level])), linkage, level)
        found = minimize_scalar(
            loss, bounds=(-TAIL_LIMIT, TAIL_LIMIT), args=(linkage, level), method="bounded", options=options
        )
        if found.fun < present:
            linkage = _with_psi(linkage, level, float(np.exp(found.x)))
    return linkage


def _with_psi(linkage: Free, level: int, value: float) -> Free:
    table = linkage.tail_table
    table[level] = value
    return replace(linkage, tail_values=tuple(table.tolist()))


def _learn_table(
    linkage: Free, family: Family, dispersion: float, stats: Statistics, learn_dispersion: bool
) -> tuple[Free, float]:
    """Maximise jointly over the free table and the dispersion, by damped Newton steps in their logarithms.

    At the optimum every entry satisfies the quadratic of theory.md, M-steps (Gaussian and Poisson); visiting
    the entries one by one converges to the same point, but takes hundreds of rounds where bins are empty.
    """
    learn_dispersion = learn_dispersion and family.learns_dispersion
    chain = _Chain(linkage, family, stats, dispersion, learn_dispersion)
    own = [np.log(dispersion)] if learn_dispersion else []
    point = np.concatenate([own, np.log(linkage.spread[1:])])
    found = _climb(chain, point)
    if chain.value(found) <= chain.value(point):
        return linkage, dispersion
    best, table = chain.unpack(found)
    return replace(linkage, values=tuple(float(v) for v in table)), best


def _climb(chain: _Chain, point: Array) -> Array:
    """Newton's method with Levenberg damping: only steps that do not lower the objective are taken."""
    value, damping = chain.value(point), 0.0
    gradient, hessian = chain.curvature(point)
    for _ in range(200):
        try:
            factor = cho_factor(-hessian + damping * np.eye(point.size))
        except LinAlgError:
            damping = max(4 * damping, 1e-3 * float(np.abs(hessian).max()), 1e-8)
            continue
        step = cho_solve(factor, gradient)
        step *= min(1.0, 2.0 / float(np.abs(step).max(initial=1e-300)))
        trial = chain.value(point + step)
        if trial < value - 1e-14 * abs(value):
            damping = max(4 * damping, 1e-3 * float(np.abs(hessian).max()))
            continue
        new_gradient, hessian = chain.curvature(point + step)
        stalled = trial <= value and float(np.abs(new_gradient).max()) >= float(np.abs(gradient).max())
        if stalled:
            break
        point, value, gradient, damping = point + step, trial, new_gradient, damping / 8
        damping = 0.0 if damping < 1e-12 * float(np.abs(hessian).max()) else damping
    return point


def learn_mean(linkage: Linkage, dispersion: float, stats: Statistics) -> Linkage:
    """Maximise over the location table, delta(n) or phi1(n), at a given table phi2(n) and variance."""
    scale, shift = linkage.mean_tables(stats.size)
    variance = dispersion * linkage.bin_table(stats.size)
    pairs = stats.vectors / variance
    cells, y, _, y_mu, mu, mu2 = pairs.reshape(len(pairs), -1, len(linkage.tail_table)).sum(axis=2)
    scale, shift = scale[:: len(linkage.tail_table)], shift[:: len(linkage.tail_table)]
    if linkage.mean == "shift" and linkage.shift_width is not None:
        weight = _fold(cells, linkage.levels)[1:]
        target = _fold(y - scale * mu, linkage.levels)[1:]
        tie = np.full(weight.size, linkage.shift_width**-2)
        bands = np.zeros((2, weight.size))
        bands[0, 1:] = -tie[1:]
        bands[1] = weight + tie
        bands[1, :-1] += tie[1:]
        steps = solveh_banded(bands, target) if weight.size else target
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
