"""Posterior predictive checks: is a fitted model's account of held-out values and of the pattern true?

Enters: a fitted model and cells that it has not seen. Leaves: coverage of intervals, probability integrals, the spread
of residuals against P(observed), and activities of rows and columns against replicated patterns, with misfits named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import bdtr, bdtrc, ndtr
from scipy.stats import kstest

from nmar.arrays import Array
from nmar.data.accept import as_cells
from nmar.data.cells import Cells
from nmar.data.outside import as_frame
from nmar.data.split import refuse_overlap
from nmar.evaluate.clustered import LEAST_LINES
from nmar.evaluate.curves import posterior_of
from nmar.evaluate.gains import Judges, share_error
from nmar.evaluate.missingness import residuals_of, spread_trend
from nmar.evaluate.notes import ERROR
from nmar.evaluate.scoring import probability_integral
from nmar.fit.job import hidden_cells
from nmar.fit.problem import seed_sequence
from nmar.fit.simulate import thrown
from nmar.models.arguments import check_count
from nmar.posterior.posterior import Posterior

if TYPE_CHECKING:
    import pandas

__all__ = ["Check", "Finding", "check"]

LEVELS = (0.5, 0.8, 0.9, 0.95)
FEWEST = 10  # held-out cells below which nothing is said of coverage
OFF = 0.02  # coverage this far from its level is a misfit, if its p-value is below 0.05 too
FAR = 0.03  # distance of the probability integrals from uniform that matters
SLOPE = 0.05  # relative change of the residual sd over the range of P(observed) that matters
APART = 0.1  # relative distance from the replicates that matters
RARE = 0.02  # share of replicates as extreme that is a misfit
REPLICATES = 50  # with fewer no p-value is below 2 RARE

# of each part: what can be said where it shows no misfit, and what it is called where it was not checked
CLAIMS = {
    "coverage": ("intervals cover as they promise", "intervals"),
    "probability integral": ("values lie where they are predicted", "values"),
    "spread": ("residuals spread as expected whatever P(observed)", "spread of residuals"),
    "rows": ("replicated patterns look like the observed one", "rows and columns of the pattern"),
}


ABOUT_ERRORS = f"{ERROR}.\nOf rows and columns: the standard deviation of the replicates."


@dataclass(frozen=True)
class Finding:
    """One line of a check."""

    part: str  # part of the check
    quantity: str  # what was measured
    expected: float  # value under the model, and in the data
    found: float
    # Standard error of what was found (of coverage: at least that under the model), or standard deviation of the
    # replicates
    error: float
    p_value: float  # two-sided p-value; NaN where there is none
    misfit: str = ""  # What is wrong, in words. Empty where nothing is.


@dataclass(frozen=True, eq=False)
class Check:
    """Result of :func:`check`.

    Attributes
    ----------
    findings : tuple of Finding
        One for each quantity.
    probability_integrals : ndarray
        P(Y ≤ y) of each held-out cell, uniform if the model is right.
    """

    findings: tuple[Finding, ...]
    probability_integrals: Array

    @property
    def misfits(self) -> tuple[str, ...]:
        """What is wrong, in words."""
        return tuple(one.misfit for one in self.findings if one.misfit)

    @property
    def verdict(self) -> str:
        """What is wrong, or what was found to be right; and what was not checked."""
        checked = {one.part for one in self.findings}
        says = "No misfit found: " + _listed([claim for part, (claim, _) in CLAIMS.items() if part in checked]) + "."
        if self.misfits:
            says = "Misfit: " + "; ".join(self.misfits) + "."
        left = [name for part, (_, name) in CLAIMS.items() if part not in checked]
        return f"{says} Not checked: {', '.join(left)}." if left else says

    def frame(self) -> pandas.DataFrame:
        """One line for each quantity."""
        names = tuple(Finding.__dataclass_fields__)
        return as_frame([{name: getattr(one, name) for name in names} for one in self.findings], "frame()")

    def text(self) -> str:
        """The findings and the verdict."""
        lines = [f"{'':38}{'expected':>10}{'found':>10}{'± se':>9}{'p':>8}"]
        for one in self.findings:
            p = "" if np.isnan(one.p_value) else f"{one.p_value:.2g}"
            mark = "  *" if one.misfit else ""
            name = f"{one.part}: {one.quantity}"
            lines.append(f"{name:38}{one.expected:10.4g}{one.found:10.4g}{one.error:9.2g}{p:>8}{mark}")
        return "\n".join([*lines, ABOUT_ERRORS, "", self.verdict])

    def __str__(self) -> str:
        return self.text()


def check(model: Any, cells: Any, train: Any = None, *, replicates: int = 100, random_state: Any = 0) -> Check:
    """Posterior predictive checks of a fitted model.

    Parameters
    ----------
    model : CCPF
        Fitted model, or its ``posterior_``.
    cells : Cells or array-like
        Cells that the model was not fitted to, and that were hidden from it (``fit(train, hidden=cells)``). Training
        cells among them are refused.
    train : Cells, array-like or None, default=None
        Training cells. None: those that the model holds. Without any, rows and columns are not checked.
    replicates : int, default=100
        Number of patterns that are drawn from the posterior, at least 50, because fewer cannot show a misfit.
    random_state : int, Generator or None, default=0
        Seed of the random draws.

    Returns
    -------
    Check
        The findings, with ``verdict``, ``misfits``, ``frame()`` and ``text()``.

    Notes
    -----
    *Coverage* of central intervals of 50, 80, 90 and 95 %, where there are 10 cells at least: an exact binomial test,
    and one with standard errors that allow for rows and columns whose errors go together, the larger p-value of both.
    *Probability integral*: Kolmogorov's distance from uniform. *Spread*: how the standardised residual changes from the
    least to the most likely observed cells, by the regression of :func:`nmar.missingness_test`; after a fit that models
    it there should be no trend. *Rows*, *columns*: the mean and standard deviation of the number of observed cells of a
    line, the share of lines without any, and the largest, in patterns that are drawn anew (Gopalan, Hofman and Blei's
    check).

    Examples
    --------
    >>> import nmar
    >>> cells, _ = nmar.simulate(shape=(80, 40), data=nmar.Effects("both"), linkage="ignorable", density=0.4, seed=0)
    >>> train, _, test = cells.split(seed=0)
    >>> model = nmar.CCPF(nmar.Effects("both"), "ignorable", factors=2, random_state=0).fit(train, hidden=test)
    >>> found = nmar.check(model, test)
    >>> [one.quantity for one in found.findings[:2]]
    ['50 % intervals', '80 % intervals']
    """
    check_count("replicates", replicates, REPLICATES)
    known, held_out = posterior_of(model), as_cells(cells)
    if not len(held_out):
        raise ValueError("cells is empty: give cells that the model was not fitted to")
    seen = getattr(model, "training_cells_", None) if train is None else as_cells(train, "train")
    if seen is not None:
        refuse_overlap("cells", held_out, "the training cells", seen)
    elif not known.law.data.has_values:
        raise ValueError("nothing to check: the model says nothing of values and holds no training cells; give train=")
    findings: list[Finding] = []
    integrals = np.empty(0)
    if known.law.data.has_values:
        integrals = probability_integral(known, held_out, random_state)
        if len(held_out) >= FEWEST:
            judges = Judges.of([held_out])
            findings += [coverage_finding(integrals, judges, level) for level in LEVELS]
        findings += [_uniform(integrals), *_spread(known, held_out)]
    if seen is not None:
        # what the fit was stopped on, and what was hidden from it, is no more missing than the cells given here
        away = (held_out, *getattr(model, "hidden_cells_", ()))
        findings += _marginals(known, seen, away, replicates, random_state)
    return Check(tuple(findings), integrals)


def _listed(parts: list[str]) -> str:
    """Several clauses as one: a, b and c."""
    return ", ".join(parts[:-1]) + (" and " if parts[1:] else "") + parts[-1]


def coverage_finding(integrals: Array, judges: Judges, level: float) -> Finding:
    """Share of cells inside their intervals, and its p-value.

    The p-value is the larger of that of independent cells and that of the standard error over cells, rows and columns.
    """
    inside = np.abs(integrals - 0.5) <= 0.5 * level
    found, n = float(inside.mean()), len(inside)
    error = share_error(judges, inside, level)
    off, hits = found - level, float(inside.sum())
    exact = min(1.0, 2.0 * min(float(bdtr(hits, n, level)), float(bdtrc(hits - 1.0, n, level))))
    p = max(exact, 2.0 * float(ndtr(-abs(off) / error)))
    misfit = ""
    if abs(off) > OFF and p < 0.05:
        misfit = f"{level:.0%} intervals cover {found:.1%}, they are too {'wide' if off > 0 else 'narrow'}"
    return Finding("coverage", f"{100 * level:.0f} % intervals", level, found, error, p, misfit)


def _uniform(integrals: Array) -> Finding:
    test = kstest(integrals, "uniform")
    expected = 0.87 / np.sqrt(len(integrals))  # mean of Kolmogorov's distance
    misfit = ""
    if test.statistic > FAR and test.pvalue < 0.01:
        shift = float(integrals.mean()) - 0.5
        side = "higher" if shift > 0 else "lower"
        shape = f"values are {side} than predicted" if abs(shift) > FAR / 2 else "predictions have the wrong shape"
        misfit = f"{shape} (probability integrals {test.statistic:.2f} from uniform)"
    distance = float(test.statistic)
    return Finding("probability integral", "distance", expected, distance, np.nan, float(test.pvalue), misfit)


def _spread(known: Posterior, cells: Cells) -> list[Finding]:
    """The trend of standardised residuals with P(observed), where there are lines enough to test it."""
    of = residuals_of(known, cells)
    if min(len(np.unique(of.row)), len(np.unique(of.col))) < LEAST_LINES or np.ptp(of.rate) == 0.0:
        return []
    trend, mean = spread_trend(of, 1)
    slope, error = float(trend.coefficient[0]) / mean, float(trend.error[0]) / mean
    misfit = ""
    if trend.p_value < 0.01 and abs(slope) > SLOPE:
        way = "falls" if slope < 0 else "rises"
        misfit = f"the spread of residuals {way} with P(observed) by {abs(slope):.0%} beyond what the model expects"
    return [Finding("spread", "trend with P(observed)", 0.0, slope, error, trend.p_value, misfit)]


def _marginals(
    known: Posterior, seen: Cells, held_out: tuple[Cells, ...], replicates: int, random_state: Any
) -> list[Finding]:
    """Numbers of observed cells of rows and columns in replicated patterns."""
    seen = seen.align(known.rows, known.cols, unknown="drop")
    hidden = hidden_cells(seen, *held_out)
    away = np.empty(0, np.int64) if hidden is None else np.ravel_multi_index(hidden.positions(), seen.shape)
    rng = np.random.default_rng(seed_sequence(random_state))
    drawn = np.array([_degree_statistics(*_replicate(known, away, rng), seen.shape) for _ in range(replicates)])
    exact = np.array(_degree_statistics(*seen.positions(), seen.shape))
    findings = []
    for axis, part in enumerate(("rows", "columns")):
        for k, name in enumerate(STATISTICS):
            findings.append(_against(part, name, float(exact[axis, k]), drawn[:, axis, k]))
    return findings


STATISTICS = ("mean of observed cells", "sd of observed cells", "share of empty lines", "largest")


def _replicate(known: Posterior, away: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Observed cells of a pattern drawn from the posterior, hidden ones left out."""
    laws = (known.law.pattern_of(known.state.shared, axis) for axis in (0, 1))
    u, v = (law.drawn(side.pattern, rng).weights.mean for law, side in zip(laws, known.state.sides, strict=True))
    i, j, _ = thrown(u, v, rng)
    kept = ~np.isin(i.astype(np.int64) * len(v) + j, away)
    return i[kept], j[kept]


def _degree_statistics(i: Array, j: Array, shape: tuple[int, int]) -> list[list[float]]:
    """Of rows and of columns: mean and standard deviation of the degrees, share of empty lines, largest."""
    found = []
    for index, n in zip((i, j), shape, strict=True):
        degree = np.bincount(index, minlength=n)
        found.append([degree.mean(), degree.std(), np.mean(degree == 0), float(degree.max())])
    return found


def _against(part: str, name: str, exact: float, drawn: Array) -> Finding:
    """What was found among the replicates."""
    center, sd = float(drawn.mean()), float(drawn.std())
    low, high = (np.sum(drawn <= exact) + 1.0) / (len(drawn) + 1.0), (np.sum(drawn >= exact) + 1.0) / (len(drawn) + 1.0)
    p = float(min(1.0, 2.0 * min(low, high)))
    misfit = ""
    apart = abs(exact - center) > APART * max(abs(center), 1e-12) and abs(exact - center) > 1e-3
    if p < 2.0 * RARE and apart:
        more = "larger" if exact > center else "smaller"
        misfit = f"{part}: the {name} is {more} than in replicated patterns ({exact:.3g}, not {center:.3g})"
    return Finding(part, name, center, exact, sd, p, misfit)
