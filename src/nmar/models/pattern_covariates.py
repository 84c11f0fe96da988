"""Covariates of the missingness pattern: known coordinates beside the learned ones (theory.md, Covariates).

    Λ_ij = Σ_k u_ik v_jk + Σ_f x_if ν_jf + Σ_g μ_ig z_jg + Σ_fg x_if ω_fg z_jg

x are levels of the leading axis, z those of the other one (data/levels.py). The sum is one inner product of lines,

    leading   u (K)   x (F)   μ (G)   x (F)
    other     v (K)   ν (F)   z (G)   Σ_g ω_fg z_jg (F)

so that kernels, exposures and predictions see more coordinates and nothing else. A known one is stored with shape x and
rate 1, its mean; its geometric weight is x as well. Effects ν and μ are gamma, as spread as the weights, and each level
has a prior mean of its own, learned from all lines: levels that say nothing go to 0. ω has one q for each pair.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nmar.arrays import Array
from nmar.kernels.spec import GammaTable, GammaUpdate, Kernels
from nmar.models.missingness import SHAPE, Pattern, PatternSide
from nmar.prob.arrays import on_host
from nmar.prob.counts import chance
from nmar.prob.factor import GammaFactor, gamma_divergence

FLOOR = 1e-12  # of counts and exposures that are divided by, and of the prior mean of products
MOST = 1e4  # prior rate of an effect over its exposure, at most: 0.3/MOST counts of a line that has none
TINY = 1e-30  # below any level or product that is not 0
LOG_ZERO = -1e4  # logarithm of a known coordinate that is 0: finite, as compiled loops need it
SHARE = 0.5  # of the rate that learned factors start with


@dataclass(frozen=True)
class Blocks:
    """Which coordinates of a line are what."""

    factors: slice  # u or v
    effects: slice  # of the other axis's covariates on this line
    own: slice  # this line's covariates
    cross: slice  # leading: the same again; other: Σ_g ω_fg z_jg


def blocks(factors: int, leading: int, other: int, leads: bool) -> Blocks:
    """The blocks of one axis, where the leading one has ``leading`` levels and the other ``other``."""
    first, second = slice(factors, factors + leading), slice(factors + leading, factors + leading + other)
    cross = slice(second.stop, second.stop + (leading if other else 0))
    return Blocks(slice(0, factors), second, first, cross) if leads else Blocks(slice(0, factors), first, second, cross)


@dataclass(frozen=True, eq=False)
class PatternEffects:
    """What all lines share of the effects of covariates."""

    # prior means of the effects on lines of each axis, one for each level of the other axis
    levels: tuple[Array, Array]
    # q(ω) (F, G), levels of the leading axis × levels of the other; None where only one axis has covariates
    cross: GammaFactor | None = None
    cross_level: float = 1.0  # prior mean of ω

    def learned(self, axis: int, effects: GammaFactor) -> PatternEffects:
        """With the prior means of the effects on lines of ``axis``, given q of these (n, E).

        Of counts a_j and exposures e_j each q is Ga(η + a_j, ρ + e_j). ρ and all q are optimal together where
        Σ_j [η − (η + a_j) ρ/(ρ + e_j)] = 0, up to ``MOST`` e; given q, ρ would take many sweeps to go there.
        """
        old, n = SHAPE / self.levels[axis], len(effects.alpha)
        counts = np.maximum(effects.alpha.astype(np.float64) - SHAPE, 0.0)
        exposed = np.maximum(effects.beta.astype(np.float64) - old, FLOOR)
        ends = [on_host(f(exposed, axis=0, initial=e)) for f, e in ((np.min, np.inf), (np.max, FLOOR))]
        total = np.maximum(on_host(np.sum(counts, axis=0)), FLOOR)
        low, high = (np.minimum(n * SHAPE * end / total, MOST * ends[1]) for end in ends)
        for _ in range(40 if np.any(low < high) else 0):
            middle = np.sqrt(low * high)
            rising = n * SHAPE > on_host(np.sum((SHAPE + counts) * middle / (middle + exposed), axis=0))
            low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        found = SHAPE / np.sqrt(low * high)
        return replace(self, levels=(found, self.levels[1]) if axis == 0 else (self.levels[0], found))

    def with_cross(self, cross: GammaFactor) -> PatternEffects:
        """With another q(ω), and the prior mean that goes with it."""
        return replace(self, cross=cross, cross_level=max(float(cross.mean.mean()), FLOOR))

    def crossed(self, sums: Array) -> PatternEffects:
        """q(ω) from expected counts and exposures (2, F, G) of all pairs, then its prior mean."""
        return self.with_cross(GammaFactor(SHAPE + sums[0], SHAPE / self.cross_level + sums[1]))

    def divergence(self) -> float:
        """KL(ω)."""
        if self.cross is None:
            return 0.0
        rate = SHAPE / self.cross_level
        return self.cross.divergence(SHAPE, rate, float(np.log(rate)))


@dataclass(frozen=True, eq=False)
class DesignedPattern:
    """One axis of a pattern with covariates: what :class:`Pattern` does, block by block."""

    plain: Pattern  # the law of the factors
    axis: int  # rows or columns
    leads: bool  # whether sweeps update it first
    effects: PatternEffects  # what all lines share

    @property
    def blocks(self) -> Blocks:
        """Which coordinates are what."""
        sizes = [len(level) for level in self.effects.levels]
        mine, theirs = sizes[1 - self.axis], sizes[self.axis]  # a level of mine is an effect on the other axis
        leading, other = (mine, theirs) if self.leads else (theirs, mine)
        return blocks(self.plain.factors, leading, other, self.leads)

    def start(self, known: Array | None, degree: Array, density: float, rng: np.random.Generator) -> PatternSide:
        """A start: factors have half of the rate, effects and products share the rest evenly."""
        n, at = len(degree), self.blocks
        rate = -np.log1p(-min(density, 0.999))
        factors = self.plain.init(n, degree, float(chance(SHARE * rate)), rng).weights
        busy = (degree + 0.5) / (np.mean(degree) + 0.5)
        mean = busy[:, None] * self.effects.levels[self.axis]
        shape = np.full(mean.shape, 1.0 + SHAPE)
        alpha, beta = np.ones((n, at.cross.stop)), np.ones((n, at.cross.stop))
        alpha[:, at.factors], beta[:, at.factors] = factors.alpha, factors.beta
        alpha[:, at.effects], beta[:, at.effects] = shape, shape / mean
        self._write_known(alpha, np.empty((n, 0)) if known is None else known)
        weights = GammaFactor(alpha, beta)
        return PatternSide(weights, self.activity(weights))

    def _write_known(self, alpha: Array, known: Array) -> None:
        """Known coordinates, whose rates are 1, from the levels of the lines."""
        at, cross = self.blocks, self.effects.cross
        alpha[:, at.own] = known
        if cross is not None:
            alpha[:, at.cross] = known if self.leads else _times(known, cross.mean)

    def with_known(self, side: PatternSide, known: Array) -> PatternSide:
        """The side with these levels of its lines, without its table."""
        alpha = np.copy(side.weights.alpha)
        self._write_known(alpha, known)
        return PatternSide(GammaFactor(alpha, side.weights.beta), side.activity)

    def settled(self, side: PatternSide, before: PatternEffects, kernels: Kernels) -> PatternSide:
        """The side after a change of what its effects share: their rates, products of levels, and the table.

        ``before`` is what the effects were updated with.
        """
        alpha, beta, at = np.copy(side.weights.alpha), np.copy(side.weights.beta), self.blocks
        old, new = (SHAPE / effects.levels[self.axis] for effects in (before, self.effects))
        beta[:, at.effects] = np.maximum(beta[:, at.effects].astype(np.float64) - old, 0.0) + new
        self._write_known(alpha, np.copy(alpha[:, at.own]))
        made = PatternSide(GammaFactor(alpha, beta), side.activity)
        if side.geometric is None or side.log_weights is None:
            return made
        geometric = kernels.empty(alpha.shape, alpha.dtype)
        geometric[:] = side.geometric
        logs = np.copy(side.log_weights)
        found = kernels.tabulate(_part(alpha, at.effects), _part(beta, at.effects))
        logs[:, at.effects], geometric[:, at.effects] = found.log_mean, found.geometric
        self._tabulate_known(alpha, logs, geometric)
        return PatternSide(made.weights, side.activity, logs, geometric, side.totals)

    def _tabulate_known(self, alpha: Array, logs: Array, geometric: Array) -> None:
        """Geometric weights of known coordinates: what they are."""
        at, cross = self.blocks, self.effects.cross
        known = [(at.own, alpha[:, at.own])]
        if cross is not None:
            products = alpha[:, at.own] if self.leads else _times(alpha[:, at.own], np.exp(cross.log_mean))
            known.append((at.cross, products))
        for place, values in known:
            geometric[:, place] = values
            logs[:, place] = np.where(values > 0.0, np.log(np.maximum(values, TINY)), LOG_ZERO)

    def tabulated(self, side: PatternSide, kernels: Kernels) -> PatternSide:
        """The same side with its table, whose totals are those of the factors."""
        if side.geometric is not None:
            return side
        new = replace(side.empty(kernels.empty), weights=side.weights, activity=side.activity)
        logs, geometric, totals = new.table
        for place in (self.blocks.factors, self.blocks.effects):
            found = kernels.tabulate(*(_part(each, place) for each in (side.weights.alpha, side.weights.beta)))
            logs[:, place], geometric[:, place] = found.log_mean, found.geometric
            if place == self.blocks.factors:
                totals[:] = found.totals
        self._tabulate_known(side.weights.alpha, logs, geometric)
        return new

    def activity(self, weights: GammaFactor) -> GammaFactor:
        """q(r), which depends on the factors alone."""
        return self.plain.activity(self._factor(weights, self.blocks.factors))

    @staticmethod
    def _factor(weights: GammaFactor, place: slice) -> GammaFactor:
        return GammaFactor(_part(weights.alpha, place), _part(weights.beta, place))

    def _factors(self, side: PatternSide) -> PatternSide:
        """The factors as a side of their own, with the totals of the table."""
        return PatternSide(self._factor(side.weights, self.blocks.factors), side.activity, totals=side.totals)

    def update(self, side: PatternSide, allocated: Array, exposure: Array, kernels: Kernels, new: PatternSide) -> None:
        """Coordinate update of factors and effects; known coordinates stay. Parameters as in :meth:`Pattern.update`."""
        at = self.blocks
        exposure = exposure if exposure.ndim == 2 else exposure[None, :]
        factors = self._factors(side)
        room = factors.empty(kernels.empty)
        self.plain.update(factors, _part(allocated, at.factors), _part(exposure, at.factors), kernels, room)
        new.activity.alpha[:], new.activity.beta[:] = room.activity.alpha, room.activity.beta
        _write(new, at.factors, room)
        assert new.totals is not None and new.log_weights is not None and new.geometric is not None
        new.totals[:] = room.totals
        self._update_effects(_part(allocated, at.effects), _part(exposure, at.effects), kernels, new)
        for place in (at.own, at.cross):
            new.weights.alpha[:, place], new.weights.beta[:, place] = side.weights.alpha[:, place], 1.0
        self._tabulate_known(side.weights.alpha, new.log_weights, new.geometric)

    def _update_effects(self, allocated: Array, exposure: Array, kernels: Kernels, new: PatternSide) -> None:
        """Ga(0.3 + allocated, 0.3/level + exposure), as weights whose lines have no rate of their own."""
        idle = np.zeros_like(new.activity.beta, dtype=np.float64)
        like = PatternSide(GammaFactor(*(allocated.astype(new.weights.alpha.dtype),) * 2), GammaFactor(idle, idle))
        room = like.empty(kernels.empty)
        update = GammaUpdate(allocated, exposure + SHAPE / self.effects.levels[self.axis], idle, SHAPE)
        kernels.update_gamma(update, room.weights.alpha, room.weights.beta, GammaTable(*room.table))
        _write(new, self.blocks.effects, room)

    def cross_sums(self, side: PatternSide, allocated: Array, exposure: Array) -> Array | None:
        """Expected counts and exposures of all pairs of levels (2, F, G) from some lines; None on the leading axis.

        The count of a line's product coordinate is shared among its levels in proportion to exp(E[log ω]) z.
        """
        at, cross = self.blocks, self.effects.cross
        if cross is None or self.leads:
            return None
        z, geometric = side.weights.alpha[:, at.own].astype(np.float64), np.exp(cross.log_mean)
        total = _times(z, geometric)
        ratio = np.where(total > 0.0, allocated[:, at.cross] / np.maximum(total, TINY), 0.0)
        counts = geometric * on_host(np.einsum("nf,ng->fg", ratio, z))
        if exposure.ndim == 1:  # every line's
            return np.stack([counts, np.outer(exposure[at.cross], on_host(np.sum(z, axis=0)))])
        return np.stack([counts, on_host(np.einsum("nf,ng->fg", exposure[:, at.cross], z))])

    def effect_factors(self, side: PatternSide) -> GammaFactor:
        """q of the effects of a side's lines (n, E)."""
        return self._factor(side.weights, self.blocks.effects)

    def learned_shape(self, side: PatternSide) -> float:
        """η of the factors."""
        return self.plain.learned_shape(self._factors(side))

    def log_prior(self) -> float:
        """Log prior of a learned shape."""
        return self.plain.log_prior()

    def divergence(self, side: PatternSide) -> float:
        """KL of the factors, of the activities and of the effects."""
        found, rate = self.effect_factors(side), SHAPE / self.effects.levels[self.axis]
        totals = on_host(GammaFactor(found.alpha.T, found.beta.T).totals)
        own = gamma_divergence(totals, len(found.alpha), SHAPE, rate, np.log(rate))
        return self.plain.divergence(self._factors(side)) + own

    def blended(self, old: PatternSide, target: PatternSide, step: float) -> PatternSide:
        """Learned coordinates a fraction ``step`` to the target; known ones do not move."""
        weights, at = self.plain.blended(old, target, step).weights, self.blocks
        for place in (at.own, at.cross):
            weights.alpha[:, place], weights.beta[:, place] = target.weights.alpha[:, place], 1.0
        return PatternSide(weights, self.activity(weights))

    def unseen(self, side: PatternSide, ids: Array | None = None) -> PatternSide:
        """Lines never seen: factors at the mean of the seen ones, effects at their prior, levels those of the ids."""
        design, at, dtype = (self.plain.designs or (None, None))[self.axis], self.blocks, side.weights.alpha.dtype
        factors = self.plain.unseen(self._factors(side), ids)
        lines = len(factors.weights.alpha)
        known = np.empty((lines, 0))
        if design is not None:
            known = np.broadcast_to(design.typical, (1, design.x.shape[1])) if ids is None else design.of_ids(ids)
        alpha, beta = np.ones((lines, at.cross.stop)), np.ones((lines, at.cross.stop))
        alpha[:, at.factors], beta[:, at.factors] = factors.weights.alpha, factors.weights.beta
        alpha[:, at.effects], beta[:, at.effects] = SHAPE, SHAPE / self.effects.levels[self.axis]
        self._write_known(alpha, known)
        return PatternSide(GammaFactor(alpha.astype(dtype), beta.astype(dtype)), factors.activity)

    def drawn(self, side: PatternSide, rng: np.random.Generator) -> PatternSide:
        """One draw of factors, effects and products; covariates are what they are."""
        weights, at, cross = side.weights.drawn(rng), self.blocks, self.effects.cross
        for place in (at.own, at.cross):
            weights.alpha[:, place], weights.beta[:, place] = side.weights.alpha[:, place], 1.0
        if cross is not None and not self.leads:
            weights.alpha[:, at.cross] = _times(side.weights.alpha[:, at.own], cross.drawn(rng).mean)
        return PatternSide(weights, side.activity)

    def variance(self, weights: GammaFactor) -> Array:
        """Var of the coordinates of some lines, float64; known ones have none, and products that of their effects."""
        found, at, cross = self.plain.variance(weights), self.blocks, self.effects.cross
        found[:, at.own] = found[:, at.cross] = 0.0
        if cross is not None and not self.leads:
            found[:, at.cross] = _times(weights.alpha[:, at.own] ** 2, cross.variance)
        return found

    def learned(self, means: Array) -> Array:
        """Learned coordinates among those of lines."""
        at = self.blocks
        return np.concatenate([means[:, at.factors], means[:, at.effects]], axis=1)


