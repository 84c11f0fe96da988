"""Normal factors turned and scaled so that both priors hold: the slow direction of coordinate ascent, in one step.

⟨a, b⟩ does not change when a becomes Ra and b becomes R⁻ᵀb, but the divergences from the priors do. With the
leading side's prior N(0, I) and prior variances of the other side learned, the bound is largest where the leading
side's mean second moment is I and the other's is diagonal; coordinate ascent creeps there over dozens of sweeps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nmar.arrays import Array
from nmar.prob.arrays import on_host
from nmar.prob.factor import NormalFactor, pack, unpack

FLOOR = 1e-8  # smallest variance of a factor

Weighted = tuple[NormalFactor, Array | None]  # lines, and how much each counts; None: all alike


@dataclass(frozen=True, eq=False)
class Alignment:
    """The matrices by which leading lines and other lines are multiplied."""

    forward: Array  # (d, d)
    backward: Array  # (d, d)
    variance: Array  # (rank,) of the other side's factors afterwards

    @classmethod
    def between(cls, leading: list[Weighted], other: Weighted, rank: int) -> Alignment:
        """The alignment of two sides whose first ``rank`` coordinates are factors."""
        size, lines = other[0].mean.shape[1], len(other[0].mean)
        count = sum(len(part.mean) for part, _ in leading)
        total: Array = np.sum([_second(*part, size) for part in leading], axis=0)
        mine, theirs = total[:rank, :rank] / count, _second(*other, size)[:rank, :rank] / lines
        values, vectors = np.linalg.eigh(mine)
        root = np.sqrt(np.maximum(values, FLOOR))
        half, inverse = (vectors * root) @ vectors.T, (vectors / root) @ vectors.T
        variance, axes = np.linalg.eigh(half @ theirs @ half)
        forward, backward = np.eye(size), np.eye(size)
        forward[:rank, :rank] = axes.T @ inverse
        backward[:rank, :rank] = axes.T @ half
        return cls(forward, backward, np.maximum(variance, FLOOR))

    def leading(self, lines: NormalFactor) -> NormalFactor:
        """Lines of the leading side."""
        return _turned(lines, self.forward)

    def other(self, lines: NormalFactor) -> NormalFactor:
        """Lines of the other side."""
        return _turned(lines, self.backward)

    def sums(self, linear: Array, quadratic: Array) -> tuple[Array, Array]:
        """What leading lines gave to the other side, as if they had been turned before."""
        return linear @ self.forward.T, _turned_packed(quadratic, self.forward)


def _second(lines: NormalFactor, weight: Array | None, size: int) -> Array:
    """Σ_i ξ_i E[a_i a_i']."""
    mean = lines.mean.astype(np.float64)
    weight = np.ones_like(lines.log_det, dtype=np.float64) if weight is None else weight
    spread = on_host(np.einsum("i,ik->k", weight, lines.spread))
    return on_host((mean * weight[:, None]).T @ mean) + unpack(spread[None], size)[0]


def _turned(lines: NormalFactor, matrix: Array) -> NormalFactor:
    mean = (lines.mean @ matrix.T).astype(lines.mean.dtype)
    log_det = lines.log_det + 2.0 * np.linalg.slogdet(matrix)[1]
    spread = _turned_packed(lines.spread, matrix).astype(lines.spread.dtype)
    return NormalFactor(mean, spread, log_det.astype(lines.log_det.dtype))


def _turned_packed(packed: Array, matrix: Array) -> Array:
    return pack(matrix @ unpack(packed, len(matrix)) @ matrix.T)
