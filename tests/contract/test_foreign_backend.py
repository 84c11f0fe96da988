"""Nothing above the kernels takes a side for a NumPy array: a backend with arrays of its own fits every model.

Answers are those of the reference, whose loops it uses, to the last bit, and in a sweep nothing with a line axis
crosses between backend and host.
"""

from __future__ import annotations

import foreign
import numpy as np
import pytest
from sklearn.linear_model import Ridge

import nmar
from nmar.fit.executor import Serial
from nmar.fit.loop.run import FullSweeps, Progress, run
from nmar.fit.loop.stop import StopRule
from nmar.fit.problem import begin
from nmar.fit.solvers.schedule import Batches, Minibatch
from nmar.kernels import choose as choosing
from nmar.kernels.choose import choose
from nmar.models import half_sweep as halves
from nmar.models.context import Context
from nmar.models.missingness import Pattern
from nmar.models.noise import Noise
from nmar.models.state import map_arrays
from nmar.prob.arrays import is_array
from nmar.prob.linkage import linkage

pytestmark = pytest.mark.slow  # see CONTRIBUTING.md

ROWS, COLS = 30, 40
COVARIATES = np.random.default_rng(3).normal(size=(COLS, 2))
ROW_COVARIATES = np.random.default_rng(5).normal(size=(ROWS, 2))
MANY = np.random.default_rng(4).normal(size=(COLS, 70))  # more than a line has cells: the dual form
MODELS = {
    "full": nmar.Factorization(2),
    "diagonal": nmar.Factorization(2, covariance="diagonal"),
    "covariates": nmar.Factorization(2, cols=COVARIATES),
    "poisson": nmar.Factorization(2, family="poisson"),
    "effects": nmar.Effects("both"),
    "levels": nmar.Effects("rows", family="poisson"),
    "mixture": nmar.Mixture(2, restarts=1),
    "odds": nmar.Mixture(2, restarts=1, rows=ROW_COVARIATES, cols=COVARIATES),
    "counts": nmar.Mixture(2, family="poisson", restarts=1),
    "regression": nmar.Regression(COVARIATES),
    "dual": nmar.Regression(MANY),
    "regressor": nmar.Regressor(Ridge(), col_features=COVARIATES),
    "constant": nmar.Constant("gamma"),
    "normal-gamma": nmar.Constant("gaussian"),
    "by-value": nmar.Constant("negative_binomial"),
    "pattern": nmar.PatternOnly(),
}
STOCHASTIC = ("full", "diagonal", "poisson", "effects", "regression")
LINKS = {"free": linkage("free"), "thinned": nmar.Free(thinning=8.0), "ignorable": linkage("ignorable")}
ON_HOST = ("dual", "regressor")  # solved or fitted there, from what the loops leave


@pytest.fixture(autouse=True)
def offered(monkeypatch):
    """The backend by its name, and blocks so small that there are several, rows that are cut among them."""
    monkeypatch.setitem(choosing.BACKENDS, "foreign", "foreign")
    monkeypatch.setattr(halves, "BLOCK", 12)


def problem(name, link="free", hide=0.1, pattern=None, noise=None, weighted=False):
    data = MODELS[name]
    drawn = nmar.Factorization(2) if name in ("pattern", "regressor", "dual", "covariates", "odds") else data
    cells, _ = nmar.simulate((ROWS, COLS), drawn, nmar.Linear(0.2), 0.3, 0)
    hidden = None
    if hide:
        cells, _, hidden = cells.split(test=hide, valid=0.0, seed=0)
    if weighted:
        cells = cells.with_weights(np.random.default_rng(0).gamma(2.0, 0.5, len(cells)))
    found = LINKS["ignorable"] if name == "pattern" else LINKS[link]
    pattern = Pattern(3) if pattern is None else pattern.built(cells)
    return begin(cells, data.build(cells), found, pattern, hidden=hidden, seed=0, noise=noise)


def fitted(given, backend, minibatch=None, sweeps=2):
    schedule = FullSweeps()
    if minibatch is not None:
        settings = Minibatch(batch_size=10, remember=minibatch == "remembered")
        schedule = Batches(settings, given.observed, given.law, np.random.SeedSequence(0))
    context = Context(given.observed, given.law, choose(backend), Serial())
    return run(Progress(given.state), context, StopRule(sweeps, 0.0), schedule=schedule)


