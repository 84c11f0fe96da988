"""Completed tables: several joint draws of the missing cells, as frames with the user's ids, and what they assume."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from nmar.arrays import Array
from nmar.data.axis import Axis
from nmar.data.cells import Cells
from nmar.data.outside import as_frame
from nmar.evaluate.pooling import Pooled, pool
from nmar.models.law import Law
from nmar.models.mechanism import Mechanism
from nmar.posterior.joint import as_seen
from nmar.posterior.posterior import Posterior
from nmar.prob.linkage import Linkage

if TYPE_CHECKING:
    import pandas

__all__ = ["Imputations", "Statistic", "assumption", "missing_cells"]

Statistic = Callable[[Any], Any]

FLOOR = 1e-3  # of the median of the training values: where positive values end that are shifted down

OBSERVED = (
    "Values are those that the missing cells would have if they had been observed: given its row and column, a missing"
    " value is taken to be like an observed one. Values that are missing because of what they are (below a detection"
    " limit, say) are not recovered, and no data can tell; see how conclusions move with model.sensitivity(delta=…)."
)
ALL = (
    "Values are those of any cell, observed or not: training cells count by the inverse of their P(observed). This"
    " corrects for a selection that rows and columns explain, not for values that are missing because of what they are;"
    " see how conclusions move with model.sensitivity(delta=…)."
)
SHIFT = (
    " The linkage moves the mean with the latent count, so that the answer rests on a model of the missing values that"
    " the observed ones cannot check."
)
BY_VALUE = (
    "Values are drawn given that they are missing. The log rate of being seen is taken to be linear in the value, with"
    " one slope for all cells ({slope:+.2f} for each spread of the observed values); the data decide the"
    " slope under that assumption, not the assumption."
)


def assumption(law: Law, linkage: Linkage, mechanism: Mechanism | None = None) -> str:
    """What a model takes for granted about missing values, in words."""
    if mechanism is not None:
        return BY_VALUE.format(slope=mechanism.slope)
    return (ALL if law.target == "all" else OBSERVED) + ("" if linkage.mean is None else SHIFT)


def missing_cells(cells: Cells, lines: Array) -> tuple[Array, Array]:
    """Row and column positions of the cells of chosen rows that are not observed, row by row."""
    by_row, rows, cols = cells.by(0), [], []
    for line in lines:
        away = np.ones(cells.shape[1], np.bool_)
        away[by_row.indices[by_row.indptr[line] : by_row.indptr[line + 1]]] = False
        cols.append(np.flatnonzero(away))
        rows.append(np.full(len(cols[-1]), line))
    nothing = [np.empty(0, np.int64)]
    return np.concatenate(rows or nothing), np.concatenate(cols or nothing)


@dataclass(frozen=True, eq=False, repr=False)
class Imputations:
    """Several draws of missing cells, each drawn jointly; made by :meth:`nmar.CCPF.impute`.

    Attributes
    ----------
    values : ndarray of shape (cells, n)
        The draws.
    row, col : ndarray
        Positions of the cells on the axes. Draws of cells that are observed are in ``values`` and in :meth:`frame`;
        completed tables have what was observed.
    rows, cols : Axis
        Ids of the axes.
    observed : Cells or None
        The cells that the model was fitted to, or None where it does not hold them.
    lines : ndarray
        Positions of the rows that :meth:`table` shows.
    assumes : str
        Assumptions, in words.
    sweeps : int
        Number of sweeps of data augmentation between two draws. With 0 draws come from the mean-field posterior.
    noise : float
        Standard deviation of a value given the drawn lines, root mean square over the cells.
    known : Posterior
        The fitted model that they were drawn from.
    latent : ndarray of shape (cells, n)
        The draws before ratings are put on their levels; counts have a uniform number added.
    shift : float or ndarray
        What was added to them (:meth:`shifted`).

    Examples
    --------
    >>> import numpy as np
    >>> import nmar
    >>> cells, _ = nmar.simulate(shape=(40, 5), data=nmar.Effects("both"), density=0.7, seed=0)
    >>> model = nmar.CCPF(nmar.Effects("both"), "ignorable", factors=2, random_state=0).fit(cells)
    >>> completed = model.impute(n=5, seed=0)
    >>> completed.table(0).shape, completed.values.shape[1]
    ((40, 5), 5)
    >>> found = completed.pool(lambda table: (table[0].mean(), table[0].var() / len(table)), df=39)
    >>> bool(found.low < found.estimate < found.high)
    True
    """

    values: Array
    row: Array
    col: Array
    rows: Axis
    cols: Axis
    observed: Cells | None
    lines: Array
    assumes: str
    sweeps: int
    noise: float
    known: Posterior
    latent: Array
    shift: float | Array = 0.0

    @property
    def n(self) -> int:
        """Number of completed tables."""
        return self.values.shape[1]

    def __len__(self) -> int:
        return self.n

    def text(self) -> str:
        """What this is, in words."""
        how = f"data augmentation, {self.sweeps} sweeps apart" if self.sweeps else "the mean-field posterior"
        return f"{self.n} joint draws of {len(self.row):,} cells by {how}.\n{self.assumes}"

    def __repr__(self) -> str:
        return f"Imputations({self.n} draws of {len(self.row):,} cells)\n{self.assumes}"

    def frame(self) -> pandas.DataFrame:
        """The imputed cells alone, one line for each: row id, column id, and the draws 0, 1, …"""
        draws = {str(k): self._typed(self.values[:, k]) for k in range(self.n)}
        ids = {"row": self.rows.ids[self.row], "col": self.cols.ids[self.col]}
        return as_frame(ids | draws, "frame()")

    def array(self, k: int) -> Array:
        """Completed table ``k`` as an array: rows of ``lines`` by all columns, NaN where nothing was imputed.

        Observed cells have their observed values, drawn or not.
        """
        if self.observed is None:
            raise ValueError("the model holds no training cells to complete; use frame(), which has the imputed ones")
        check_draw(k, self.n)
        place = np.full(self.rows.size, -1)
        place[self.lines] = np.arange(len(self.lines))
        out = np.full((len(self.lines), self.cols.size), np.nan)
        here = place[self.row] >= 0
        out[place[self.row[here]], self.col[here]] = self.values[here, k]
        seen = place[self.observed.row_index] >= 0
        out[place[self.observed.row_index[seen]], self.observed.col_index[seen]] = self.observed.values[seen]
        return self._typed(out)

    def table(self, k: int) -> pandas.DataFrame:
        """Completed table ``k`` as a frame: row ids in the index, column ids as columns, under the names they had."""
        pandas = _pandas()
        index = pandas.Index(self.rows.ids[self.lines], name=self.rows.name)
        return pandas.DataFrame(self.array(k), index, pandas.Index(self.cols.ids, name=self.cols.name))

    def tables(self) -> Iterator[pandas.DataFrame]:
        """All completed tables, one at a time."""
        return (self.table(k) for k in range(self.n))

    def _typed(self, values: Array) -> Array:
        """Whole numbers as integers, where observed ones are whole too and none is missing."""
        law = self.known.law
        leveled = law.scale is not None or (law.support is not None and law.support.step is not None)
        whole = law.family.discrete or leveled
        if self.observed is not None and whole:
            whole = bool(np.all(self.observed.values == np.round(self.observed.values)))
        if not whole or not np.all(values == np.round(values)):
            return values
        return values.astype(np.int64)

    def pool(self, statistic: Statistic, df: float | None = None, level: float = 0.95) -> Pooled:
        """A statistic of each completed table, pooled by Rubin's rules (:func:`nmar.pool`).

        Parameters
        ----------
        statistic : callable
            Function of a completed table (a frame) that returns an estimate and its squared standard error, numbers or
            arrays, as if the table had been complete; estimates and their covariance matrix; or a fitted model that has
            ``params`` and ``cov_params()``, as those of statsmodels have.
        df : float or None, default=None
            Degrees of freedom of the complete-data analysis.
        level : float, default=0.95
            Level of the interval.
        """
        found = [checked_pair(statistic(table)) for table in self.tables()]
        return pool([q for q, _ in found], [u for _, u in found], df, level)

    def tipping_table(
        self, statistic: Statistic, delta: ArrayLike, groups: Mapping[str, Any], value: float = 0.0, **pooling: Any
    ) -> pandas.DataFrame:
        """Where a conclusion tips: p-values as missing values of two groups of rows are shifted, each on its own.

        Parameters
        ----------
        statistic : callable
            Function of a completed table that returns an estimate and its squared standard error, two numbers.
        delta : array-like
            Shifts, in standard deviations of a value's noise. 0 is what the model imputes.
        groups : dict of str to array-like
            Names of two groups, and the ids of their rows, whose missing values are shifted.
        value : float, default=0.0
            What the estimate is compared with.
        **pooling : object
            ``df`` of :func:`nmar.pool`.

        Returns
        -------
        DataFrame
            Two-sided p-values: a line for each shift of the first group, a column for each of the second.
        """
        if len(groups) != 2:
            raise ValueError(f"groups has {len(groups)} groups; give two, the ids of the rows of each by its name")
        shifts, steps = np.atleast_1d(np.asarray(delta, np.float64)), []
        for ids in groups.values():
            there = np.zeros(self.rows.size)
            there[self.rows.positions(np.asarray(ids), argument="groups", remedy="name rows of the table")] = self.noise
            steps.append(there[self.row][:, None])
        p = [[self._p_value(a * steps[0] + b * steps[1], statistic, value, pooling) for b in shifts] for a in shifts]
        first, second = groups
        found = as_frame(dict(zip(shifts.tolist(), np.array(p).T, strict=True)), "tipping_table()")
        return found.set_index(shifts).rename_axis(index=first, columns=second)

    def _p_value(self, shift: Array, statistic: Statistic, value: float, pooling: dict[str, Any]) -> float:
        """Of the pooled estimate at a shift of each cell."""
        found = self.shifted(shift).pool(statistic, **pooling)
        return float(2.0 * student.sf(abs(found.estimate - value) / found.se, found.df))

    def shifted(self, delta: float | Array) -> Imputations:
        """The same with ``delta``, one number or one for each cell, added to imputed values, as far as they can go.

        Ratings are shifted before they are put on their levels. Counts are rounded up or down at random, each in the
        same way at all shifts, so that their mean moves by ``delta`` until they meet 0 or the number of trials.
        Positive values end at a thousandth of the median of the training values; draws below that stay as they are.
        """
        shift = self.shift + delta
        values, law = as_seen(self.known, self.latent + shift), self.known.law
        if law.support is None and not law.family.location:
            low = 0.0 if law.family.discrete else np.minimum(self.latent, FLOOR * self.known.units.scale)
            values = np.clip(values, low, self._most())
        return replace(self, values=values, shift=shift)

    def _most(self) -> float:
        """The number of trials, where counts cannot be more; a compound linkage multiplies them."""
        trials, link = getattr(self.known.law.data, "dispersion", None), self.known.state.shared.linkage
        return np.inf if trials is None or (link.whole and link.couples) else float(trials)


def checked_pair(found: Any) -> tuple[Array, Array]:
    """Estimate and variance of a statistic, or estimates and covariance matrix of a fitted model of statsmodels."""
    if hasattr(found, "params") and hasattr(found, "cov_params"):
        return found.params, found.cov_params()
    if not isinstance(found, tuple) or len(found) != 2:
        raise ValueError(
            f"statistic returned {found!r}; return (estimate, variance), the variance being the squared standard error"
        )
    return found


def check_draw(k: int, n: int) -> None:
    """Raise unless there is such a draw."""
    if not -n <= k < n:
        raise ValueError(f"k={k!r}; there are {n} completed tables, 0 to {n - 1}")


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError("frames need pandas: pip install pandas") from None
    return pandas
