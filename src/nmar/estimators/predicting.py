"""``predict`` as scikit-learn has it: expected values of pairs of ids, of cells, or of all columns of new rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from nmar.data.pairs import Pairs, pairs_of
from nmar.estimators.asking import Target, Unknown
from nmar.posterior.places import line_places
from nmar.posterior.posterior import Posterior


class Predicting:
    """Predictions in scikit-learn's form."""

    _fitted: Callable[[], Posterior]
    _read: Callable[..., Any]
    fold_in: Callable[..., Any]
    predict_entries: Callable[..., Any]

    def predict(self, X: Any, return_std: bool = False, unknown: Unknown = "prior", target: Target = None) -> Any:
        """Expected values of pairs of ids, and on request their standard deviations.

        Parameters
        ----------
        X : Cells, table or list of pairs, array with two columns, or matrix
            Pairs (row id, column id), one prediction each. Of a table the columns with the usual names of row and
            column ids (user_id, movieId …), else the only two it has. Cells are predicted in row-major order. The rows
            of a matrix are folded in, as in :meth:`transform`, and all columns predicted.
        return_std : bool, default=False
            Whether to return (mean, standard deviation).
        unknown : {"prior", "error"}, default="prior"
            What to do with ids that the model does not know: predict them from the prior, with a warning, or raise an
            error.
        target : {"observed", "all"} or None, default=None
            Which expectation: E[y | observed] or, of all cells, E[y]. None: what the model was fitted for.

        Returns
        -------
        mean : ndarray of shape (pairs,) or (rows, columns)
            Expected values.
        sd : ndarray of the same shape
            Standard deviations, with ``return_std=True`` only.

        Examples
        --------
        >>> import nmar
        >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
        >>> model = nmar.CCPF(nmar.Effects("rows"), "linear", factors=2, max_iter=5, random_state=0).fit(cells)
        >>> model.predict([(0, 2), (1, 3)]).shape, model.predict(cells).shape == (len(cells),)
        ((2,), True)
        """
        known = self._fitted()
        pairs = pairs_of(X, known.cols.ids.tolist() if known.cols.size == 2 else ())
        if pairs is None or (isinstance(X, np.ndarray) and known.cols.size == 2):
            return self._whole_rows(X, return_std, target)
        if unknown == "prior":
            _warn_of_unknown(known, pairs)
        return self.predict_entries(*pairs, return_std=return_std, unknown=unknown, target=target)

    def _whole_rows(self, X: Any, return_std: bool, target: Target) -> Any:
        """All columns of the rows of a matrix, folded in."""
        cells = self._read(X)
        model = self.fold_in(cells)
        known = model.posterior_
        rows, cols = known.rows.ids, known.cols.ids
        pairs = np.repeat(rows, len(cols)), np.tile(cols, len(rows))
        found = model.predict_entries(*pairs, return_std=return_std, target=target)
        shape = len(rows), len(cols)
        return (found[0].reshape(shape), found[1].reshape(shape)) if return_std else found.reshape(shape)


def _warn_of_unknown(known: Posterior, pairs: Pairs) -> None:
    """Say how many pairs have an id that training has not seen and that has no covariates."""
    away = [line_places(known, axis, ids, "prior")[0] < 0 for axis, ids in enumerate(pairs)]
    count = int(np.count_nonzero(away[0] | away[1]))
    if count:
        axis = 0 if away[0].any() else 1
        first = pairs[axis][away[axis]][:1].tolist()[0]
        warnings.warn(
            f"{count:,} of {len(pairs[0]):,} pairs have a row or a column that training has not seen, such as the"
            f" {('row', 'column')[axis]} {first!r}; the prior answers for it (unknown='error' refuses)",
            UserWarning,
            stacklevel=3,
        )
