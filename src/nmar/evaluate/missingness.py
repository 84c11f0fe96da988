"""Does the spread of the values depend on how likely they were to be observed? (the paper's figure 1a)

Enters: cells. Leaves: a test of cross-fitted residuals against P(observed), which allows for rows and columns that
differ in noise, and the residual variance in bins of P(observed).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from nmar.arrays import Array
from nmar.data.accept import as_cells
from nmar.data.cells import Cells
from nmar.data.seeds import check_seed
from nmar.data.split import EntryKFold
from nmar.evaluate.clustered import Regression, clustered_regression
from nmar.evaluate.compare import compare
from nmar.evaluate.dispersion import Dispersion, double_glm
from nmar.evaluate.gains import Judges
from nmar.evaluate.paired import PairedTest
from nmar.evaluate.parts import refuse_complete, refuse_weights
from nmar.fit.options import Options
from nmar.fit.problem import whole_seed
from nmar.fit.progress import progress
from nmar.fit.train import train
from nmar.models.arguments import check_count
from nmar.models.settings import Factorization
from nmar.posterior.places import cell_places
from nmar.posterior.posterior import Posterior, mean_and_variance
from nmar.prob.counts import chance

__all__ = ["Bin", "MissingnessTest", "missingness_test"]

TESTED = 3  # folds that are held out and tested, see docs/experiments/missingness_test.md
LEAST_CELLS = 20


@dataclass(frozen=True)
class Bin:
    """Held-out cells that were about equally likely to be observed."""

    quantile: float  # middle of the bin among the quantiles of P(observed)
    observed_probability: float  # mean P(observed)
    residual_variance: float  # mean squared residual (y − E[y])²
    expected_variance: float  # mean predictive variance of the ignorable model
    cells: int
    low: float  # interval of 95 % of the residual variance, cells taken as independent
    high: float
    standardised: float  # mean squared residual over its predictive variance: 1 if the model is right
    standardised_low: float
    standardised_high: float

    def __str__(self) -> str:
        found, expected = self.residual_variance, self.expected_variance
        return f"P(observed) {self.observed_probability:.4f}, variance {found:.4g} (expected {expected:.4g})"


@dataclass(frozen=True)
class MissingnessTest:
    """Result of :func:`missingness_test`.

    Attributes
    ----------
    statistic : float
        F of the trend: the weaker of the regressions of absolute and of squared residuals, and 0 where their trends
        have opposite signs.
    df, df_error : int
        Degrees of freedom of the numerator and of the denominator.
    p_value : float
        P-value of the trend. Rows and columns may differ in noise; where they are observed unequally often too, 7.2 %
        were rejected at 5 % (docs/experiments/missingness_test.md).
    slope, slope_se : float
        Change of the absolute residual, in units of the expected standard deviation, from the least to the most likely
        observed cells, relative to its mean; and its standard error.
    dispersion : Dispersion
        Double generalized linear model of the residuals over their predictive standard deviation: slopes of the mean
        and of the log variance on the quantile of P(observed); its ``ratio`` is the effect size.
    raw_dispersion : Dispersion
        The same of the residuals as they are. Rows with few cells are observed less and predicted worse, so this falls
        where nothing is wrong.
    bins : tuple of Bin
        Residual variance in equal-sized bins of P(observed).
    n_test : int
        Cells tested, each held out once.
    folds : int
        Fits that they were held out from, one for each fold that was tested.
    paired : PairedTest or None
        The best model of the missingness against its best control on held-out cells, if asked for (``paired=True``).
    """

    statistic: float
    df: int
    df_error: int
    p_value: float
    slope: float
    slope_se: float
    dispersion: Dispersion
    raw_dispersion: Dispersion
    bins: tuple[Bin, ...]
    n_test: int
    folds: int
    paired: PairedTest | None = None

    def text(self) -> str:
        """The result in words."""
        says = "No evidence that the residual variance depends on P(observed), beyond what is expected."
        if self.p_value < 0.05:
            says = f"The residual variance {self._trend()} P(observed), relative to what is expected."
        lines = [
            f"Residual variance against P(observed), {self.n_test:,} cells in {self.folds} folds",
            "",
            f"  F({self.df}, {self.df_error}) = {self.statistic:.2f}   p = {self.p_value:.3g}",
            f"  residual sd, least to most likely observed  {self.slope:+.1%} ± {self.slope_se:.1%}",
            f"  residual variance, likewise  {self.dispersion.text()}; as it is, {self.raw_dispersion.text()}",
            f"  lowest bin   {self.bins[0]}",
            f"  highest bin  {self.bins[-1]}",
            "",
            says,
            self.sentence(),
            "Expected: by the ignorable model, its own uncertainty included. Rows and columns may differ in noise.",
            "This is an association of the spread with the chance of being observed; it is no proof of a cause, and",
            "says nothing about the mean of the missing values. What modelling it is worth: nmar.compare().",
        ]
        if self.paired is not None:
            lines += ["", self.paired.text()]
        return "\n".join(lines)

    def _trend(self) -> str:
        """Which way the variance goes, where residuals and their squares go the same way and bends are not tested."""
        agree = (self.slope < 0.0) == (self.dispersion.ratio < 1.0)
        return f"{self._way()} with" if agree and self.df == 1 else "depends on"

    def _way(self) -> str:
        return "falls" if self.dispersion.ratio < 1.0 else "rises"

    def sentence(self) -> str:
        """The effect size in plain words."""
        low, high = self.dispersion.ratio_interval()
        sure = "" if high < 1.0 or low > 1.0 else ", an interval that holds 1: no change"
        return (
            "From the least to the most likely observed cells the variance, relative to what is expected,"
            f" {self._way()} to {self.dispersion.text()}{sure}."
        )

    def __str__(self) -> str:
        return self.text()


def missingness_test(
    cells: Any,
    random_state: Any = 0,
    bins: int = 100,
    factors: int = 10,
    rank: int = 10,
    *,
    degree: int = 1,
    folds: int = 5,
    tested: int | None = None,
    paired: bool = False,
    valid: float = 0.01,
    max_iter: int = 200,
    n_jobs: int | None = None,
    backend: str = "auto",
    verbose: int = 0,
) -> MissingnessTest:
    """Test whether the residual variance is linked to the probability of being observed.

    The cells are dealt into folds. For each of those that are tested an ignorable Gaussian factorization and, apart
    from it, the missingness pattern are fitted to the other folds, with the cells of this one hidden, so that its cells
    have a residual and a P(observed) from a fit that has not seen them. Absolute residuals, divided by the model's own
    predictive standard deviation, are then regressed on the rank of P(observed), and so are their squares; both have to
    show a trend, and the same one, because one of them alone may show a change of the residuals' shape. The variance of
    the slope allows for any dependence within rows and within columns (:mod:`nmar.evaluate.clustered`), which is also
    what cells of different folds have in common. Beside it stands the double generalized linear model of the paper, for
    an effect size (:mod:`nmar.evaluate.dispersion`).

    Parameters
    ----------
    cells : Cells or array-like
        Cells, a sparse matrix, or a dense array with NaN where a cell is missing.
    random_state : int, Generator or None, default=0
        Seed of the folds and of the fits; one number is drawn for all of them from None or a generator.
    bins : int, default=100
        Number of bins of P(observed) in the report; fewer if they would hold less than 10 cells.
    factors, rank : int, default=10
        Number of components of the pattern, and of the values.
    degree : int, default=1
        Degree of the polynomial: 1 tests a trend (one degree of freedom), 2 a trend and a bend.
    folds : int, default=5
        Number of folds, at least 2.
    tested : int or None, default=None
        Number of folds that are held out and tested, each with a fit of its own. None: three, or all if there are
        fewer. More detect weaker links, and also small errors of the variances that the model expects.
    paired : bool, default=False
        Whether to fit also models of the missingness and their controls, to as many splits, and to test the best model
        against the best control on held-out cells (:func:`nmar.compare`). This measures what a model of the
        missingness is worth. It is slow, and has little power on small tables.
    valid : float, default=0.01
        Share of the cells on which a fit is stopped. With 0 a fit runs until its bound settles.
    max_iter : int, default=200
        As in :class:`nmar.CCPF`.
    n_jobs : int or None, default=None
        As in :class:`nmar.CCPF`.
    backend : str, default="auto"
        As in :class:`nmar.CCPF`.
    verbose : int, default=0
        As in :class:`nmar.CCPF`.

    Returns
    -------
    MissingnessTest
        The test and its effect size, with ``text()``.

    Raises
    ------
    ValueError
        if the values are all equal or no cell is missing, or if the cells are fewer than 20 or lie in fewer than 5
        rows or columns: the p-value is always a number.

    Notes
    -----
    A small p-value shows an *association* between the spread of the observed values and the chance of being
    observed. It does not show that one causes the other, it is blind to a link of the mean, and it speaks of
    observed cells only. On a bounded scale a link of the mean shows as one of the spread, because values near
    an end of the scale spread less. Sizes and powers: docs/experiments/missingness_test.md.

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
    check_count("bins", bins, 2)
    check_count("folds", folds, 2)
    check_seed("random_state", random_state)
    seed = whole_seed(random_state)
    tested = min(TESTED, folds) if tested is None else tested
    cells = _testable(as_cells(cells), folds, tested, valid)
    refuse_weights(cells)
    options = Options(
        data=Factorization(rank),
        linkage="ignorable",
        noise="constant",  # what noise by row and column would take up is part of what is tested for
        factors=factors,
        n_jobs=n_jobs,
        backend=backend,
        random_state=seed,
        max_iter=max_iter,
    )
    parts = []
    for k, (kept, stopping, held_out) in enumerate(islice(folded(cells, folds, valid, seed), tested), 1):
        with progress(verbose, max_iter, f"fit {k} of {tested}") as watch:
            fitted = train(kept, options, valid=stopping if len(stopping) else None, hidden=held_out, watch=watch)
        parts.append(residuals_of(fitted.posterior, held_out))
    residuals = Residuals(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    trend, mean = spread_trend(residuals, degree)
    weaker = weaker_trend(residuals, degree)
    return MissingnessTest(
        weaker.statistic,
        weaker.df,
        weaker.df_error,
        weaker.p_value,
        slope=float(trend.coefficient[0]) / mean,
        slope_se=float(trend.error[0]) / mean,
        dispersion=_dispersion(residuals, residuals.residual / np.sqrt(residuals.variance)),
        raw_dispersion=_dispersion(residuals, residuals.residual),
        bins=_bins(residuals, bins),
        n_test=len(residuals.rate),
        folds=tested,
        paired=against_controls(cells, options, tested, seed, verbose) if paired else None,
    )


def against_controls(cells: Cells, options: Options, splits: int, seed: int, verbose: int) -> PairedTest:
    """Models of the missingness and their controls, fitted with the settings of the test and compared."""
    common: dict[str, Any] = {"factors": options.factors, "n_jobs": options.n_jobs, "backend": options.backend}
    common |= {"max_iter": options.max_iter, "verbose": verbose}
    return compare(cells, options.data, seeds=splits, seed=seed, **common).paired_test()


def folded(cells: Cells, folds: int, valid: float, seed: int) -> Iterator[tuple[Cells, Cells, Cells]]:
    """Training, validation and held-out cells of each fold; every cell is held out once."""
    for k, (others, held_out) in enumerate(EntryKFold(folds, random_state=seed).split(cells)):
        order = np.random.default_rng([seed, k]).permutation(others)
        stopping, kept = np.split(order, [round(valid * len(cells))])
        yield cells[kept], cells[stopping], cells[held_out]


def _testable(cells: Cells, folds: int, tested: int, valid: float) -> Cells:
    """The cells, if they vary, some are missing and there are enough of them."""
    check_count("tested", tested, 1)
    if tested > folds:
        raise ValueError(f"tested={tested!r}; give a whole number from 1 to folds={folds}")
    if not 0.0 <= valid < 1.0 - 1.0 / folds:
        raise ValueError(f"valid={valid!r} with folds={folds} leaves nothing to train on; lower it, 0 at least")
    if len(cells) < max(LEAST_CELLS, folds):
        raise ValueError(f"{len(cells)} cells are too few for a test; at least {max(LEAST_CELLS, folds)} are needed")
    if len(cells) and np.ptp(cells.values) == 0.0:
        raise ValueError(f"all {len(cells):,} values are {cells.values[0]:g}; without spread there is nothing to test")
    refuse_complete(cells, "test")
    return cells


class Residuals(NamedTuple):
    """What a posterior says about cells that it has not seen."""

    row: Array
    col: Array
    rate: Array  # E[Λ]; P(observed) = 1 − exp(−Λ)
    residual: Array  # y − E[y]
    variance: Array  # predictive variance

    @property
    def squared(self) -> Array:
        """(y − E[y])²."""
        return self.residual**2

    @property
    def place(self) -> Array:
        """Quantile of P(observed) less a half; the rate ranks as P(observed) does, without its ties near 1."""
        return rankdata(self.rate) / len(self.rate) - 0.5


def residuals_of(posterior: Posterior, cells: Cells) -> Residuals:
    at = cell_places(posterior, cells)
    mean, variance = mean_and_variance(*at)
    residual = np.asarray(cells.values, np.float64) - mean
    return Residuals(at.row, at.col, at.posterior.rates(at.row, at.col), residual, variance)


def spread_trend(of: Residuals, degree: int, power: int = 1) -> tuple[Regression, float]:
    """Regression of (|y − E y| / sd(y))^power on powers of the rank of P(observed), and the mean of the former."""
    place = of.place
    spread = np.sqrt(of.squared / of.variance) ** power
    terms = np.stack([place**k for k in range(1, degree + 1)], axis=1)
    return clustered_regression(spread, terms, of.row, of.col), float(spread.mean())


def weaker_trend(of: Residuals, degree: int) -> Regression:
    """The weaker of the trends of absolute and of squared residuals: a change of their shape moves only one of them.

    Where one rises and the other falls their shape changes, and the spread has no trend: a statistic of 0.
    """
    size, square = (spread_trend(of, degree, power)[0] for power in (1, 2))
    weaker = min((size, square), key=lambda one: one.statistic)
    if degree == 1 and float(size.coefficient[0]) * float(square.coefficient[0]) < 0.0:
        return weaker._replace(statistic=0.0, p_value=1.0)
    return weaker


def _dispersion(of: Residuals, residual: Array) -> Dispersion:
    return double_glm(residual, of.place, of.row, of.col)


def residual_bins(posterior: Posterior, cells: Cells, count: int = 100) -> tuple[Bin, ...]:
    """Residual and expected variance of held-out cells in bins of P(observed), of 10 cells at least."""
    return _bins(residuals_of(posterior, cells), count)


def _bins(of: Residuals, count: int) -> tuple[Bin, ...]:
    count = min(count, max(2, len(of.rate) // 10))
    parts = np.array_split(np.argsort(of.rate, kind="stable"), count)
    squared = of.squared
    judges = [Judges.at(of.row[p], of.col[p]) for p in parts]
    return tuple(
        _bin((k + 0.5) / count, of.rate[p], squared[p], of.variance[p], one)
        for k, (p, one) in enumerate(zip(parts, judges, strict=True))
    )


def _bin(quantile: float, rate: Array, squared: Array, variance: Array, judges: Judges) -> Bin:
    raw, relative = _with_interval(squared, judges), _with_interval(squared / variance, judges)
    observed, expected = float(chance(rate).mean()), float(variance.mean())
    return Bin(quantile, observed, raw[0], expected, len(rate), *raw[1:], *relative)


def _with_interval(squares: Array, judges: Judges) -> tuple[float, float, float]:
    """A mean of squares and its interval of 95 %, by the logarithm; rows and columns may differ."""
    mean = float(squares.mean())
    reach = 1.96 * judges.error(squares) / mean if mean > 0.0 and len(squares) > 1 else 0.0
    return mean, mean * float(np.exp(-reach)), mean * float(np.exp(reach))
