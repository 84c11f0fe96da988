"""The scikit-learn face of the library: parameters in, fitted attributes out, no mathematics."""

from __future__ import annotations

import logging
import os
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from nmar.data.cells import Cells
from nmar.fit.options import Options
from nmar.fit.stop import StopRule
from nmar.fit.train import Fitted, train
from nmar.models.settings import Factorization
from nmar.posterior import posterior as ask
from nmar.posterior.recommend import recommend
from nmar.posterior.store import load as load_record
from nmar.posterior.store import save as save_record
from nmar.report.progress import progress

Array = NDArray[Any]
Unknown = Literal["error", "prior"]

log = logging.getLogger("nmar")


def as_cells(X: Any) -> Cells:
    """Cells from what a user passes: Cells, a scipy sparse matrix, or a dense array with NaN where missing."""
    if isinstance(X, Cells):
        return X
    if sparse.issparse(X):
        return Cells.from_scipy(X)
    return Cells.from_dense(X)


class CCPF(BaseEstimator):
    """Coupled compound Poisson factorization: a model of the values and of which of them are observed.

    Unstored entries of a sparse matrix are *missing* here, not zero; a stored 0 is an observed 0.

    Parameters
    ----------
    data : data model, default ``Factorization(10)``
        What generates the values.
    linkage : str or linkage, default "free"
        How the dispersion of a value depends on the latent count of its cell.
    factors : int, default 10
        Components of the missingness pattern (the paper's K).
    solver : {"batch"}, default "batch"
        Coordinate ascent over all cells.
    control : bool, default False
        Fit the tail-only control instead: the same scale mixture, unrelated to the pattern.
    max_iter, tol : stop after this many sweeps, or when a sweep raises the bound by less than ``tol`` of itself
    backend : {"auto", "numba", "reference"}
    n_jobs : number of threads; None is all processors. The answer does not depend on it.
    random_state : seed
    verbose : 0 is silent, 1 shows progress on a terminal and logs the stop, 2 logs every sweep
    prior : {"robust", "paper"}
        Prior shape of the pattern's weights: 0.3, or the paper's tiny one from the density.
    starts : starts tried for the free linkage
    dtype : {"float64", "float32"}
    max_time : seconds, or None
    patience : sweeps without a better validation score before stopping, with ``valid``

    Attributes
    ----------
    posterior_ : everything that was learned
    linkage_ : fitted linkage, with ``table(n)`` and, where it has one, ``c``
    dispersion_ : σ² (Gaussian) or κ
    bound_trace_, valid_trace_, seconds_trace_ : one entry per sweep
    n_iter_ : number of sweeps
    stop_reason_ : why the fit ended

    Examples
    --------
    >>> import nmar
    >>> cells, truth = nmar.simulate(shape=(60, 40), data=nmar.Factorization(2), density=0.2, seed=0)
    >>> train, valid, test = cells.split(seed=0)
    >>> model = nmar.CCPF(data=nmar.Factorization(2), factors=3, max_iter=10, random_state=0).fit(train)
    >>> round(model.predict_entries([0, 1], [2, 3]).shape[0])
    2
    """

    def __init__(
        self,
        data: Any = None,
        linkage: Any = "free",
        factors: int = 10,
        solver: str = "batch",
        control: bool = False,
        max_iter: int = 200,
        tol: float = 1e-4,
        backend: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        prior: str = "robust",
        starts: int = 2,
        dtype: str = "float64",
        max_time: float | None = None,
        patience: int = 10,
    ) -> None:
        self.data = data
        self.linkage = linkage
        self.factors = factors
        self.solver = solver
        self.control = control
        self.max_iter = max_iter
        self.tol = tol
        self.backend = backend
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.prior = prior
        self.starts = starts
        self.dtype = dtype
        self.max_time = max_time
        self.patience = patience

    # --- fit ----------------------------------------------------------------------------------------------------

    def _options(self) -> Options:
        if self.solver != "batch":
            raise ValueError(f"solver={self.solver!r} is not available; use 'batch'")
        return Options(
            data=Factorization() if self.data is None else self.data,
            linkage=self.linkage,
            factors=self.factors,
            control=self.control,
            prior=self.prior,
            starts=self.starts,
            dtype=self.dtype,
            backend=self.backend,
            n_jobs=self.n_jobs,
            seed=self.random_state,
            stop=StopRule(self.max_iter, self.tol, self.patience, max_time=self.max_time),
        )

    def fit(self, X: Any, y: None = None, *, valid: Any = None, hidden: Any = None) -> Self:
        """Learn from observed cells.

        Parameters
        ----------
        X : Cells, scipy sparse matrix, or dense array with NaN where missing
        y : ignored
        valid : cells on which to stop; the best state is kept. They are hidden from the pattern.
        hidden : cells known to be held out: neither observed nor missing
        """
        cells = as_cells(X)
        options = self._options()
        held_out = None if valid is None else as_cells(valid)
        away = None if hidden is None else as_cells(hidden)
        with progress(self.verbose, options.stop.max_iter) as watch:
            fitted = train(cells, options, valid=held_out, hidden=away, watch=watch)
        self._keep(fitted)
        self._seen = cells
        return self

    def _keep(self, fitted: Fitted) -> None:
        self.posterior_ = fitted.posterior
        self.bound_trace_ = np.array(fitted.trace.bound)
        self.valid_trace_ = np.array(fitted.trace.valid)
        self.seconds_trace_ = np.array(fitted.trace.seconds)
        self.n_iter_ = fitted.trace.iterations
        self.stop_reason_ = fitted.reason

    def _fitted(self) -> ask.Posterior:
        if not hasattr(self, "posterior_"):
            raise NotFittedError("this CCPF is not fitted yet; call fit(cells) first")
        return self.posterior_

    @property
    def linkage_(self) -> Any:
        """The fitted linkage."""
        return self._fitted().state.shared.linkage

    @property
    def dispersion_(self) -> float:
        """σ² of the Gaussian, κ of the other families."""
        return self._fitted().state.shared.dispersion

    # --- ask ----------------------------------------------------------------------------------------------------

    def _positions(self, rows: ArrayLike, cols: ArrayLike, unknown: Unknown) -> tuple[ask.Posterior, Array, Array]:
        known = self._fitted()
        i = known.rows.positions(np.atleast_1d(np.asarray(rows)), unknown=unknown)
        j = known.cols.positions(np.atleast_1d(np.asarray(cols)), unknown=unknown)
        if len(i) != len(j):
            raise ValueError(f"rows has length {len(i)} and cols {len(j)}; give one id of each per entry")
        return (known.extended() if unknown == "prior" else known), i, j

    def log_density(self, cells: Any, plugin: bool = False, unknown: Unknown = "error") -> Array:
        """log p(y | observed) of each cell, in row-major order."""
        data = as_cells(cells)
        rows, cols = data.pairs()
        model, i, j = self._positions(data.row_ids[rows], data.col_ids[cols], unknown)
        return ask.log_density(model, i, j, data.values, plugin)

    def log_likelihood(
        self, cells: Any, plugin: bool = False, per_cell: bool = False, unknown: Unknown = "error"
    ) -> Any:
        """Mean log likelihood in nats per observed cell.

        Parameters
        ----------
        plugin : False integrates over the data model's posterior; True is the paper's L_NM
        per_cell : return the array instead of its mean
        unknown : what to do with ids not seen in training: "error", or "prior" for the prior predictive
        """
        each = self.log_density(cells, plugin, unknown)
        return each if per_cell else float(each.mean())

    def score(self, X: Any, y: None = None) -> float:
        """Mean predictive log likelihood per observed cell."""
        return self.log_likelihood(X)

    def predict_entries(
        self, rows: ArrayLike, cols: ArrayLike, return_std: bool = False, unknown: Unknown = "error"
    ) -> Any:
        """E[y | observed] of entries given by id, and its standard deviation if asked."""
        model, i, j = self._positions(rows, cols, unknown)
        mean, variance = ask.mean_and_variance(model, i, j)
        return (mean, np.sqrt(variance)) if return_std else mean

    def interval(
        self, rows: ArrayLike, cols: ArrayLike, level: float = 0.9, unknown: Unknown = "error"
    ) -> tuple[Array, Array]:
        """Central prediction interval of y given that it is observed."""
        if not 0.0 < level < 1.0:
            raise ValueError(f"level={level!r}; give a probability between 0 and 1")
        model, i, j = self._positions(rows, cols, unknown)
        found = ask.quantiles(model, i, j, (0.5 - level / 2, 0.5 + level / 2))
        return found[:, 0], found[:, 1]

    def sample(
        self, rows: ArrayLike, cols: ArrayLike, n: int = 100, seed: Any = None, unknown: Unknown = "error"
    ) -> Array:
        """Draws from p(y | observed): (entries, n)."""
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

        Returns column ids and scores, both (rows, n).
        """
        known = self._fitted()
        if exclude_seen and not hasattr(self, "_seen"):
            raise ValueError("exclude_seen=True needs the training cells, which a loaded model does not hold")
        lines = known.rows.positions(np.atleast_1d(np.asarray(rows)), unknown="error")
        seen = self._seen.by(0) if exclude_seen else None
        which, score = recommend(known, lines, n, by, seen)
        return known.cols.ids[which], score

    # --- keep ---------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, without pickle."""
        known = self._fitted()
        trace = (self.bound_trace_, self.valid_trace_, self.seconds_trace_, self.stop_reason_)
        params = {k: v for k, v in self.get_params(deep=False).items() if k != "random_state"}
        save_record(path, (known, trace, tuple(params.items())))


def load(path: str | os.PathLike[str]) -> CCPF:
    """Read a model written by :meth:`CCPF.save`."""
    known, (bound, valid, seconds, reason), params = load_record(path)
    model = CCPF(**dict(params))
    model.posterior_ = known
    model.bound_trace_, model.valid_trace_, model.seconds_trace_ = bound, valid, seconds
    model.n_iter_, model.stop_reason_ = len(bound), reason
    return model
