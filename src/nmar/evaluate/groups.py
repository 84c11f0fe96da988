"""Do two groups differ? A test for each row of completed tables, with an error that knows what was imputed.

Enters: completed tables (:meth:`nmar.CCPF.impute`), or one complete table, and the group of each column. Leaves: for
each row the difference of the groups' means, its error by Rubin's rules with variances that rows share, and p-values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, polygamma
from scipy.stats import false_discovery_control
from scipy.stats import t as student

from nmar.arrays import Array
from nmar.evaluate.imputed import Imputations
from nmar.evaluate.pooling import pool
from nmar.models.arguments import check_choice

if TYPE_CHECKING:
    import pandas

__all__ = ["GroupTest", "group_test"]

FEWEST = 3  # rows whose variances can say what variances are like


@dataclass(frozen=True, eq=False, repr=False)
class GroupTest:
    """Result of :func:`group_test`; arrays have one entry for each row that was tested.

    Attributes
    ----------
    ids : ndarray
        Ids of the rows.
    groups : tuple of (object, object)
        The groups; differences are the mean of the second less that of the first.
    difference : ndarray
        Differences of the means, pooled over completed tables.
    se : ndarray
        Their standard errors, imputation included.
    df : ndarray
        Degrees of freedom.
    p : ndarray
        Two-sided p-values.
    q : ndarray
        P-values adjusted by Benjamini and Hochberg: those below 0.05 have a false discovery rate of 5 %.
    low, high : ndarray
        Intervals.
    fraction_missing : ndarray
        Share of each squared error that is due to imputation.
    level : float
        Level of the intervals.
    prior : tuple of (float, float)
        Degrees of freedom and variance that all rows share.
    n : int
        Number of completed tables.
    """

    ids: Array
    groups: tuple[Any, Any]
    difference: Array
    se: Array
    df: Array
    p: Array
    q: Array
    low: Array
    high: Array
    fraction_missing: Array
    level: float
    prior: tuple[float, float]
    n: int

    def frame(self) -> pandas.DataFrame:
        """One line for each row, in the order of the table."""
        import pandas

        names = ("difference", "se", "df", "low", "high", "p", "q", "fraction_missing")
        return pandas.DataFrame({"id": self.ids} | {name: getattr(self, name) for name in names})

    def text(self, rows: int = 10, rate: float = 0.05) -> str:
        """How many rows differ, and those with the smallest p-values."""
        first, second = self.groups
        found = int(np.sum(self.q < rate))
        lines = [
            f"{found} of {len(self.p)} rows differ between {first!s} and {second!s} at a false discovery rate of"
            f" {rate:.0%}"
        ]
        width = max([len(str(self.ids[k])) for k in range(len(self.ids))], default=2)
        for k in np.argsort(self.p, kind="stable")[:rows]:
            lines.append(
                f"{self.ids[k]!s:>{width}}  {self.difference[k]:+.3g} ({self.low[k]:.3g} to {self.high[k]:.3g})"
                f"   q {self.q[k]:.2g}   {self.fraction_missing[k]:.0%} of the error is due to imputation"
            )
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"GroupTest({len(self.p)} rows, {int(np.sum(self.q < 0.05))} with q < 0.05)"


def group_test(
    completed: Imputations | ArrayLike,
    groups: ArrayLike,
    axis: Literal["rows", "cols"] = "rows",
    *,
    ids: ArrayLike | None = None,
    moderated: bool = True,
    level: float = 0.95,
) -> GroupTest:
    """Test for each row whether two groups of columns differ in their mean.

    Each completed table gives a difference of means and a variance within groups for every row. Variances are averaged
    over tables and, as in limma, drawn towards what all rows have in common; the differences are pooled by Rubin's
    rules (:func:`nmar.pool`), so that a row that was imputed more has a larger error.

    Parameters
    ----------
    completed : Imputations or array-like
        What :meth:`nmar.CCPF.impute` returned, one complete table, or an array of completed tables (tables, rows,
        columns).
    groups : array-like
        Group of each column: two different values, which are compared in ascending order.
    axis : {"rows", "cols"}, default="rows"
        Which lines are tested. "cols": one test for each column, and ``groups`` has the group of each row.
    ids : array-like or None, default=None
        Ids of the lines that are tested. None: those of ``completed``, else positions.
    moderated : bool, default=True
        Whether rows share a prior of their variances. False: Student's test of each row by itself.
    level : float, default=0.95
        Level of the intervals.

    Returns
    -------
    GroupTest
        With ``frame()`` and ``text()``; :func:`nmar.plot.volcano` draws it.

    Notes
    -----
    The prior of the variances is fitted by the moments of their logarithms [1]_. Imputations of a model that does not
    know the groups draw differences of rows with many missing values towards 0.

    References
    ----------
    .. [1] Smyth (2004), Linear models and empirical Bayes methods for assessing differential expression in microarray
       experiments, Statistical Applications in Genetics and Molecular Biology 3.

    Examples
    --------
    >>> import numpy as np
    >>> import nmar
    >>> rng = np.random.default_rng(0)
    >>> table = rng.normal(size=(50, 12))
    >>> table[:5, 6:] += 4.0
    >>> found = nmar.group_test(table, ["control"] * 6 + ["treated"] * 6)
    >>> int(np.sum(found.q < 0.05)), bool(np.all(found.q[:5] < 0.05))
    (5, True)
    """
    check_choice("axis", axis, ("rows", "cols"))
    tables, labels = _tables(completed, axis)
    if ids is not None:
        labels = np.asarray(ids)
    if len(labels) != tables.shape[1]:
        raise ValueError(f"ids holds {len(labels)} and {tables.shape[1]} {axis} are tested; give one of each")
    names, which = two_groups(groups, tables.shape[2], axis)
    sizes = np.bincount(which)
    means = np.stack([tables[:, :, which == g].mean(axis=2) for g in (0, 1)])
    away = tables - means[which].transpose(1, 2, 0)
    df = float(sizes.sum() - 2)
    within = np.sum(away**2, axis=2).mean(axis=0) / df
    prior = shared_variance(within, df) if moderated else (0.0, 1.0)
    variance, freedom = squeezed(within, df, prior)
    squared = np.broadcast_to(variance * np.sum(1.0 / sizes), means[0].shape)
    found = pool(means[1] - means[0], squared, freedom, level) if len(tables) > 1 else None
    if found is None:  # one table: nothing was imputed, or nothing is known of how much imputations vary
        estimate, total, degrees, share = means[1, 0] - means[0, 0], squared[0], np.full(len(labels), freedom), 0.0
    else:
        estimate, total, degrees, share = found.estimate, found.total, found.df, found.fraction_missing
    se = np.sqrt(total)
    p = 2.0 * student.sf(np.abs(np.divide(estimate, se, out=np.zeros(len(labels)), where=se > 0.0)), degrees)
    half = student.ppf(0.5 + level / 2.0, degrees) * se
    answer = (estimate, se, degrees, p, false_discovery_control(p), estimate - half, estimate + half)
    return GroupTest(labels, names, *answer, np.broadcast_to(share, len(labels)), level, prior, len(tables))


def _tables(completed: Any, axis: str) -> tuple[Array, Array]:
    """Completed tables (tables, tested lines, others), and the ids of the tested lines."""
    if isinstance(completed, Imputations):
        ids = completed.rows.ids[completed.lines] if axis == "rows" else completed.cols.ids
        tables = np.stack([np.asarray(completed.array(k), np.float64) for k in range(completed.n)])
    else:
        tables = np.asarray(completed, np.float64)
        if tables.ndim not in (2, 3):
            raise ValueError(f"completed has shape {tables.shape}; pass a table, tables, or what impute returned")
        tables = tables[None] if tables.ndim == 2 else tables
        label = getattr(completed, "index" if axis == "rows" else "columns", None)
        ids = np.arange(tables.shape[1 + (axis == "cols")]) if label is None else np.asarray(label)
    if np.isnan(tables).any():
        raise ValueError("completed has missing values; impute all cells of the rows that are tested")
    return (tables if axis == "rows" else tables.transpose(0, 2, 1)), np.asarray(ids)


def two_groups(groups: ArrayLike, n: int, axis: str) -> tuple[tuple[Any, Any], Array]:
    """Names of the two groups, and which of them each column is in."""
    given = np.asarray(groups)
    others = "columns" if axis == "rows" else "rows"
    if given.shape != (n,):
        raise ValueError(f"groups has shape {given.shape} and the table {n} {others}; give the group of each")
    names, which = np.unique(given, return_inverse=True)
    if len(names) != 2:
        raise ValueError(f"groups has {len(names)} different values; give two groups")
    if n < 3:
        raise ValueError(f"groups has {n} {others}; at least 3 are needed to see how they vary")
    return (names[0].item(), names[1].item()), which


def shared_variance(variances: Array, df: float) -> tuple[float, float]:
    """Degrees of freedom and value of the variance that rows share: s²_i ~ s0² F(df, df0), by moments of log s²."""
    positive = variances[variances > 0.0]
    if len(positive) < FEWEST:
        return 0.0, 1.0
    log = np.log(positive) - digamma(df / 2.0) + np.log(df / 2.0)
    spread = float(np.var(log, ddof=1) - polygamma(1, df / 2.0))
    if spread <= 0.0:
        return np.inf, float(np.exp(log.mean()))
    half = _inverse_trigamma(spread)
    return 2.0 * half, float(np.exp(log.mean() + digamma(half) - np.log(half)))


def _inverse_trigamma(value: float) -> float:
    """x with ψ'(x) = ``value``, by Newton's method on 1/ψ', which is nearly linear."""
    x = 0.5 + 1.0 / value
    for _ in range(50):
        now = float(polygamma(1, x))
        step = now * (1.0 - now / value) / float(polygamma(2, x))
        x += step
        if abs(step) < 1e-10 * x:
            break
    return x


def squeezed(variances: Array, df: float, prior: tuple[float, float]) -> tuple[Array, float]:
    """Variances between their own value and the shared one, and their degrees of freedom."""
    freedom, value = prior
    if freedom == np.inf:
        return np.full(len(variances), value), np.inf
    return (freedom * value + df * variances) / (freedom + df), df + freedom
