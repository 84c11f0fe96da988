"""Multiple imputation and sensitivity analysis: what :class:`nmar.CCPF` says of the cells that are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from nmar.data.accept import as_cells
from nmar.data.cells import Cells
from nmar.data.seeds import check_seed
from nmar.data.split import refuse_overlap, without
from nmar.estimators.asking import Target, Unknown
from nmar.evaluate.gains import Judges
from nmar.evaluate.imputed import Imputations, Statistic, assumption, missing_cells
from nmar.evaluate.sensitivity import BendSensitivity, Sensitivity, Unit, delta_adjusted
from nmar.fit.augment import joint_draws
from nmar.fit.job import hidden_cells
from nmar.fit.problem import seed_sequence, whole_seed
from nmar.models.arguments import check_choice, check_count
from nmar.posterior import posterior as ask
from nmar.posterior.joint import as_seen, latent_given
from nmar.prob.linkage import Curve, Free, Linkage

Array = NDArray[Any]

SWEEPS = 5  # of data augmentation between two completed tables
MOST = 50_000_000  # numbers that are drawn without being asked for cell by cell


class Imputing:
    """Draws of missing cells from ``posterior_``."""

    posterior_: ask.Posterior
    backend: Any
    n_jobs: int | None
    random_state: Any
    valid_trace_: Array
    _seen: Cells | None
    _hidden: tuple[Cells, ...]
    _folded: bool
    _fitted: Callable[[], ask.Posterior]
    _about: Callable[[Target], ask.Posterior]
    fit: Callable[..., Any]
    set_params: Callable[..., Self]
    log_density: Callable[..., Array]
    predict_entries: Callable[..., Any]

    def impute(
        self,
        n: int = 20,
        seed: Any = None,
        *,
        cells: tuple[ArrayLike, ArrayLike] | None = None,
        rows: ArrayLike | None = None,
        sweeps: int | None = None,
        target: Target = None,
    ) -> Imputations:
        """Complete the table ``n`` times by joint draws of the missing cells (multiple imputation).

        Each completed table draws the lines of both sides, and shared parameters that have a posterior, once, and then
        every missing cell given them: cells of a row go together, so that errors pooled by Rubin's rules
        (``completed.pool``, :func:`nmar.pool`) are right for means, correlations and regressions, not only for cells.

        Parameters
        ----------
        n : int, default=20
            Number of completed tables.
        seed : int, Generator or None, default=None
            Seed of the draws.
        cells : tuple of (array-like, array-like) or None, default=None
            Row ids and column ids of the cells to draw, one of each per cell. None: all missing cells of all rows or of
            ``rows``. Observed cells may be drawn too, as a check; completed tables keep their observed values.
        rows : array-like or None, default=None
            Ids of rows whose missing cells are drawn: a block of a large table. Blocks that are drawn with the same
            seed share their draws of factors.
        sweeps : int or None, default=None
            Sweeps of data augmentation between two draws. 0 draws from the fitted posterior, in which rows and columns
            are independent (mean field), and errors come out somewhat too small; None: 5 where the training cells are
            at hand and every cell counts once, else 0, as with ``mechanism="value"``.
        target : {"observed", "all"} or None, default=None
            As in :meth:`predict_entries`.

        Returns
        -------
        Imputations
            The draws, with ``table(k)`` (a frame like the input), ``frame()`` (the imputed cells alone) and
            ``pool(statistic)``.

        Notes
        -----
        With ``mechanism="value"`` missing cells are drawn from their law given that they are missing. Without it a
        missing value is taken to be like an observed one, given its row and column (``target="observed"``), or
        like one of all cells, as far as rows and columns explain what is observed (``target="all"``). A linkage with
        ``mean="shift"`` also moves the mean with the latent count. None of these can tell that values are missing
        because of what they are: on proteins below a detection limit imputed values are too high and
        intervals too narrow (docs/experiments/imputation.md). Use :meth:`sensitivity` to see what that would change.

        Data augmentation draws the two sides in turn, each given the other. The pattern, the linkage, prior variances
        and scales and, for families other than the Gaussian, the dispersion κ stay at their fitted values. A
        :class:`nmar.Regressor` has no posterior, so that its draws differ by noise alone.

        Examples
        --------
        >>> import nmar
        >>> cells, _ = nmar.simulate(shape=(30, 6), data=nmar.Effects("both"), density=0.6, seed=0)
        >>> model = nmar.CCPF(nmar.Effects("both"), "ignorable", factors=2, random_state=0).fit(cells)
        >>> completed = model.impute(n=3, seed=0)
        >>> bool(completed.table(0).isna().any().any())
        False
        """
        check_count("n", n, 1)
        check_seed("seed", seed)
        known, i, j, lines = self._asked_cells(n, cells, rows, target)
        sweeps = self._augmentation(known, sweeps)
        whole = seed_sequence(seed)
        latent, variance = np.empty((len(i), n)), 0.0
        for k, draw in enumerate(self._joint_draws(known, n, sweeps, child(whole, 0))):
            latent[:, k] = self._drawn_values(draw, i, j, child(child(whole, 1), k))
            if k == 0 and len(i):
                variance = float(np.mean(ask.mean_and_variance(draw, i, j)[1]))
        assumes = assumption(known.law, known.state.shared.linkage, known.state.shared.mechanism)
        noise, seen = float(np.sqrt(variance)), self._seen
        values, ids = as_seen(known, latent), (known.rows, known.cols)
        return Imputations(values, i, j, *ids, seen, lines, assumes, sweeps, noise, known, latent)

    def _drawn_values(self, draw: ask.Posterior, i: Array, j: Array, seed: np.random.SeedSequence) -> Array:
        """One value of each cell given a draw of the model; where values decide, given whether it is missing."""
        seen = self._seen
        if draw.state.shared.mechanism is None or draw.law.given is None or seen is None:
            return latent_given(draw, i, j, seed)
        out, there = np.empty(len(i)), seen.contains(i, j)
        for given, which in (("missing", ~there), ("observed", there)):
            about = replace(draw, law=replace(draw.law, given=given))
            out[which] = latent_given(about, i[which], j[which], seed)
        return out

    def _joint_draws(
        self, known: ask.Posterior, n: int, sweeps: int, seed: np.random.SeedSequence
    ) -> Iterator[ask.Posterior]:
        """Draws of the whole model, with data augmentation on the training cells where ``sweeps`` asks for it."""
        seen = self._seen
        away = None if seen is None else hidden_cells(seen, *self._hidden)
        return joint_draws(known, seen, n, sweeps, seed, hidden=away, n_jobs=self.n_jobs, backend=self.backend)

    def _asked_cells(self, n: int, cells: Any, rows: Any, target: Target) -> tuple[ask.Posterior, Array, Array, Array]:
        """The posterior for the target, positions of the cells to draw, and rows of the completed table."""
        known = self._about(target)
        if cells is not None:
            if rows is not None:
                raise ValueError("give cells or rows, not both: cells names each cell, rows takes all missing ones")
            if not (isinstance(cells, tuple) and len(cells) == 2):
                raise ValueError(f"cells is a {type(cells).__name__}; give a pair (row ids, column ids)")
            i, j = (
                axis.positions(ids, "error", "cells", "remove them: they have no cells")
                for axis, ids in zip((known.rows, known.cols), cells, strict=True)
            )
            if len(i) != len(j):
                raise ValueError(f"cells has {len(i)} row ids and {len(j)} column ids; give one of each per cell")
            if len(np.unique(i * known.cols.size + j)) < len(i):
                raise ValueError("cells names a cell twice, and each has one value in a completed table; name it once")
            return known, i, j, np.unique(i)
        if self._seen is None:
            raise ValueError("a loaded or streamed model does not know which cells are missing; name them with cells=")
        lines = np.arange(known.rows.size)
        if rows is not None:
            lines = known.rows.positions(rows, "error", "rows")
            if len(np.unique(lines)) < len(lines):
                raise ValueError("rows names a row twice; name it once")
        away = len(lines) * known.cols.size * n
        if away > MOST:
            raise ValueError(
                f"{len(lines):,} × {known.cols.size:,} cells, {n} times, are more than {MOST:,} numbers; ask for fewer"
                " with n=, take the rows in blocks with rows= and one seed, or name the cells with cells=(rows, cols)"
            )
        return known, *missing_cells(self._seen, lines), lines

    def _augmentation(self, known: ask.Posterior, sweeps: int | None) -> int:
        """Sweeps between two draws: those asked for, if they can be made."""
        able = self._seen is not None and not self._folded and self._fitted().law.target == "observed"
        able = able and known.state.shared.mechanism is None
        if sweeps is None:
            return SWEEPS if able and not known.law.data.cellwise else 0
        check_count("sweeps", sweeps, 0)
        if sweeps and not able:
            raise ValueError(
                f"sweeps={sweeps} needs the training cells, each counting once: loaded, streamed and folded-in models"
                " and those of target='all' or mechanism='value' have sweeps=0 only"
            )
        return sweeps

    def sensitivity(
        self,
        delta: ArrayLike,
        statistic: Statistic,
        n: int = 20,
        seed: Any = 0,
        *,
        unit: Unit = "sd",
        rows: ArrayLike | None = None,
        df: float | None = None,
        level: float = 0.95,
    ) -> Sensitivity:
        """How a statistic moves as the missing values are shifted (delta adjustment).

        Imputation takes missing values to be like observed ones. Here they are taken to be higher or lower by
        ``delta``; the same draws serve all shifts. Where the conclusion holds for every shift that is plausible, it
        does not hang on what is missing. No data can say which shift is right.

        Parameters
        ----------
        delta : array-like
            Shifts, usually with 0 among them.
        statistic : callable
            Function of a completed table (a frame, row ids in the index) that returns an estimate, or (estimate,
            variance) for intervals by Rubin's rules.
        n : int, default=20
            As in :meth:`impute`.
        seed : int, Generator or None, default=0
            As in :meth:`impute`.
        unit : {"sd", "value"}, default="sd"
            "sd": delta is in standard deviations of a value's noise, given its row and column; "value": in units of the
            values. Shifted values keep to the bounds, to whole counts and to values above 0, where there are such.
            Ratings are shifted before they are put on their levels, and counts are rounded at random, in the same way
            at all shifts, so that means move by the shift until values meet an end of their range.
        rows : array-like or None, default=None
            As in :meth:`impute`.
        df : float or None, default=None
            As in :func:`nmar.pool`.
        level : float, default=0.95
            As in :func:`nmar.pool`.

        Returns
        -------
        Sensitivity
            The statistic at each shift, with ``frame()``, ``tipping_point(value)`` and ``text()``.
            :func:`nmar.plot.sensitivity` draws it.

        Examples
        --------
        >>> import nmar
        >>> cells, _ = nmar.simulate(shape=(30, 6), data=nmar.Effects("both"), density=0.6, seed=0)
        >>> model = nmar.CCPF(nmar.Effects("both"), "ignorable", factors=2, random_state=0).fit(cells)
        >>> found = model.sensitivity([-1, 0, 1], lambda table: table[0].mean(), n=3)
        >>> bool(found.estimate[0] < found.estimate[1] < found.estimate[2])
        True
        """
        check_choice("unit", unit, ("sd", "value"))
        return delta_adjusted(self.impute(n, seed, rows=rows), delta, statistic, unit, df, level)

    def linkage_sensitivity(self, bend: ArrayLike, cells: Any, *, unknown: Unknown = "error") -> BendSensitivity:
        """How held-out likelihood and predictions move with the linkage: the same fit at fixed bends.

        Parameters
        ----------
        bend : array-like
            Values of c for a linkage that has one (linear, exponential, geometric); for a free table φ, powers t of the
            fitted one, φ^t: 0 is no linkage, 1 the fitted table.
        cells : Cells or array-like
            Held-out cells, hidden from the fits; training cells are refused.
        unknown : {"error", "prior"}, default="error"
            As in :meth:`log_density`.

        Returns
        -------
        BendSensitivity
            Scores and predictions at each bend, with ``frame()`` and ``text()``.

        Notes
        -----
        All fits have one seed (without ``random_state`` one is drawn), so that gains are due to the bend. Where the fit
        was stopped on validation cells, they stop these too, those left out that are among ``cells``.

        Examples
        --------
        >>> import nmar
        >>> cells, _ = nmar.simulate((60, 30), nmar.Effects("rows"), nmar.Linear(0.3), density=0.4, seed=0)
        >>> train, _, test = cells.split(seed=0)
        >>> model = nmar.CCPF(nmar.Effects("rows"), "linear", factors=2, random_state=0).fit(train)
        >>> found = model.linkage_sensitivity([0.0, 0.2, 0.4], test)
        >>> found.frame().shape
        (3, 7)
        """
        if self._seen is None:
            raise ValueError("linkage_sensitivity fits again and needs the training cells, which a loaded model lacks")
        held_out, link = as_cells(cells), self._fitted().linkage
        refuse_overlap("cells", held_out, "the training cells", self._seen)
        bends = np.atleast_1d(np.asarray(bend, np.float64))
        ids = held_out.row_ids[held_out.row_index], held_out.col_ids[held_out.col_index]
        away = held_out  # and what was hidden from the fit, which is no more missing now
        for part in self._hidden:
            away = away.concat(part, duplicates="last")
        seed = whole_seed(self.random_state)
        stopping, found, means, sds = self._stopped_on(held_out), [], [], []
        for value in bends:
            model = clone(self).set_params(linkage=bent(link, float(value)), random_state=seed)
            model.fit(self._seen, valid=stopping, hidden=away)
            found.append(model.log_density(held_out, unknown=unknown))
            mean, sd = model.predict_entries(*ids, return_std=True, unknown=unknown)
            means.append(mean)
            sds.append(sd)
        scores, center = np.array(found), np.array(means)
        gains, judges = scores - scores[0], Judges.of([held_out])
        return BendSensitivity(
            bends,
            "c" if isinstance(link, Curve) else "bend",
            scores.mean(axis=1),
            gains.mean(axis=1),
            np.array([judges.error(one) for one in gains]),
            np.sqrt(np.mean((center - held_out.values) ** 2, axis=1)),
            center.mean(axis=1),
            np.sqrt(np.mean(np.array(sds) ** 2, axis=1)),
        )

    def _stopped_on(self, held_out: Cells) -> Cells | None:
        """The cells that the fit was stopped on, those left out that judge now; None where there are none."""
        parts = self._hidden
        if not parts or not len(self.valid_trace_):  # validation cells come first, where there were any
            return None
        kept = without(parts[0], held_out)
        return kept if len(kept) else None


def bent(link: Linkage, bend: float) -> Linkage:
    """The linkage with c, or with the power of its table, fixed."""
    if isinstance(link, Curve):
        return replace(link, c=bend, learn=False)
    if isinstance(link, Free):
        return replace(link, values=tuple(float(v) for v in link.spread**bend), learn=False)
    raise ValueError(f"the {link.name} linkage has no parameter to move; fit 'linear', 'geometric' or 'free'")


def child(seed: np.random.SeedSequence, k: int) -> np.random.SeedSequence:
    """The k-th stream of a seed, whatever was drawn from it before."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, k))
