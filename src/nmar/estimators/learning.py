"""How :class:`nmar.CCPF` learns: all cells at once, or more of them later."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nmar.data.cells import Cells
from nmar.data.dataset import Dataset
from nmar.data.pairs import with_values
from nmar.data.split import refuse_overlap, without
from nmar.estimators.fitted import FittedModel
from nmar.estimators.hooks import sweep_hooks, with_callbacks
from nmar.estimators.where import Where
from nmar.evaluate.why import with_chosen_mechanism
from nmar.fit.checkpoint import checkpoint as open_checkpoint
from nmar.fit.grow import go_on
from nmar.fit.loop.callbacks import Callback, Control
from nmar.fit.options import Options
from nmar.fit.parameters import PARAMETERS
from nmar.fit.progress import progress
from nmar.fit.result import Choice, Fitted, Interrupted
from nmar.fit.solvers.schedule import Minibatch, is_stream
from nmar.fit.stream import train_stream
from nmar.fit.train import train
from nmar.models.arguments import check_choice, check_count

OnInterrupt = Literal["raise", "keep"]
ON_INTERRUPT = ("raise", "keep")


class Learning(FittedModel):
    """Fits from cells and parameters."""

    def _options(self) -> Options:
        return Options(**{name: getattr(self, name) for name in PARAMETERS if name not in ("verbose", "warm_start")})

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
        control = Control((*callbacks, *sweep_hooks(self, options.max_iter)))
        if is_stream(X):
            if any(part is not None for part in (valid, hidden, checkpoint)):
                raise ValueError("a stream takes no valid, hidden or checkpoint; fit Cells for those")
            where.check_here("a stream of batches", memory)
            with self._keeping(None, on_interrupt) as keep:
                keep(train_stream(X, _of_a_stream(options), control))
            return self
        X = with_values(X, y)
        warm = self.warm_start and self.__sklearn_is_fitted__()
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
                progress(self.verbose, options.max_iter) as watch,
                there.running(cells, self.n_jobs) as place,
            ):
                fitted = train(cells, replace(options, executor=place), judging, away, watch, control, kept)
                keep(replace(fitted, choices=tried + fitted.choices))
        if self.stop_reason_ == "max_iter" and options.tol > 0.0 and options.method is None:
            _warn_that_it_still_rose(options)
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
        :class:`Regressor`, need theirs: ``set_params(data=…)`` first. A loaded model goes on where its cells were
        saved with it (``save(path, seen=True)``); :meth:`fold_in` costs only the new cells, and leaves the columns as
        they are.

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
        cells = self._read(X, first=not self.__sklearn_is_fitted__())
        if not self.__sklearn_is_fitted__():
            return self.fit(cells, on_interrupt=on_interrupt)
        if self._seen is None:
            raise ValueError(
                "partial_fit needs the cells seen so far, which this loaded or streamed model does not hold; save with"
                " save(path, seen=True), or fold new rows in (fold_in), which costs only their cells"
            )
        check_count("sweeps", sweeps, 1)
        options = self._options()
        if options.mechanism != "none":
            raise ValueError(f"partial_fit cannot go on with mechanism={options.mechanism!r}; fit all cells again")
        if options.target == "all":
            raise ValueError(
                "partial_fit cannot weigh cells that come later as target='all' needs; fit all cells again"
            )
        options = replace(options, max_iter=min(sweeps, options.max_iter))
        everything = self._seen.concat(cells, duplicates=duplicates)  # type: ignore[arg-type]
        hidden = tuple(without(part, everything) for part in self._hidden)
        return self._go_on(everything, options, hidden, on_interrupt)

    def _keep(self, fitted: Fitted) -> None:
        self.posterior_ = fitted.posterior
        self.bound_trace_ = np.array(fitted.trace.bound)
        self.valid_trace_ = np.array(fitted.trace.valid)
        self.seconds_trace_ = np.array(fitted.trace.seconds)
        self.n_iter_ = fitted.trace.iterations
        self.stop_reason_ = fitted.reason
        self.choices_ = fitted.choices
        self.effective_cells_ = fitted.effective_cells


def _of_a_stream(options: Options) -> Options:
    """The options, if a stream of batches can be fitted with them."""
    if options.target == "all":
        raise ValueError("a stream cannot be weighed for target='all', which needs all cells; fit Cells")
    if not isinstance(options.method, Minibatch):
        raise ValueError("a stream of batches needs solver='minibatch'")
    return options


def _warn_that_it_still_rose(options: Options) -> None:
    warnings.warn(
        f"the bound still rose by more than tol={options.tol:g} of itself after max_iter="
        f"{options.max_iter} sweeps; raise it, or go on with warm_start=True",
        ConvergenceWarning,
        stacklevel=4,
    )
