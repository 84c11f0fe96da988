"""Values far from 1, or hardly different from each other: fits reach their optimum all the same."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import digamma, gammaln

import nmar
from nmar.prob.families import family
from nmar.prob.learn_dispersion import first_dispersion, log_prior_dispersion

pytestmark = pytest.mark.slow  # see CONTRIBUTING.md

RNG = np.random.default_rng(4)
SHAPE = (20, 15)
SEEN = RNG.random(SHAPE) < 0.6


def fit(data, values, link="ignorable", sweeps=30, **settings):
    given = {"factors": 2, "max_iter": sweeps, "tol": 0.0, "starts": 1, "n_jobs": 1, "random_state": 0, **settings}
    return nmar.CCPF(data, link, **given).fit(cells(values))


def cells(values):
    return nmar.Cells.from_dense(np.where(SEEN, values, np.nan))


SAMPLES = {
    "gamma": lambda rng, kappa: rng.gamma(kappa, 1.0 / kappa, SHAPE),
    "inverse_gaussian": lambda rng, kappa: rng.wald(1.0, kappa**2, SHAPE),
    "negative_binomial": lambda rng, kappa: rng.negative_binomial(kappa, kappa / (kappa + 1e4), SHAPE).astype(float),
}
NATURAL = {
    "gamma": lambda slope: -1.0 / slope,
    "inverse_gaussian": lambda slope: -0.5 / slope**2,
    "negative_binomial": lambda slope: np.log(slope / (1.0 + slope)),
}


def best_likelihood(name, values):
    """Mean log density at the most probable κ, θ by the mean of the values: a direct search."""
    law, y = family(name), values[SEEN]

    def loss(log_kappa):
        kappa = np.exp(log_kappa)
        return -law.log_density(y, NATURAL[name](y.mean() / kappa), kappa).sum() - log_prior_dispersion(law, kappa)

    found = np.exp(minimize_scalar(loss, bounds=(-5.0, 20.0), method="bounded", options={"xatol": 1e-10}).x)
    return found, law.log_density(y, NATURAL[name](y.mean() / found), found).mean()


@pytest.mark.parametrize("kappa", [0.5, 3.0, 1e4])
@pytest.mark.parametrize("name", SAMPLES)
def test_a_constant_ends_at_the_best_dispersion(name, kappa):
    """Values that hardly differ have a large κ, which updates in turn with θ would not reach from 1."""
    values = np.maximum(SAMPLES[name](np.random.default_rng(8), kappa), 1e-6 if name != "negative_binomial" else 0.0)
    model = fit(nmar.Constant(name), values, tol=0.0)
    best, likelihood = best_likelihood(name, values / model.posterior_.units.scale)
    likelihood -= np.log(model.posterior_.units.scale)
    found = model.log_likelihood(cells(values), plugin=True)
    assert found == pytest.approx(likelihood, abs=0.02)
    assert first_dispersion(family(name), values[SEEN] / model.posterior_.units.scale) == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("level", [1e-2, 1.0, 1e4, 1e8])
@pytest.mark.parametrize(
    "data",
    [
        nmar.Constant("poisson"),
        nmar.Factorization(2, family="poisson"),
        nmar.Effects("rows", family="poisson"),
        nmar.Mixture(2, family="poisson", restarts=1),
    ],
    ids=lambda d: d.describe(),
)
def test_counts_of_any_size_are_fitted_as_well_as_by_their_mean(data, level):
    """Ten sweeps are enough to predict training cells as well as the one mean that they were drawn with."""
    values = np.random.default_rng(9).poisson(level, SHAPE).astype(float)
    y = values[SEEN]
    mean = max(y.mean(), 1e-300)
    one_mean = np.mean(y * np.log(mean) - mean - gammaln(y + 1.0))
    found = fit(data, values, sweeps=10).log_likelihood(cells(values), plugin=True)
    assert found > one_mean - 0.02 * max(1.0, abs(one_mean))


@pytest.mark.parametrize("scale", [1e-8, 1e8])
@pytest.mark.parametrize("link", ["ignorable", "geometric", "compound"])
@pytest.mark.parametrize("name", ["gamma", "inverse_gaussian"])
def test_scale_families_have_units(name, link, scale):
    """The fit of a·y is a times the fit of y, to a millionth, also where κ is large."""
    values = SAMPLES[name](np.random.default_rng(8), 30.0)
    model, moved = (fit(nmar.Constant(name), a * values, link) for a in (1.0, scale))
    (mean, spread), (far, wide) = (m.predict_entries([0, 3], [1, 2], return_std=True) for m in (model, moved))
    np.testing.assert_allclose(far / scale, mean, rtol=1e-6)
    np.testing.assert_allclose(wide / scale, spread, rtol=1e-6)
    densities = [m.log_density(cells(a * values)) + np.log(a) for m, a in ((model, 1.0), (moved, scale))]
    np.testing.assert_allclose(densities[1], densities[0], rtol=1e-6, atol=1e-6)


def test_the_first_dispersion_of_a_gamma_solves_its_equation():
    y = np.random.default_rng(2).gamma(200.0, 1.0, 4000)
    kappa = first_dispersion(family("gamma"), y)
    slope = np.log(kappa) - digamma(kappa) - (np.log(y.mean()) - np.log(y).mean())
    assert kappa * slope == pytest.approx(0.0, abs=2.1 / len(y) + 1e-6)
