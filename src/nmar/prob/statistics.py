"""Sums over cells from which the shared parameters are learned.

Enters: per-cell statistics of a family, weighted by the count posterior q(n).
Leaves: :class:`Statistics`, vectors over the bins n, additive over threads, batches and workers
(theory.md, M-steps).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

__all__ = ["Array", "Statistics"]


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sums over cells of q(n) times a per-cell statistic, one vector over n for each statistic."""

    names: tuple[str, ...]  # what each row of `vectors` sums; the first is always ``"cells"``, the sum of q(n) itself
    vectors: Array  # (V, N) ``vectors[v, n]`` = sum over cells of q(n) b_v, with b_v from ``Family.statistics``
    distinct: Array | None = None  # (D,) the distinct observed values, ascending, for the families that need them
    by_value: Array | None = None  # (D, N) sum of q(n) over the cells whose value is ``distinct[d]``
    mean_count_total: float = 0.0  # sum over cells of E[n]; the control divides it by the number of cells
    tail: float | None = None  # sum over cells of E[log ω] − E[ω], where values have a Student tail

    def __post_init__(self) -> None:
        vectors = np.asarray(self.vectors, dtype=float)
        if vectors.ndim != 2 or len(vectors) != len(self.names):
            raise ValueError(
                f"vectors has shape {vectors.shape}, but names lists {len(self.names)} statistics; "
                "pass one row for each name"
            )
        object.__setattr__(self, "vectors", vectors)

    @property
    def size(self) -> int:
        """Number of bins N."""
        return int(self.vectors.shape[1])

    @property
    def cells(self) -> float:
        """Number of cells (the total of q(n))."""
        return float(self.vector("cells").sum())

    @property
    def values_and_masses(self) -> tuple[Array, Array]:
        """The distinct values (D,) and the sums of q(n) over the cells that have them (D, N)."""
        if self.distinct is None or self.by_value is None:
            raise ValueError("stats has no masses by distinct value; collect them with a family that needs values")
        return self.distinct, self.by_value

    def vector(self, name: str) -> Array:
        """Return the vector over n of one statistic."""
        return self.vectors[self.names.index(name)]

    def scale(self, factor: float) -> Statistics:
        """Return the statistics of `factor` times as many cells."""
        return replace(
            self,
            vectors=self.vectors * factor,
            by_value=None if self.by_value is None else self.by_value * factor,
            mean_count_total=self.mean_count_total * factor,
            tail=None if self.tail is None else self.tail * factor,
        )

    def with_squares(self, factor: float) -> Statistics:
        """Return the statistics with squared residuals, the second one, `factor` times as large."""
        vectors = self.vectors.copy()
        vectors[1] *= factor
        return replace(self, vectors=vectors)

    def __add__(self, other: Statistics) -> Statistics:
        """Return the statistics of both sets of cells; the shorter one is continued with zeros."""
        if not isinstance(other, Statistics):
            return NotImplemented
        if self.names != other.names or (self.distinct is None) != (other.distinct is None):
            raise ValueError(f"cannot add statistics {other.names} to {self.names}; collect both alike")
        size = max(self.size, other.size)
        distinct, by_value = _merge_values(self, other, size)
        return Statistics(
            self.names,
            _widen(self.vectors, size) + _widen(other.vectors, size),
            distinct,
            by_value,
            self.mean_count_total + other.mean_count_total,
            None if self.tail is None or other.tail is None else self.tail + other.tail,
        )


def _widen(matrix: Array, size: int) -> Array:
    """Append bins without mass up to `size`."""
    return np.pad(matrix, ((0, 0), (0, size - matrix.shape[1])))


def _merge_values(left: Statistics, right: Statistics, size: int) -> tuple[Array | None, Array | None]:
    """Return the union of the distinct values and the summed masses."""
    if left.distinct is None or right.distinct is None or left.by_value is None or right.by_value is None:
        return None, None
    distinct = np.union1d(left.distinct, right.distinct)
    merged = np.zeros((distinct.size, size))
    for part_values, part in ((left.distinct, left.by_value), (right.distinct, right.by_value)):
        merged[np.searchsorted(distinct, part_values)] += _widen(part, size)
    return distinct, merged
