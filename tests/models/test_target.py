"""Predictions for all cells: the law of any cell's events, weights by inverse P(observed), and what they mend."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import poisson

import nmar
from nmar.fit.target import given_probability, inverse_weights
from nmar.models.state import State
from nmar.prob import counts
from nmar.prob.factor import SURE, GammaFactor
from nmar.prob.linkage import Free, Geometric, Linear

RATES = np.array([1e-6, 0.05, 0.7, 6.0])


@pytest.mark.parametrize("s", [1.0, 1.5, 8.0])
@pytest.mark.parametrize("linkage", [Free(levels=5), Linear(0.3), Geometric(0.1)], ids=str)
def test_events_of_any_cell_are_poisson(linkage, s):
    """P(bin) by enumeration: e ~ Po(sΛ), and no event counts as the first bin."""
    link = replace(linkage, thinning=s).start()
    size = link.size or 200
    found = np.exp(counts.log_probabilities(RATES, link.bins, size, link.events, link.starts, every=True))
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    e = np.arange(400)
    law = poisson.pmf(e, s * RATES[:, None])
    if link.bins == "parity":
        which = np.where(e == 0, 0, (e + 1) % 2)
    else:
        starts = np.array(link.starts or range(1, size + 1))
        which = np.clip(np.searchsorted(starts, e, side="right") - 1, 0, len(starts) - 1)
    exact = np.stack([np.bincount(which, row, found.shape[1]) for row in law])
    np.testing.assert_allclose(found, exact, rtol=1e-10, atol=1e-14)


@pytest.fixture(scope="module")
def shifted():
    cells, _ = nmar.simulate((60, 40), nmar.Effects("both"), nmar.Linear(0.2), 0.3, seed=0)
    link = nmar.Free(thinning=4.0, mean="shift", levels=4)
    return cells, nmar.CCPF(nmar.Effects("both"), link, factors=2, max_iter=10, random_state=0).fit(cells)


def sure_of_its_pattern(model):
    """A copy of the model that has the same E Λ and no doubt about it."""
    known, sides = model.posterior_, []
    for side in known.state.sides:
        weights = GammaFactor(np.full(side.pattern.weights.alpha.shape, SURE), SURE / side.pattern.weights.mean)
        sides.append(replace(side, pattern=replace(side.pattern.bare(), weights=weights)))
    model = copy.copy(model)
    model.posterior_ = replace(known, state=State(tuple(sides), known.state.shared))
    return model


def test_what_is_expected_of_all_cells_is_what_is_expected_of_observed_and_missing_ones(shifted):
    """E[y] = P E[y | observed] + (1 − P) E[y | missing], a missing cell having e ~ Po((s − 1)Λ) events, Λ known."""
    _, model = shifted
    model = sure_of_its_pattern(model)
    i, j = np.arange(20), np.arange(20)
    known, link = model.posterior_, model.posterior_.state.shared.linkage  # in the model's units
    rate, s = known.rates(i, j), link.events
    p = model.observed_probability(i, j)
    observed = model.predict_entries(i, j, target="observed")
    _, delta = link.mean_tables(link.size)
    starts = np.array(link.starts)
    e = np.arange(300)
    shift = np.where(e == 0, 0.0, delta[np.clip(np.searchsorted(starts, e, side="right") - 1, 0, len(starts) - 1)])
    missing = known.cells(i, j).mean[:, 0] + poisson.pmf(e, ((s - 1.0) * rate)[:, None]) @ shift
    exact = p * observed + (1.0 - p) * known.units.to_user(missing)
    np.testing.assert_allclose(model.predict_entries(i, j, target="all"), exact, rtol=1e-9)
    np.testing.assert_array_equal(model.predict_entries(i, j), observed)  # what it was fitted for


def test_densities_and_intervals_are_those_of_the_target(shifted):
    cells, model = shifted
    i, j = cells.positions()
    y = np.linspace(-12.0, 12.0, 4001)
    one = nmar.Cells.from_arrays(np.zeros(1, int), np.zeros(1, int), [0.0], cells.shape)
    for target in ("observed", "all"):
        density = np.exp([model.log_density(one.with_values([v]), target=target)[0] for v in y[::40]])
        assert density.sum() * (y[40] - y[0]) == pytest.approx(1.0, abs=2e-3)
        low, high = model.interval(i[:5], j[:5], target=target)
        mean = model.predict_entries(i[:5], j[:5], target=target)
        assert np.all((low < mean) & (mean < high))
    with pytest.raises(ValueError, match="target='any'"):
        model.predict_entries([0], [0], target="any")


def test_weights_sum_to_the_effective_number_of_cells():
    p = np.random.default_rng(0).beta(2.0, 5.0, 1000)
    w = inverse_weights(p)
    assert w.sum() == pytest.approx(w.sum() ** 2 / np.sum(w**2))
    assert np.sum(w == w.max()) == 10  # the largest hundredth
    order = np.argsort(p)
    assert np.all(np.diff(w[order]) <= 1e-12)
    np.testing.assert_array_equal(inverse_weights(np.full(7, 0.2)), np.ones(7))


def selected(strength, seed=0, shape=(300, 60)):
    """Values with a level by column, observed more often in columns of high level; and the truth."""
    rng = np.random.default_rng(seed)
    level = rng.normal(size=shape[1])
    mean = rng.normal(size=shape[0])[:, None] * 0.5 + level
    keep = rng.random(shape) < 1.0 / (1.0 + np.exp(1.5 - strength * level))
    y = mean + 0.5 * rng.normal(size=shape)
    i, j = np.nonzero(keep)
    return nmar.Cells.from_arrays(i, j, y[i, j], shape), mean, keep


def test_a_selection_that_the_pattern_explains_is_corrected():
    """One level for all cells is too high for all of them; weighted it is nearly right."""
    cells, mean, _ = selected(1.5)
    settings = {"factors": 2, "random_state": 0}
    plain, weighted = (
        nmar.CCPF(nmar.Constant("gaussian"), "ignorable", target=target, **settings).fit(cells)
        for target in ("observed", "all")
    )
    off = [float(model.predict_entries([0], [0])[0] - mean.mean()) for model in (plain, weighted)]
    assert off[0] > 0.4
    assert abs(off[1]) < 0.35 * off[0]
    assert weighted.effective_cells_ < len(cells) and plain.effective_cells_ is None


def test_where_nothing_is_selected_nothing_changes():
    cells, _, _ = selected(0.0)
    settings = {"factors": 2, "random_state": 0}
    plain, weighted = (
        nmar.CCPF(nmar.Factorization(2), "ignorable", target=target, **settings).fit(cells)
        for target in ("observed", "all")
    )
    i, j = np.indices((50, 60)).reshape(2, -1)
    a, b = (model.predict_entries(i, j) for model in (plain, weighted))
    assert np.sqrt(np.mean((a - b) ** 2)) < 0.1 * a.std()
    assert weighted.effective_cells_ > 0.8 * len(cells)  # the pattern finds some of what is noise


def test_probabilities_of_the_users_own():
    cells, _, _ = selected(1.0)
    matrix = np.random.default_rng(1).uniform(0.1, 0.9, cells.shape)
    given = {
        "matrix": matrix,
        "cells": matrix[cells.positions()],
        "function": lambda rows, cols: matrix[rows, cols],
    }
    found = [given_probability(each, cells) for each in given.values()]
    assert all(np.array_equal(found[0], each) for each in found)
    settings = {"factors": 2, "random_state": 0, "max_iter": 5}
    fits = [
        nmar.CCPF(nmar.Effects("cols"), "ignorable", target="all", propensity=each, **settings).fit(cells)
        for each in given.values()
    ]
    assert len({fit.bound_trace_[-1] for fit in fits}) == 1
    with pytest.raises(ValueError, match=r"propensity has shape \(3,\)"):
        given_probability(np.ones(3), cells)
    with pytest.raises(ValueError, match="propensity holds 0"):
        given_probability(0.0 * matrix, cells)
    with pytest.raises(ValueError, match="propensity is for target='all'"):
        nmar.CCPF(propensity=matrix).fit(cells)


def test_few_effective_cells_are_warned_of():
    cells, _, _ = selected(1.0)
    extreme = np.ones(len(cells))
    extreme[: len(cells) // 50] = 1e-4
    with pytest.warns(UserWarning, match="effective cells"):
        model = nmar.CCPF(nmar.Effects("cols"), "ignorable", target="all", propensity=extreme, factors=2, max_iter=3)
        model.fit(cells)


def test_files_remember_the_target(shifted, tmp_path):
    cells, _ = shifted
    model = nmar.CCPF(
        nmar.Effects("both"), nmar.Free(mean="shift"), factors=2, target="all", max_iter=5, random_state=0
    )
    train, _, valid = cells.split(seed=1)
    model.fit(train, valid=valid).save(tmp_path / "m")
    again = nmar.load(tmp_path / "m")
    assert again.target == "all"
    np.testing.assert_array_equal(again.predict_entries([0, 1], [2, 3]), model.predict_entries([0, 1], [2, 3]))
    with pytest.raises(ValueError, match="fit all cells again"):
        model.partial_fit(cells)
    with pytest.raises(ValueError, match="target='all', which needs all cells"):
        nmar.CCPF(solver="minibatch", target="all").fit([cells])


def test_a_resumed_fit_has_the_same_bits_and_callbacks_know_the_pattern_is_fitted_first(shifted, tmp_path):
    cells, _ = shifted
    settings = {"factors": 2, "target": "all", "max_iter": 8, "tol": 0.0, "random_state": 0}
    told = []

    def stop(record):
        told.append(record.phase)
        return record.iteration == 4

    whole = nmar.CCPF(nmar.Effects("both"), "linear", **settings).fit(cells)
    broken = nmar.CCPF(nmar.Effects("both"), "linear", **settings)
    broken.fit(cells, checkpoint=tmp_path, every=2, callbacks=[stop])
    assert broken.n_iter_ == 4 and told.count("fit") == 4 and told.count("search") == 8
    resumed = nmar.CCPF(nmar.Effects("both"), "linear", **settings).fit(cells, checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(resumed.bound_trace_, whole.bound_trace_)
    np.testing.assert_array_equal(resumed.predict_entries([0], [1]), whole.predict_entries([0], [1]))
