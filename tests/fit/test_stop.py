"""Stopping: validation with the best state kept, the bound, time; callbacks."""

from __future__ import annotations

import numpy as np
import pytest
from problems_fit import SETTINGS, arrays, cells_of, same

import nmar
from nmar.fit.loop.run import FullSweeps, Trace
from nmar.fit.loop.stop import StopRule
from nmar.fit.options import Options
from nmar.fit.train import train


def trace(bound=(), valid=(), seconds=None):
    length = max(len(bound), len(valid))
    return Trace(tuple(bound) or (0.0,) * length, tuple(valid), tuple(seconds or np.arange(1.0, length + 1)))


def test_validation_stops_after_patience_sweeps_without_a_new_best():
    rule = StopRule(max_iter=100, patience=3)
    assert rule(trace(valid=[-3, -2, -2.1, -2.2])) is None
    assert rule(trace(valid=[-3, -2, -2.1, -2.2, -2.3])) == "validation"
    assert rule(trace(valid=[-3, -2, -2.1, -2.2, -1.9])) is None


def test_a_gain_below_the_tolerance_is_no_new_best():
    rule = StopRule(max_iter=100, patience=2, valid_tol=0.01)
    assert rule(trace(valid=[-2, -1.995, -1.994])) == "validation"
    assert rule(trace(valid=[-2, -1.98, -1.96])) is None


def test_bound_stops_when_it_settles_and_not_while_validation_is_followed():
    rule = StopRule(max_iter=100, tol=1e-3)
    assert rule(trace([-200.0, -101.0, -100.0])) is None
    assert rule(trace([-200.0, -100.05, -100.0])) == "converged"
    assert rule(trace([-200.0, -100.05, -100.0], valid=[-2, -1.5, -1.0])) is None
    assert StopRule(tol=0.0)(trace([-100.0, -100.0, -100.0])) is None


def test_sweeps_and_time_stop():
    assert StopRule(max_iter=2, tol=0.0)(trace([-3.0, -2.0])) == "max_iter"
    rule = StopRule(max_iter=100, tol=0.0, max_time=5.0)
    assert rule(trace([-3.0, -2.0], seconds=[1.0, 4.9])) is None
    assert rule(trace([-3.0, -2.0], seconds=[1.0, 5.0])) == "max_time"


def test_the_best_state_by_validation_is_kept_not_the_last(monkeypatch):
    scores = iter([-3.0, -2.0, -1.0, -1.5, -1.6, -1.4, -1.7])
    monkeypatch.setattr("nmar.fit.finish.score", lambda posterior, cells: next(scores))
    train, valid, _ = cells_of(SETTINGS["full"]).split(test=0.1, valid=0.1, seed=0)
    states = []
    model = nmar.CCPF(SETTINGS["full"], "free", factors=3, max_iter=60, patience=4, starts=1, random_state=0)
    model.fit(train, valid=valid, callbacks=[lambda record: states.append(record.state)])
    assert model.stop_reason_ == "validation"
    assert model.n_iter_ == 7
    assert same(model.posterior_.state, states[2])
    assert not same(model.posterior_.state, states[-1])


def test_max_time_ends_a_fit():
    model = nmar.CCPF(
        SETTINGS["full"], "free", factors=3, max_iter=100_000, tol=0.0, max_time=0.2, starts=1, random_state=0
    )
    model.fit(cells_of(SETTINGS["full"]))
    assert model.stop_reason_ == "max_time"
    assert model.seconds_trace_[-1] < 5.0


def test_callbacks_see_every_sweep_and_can_stop():
    train, valid, _ = cells_of(SETTINGS["full"]).split(test=0.1, valid=0.1, seed=0)
    seen, also = [], []

    def stop(record):
        seen.append(record)
        return record.iteration == 4

    model = nmar.CCPF(SETTINGS["full"], factors=3, max_iter=20, tol=0.0, random_state=0)
    model.fit(train, valid=valid, callbacks=[stop, also.append])
    assert seen == also
    seen = [record for record in seen if record.phase == "fit"]
    assert [record.iteration for record in seen] == [1, 2, 3, 4]
    assert model.stop_reason_ == "callback"
    assert [record.bound for record in seen] == model.bound_trace_.tolist()
    assert [record.validation for record in seen] == model.valid_trace_.tolist()
    assert np.all(np.diff([record.seconds for record in seen]) > 0)
    assert same(seen[int(model.valid_trace_.argmax())].state, model.posterior_.state)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(ValueError, match="cannot be called"):
        nmar.CCPF(SETTINGS["full"], factors=3).fit(cells_of(SETTINGS["full"]), callbacks=["print"])


def counting(monkeypatch):
    """Sweeps that are made from now on, as a list that grows."""
    plain, made = FullSweeps.advance, []

    def advance(self, *given):
        made.append(1)
        return plain(*given)

    monkeypatch.setattr(FullSweeps, "advance", advance)
    return made


@pytest.mark.parametrize("link", ["free", None, "two-stage"], ids=str)
def test_sweeps_that_look_for_a_start_count_as_time(link, monkeypatch):
    made = counting(monkeypatch)
    cells = cells_of(SETTINGS["full"])
    given = {"factors": 3, "starts": "auto", "max_iter": 50, "max_time": 0.0, "random_state": 0}
    found = nmar.CCPF(SETTINGS["full"], link, **given).fit(cells)
    assert found.stop_reason_ == "max_time" and len(made) <= 6  # one of each kind, not 84 and more


