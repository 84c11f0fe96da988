"""The scikit-learn face of the library: parameters in, fitted attributes out, no mathematics."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning

from nmar.data.cells import Cells
from nmar.data.dataset import Dataset
from nmar.data.pairs import with_values
from nmar.data.split import refuse_overlap, without
from nmar.estimators.asking import Asking, as_cells
from nmar.estimators.hooks import CallbackSupport, sweep_hooks, with_callbacks
from nmar.estimators.imputing import Imputing
from nmar.estimators.learned import Learned
from nmar.estimators.nested import NestedParameters
from nmar.estimators.predicting import Predicting
from nmar.estimators.ranking import Ranking
from nmar.estimators.shown import Shown
from nmar.estimators.stored import Stored, restore
from nmar.estimators.where import Where
from nmar.fit.checkpoint import checkpoint as open_checkpoint
from nmar.fit.foldin import fold_in, loadings
from nmar.fit.grow import go_on
from nmar.fit.loop.callbacks import Callback, Control
from nmar.fit.loop.finish import Fitted, Interrupted
from nmar.fit.options import Options
from nmar.fit.parameters import PARAMETERS
from nmar.fit.solvers.entrywise import Entrywise
from nmar.fit.solvers.schedule import Minibatch, is_stream
from nmar.fit.solvers.stream import train_stream
from nmar.fit.train import train
from nmar.models.arguments import check_choice, check_count
from nmar.models.missingness import Pattern
from nmar.models.settings import Settings
from nmar.posterior.store import load as load_record
from nmar.prob.linkage import Linkage
from nmar.prob.support import Bounds
from nmar.report.progress import progress

Array = NDArray[Any]
OnInterrupt = Literal["raise", "keep"]
ON_INTERRUPT = ("raise", "keep")


class CCPF(
    CallbackSupport,
    Learned,
    Asking,
    Predicting,
    Imputing,
    Ranking,
    Shown,
    Stored,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    NestedParameters,
):
    """Coupled compound Poisson factorization: a model of the values and of which of them are observed.

    Unstored entries of a sparse matrix are *missing* here, not zero; a stored 0 is an observed 0.

    Parameters
    ----------
    data : data model or str, default ``Factorization(10)``
        What generates the values. A text names it as on the command line, "factorization:10".
    linkage : str, linkage or None, default None
        How the dispersion of a value depends on the latent count of its cell. None: for Gaussian values not at all,
        because noise by row and column with a tail measured better than every linkage; for counts and other families,
        which have no such noise, a free table. "auto" chooses among the linkages by validation, "linear:0.3" fixes c.
    factors : int or "auto", default 10
        Components of the missingness pattern (the paper's K). "auto" chooses by held-out likelihood.
    solver : {"batch", "minibatch", "entrywise"}, :class:`nmar.Minibatch` or :class:`nmar.Entrywise`, default 'batch'
        How the fit goes about it. Coordinate ascent over all cells; mini-batches of rows, also from a stream; or the
        paper's algorithm 1, cell by cell.
    control : {False, "tail", "shuffled"}, default False
        Fit the control instead. "tail" (or True): the same scale mixture with one rate for all cells, so that values do
        not depend on what is missing. "shuffled": ``mechanism="taste"`` with the choices of other rows and columns,
        dealt out at random.
    max_iter : int, default 200
        Sweeps at most.
    tol : float or None, default None
        Relative gain of the bound to stop at. The fit has converged when a sweep raises the bound by less than ``tol``
        of itself; 0 never stops. None: 0.0001, and 0.00003 with :class:`nmar.PatternOnly`, whose lists are better for
        it.
    backend : {"auto", "numba", "reference"}, default 'auto'
        Kernels that do the work. Compiled ones, or slow NumPy ones that define what these must give.
    n_jobs : int or None, default None
        Number of threads, which never changes the answer. None is all processors.
    random_state : int, numpy generator or None, default None
        Seed of everything random. None is a new one at each fit.
    verbose : int, default 0
        0 is silent, 1 shows progress on a terminal and logs the stop, 2 logs every sweep.
    prior : {"robust", "paper", "learned"}, default 'robust'
        Prior shape of the pattern's weights. 0.3, the paper's tiny one from the density, or learned for each side.
    starts : int or "auto", default 1
        How many starts of the linkage are tried by short runs, where it has several modes. Two to four exist; 1 takes
        the first as it is, "auto" tries all. No run is longer than ``max_iter``, and all count in ``max_time`` and in
        the seconds of the trace.
    dtype : {"float64", "float32"}, default 'float64'
        Storage of the factors. Sums are float64 either way.
    max_time : float or None, default None
        Seconds at most, checked after each sweep.
    patience : int, default 10
        Sweeps without a better validation score before stopping, with ``valid``.
    noise : {"rows+cols", "rows", "cols", "constant"} or None, default None
        Which lines have noise levels of their own. Values scatter more in some rows and columns than in others; the
        levels are learned, and where they do not differ they stay alike. None: "rows+cols" for Gaussian values with
        ``solver="batch"`` and a linkage that does not move the mean, else "constant".
    tail : bool, float or None, default None
        Whether values have a Student tail instead of a normal one. A number gives its degrees of freedom, True learns
        them. It needs ``linkage="ignorable"`` or none. None: True where it can be and ``noise`` is not "constant".
    mechanism : {"none", "taste"}, default 'none'
        How what is missing tells about the mean of the values. "taste": what rows and columns choose describes them; a
        pattern is fitted first, and the values' factors and biases depend on its weights as covariates (Gaussian
        factorization, effects and mixtures).
    target : {"observed", "all"}, default 'observed'
        Which cells predictions are about. "observed": values given that they are observed. "all": values of all cells,
        whether anybody chose to observe them or not; training cells then count by the inverse of their P(observed),
        from a pattern that is fitted first.
    propensity : callable, array or None, default None
        With ``target="all"``, P(observed) from elsewhere. A function of row and column ids, a matrix, or one number for
        each training cell in row-major order; None: from the pattern.
    bounds : "auto", (low, high), (low, high, step) or None, default None
        Range of the values, which predictions, intervals and draws keep to. With a step they are rounded to the levels.
        "auto" finds range and levels of ratings from the training values; None knows no bounds. Densities and the fit
        stay those of a continuous value.
    warm_start : bool, default False
        Start ``fit`` from the present model, where there is one. Cells, ``max_iter`` and ``tol`` may be others; data
        model, linkage and factors stay.
    pattern : :class:`nmar.Pattern` or None, default None
        What P(observed) depends on. ``nmar.Pattern(10, rows=users, cols=films)`` has covariates of rows, of columns and
        their products beside its factors; ``factors=K`` is short for ``nmar.Pattern(K)``.

    Attributes
    ----------
    posterior_ : everything that was learned
    linkage_ : fitted linkage, with ``table(n)`` and, where it has one, ``c``
    dispersion_ : σ² (Gaussian) or κ
    bound_trace_, valid_trace_, seconds_trace_ : one entry per sweep
    n_iter_ : number of sweeps
    stop_reason_ : why the fit ended: "converged" (``tol``), "validation" (``patience``), "max_iter", "max_time",
        "callback" or "interrupted" (Ctrl-C)
    choices_ : what was tried for each setting left to "auto", best first, with the distance to the best and its
        standard error
    row_noise_, col_noise_ : how far the values of each row and column scatter: ``ids``, ``level``, ``sd``,
        ``noisiest(n)``
    effective_cells_ : with ``target="all"``, how many cells of equal weight would tell as much as the weighted ones
    row_factors_, col_factors_ : factors of the values with standard deviations: ``mean``, ``sd``, ``frame()`` and, the
        lines that stand out in each, ``top(n)``; ``row_pattern_``, ``col_pattern_`` of the missingness pattern
    labels_, responsibilities_ : clusters (``Mixture``)
    coefficients_ : coefficients with standard deviations by covariate name (``Regression``)
    covariate_effects_ : effects of covariates with standard deviations by name (``Factorization(rows=…, cols=…)``)
    pattern_effects_ : effects of covariates on the rate of being observed, by name (``Pattern(rows=…, cols=…)``)

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
        data: Settings | str | None = None,
        linkage: str | Linkage | None = None,
        factors: int | Literal["auto"] = 10,
        solver: Literal["batch", "minibatch", "entrywise"] | Minibatch | Entrywise = "batch",
        control: bool | Literal["tail", "shuffled"] = False,
        max_iter: int = 200,
        tol: float | None = None,
        backend: Literal["auto", "numba", "reference"] = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        prior: Literal["robust", "paper", "learned"] = "robust",
        starts: int | Literal["auto"] = 1,
        dtype: Literal["float64", "float32"] = "float64",
        max_time: float | None = None,
        patience: int = 10,
        noise: Literal["rows+cols", "rows", "cols", "constant"] | None = None,
        tail: bool | float | None = None,
        mechanism: Literal["none", "taste"] = "none",
        target: Literal["observed", "all"] = "observed",
        propensity: Any = None,
        bounds: Bounds = None,
        warm_start: bool = False,
        pattern: Pattern | None = None,
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
        self.noise = noise
        self.tail = tail
        self.mechanism = mechanism
        self.target = target
        self.propensity = propensity
        self.bounds = bounds
        self.warm_start = warm_start
        self.pattern = pattern

    # --- fit ----------------------------------------------------------------------------------------------------

    def _options(self) -> Options:
        return Options.of(**{name: getattr(self, name) for name in PARAMETERS})

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        valid: Any = None,
        hidden: Any = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        every: int = 10,
        resume: bool = False,
        on_interrupt: OnInterrupt = "raise",
        memory: int | str | None = None,
        executor: Literal["dask"] | None = None,
        client: Any = None,
        scratch: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn from observed cells.

        Parameters
        ----------
        X : Cells, Dataset, table, AnnData, torch tensor, scipy sparse matrix, or dense array with NaN where missing
            A table (pandas, polars, pyarrow) with the columns row, col and value, or with those of other usual names
            (user_id, movieId, rating …), has one line per cell; any other has one line for each row of the matrix and
            only columns of numbers, and the ids are its column names and a pandas index. Other tables of cells:
            ``Cells.from_frame``.
            A :class:`nmar.Dataset` stays on disk and is read block by block; settings that need all cells at once are
            refused.
            With ``solver="minibatch"`` also a stream: an iterable of Cells on common columns, or a function that
            returns an iterator of them. Only one batch is in memory at a time; the fitted model knows all columns
            and the rows of the last batch, and others are folded in (:meth:`fold_in`).
        y : values of pairs of ids in X, one for each: scikit-learn's X and y. X is then a table or list of pairs, or an
            array with two columns, as in :meth:`predict`; y is ignored where X is anything else
        valid : cells on which to stop, none of them among X; the best state is kept. They are hidden from the pattern.
            Where ``factors="auto"``, they judge together with training cells that are set aside.
        hidden : cells known to be held out, none of them among X: neither observed nor missing
        callbacks : functions called after each sweep with a record (``iteration``, ``bound``, ``validation``,
            ``seconds``, ``state``, ``phase``). ``phase`` is "search" while a start or settings are looked for, then
            "fit"; one that returns True then stops the fit
        checkpoint : folder in which the run is kept, atomically, ``every`` so many sweeps and at the end
        every : sweeps between checkpoints
        resume : go on from the newest good checkpoint, to bit-identical results. Without one the fit starts anew; one
            of other cells or options is an error
        on_interrupt : what Ctrl-C does besides ending the fit: "raise" its KeyboardInterrupt, or "keep" quiet and
            return the model
        memory : a size such as "4GB" that the fit of a Dataset may need; if its factors need more, it is refused before
            it starts. What is read of the cells is a few blocks, however many there are
        executor : "dask" runs half sweeps on the Dask cluster of this process's client, to the same bits as here
        client : a ``dask.distributed.Client``, for another cluster
        scratch : folder that this process can write to and all workers can read; by default in the Dataset's own, and
            for cells in memory, where all workers are on this machine, a temporary one

        Notes
        -----
        Ctrl-C ends the fit at once. The sweep under way is given up; the model of the last finished one is kept
        either way, and ``stop_reason_`` is "interrupted". A fit that has not finished a sweep, or is still choosing
        its start, its settings or (``linkage="auto"``) its linkage, has nothing to keep and raises. No signal handler
        is installed, so SIGTERM does what the program lets it do.

        Examples
        --------
        >>> import nmar
        >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
        >>> train, valid, test = cells.split(seed=0)
        >>> model = nmar.CCPF(nmar.Effects("rows"), "linear", factors=2, max_iter=5, random_state=0)
        >>> model.fit(train, hidden=test).n_iter_
        5
        """
        check_choice("on_interrupt", on_interrupt, ON_INTERRUPT)
        where = Where(executor, client, scratch)
        options = replace(self._options(), memory=memory)
        control = Control((*callbacks, *sweep_hooks(self, options.stop.max_iter)))
        if is_stream(X):
            if any(part is not None for part in (valid, hidden, checkpoint)):
                raise ValueError("a stream takes no valid, hidden or checkpoint; fit Cells for those")
            where.check_here("a stream of batches", memory)
            if options.target == "all":
                raise ValueError("a stream cannot be weighed for target='all', which needs all cells; fit Cells")
            if not (options.solver == "minibatch" or isinstance(options.solver, Minibatch)):
                raise ValueError("a stream of batches needs solver='minibatch'")
            return self._learn(lambda: train_stream(X, options, control), None, on_interrupt)
        X = with_values(X, y)
        warm = self.warm_start and hasattr(self, "posterior_")
        given = self._read(X, first=not warm)
        judging, away = (self._held_out(name, part, given) for name, part in (("valid", valid), ("hidden", hidden)))
        if given.in_memory and not where.remote and memory is not None:
            raise ValueError(f"memory={memory!r} is for a Dataset; Cells are in memory already, so leave it out")
        if warm:
            where.check_here("a fit with warm_start=True", memory)
            self._check_warm(options, judging, checkpoint, callbacks)
            return self._learn(*self._going_on(given, options, () if away is None else (away,)), on_interrupt)
        with where.prepared(given) as (there, cells):
            kept = open_checkpoint(checkpoint, every, resume, options, cells, judging, away)

            def learn() -> Fitted:
                with progress(self.verbose, options.stop.max_iter) as watch, there.running(cells, self.n_jobs) as place:
                    return train(cells, replace(options, executor=place), judging, away, watch, control, kept)

            lasting = cells if there is where else given  # files of a temporary folder are gone afterwards
            self._learn(learn, (lasting, tuple(part for part in (judging, away) if part is not None)), on_interrupt)
        if self.stop_reason_ == "max_iter" and options.stop.tol > 0.0 and options.method is None:
            warnings.warn(
                f"the bound still rose by more than tol={options.stop.tol:g} of itself after max_iter="
                f"{options.stop.max_iter} sweeps; raise it, or go on with warm_start=True",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def _held_out(self, name: str, part: Any, training: Cells) -> Cells | None:
        """Held-out cells, which are read into memory; none of them may be a training cell."""
        if isinstance(part, Dataset):
            raise ValueError(f"{name} is a Dataset, and held-out cells have to be in memory; give {name}.to_cells()")
        if part is None:
            return None
        found = self._read(part)
        refuse_overlap(name, found, "the training cells", training)
        return found

    @staticmethod
    def _check_warm(options: Options, *others: Any) -> None:
        """A fit that goes on takes cells and hidden ones, nothing else."""
        if options.target == "all" or options.method is not None or options.mechanism != "none":
            raise ValueError(
                "warm_start=True needs solver='batch', target='observed' and mechanism='none'; set warm_start=False"
            )
        if any(other is not None and len(other) for other in others[:1]) or any(others[1:]):
            raise ValueError("warm_start=True takes no valid, checkpoint or callbacks; set warm_start=False for those")

    def _going_on(
        self, cells: Cells, options: Options, hidden: tuple[Cells, ...]
    ) -> tuple[Callable[[], Fitted], tuple[Cells, tuple[Cells, ...]]]:
        """A fit of these cells from the present model, and what it reads; new lines come after the known ones."""
        known = self.posterior_
        there = cells.align(known.rows.extend(cells.row_ids), known.cols.extend(cells.col_ids))
        return lambda: go_on(known, there, options, hidden), (there, hidden)

    def _learn(
        self, fit: Callable[[], Fitted], read: tuple[Cells, tuple[Cells, ...]] | None, on_interrupt: OnInterrupt
    ) -> Self:
        """Fit, and keep what came of it and the cells it came from; what an interrupted fit has is kept as well."""
        stopped: Interrupted | None = None
        try:
            fitted = fit()
        except Interrupted as interrupt:
            fitted, stopped = interrupt.fitted, interrupt
        self._keep(fitted)
        self.__dict__.pop("_folded", None)
        if read is None:
            for name in ("_seen", "_hidden"):
                self.__dict__.pop(name, None)
        else:
            self._seen, self._hidden = read
        if stopped is not None and on_interrupt == "raise":
            raise stopped
        return self

    def partial_fit(
        self,
        X: Any,
        y: None = None,
        *,
        sweeps: int = 20,
        duplicates: str = "last",
        on_interrupt: OnInterrupt = "raise",
    ) -> Self:
        """Learn from more cells: of known rows and columns, of new rows, of new columns.

        Parameters
        ----------
        X : more observed cells, as in :meth:`fit`; ids not seen so far are appended to the axes
        y : ignored
        sweeps : sweeps over all cells at most; fewer where the bound settles (``tol``)
        duplicates : what to do with a cell seen before: "last" takes the new value, "error" refuses
        on_interrupt : as in :meth:`fit`

        Notes
        -----
        The first call is a :meth:`fit`. Later ones keep every cell seen so far and sweep on from the present model,
        so nothing is forgotten; memory and time of a call grow with all cells, not with the new ones. Ten slices of
        MovieLens-1M end within a few thousandths of a nat of one fit on everything (docs/experiments/solvers.md).
        Cells that were hidden, or that the fit was stopped on, stay hidden until they are given here. What was taken
        from the cells (sums, priors by moments, predictions of a regressor) is taken from all of them; values stay in
        the units of the first ones. New columns of a :class:`Regression`, and new lines with features of a
        :class:`Regressor`, need theirs: ``set_params(data=…)`` first. A loaded model holds no cells: fit again, or
        fold in.

        Examples
        --------
        >>> import nmar
        >>> cells, truth = nmar.simulate(shape=(40, 20), data=nmar.Effects("rows"), density=0.3, seed=0)
        >>> model = nmar.CCPF(nmar.Effects("rows"), "linear", factors=2, max_iter=5, random_state=0)
        >>> first, rest = cells.take_rows(range(30)), cells.take_rows(range(30, 40))
        >>> model.partial_fit(first).partial_fit(rest, sweeps=2).posterior_.rows.size
        40
        """
        check_choice("on_interrupt", on_interrupt, ON_INTERRUPT)
        cells = self._read(X, first=not hasattr(self, "posterior_"))
        if not hasattr(self, "posterior_"):
            return self.fit(cells, on_interrupt=on_interrupt)
        if not hasattr(self, "_seen"):
            raise ValueError("partial_fit needs the cells seen so far, which a loaded or streamed model does not hold")
        check_count("sweeps", sweeps, 1)
        options = self._options()
        if options.mechanism != "none":
            raise ValueError(f"partial_fit cannot go on with mechanism={options.mechanism!r}; fit all cells again")
        if options.target == "all":
            raise ValueError(
                "partial_fit cannot weigh cells that come later as target='all' needs; fit all cells again"
            )
        options = replace(options, stop=replace(options.stop, max_iter=min(sweeps, options.stop.max_iter)))
        everything = self._seen.concat(cells, duplicates=duplicates)  # type: ignore[arg-type]
        hidden = tuple(without(part, everything) for part in self.__dict__.get("_hidden", ()))
        return self._learn(*self._going_on(everything, options, hidden), on_interrupt)

    def fold_in(self, X: Any, axis: Literal["rows", "cols"] = "rows") -> CCPF:
        """A model of new rows (or columns) given the fitted columns (or rows), which stay as they are.

        Parameters
        ----------
        X : observed cells of the new lines, on the ids of the fitted other axis
        axis : "rows" or "cols"

        Returns
        -------
        CCPF
            A model whose rows (or columns) are the new ones. Each is converged by itself, so it does not depend on
            what else is folded in. One without cells has the prior, with its wide intervals.

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
        X : observed cells of the rows, or a matrix of them, as in :meth:`fit`

        Returns
        -------
        (rows, rank) array

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

    def _keep(self, fitted: Fitted) -> None:
        self.posterior_ = fitted.posterior
        self.bound_trace_ = np.array(fitted.trace.bound)
        self.valid_trace_ = np.array(fitted.trace.valid)
        self.seconds_trace_ = np.array(fitted.trace.seconds)
        self.n_iter_ = fitted.trace.iterations
        self.stop_reason_ = fitted.reason
        self.choices_ = fitted.choices
        self.effective_cells_ = fitted.effective_cells

    @property
    def linkage_(self) -> Any:
        """The fitted linkage."""
        return self._fitted().linkage

    @property
    def dispersion_(self) -> float:
        """σ² of the Gaussian, κ of the other families."""
        return self._fitted().dispersion


