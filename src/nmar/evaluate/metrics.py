"""How good predictions and lists are: errors, coverage, and measures of rankings at k.

Enters: held-out values or cells, and what a model said about them. Leaves: numbers. Lists are judged row by row, and
rows without a relevant held-out cell are left out of the mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.evaluate.lists import discount, judged

__all__ = [
    "auc",
    "average_precision",
    "coverage",
    "log_density_scorer",
    "mae",
    "mae_scorer",
    "ndcg",
    "recall",
    "rmse",
    "rmse_scorer",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def rmse(value: ArrayLike, mean: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Root mean squared error.

    Parameters
    ----------
    value, mean : array-like
        Held-out values and their predictions.
    weight : array-like or None, default=None
        How often each value counts. None: once.

    Returns
    -------
    float
        Root mean squared error.

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
    value, mean : array-like
        Held-out values and their predictions.
    weight : array-like or None, default=None
        How often each value counts. None: once.

    Returns
    -------
    float
        Mean absolute error.

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
    value : array-like
        Held-out values.
    low, high : array-like
        Ends of their intervals (:meth:`nmar.CCPF.interval`).
    weight : array-like or None, default=None
        How often each value counts. None: once.

    Returns
    -------
    float
        Share, from 0 to 1.

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
    observed : array-like
        Whether each cell is observed.
    score : array-like
        Score of each cell, such as P(observed). Ties count half.

    Returns
    -------
    float
        Area, from 0 to 1; 0.5 for scores that say nothing.

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


def recall(
    listed: ArrayLike,
    rows: ArrayLike,
    test: Cells,
    k: int = 10,
    at_least: float | None = None,
    propensity: Any = None,
) -> float:
    """Share of a row's relevant held-out columns that are among the first ``k`` of its list, averaged over rows.

    Parameters
    ----------
    listed : array-like of shape (rows, columns)
        Ids, best first, as :meth:`nmar.CCPF.recommend` returns them. None fills up short lists.
    rows : array-like
        The ids of the rows.
    test : Cells
        Held-out cells.
    k : int, default=10
        Length of the lists.
    at_least : float or None, default=None
        Smallest value of a relevant held-out cell. None: all are relevant.
    propensity : callable, array-like or None, default=None
        P(observed) of the held-out cells, by whose inverse they count: a function of row and column ids such as
        :meth:`nmar.CCPF.observed_probability`, a matrix, or one number for each test cell in row-major order. Lists
        are then judged by all relevant cells, as the observed ones stand for them, rather than by the popular ones.
        Weights are cut at their 99 % quantile. None: each cell counts once.

    Returns
    -------
    float
        Mean share, from 0 to 1.

    Examples
    --------
    >>> import nmar
    >>> test = nmar.Cells.from_arrays([0, 0, 1], [2, 3, 1], [5.0, 4.0, 1.0])
    >>> nmar.metrics.recall([[2, 0], [1, 0]], [0, 1], test, k=2)
    0.75
    >>> round(nmar.metrics.recall([[2, 0], [1, 0]], [0, 1], test, k=2, propensity=[0.5, 0.1, 0.1]), 3)
    0.583
    """
    found = judged(listed, rows, test, k, at_least, propensity)
    return float((found.gains.sum(axis=1) / found.total).mean())


def ndcg(
    listed: ArrayLike,
    rows: ArrayLike,
    test: Cells,
    k: int = 10,
    at_least: float | None = None,
    propensity: Any = None,
) -> float:
    """Normalised discounted cumulative gain of lists of ``k``, averaged over rows; a relevant column gains 1.

    Parameters
    ----------
    listed, rows : array-like
        As for :func:`recall`.
    test : Cells
        As for :func:`recall`.
    k : int, default=10
        As for :func:`recall`.
    at_least : float or None, default=None
        As for :func:`recall`.
    propensity : callable, array-like or None, default=None
        As for :func:`recall`. A relevant column gains the inverse of its P(observed).

    Returns
    -------
    float
        Mean gain, from 0 to 1.

    Examples
    --------
    >>> import nmar
    >>> test = nmar.Cells.from_arrays([0, 0, 1], [2, 3, 1], [5.0, 4.0, 1.0])
    >>> round(nmar.metrics.ndcg([[2, 0], [1, 0]], [0, 1], test, k=2), 4)
    0.8066
    """
    found = judged(listed, rows, test, k, at_least, propensity)
    return float((found.gains @ discount(found.gains.shape[1]) / found.best).mean())


def average_precision(
    listed: ArrayLike, rows: ArrayLike, test: Cells, k: int = 10, at_least: float | None = None
) -> float:
    """Mean average precision of lists of ``k``: precision at each hit, summed, over the hits there could be.

    Parameters
    ----------
    listed, rows, test, k, at_least : array-like, array-like, Cells, int, float or None
        As for :func:`recall`.

    Returns
    -------
    float
        Mean average precision, from 0 to 1.

    Examples
    --------
    >>> import nmar
    >>> test = nmar.Cells.from_arrays([0, 0, 1], [2, 3, 1], [5.0, 4.0, 1.0])
    >>> nmar.metrics.average_precision([[0, 2], [1, 0]], [0, 1], test, k=2)
    0.625
    """
    found = judged(listed, rows, test, k, at_least)
    precision = np.cumsum(found.gains, axis=1) / np.arange(1, found.gains.shape[1] + 1)
    return float(((precision * found.gains).sum(axis=1) / np.minimum(found.total, k)).mean())


def rmse_scorer(model: Any, X: Any, y: ArrayLike | None = None) -> float:
    """Minus the root mean squared error of ``model.predict``, for ``scoring=`` of scikit-learn's searches.

    Parameters
    ----------
    model, X, y : CCPF, Cells, array-like
        As for :func:`log_density_scorer`.

    Returns
    -------
    float
        Minus the root mean squared error.

    Examples
    --------
    >>> import nmar
    >>> from sklearn.model_selection import cross_val_score
    >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
    >>> model = nmar.CCPF(nmar.Effects("rows"), factors=2, max_iter=5, random_state=0)
    >>> folds = nmar.EntryKFold(3, random_state=0)
    >>> bool((cross_val_score(model, cells, cv=folds, scoring=nmar.metrics.rmse_scorer) < 0).all())
    True
    """
    value, weight = _held_out(X, y)
    return -rmse(value, model.predict(X), weight)


def mae_scorer(model: Any, X: Any, y: ArrayLike | None = None) -> float:
    """Minus the mean absolute error of ``model.predict``, for ``scoring=`` of scikit-learn's searches.

    Parameters
    ----------
    model, X, y : CCPF, Cells, array-like
        As for :func:`log_density_scorer`.

    Returns
    -------
    float
        Minus the mean absolute error.

    Examples
    --------
    >>> import nmar
    >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
    >>> model = nmar.CCPF(nmar.Effects("rows"), factors=2, max_iter=5, random_state=0).fit(cells)
    >>> nmar.metrics.mae_scorer(model, cells) > nmar.metrics.rmse_scorer(model, cells)
    True
    """
    value, weight = _held_out(X, y)
    return -mae(value, model.predict(X), weight)


def log_density_scorer(model: Any, X: Any, y: ArrayLike | None = None) -> float:
    """Mean predictive log density in nats, which is ``model.score``, for ``scoring=`` of scikit-learn's searches.

    Parameters
    ----------
    model : CCPF
        Fitted model.
    X : Cells, table or array-like
        Held-out cells, which have values and perhaps weights, or pairs of ids.
    y : array-like or None, default=None
        Values of the pairs.

    Returns
    -------
    float
        Score of the held-out cells; higher is better.

    Examples
    --------
    >>> import nmar
    >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
    >>> model = nmar.CCPF(nmar.Effects("rows"), factors=2, max_iter=5, random_state=0).fit(cells)
    >>> nmar.metrics.log_density_scorer(model, cells) == model.log_likelihood(cells)
    True
    """
    return float(model.score(X, y))


def _held_out(X: Any, y: ArrayLike | None) -> tuple[ArrayLike, Array | None]:
    """Values to judge by, and their weights."""
    if isinstance(X, Cells):
        return X.values, X.weights
    if y is None:
        raise ValueError(f"X is a {type(X).__name__} without values; pass nmar.Cells, or pairs of ids and y")
    return y, None


def _mean(each: Array, weight: ArrayLike | None) -> float:
    return float(np.average(each, weights=None if weight is None else np.asarray(weight, np.float64)))


def _alike(**arrays: ArrayLike) -> list[Array]:
    """One-dimensional arrays of one length."""
    found = {name: np.asarray(array, np.float64).ravel() for name, array in arrays.items()}
    lengths = {name: len(array) for name, array in found.items()}
    if len(set(lengths.values())) > 1 or 0 in lengths.values():
        raise ValueError(f"lengths {lengths} differ or are 0; pass one entry per cell in each")
    return list(found.values())
