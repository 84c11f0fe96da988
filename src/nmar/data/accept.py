"""Whatever a user passes as data becomes `Cells`."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from nmar.data import outside
from nmar.data.cells import Cells


def as_cells(X: Any, argument: str = "cells") -> Cells:
    """Cells from Cells, a table, AnnData, a torch tensor, a scipy sparse matrix, or an array with NaN where missing.

    A table with columns row, col and value, or of other usual names (nmar/data/usual.py), has one line per cell; any
    other has one line for each row of the matrix.
    """
    if isinstance(X, Cells):
        return X
    if outside.is_long(X):
        return from_long(X)
    return Cells.from_matrix(outside.matrix_of(X, argument))


def from_long(frame: Any) -> Cells:
    """Cells from a table whose columns have the usual names (and weight, if it has one)."""
    columns = outside.long_columns(frame)
    assert columns is not None
    weight = "weight" if "weight" in outside.column_names(frame) else None
    return Cells.from_frame(frame, *columns, weight=weight)


def check_some(cells: Sized) -> None:
    """Refuse to take a mean over no cells."""
    if len(cells) == 0:
        raise ValueError("there is no observed cell to score; pass at least one")