def load(path: str | os.PathLike[str], trusted: Sequence[str] = ()) -> CCPF:
    """Read a model written by :meth:`CCPF.save`.

    Parameters
    ----------
    path : file
    trusted : names of types, such as ``["sklearn.tree._tree.Tree"]``, that a scikit-learn estimator in the file
        (:class:`nmar.Regressor`) may be made of, beside those that skops trusts by itself. A file that needs others is
        refused with their names: list them if you know who made it.

    Returns
    -------
    CCPF
        Fitted. It holds its training cells if they were saved (``save(seen=True)``).

    Examples
    --------
    >>> import os, tempfile
    >>> import nmar
    >>> cells, _ = nmar.simulate(shape=(20, 8), data=nmar.Effects("rows"), density=0.5, seed=0)
    >>> model = nmar.CCPF(nmar.Effects("rows"), "ignorable", factors=2, max_iter=5, random_state=0).fit(cells)
    >>> path = os.path.join(tempfile.mkdtemp(), "m.nmar")
    >>> model.save(path)
    >>> nmar.load(path).n_iter_ == model.n_iter_
    True
    """
    if isinstance(trusted, str):
        raise ValueError(f"trusted={trusted!r}; give a list of names, [{trusted!r}]")
    record = load_record(path, trusted=trusted)
    return restore(CCPF(**dict(record[2])), record, path)
