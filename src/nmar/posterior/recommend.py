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
    """Positions and scores (lines, n) of the best columns, best first; seen ones left out if given."""
    if by not in CRITERIA:
        raise ValueError(f"by={by!r}; use one of {', '.join(map(repr, CRITERIA))}")
    count = len(posterior.cols)
    if not 1 <= n <= count:
        raise ValueError(f"n={n}; give a number from 1 to the {count} columns there are")
    which, scores = np.empty((len(lines), n), np.int64), np.empty((len(lines), n))
    every = np.arange(count)
    for k, line in enumerate(lines):
        score = _score(posterior, np.full(count, line), every, by)
        if seen is not None:
            score[seen.indices[seen.indptr[line] : seen.indptr[line + 1]]] = -np.inf
        best = np.argsort(-score, kind="stable")[:n]
        which[k], scores[k] = best, score[best]
    return which, scores


def _score(posterior: Posterior, i: Array, j: Array, by: str) -> Array:
    observed = -np.expm1(-posterior.rates(i, j))
    if by == "observed":
        return observed
    value, _ = mean_and_variance(posterior, i, j)
    return value if by == "value" else value * observed
