"""Where cells lie in a fitted model: ids become positions, here and nowhere else.

Enters: ids of rows and columns, or cells. Leaves: positions, and the posterior they are positions of, which has more
lines than the fitted one where ids without cells are asked about.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nmar.data.cells import Cells
from nmar.data.ids import as_ids, distinct
from nmar.posterior.posterior import Posterior, log_density

Array = NDArray[Any]
Unknown = Literal["error", "prior"]

__all__ = ["Places", "Unknown", "cell_places", "held_out_score", "line_places", "pair_places"]

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
    axis : {0, 1}
        Rows or columns.
    ids : array-like
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
