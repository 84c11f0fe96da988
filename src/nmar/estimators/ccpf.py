"""The scikit-learn face of the library: parameters in, fitted attributes out, no mathematics."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning

from nmar.arrays import Array
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
from nmar.evaluate.why import with_chosen_mechanism
from nmar.fit.checkpoint import checkpoint as open_checkpoint
from nmar.fit.foldin import fold_in, loadings
from nmar.fit.grow import go_on
from nmar.fit.loop.callbacks import Callback, Control
from nmar.fit.options import Options
from nmar.fit.parameters import PARAMETERS
from nmar.fit.progress import progress
from nmar.fit.result import Choice, Fitted, Interrupted
from nmar.fit.solvers.entrywise import Entrywise
from nmar.fit.solvers.schedule import Minibatch, is_stream
from nmar.fit.stream import train_stream
from nmar.fit.train import train
from nmar.models.arguments import check_choice, check_count
from nmar.models.mechanism import ByValue
from nmar.models.missingness import Pattern
from nmar.models.settings import Settings
from nmar.posterior.store import load as load_record
from nmar.prob.linkage import Linkage
from nmar.prob.support import Bounds

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
    data : data model, str or None, default=None
        Model of the values. None is ``Factorization(10)``. A text names it as on the command line, "factorization:10".
    linkage : str, linkage or None, default=None
        How the dispersion of a value depends on the latent count of its cell. None is "ignorable" for Gaussian values,
        because noise by row and column with a heavy tail predicts better than every linkage, and a free table for
        counts and other families, which have no such noise. "auto" chooses a linkage by validation. "linear:0.3" fixes
        c.
    factors : int or "auto", default=10
        Number of components of the missingness pattern (the paper's K). "auto" chooses it by held-out likelihood.
    solver : {"batch", "minibatch", "entrywise"}, Minibatch or Entrywise, default="batch"
        Algorithm of the fit. Coordinate ascent over all cells; mini-batches of rows, also from a stream; or the paper's
        algorithm 1, cell by cell. :class:`nmar.Minibatch` and :class:`nmar.Entrywise` have settings.
    control : bool or {"tail", "shuffled"}, default=False
        Whether to fit a control instead of the model. "tail" (or True) is the same scale mixture with one rate for all
        cells, so that values do not depend on what is missing. "shuffled" is ``mechanism="taste"`` with the choices of
        other rows and columns, assigned at random.
    max_iter : int, default=200
        Largest number of sweeps.
    tol : float or None, default=None
        Relative gain of the bound at which the fit stops. The fit has converged when a sweep raises the bound by less
        than ``tol`` of itself; 0 never stops. None is 0.0001, and 0.00003 with :class:`nmar.PatternOnly`, whose
        rankings improve a little longer.
    backend : {"auto", "numba", "reference"}, default="auto"
        Implementation of the loops. "auto" and "numba" are compiled; "reference" is slow NumPy code that defines the
        results of the others.
    n_jobs : int or None, default=None
        Number of threads. It never changes the result. None is all processors.
    random_state : int, Generator or None, default=None
        Seed of everything random. None draws a new one at each fit.
    verbose : int, default=0
        How much is shown. 0 is silent, 1 shows progress on a terminal and logs the end, 2 logs every sweep.
    prior : {"robust", "paper", "learned"}, default="robust"
        Prior shape of the pattern's weights. "robust" is 0.3, "paper" the much smaller one that the paper takes from
        the density, and "learned" estimates one for rows and one for columns.
    starts : int or "auto", default=1
        Number of starts of the linkage that are tried by short runs, where it has several modes. There are two to four;
        1 takes the first without a short run, "auto" tries all. No run is longer than ``max_iter``, and all count in
        ``max_time`` and in the seconds of the trace.
    dtype : {"float64", "float32"}, default="float64"
        Storage of the factors. Sums are float64 in both cases.
    max_time : float or None, default=None
        Largest number of seconds, checked after each sweep.
    patience : int, default=10
        Number of sweeps without a better validation score after which a fit with ``valid`` stops.
    noise : {"rows+cols", "rows", "cols", "constant"} or None, default=None
        Whether rows and columns have noise levels of their own. Values scatter more in some rows and columns than in
        others; the levels are learned, and where they do not differ they stay equal. None is "rows+cols" for Gaussian
        values with a linkage that does not move the mean and a solver other than the entrywise one, and "constant"
        otherwise.
    tail : bool, float or None, default=None
        Whether values have a Student tail instead of a normal one. A number gives its degrees of freedom, True learns
        them. A tail needs ``linkage="ignorable"``. None is True where a tail is possible and ``noise`` is not
        "constant".
    mechanism : {"none", "taste", "value", "auto"} or ByValue, default="none"
        Why values are missing. "none" is because of their rows and columns. With "taste" a pattern is fitted first, and
        its weights, which describe what rows and columns choose, are covariates of the values' factors and biases
        (Gaussian factorization, effects and mixtures). With "value" the value itself decides whether it is observed,
        and the fit learns from missing cells too (Gaussian factorization and effects). "auto" chooses by held-out
        cells, observed and missing ones (``choices_``); "value" only where it gains more than two standard errors.
    target : {"observed", "all"}, default="observed"
        Which cells predictions are about. "observed" is values given that they are observed. "all" is values of all
        cells, whether anybody chose to observe them or not; training cells are then weighted by the inverse of their
        P(observed), from a pattern that is fitted first.
    propensity : callable, array or None, default=None
        P(observed) from another source, with ``target="all"``. A function of row and column ids, a matrix, or one
        number for each training cell in row-major order. None takes it from the pattern.
    bounds : "auto", (low, high), (low, high, step) or None, default=None
        Range of the values, to which predictions, intervals and draws are confined. With a step they are rounded to the
        levels. "auto" takes range and levels of ratings from the training values. None means no bounds. Densities and
        the fit remain those of a continuous value.
    warm_start : bool, default=False
        Whether ``fit`` starts from the present model, where there is one. Cells, ``max_iter`` and ``tol`` may change;
        data model, linkage and factors stay.
    pattern : Pattern or None, default=None
        Model of P(observed). ``nmar.Pattern(10, rows=users, cols=films)`` has covariates of rows, of columns and their
        products beside its factors; ``factors=K`` is short for ``nmar.Pattern(K)``.

    Attributes
    ----------
    posterior_ : Posterior
        Everything that was learned.
    linkage_ : Linkage
        Fitted linkage, with ``table(n)`` and, where it has one, ``c``.
    dispersion_ : float
        σ² (Gaussian) or κ.
    bound_trace_, valid_trace_, seconds_trace_ : ndarray
        Bound, validation score and seconds, one entry per sweep.
    n_iter_ : int
        Number of sweeps.
    stop_reason_ : str
        Why the fit ended: "converged" (``tol``), "validation" (``patience``), "max_iter", "max_time", "callback" or
        "interrupted" (Ctrl-C).
    choices_ : tuple of Choice
        Values that were tried for a setting that is "auto", best first, with the distance to the best and its standard
        error.
    training_cells_ : Cells or None
        Cells that the model was fitted to. None where it does not hold them (loaded without them, or from a stream).
    hidden_cells_ : tuple of Cells
        Cells that were neither observed nor missing in the fit.
    mechanism_ : LearnedMechanism
        Why values are missing: ``kind``, ``taste`` and ``value`` (slopes for a standard deviation of the observed
        values) with ``taste_sd`` and ``value_sd``, and ``curve(y)``, P(observed | y) with a band.
    row_noise_, col_noise_ : NoiseLevels
        How far the values of each row and column scatter: ``ids``, ``level``, ``sd``, ``noisiest(n)``.
    effective_cells_ : float or None
        With ``target="all"``, the number of cells of equal weight that hold as much information as the weighted ones.
    row_factors_, col_factors_ : Factors
        Factors of the values with standard deviations: ``mean``, ``sd``, ``frame()``, and ``top(n)``, the rows or
        columns that stand out in each.
    row_pattern_, col_pattern_ : Factors
        Factors of the missingness pattern.
    levels_, styles_ : ndarray, LevelStyles
        Levels in order, and their cut points by style with the style of each line (``family="levels"``).
    labels_, responsibilities_ : ndarray
        Clusters, and the probability of each (``Mixture``).
    coefficients_ : Coefficients
        Coefficients with standard deviations by covariate name (``Regression``).
    covariate_effects_ : Coefficients
        Effects of covariates with standard deviations by name (``Factorization(rows=…, cols=…)``).
    pattern_effects_ : Coefficients
        Effects of covariates on the rate of being observed, by name (``Pattern(rows=…, cols=…)``).

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
        mechanism: Literal["none", "taste", "value", "auto"] | ByValue = "none",
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
        y : array-like or None, default=None
            Values of pairs of ids, one for each, where X is a table or list of pairs or an array with two columns, as
            in :meth:`predict`: scikit-learn's X and y. Not used for any other X.
        valid : Cells or array-like or None, default=None
            Cells on which to stop, none of them among X. The best state is kept. They are hidden from the pattern.
            Where ``factors="auto"``, they judge together with training cells that are set aside.
        hidden : Cells or array-like or None, default=None
            Held-out cells, none of them among X. They count as neither observed nor missing.
        callbacks : sequence of callable, default=()
            Functions that are called after each sweep with a record (``iteration``, ``bound``, ``validation``,
            ``seconds``, ``state``, ``phase``). ``phase`` is "search" while a start or settings are chosen, then "fit".
            A function that returns True in phase "fit" stops the fit.
        checkpoint : str, path-like or None, default=None
            Folder for checkpoints, which are written atomically after every ``every`` sweeps and at the end.
        every : int, default=10
            Sweeps between checkpoints.
        resume : bool, default=False
            Whether to go on from the newest good checkpoint, to bit-identical results. Without one the fit starts anew;
            one of other cells or options is an error.
        on_interrupt : {"raise", "keep"}, default="raise"
            What Ctrl-C does after it has ended the fit: raise KeyboardInterrupt, or return the model.
        memory : int, str or None, default=None
            Most memory that the fit of a Dataset may need, such as "4GB". A fit whose factors need more is refused
            before it starts. Only a few blocks of the cells are in memory at a time.
        executor : {"dask"} or None, default=None
            "dask" runs half sweeps on the Dask cluster of this process's client, with bit-identical results.
        client : distributed.Client or None, default=None
            Client of another cluster.
        scratch : str, path-like or None, default=None
            Folder that this process can write to and all workers can read. Default: inside the Dataset's own, and a
            temporary one for cells in memory where all workers are on this machine.

        Returns
        -------
        CCPF
            The fitted model itself.

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
            with self._keeping(None, on_interrupt) as keep:
                keep(train_stream(X, options, control))
            return self
        X = with_values(X, y)
        warm = self.warm_start and hasattr(self, "posterior_")
        given = self._read(X, first=not warm)
        judging, away = (self._held_out(name, part, given) for name, part in (("valid", valid), ("hidden", hidden)))
        if given.in_memory and not where.remote and memory is not None:
            raise ValueError(f"memory={memory!r} is for a Dataset; Cells are in memory already, so leave it out")
        if warm:
            where.check_here("a fit with warm_start=True", memory)
            self._check_warm(options, judging, checkpoint, callbacks)
            return self._go_on(given, options, () if away is None else (away,), on_interrupt)
        parts = tuple(part for part in (judging, away) if part is not None)
        tried: tuple[Choice, ...] = ()
        if options.mechanism == "auto":
            where.check_here("mechanism='auto'", memory)
            options, tried = with_chosen_mechanism(given, options, parts)
        with where.prepared(given) as (there, cells):
            kept = open_checkpoint(checkpoint, every, resume, options, cells, judging, away)
            lasting = cells if there is where else given  # files of a temporary folder are gone afterwards
            with (
                self._keeping((lasting, parts), on_interrupt) as keep,
                progress(self.verbose, options.stop.max_iter) as watch,
                there.running(cells, self.n_jobs) as place,
            ):
                fitted = train(cells, replace(options, executor=place), judging, away, watch, control, kept)
                keep(replace(fitted, choices=tried + fitted.choices))
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

    def _go_on(self, cells: Cells, options: Options, hidden: tuple[Cells, ...], on_interrupt: OnInterrupt) -> Self:
        """Fit these cells from the present model; new lines come after the known ones."""
        known = self.posterior_
        there = cells.align(known.rows.extend(cells.row_ids), known.cols.extend(cells.col_ids))
        with self._keeping((there, hidden), on_interrupt) as keep:
            keep(go_on(known, there, options, hidden))
        return self

    @contextmanager
    def _keeping(
        self, read: tuple[Cells, tuple[Cells, ...]] | None, on_interrupt: OnInterrupt
    ) -> Iterator[Callable[[Fitted], None]]:
        """A function that keeps a fit and the cells it came from; what an interrupted fit has is kept as well."""

        def keep(fitted: Fitted) -> None:
            self._keep(fitted)
            self._folded = False
            self._seen, self._hidden = (None, ()) if read is None else read

        try:
            yield keep
        except Interrupted as stopped:
            keep(stopped.fitted)
            if on_interrupt == "raise":
                raise

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
        X : Cells or array-like
            More observed cells, as in :meth:`fit`. New ids are appended to the axes.
        y : None, default=None
            Not used; scikit-learn passes it.
        sweeps : int, default=20
            Largest number of sweeps over all cells. The fit stops earlier where the bound settles (``tol``).
        duplicates : str, default="last"
            What to do with a cell that has a value already: "last" takes the new value, "error" refuses.
        on_interrupt : {"raise", "keep"}, default="raise"
            As in :meth:`fit`.

        Returns
        -------
        CCPF
            The fitted model itself.

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
        if self._seen is None:
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
        hidden = tuple(without(part, everything) for part in self._hidden)
        return self._go_on(everything, options, hidden, on_interrupt)

    def fold_in(self, X: Any, axis: Literal["rows", "cols"] = "rows") -> CCPF:
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
    path : str or path-like
        File of the model.
    trusted : sequence of str, default=()
        Names of types, such as ``["sklearn.tree._tree.Tree"]``, that a scikit-learn estimator in the file
        (:class:`nmar.Regressor`) may be made of, beside those that skops trusts. A file that needs others is
        refused with their names. List them if you trust the source of the file.

    Returns
    -------
    CCPF
        The fitted model. It holds its training cells if they were saved (``save(seen=True)``).

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
