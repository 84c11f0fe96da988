"""Answers to questions about many cells: closed forms agree with what they replace, in any order and number."""

import numpy as np
import pytest

import nmar
from nmar.posterior import mixing
from nmar.posterior import posterior as ask
from nmar.prob.threads import in_threads


@pytest.fixture(scope="module")
def fitted():
    """Plain fits of a small table, with a full and with a diagonal covariance, and one whose linkage couples."""
    cells = nmar.simulate((40, 25), nmar.Factorization(2), "ignorable", 0.4, seed=0)[0]
    models = {
        "plain": nmar.CCPF(nmar.Factorization(2), factors=3, max_iter=8, random_state=0),
        "diagonal": nmar.CCPF(nmar.Factorization(2, covariance="diagonal"), factors=3, max_iter=8, random_state=0),
        "free": nmar.CCPF(nmar.Factorization(2), "free", factors=3, max_iter=8, random_state=0),
    }
    return {name: model.fit(cells).posterior_ for name, model in models.items()}


def pairs(n=300):
    rng = np.random.default_rng(1)
    return rng.integers(-1, 40, n), rng.integers(-1, 25, n)


@pytest.mark.parametrize("name", ["plain", "diagonal", "free"])
def test_a_mean_without_counts_is_that_with_them(fitted, name):
    known, at = fitted[name].extended(), pairs()
    np.testing.assert_allclose(ask.expectation(known, *at), ask.mean_and_variance(known, *at)[0], rtol=1e-12)


@pytest.mark.parametrize("name", ["plain", "free"])
def test_quantiles_undo_the_distribution_function(fitted, name):
    known, at, levels = fitted[name], pairs(), (0.001, 0.05, 0.5, 0.999)
    found = known.units.to_model(ask.quantiles(known, *at, levels).copy())
    for m in mixing.mixtures(known, *at):
        for k, level in enumerate(levels):
            np.testing.assert_allclose(m.cumulative(found[m.where, k]), level, rtol=1e-9)


@pytest.mark.parametrize("name", ["plain", "free"])
def test_blocks_change_nothing(fitted, name, monkeypatch):
    known, at = fitted[name], pairs()
    y = np.linspace(-2.0, 2.0, len(at[0]))
    whole = ask.log_density(known, *at, y), ask.expectation(known, *at), ask.mean_and_variance(known, *at)[1]
    for module in (mixing, ask):
        monkeypatch.setattr(module, "BLOCK", 37)
    parts = ask.log_density(known, *at, y), ask.expectation(known, *at), ask.mean_and_variance(known, *at)[1]
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


def test_answers_come_in_the_order_of_their_parts():
    assert in_threads(lambda k: k * k, range(20)) == [k * k for k in range(20)]
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda k: 1 // k, [1, 0])
