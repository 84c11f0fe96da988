"""Questions to a fitted model, by id: what :class:`nmar.CCPF` answers once it is fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nmar.arrays import Array
from nmar.data import outside
from nmar.data.accept import as_cells, check_some
from nmar.data.cells import Cells
from nmar.data.dataset import Dataset
from nmar.data.seeds import check_seed
from nmar.estimators.fitted import FittedModel
from nmar.fit.executor import threads
from nmar.models.arguments import check_count
from nmar.posterior import levels
from nmar.posterior import posterior as ask
from nmar.posterior.places import Places, Unknown, are_other_rows, entry_places, pair_places, under_known_ids
from nmar.posterior.questions import Given, Target, about
from nmar.posterior.streamed import Scored, mean_log_density

__all__ = ["Asking", "Given", "Target", "Unknown", "as_cells"]


class Asking(FittedModel):
    """Densities and predictions by id."""

    def _positions(
        self,
        rows: ArrayLike,
        cols: ArrayLike,
        unknown: Unknown,
        target: Target = None,
        values: bool = True,
        given: Given = "observed",
    ) -> Places:
        return entry_places(about(self._fitted(), target, given), rows, cols, unknown, values)

    def log_density(self, cells: Any, plugin: bool = False, unknown: Unknown = "error", target: Target = None) -> Array:
        """Log density of the value of each cell, in row-major order, given that it is observed or not (``target``).

        Parameters
        ----------
        cells : Cells or array-like
            Cells, a table with one line per cell, or a matrix of the rows of the fit, as in :meth:`fit`.
        plugin : bool, default=False
            Whether to plug in posterior means, as the paper does, instead of integrating over the posterior.
        unknown : {"error", "prior"}, default="error"
            What to do with ids that the model does not know: raise an error, or predict them from the prior.
        target : {"observed", "all"} or None, default=None
            Which cells the question is about: observed ones, or all. None: those that the model was fitted for.

        Returns
        -------
        ndarray of shape (cells,)
            Log densities in nats.

        Examples
        --------
        >>> import nmar
        >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
        >>> model = nmar.CCPF(nmar.Effects("rows"), "linear", factors=2, max_iter=5, random_state=0).fit(cells)
        >>> model.log_density(cells).shape == (len(cells),)
        True
        """
        data = self._read(cells)
        matrix = not (data is cells or outside.is_long(cells))
        if matrix and are_other_rows(self._fitted(), data, self._seen):
            raise ValueError(
                "cells are rows of a matrix that the model was not fitted to: where both have a value, they differ."
                " Fold the rows in (fold_in, or score, which does it), or pass nmar.Cells, whose ids say which they are"
            )
        data = under_known_ids(self.posterior_, data) if matrix else data
        model, i, j = self._positions(*data.pairs(), unknown, target)
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
        cells : Cells or array-like
            Cells, a table with one line per cell, or a matrix of the rows of the fit, as in :meth:`fit`.
        plugin : bool, default=False
            Whether to plug in posterior means, as the paper's L_NM does, instead of integrating over the posterior.
        per_cell : bool, default=False
            Return the array instead of its mean.
        unknown : {"error", "prior"}, default="error"
            What to do with ids that the model does not know: raise an error, or predict them from the prior.
        target : {"observed", "all"} or None, default=None
            Which cells these are a sample of: observed ones, or all. None: those that the model was fitted for.

        Returns
        -------
        float or ndarray of shape (cells,)
            The mean in nats, or with ``per_cell=True`` the log likelihood of each cell.

        Examples
        --------
        >>> import nmar
        >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
        >>> model = nmar.CCPF(nmar.Effects("rows"), "linear", factors=2, max_iter=5, random_state=0).fit(cells)
        >>> bool(model.log_likelihood(cells) == model.log_likelihood(cells, per_cell=True).mean())
        True
        """
        if isinstance(cells, Dataset) and not per_cell:
            return self._streamed(cells, plugin, unknown, target)
        cells = as_cells(cells) if outside.is_long(cells) else cells  # a table may have weights
        each = self.log_density(cells, plugin, unknown, target)
        if per_cell:
            return each
        check_some(each)
        weights = cells.weights if isinstance(cells, Cells) else None
        if weights is not None and not np.any(weights):
            raise ValueError("weights of the cells are all 0, and so there is no mean; give some a weight above 0")
        return float(np.average(each, weights=weights))

    def _streamed(self, cells: Dataset, plugin: bool, unknown: Unknown, target: Target) -> float:
        """Mean log likelihood of cells on disk, block by block."""
        model, i, j = pair_places(self._about(target), cells.row_ids, cells.col_ids, unknown)
        with self._running(cells) as executor:
            return mean_log_density(Scored(model, cells, i, j, plugin), executor)

    def _running(self, cells: Cells) -> Any:
        """Where questions about cells on disk are answered."""
        return threads(self.n_jobs)

    def predict_entries(
        self,
        rows: ArrayLike,
        cols: ArrayLike,
        return_std: bool = False,
        unknown: Unknown = "error",
        target: Target = None,
        given: Given = "observed",
    ) -> Any:
        """Expected values of entries by id, and on request their standard deviations.

        Parameters
        ----------
        rows, cols : array-like
            Ids, one of each per entry.
        return_std : bool, default=False
            Return (mean, standard deviation).
        unknown : {"error", "prior"}, default="error"
            What to do with ids that the model does not know: raise an error, or predict them from the prior.
        target : {"observed", "all"} or None, default=None
            Which expectation: E[y | observed] or, of all cells, E[y]. None: what the model was fitted for.
        given : {"observed", "missing"} or None, default="observed"
            What is known of the entries. None is nothing, as with ``target="all"``.

        Returns
        -------
        mean : ndarray of shape (entries,)
            Expected values.
        sd : ndarray of shape (entries,)
            Standard deviations, with ``return_std=True`` only.

        Examples
        --------
        >>> import nmar
        >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
        >>> model = nmar.CCPF(nmar.Effects("rows"), "linear", factors=2, max_iter=5, random_state=0).fit(cells)
        >>> mean, sd = model.predict_entries([0, 1], [2, 3], return_std=True)
        >>> mean.shape, bool((sd > 0).all())
        ((2,), True)
        """
        model, i, j = self._positions(rows, cols, unknown, target, given=given)
        if not return_std:
            return ask.expectation(model, i, j)
        mean, variance = ask.mean_and_variance(model, i, j)
        return mean, np.sqrt(variance)

    def predict_levels(
        self, rows: ArrayLike, cols: ArrayLike, unknown: Unknown = "error", target: Target = None
    ) -> Array:
        """P(level) of entries by id, of a model with ``family="levels"``.

        Parameters
        ----------
        rows, cols : array-like
            Ids, one of each per entry.
        unknown : {"error", "prior"}, default="error"
            What to do with ids that the model does not know: raise an error, or predict them from the prior.
        target : {"observed", "all"} or None, default=None
            Which cells the question is about: observed ones, or all. None: those that the model was fitted for.

        Returns
        -------
        ndarray of shape (entries, levels)
            Probabilities, in the order of ``levels_``.

        Examples
        --------
        >>> import nmar
        >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
        >>> ratings = cells.with_values(1.0 + (cells.values > -1.0) + (cells.values > 1.0))
        >>> model = nmar.CCPF(nmar.Effects("rows", family="levels"), factors=2, max_iter=5, random_state=0)
        >>> chance = model.fit(ratings).predict_levels([0, 1], [2, 3])
        >>> chance.shape, chance.sum(axis=1).round(6).tolist()
        ((2, 3), [1.0, 1.0])
        """
        model, i, j = self._positions(rows, cols, unknown, target)
        if model.law.scale is None:
            raise ValueError("predict_levels needs a model with family='levels'; this one has numbers for values")
        return levels.probabilities(model, i, j)

    def interval(
        self,
        rows: ArrayLike,
        cols: ArrayLike,
        level: float = 0.9,
        unknown: Unknown = "error",
        target: Target = None,
        given: Given = "observed",
    ) -> tuple[Array, Array]:
        """Central prediction interval of y, given that it is observed or of any cell (``target``).

        Parameters
        ----------
        rows, cols : array-like
            Ids, one of each per entry.
        level : float, default=0.9
            Probability that the interval holds the value.
        unknown : {"error", "prior"}, default="error"
            What to do with ids that the model does not know: raise an error, or predict them from the prior.
        target : {"observed", "all"} or None, default=None
            Which cells the question is about: observed ones, or all. None: those that the model was fitted for.
        given : {"observed", "missing"} or None, default="observed"
            What is known of the entries. None is nothing, as with ``target="all"``.

        Returns
        -------
        low, high : ndarray of shape (entries,)
            Ends of the intervals.

        Examples
        --------
        >>> import nmar
        >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
        >>> model = nmar.CCPF(nmar.Effects("rows"), "linear", factors=2, max_iter=5, random_state=0).fit(cells)
        >>> low, high = model.interval([0, 1], [2, 3], level=0.8)
        >>> bool((low < model.predict_entries([0, 1], [2, 3])).all())
        True
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level={level!r}; give a probability between 0 and 1")
        model, i, j = self._positions(rows, cols, unknown, target, given=given)
        found = ask.quantiles(model, i, j, (0.5 - level / 2, 0.5 + level / 2))
        return found[:, 0], found[:, 1]

    def sample(
        self,
        rows: ArrayLike,
        cols: ArrayLike,
        n: int = 100,
        seed: Any = None,
        unknown: Unknown = "error",
        given: Given = "observed",
    ) -> Array:
        """Draws from p(y | observed): (entries, n), each entry independently; :meth:`impute` draws them jointly.

        Parameters
        ----------
        rows, cols : array-like
            Ids, one of each per entry.
        n : int, default=100
            Number of draws of each entry.
        seed : int, Generator or None, default=None
            Seed of the draws.
        unknown : {"error", "prior"}, default="error"
            What to do with ids that the model does not know: raise an error, or predict them from the prior.
        given : {"observed", "missing"} or None, default="observed"
            What is known of the entries. None is nothing, as with ``target="all"``.

        Returns
        -------
        ndarray of shape (entries, n)
            The draws.

        Examples
        --------
        >>> import nmar
        >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
        >>> model = nmar.CCPF(nmar.Effects("rows"), "linear", factors=2, max_iter=5, random_state=0).fit(cells)
        >>> model.sample([0, 1], [2, 3], n=5, seed=0).shape
        (2, 5)
        """
        check_count("n", n, 0)
        check_seed("seed", seed)
        model, i, j = self._positions(rows, cols, unknown, given=given)
        return ask.sample(model, i, j, n, np.random.default_rng(seed))

    def observed_probability(self, rows: ArrayLike, cols: ArrayLike, unknown: Unknown = "error") -> Array:
        """P(observed) = 1 − exp(−Λ) of entries by id; the value is integrated out where it decides.

        Parameters
        ----------
        rows, cols : array-like
            Ids, one of each per entry.
        unknown : {"error", "prior"}, default="error"
            What to do with ids that the model does not know: raise an error, or predict them from the prior.

        Returns
        -------
        ndarray of shape (entries,)
            Probabilities.

        Examples
        --------
        >>> import nmar
        >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
        >>> model = nmar.CCPF(nmar.Effects("rows"), "linear", factors=2, max_iter=5, random_state=0).fit(cells)
        >>> chance = model.observed_probability([0, 1], [2, 3])
        >>> bool(((chance > 0) & (chance < 1)).all())
        True
        """
        model, i, j = self._positions(rows, cols, unknown, values=False)
        return model.observed_probability(i, j)
