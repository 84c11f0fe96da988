"""``predict`` as scikit-learn has it: expected values of pairs of ids, of cells, or of all columns of new rows."""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone

from nmar.arrays import Array
from nmar.data import outside
from nmar.data.accept import as_cells, check_some
from nmar.data.cells import Cells
from nmar.data.pairs import Pairs, pairs_of, with_values
from nmar.estimators.asking import Asking, Target, Unknown
from nmar.fit.foldin import fold_in
from nmar.posterior.learned import loadings
from nmar.posterior.places import are_other_rows, line_places, under_known_ids
from nmar.posterior.posterior import Posterior


class Predicting(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Asking):
    """Predictions in scikit-learn's form, of known rows and of new ones."""

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

    def fold_in(self, X: Any, axis: Literal["rows", "cols"] = "rows") -> Self:
        """A model of new rows (or columns) given the fitted columns (or rows), which stay as they are.

        Parameters
        ----------
        X : Cells or array-like
            Observed cells of the new lines, on the ids of the fitted other axis.
        axis : {"rows", "cols"}, default="rows"
            Which lines are new.

        Returns
        -------
        CCPF
            A model whose rows (or columns) are the new ones. Each is iterated until it has converged, and
            does not depend on which others are folded in. A line without cells has the prior, with its wide intervals.

        Examples
        --------
        >>> import nmar
        >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
        >>> model = nmar.CCPF(nmar.Effects("rows"), "linear", factors=2, max_iter=5, random_state=0)
        >>> new = model.fit(cells.take_rows(range(30))).fold_in(cells.take_rows(range(30, 40)))
        >>> new.predict_entries([35], [0]).shape
        (1,)
        """
        if axis not in ("rows", "cols"):
            raise ValueError(f"axis={axis!r}; use 'rows' or 'cols'")
        cells = self._read(X) if axis == "rows" else as_cells(X)
        model = clone(self)
        where = 0 if axis == "rows" else 1
        model.posterior_ = fold_in(self._fitted(), cells, where, n_jobs=self.n_jobs, backend=self.backend)
        for name in ("bound_trace_", "valid_trace_", "seconds_trace_", "n_iter_", "stop_reason_"):
            setattr(model, name, getattr(self, name))
        known = model.posterior_
        model._seen, model._folded = cells.align(known.rows, known.cols), True
        return model

    def transform(self, X: Any) -> Array:
        """Posterior mean factors of new rows given the fitted columns: (rows, rank). See :meth:`fold_in`.

        Parameters
        ----------
        X : Cells or array-like
            Observed cells of the rows, or a matrix of them, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (rows, rank)
            Posterior mean factors.

        Examples
        --------
        >>> import nmar
        >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Factorization(2), density=0.3, seed=0)
        >>> model = nmar.CCPF(nmar.Factorization(2), "linear", factors=2, max_iter=5, random_state=0)
        >>> model.fit(cells.take_rows(range(30))).transform(cells.take_rows(range(30, 40))).shape
        (10, 2)
        """
        known = self._fitted()
        found = fold_in(known, self._read(X), 0, n_jobs=self.n_jobs, backend=self.backend)
        return loadings(found, 0)

    @property
    def _n_features_out(self) -> int:
        return loadings(self._fitted(), 0).shape[1]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def score(self, X: Any, y: Any = None) -> float:
        """Mean predictive log likelihood per observed cell.

        Parameters
        ----------
        X : Cells or array-like
            Cells, a table with one line per cell, or a matrix, as in :meth:`fit`. Cells are those of known rows and
            columns, by id. A matrix has the rows of the fit or other ones. The cells of each other row are split into
            two halves at random, and each half is predicted from the other.
            The ids of a pandas table are its index, those of AnnData its ``obs_names``.
        y : array-like or None, default=None
            Values of pairs of ids in X, as in :meth:`fit`. Ids that training has not seen have the prior's density.

        Returns
        -------
        float
            Mean in nats per cell.

        Examples
        --------
        >>> import nmar
        >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
        >>> model = nmar.CCPF(nmar.Effects("rows"), "linear", factors=2, max_iter=5, random_state=0).fit(cells)
        >>> model.score(cells) == model.log_likelihood(cells)
        True
        """
        cells = self._read(with_values(X, y))
        if y is not None and not isinstance(X, Cells) and pairs_of(X) is not None:
            return float(self.log_likelihood(cells, unknown="prior"))
        if cells is X or outside.is_long(X):
            return self.log_likelihood(cells)
        if not are_other_rows(self._fitted(), cells, self._seen):
            return self.log_likelihood(under_known_ids(self.posterior_, cells))
        check_some(cells)
        half = np.random.default_rng(0).permutation(len(cells)) % 2 == 0
        parts = cells.select(half), cells.select(~half)
        scores = [self.fold_in(given).log_density(asked) for given, asked in (parts, parts[::-1]) if len(asked)]
        return float(np.concatenate(scores).mean())

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
