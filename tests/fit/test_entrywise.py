"""The paper's algorithm 1: it climbs, is seeded, comes near the batch solution, and says what it cannot do."""

from __future__ import annotations

import numpy as np
import pytest
from problems_fit import SETTINGS, cells_of, same

import nmar
from nmar.fit.entrywise import Entrywise

# steps of the paper's size need millions of visits: larger ones serve a small test
QUICK = dict(visits=60_000, t0=300.0, average=200)


def fit(name, train, **more):
    solver = Entrywise(**{**QUICK, **more})
    model = nmar.CCPF(SETTINGS[name], linkage="linear", factors=3, solver=solver, max_iter=12, random_state=0)
    return model.fit(train)


@pytest.mark.parametrize("name", ["diagonal", "poisson"])
def test_it_climbs_and_comes_near_the_batch_solution(name):
    train, _, test = cells_of(SETTINGS[name], (60, 40), 0.4).split(test=0.1, valid=0.0, seed=0)
    batch = nmar.CCPF(SETTINGS[name], linkage="linear", factors=3, random_state=0).fit(train)
    model = fit(name, train)
    bound = model.bound_trace_
    assert bound[-1] > bound[0] + 0.8 * (batch.bound_trace_[-1] - bound[0])
    assert model.log_likelihood(test) > batch.log_likelihood(test) - 0.15


def test_uncertainty_is_that_of_the_batch_solution():
    """Observed visits count |Ω_i| times, not J: overcounting would leave every line far too certain."""
    train = cells_of(SETTINGS["diagonal"], (60, 40), 0.2)
    batch = nmar.CCPF(SETTINGS["diagonal"], linkage="linear", factors=3, random_state=0).fit(train)
    model = fit("diagonal", train)
    for axis, bias in ((0, 2), (1, 3)):
        mine, own = (m.posterior_.state.sides[axis].data.variances[:, bias].mean() for m in (model, batch))
        assert 0.5 < mine / own < 2.0


def test_it_is_seeded():
    train = cells_of(SETTINGS["diagonal"])
    one, two = (fit("diagonal", train, visits=5000) for _ in range(2))
    assert same(one.posterior_.state, two.posterior_.state)


@pytest.mark.parametrize("name", ["diagonal", "poisson"])
def test_as_printed_is_another_and_a_worse_algorithm(name):
    train = cells_of(SETTINGS[name], (60, 40), 0.2)
    right, printed = fit(name, train), fit(name, train, as_printed=True)
    assert printed.bound_trace_[-1] < right.bound_trace_[-1]


def test_hidden_cells_are_not_visited():
    train, _, hidden = cells_of(SETTINGS["diagonal"]).split(test=0.3, valid=0.0, seed=0)
    solver = Entrywise(**QUICK)
    settings = dict(data=SETTINGS["diagonal"], linkage="linear", factors=3, max_iter=6, random_state=0)
    told = nmar.CCPF(solver=solver, **settings).fit(train, hidden=hidden)
    untold = nmar.CCPF(solver=solver, **settings).fit(train)
    rows, cols = hidden.pairs()
    assert told.observed_probability(rows, cols).mean() > untold.observed_probability(rows, cols).mean()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"data": SETTINGS["full"], "linkage": "linear"}, "covariance='diagonal'"),
        ({"data": SETTINGS["diagonal"], "linkage": "free"}, "linkage='free'"),
        ({"data": SETTINGS["diagonal"], "linkage": "linear", "control": True}, "control"),
        ({"data": SETTINGS["diagonal"], "linkage": "two-stage"}, "two-stage"),
    ],
)
def test_what_it_cannot_fit_is_said(settings, words):
    with pytest.raises(ValueError, match=words):
        nmar.CCPF(solver="entrywise", factors=2, **settings).fit(cells_of(SETTINGS["diagonal"]))


@pytest.mark.parametrize("given", [{"visits": 0}, {"t0": 0.0}, {"xi": 0.4}, {"average": 0}])
def test_settings_are_checked(given):
    with pytest.raises(ValueError, match=next(iter(given))):
        Entrywise(**given)


def test_counts_of_visits_follow_the_seed_not_the_threads():
    train = cells_of(SETTINGS["poisson"])
    one = fit("poisson", train, visits=5000)
    solver = Entrywise(**{**QUICK, "visits": 5000})
    two = nmar.CCPF(
        SETTINGS["poisson"], linkage="linear", factors=3, solver=solver, max_iter=12, random_state=0, n_jobs=1
    ).fit(train)
    assert same(one.posterior_.state, two.posterior_.state)
    assert np.isfinite(one.bound_trace_).all()
