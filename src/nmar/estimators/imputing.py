"""Multiple imputation and sensitivity analysis: what :class:`nmar.CCPF` says of the cells that are missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from nmar.data.accept import as_cells
from nmar.data.cells import Cells
from nmar.data.seeds import check_seed
from nmar.data.split import refuse_overlap, without
from nmar.estimators.asking import Asking, Target, Unknown
from nmar.evaluate.imputed import Imputations, Statistic
from nmar.evaluate.imputer import Imputer
from nmar.evaluate.sensitivity import BendSensitivity, Sensitivity, Unit, at_bends, at_slopes, delta_adjusted
from nmar.fit.problem import whole_seed
from nmar.models.arguments import check_choice, check_count
from nmar.models.mechanism import ByValue
from nmar.prob.linkage import Linkage


class Imputing(Asking):
    """Draws of missing cells."""

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
            held and every cell counts once, else 0, as with ``mechanism="value"``.
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
        return self._imputer(target).impute(n, seed, cells, rows, sweeps)

    def _imputer(self, target: Target = None) -> Imputer:
        """The model with its cells, for draws; augmentation needs a fit of these lines, each cell counting once."""
        once = not self._folded and self._fitted().law.target == "observed"
        return Imputer(self._about(target), self._seen, self._hidden, once, self.n_jobs, self.backend)

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
        does not depend on what is missing. No data can say which shift is right.

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

    def mechanism_sensitivity(
        self,
        slope: ArrayLike,
        statistic: Statistic,
        n: int = 20,
        seed: Any = 0,
        *,
        rows: ArrayLike | None = None,
        df: float | None = None,
        level: float = 0.95,
    ) -> Sensitivity:
        """How a statistic moves with how strongly values decide whether they are seen.

        The model is fitted again with each slope of P(observed | value) fixed (:class:`nmar.ByValue`), and completed
        tables are pooled. The slope at which a conclusion changes is its tipping point; whether it is plausible is
        seen against the slope that the data support (``mechanism_``) and what is known of the instrument.

        Parameters
        ----------
        slope : array-like
            Slopes Γ, usually with 0 among them: by how much the log rate of being seen rises with a value, for each
            spread of the observed values.
        statistic : callable
            As in :meth:`sensitivity`.
        n : int, default=20
            As in :meth:`impute`.
        seed : int, Generator or None, default=0
            As in :meth:`impute`; every slope has the same.
        rows : array-like or None, default=None
            As in :meth:`impute`.
        df : float or None, default=None
            As in :func:`nmar.pool`.
        level : float, default=0.95
            As in :func:`nmar.pool`.

        Returns
        -------
        Sensitivity
            The statistic at each slope, with ``frame()``, ``tipping_point(value)`` and ``text()``.
            :func:`nmar.plot.sensitivity` draws it.

        Examples
        --------
        >>> import nmar
        >>> cells, _ = nmar.simulate(shape=(30, 6), data=nmar.Effects("both"), density=0.6, seed=0)
        >>> model = nmar.CCPF(nmar.Effects("both"), mechanism="value", factors=2, random_state=0).fit(cells)
        >>> found = model.mechanism_sensitivity([0.0, 1.0], lambda table: table[0].mean(), n=3)
        >>> bool(found.estimate[1] < found.estimate[0])
        True
        """
        if self._seen is None:
            raise ValueError(
                "mechanism_sensitivity fits again and needs the training cells, which a loaded model lacks"
            )
        seed, fit_seed, away = whole_seed(seed), whole_seed(self.random_state), self._all_hidden()
        given = self.mechanism if isinstance(self.mechanism, ByValue) else ByValue()

        def completed(value: float) -> Imputations:
            mechanism = replace(given, slope=value)
            changed = clone(self).set_params(
                mechanism=mechanism, linkage="ignorable", control=False, random_state=fit_seed
            )
            return changed.fit(self._seen, hidden=away).impute(n, seed, rows=rows)

        return at_slopes(slope, completed, statistic, df, level)

    def _all_hidden(self) -> Cells | None:
        """What was hidden from the fit, validation cells included."""
        if not self._hidden:
            return None
        away = self._hidden[0]
        for part in self._hidden[1:]:
            away = away.concat(part, duplicates="last")
        return away

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
        away = held_out  # and what was hidden from the fit, which is no more missing now
        for part in self._hidden:
            away = away.concat(part, duplicates="last")
        seed, stopping = whole_seed(self.random_state), self._stopped_on(held_out)

        def fitted(changed: Linkage) -> Any:
            model = clone(self).set_params(linkage=changed, random_state=seed)
            return model.fit(self._seen, valid=stopping, hidden=away)

        return at_bends(link, bends, held_out, fitted, unknown)

    def _stopped_on(self, held_out: Cells) -> Cells | None:
        """The cells that the fit was stopped on, those left out that judge now; None where there are none."""
        parts = self._hidden
        if not parts or not len(self.valid_trace_):  # validation cells come first, where there were any
            return None
        kept = without(parts[0], held_out)
        return kept if len(kept) else None
