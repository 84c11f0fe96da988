"""The best columns of given rows, one row of scores at a time: no rows × columns array is made."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmar.data.cells import Compressed
from nmar.posterior.posterior import Posterior, mean_and_variance

Array = NDArray[Any]

CRITERIA = ("value", "observed", "expected")


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
    longest = 0
    for k, line in enumerate(lines):
        offered = np.ones(count, bool)
        if seen is not None:
            offered[seen.indices[seen.indptr[line] : seen.indptr[line + 1]]] = False
        cols = np.flatnonzero(offered)
        score = _score(posterior, np.full(len(cols), line), cols, by)
        best = np.argsort(-score, kind="stable")[:n]
        which[k, : len(best)], scores[k, : len(best)] = cols[best], score[best]
        longest = max(longest, len(best))
    return which[:, :longest], scores[:, :longest]


def _score(posterior: Posterior, i: Array, j: Array, by: str) -> Array:
    observed = -np.expm1(-posterior.rates(i, j))
    if by == "observed":
        return observed
    value, _ = mean_and_variance(posterior, i, j)
    return value if by == "value" else value * observed
