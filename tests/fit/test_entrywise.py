"""The paper's algorithm 1: it climbs, is seeded, comes near the batch solution, and says what it cannot do."""

from __future__ import annotations

import numpy as np
import pytest
from problems_fit import SETTINGS, around, cells_of, same, start

import nmar
from nmar.fit.loop.run import Progress, run
from nmar.fit.loop.stop import StopRule
from nmar.fit.solvers.entrywise import Entrywise, Visits, line_arrays, pattern_arrays
from nmar.models.half_sweep import half_sweep

# steps of the paper's size need millions of visits: larger ones serve a small test
QUICK = dict(visits=60_000, t0=300.0, average=200)


def fit(name, train, **more):
    solver = Entrywise(**{**QUICK, **more})
    model = nmar.CCPF(SETTINGS[name], linkage="linear", factors=3, solver=solver, max_iter=12, random_state=0)
    return model.fit(train)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "given"),
    [("diagonal", {}), ("poisson", {}), ("diagonal", {"linkage": nmar.Linear(thinning=8.0)})],
    ids=["diagonal", "poisson", "thinned"],
)
def test_it_climbs_and_comes_near_the_batch_solution(name, given):
    train, _, test = cells_of(SETTINGS[name], (60, 40), 0.4).split(test=0.1, valid=0.0, seed=0)
    settings = {"linkage": "linear", "factors": 3, "random_state": 0, **given}
    batch = nmar.CCPF(SETTINGS[name], **settings).fit(train)
    model = nmar.CCPF(SETTINGS[name], solver=Entrywise(**QUICK), max_iter=12, **settings).fit(train)
    bound = model.bound_trace_
    assert bound[-1] > bound[0] + 0.8 * (batch.bound_trace_[-1] - bound[0])
    assert model.log_likelihood(test) > batch.log_likelihood(test) - 0.15


@pytest.mark.parametrize("name", ["diagonal", "poisson"])
@pytest.mark.parametrize("s", [1.0, 1.5, 8.0])
def test_expected_targets_are_those_of_coordinate_ascent(name, s):
    expected_targets(start(name, nmar.Geometric(-0.3, thinning=s), (12, 9)))


@pytest.mark.parametrize("name", ["diagonal", "poisson"])
def test_expected_targets_leave_hidden_cells_out(name):
    """A line's visits stand for its J − h_i cells that are not hidden."""
    expected_targets(start(name, nmar.Geometric(-0.3), (12, 9), hide=0.3))


def expected_targets(problem):
    """Every cell visited once with steps of next to nothing: lines move toward the mean of their cells' targets.

    Theory, Stochastic scalings: that mean is the target of a half sweep, for missing and observed cells alike.
    """
    state = run(Progress(problem.state), around(problem), StopRule(3, 0.0)).state
    law, shared, shape, step = problem.law, state.shared, problem.observed.cells.shape, 1e-8
    visits = Visits(Entrywise(t0=1.0 / step, xi=1.0), problem.observed, law, np.random.SeedSequence(0))
    arrays, seen = [*pattern_arrays(state), *line_arrays(state, law)], tuple(np.zeros(n) for n in (*shape, *shape))
    before = [part.copy() for part in arrays]
    places = np.setdiff1d(np.arange(shape[0] * shape[1]), visits.away)
    visits.visit(places, arrays, seen, around(problem), shared, shared.linkage.table(200))
    for axis in (0, 1):
        line = places // shape[1] if axis == 0 else places % shape[1]
        visited = np.bincount(line, minlength=shape[axis])[:, None]
        pair, _, _ = half_sweep(axis, state, around(problem))
        target = np.array([pair.pattern.weights.alpha, pair.pattern.weights.beta])
        moved = (arrays[axis] - before[axis]) / (step * visited)
        np.testing.assert_allclose(moved, target - before[axis], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_a_backend_that_has_no_visits_says_so():
    cells = cells_of(SETTINGS["diagonal"])
    model = nmar.CCPF(SETTINGS["diagonal"], "linear", factors=2, solver="entrywise", backend="reference", max_iter=1)
    with pytest.raises(NotImplementedError, match="backend='reference' has no visit_normal"):
        model.fit(cells)