def first_effects(known: tuple[Array | None, Array | None], lead: int, density: float) -> PatternEffects:
    """Effects about to start: what factors leave of the rate, shared evenly by effects and products."""
    sums = [0.0 if each is None else float(each.sum(axis=1).mean()) for each in known]
    sizes = [0 if each is None else each.shape[1] for each in known]
    parts = sum(size > 0 for size in sizes)
    both = parts == 2
    share = -np.log1p(-min(density, 0.999)) * (1.0 - SHARE) / (parts + both)
    rows, cols = (np.full(sizes[1 - axis], share / max(sums[1 - axis], FLOOR)) for axis in (0, 1))
    if not both:
        return PatternEffects((rows, cols))
    level = share / (sums[0] * sums[1])
    shape = np.full((sizes[lead], sizes[1 - lead]), 1.0 + SHAPE)
    return PatternEffects((rows, cols), GammaFactor(shape, shape / level), level)


def _part(array: Array, place: slice) -> Array:
    return np.copy(array[:, place])


def _write(new: PatternSide, place: slice, found: PatternSide) -> None:
    """Some coordinates of new lines, with their table."""
    assert new.log_weights is not None and new.geometric is not None
    new.weights.alpha[:, place], new.weights.beta[:, place] = found.weights.alpha, found.weights.beta
    new.log_weights[:, place], new.geometric[:, place] = found.log_weights, found.geometric


def _times(levels: Array, pairs: Array) -> Array:
    """Σ_g pairs_fg levels_jg of each line (n, F). Not by BLAS, whose threads would compete with those of the sweep."""
    return np.einsum("ng,fg->nf", levels.astype(np.float64), pairs)
