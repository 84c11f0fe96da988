"""Rubin's rules: one answer from several completed tables, with an error that knows they were imputed.

Sources: Rubin (1987); Barnard and Rubin (1999) for the degrees of freedom of small samples; Li, Raghunathan and Rubin
(1991) for joint tests (D1), with the degrees of freedom of Reiter (2007) where those of the complete data are given.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import f as fisher
from scipy.stats import t as student

from nmar.arrays import Array
from nmar.data.outside import as_frame, library

if TYPE_CHECKING:
    import pandas

__all__ = ["JointTest", "Pooled", "pool"]


@dataclass(frozen=True)
class JointTest:
    """Whether several pooled estimates together differ from what they are said to be; made by :meth:`Pooled.test`.

    Attributes
    ----------
    statistic : float
        D1, the pooled Wald statistic divided by the number of estimates.
    df : tuple of float
        Degrees of freedom of its F law.
    p_value : float
        Probability of a larger statistic.
    riv : float
        Relative increase of the variance due to missing cells, averaged over the estimates.
    """

    statistic: float
    df: tuple[float, float]
    p_value: float
    riv: float

    def __str__(self) -> str:
        first, second = self.df
        return f"F = {self.statistic:.4g} on {first:.0f} and {second:.4g} degrees of freedom, p = {self.p_value:.3g}"


@dataclass(frozen=True, eq=False)
class Pooled:
    """What :func:`pool` found; numbers, or arrays where estimates are arrays.

    Attributes
    ----------
    estimate : float or ndarray
        Mean of the estimates.
    within : float or ndarray
        Mean of their variances, the error there would be if nothing were missing.
    between : float or ndarray
        Variance of the estimates between completed tables.
    total : float or ndarray
        Squared standard error, within + (1 + 1/m) between.
    df : float or ndarray
        Degrees of freedom, by Barnard and Rubin where those of the complete data were given.
    low, high : float or ndarray
        Interval of the given level, from Student's t.
    fraction_missing : float or ndarray
        Share of the total variance that is due to the missing cells.
    level : float
        Level of the interval.
    n : int
        Number of completed tables.
    names : tuple of str or None
        Names of the estimates, where they had some.
    covariances : tuple of ndarray or None
        Mean covariance matrix within completed tables and covariance matrix between them, where matrices were pooled.
    complete_df : float or None
        Degrees of freedom of the complete-data analysis, where they were given.
    """

    estimate: Any
    within: Any
    between: Any
    total: Any
    df: Any
    low: Any
    high: Any
    fraction_missing: Any
    level: float
    n: int
    names: tuple[str, ...] | None = None
    covariances: tuple[Array, Array] | None = None
    complete_df: float | None = None

    @property
    def se(self) -> Any:
        """Standard error."""
        return np.sqrt(self.total)

    @property
    def covariance(self) -> Array:
        """Covariance matrix of the estimates, within + (1 + 1/m) between."""
        within, between = self._matrices()
        return within + (1.0 + 1.0 / self.n) * between

    def test(self, null: ArrayLike = 0.0, which: Any = None) -> JointTest:
        """Whether all estimates together are ``null``: D1 of Li, Raghunathan and Rubin.

        Parameters
        ----------
        null : float or array-like, default=0.0
            What the estimates would be.
        which : sequence of str or int, or None, default=None
            Names or places of the estimates to test. None: all.

        Examples
        --------
        >>> import numpy as np
        >>> import nmar
        >>> within = [np.diag([0.04, 0.09])] * 3
        >>> found = nmar.pool([[0.5, 0.1], [0.6, 0.2], [0.4, 0.0]], within)
        >>> found.test().p_value < 0.1 < found.test(which=[1]).p_value
        True
        """
        within, between = self._matrices()
        places = np.array([self._place(one) for one in which] if which is not None else range(len(within)))
        off = np.asarray(self.estimate)[places] - np.broadcast_to(np.asarray(null, np.float64), len(places))
        inner, k, m = within[np.ix_(places, places)], len(places), self.n
        riv = (1.0 + 1.0 / m) * float(np.trace(np.linalg.solve(inner, between[np.ix_(places, places)]))) / k
        statistic = float(off @ np.linalg.solve(inner, off)) / (k * (1.0 + riv))
        df = k, _joint_degrees(k, m, riv, self.complete_df)
        return JointTest(statistic, df, float(fisher.sf(statistic, *df)), riv)

    def _matrices(self) -> tuple[Array, Array]:
        if self.covariances is None:
            raise ValueError("variances had no covariances; pool covariance matrices, one for each completed table")
        return self.covariances

    def _place(self, one: Any) -> int:
        if not isinstance(one, str):
            return int(one)
        if one not in (self.names or ()):
            raise ValueError(
                f"which names {one!r}; the estimates are {list(self.names or range(np.size(self.estimate)))}"
            )
        return list(self.names or ()).index(one)

    def frame(self) -> pandas.DataFrame:
        """A line for each estimate: estimate, se, df, low, high and fraction_missing."""
        columns = ("estimate", "se", "df", "low", "high", "fraction_missing")
        found = as_frame({name: np.ravel(getattr(self, name)) for name in columns}, "frame()")
        return found if self.names is None else found.set_axis(list(self.names))

    def text(self) -> str:
        """One line for each estimate."""
        numbers = zip(*map(np.ravel, (self.estimate, self.se, self.low, self.high, self.fraction_missing)), strict=True)
        names = [f"{name}: " for name in self.names] if self.names else [""] * np.size(self.estimate)
        lines = [
            f"{name}{estimate:.4g} ± {se:.2g}   {self.level:.0%} interval {low:.4g} to {high:.4g}"
            f"   {missing:.0%} of the variance is due to missing cells"
            for name, (estimate, se, low, high, missing) in zip(names, numbers, strict=True)
        ]
        return "\n".join([f"Pooled over {self.n} completed tables", *lines])

    def __str__(self) -> str:
        return self.text()


def pool(
    estimates: ArrayLike | Iterable[Any],
    variances: ArrayLike | Iterable[Any],
    df: float | None = None,
    level: float = 0.95,
) -> Pooled:
    """Pool estimates from completed tables by Rubin's rules.

    Parameters
    ----------
    estimates : array-like or iterable
        Estimate of each completed table: numbers, arrays of one shape, or pandas Series, whose names are kept.
    variances : array-like or iterable
        Squared standard errors of the estimates, as if the table had been complete, or their covariance matrices (for
        :meth:`Pooled.test` and ``covariance``).
    df : float or None, default=None
        Degrees of freedom that the analysis would have with complete data (n − 1 for a mean of n rows); with them
        Barnard and Rubin's small-sample degrees of freedom are used, else Rubin's. Infinite (normal theory) is as None.
    level : float, default=0.95
        Level of the interval.

    Returns
    -------
    Pooled
        Estimate, standard error, interval and share of the variance that is due to missing cells.

    Notes
    -----
    Estimates should be about normal: pool a correlation as ``np.arctanh(r)`` with variance 1/(n − 3), a proportion as
    its log odds, and transform the interval back. The result is as good as the imputations: these take missing values
    to be like observed ones, given everything else (see :meth:`nmar.CCPF.impute`).

    Examples
    --------
    >>> import nmar
    >>> found = nmar.pool([4.9, 5.1, 5.0], [0.04, 0.04, 0.04], df=99)
    >>> round(float(found.estimate), 3), round(float(found.total), 4)
    (5.0, 0.0533)
    """
    listed = list(estimates)  # type: ignore[arg-type]
    names = tuple(map(str, listed[0].index)) if listed and library(listed[0]) == "pandas" else None
    q, u = (np.asarray(each, np.float64) for each in (listed, list(variances)))  # type: ignore[arg-type]
    matrices = u if q.ndim == 2 and u.shape == (*q.shape, q.shape[1]) else None
    u = u if matrices is None else np.diagonal(matrices, axis1=1, axis2=2)
    if q.shape != u.shape:
        raise ValueError(f"estimates has shape {q.shape} and variances {u.shape}; give one variance for each estimate")
    if len(q) < 2:
        raise ValueError(f"estimates holds {len(q)}; at least 2 completed tables are needed to see how they differ")
    if not np.all(np.isfinite(q)):
        raise ValueError(
            f"estimates holds {float(q[~np.isfinite(q)][0])!r}; leave such tables out, and say that you did"
        )
    if not np.all(u >= 0.0):
        wrong = float(u[~(u >= 0.0)][0])
        raise ValueError(f"variances holds {wrong!r}; give squared standard errors, none below 0")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level={level!r}; give a probability between 0 and 1")
    m = len(q)
    estimate, within, between = q.mean(axis=0), u.mean(axis=0), q.var(axis=0, ddof=1)
    extra = (1.0 + 1.0 / m) * between
    total = within + extra
    share = np.divide(extra, total, out=np.zeros_like(extra), where=total > 0.0)
    freedom = _degrees(share, m, df)
    half = student.ppf(0.5 + level / 2.0, freedom) * np.sqrt(total)
    both = None if matrices is None else (matrices.mean(axis=0), np.cov(q, rowvar=False).reshape(matrices.shape[1:]))
    low, high, finite = estimate - half, estimate + half, None if df is None or df == np.inf else float(df)
    return Pooled(estimate, within, between, total, freedom, low, high, share, float(level), m, names, both, finite)


def _joint_degrees(k: int, m: int, riv: float, complete: float | None) -> float:
    """Denominator degrees of freedom of D1: Reiter's with those of the complete data, else those of Li and others."""
    t = k * (m - 1)
    if riv <= 0.0:
        return float("inf") if complete is None else float(complete)
    if complete is not None and t > 4:
        seen = (complete + 1.0) / (complete + 3.0) * complete
        part = riv * t / (t - 2.0)
        one, two = seen - 2.0 * (1.0 + part), seen - 4.0 * (1.0 + part)
        more = part**2 * one / ((1.0 + part) ** 2 * two) + 8.0 * part**2 * one / ((1.0 + part) * two**2)
        more += 4.0 * part**2 / ((1.0 + part) * two) + 4.0 * part**2 / (two * one) + 16.0 * part**2 * one / two**3
        return float(4.0 + 1.0 / (1.0 / two + (more + 8.0 * part**2 / two**2) / (t - 4.0)))
    if t > 4:
        return float(4.0 + (t - 4.0) * (1.0 + (1.0 - 2.0 / t) / riv) ** 2)
    return float(t * (1.0 + 1.0 / k) * (1.0 + 1.0 / riv) ** 2 / 2.0)


def _degrees(share: Array, m: int, df: float | None) -> Array:
    """Rubin's (m − 1)/λ², or with complete-data degrees of freedom Barnard and Rubin's; infinite without missing cells.

    ``share`` is λ, the part of the variance that is due to the missing cells.
    """
    rubin = np.divide(m - 1.0, share**2, out=np.full_like(share, np.inf), where=share > 0.0)
    if df is None or df == np.inf:
        return rubin
    if not df > 0.0:
        raise ValueError(f"df={df!r}; give the degrees of freedom of the complete-data analysis, above 0")
    seen = (df + 1.0) / (df + 3.0) * df * (1.0 - share)
    return 1.0 / (1.0 / rubin + 1.0 / np.maximum(seen, 1e-12))
