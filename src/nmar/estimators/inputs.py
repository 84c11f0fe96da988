"""From what a user has to cells, with scikit-learn's checks of matrices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sklearn.utils.validation import check_array, validate_data

from nmar.data import outside
from nmar.data.accept import as_cells
from nmar.data.cells import Cells


def read_input(model: Any, X: Any, first: bool = False) -> Cells:
    """Cells as they are, and a table with a line per cell; a matrix, checked, with its ids or those of the fit.

    Parameters
    ----------
    model : CCPF
        The estimator, whose names and number of columns are checked or, with ``first``, set.
    X : object
        What the user passed.
    first : bool, default=False
        Whether it is what is fitted. Otherwise columns without ids are those of the fit, by position; rows are counted.
    """
    if isinstance(X, Cells) or outside.is_long(X):
        cells = as_cells(X)
        if first:
            model.n_features_in_ = cells.shape[1]
        return cells
    least = {"ensure_min_samples": 2, "ensure_min_features": 2} if first else {}
    how: dict[str, Any] = {"accept_sparse": True, "dtype": "numeric", "ensure_all_finite": "allow-nan", **least}
    if outside.is_frame(X):
        validate_data(model, X, reset=first, skip_check_array=True)  # names and number of columns
        found = outside.matrix_of(X)
        return Cells.from_matrix(replace(found, numbers=check_array(found.numbers, **how)), empty=not first)
    found = outside.matrix_of(X) if outside.library(X) else outside.Matrix(X)
    found = replace(found, numbers=validate_data(model, found.numbers, reset=first, **how))
    if not first and found.cols is None and hasattr(model, "posterior_"):
        found = replace(found, cols=model.posterior_.cols)
    return Cells.from_matrix(found, empty=not first)
