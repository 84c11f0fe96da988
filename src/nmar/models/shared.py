"""M-steps: what all cells share, learned from the sums of a half sweep with its q(n) held (theory.md, M-steps)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nmar.arrays import Array
from nmar.models.law import Law
from nmar.models.noise import Noise, balanced
from nmar.models.pattern_covariates import DesignedPattern
from nmar.models.predictive import BinTable
from nmar.models.scaling import LineSums
from nmar.models.state import Shared, State
from nmar.prob import learn
from nmar.prob.statistics import Statistics


@dataclass(frozen=True, eq=False)
class Info:
    """Additive results of a half sweep."""

    # Σ log Z of the state it started from, less what lines pay for being exposed to cells of their own: to their
    # observed ones once more, to their hidden ones less than to all
    log_z: float
    stats: Statistics | None  # vectors over counts under the present q(n), where they were computed
    # (2, cells) sums of weighted targets and weights of each cell in row-major order, for cellwise data models
    weights: Array | None = None
    sums: LineSums | None = None  # sums over the cells visited, of each line, where other cells are remembered
    # expected counts and exposures of products of the pattern's covariates, of the axis that gives them
    cross: Array | None = None
    read: Any = None  # what a reader is learned from, where n-vectors were computed
    detected: Array | None = None  # what the mechanism is learned from, where n-vectors were computed


def update_shared(axis: int, state: State, info: Info, law: Law) -> Shared:
    """M-steps from the half sweep just done.

    Priors are learned from the new lines. φ, σ² or κ, Λ̄ and posteriors that all cells share need n-vectors, and stay
    where the half sweep has summed none.
    """
    shared = _learn_effects(axis, state, info, law, _learn_shapes(axis, state, law))
    if not law.data.has_values:
        return shared
    reader = shared.reader
    scales = reader is None or reader.learns_scale
    if info.stats is not None and scales:
        shared = _learn_from(info.stats, shared, law)
    if shared.noise is not None:
        shared = replace(shared, noise=_learned_noise(axis, state, info, shared))
    if reader is not None and info.read is not None:
        shared = replace(shared, reader=reader.learned(info.read))
    detection = state.sides[axis].detection
    if shared.mechanism is not None and info.detected is not None and detection is not None:
        shared = replace(shared, mechanism=shared.mechanism.learned(axis, detection, info.detected))
    data = law.data.learn(state.sides[axis].data, axis, shared.data)
    if info.weights is not None:
        data = law.data.refit(data, info.weights)
    precision = law.data.precision(data)
    return replace(shared, data=data, dispersion=shared.dispersion if precision is None else 1.0 / precision.mean)


def _learned_noise(axis: int, state: State, info: Info, shared: Shared) -> Noise | None:
    """The prior of the noise levels of the side that was updated, and the tail; ``shared`` has the new σ²."""
    noise = shared.noise
    if noise is None or noise.waits:
        return noise if noise is None else replace(noise, waits=noise.waits - 1)
    noise = noise.learned(axis, state.sides[axis].noise)
    stats = info.stats
    if stats is None or stats.tail is None:
        return noise
    return noise.with_tail(stats.tail, stats.cells, *(_in_units(stats, each) for each in (state.shared, shared)))


def _in_units(stats: Statistics, shared: Shared) -> float:
    """Σ E[λ] E[ρ] E[ω] E[(y − μ)²]/(σ²φ) over the cells."""
    table = shared.linkage.bin_table(stats.size)
    return float(np.sum(stats.vectors[1] / (shared.dispersion * table)))


def balanced_noise(axis: int, state: State, step: float = 1.0) -> State:
    """The state after a step on the scale that the noise levels of ``axis`` share with σ²; ``step`` is a part of it."""
    shared, side = state.shared, state.sides[axis]
    noise, reader = shared.noise, shared.reader
    if noise is None or side.noise is None or noise.waits or (reader is not None and reader.scale_is_known):
        return state
    levels, dispersion = balanced(side.noise, noise.shapes[axis], shared.dispersion, step)
    sides = state.with_side(axis, replace(side, noise=levels)).sides
    return State(sides, replace(shared, dispersion=dispersion))


def _learn_shapes(axis: int, state: State, law: Law) -> Shared:
    """The prior shape of the side that was updated, where it is learned."""
    shapes = state.shared.shapes
    if shapes is None or law.pattern_fixed:
        return state.shared
    new = law.pattern_of(state.shared, axis).learned_shape(state.sides[axis].pattern)
    return replace(state.shared, shapes=(new, shapes[1]) if axis == 0 else (shapes[0], new))


def _learn_effects(axis: int, state: State, info: Info, law: Law, shared: Shared) -> Shared:
    """Prior means of the effects of the pattern's covariates on the lines updated, and q(ω) of their products."""
    mine = law.pattern_of(shared, axis)
    if not isinstance(mine, DesignedPattern) or law.pattern_fixed:
        return shared
    effects = mine.effects.learned(axis, mine.effect_factors(state.sides[axis].pattern))
    return replace(shared, effects=effects if info.cross is None else effects.crossed(info.cross))


def _learn_from(stats: Statistics, shared: Shared, law: Law) -> Shared:
    """The linkage, the dispersion, the control's rate and the data model's shared posteriors, from n-vectors."""
    point = law.data.precision(shared.data) is None
    linkage, dispersion = learn.update(shared.linkage, law.family, shared.dispersion, stats, point)
    rate = shared.rate
    if rate is not None:
        rate = learn.event_rate(stats.mean_count_total / stats.cells, linkage.events)
    table = BinTable(*linkage.mean_tables(stats.size), linkage.bin_table(stats.size), dispersion)
    data = law.data.absorb(shared.data, stats, table)
    return replace(shared, linkage=linkage, dispersion=dispersion, rate=rate, data=data)
