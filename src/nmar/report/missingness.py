"""Does the spread of the values depend on how likely they were to be observed? (the paper's figure 1a)

Enters: cells. Leaves: a score test of held-out squared residuals against P(observed), and the residual
variance in bins of P(observed).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, rankdata

from nmar.data.cells import Cells
from nmar.data.split import split as split_cells
from nmar.fit.options import Options
from nmar.fit.stop import StopRule
from nmar.fit.train import train
from nmar.models.settings import Factorization
from nmar.posterior.posterior import Posterior, mean_and_variance
from nmar.report.progress import progress
from nmar.report.scoring import as_cells, locate

__all__ = ["Bin", "MissingnessTest", "missingness_test"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Bin:
    """Held-out cells that were about equally likely to be observed."""

    quantile: float  # middle of the bin among the quantiles of P(observed)
    observed_probability: float  # mean P(observed)
    residual_variance: float  # mean squared residual (y − E[y])²
    expected_variance: float  # mean predictive variance of the ignorable model
    cells: int

    def __str__(self) -> str:
        found, expected = self.residual_variance, self.expected_variance
        return f"P(observed) {self.observed_probability:.4f}, variance {found:.4g} (expected {expected:.4g})"


@dataclass(frozen=True)
class MissingnessTest:
    """Result of :func:`missingness_test`.

    Attributes
    ----------
    statistic, df, p_value : score test with cells taken as independent (chi-squared)
    clustered_statistic, clustered_p_value : the same with a variance that allows for dependence within rows
        and within columns; the more cautious of the two
    slope : change of the ratio of residual to expected variance from the least to the most likely observed
        cells, relative to its mean
    bins : residual variance in equal-sized bins of P(observed)
    n_train, n_test : cells used
    """

    statistic: float
    df: int
    p_value: float
    clustered_statistic: float
    clustered_p_value: float
    slope: float
    bins: tuple[Bin, ...]
    n_train: int
    n_test: int

    def text(self) -> str:
        """The result in words."""
        found, chi = self.clustered_p_value < 0.05, f"chi2({self.df})"
        cautious = self.clustered_statistic
        trend = "falls" if self.slope < 0 else "rises"
        says = "No evidence that the residual variance depends on P(observed), beyond what is expected."
        if found:
            says = f"The residual variance {trend} with P(observed), relative to what is expected."
        lines = [
            f"Residual variance against P(observed), {self.n_test:,} held-out cells",
            "",
            f"  cells independent        {chi} = {self.statistic:8.2f}   p = {self.p_value:.3g}",
            f"  rows, columns clustered  {chi} = {cautious:8.2f}   p = {self.clustered_p_value:.3g}",
            f"  lowest bin               {self.bins[0]}",
            f"  highest bin              {self.bins[-1]}",
            "",
            says,
            "Expected: by the ignorable model, its own uncertainty included. This is an association of the",
            "spread with the chance of being observed; it is no proof of a cause, and says nothing about the",
            "mean of the missing values. What modelling it is worth: nmar.compare().",
        ]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()


def missingness_test(
    cells: Any,
    random_state: int = 0,
    bins: int = 100,
    factors: int = 10,
    rank: int = 10,
    *,
    degree: int = 1,
    test: float = 0.2,
    valid: float = 0.01,
    max_iter: int = 200,
    n_jobs: int | None = None,
    backend: str = "auto",
    verbose: int = 0,
) -> MissingnessTest:
    """Test whether the residual variance is linked to the probability of being observed.

    An ignorable Gaussian factorization and, apart from it, the missingness pattern are fitted to a training
    split. Squared residuals of held-out cells, divided by the model's own predictive variance, are then
    regressed on the rank of P(observed): Koenker's studentised version of the Breusch–Pagan score test. The
    logarithm of the predictive variance is partialled out, so that lines with few cells, whose means are less
    well known, do not count as heteroscedastic.

    Parameters
    ----------
    cells : Cells, scipy sparse matrix, or dense array with NaN where missing
    random_state : seed of the split and of the fit
    bins : bins of P(observed) to report; fewer if they would hold less than 10 cells
    factors, rank : components of the pattern, and of the values
    degree : 1 tests a trend (one degree of freedom), 2 a trend and a bend
    test, valid : shares held out to test on and to stop on
    max_iter, n_jobs, backend, verbose : as in :class:`nmar.CCPF`

    Returns
    -------
    MissingnessTest

    Notes
    -----
    A small p-value shows an *association* between the spread of the observed values and the chance of being
    observed. It does not show that one causes the other, it is blind to a link of the mean, and it speaks of
    observed cells only. The first p-value takes cells as independent given the fit; rows and columns that are
    noisy on their own account break that, so a clustered one is given beside it.

    Examples
    --------
    >>> import nmar
    >>> cells, truth = nmar.simulate(shape=(80, 60), data=nmar.Factorization(2), density=0.3, seed=0)
    >>> result = nmar.missingness_test(cells, factors=2, rank=2, max_iter=10)
    >>> 0.0 <= result.p_value <= 1.0
    True
    """
    if degree not in (1, 2):
        raise ValueError(f"degree={degree!r}; use 1 (trend) or 2 (trend and bend)")
    if bins < 2:
        raise ValueError(f"bins={bins!r}; give at least 2")
    kept, stopping, held_out = split_cells(as_cells(cells), test, valid, random_state)
    options = Options(
        data=Factorization(rank),
        linkage="ignorable",
        factors=factors,
        n_jobs=n_jobs,
        backend=backend,
        seed=random_state,
        stop=StopRule(max_iter),
    )
    with progress(verbose, max_iter, "ignorable") as watch:
        fitted = train(kept, options, valid=stopping if len(stopping) else None, hidden=held_out, watch=watch)
    return residual_test(fitted.posterior, held_out, bins, degree, len(kept))


def residual_test(
    posterior: Posterior, cells: Cells, bins: int = 100, degree: int = 1, n_train: int = 0
) -> MissingnessTest:
    """The test itself, for an ignorable posterior and cells it has not seen."""
    if posterior.state.shared.linkage.name != "ignorable":
        raise ValueError("the test needs residuals of an ignorable fit; this posterior is coupled already")
    if len(cells) < 20:
        raise ValueError(f"{len(cells)} held-out cells are too few for a test; at least 20 are needed")
    at = locate(posterior, cells)
    mean, variance = mean_and_variance(*at)
    squared = (np.asarray(cells.values, np.float64) - mean) ** 2
    probability = -np.expm1(-at.posterior.rates(at.row, at.col))
    place = rankdata(probability) / len(cells) - 0.5
    terms = np.stack([place**k for k in range(1, degree + 1)], axis=1)
    nuisance = np.stack([np.ones(len(cells)), np.log(variance)], axis=1)
    found = score_test(squared / variance, terms, nuisance, (at.row, at.col))
    return MissingnessTest(
        *found,
        bins=_bins(probability, squared, variance, min(bins, max(2, len(cells) // 10))),
        n_train=n_train,
        n_test=len(cells),
    )


def score_test(
    ratio: Array, terms: Array, nuisance: Array, groups: tuple[Array, ...]
) -> tuple[float, int, float, float, float, float]:
    """Studentised score test of ``terms`` in a regression of ``ratio``, given ``nuisance``.

    Returns statistic, degrees of freedom, p-value; statistic and p-value with clustered variance; and the
    slope of the first term relative to the mean.
    """
    residual = ratio - nuisance @ np.linalg.lstsq(nuisance, ratio, rcond=None)[0]
    terms = terms - nuisance @ np.linalg.lstsq(nuisance, terms, rcond=None)[0]
    score, scale = terms.T @ residual, float(np.mean(residual**2))
    gram, df = terms.T @ terms, terms.shape[1]
    plain = float(score @ np.linalg.solve(gram * scale, score))
    cautious = plain
    for group in groups:
        sums = np.stack([np.bincount(group - group.min(), weights=t * residual) for t in terms.T], axis=1)
        cautious = min(cautious, float(score @ np.linalg.lstsq(sums.T @ sums, score, rcond=None)[0]))
    slope = float(np.linalg.lstsq(terms, residual, rcond=None)[0][0] / ratio.mean())
    return plain, df, float(chi2.sf(plain, df)), cautious, float(chi2.sf(cautious, df)), slope


def _bins(probability: Array, squared: Array, variance: Array, count: int) -> tuple[Bin, ...]:
    parts = np.array_split(np.argsort(probability, kind="stable"), count)
    return tuple(
        Bin(
            (k + 0.5) / count,
            float(probability[part].mean()),
            float(squared[part].mean()),
            float(variance[part].mean()),
            len(part),
        )
        for k, part in enumerate(parts)
    )
