"""Ctrl-C and SIGTERM: nothing is trapped, the last finished sweep is kept, and the caller hears of it."""

from __future__ import annotations

import signal
import threading

import numpy as np
import pytest
from problems_fit import SETTINGS, cells_of, same

import nmar
from nmar.fit.executor import Serial, threads
from nmar.fit.solvers.schedule import Minibatch

pytestmark = pytest.mark.usefixtures("ctrl_c_is_heard")

COMMON = {"data": SETTINGS["full"], "factors": 3, "random_state": 0, "tol": 0.0, "n_jobs": 1, "max_iter": 9}
PLAIN = COMMON | {"linkage": "linear", "starts": 1}
SOLVERS = {
    "batch": PLAIN,
    "minibatch": PLAIN | {"solver": Minibatch(batch_size=20, passes=9)},
    "entrywise": PLAIN | {"data": SETTINGS["diagonal"], "solver": nmar.Entrywise(visits=3000)},
}


@pytest.fixture(scope="module")
def cells():
    return cells_of(SETTINGS["full"])


class CtrlC:
    """A callback after which the next task of a half sweep meets Ctrl-C."""

    def __init__(self, monkeypatch, after):
        self.after, self.armed, self.hits = after, after == 0, 0
        plain = Serial.map

        def interrupted(executor, task, common, parts):
            if self.armed:
                self.armed, self.hits = False, self.hits + 1
                signal.raise_signal(signal.SIGINT)
            return plain(executor, task, common, parts)

        monkeypatch.setattr(Serial, "map", interrupted)

    def __call__(self, record):
        self.armed = record.phase == "fit" and record.iteration == self.after


@pytest.mark.parametrize("name", SOLVERS)
def test_ctrl_c_within_a_sweep_raises_and_keeps_the_last_finished_one(name, cells, monkeypatch):
    whole = nmar.CCPF(**{**SOLVERS[name], "max_iter": 3}).fit(cells)
    model, ctrl_c = nmar.CCPF(**SOLVERS[name]), CtrlC(monkeypatch, after=3)
    with pytest.raises(KeyboardInterrupt):
        model.fit(cells, callbacks=[ctrl_c])
    assert model.stop_reason_ == "interrupted" and model.n_iter_ == 3
    assert same(model.posterior_.state, whole.posterior_.state)
    assert np.array_equal(model.bound_trace_, whole.bound_trace_)
    assert np.isfinite(model.score(cells))
    assert model.recommend([0], n=2)[0].shape == (1, 2)


def test_a_fit_may_be_asked_to_keep_what_it_has(cells, monkeypatch):
    ctrl_c = CtrlC(monkeypatch, after=2)
    model = nmar.CCPF(**PLAIN).fit(cells, callbacks=[ctrl_c], on_interrupt="keep")
    assert (model.stop_reason_, model.n_iter_, ctrl_c.hits) == ("interrupted", 2, 1)
    with pytest.raises(ValueError, match="on_interrupt='stop'"):
        model.fit(cells, on_interrupt="stop")


def test_ctrl_c_in_a_callback_keeps_the_sweep_it_was_told_of(cells):
    model = nmar.CCPF(**PLAIN)
    with pytest.raises(KeyboardInterrupt):
        model.fit(cells, callbacks=[lambda record: record.iteration == 2 and signal.raise_signal(signal.SIGINT)])
    assert (model.stop_reason_, model.n_iter_) == ("interrupted", 2)


@pytest.mark.parametrize("keep", ["raise", "keep"])
@pytest.mark.parametrize("linkage", ["linear", None, "auto", "two-stage"])
def test_before_the_first_sweep_there_is_nothing_to_keep(linkage, keep, cells, monkeypatch):
    ctrl_c = CtrlC(monkeypatch, after=0)
    model = nmar.CCPF(**COMMON, linkage=linkage)
    with pytest.raises(KeyboardInterrupt):
        model.fit(cells, on_interrupt=keep)
    assert not hasattr(model, "posterior_") and not hasattr(model, "stop_reason_")
    assert ctrl_c.hits == 1


@pytest.mark.parametrize("linkage", ["auto", "two-stage"])
def test_fits_that_only_prepare_another_are_not_kept_and_nothing_follows(linkage, cells, monkeypatch):
    ctrl_c, told = CtrlC(monkeypatch, after=2), []
    model = nmar.CCPF(**COMMON, linkage=linkage)
    with pytest.raises(KeyboardInterrupt):
        model.fit(cells, callbacks=[ctrl_c, told.append], on_interrupt="keep")
    assert [record.iteration for record in told] == [1, 2]
    assert not hasattr(model, "posterior_")


def test_what_was_chosen_is_kept_too(cells, monkeypatch):
    ctrl_c = CtrlC(monkeypatch, after=1)
    model = nmar.CCPF(**{**COMMON, "factors": "auto"}, linkage=nmar.Free(thinning=8.0))
    with pytest.raises(KeyboardInterrupt):
        model.fit(cells, callbacks=[ctrl_c])
    assert model.n_iter_ == 1 and {choice.setting for choice in model.choices_} == {"factors"}


