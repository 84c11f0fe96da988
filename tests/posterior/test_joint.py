"""Joint draws: their covariances are those of the posterior, in closed form where there is one."""

from dataclasses import replace

import numpy as np
import pytest

import nmar
from nmar.fit import augment
from nmar.fit.augment import joint_draws
from nmar.posterior.joint import drawn, values_given
from nmar.prob.factor import GammaFactor, NormalFactor, pack

SERIAL = {"n_jobs": 1}


def fitted(data, link="ignorable", shape=(12, 6), seed=0, **settings):
    dispersion = 7.0 if getattr(data, "trials", None) else 1.0
    cells, _ = nmar.simulate(shape, data, "ignorable", density=0.6, seed=seed, dispersion=dispersion)
    model = nmar.CCPF(data, link, factors=2, random_state=0, max_iter=30, starts=1, **SERIAL, **settings)
    return model.fit(cells), cells


def within(found, exact, error, times=4.5):
    np.testing.assert_array_less(np.abs(found - exact), times * error + 1e-12)


def test_a_drawn_normal_factor_has_the_covariance_of_the_factor():
    n, root = 20_000, np.array([[1.0, 0.0], [0.8, 0.5]])
    exact = np.zeros((3, 3))
    exact[:2, :2] = root @ root.T
    factor = NormalFactor(np.tile([1.0, 2.0, 1.0], (n, 1)), pack(np.tile(exact, (n, 1, 1))), np.zeros(n))
    lines = factor.drawn(np.random.default_rng(0)).mean
    assert np.all(lines[:, 2] == 1.0)  # a known constant
    within(lines.mean(axis=0), [1.0, 2.0, 1.0], np.sqrt(np.diag(exact) / n))
    within(np.cov(lines.T)[:2, :2], exact[:2, :2], 2.0 / np.sqrt(n))


def test_a_drawn_gamma_factor_has_the_moments_of_the_factor():
    n = 20_000
    numbers = GammaFactor(np.full((n, 1), 2.0), np.full((n, 1), 4.0)).drawn(np.random.default_rng(0)).mean
    within(numbers.mean(), 0.5, np.sqrt(0.125 / n))
    within(numbers.var(), 0.125, 0.125 * np.sqrt(5.0 / n))


def test_cells_of_a_row_go_together():
    """y_ij = a_i + noise: the covariance of two cells of a row is Var a_i; drawn one by one it is 0."""
    model, _ = fitted(nmar.Effects("rows"))
    known = model.posterior_
    i, j, n = np.array([0, 0, 1]), np.array([0, 1, 0]), 1500
    rng = np.random.default_rng(1)
    joint = np.array([values_given(drawn(known, rng), i, j, np.random.SeedSequence([1, k])) for k in range(n)])
    alone = model.sample(i, j, n, seed=0).T
    spread = float(known.state.sides[0].data.variances[0].max()) * known.units.scale**2
    found, separate = np.cov(joint.T), np.cov(alone.T)
    error = np.sqrt((found[0, 0] * found[1, 1] + spread**2) / n)
    within(found[0, 1], spread, error)
    within(found[0, 2], 0.0, error)
    within(separate[0, 1], 0.0, error)
    assert spread > 5.0 * error  # the two can be told apart
    within(np.diag(found), np.diag(separate), np.diag(found) * np.sqrt(4.0 / n))


def with_effects(posterior, variance):
    """The posterior with σ² = 1 and effects of this prior variance on both sides."""
    shared = posterior.state.shared
    priors = replace(shared.data, variance=tuple(np.full_like(v, variance) for v in shared.data.variance))
    return replace(posterior, state=replace(posterior.state, shared=replace(shared, data=priors, dispersion=1.0)))


