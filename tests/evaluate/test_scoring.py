"""Probability integrals: uniform under the true model, whatever the family."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest

import nmar
from nmar.evaluate.curves import calibration
from nmar.evaluate.scoring import probability_integral
from nmar.posterior.posterior import Posterior

SHAPE = (120, 60)
MODELS = {
    "poisson": nmar.Constant("poisson"),
    "binomial": nmar.Constant("binomial", trials=4),
    "negative_binomial": nmar.Constant("negative_binomial"),
    "gamma": nmar.Constant("gamma"),
    "inverse_gaussian": nmar.Constant("inverse_gaussian"),
    "gaussian": nmar.Constant("gaussian"),
    "poisson-factorization": nmar.Factorization(2, family="poisson"),
}


def rare(truth):
    """The same with θ at a mean of 0.5, so that most counts are 0 or 1."""
    state = truth.posterior.state
    known = replace(state.shared.data, prior=(5e8, 1e9), posterior=(5e8, 1e9))
    shared = replace(state.shared, data=known)
    return Posterior(truth.posterior.law, replace(state, shared=shared), truth.posterior.rows, truth.posterior.cols)


def uniform(found):
    """4,000 and more numbers: a mean four standard errors off has a chance of 6e-5, such a distance of 1e-3."""
    assert abs(found.mean() - 0.5) < 4.0 * np.sqrt(1.0 / 12.0 / len(found))
    assert kstest(found, "uniform").statistic < 1.95 / np.sqrt(len(found))


@pytest.mark.parametrize("link", ["ignorable", "compound"])
@pytest.mark.parametrize("model", MODELS)
def test_probability_integrals_are_uniform_under_the_truth(model, link):
    trials = 4.0 if model == "binomial" else 1.0
    cells, truth = nmar.simulate(SHAPE, MODELS[model], link, density=0.6, seed=3, dispersion=trials)
    uniform(probability_integral(truth.posterior, cells, random_state=0))


def test_rare_counts_are_randomised_within_their_step():
    """Poisson(0.5): P(Y ≤ y) has a mean of 0.735."""
    _, truth = nmar.simulate(SHAPE, MODELS["poisson"], "ignorable", density=0.6, seed=3)
    posterior = rare(truth)
    values = np.random.default_rng(7).poisson(0.5, SHAPE).astype(float)
    uniform(probability_integral(posterior, nmar.Cells.from_dense(values), random_state=0))


def test_the_random_state_decides():
    cells, truth = nmar.simulate((40, 30), MODELS["poisson"], "ignorable", density=0.5, seed=3)
    first, again, other = (probability_integral(truth.posterior, cells, random_state=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)
    drawn = [calibration(truth.posterior, cells, random_state=s).covered for s in (0, 0, 1)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert np.any(drawn[0] != drawn[2])
