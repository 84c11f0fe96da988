"""Where the clusters of a mixture start: k-means on the observed cells (equal responsibilities are a fixed point)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from nmar.arrays import Array
from nmar.data.compressed import Compressed
from nmar.data.stored import StoredLines

SEEN = 1 << 22  # cells of a dataset on disk that k-means sees, about
LLOYD = 10  # rounds of k-means after the seeds are chosen


def first_labels(lines: Compressed, clusters: int, rng: np.random.Generator) -> Array:
    """One-hot labels of all lines (n, G). Of cells on disk, k-means sees some lines; all others go to the nearest."""
    step = -(-lines.n_cells // SEEN) if isinstance(lines, StoredLines) else 1
    seeds = _seed(as_matrix(lines if step == 1 else lines.take(np.arange(0, lines.n, step))), clusters, rng)
    label = seeds.label
    if len(label) < lines.n:
        label = np.concatenate([seeds.nearest(as_matrix(part)) for _, part in lines.blocks()])
    return np.eye(clusters)[label]


def as_matrix(lines: Compressed) -> Any:
    """Lines as a sparse matrix."""
    parts = (lines.values[0 : lines.n_cells].astype(np.float64), lines.indices[0 : lines.n_cells], lines.indptr)
    return csr_matrix(parts, shape=(lines.n, lines.n_other))


def ones_at(values: Any) -> Any:
    """The same entries, each 1."""
    pattern = values.copy()
    pattern.data = np.ones_like(pattern.data)
    return pattern


class Seeds(NamedTuple):
    """What k-means found."""

    column: Array  # (m,) means of the other axis's lines, which are taken off
    centers: Array  # (m, G)
    label: Array  # (n,) of the lines it saw

    def nearest(self, values: Any) -> Array:
        """The cluster of other lines."""
        centered, pattern, square, degree = _centered(values, self.column)
        return _distances(centered, pattern, square, self.centers, degree).argmin(axis=1)


def _centered(values: Any, column: Array) -> tuple[Any, Any, Array, Array]:
    """Values less the means of their columns, their pattern, the squares of each line and its number of cells."""
    pattern, centered = ones_at(values), values.copy()
    degree = np.maximum(np.asarray(pattern.sum(axis=1)).ravel(), 1.0)
    centered.data = values.data - column[values.indices]
    return centered, pattern, np.asarray(centered.multiply(centered).sum(axis=1)).ravel(), degree


def _seed(values: Any, clusters: int, rng: np.random.Generator) -> Seeds:
    """k-means++ and a few rounds of Lloyd's algorithm on the observed cells only.

    Distances are means over a line's own observed cells; centres are shrunken towards the column means, because a
    single line says nothing about the columns it lacks.
    """
    column = np.asarray(values.sum(axis=0)).ravel() / (np.asarray(ones_at(values).sum(axis=0)).ravel() + 1.0)
    centered, pattern, square, degree = _centered(values, column)
    centers = np.empty((values.shape[1], clusters))
    nearest = square / degree
    for k in range(clusters):
        chance = np.maximum(nearest, 0.0) * degree
        pick = rng.choice(len(degree), p=chance / chance.sum() if chance.sum() > 0 else None)
        like = _like(centered, pick)  # lines that agree with the pick fill in the columns it lacks
        centers[:, k : k + 1] = _centers(centered, pattern, like[:, None])
        away = _distances(centered, pattern, square, centers[:, k : k + 1], degree)[:, 0]
        nearest = away if k == 0 else np.minimum(nearest, away)
    for _ in range(LLOYD):
        label = _distances(centered, pattern, square, centers, degree).argmin(axis=1)
        centers = _centers(centered, pattern, np.eye(clusters)[label])
    return Seeds(column, centers, label)


def _like(centered: Any, pick: int) -> Array:
    """Weight of each line in the neighbourhood of one: its share of agreement, 1 for the line itself."""
    agree = np.asarray((centered @ centered[pick].T).todense()).ravel()
    own = max(float(agree[pick]), 1e-12)
    weight = np.clip(agree / own, 0.0, 1.0)
    weight[weight < 0.1] = 0.0
    weight[pick] = 1.0
    return weight


def _centers(centered: Any, pattern: Any, weight: Array) -> Array:
    return (centered.T @ weight) / (pattern.T @ weight + 1.0)


def _distances(centered: Any, pattern: Any, square: Array, centers: Array, degree: Array) -> Array:
    return (square[:, None] - 2.0 * (centered @ centers) + pattern @ centers**2) / degree[:, None]