def exact_covariance(posterior, cells):
    """Covariance of all μ_ij = a_i + b_j given σ² and the priors: one Gaussian posterior of both sides."""
    rows, cols = cells.shape
    priors, free = posterior.state.shared.data, [np.array(axis.free) for axis in posterior.law.data.axes]
    design = np.zeros((len(cells), rows + cols))
    i, j = cells.pairs()
    design[np.arange(len(cells)), i] = design[np.arange(len(cells)), rows + j] = 1.0
    variance = np.concatenate([np.full(n, priors.variance[axis][free[axis]][0]) for axis, n in enumerate(cells.shape)])
    covariance = np.linalg.inv(design.T @ design / posterior.state.shared.dispersion + np.diag(1.0 / variance))
    a, b = np.indices(cells.shape).reshape(2, -1)
    every = np.zeros((rows * cols, rows + cols))
    every[np.arange(rows * cols), a] = every[np.arange(rows * cols), rows + b] = 1.0
    return every @ covariance @ every.T


@pytest.mark.slow
def test_data_augmentation_has_the_exact_posterior_covariance_and_mean_field_has_not(monkeypatch):
    monkeypatch.setattr(augment, "drawn_dispersion", lambda known, shared, info, rng: shared)  # σ² known
    model, cells = fitted(nmar.Effects("both"), shape=(12, 6))
    known, n = with_effects(model.posterior_, 4.0), 400
    i, j = np.indices(cells.shape).reshape(2, -1)
    contrast = 1.0 * ((i == 3) & (j == 5)) - ((i == 2) & (j == 0))  # between two cells that are missing
    wanted = float(contrast @ exact_covariance(known, cells) @ contrast)
    states = joint_draws(known, cells, n, 3, np.random.SeedSequence(3), **SERIAL)
    found = np.var([contrast @ each.cells(i, j).mean[:, 0] for each in states])
    assert abs(found / wanted - 1.0) < 4.0 * np.sqrt(2.0 / n)
    degrees = [np.diff(cells.by(axis).indptr)[lines] for axis, lines in ((0, [2, 3]), (1, [0, 5]))]
    mean_field = np.sum(1.0 / (0.25 + np.concatenate(degrees)))
    assert mean_field / wanted < 0.7


MODELS = {
    "factorization": nmar.Factorization(2),
    "diagonal": nmar.Factorization(2, covariance="diagonal"),
    "poisson": nmar.Factorization(2, "poisson"),
    "poisson-effects": nmar.Effects("rows", "poisson"),
    "mixture": nmar.Mixture(2, restarts=1),
    "poisson-mixture": nmar.Mixture(2, "cols", "poisson", restarts=1),
    "regression": nmar.Regression(np.random.default_rng(3).normal(size=(6, 2))),
    "binomial": nmar.Constant("binomial", trials=7),
    **{name: nmar.Constant(name) for name in ("gaussian", "gamma", "inverse_gaussian", "negative_binomial")},
}


@pytest.mark.parametrize("sweeps", [0, 1])
@pytest.mark.parametrize("name", MODELS)
def test_draws_of_every_model_have_the_mean_that_it_predicts(name, sweeps):
    model, cells = fitted(MODELS[name], "compound" if name == "binomial" else "free", shape=(20, 6))
    i, j = np.indices(cells.shape).reshape(2, -1)
    values = model.impute(60, seed=0, cells=(i, j), sweeps=sweeps).values
    mean, sd = model.predict_entries(i, j, return_std=True)
    assert np.all(np.isfinite(values))
    if model.posterior_.law.family.discrete:
        assert np.all((values >= 0.0) & (values == np.round(values)))
    # errors of cells go together, so that the mean over all of them is known less well than if they did not
    overall = values.mean(axis=0)
    assert abs(overall.mean() - mean.mean()) < 5.0 * overall.std() / np.sqrt(len(overall) / (1 + 2 * sweeps)) + 0.02
    assert 0.7 < np.mean(values.std(axis=1)) / np.mean(sd) < 1.3


def test_the_pattern_is_drawn_where_it_has_a_say():
    model, _ = fitted(nmar.Effects("rows"), "free")
    known, rng = model.posterior_, np.random.default_rng(0)
    at = np.zeros(3, int), np.arange(3)
    assert np.all(drawn(known, rng).rates(*at) != drawn(known, rng).rates(*at))
    plain = replace(known, state=replace(known.state, shared=replace(known.state.shared, linkage=nmar.Ignorable())))
    np.testing.assert_array_equal(drawn(plain, rng).rates(*at), known.rates(*at))
