"""Questions to a fitted model, by id: what :class:`nmar.CCPF` answers once it is fitted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from nmar.data.cells import Cells
from nmar.data.seeds import check_seed
from nmar.models.settings import check_choice, check_count
from nmar.posterior import posterior as ask
from nmar.posterior.recommend import recommend, recommendable
from nmar.report.scoring import as_cells

Array = NDArray[Any]
Unknown = Literal["error", "prior"]
Target = Literal["observed", "all"] | None

__all__ = ["Asking", "Unknown", "as_cells"]


class Asking:
    """Predictions from ``posterior_``."""

    posterior_: ask.Posterior
    fold_in: Callable[..., Any]
    _seen: Cells

    def _fitted(self) -> ask.Posterior:
        if not hasattr(self, "posterior_"):
            raise NotFittedError("this CCPF is not fitted yet; call fit(cells) first")
        return self.posterior_

    def _positions(
        self, rows: ArrayLike, cols: ArrayLike, unknown: Unknown, target: Target = None
    ) -> tuple[ask.Posterior, Array, Array]:
        known = self._fitted()
        if target is not None:
            check_choice("target", target, ("observed", "all"))
            known = replace(known, law=replace(known.law, target=target))
        i, new_rows = self._known_or_described(0, np.atleast_1d(np.asarray(rows)), unknown)
        j, new_cols = self._known_or_described(1, np.atleast_1d(np.asarray(cols)), unknown)
        if len(i) != len(j):
            raise ValueError(f"rows has length {len(i)} and cols {len(j)}; give one id of each per entry")
        longer = unknown == "prior" or len(new_rows) or len(new_cols)
        return (known.extended(new_rows, new_cols) if longer else known), i, j

    def _known_or_described(self, axis: int, ids: Array, unknown: Unknown) -> tuple[Array, Array]:
        """Positions of ids, and those ids that have covariates but no cells: they come after the known ones."""
        known = self._fitted()
        axes = (known.rows, known.cols)
        found = axes[axis].positions(ids, "prior")
        away = found < 0
        described = np.zeros(len(ids), np.bool_)
        described[away] = known.law.data.described(axis, ids[away])
        if not described.any():
            return axes[axis].positions(ids, unknown, ("rows", "cols")[axis]), ids[:0]
        axes[axis].positions(ids[~described], unknown, ("rows", "cols")[axis])
        new, where = np.unique(ids[described], return_inverse=True)
        found[described] = axes[axis].size + where
        return found, new

    def log_density(self, cells: Any, plugin: bool = False, unknown: Unknown = "error", target: Target = None) -> Array:
        """log p(y) of each cell, in row-major order, given that it is observed or not (``target``)."""
        data = self._read(cells)
        if data is not cells and self._other_rows(data):
            raise ValueError(
                "cells are rows of a matrix that the model was not fitted to: where both have a value, they differ."
                " Fold the rows in (fold_in, or score, which does it), or pass nmar.Cells, whose ids say which they are"
            )
        rows, cols = data.pairs()
        model, i, j = self._positions(data.row_ids[rows], data.col_ids[cols], unknown, target)
        return ask.log_density(model, i, j, data.values, plugin)

    def log_likelihood(
        self,
        cells: Any,
        plugin: bool = False,
        per_cell: bool = False,
        unknown: Unknown = "error",
        target: Target = None,
    ) -> Any:
        """Mean log likelihood in nats per observed cell; of cells with weights, their weighted mean.

        Parameters
        ----------
        plugin : False integrates over the data model's posterior; True is the paper's L_NM
        per_cell : return the array instead of its mean
        unknown : what to do with ids not seen in training: "error", or "prior" for the prior predictive
        target : "observed": the cells are observed ones; "all": they are a sample of all cells, whoever chose them.
            None: what the model was fitted for
        """
        each = self.log_density(cells, plugin, unknown, target)
        weights = cells.weights if isinstance(cells, Cells) else None
        return each if per_cell else float(np.average(each, weights=weights))

    def score(self, X: Any, y: None = None) -> float:
        """Mean predictive log likelihood per observed cell.

        Parameters
        ----------
        X : Cells, or a matrix as in ``fit``
            Cells are those of known rows and columns, by id. A matrix is either of the rows of the fit, or of other
            rows: then each row's cells are cut into two halves at random, and each half is predicted from the other.
        y : ignored
        """
        cells = self._read(X)
        if cells is X or not self._other_rows(cells):
            return self.log_likelihood(cells)
        half = np.random.default_rng(0).permutation(len(cells)) % 2 == 0
        parts = cells.select(half), cells.select(~half)
        scores = [self.fold_in(given).log_density(asked) for given, asked in (parts, parts[::-1]) if len(asked)]
        return float(np.concatenate(scores).mean())

    def _read(self, X: Any, first: bool = False) -> Cells:
        """Cells as they are; a matrix, checked, as cells whose ids are positions. ``first``: it is what is fitted."""
        if isinstance(X, Cells):
            if first:
                self.n_features_in_ = X.shape[1]
            return X
        least = {"ensure_min_samples": 2, "ensure_min_features": 2} if first else {}
        matrix = validate_data(
            self, X, reset=first, accept_sparse=True, dtype="numeric", ensure_all_finite="allow-nan", **least
        )
        return as_cells(matrix)

    def _other_rows(self, cells: Cells) -> bool:
        """Whether the rows of a matrix are not those of the fit: there are more, or a cell of both has two values."""
        known = self._fitted()
        if cells.shape[0] != known.rows.size:
            return True
        seen = getattr(self, "_seen", None)
        if seen is None:
            raise ValueError(
                "a matrix says by position which rows it holds, and a loaded model has no training cells to compare"
                " them with; pass nmar.Cells with ids, or fold the rows in"
            )
        key, known_key = (np.ravel_multi_index(each.pairs(), each.shape) for each in (cells, seen))
        _, here, there = np.intersect1d(key, known_key, assume_unique=True, return_indices=True)
        return not np.array_equal(cells.values[here], seen.values[there])

    def predict_entries(
        self,
        rows: ArrayLike,
        cols: ArrayLike,
        return_std: bool = False,
        unknown: Unknown = "error",
        target: Target = None,
    ) -> Any:
        """Expected values of entries given by id, and their standard deviations if asked.

        Parameters
        ----------
        rows, cols : ids, one of each per entry
        return_std : return (mean, standard deviation)
        unknown : what to do with ids not seen in training: "error", or "prior"
        target : "observed", E[y | observed]; "all", E[y] whether observed or not; None: what the model was fitted for
        """
        model, i, j = self._positions(rows, cols, unknown, target)
        mean, variance = ask.mean_and_variance(model, i, j)
        return (mean, np.sqrt(variance)) if return_std else mean

    def interval(
        self, rows: ArrayLike, cols: ArrayLike, level: float = 0.9, unknown: Unknown = "error", target: Target = None
    ) -> tuple[Array, Array]:
        """Central prediction interval of y, given that it is observed or of any cell (``target``)."""
        if not 0.0 < level < 1.0:
            raise ValueError(f"level={level!r}; give a probability between 0 and 1")
        model, i, j = self._positions(rows, cols, unknown, target)
        found = ask.quantiles(model, i, j, (0.5 - level / 2, 0.5 + level / 2))
        return found[:, 0], found[:, 1]

    def sample(
        self, rows: ArrayLike, cols: ArrayLike, n: int = 100, seed: Any = None, unknown: Unknown = "error"
    ) -> Array:
        """Draws from p(y | observed): (entries, n)."""
        check_count("n", n, 0)
        check_seed("seed", seed)
        model, i, j = self._positions(rows, cols, unknown)
        return ask.sample(model, i, j, n, np.random.default_rng(seed))

    def observed_probability(self, rows: ArrayLike, cols: ArrayLike, unknown: Unknown = "error") -> Array:
        """P(observed) = 1 − exp(−Λ) of entries given by id."""
        model, i, j = self._positions(rows, cols, unknown)
        return -np.expm1(-model.rates(i, j))

    def recommend(
        self,
        rows: ArrayLike,
        n: int = 10,
        exclude_seen: bool = True,
        by: Literal["value", "observed", "expected"] = "value",
    ) -> tuple[Array, Array]:
        """The ``n`` best columns of each row, by expected value, P(observed), or their product.

        Parameters
        ----------
        rows : row ids
        n : columns for each row, at most
        exclude_seen : leave out columns that were observed in training
        by : "value" (E[y | observed]), "observed" (P(observed)) or "expected" (their product)

        Returns
        -------
        ids, scores : arrays (rows, m), best first
            m is ``n``, or fewer if no row has so many columns left. A row with fewer than m is filled up with the id
            None (ids are then an array of objects) and the score NaN.

        Examples
        --------
        >>> import nmar
        >>> cells, _ = nmar.simulate(shape=(20, 8), data=nmar.Effects("rows"), density=0.5, seed=0)
        >>> model = nmar.CCPF(nmar.Effects("rows"), "ignorable", factors=2, max_iter=5, random_state=0).fit(cells)
        >>> ids, scores = model.recommend([0, 1], n=2, by="observed")
        >>> ids.shape, scores.shape
        ((2, 2), (2, 2))
        """
        known = self._fitted()
        if exclude_seen and not hasattr(self, "_seen"):
            raise ValueError("exclude_seen=True needs the training cells, which a loaded model does not hold")
        lines = recommendable(known, np.atleast_1d(np.asarray(rows)))
        seen = self._seen.by(0) if exclude_seen else None
        which, score = recommend(known, lines, n, by, seen)
        ids = np.asarray(known.cols.ids)[which]
        if (which < 0).any():
            ids = ids.astype(object)
            ids[which < 0] = None
        return ids, score
