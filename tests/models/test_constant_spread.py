"""Predictive moments of one natural parameter: by quadrature over its posterior, all families."""

import numpy as np
import pytest
from scipy.integrate import quad

import nmar
from nmar.models.conjugate import ConjugatePredictive, conjugate
from nmar.models.predictive import BinTable
from nmar.prob.families import family

POSTERIORS = {
    "poisson": (6.0, 3.0),
    "gamma": (7.0, 4.0),
    "binomial": (3.0, 8.0),
    "negative_binomial": (5.0, 4.0),
    "inverse_gaussian": (2.0, 14.0),
}
RANGES = {  # θ that hold all of the posterior but 1e-15
    "poisson": (-12.0, 4.0),
    "gamma": (-15.0, -1e-9),
    "binomial": (-12.0, 8.0),
    "negative_binomial": (-14.0, -1e-12),
    "inverse_gaussian": (-180.0, -0.05),
}
PHI = np.array([1.0, 2.0, 5.0])


def by_quadrature(name, x):
    """Mean and variance of y from those given θ, weighted by exp(aθ − bΨ(θ))."""
    a, b = POSTERIORS[name]
    law = family(name)
    mean = conjugate(name).theta(a, b)
    top = a * mean - b * law.log_partition(mean)

    def weighted(values):
        def integrand(theta):
            return float(values(theta) * np.exp(a * theta - b * law.log_partition(theta) - top))

        return quad(integrand, *RANGES[name], limit=500, epsabs=0.0, epsrel=1e-11)[0]

    mass = weighted(lambda theta: 1.0)
    mean = weighted(lambda theta: law.mean(theta, x)) / mass
    second = weighted(lambda theta: law.variance(theta, x) + law.mean(theta, x) ** 2) / mass
    return mean, second - mean**2


@pytest.mark.parametrize("name", POSTERIORS)
def test_moments_hold_the_uncertainty_of_theta(name):
    found = ConjugatePredictive(name, 2, *POSTERIORS[name])
    mean, variance = found.moments(BinTable(np.ones(3), np.zeros(3), PHI, 2.0))
    exact = np.array([by_quadrature(name, 2.0 * phi) for phi in PHI])
    for cell in range(2):
        np.testing.assert_allclose(mean[cell], exact[:, 0], rtol=1e-6)
        np.testing.assert_allclose(variance[cell], exact[:, 1], rtol=1e-6)


@pytest.mark.parametrize("name", POSTERIORS)
def test_a_sure_theta_adds_nothing(name):
    a, b = POSTERIORS[name]
    sure = ConjugatePredictive(name, 1, 1e9 * a, 1e9 * b)
    _, variance = sure.moments(BinTable(np.ones(3), np.zeros(3), PHI, 2.0))
    expected = family(name).variance(conjugate(name).theta(1e9 * a, 1e9 * b), 2.0 * PHI)
    np.testing.assert_allclose(variance[0], expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["gaussian", *POSTERIORS])
def test_standard_deviations_are_those_of_draws(name):
    """A fit of 14 cells, whose θ is far from sure, against 200,000 draws of one of them."""
    given = {"trials": 4} if name == "binomial" else {}
    values = np.array([[1.0, 2.0, np.nan, 3.0, 2.0], [2.0, np.nan, 1.0, 2.0, 4.0], [3.0, 2.0, 1.0, np.nan, 1.0]])
    model = nmar.CCPF(nmar.Constant(name, **given), "ignorable", factors=2, max_iter=5, n_jobs=1, random_state=0)
    model.fit(nmar.Cells.from_dense(values))
    mean, spread = model.predict_entries([0], [0], return_std=True)
    drawn = model.sample([0], [0], n=200_000, seed=0)[0]
    assert mean[0] == pytest.approx(drawn.mean(), abs=5.0 * spread[0] / np.sqrt(200_000))
    kurtosis = np.mean((drawn - drawn.mean()) ** 4) / drawn.var() ** 2
    assert spread[0] ** 2 == pytest.approx(drawn.var(), rel=5.0 * np.sqrt((kurtosis - 1.0) / 200_000))
