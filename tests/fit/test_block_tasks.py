"""Executors: blocks are pure functions, so separate processes give the bits of threads, for every model and solver."""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np
import pytest
from problems_fit import same
from sklearn.linear_model import Ridge

import nmar
from nmar.fit.executor import Serial, Threads
from nmar.fit.loop.run import FullSweeps, Progress, run
from nmar.fit.loop.stop import StopRule
from nmar.fit.problem import begin
from nmar.fit.solvers.schedule import Batches, Minibatch
from nmar.kernels.choose import choose
from nmar.models import half_sweep as halves
from nmar.models.context import Context
from nmar.models.missingness import Pattern
from nmar.prob.linkage import linkage

pytestmark = pytest.mark.slow  # see CONTRIBUTING.md

COVARIATES = np.random.default_rng(3).normal(size=(40, 2))
MODELS = {
    "full": nmar.Factorization(2),
    "diagonal": nmar.Factorization(2, covariance="diagonal"),
    "poisson": nmar.Factorization(2, family="poisson"),
    "effects": nmar.Effects("both"),
    "mixture": nmar.Mixture(2, restarts=1),
    "regression": nmar.Regression(COVARIATES),
    "regressor": nmar.Regressor(Ridge(), col_features=COVARIATES),
    "constant": nmar.Constant("gamma"),
    "by-value": nmar.Constant("negative_binomial"),
    "pattern": nmar.PatternOnly(),
}
STOCHASTIC = ("full", "diagonal", "poisson", "effects", "regression")
LINKS = {"free": linkage("free"), "thinned": nmar.Free(thinning=8.0)}


class Processes:
    """Every task in another process: whatever it reads and returns is pickled."""

    shares_memory = False

    def __init__(self, pool):
        self._pool = pool

    def map(self, task, common, parts):
        """``[task(common, part) for part in parts]``."""
        return list(self._pool.map(partial(task, common), parts))


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, mp_context=get_context("forkserver")) as pool:
        yield Processes(pool)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Many blocks, and rows that are longer than one: they are cut into segments."""
    monkeypatch.setattr(halves, "BLOCK", 12)


def problem(name, link, hide=0.0):
    data = MODELS[name]
    drawn = nmar.Factorization(2) if name in ("pattern", "regressor") else data
    cells, _ = nmar.simulate((30, 40), drawn, nmar.Linear(0.2), 0.3, 0)
    hidden = None
    if hide:
        cells, _, hidden = cells.split(test=hide, valid=0.0, seed=0)
    found = linkage("ignorable") if name == "pattern" else LINKS[link]
    return begin(cells, data.build(cells), found, Pattern(3), hidden=hidden, seed=0)


def fitted(given, executor, minibatch=False):
    schedule = FullSweeps()
    if minibatch:
        settings = Minibatch(batch_size=10, remember=minibatch == "remembered")
        schedule = Batches(settings, given.observed, given.law, np.random.SeedSequence(0))
    context = Context(given.observed, given.law, choose("numba"), executor)
    return run(Progress(given.state), context, StopRule(2, 0.0), schedule=schedule)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("name", MODELS)
def test_processes_give_the_bits_of_threads(name, link, processes):
    given = problem(name, link, hide=0.1)
    with ThreadPoolExecutor(2) as pool:
        threads = fitted(given, Threads(pool))
    apart = fitted(given, processes)
    assert same(threads.state.sides, apart.state.sides)
    assert same(threads.state.shared.linkage, apart.state.shared.linkage)
    assert threads.trace.bound == apart.trace.bound


@pytest.mark.parametrize("minibatch", ["plain", "remembered"])
@pytest.mark.parametrize("name", STOCHASTIC)
def test_minibatches_in_processes_give_the_bits_of_one_thread(name, minibatch, processes):
    given = problem(name, "thinned")
    whole, apart = fitted(given, Serial(), minibatch), fitted(given, processes, minibatch)
    assert same(whole.state.sides, apart.state.sides)
    assert whole.trace.bound == apart.trace.bound


def test_a_block_leaves_everything_it_was_given_as_it_was():
    given = problem("full", "thinned")
    seen = []

    class Watching(Serial):
        """Compares what a task was given before and after."""

        shares_memory = False

        def map(self, task, common, parts):
            found = []
            for part in parts:
                before = pickle.dumps((common, part))
                found.append(task(common, part))
                seen.append(task.__name__)
                assert pickle.dumps((common, part)) == before
            return found

    fitted(given, Watching())
    assert "update_lines" in seen
