"""How good predictions and lists are: errors, coverage, and measures of rankings at k.

Enters: held-out values or cells, and what a model said about them. Leaves: numbers. Lists are judged row by row, and
rows without a relevant held-out cell are left out of the mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from nmar.data.cells import Cells
from nmar.models.arguments import check_count

Array = NDArray[Any]

__all__ = ["auc", "average_precision", "coverage", "mae", "ndcg", "recall", "rmse"]


def rmse(value: ArrayLike, mean: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Root mean squared error.

    Parameters
    ----------
    value, mean : held-out values and their predictions
    weight : how often each counts; None: once

    Examples
    --------
    >>> from nmar import metrics
    >>> metrics.rmse([1.0, 3.0], [1.0, 1.0]) ** 2
    2.0000000000000004
    """
    y, at = _alike(value=value, mean=mean)
    return float(np.sqrt(_mean((y - at) ** 2, weight)))


def mae(value: ArrayLike, mean: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Mean absolute error.

    Parameters
    ----------
    value, mean : held-out values and their predictions
    weight : how often each counts; None: once

    Examples
    --------
    >>> from nmar import metrics
    >>> metrics.mae([1.0, 3.0], [1.0, 1.0])
    1.0
    """
    y, at = _alike(value=value, mean=mean)
    return _mean(np.abs(y - at), weight)


def coverage(value: ArrayLike, low: ArrayLike, high: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Share of values inside their intervals, ends included.

    Parameters
    ----------
    value : held-out values
    low, high : ends of their intervals (:meth:`nmar.CCPF.interval`)
    weight : how often each counts; None: once

    Examples
    --------
    >>> from nmar import metrics
    >>> metrics.coverage([1.0, 3.0], [0.0, 0.0], [2.0, 2.0])
    0.5
    """
    y, a, b = _alike(value=value, low=low, high=high)
    return _mean(((a <= y) & (y <= b)).astype(np.float64), weight)


def auc(observed: ArrayLike, score: ArrayLike) -> float:
    """Area under the ROC curve: the chance that an observed cell has a higher score than one that is not.

    Parameters
    ----------
    observed : booleans
    score : such as P(observed) of the same cells; ties count half

    Examples
    --------
    >>> from nmar import metrics
    >>> metrics.auc([True, False, True, False], [0.9, 0.1, 0.4, 0.4])
    0.875
    """
    said, rank = _alike(observed=observed, score=score)
    seen = said.astype(bool)
    n, m = int(seen.sum()), int((~seen).sum())
    if not (n and m):
        raise ValueError(f"observed: {n} cells are, {m} are not; both kinds are needed")
    return float((rankdata(rank)[seen].sum() - n * (n + 1) / 2) / (n * m))


def recall(listed: ArrayLike, rows: ArrayLike, test: Cells, k: int = 10, at_least: float | None = None) -> float:
    """Share of a row's relevant held-out columns that are among the first ``k`` of its list, averaged over rows.

    Parameters
    ----------
    listed : (rows, columns) ids, best first, as :meth:`nmar.CCPF.recommend` gives them; None fills up short lists
    rows : the ids of the rows
    test : held-out cells
    k : length of the lists
    at_least : held-out cells of this value or more are relevant; None: all

    Examples
    --------
    >>> import nmar
    >>> test = nmar.Cells.from_arrays([0, 0, 1], [2, 3, 1], [5.0, 4.0, 1.0])
    >>> nmar.metrics.recall([[2, 0], [1, 0]], [0, 1], test, k=2)
    0.75
    """
    hits, relevant = _hits(listed, rows, test, k, at_least)
    return float((hits.sum(axis=1) / relevant).mean())


def ndcg(listed: ArrayLike, rows: ArrayLike, test: Cells, k: int = 10, at_least: float | None = None) -> float:
    """Normalised discounted cumulative gain of lists of ``k``, averaged over rows; a relevant column gains 1.

    Parameters
    ----------
    listed, rows, test, k, at_least : as for :func:`recall`

    Examples
    --------
    >>> import nmar
    >>> test = nmar.Cells.from_arrays([0, 0, 1], [2, 3, 1], [5.0, 4.0, 1.0])
    >>> round(nmar.metrics.ndcg([[2, 0], [1, 0]], [0, 1], test, k=2), 4)
    0.8066
    """
    hits, relevant = _hits(listed, rows, test, k, at_least)
    discount = 1.0 / np.log2(np.arange(2, k + 2))
    best = np.cumsum(discount)[np.minimum(relevant, k) - 1]
    return float((hits @ discount[: hits.shape[1]] / best).mean())


def average_precision(
    listed: ArrayLike, rows: ArrayLike, test: Cells, k: int = 10, at_least: float | None = None
) -> float:
    """Mean average precision of lists of ``k``: precision at each hit, summed, over the hits there could be.

    Parameters
    ----------
    listed, rows, test, k, at_least : as for :func:`recall`

    Examples
    --------
    >>> import nmar
    >>> test = nmar.Cells.from_arrays([0, 0, 1], [2, 3, 1], [5.0, 4.0, 1.0])
    >>> nmar.metrics.average_precision([[0, 2], [1, 0]], [0, 1], test, k=2)
    0.625
    """
    hits, relevant = _hits(listed, rows, test, k, at_least)
    precision = np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1)
    return float(((precision * hits).sum(axis=1) / np.minimum(relevant, k)).mean())


def _mean(each: Array, weight: ArrayLike | None) -> float:
    return float(np.average(each, weights=None if weight is None else np.asarray(weight, np.float64)))


def _alike(**arrays: ArrayLike) -> list[Array]:
    """One-dimensional arrays of one length."""
    found = {name: np.asarray(array, np.float64).ravel() for name, array in arrays.items()}
    lengths = {name: len(array) for name, array in found.items()}
    if len(set(lengths.values())) > 1 or 0 in lengths.values():
        raise ValueError(f"lengths {lengths} differ or are 0; pass one entry per cell in each")
    return list(found.values())


def _hits(listed: ArrayLike, rows: ArrayLike, test: Cells, k: int, at_least: float | None) -> tuple[Array, Array]:
    """Which places of the lists are relevant, and how many relevant columns a row has, for rows that have some."""
    check_count("k", k, 1)
    ids = np.asarray(listed)
    lines = test.rows.positions(rows, "prior")
    if ids.ndim != 2 or len(ids) != len(lines):
        raise ValueError(f"listed has shape {ids.shape}, but there are {len(lines)} rows; pass one list for each")
    relevant = test if at_least is None else test.select(test.values >= at_least)
    degree = np.append(np.diff(relevant.by(0).indptr), 0)[lines]  # a row that was not held out has none
    kept = np.flatnonzero(degree)
    if not len(kept):
        raise ValueError("test has no relevant cell in these rows; at least one is needed")
    some = ids[kept, :k]
    places = test.cols.positions(np.where(_is_none(some), -1, some).ravel(), "prior").reshape(some.shape)
    width = test.shape[1] + 1
    key = lines[kept][:, None].astype(np.int64) * width + places
    row, col = relevant.positions()
    hits = np.isin(key, row.astype(np.int64) * width + col) & (places >= 0) & ~_is_none(some)
    return hits, degree[kept]


def _is_none(ids: Array) -> Array:
    if ids.dtype != object:
        return np.zeros(ids.shape, np.bool_)
    return np.array([one is None for one in ids.ravel().tolist()], np.bool_).reshape(ids.shape)