def test_an_interrupted_fit_goes_on_from_its_checkpoint(cells, monkeypatch, tmp_path):
    whole = nmar.CCPF(**PLAIN).fit(cells)
    with pytest.raises(KeyboardInterrupt):
        nmar.CCPF(**PLAIN).fit(cells, checkpoint=tmp_path, callbacks=[CtrlC(monkeypatch, after=4)])
    told = []
    resumed = nmar.CCPF(**PLAIN).fit(cells, checkpoint=tmp_path, resume=True, callbacks=[told.append])
    assert told[0].iteration == 5
    assert same(whole.posterior_.state, resumed.posterior_.state)


def test_validation_is_as_long_as_the_bound(cells, monkeypatch):
    train, valid, _ = cells.split(test=0.1, valid=0.1, seed=0)
    model = nmar.CCPF(**PLAIN)
    with pytest.raises(KeyboardInterrupt):
        model.fit(train, valid=valid, callbacks=[CtrlC(monkeypatch, after=3)])
    assert len(model.valid_trace_) == len(model.bound_trace_) == 3


def test_a_stream_keeps_rows_that_belong_to_its_state(cells, monkeypatch):
    batches = [cells.take_rows(np.arange(start, start + 15)) for start in (0, 15, 30, 45)]
    model = nmar.CCPF(**{**PLAIN, "solver": Minibatch(passes=9)})
    done = [0]

    def stream():
        for k, batch in enumerate(batches):
            if done[0] == 2 and k == 2:  # batches of the third pass have been used
                signal.raise_signal(signal.SIGINT)
            yield batch

    def told(record):
        done[0] = record.iteration

    with pytest.raises(KeyboardInterrupt):
        model.fit(stream, callbacks=[told])
    assert (model.stop_reason_, model.n_iter_) == ("interrupted", 2)
    assert model.posterior_.rows == batches[-1].rows
    assert len(model.posterior_.rows) == len(model.posterior_.state.sides[0].pattern.weights.alpha)


def test_growth_is_interrupted_alike(cells, monkeypatch):
    first, more = cells.take_rows(np.arange(40)), cells.take_rows(np.arange(40, 60))
    model = nmar.CCPF(**PLAIN).fit(first)
    sweeps = CtrlC(monkeypatch, after=-1)
    plain, calls = nmar.fit.loop.run.FullSweeps.advance, []

    def advance(self, *given):
        calls.append(1)
        sweeps.armed = len(calls) == 3
        return plain(*given)

    monkeypatch.setattr(nmar.fit.loop.run.FullSweeps, "advance", advance)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(more)
    assert (model.stop_reason_, model.n_iter_) == ("interrupted", 2)
    assert len(model.posterior_.rows) == 60 and np.isfinite(model.score(cells))


def test_a_regressor_is_interrupted_while_it_is_fitted(cells):
    from sklearn.linear_model import LinearRegression

    features = np.random.default_rng(0).normal(size=(60, 2))
    fits = []

    class Slow(LinearRegression):
        def fit(self, X, y, sample_weight=None):
            fits.append(1)
            if len(fits) == 8:
                signal.raise_signal(signal.SIGINT)
            return super().fit(X, y, sample_weight)

    model = nmar.CCPF(**{**PLAIN, "data": nmar.Regressor(Slow(), row_features=features)})
    with pytest.raises(KeyboardInterrupt):
        model.fit(cells)
    assert model.stop_reason_ == "interrupted" and len(fits) == 8
    assert 1 <= model.n_iter_ < 9 and np.isfinite(model.score(cells))


def test_comparisons_end_with_the_fit_that_is_interrupted(cells, monkeypatch):
    ctrl_c = CtrlC(monkeypatch, after=0)
    with pytest.raises(KeyboardInterrupt):
        nmar.compare(cells, "factorization:2", ["linear"], factors=3, max_iter=3, seeds=1, n_jobs=1)
    assert ctrl_c.hits == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_no_signal_is_trapped(number, cells):
    handler, found = signal.getsignal(number), []
    nmar.CCPF(**PLAIN).fit(cells, callbacks=[lambda record: found.append(signal.getsignal(number))])
    assert len(found) == 9 and all(each is handler for each in found)


def test_pending_tasks_are_given_up_and_running_ones_not_waited_for():
    handed_out, free = threading.Event(), threading.Event()
    begun, ended = [], []

    def blocks():
        yield from ((k, k + 1) for k in range(50))
        handed_out.set()

    def task(common, block):
        handed_out.wait()
        begun.append(block)
        if block == (0, 1):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        ended.append(free.wait(5.0))

    with pytest.raises(KeyboardInterrupt), threads(2) as executor:
        executor.map(task, None, blocks())
    free.set()  # a pool that waits for its tasks has waited for this
    assert len(begun) <= 2 and all(ended)
