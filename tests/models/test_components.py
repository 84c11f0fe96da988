"""Mixture components of a prediction: sums over those with weight alone, against the plain formula."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import nbinom, norm, poisson

from nmar.models import predictive
from nmar.models.predictive import BinTable, GammaPoissonPredictive, NormalPredictive

BINS = BinTable(np.array([1.0, 0.8, 1.3]), np.array([0.0, 0.2, -0.5]), np.array([1.0, 0.5, 2.5]), 0.7)


def parts(seed: int = 0, cells: int = 11, components: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means, variances and log weights, half of which are 0 altogether; every cell has at least one component."""
    rng = np.random.default_rng(seed)
    weight = rng.dirichlet(np.ones(components), cells) * (rng.random((cells, components)) < 0.5)
    weight[:, 0] += 0.01
    with np.errstate(divide="ignore"):
        log_weight = np.log(weight / weight.sum(axis=1, keepdims=True))
    return rng.gamma(3.0, 1.0, (cells, components)), rng.gamma(2.0, 0.2, (cells, components)), log_weight


@pytest.fixture(params=[1, 40, 1 << 17])
def together(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of one cell, of a few cells, and of all."""
    monkeypatch.setattr(predictive, "TOGETHER", request.param)


@pytest.mark.parametrize("plugin", [False, True])
@pytest.mark.usefixtures("together")
def test_normal_components(plugin: bool) -> None:
    mean, variance, log_weight = parts()
    y = np.linspace(-2.0, 9.0, len(mean))
    at = mean[:, :, None] * BINS.phi1 + BINS.delta
    spread = (0.0 if plugin else variance[:, :, None] * BINS.phi1**2) + BINS.phi2 * BINS.dispersion
    expected = logsumexp(norm.logpdf(y[:, None, None], at, np.sqrt(spread)) + log_weight[:, :, None], axis=1)
    found = NormalPredictive(mean, variance, log_weight).log_density(y, BINS, plugin)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("plugin", [False, True])
@pytest.mark.usefixtures("together")
def test_count_components(plugin: bool) -> None:
    mean, variance, log_weight = parts()
    y, rate, size = np.arange(11.0)[:, None, None], mean[:, :, None] * BINS.phi2, (mean**2 / variance)[:, :, None]
    log = poisson.logpmf(y, rate) if plugin else nbinom.logpmf(y, size, size / (size + rate))
    found = GammaPoissonPredictive(mean, variance, log_weight).log_density(y.ravel(), BINS, plugin)
    np.testing.assert_allclose(found, logsumexp(log + log_weight[:, :, None], axis=1), rtol=1e-9)


def test_moments_over_components() -> None:
    mean, variance, log_weight = parts()
    weight = np.exp(log_weight)[:, :, None]
    for law, at, spread in (
        (NormalPredictive, mean[:, :, None] * BINS.phi1 + BINS.delta,
         variance[:, :, None] * BINS.phi1**2 + BINS.phi2 * BINS.dispersion),
        (GammaPoissonPredictive, mean[:, :, None] * BINS.phi2,
         mean[:, :, None] * BINS.phi2 + variance[:, :, None] * BINS.phi2**2),
    ):  # fmt: skip
        overall = np.sum(weight * at, axis=1)
        expected = np.sum(weight * (spread + (at - overall[:, None]) ** 2), axis=1)
        found = law(mean, variance, log_weight).moments(BINS)
        np.testing.assert_allclose(found[0], overall, rtol=1e-12)
        np.testing.assert_allclose(found[1], expected, rtol=1e-12)


def test_a_value_that_no_component_can_have() -> None:
    """log 0 is −inf, and not a number that is none."""
    found = predictive.mixed(np.log([[0.5, 0.5]]), lambda cell, component: np.full((len(cell), 2), -np.inf), 2)
    assert np.all(found == -np.inf)
