"""The best columns of given rows, some rows at a time: scores of a block of rows are one matrix product."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.data.cells import Compressed
from nmar.posterior.posterior import Posterior, mean_and_variance
from nmar.prob.pieces import pieces

Array = NDArray[Any]

CRITERIA = ("value", "observed", "expected")
BLOCK = 1 << 19  # scores of a block, at most: they stay in the cache of a processor


def recommendable(posterior: Posterior, rows: Any) -> Array:
    """Positions of the rows of these ids; each must have been seen, for otherwise all columns are alike to it."""
    return posterior.rows.positions(rows, argument="rows", remedy="remove them, or fold in their cells (fold_in)")


def recommend(posterior: Posterior, lines: Array, n: int, by: str, seen: Compressed | None) -> tuple[Array, Array]:
    """Positions and scores of the best columns of each line, best first; seen ones left out if given.

    Both are (lines, m), m the number of columns of the line that has most to offer, at most ``n``. Where a line has
    fewer the rest of its positions are −1 and the scores NaN.
    """
    if by not in CRITERIA:
        raise ValueError(f"by={by!r}; use one of {', '.join(map(repr, CRITERIA))}")
    count = len(posterior.cols)
    if not 1 <= n <= count:
        raise ValueError(f"n={n}; give a number from 1 to the {count} columns there are")
    which, scores = np.full((len(lines), n), -1), np.full((len(lines), n), np.nan)
    score_rows = _Scorer(posterior, by)
    blocks = list(pieces(len(lines), max(1, BLOCK // count)))

    def rank(block: slice) -> None:
        found = score_rows(lines[block])
        if seen is not None:
            row, col = _seen_cells(seen, lines[block])
            found[row, col] = -np.inf
        best = _best(found, n)
        score = np.take_along_axis(found, best, axis=1)
        offered = score > -np.inf
        which[block], scores[block] = np.where(offered, best, -1), np.where(offered, score, np.nan)

    if blocks:
        rank(blocks[0])
    with ThreadPoolExecutor(os.cpu_count()) as threads:  # products and partitions let other threads run
        list(threads.map(rank, blocks[1:]))
    longest = int((which >= 0).sum(axis=1).max(initial=0))
    return which[:, :longest], scores[:, :longest]


def _best(scores: Array, n: int) -> Array:
    """The places of the ``n`` largest of each row, best first, of equals the first."""
    if n < scores.shape[1]:
        rest = scores.shape[1] - n
        some = np.sort(np.argpartition(scores, rest, axis=1)[:, rest:], axis=1)  # of equals the first comes first
        taken = np.take_along_axis(scores, some, axis=1)
        least = taken.min(axis=1, keepdims=True)
        tied = np.count_nonzero(scores == least, axis=1) > np.count_nonzero(taken == least, axis=1)
        order = np.argsort(-taken, axis=1, kind="stable")
        best = np.take_along_axis(some, order, axis=1)
        for row in np.flatnonzero(tied):  # which of the last ones is taken must not depend on the partition
            best[row] = np.argsort(-scores[row], kind="stable")[:n]
        return best
    return np.argsort(-scores, axis=1, kind="stable")


def _seen_cells(seen: Compressed, lines: Array) -> tuple[Array, Array]:
    """Rows (counted within ``lines``) and columns of their observed cells."""
    chosen = seen.take(lines)
    return chosen.major(), chosen.indices


class _Scorer:
    """Scores of all columns for some rows; what belongs to the columns is made once."""

    def __init__(self, posterior: Posterior, by: str) -> None:
        self.posterior, self.by = posterior, by
        law, state = posterior.law, posterior.state
        self.linear = (
            law.family.location
            and law.data.has_values
            and state.shared.linkage.mean is None
            and not law.data.cellwise
            and by != "observed"
        )
        if self.linear:
            self.features = self._features(1, slice(None)).T
        if by != "value":
            self.weights = state.sides[1].pattern.weights.mean.astype(np.float64).T

    def _features(self, axis: int, lines: Any) -> Array:
        """What gives E[μ] as a product of rows and columns."""
        law, state = self.posterior.law, self.posterior.state
        side = state.sides[axis].data.take(lines)
        return law.data.features(side, axis, state.shared.data).first.astype(np.float64)

    def __call__(self, lines: Array) -> Array:
        """(lines, columns)"""
        if self.by == "value":
            return self._values(lines)
        rates = self.posterior.state.sides[0].pattern.weights.take(lines).mean.astype(np.float64) @ self.weights
        observed = -np.expm1(-rates)
        return observed if self.by == "observed" else self._values(lines) * observed

    def _values(self, lines: Array) -> Array:
        """Expected values: one product where the mean of a cell is E[μ], whatever its count."""
        if self.linear:
            return self.posterior.units.to_user(self._features(0, lines) @ self.features)
        count = len(self.posterior.cols)
        i, j = np.repeat(lines, count), np.tile(np.arange(count), len(lines))
        return mean_and_variance(self.posterior, i, j)[0].reshape(len(lines), count)
