"""What lists of columns gain by held-out cells, row by row.

Enters: lists and held-out cells, and perhaps P(observed) of these. Leaves: gains by place, and what the best list of a
row would gain.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.fit.target import given_probability, inverse_weights
from nmar.models.arguments import check_count


class Judged(NamedTuple):
    """Lists of the rows that have relevant held-out cells."""

    gains: Array  # (rows, k): what the column at each place gains
    total: Array  # (rows,): gains of all relevant columns of a row
    best: Array  # (rows,): discounted gains of the best list there is


def judged(
    listed: ArrayLike, rows: ArrayLike, test: Cells, k: int, at_least: float | None, propensity: Any = None
) -> Judged:
    """What lists of ``k`` gain, where cells below ``at_least`` do not count, the others by inverse propensity."""
    check_count("k", k, 1)
    ids = np.asarray(listed)
    lines = test.rows.positions(rows, "prior")
    if ids.ndim != 2 or len(ids) != len(lines):
        raise ValueError(f"listed has shape {ids.shape}, but there are {len(lines)} rows; pass one list for each")
    weight = np.ones(len(test)) if propensity is None else inverse_weights(given_probability(propensity, test))
    relevant = np.ones(len(test), np.bool_) if at_least is None else np.asarray(test.values) >= at_least
    row, col, weight = test.row_index[relevant].astype(np.int64), test.col_index[relevant], weight[relevant]
    n, width = test.shape[0] + 1, test.shape[1] + 1  # the last row and column are those that were not held out
    kept = np.bincount(row, minlength=n)[lines] > 0
    if not kept.any():
        raise ValueError("test has no relevant cell in these rows; at least one is needed")
    some, lines = ids[kept, :k], lines[kept]
    none = _is_none(some)
    places = test.cols.positions(np.where(none, -1, some).ravel(), "prior").reshape(some.shape)
    cell, wanted = row * width + col, lines[:, None].astype(np.int64) * width + places
    at = np.minimum(np.searchsorted(cell, wanted), len(cell) - 1)
    gains = np.where((cell[at] == wanted) & (places >= 0) & ~none, weight[at], 0.0)
    total = np.bincount(row, weight, n)[lines]
    return Judged(gains, total, _best_gains(row, weight, n, k)[lines])


def _best_gains(row: Array, weight: Array, n: int, k: int) -> Array:
    """Discounted gains of each row's best list of ``k``; cells are in the order of their rows."""
    order = np.lexsort((-weight, row))
    place = np.arange(len(row)) - np.searchsorted(row, row)
    first = place < k
    return np.bincount(row[first], weight[order][first] * discount(k)[place[first]], n)


def discount(k: int) -> Array:
    """What a gain at each place of a list of ``k`` counts."""
    return 1.0 / np.log2(np.arange(2, k + 2))


def _is_none(ids: Array) -> Array:
    if ids.dtype != object:
        return np.zeros(ids.shape, np.bool_)
    return np.array([one is None for one in ids.ravel().tolist()], np.bool_).reshape(ids.shape)
