"""E[Λ | observed] of gamma rates equals quadrature, and its limits."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import gamma

from nmar.prob.counts import observed_rate


def by_quadrature(mean, variance):
    """E[Λ | n ≥ 1] by integrals over log Λ, Λ a gamma and n a Poisson count of it."""
    law = gamma(mean**2 / variance, scale=variance / mean)

    def weight(x, power):
        rate = np.exp(x)
        return rate**power * -np.expm1(-rate) * law.pdf(rate) * rate

    total, part = (quad(weight, -60.0, 6.0, args=(power,), limit=500)[0] for power in (0, 1))
    return part / total


@pytest.mark.parametrize(("mean", "variance"), [(0.01, 0.002), (0.3, 0.9), (2.0, 0.5), (8.0, 40.0), (1e-3, 1e-6)])
def test_the_rate_of_an_observed_cell_equals_quadrature(mean, variance):
    found = observed_rate(np.array([mean]), np.array([variance]))
    np.testing.assert_allclose(found, by_quadrature(mean, variance), rtol=1e-7)


def test_it_is_the_rate_itself_where_that_is_known():
    rates = np.array([1e-250, 1e-9, 0.1, 3.0, 600.0])
    for variance in (np.zeros(5), 1e-12 * rates**2):
        np.testing.assert_allclose(observed_rate(rates, variance), rates, rtol=1e-9)


def test_it_is_larger_and_finite_for_any_moments():
    mean, ratio = np.meshgrid(10.0 ** np.arange(-300, 5, 20.0), 10.0 ** np.arange(-12, 7, 2.0))
    found = observed_rate(mean, ratio * mean)
    assert np.all(np.isfinite(found))
    assert np.all(found >= mean * (1.0 - 1e-12))
