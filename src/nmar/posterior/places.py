"""Where cells lie in a fitted model: ids become positions, here and nowhere else.

Enters: ids of rows and columns, or cells. Leaves: positions, and the posterior they are positions of, which has more
lines than the fitted one where ids have no cells.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nmar.arrays import Array
from nmar.data.cells import Cells
from nmar.data.ids import as_ids, distinct
from nmar.posterior.posterior import Posterior, log_density

Unknown = Literal["error", "prior"]

__all__ = [
    "Places",
    "Unknown",
    "are_other_rows",
    "cell_places",
    "entry_places",
    "held_out_score",
    "line_places",
    "pair_places",
    "under_known_ids",
]

REMEDY = "remove them, or pass unknown='prior'"  # of ids that are not known


class Places(NamedTuple):
    """Cells as a posterior sees them."""

    posterior: Posterior
    row: Array
    col: Array


def line_places(
    posterior: Posterior,
    axis: int,
    ids: Any,
    unknown: Unknown = "error",
    remedy: str = REMEDY,
    values: bool = True,
) -> tuple[Array, Array]:
    """Positions of ids on one axis, and those ids that have covariates but no cells: they come after the known ones.

    Parameters
    ----------
    posterior : Posterior
        Fitted model.
    axis : {0, 1}
        Rows or columns.
    ids : array-like
        Ids of rows or of columns.
    unknown : {"error", "prior"}, default="error"
        What to do with ids that the model does not know. With "prior" their position is −1.
    remedy : str
        What an error advises.
    values : bool, default=True
        Whether the question is about values. Covariates of the pattern alone do not tell what values an id has, so
        they count only for other questions, or with ``unknown="prior"``.
    """
    there, argument, ids = (posterior.rows, posterior.cols)[axis], ("rows", "cols")[axis], as_ids(ids)
    found = there.positions(ids, "prior")
    away = found < 0
    described = np.zeros(len(ids), np.bool_)
    described[away] = posterior.law.data.described(axis, ids[away])
    if unknown == "prior" or not values:
        described[away] |= posterior.law.pattern.described(axis, ids[away])
    if not described.any():
        return there.positions(ids, unknown, argument, remedy), ids[:0]
    there.positions(ids[~described], unknown, argument, remedy)
    new, where = distinct(ids[described])  # of mixed kinds, perhaps, which np.unique cannot sort
    found[described] = there.size + where
    return found, new


def pair_places(
    posterior: Posterior, rows: ArrayLike, cols: ArrayLike, unknown: Unknown = "error", values: bool = True
) -> Places:
    """Places of rows and columns by id, which need not be of one length.

    See :func:`line_places` for the parameters.
    """
    i, new_rows = line_places(posterior, 0, rows, unknown, values=values)
    j, new_cols = line_places(posterior, 1, cols, unknown, values=values)
    longer = unknown == "prior" or len(new_rows) or len(new_cols)
    return Places(posterior.extended(new_rows, new_cols) if longer else posterior, i, j)


def entry_places(
    posterior: Posterior, rows: ArrayLike, cols: ArrayLike, unknown: Unknown = "error", values: bool = True
) -> Places:
    """Places of entries, one row id and one column id each."""
    found = pair_places(posterior, rows, cols, unknown, values)
    if len(found.row) != len(found.col):
        raise ValueError(f"rows has length {len(found.row)} and cols {len(found.col)}; give one id of each per entry")
    return found


def cell_places(posterior: Posterior, cells: Cells) -> Places:
    """Places of cells; ids that the model does not know get its prior line, at position −1."""
    if cells.rows == posterior.rows and cells.cols == posterior.cols:
        return Places(posterior, *cells.positions())
    row = posterior.rows.positions(cells.row_ids, unknown="prior")[cells.row_index]
    col = posterior.cols.positions(cells.col_ids, unknown="prior")[cells.col_index]
    unseen = bool((row < 0).any() or (col < 0).any())
    return Places(posterior.extended() if unseen else posterior, row, col)


def held_out_score(posterior: Posterior, cells: Cells) -> Array:
    """Predictive log likelihood of each cell whose row and column are known; 0 where no values are modelled.

    Of cells with weights, as often as it counts, so that the mean is the weighted one.
    """
    known = cells.align(posterior.rows, posterior.cols, unknown="drop")
    if not len(known):
        raise ValueError("valid has no cell whose row and column are in the training cells")
    if not posterior.law.data.has_values:
        return np.zeros(len(known))
    found, weights = log_density(posterior, *known.positions(), known.values), known.weights
    return found if weights is None else found * (weights / weights.mean())


def under_known_ids(posterior: Posterior, cells: Cells) -> Cells:
    """Cells whose rows are only counted, under the row ids of the fit if there are as many."""
    if cells.rows.table is not None or cells.shape[0] != posterior.rows.size:
        return cells
    return Cells(cells.by(0), posterior.rows, cells.cols, cells.weights)


def are_other_rows(posterior: Posterior, cells: Cells, seen: Cells | None) -> bool:
    """Whether the rows of a matrix are not those of the fit: an id is new, or a cell of both has two values.

    Rows that are only counted are those of the fit if there are as many of them.
    """
    counted = cells.rows.table is None
    if counted and cells.shape[0] != posterior.rows.size:
        return True
    if not counted and (posterior.rows.positions(cells.row_ids, "prior") < 0).any():
        return True
    if seen is None:
        raise ValueError(
            "a matrix says by position which rows it holds, and a loaded model has no training cells to compare"
            " them with; pass nmar.Cells with ids, or fold the rows in"
        )
    cells = under_known_ids(posterior, cells).align(seen.rows, seen.cols, unknown="drop")
    key, known_key = (np.ravel_multi_index(each.positions(), each.shape) for each in (cells, seen))
    _, here, there = np.intersect1d(key, known_key, assume_unique=True, return_indices=True)
    return not np.array_equal(cells.values[here], seen.values[there])