def arrays(record):
    found = []
    map_arrays(record, found.append)
    return found


def assert_same(one, other):
    assert one.trace.bound == other.trace.bound
    for a, b in zip(arrays(one.state.sides), arrays(other.state.sides), strict=True):
        assert isinstance(b, np.ndarray)
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("link", ["free", pytest.param("thinned", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MODELS)
def test_fits_are_those_of_the_reference(name, link):
    given = problem(name, link)
    assert_same(fitted(given, "reference"), fitted(given, "foreign"))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("link", "noise"), [("thinned", Noise()), ("ignorable", Noise((True, False), freedom=6.0))])
@pytest.mark.parametrize("name", ["full", "diagonal", "effects", "mixture", "regression", "regressor"])
def test_noise_by_row_and_column_too(name, link, noise, weighted):
    given = problem(name, link, noise=noise, weighted=weighted)
    assert_same(fitted(given, "reference"), fitted(given, "foreign"))


@pytest.mark.parametrize("minibatch", [None, "plain"])
@pytest.mark.parametrize("given", [{"rows": ROW_COVARIATES}, {"rows": ROW_COVARIATES, "cols": COVARIATES}], ids=len)
def test_covariates_of_the_pattern_too(given, minibatch):
    started = problem("effects", "thinned", pattern=Pattern(3, **given))
    assert_same(fitted(started, "reference", minibatch), fitted(started, "foreign", minibatch))


@pytest.mark.parametrize("minibatch", ["plain", pytest.param("remembered", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", STOCHASTIC)
def test_minibatches_are_those_of_the_reference(name, minibatch):
    given = problem(name, "thinned", hide=0.0)
    assert_same(fitted(given, "reference", minibatch), fitted(given, "foreign", minibatch))


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ON_HOST])
def test_lines_and_cells_stay_where_they_are(name):
    """One sweep more costs no more crossings than vectors over factors, coordinates and bins."""
    crossings = []
    for sweeps in (1, 2):
        given = problem(name)
        foreign.FETCHED.clear(), foreign.PLACED.clear()
        fitted(given, "foreign", sweeps=sweeps)
        crossings.append((list(foreign.FETCHED), list(foreign.PLACED)))
    (fetched, placed), (more_fetched, more_placed) = crossings
    assert len(more_placed) == len(placed)
    lines = [sum(shape[:1] in ((ROWS,), (COLS,)) for shape in shapes) for shapes in (fetched, more_fetched)]
    assert lines[0] == lines[1] > 0


def test_an_estimator_fits_validates_and_folds_in():
    cells, _ = nmar.simulate((ROWS, COLS), nmar.Factorization(2), nmar.Linear(0.2), 0.3, 0)
    train, valid, test = cells.split(0.2, 0.1, 0)
    found = []
    for backend in ("reference", "foreign"):
        model = nmar.CCPF(
            nmar.Factorization(2), "linear", factors=3, max_iter=4, starts=1, backend=backend, random_state=0
        )
        model.fit(train, valid=valid)
        found.append((list(model.bound_trace_), model.log_likelihood(test), model.transform(test)))
    (bound, score, loadings), (same_bound, same_score, same_loadings) = found
    assert bound == same_bound and score == same_score
    np.testing.assert_array_equal(loadings, same_loadings)


def test_what_is_not_offered_is_named():
    cells, _ = nmar.simulate((ROWS, COLS), nmar.Factorization(2, covariance="diagonal"), nmar.Linear(0.2), 0.3, 0)
    model = nmar.CCPF(nmar.Factorization(2, covariance="diagonal"), "linear", solver="entrywise", backend="foreign")
    with pytest.raises(NotImplementedError, match="backend='foreign' has no visit_normal"):
        model.fit(cells)


def test_foreign_arrays_refuse_what_they_should():
    lines = foreign.place(np.ones((5, 2)))
    with pytest.raises(TypeError, match="without being asked"):
        np.asarray(lines)
    with pytest.raises(TypeError, match="place it first"):
        lines + np.ones((5, 2))
    with pytest.raises(TypeError, match="must know"):
        np.sort(lines)
    assert is_array(lines) and isinstance((lines + np.ones(2)).fetch(), np.ndarray)
