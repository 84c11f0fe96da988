"""Pairs of ids: a table with two columns of them, a list of pairs, or an array with two columns.

Enters: what a user passes to ``predict``, or to ``fit`` beside its values. Leaves: row ids and column ids, one of each
per pair, or None for what is a matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nmar.arrays import Array
from nmar.data import outside
from nmar.data.cells import Cells
from nmar.data.ids import as_ids
from nmar.data.usual import usual_pair

Pairs = tuple[Array, Array]


def pairs_of(X: Any, columns: Sequence[Any] = ()) -> Pairs | None:
    """Row and column ids of pairs; None where ``X`` is a matrix.

    Parameters
    ----------
    X : Cells, table, list of pairs, or array
        Of a table the columns with the usual names of row and column ids, else the only two it has. An array has two
        columns, and they hold whole numbers, texts or objects.
    columns : sequence, default=()
        Names of the columns of the matrix that a table of two columns may be instead.
    """
    if isinstance(X, Cells):
        return X.pairs()
    if outside.is_frame(X):
        names = outside.column_names(X)
        found = usual_pair(names) or (tuple(names) if len(names) == 2 and list(columns) != names else None)
        return None if found is None else _columns(X, found)
    if isinstance(X, np.ndarray):
        pairs = X.ndim == 2 and X.shape[1] == 2 and X.dtype.kind in "iuOUS"
        return (as_ids(X[:, 0]), as_ids(X[:, 1])) if pairs else None
    if isinstance(X, list | tuple) and all(isinstance(one, list | tuple) and len(one) == 2 for one in X):
        return as_ids([one[0] for one in X]), as_ids([one[1] for one in X])
    return None


def _columns(frame: Any, names: tuple[Any, ...]) -> Pairs:
    whole = frame.collect() if type(frame).__name__ == "LazyFrame" else frame
    row, col = (as_ids(whole[name]) for name in names)
    return row, col


def with_values(X: Any, y: Any) -> Any:
    """Cells of pairs and their values; ``X`` itself where there are no values, or it is a matrix."""
    pairs = None if y is None or isinstance(X, Cells) else pairs_of(X)
    if pairs is None:
        return X
    return Cells.from_frame({"row": pairs[0], "col": pairs[1], "y": np.asarray(y).ravel()}, "row", "col", "y")
