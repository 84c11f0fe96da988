"""Factors turned and scaled so that both priors hold: the slow direction of coordinate ascent, taken in one step.

⟨a, b⟩ does not change when a becomes Ra and b becomes R⁻ᵀb, but the divergences from the priors do. With the
leading side's prior N(0, I) and prior variances of the other side learned, the bound is largest where the leading
side's mean second moment is I and the other's is diagonal; coordinate ascent creeps there over dozens of sweeps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.fit.remember import BatchSums
from nmar.models.bilinear import FLOOR, Bilinear
from nmar.models.law import Law
from nmar.models.scaling import LineSums
from nmar.models.state import Side, State
from nmar.prob.factor import NormalFactor, pack, unpack

Array = NDArray[Any]


def can_align(law: Law) -> bool:
    """Full-covariance factorizations whose priors can be turned."""
    return isinstance(law.data, Bilinear) and law.data.rank > 0 and not law.data.diagonal


def turns(law: Law, leading: list[Side], other: Side) -> tuple[Array, Array]:
    """The matrices by which leading lines and other lines are multiplied."""
    size, rank = law.data.size, law.data.rank  # type: ignore[attr-defined]
    count = sum(len(pair.data.mean) for pair in leading)
    total: Array = np.sum([_second(pair.data, size) for pair in leading], axis=0)
    mine = total[:rank, :rank] / count
    theirs = _second(other.data, size)[:rank, :rank]
    values, vectors = np.linalg.eigh(mine)
    root = np.sqrt(np.maximum(values, FLOOR))
    half, inverse = (vectors * root) @ vectors.T, (vectors / root) @ vectors.T
    axes = np.linalg.eigh(half @ theirs @ half)[1]
    forward, backward = np.eye(size), np.eye(size)
    forward[:rank, :rank] = axes.T @ inverse
    backward[:rank, :rank] = axes.T @ half
    return forward, backward


def _second(factor: NormalFactor, size: int) -> Array:
    mean = factor.mean.astype(np.float64)
    return mean.T @ mean + unpack(factor.spread.sum(axis=0, dtype=np.float64)[None], size)[0]


def turn(pair: Side, matrix: Array) -> Side:
    """Lines multiplied by a matrix."""
    factor, size = pair.data, len(matrix)
    spread = pack(matrix @ unpack(factor.spread, size) @ matrix.T).astype(factor.spread.dtype)
    mean = (factor.mean @ matrix.T).astype(factor.mean.dtype)
    log_det = factor.log_det + 2.0 * np.linalg.slogdet(matrix)[1]
    return replace(pair, data=NormalFactor(mean, spread, log_det.astype(factor.log_det.dtype)))


def turn_sums(sums: LineSums, matrix: Array) -> LineSums:
    """What leading lines gave to the other side, as if they had been turned before."""
    quadratic = pack(matrix @ unpack(sums.quadratic, len(matrix)) @ matrix.T)
    return replace(sums, linear=sums.linear @ matrix.T, quadratic=quadratic)


def align(state: State, law: Law, leading: list[Side], sums: BatchSums) -> tuple[State, list[Side], BatchSums]:
    """Turn the leading lines, the other side, the learned prior variances and the remembered sums."""
    forward, backward = turns(law, leading, state.sides[1 - law.lead])
    leading = [turn(pair, forward) for pair in leading]
    other = turn(state.sides[1 - law.lead], backward)
    batches = tuple(None if each is None else turn_sums(each, forward) for each in sums.batches)
    turned_sums = BatchSums(batches, turn_sums(sums.total, forward))
    rank, globals_ = law.data.rank, state.shared.data  # type: ignore[attr-defined]
    moment = np.mean(other.data.mean.astype(np.float64) ** 2 + other.data.variances, axis=0)
    variance = list(globals_.variance)
    turned = variance[1 - law.lead].copy()
    turned[:rank] = np.maximum(moment[:rank], FLOOR)
    variance[1 - law.lead] = turned
    shared = replace(state.shared, data=replace(globals_, variance=(variance[0], variance[1])))
    return State(state.sides, shared).with_side(1 - law.lead, other), leading, turned_sums