@pytest.mark.parametrize(("most", "leader", "each"), [(30, 12, 24), (20, 12, 20), (2, 2, 2)])
def test_starts_are_as_many_as_asked_for_and_no_run_is_longer_than_the_fit_may_be(most, leader, each, monkeypatch):
    """The geometric leader is swept 12 times, then each start 24 times."""
    made, cells, swept = counting(monkeypatch), cells_of(SETTINGS["full"]), []
    for starts in (1, 2, 3, "auto"):
        del made[:]
        given = {"factors": 3, "max_iter": most, "tol": 0.0, "starts": starts, "random_state": 0}
        nmar.CCPF(SETTINGS["full"], "free", **given).fit(cells)
        swept.append(len(made) - most)
    assert swept == [0, leader + 2 * each, leader + 3 * each, leader + 3 * each]


@pytest.mark.parametrize("link", [None, "free", "linear", nmar.Free(thinning=8.0)], ids=str)
def test_a_fit_that_is_asked_for_no_search_is_one_run(link, monkeypatch):
    made = counting(monkeypatch)
    model = nmar.CCPF(SETTINGS["full"], link, factors=3, max_iter=3, tol=0.0, random_state=0)
    model.fit(cells_of(SETTINGS["full"]))
    assert model.n_iter_ == len(made) == 3


def test_the_progress_bar_is_told_of_every_sweep(monkeypatch):
    made, told = counting(monkeypatch), []
    options = Options(data=SETTINGS["full"], linkage="free", factors=3, starts="auto", max_iter=2, random_state=0)
    fitted = train(cells_of(SETTINGS["full"]), options, watch=lambda trace, *_: told.append(trace.seconds[-1]))
    assert len(told) == len(made) == 10
    assert fitted.trace.seconds[0] >= fitted.trace.before >= sum(told[k] for k in (1, 3, 5, 7))  # each run's last


def test_the_second_of_two_stages_goes_on_as_long_as_other_models():
    """The pattern's part of the bound stands still there, so that its relative gains are smaller."""
    cells, tol = cells_of(SETTINGS["full"]), 1e-3
    given = {"factors": 3, "tol": tol, "random_state": 0}
    plain, staged = (nmar.CCPF(SETTINGS["full"], link, **given).fit(cells) for link in ("ignorable", "two-stage"))
    gains = np.diff(staged.bound_trace_) / np.abs(staged.bound_trace_[1:])
    assert staged.stop_reason_ == "converged" and gains[-1] < 0.15 * tol
    assert staged.n_iter_ >= 0.7 * plain.n_iter_ > np.argmax(gains <= tol)


def test_counts_that_vary_more_than_poisson_start_from_a_table_bent_up():
    """From a flat one a single start stays in a mode that is worse by more than a tenth of a nat."""
    rng = np.random.default_rng(0)
    rate = rng.gamma(1.0, 1.0, (150, 2)) @ rng.gamma(1.0, 1.0, (2, 60))
    values = rng.poisson(rate * rng.gamma(1.0, 1.0, rate.shape)).astype(float)
    values[rng.random(values.shape) < 0.6] = np.nan
    train, _, test = nmar.Cells.from_dense(values).split(test=0.2, valid=0.0, seed=0)
    given = {"factors": 3, "max_iter": 40, "random_state": 0}
    scores = [
        nmar.CCPF(nmar.Factorization(2, family="poisson"), "free", starts=starts, **given)
        .fit(train)
        .log_likelihood(test)
        for starts in (1, "auto")
    ]
    assert scores[0] > scores[1] - 0.03


def test_states_that_callbacks_keep_stay_as_they_were():
    kept, seen = [], []

    def keep(record):
        kept.append(record.state)
        seen.append([array.copy() for array in arrays(record.state)])

    nmar.CCPF(SETTINGS["full"], "free", factors=3, max_iter=6, tol=0.0, starts=1, random_state=0).fit(
        cells_of(SETTINGS["full"]), callbacks=[keep]
    )
    for state, copies in zip(kept, seen, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(arrays(state), copies, strict=True))


def test_callbacks_see_the_sweeps_that_look_for_a_start():
    told = []
    model = nmar.CCPF(SETTINGS["full"], "free", factors=3, max_iter=4, tol=0.0, starts="auto", random_state=0)
    model.fit(cells_of(SETTINGS["full"]), callbacks=[told.append])
    phases = [record.phase for record in told]
    assert phases == sorted(phases, reverse=True)  # search, then fit
    assert phases.count("fit") == model.n_iter_ == 4
    assert phases.count("search") == 4 * 4  # three starts, one of them led by a short fit


def test_a_callback_stops_the_fit_not_the_search_before_it():
    told = []
    given = {"factors": 3, "max_iter": 50, "tol": 0.0, "starts": "auto", "random_state": 0}
    model = nmar.CCPF(SETTINGS["full"], "free", **given)
    model.fit(cells_of(SETTINGS["full"]), callbacks=[lambda record: told.append(record) or record.iteration == 4])
    assert model.stop_reason_ == "callback" and model.n_iter_ == 4
    assert len(told) == 3 * 24 + 12 + 4


def test_a_pattern_alone_goes_on_longer_unless_it_is_told():
    assert Options().tol == 1e-4
    assert Options(data=nmar.PatternOnly()).tol == 3e-5
    assert Options(data=nmar.PatternOnly(), tol=1e-3).tol == 1e-3
    assert Options(data=nmar.PatternOnly(), tol=0).tol == 0
