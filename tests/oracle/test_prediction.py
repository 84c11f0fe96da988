"""Held-out log densities and moments against enumeration (theory 22, 23)."""

import enumeration as oracle
import numpy as np
import pytest
from problems import FIXED, FIXED_MEAN, THIN_PAIRS, THINNED, advanced, every, problem, sampled

from nmar.posterior.posterior import Posterior, log_density, mean_and_variance

EXACT = 1e-10


def fitted(model, link, control=False, sweeps=3):
    """A posterior after a few sweeps."""
    started = problem(model, {**THINNED, **FIXED, **FIXED_MEAN}[link], control=control, seed=5)
    state, cells = advanced(started, sweeps), started.observed.cells
    return Posterior(started.law, state, cells.rows, cells.cols)


CASES = [(*pair, control) for control in (False, True) for pair in every(FIXED, FIXED_MEAN)]
CASES += [(model, link, False) for model, link in THIN_PAIRS]
CASES += [("full", "free-thin8", True), ("poisson", "linear-thin8", True)]


@pytest.mark.parametrize(("model", "link", "control"), sampled(CASES, 2))
def test_prediction_equals_enumeration(model, link, control):
    posterior = fitted(model, link, control)
    i, j = (a.ravel() for a in np.indices((3, 3)))
    y = np.array([0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 15.0, 4.0, 2.0])
    mean, variance = mean_and_variance(posterior, i, j)
    for plugin in (False, True):
        found = log_density(posterior, i, j, y, plugin=plugin)
        exact = [oracle.predictive(posterior.law, posterior.state, *cell, plugin) for cell in zip(i, j, y, strict=True)]
        np.testing.assert_allclose(found, [e[0] for e in exact], rtol=EXACT, atol=EXACT)
        if not plugin:  # moments have the data model and the rates integrated out
            np.testing.assert_allclose(mean, [e[1] for e in exact], rtol=EXACT, atol=EXACT)
            np.testing.assert_allclose(variance, [e[2] for e in exact], rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("link", ["linear+", "free", "free-shift", "free-thin8"])
def test_density_integrates_to_one(link):
    posterior = fitted("full", link)
    grid = np.linspace(-60.0, 60.0, 6001)
    at = np.zeros(len(grid), int)
    density = np.exp(log_density(posterior, at, at, grid))
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("link", ["linear+", "compound"])
def test_mass_sums_to_one(link):
    posterior = fitted("poisson", link)
    grid = np.arange(3000.0)
    at = np.zeros(len(grid), int)
    assert np.exp(log_density(posterior, at, at, grid)).sum() == pytest.approx(1.0, abs=1e-6)
