"""Rubin's rules: one answer from several completed tables, with an error that knows they were imputed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from nmar.arrays import Array

__all__ = ["Pooled", "pool"]


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

    @property
    def se(self) -> Any:
        """Standard error."""
        return np.sqrt(self.total)

    def text(self) -> str:
        """One line for each estimate."""
        numbers = zip(*map(np.ravel, (self.estimate, self.se, self.low, self.high, self.fraction_missing)), strict=True)
        lines = [
            f"{estimate:.4g} ± {se:.2g}   {self.level:.0%} interval {low:.4g} to {high:.4g}"
            f"   {missing:.0%} of the variance is due to missing cells"
            for estimate, se, low, high, missing in numbers
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
        Estimate of each completed table: numbers, or arrays of one shape.
    variances : array-like or iterable
        Squared standard errors of the estimates, as if the table had been complete.
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
    q, u = (np.asarray(list(each), np.float64) for each in (estimates, variances))  # type: ignore[arg-type]
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
    return Pooled(estimate, within, between, total, freedom, estimate - half, estimate + half, share, float(level), m)


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
