"""A table with its missing cells filled: the same kind of table, under the same names."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from nmar.arrays import Array
from nmar.data import outside
from nmar.data.cells import Cells
from nmar.estimators.ccpf import CCPF
from nmar.models.settings import Factorization

__all__ = ["complete"]


def complete(X: Any, model: CCPF | None = None, *, index: str | None = None, random_state: Any = 0) -> Any:
    """Fill the missing cells of a table with their expected values.

    Parameters
    ----------
    X : pandas, polars or pyarrow table, array, or AnnData
        One line for each row of the matrix; missing cells are null or NaN. It is not changed.
    model : CCPF, optional
        What to fit, which is cloned. By default ``CCPF(Factorization(10))``, of smaller rank for a small table.
    index : str, optional
        Column of a table that holds ids instead of numbers. It is left as it is.
    random_state : int, numpy generator or None
        Seed of the default model.

    Returns
    -------
    table of the type of X
        With its index and its names. Columns in which nothing was missing are left as they are, the others become
        floating-point numbers.

    Notes
    -----
    Expected values vary less than values do, so that variances and correlations of a completed table come out wrong.
    For those draw several tables by :meth:`nmar.CCPF.impute`.

    Examples
    --------
    >>> import numpy as np, pandas
    >>> import nmar
    >>> table = pandas.DataFrame(np.random.default_rng(0).normal(size=(20, 4)), columns=list("abcd"))
    >>> table.iloc[::3, 1] = np.nan
    >>> filled = nmar.complete(table)
    >>> bool(filled.isna().any().any()), filled["a"].equals(table["a"])
    (False, True)
    """
    numbers = np.array(_numbers(X, index))
    away = np.isnan(numbers)
    if not away.any():
        return outside.rebuilt(X, numbers, away, index)
    cells = Cells.from_dense(numbers)
    if model is None:
        rank = max(1, min(10, *(size - 1 for size in cells.shape)))
        model = CCPF(Factorization(rank), random_state=random_state)
    fitted = clone(model).fit(cells)
    numbers[away] = fitted.predict_entries(*np.nonzero(away))
    return outside.rebuilt(X, numbers, away, index)


def _numbers(X: Any, index: str | None) -> Array:
    """The values as a dense array, NaN where missing."""
    if outside.is_frame(X):
        return np.asarray(outside.wide(X, index, "X").numbers)
    if index is not None:
        raise ValueError(f"index={index!r} names a column, but a {type(X).__name__} has none; leave it out")
    if not isinstance(X, np.ndarray) and outside.library(X) != "anndata":
        raise TypeError(
            f"X is a {type(X).__name__}; pass a pandas, polars or pyarrow table, AnnData, or an array with NaN where"
            " missing; for a sparse matrix fit a model, and predict the cells that you need"
        )
    found = np.asarray(outside.matrix_of(X).numbers, np.float64)
    if found.ndim != 2:
        raise ValueError(f"X has shape {found.shape}; pass a two-dimensional array")
    return found
