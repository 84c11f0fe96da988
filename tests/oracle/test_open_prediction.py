"""Prediction where every count has a bin of its own: sums run until the rule of theory.md, Count posterior, is met."""

from decimal import Decimal, localcontext
from math import factorial

import numpy as np
import pytest
from problems import sampled
from scipy.special import logsumexp

import nmar
from nmar.models.conjugate import conjugate
from nmar.models.missingness import Pattern
from nmar.models.predictive import BinTable
from nmar.posterior import mixing
from nmar.posterior.posterior import log_density, mean_and_variance
from nmar.prob import counts

LONG = 40_000  # counts of the direct sum
OPEN = {
    "compound": nmar.Compound(),
    "exponential+": nmar.Exponential(0.4),
    "exponential-": nmar.Exponential(-0.2),
    "geometric+": nmar.Geometric(0.3),
    "geometric-": nmar.Geometric(-0.4),
    "compound-thin3": nmar.Compound(thinning=3.0),
    "geometric-thin3": nmar.Geometric(0.2, thinning=3.0),
}
SHIFTED = {
    "linear-shift": nmar.Linear(0.3, mean="shift", levels=3, shift=(0.0, 0.5, -0.3)),
    "compound-scale": nmar.Compound(mean="scale"),
}
FAMILIES = {
    "poisson": nmar.Constant("poisson"),
    "binomial": nmar.Constant("binomial", trials=3),
    "negative_binomial": nmar.Constant("negative_binomial"),
    "gamma": nmar.Constant("gamma"),
    "inverse_gaussian": nmar.Constant("inverse_gaussian"),
    "gaussian": nmar.Constant("gaussian"),
    "factorization": nmar.Factorization(2),
    "mixture": nmar.Mixture(2),
    "poisson-factorization": nmar.Factorization(2, family="poisson"),
}
REAL = ("gaussian", "factorization", "mixture")
CASES = [(f, k) for f in FAMILIES for k in OPEN if f != "binomial" or k == "compound"]
CASES += [(f, k) for f in REAL for k in SHIFTED]


def known(family, link):
    """The posterior of a small matrix whose parameters are known, a row and a column of it."""
    _, truth = nmar.simulate((4, 3), FAMILIES[family], {**OPEN, **SHIFTED}[link], density=0.5, seed=1)
    return truth.posterior, np.array([0, 1, 2, 3, 0, 1]), np.array([0, 1, 2, 0, 1, 2])


def outliers(family):
    if family in REAL:
        return np.array([0.0, 3.0, -20.0, 60.0, 300.0, -1e3])
    if family in ("gamma", "inverse_gaussian"):
        return np.array([1e-6, 1e-2, 2.0, 60.0, 400.0, 2e3])
    return np.array([0.0, 2.0, 15.0, 100.0, 400.0, 1000.0])


def long_sum(posterior, i, j, bins, plugin=False):
    """log P(n) of n = 1 … ``bins`` of each cell, and the tables there."""
    linkage, shared = posterior.state.shared.linkage, posterior.state.shared
    rate = posterior.rates(i, j) if plugin else posterior.observed_rates(i, j)
    n = np.arange(1, bins + 1)
    logs = n * np.log(rate)[:, None] - counts.log_factorials(bins + 1, linkage.events)[1:]
    phi1, delta = linkage.mean_tables(bins)
    table = BinTable(phi1, delta, linkage.bin_table(bins), shared.dispersion)
    return logs - counts.log_truncation(rate, linkage.events)[:, None], table


@pytest.mark.parametrize("plugin", [False, True])
@pytest.mark.parametrize(("family", "link"), sampled(CASES, 2))
def test_densities_of_outliers_equal_a_long_sum(family, link, plugin):
    posterior, i, j = known(family, link)
    y = outliers(family)
    logs, table = long_sum(posterior, i, j, LONG, plugin)
    exact = logsumexp(logs + posterior.cells(i, j).log_density(y, table, plugin), axis=1)
    np.testing.assert_allclose(log_density(posterior, i, j, y, plugin), exact, rtol=1e-10, atol=1e-10)


def test_a_compound_poisson_outlier_equals_exact_arithmetic():
    """y = 1000 where 2 events a count are expected: most of its mass lies beyond 100 counts."""
    posterior, i, j = known("poisson", "compound")
    rate = Decimal(float(posterior.rates(i[:1], j[:1])[0]))
    mean = Decimal(float(np.exp(conjugate("poisson").theta(*posterior.state.shared.data.posterior))))
    found = log_density(posterior, i[:1], j[:1], np.array([1000.0]), plugin=True)[0]
    with localcontext(prec=60):
        terms = (rate**n / factorial(n) * (n * mean) ** 1000 * (-n * mean).exp() for n in range(1, 2000))
        exact = (sum(terms) / factorial(1000) / (rate.exp() - 1)).ln()
    assert found == pytest.approx(float(exact), abs=1e-8)


@pytest.mark.parametrize("family", ["poisson", "gamma", "factorization", "poisson-factorization"])
def test_moments_of_a_steep_table_equal_a_long_sum(family):
    """φ(n) = e^{2(n − 1)} has its second moment at counts e⁴ times as large as the rate."""
    pattern = Pattern(factors=2, shape=200.0, activity_shape=200.0, activity_rate=1.0)
    _, truth = nmar.simulate((4, 3), FAMILIES[family], nmar.Geometric(2.0), density=0.999, seed=1, pattern=pattern)
    posterior, i, j = truth.posterior, np.array([0, 1, 2]), np.array([0, 1, 2])
    assert posterior.rates(i, j).min() > 5.0
    logs, table = long_sum(posterior, i, j, 5000)
    at, spread = posterior.cells(i, j).moments(table)
    second = logsumexp(logs + np.log(spread + at**2), axis=1)
    mean, variance = mean_and_variance(posterior, i, j)
    np.testing.assert_allclose(np.log(variance + mean**2), second, rtol=1e-11)


def test_a_limit_is_said(monkeypatch):
    monkeypatch.setattr(mixing, "MOST", 256)
    posterior, i, j = known("poisson", "compound")
    y = np.array([0.0, 1.0, 2.0, 3.0, 0.0, 5000.0])
    with pytest.warns(UserWarning, match="1 of 6 cells.*256 counts"):
        log_density(posterior, i, j, y)


def test_a_rate_beyond_the_limit_is_said(monkeypatch):
    monkeypatch.setattr(mixing, "MOST", 16)
    posterior, i, j = known("gamma", "geometric+")
    with pytest.warns(UserWarning, match="longer than 16"):
        mean_and_variance(posterior, i, j)


def test_values_off_the_support_have_no_density_and_need_no_counts(monkeypatch):
    posterior, i, j = known("poisson", "compound")
    monkeypatch.setattr(mixing, "MOST", 64)
    assert np.all(log_density(posterior, i, j, np.full(6, 0.5)) == -np.inf)
    posterior, i, j = known("gamma", "compound")
    assert np.all(log_density(posterior, i, j, np.full(6, -0.5)) == -np.inf)
