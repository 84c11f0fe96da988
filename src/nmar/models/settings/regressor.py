"""Any scikit-learn regressor as a data model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nmar.data.axis import Axis
from nmar.data.cells import Cells
from nmar.models.arguments import check_choice, check_lines
from nmar.models.protocol import DataModel
from nmar.models.regressor import Learner


@dataclass(frozen=True, eq=False)
class Regressor:
    """Any scikit-learn regressor that takes ``sample_weight``, on features of rows, of columns, or of both.

    Parameters
    ----------
    estimator : estimator
        Regressor of scikit-learn's kind, such as ``HistGradientBoostingRegressor()``. Its targets are standardised, so
        that a penalty means the same in any units.
    row_features : array-like of shape (rows, features) or None, default=None
        Features of the rows, in the order of the matrix.
    col_features : array-like of shape (columns, features) or None, default=None
        Features of the columns, in the order of the matrix.
    family : {"gaussian"}, default="gaussian"
        Family of the values; there is one.

    Notes
    -----
    Models and checkpoints with an estimator are written by skops, without pickle (``pip install skops``);
    see ``trusted`` of :func:`nmar.load`.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> Regressor(Ridge(), col_features=np.arange(4.0)[:, None]).describe()
    'regressor:Ridge'
    """

    estimator: Any
    row_features: Any = None
    col_features: Any = None
    family: str = "gaussian"

    def __post_init__(self) -> None:
        check_choice("family", self.family, ("gaussian",))
        if not (hasattr(self.estimator, "fit") and hasattr(self.estimator, "predict")):
            raise ValueError(f"estimator={self.estimator!r} has no fit and predict; give a scikit-learn regressor")
        if self.row_features is None and self.col_features is None:
            raise ValueError("row_features and col_features are both None; give at least one of them")

    def build(self, cells: Cells | None) -> DataModel:
        """A learner on the features."""
        given = [None if f is None else np.asarray(f) for f in (self.row_features, self.col_features)]
        for axis, features in enumerate(given):
            if cells is not None and features is not None:
                check_lines(("row_features", "col_features")[axis], len(features), axis, cells)
        return Learner(self.estimator, given[0], given[1])

    def fitted_to_few(self, cells: Cells) -> Any:
        """The estimator as a fit of these cells makes it, from some of them: to see what it is made of."""
        some = cells.select(np.arange(cells.n_observed) < 1000)
        return self.build(cells).init(some, 0, np.random.default_rng(0)).globals.estimator

    def portable(self, rows: Axis, cols: Axis) -> Regressor:
        """The same as model files can hold it: features as arrays."""
        given = [None if f is None else np.asarray(f) for f in (self.row_features, self.col_features)]
        return replace(self, row_features=given[0], col_features=given[1])

    def describe(self) -> str:
        """Name of the estimator."""
        return f"regressor:{type(self.estimator).__name__}"
