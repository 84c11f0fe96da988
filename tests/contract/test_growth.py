"""The contract of growth: a model that is given more cells ends where a fit of all of them ends.

One table of data models, linkages and controls. ``partial_fit`` with new rows, new columns and new cells of known
lines, run until nothing moves, is compared with a fit of all cells in the units of the first ones (theory.md, Units):
by what it predicts where the optimum is unique, else by its bound. ``fold_in`` of a row is the same to the last bit
whatever else is folded in.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from problems import CONSTANTS
from sklearn.linear_model import LinearRegression

import nmar
import nmar.fit.problem
from nmar.fit.foldin import fold_in

pytestmark = pytest.mark.slow  # see CONTRIBUTING.md

SHAPE, FIRST = (30, 20), (24, 16)  # of all cells, and of the first ones: rows lead from the start
X = np.random.default_rng(3).normal(size=(SHAPE[1], 2))
NAMED = pd.DataFrame(X, columns=["a", "b"])  # its index holds the ids of the columns
BY_ROW = pd.DataFrame(np.random.default_rng(4).normal(size=(SHAPE[0], 2)))

MODELS = {
    "full": nmar.Factorization(2),
    "diagonal": nmar.Factorization(2, covariance="diagonal"),
    "poisson": nmar.Factorization(2, family="poisson"),
    "effects-rows": nmar.Effects("rows"),
    "effects-both": nmar.Effects("both"),
    "poisson-effects-both": nmar.Effects("both", "poisson"),
    "mixture-rows": nmar.Mixture(2),
    "mixture-cols": nmar.Mixture(2, "cols"),
    "poisson-mixture-rows": nmar.Mixture(2, "rows", "poisson"),
    **CONSTANTS,
    "regression": nmar.Regression(NAMED),
    "regression-diagonal": nmar.Regression(NAMED, covariance="diagonal"),
    "regression-cols": nmar.Regression(BY_ROW, axis="cols"),
    "regressor": nmar.Regressor(LinearRegression(), col_features=X),
    "pattern-only": nmar.PatternOnly(),
}


def data_of(model, shape):
    """The settings of a model for a matrix of this shape: a regressor takes features in the order of the matrix."""
    return nmar.Regressor(LinearRegression(), col_features=X[: shape[1]]) if model == "regressor" else MODELS[model]


def drawn(model):
    """All cells, drawn from the model, and the first of them: fewer rows, fewer columns, nine tenths of the rest.

    Which are observed follows two blocks so clearly that the pattern has one optimum.
    """
    data = nmar.Effects("both") if model == "pattern-only" else MODELS[model]
    dispersion = 7.0 if model == "constant-binomial" else 1.0
    cells, _ = nmar.simulate(SHAPE, data, "ignorable", density=0.9, seed=4, dispersion=dispersion)
    i, j = cells.positions()
    rng = np.random.default_rng(1)
    cells = cells.select(rng.random(len(cells)) < np.where(i % 2 == j % 2, 0.9, 0.02))
    inside = cells.take_rows(np.arange(FIRST[0])).T.take_rows(np.arange(FIRST[1])).T
    return cells, inside.select(rng.random(len(inside)) < 0.9)


def model_of(name, shape=SHAPE, **settings):
    given = {"linkage": "ignorable", "factors": 2, "random_state": 0, "n_jobs": 1, "tol": 0.0, "starts": 1, **settings}
    return nmar.CCPF(data_of(name, shape), **given)


def grown_and_fresh(name, monkeypatch, sweeps, **settings):
    """A model grown to all cells, and one fitted to all of them in the same units; each after many sweeps."""
    cells, first = drawn(name)
    grown = model_of(name, FIRST, max_iter=sweeps, **settings).fit(first)
    units = grown.posterior_.units
    grown.set_params(data=data_of(name, SHAPE)).partial_fit(cells, sweeps=sweeps)
    monkeypatch.setattr(nmar.fit.problem, "units_of", lambda *given: units)
    return grown, model_of(name, max_iter=sweeps, **settings).fit(cells)


def no_worse(grown, fresh):
    """Grown models have had more sweeps, so they are ahead on the way to one optimum; the slack is for rounding."""
    assert (grown.posterior_.rows.size, grown.posterior_.cols.size) == SHAPE
    assert grown.bound_trace_[-1] >= fresh.bound_trace_[-1] - 1e-9 * abs(fresh.bound_trace_[-1])


# models of one optimum, and how far from it 60 sweeps may be, in standard deviations of the values: what is left is the
# precision of a search (dispersions of the scalar families) or of empirical Bayes (prior variances of the regressions);
# with noise by row and column it is that of the noise's prior, which 60 sweeps know to some hundredths
SHARP = {name: 1e-7 for name in MODELS if name.startswith(("constant", "effects", "regressor"))}
SHARP.update({"mixture-rows": 1e-7, "mixture-cols": 1e-7, "regression": 1e-5})


GAUSSIAN = ("effects", "mixture", "regress")


@pytest.mark.parametrize("name", MODELS)
def test_a_grown_model_is_that_of_all_cells(name, monkeypatch):
    grown, fresh = grown_and_fresh(name, monkeypatch, 60, noise="constant")
    no_worse(grown, fresh)
    i, j = np.divmod(np.arange(SHAPE[0] * SHAPE[1]), SHAPE[1])
    np.testing.assert_allclose(grown.observed_probability(i, j), fresh.observed_probability(i, j), atol=2e-3)
    if name in SHARP:
        (mean, sd), (its_mean, its_sd) = (m.predict_entries(i, j, return_std=True) for m in (grown, fresh))
        assert np.max(np.abs(mean - its_mean) / its_sd) < SHARP[name]
        np.testing.assert_allclose(sd, its_sd, rtol=10.0 * SHARP[name])


@pytest.mark.parametrize("name", [name for name in SHARP if name.startswith(GAUSSIAN)])
def test_a_grown_model_with_noise_by_row_and_column_is_that_of_all_cells(name, monkeypatch):
    grown, fresh = grown_and_fresh(name, monkeypatch, 60)
    no_worse(grown, fresh)
    i, j = np.divmod(np.arange(SHAPE[0] * SHAPE[1]), SHAPE[1])
    (mean, sd), (its_mean, its_sd) = (m.predict_entries(i, j, return_std=True) for m in (grown, fresh))
    assert np.max(np.abs(mean - its_mean) / its_sd) < 0.1
    np.testing.assert_allclose(sd, its_sd, rtol=0.1)


BENT = nmar.Linear(0.2, learn=False)
COUPLED = [(name, nmar.Compound() if name == "constant-binomial" else BENT, False) for name in MODELS]
COUPLED = [case for case in COUPLED if case[0] != "pattern-only"]
for model in ("full", "effects-both", "constant-gamma"):
    COUPLED += [(model, BENT, "tail")]
COUPLED += [("full", nmar.Geometric(0.1, mean="shift"), False), ("effects-rows", "free", False)]
COUPLED += [(name, "two-stage", False) for name in ("full", "effects-both", "regression", "regressor")]


def named(value):
    return value if isinstance(value, str) else getattr(value, "name", None) or str(value)


@pytest.mark.parametrize(("name", "link", "control"), COUPLED, ids=named)
def test_coupled_models_and_controls_grow(name, link, control, monkeypatch):
    no_worse(*grown_and_fresh(name, monkeypatch, 25, linkage=link, control=control))


@pytest.mark.parametrize(
    "name", ["constant-gamma", "effects-both", "poisson-effects-both", "mixture-rows", "regressor"]
)
def test_the_same_cells_again_are_a_longer_fit(name):
    cells, _ = drawn(name)
    longer = model_of(name, max_iter=9, linkage=BENT).fit(cells)
    again = model_of(name, max_iter=5, linkage=BENT).fit(cells).partial_fit(cells, sweeps=4)
    np.testing.assert_allclose(again.bound_trace_, longer.bound_trace_[5:], rtol=1e-12)


# --- fold-in --------------------------------------------------------------------------------------------------------

FOLDED = [(name, "ignorable", False) for name in MODELS if name != "regression-cols"]
FOLDED += [(name, BENT, "tail") for name in ("full", "diagonal", "regressor")]
FOLDED += [(name, "free", False) for name in ("full", "effects-both", "poisson", "constant-negative-binomial")]
FOLDED += [(name, "two-stage", False) for name in ("full", "effects-both", "regressor")]


def answers(model, rows):
    """Everything that is said of some rows."""
    i, j = np.repeat(rows, FIRST[1]), np.tile(np.arange(FIRST[1]), len(rows))
    chance = model.observed_probability(i, j)
    if isinstance(model.data, nmar.PatternOnly):
        return (chance,)
    return (chance, *model.predict_entries(i, j, return_std=True))


@pytest.mark.parametrize(("name", "link", "control"), FOLDED, ids=named)
def test_a_row_is_the_same_whatever_else_is_folded_in(name, link, control):
    cells, first = drawn(name)
    model = model_of(name, FIRST, linkage=link, control=control, max_iter=5).fit(first)
    new = cells.T.take_rows(np.arange(FIRST[1])).T
    some, rows = np.array([2, 25, 28]), np.arange(SHAPE[0])
    alone = answers(model.fold_in(new.take_rows(some)), some)
    for others in (rows, rows[::-1], np.array([28, 3, 4, 25, 2])):
        together = answers(model.fold_in(new.take_rows(others)), some)
        for one, two in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one, two)


def test_long_rows_are_the_same_too():
    """Lines of more cells than a tile of the compiled loops begin anywhere in one."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(7, 700))
    table[rng.random(table.shape) < 0.3] = np.nan
    table[0, 90:] = np.nan
    cells = nmar.Cells.from_dense(table)
    model = nmar.CCPF(MODELS["effects-rows"], BENT, factors=2, max_iter=3, random_state=0, n_jobs=1).fit(cells)
    together, alone = model.fold_in(cells), model.fold_in(cells.take_rows([3]))
    for m in (together, alone):
        m.lines = m.posterior_.state.sides[0].take(slice(3, 4) if m is together else slice(None))
    np.testing.assert_array_equal(together.lines.pattern.weights.beta, alone.lines.pattern.weights.beta)
    np.testing.assert_array_equal(together.lines.pattern.weights.alpha, alone.lines.pattern.weights.alpha)
    np.testing.assert_array_equal(together.lines.data.mean, alone.lines.data.mean)


def test_a_training_row_comes_back_to_itself():
    cells, _ = drawn("effects-both")
    model = model_of("effects-both", linkage=BENT, max_iter=200).fit(cells)
    found = fold_in(model.posterior_, cells, tol=1e-8, max_iter=2000, n_jobs=1)
    mine, its = (known.state.sides[0].data.mean for known in (found, model.posterior_))
    np.testing.assert_allclose(mine, its, atol=1e-4)


def test_rows_of_two_stages_have_the_pattern_of_the_first_and_effects_of_the_second():
    cells, first = drawn("effects-both")
    new = cells.T.take_rows(np.arange(FIRST[1])).T
    both, pattern = (
        model_of(name, linkage=link, max_iter=30).fit(first)
        for name, link in (("effects-both", "two-stage"), ("pattern-only", "ignorable"))
    )
    np.testing.assert_array_equal(
        both.fold_in(new).observed_probability(*new.pairs()), pattern.fold_in(new).observed_probability(*new.pairs())
    )
    # P(observed) of a folded row is not quite that of the fit, and a cell may lie in the next of 64 bins
    mine, its = both.fold_in(first).predict_entries(*first.pairs()), both.predict_entries(*first.pairs())
    np.testing.assert_allclose(mine, its, atol=0.05 * np.std(its))


# --- faults there were ------------------------------------------------------------------------------------------------


def test_a_constant_counts_the_new_cells():
    cells, first = drawn("constant-gamma")
    more = cells.map_values(lambda y: y * np.where(np.arange(len(y)) % 2, 100.0, 1.0))
    grown = model_of("constant-gamma", max_iter=40).fit(first).partial_fit(more, sweeps=40)
    fresh = model_of("constant-gamma", max_iter=40).fit(more)
    assert grown.predict_entries([0], [0]) == pytest.approx(fresh.predict_entries([0], [0]), rel=1e-6)


@pytest.mark.parametrize("backend", ["numba", "reference"])
def test_two_stage_takes_cells_of_known_lines(backend):
    cells, first = drawn("full")
    more = cells.take_rows(np.arange(FIRST[0])).T.take_rows(np.arange(FIRST[1])).T
    model = model_of("full", linkage="two-stage", max_iter=5, backend=backend).fit(first).partial_fit(more)
    assert len(more) > len(first)
    assert np.isfinite(model.log_likelihood(more))


@pytest.mark.parametrize("part", ["hidden", "valid"])
def test_hidden_cells_stay_hidden(part):
    """Until they are given: then they are observed."""
    cells, _ = drawn("effects-both")
    train, _, away = cells.split(test=0.3, valid=0.0, seed=0)
    model = model_of("effects-both", max_iter=40, patience=40).fit(train, **{part: away})
    before, pairs = model.observed_probability(*away.pairs()).mean(), away.pairs()
    some = train.select(np.arange(len(train)) < 3)
    model.partial_fit(some, sweeps=40)
    assert model.observed_probability(*pairs).mean() == pytest.approx(before, abs=0.03)
    model.partial_fit(away, sweeps=40)
    assert model.observed_probability(*pairs).mean() > before + 0.03


def test_posteriors_hold_the_factors_alone():
    cells, first = drawn("full")
    model = model_of("full", max_iter=3).fit(first).partial_fit(cells)
    batches = [cells.take_rows(np.arange(15)), cells.take_rows(np.arange(15, 30))]
    stream = nmar.CCPF(MODELS["full"], "linear", factors=2, solver="minibatch", random_state=0).fit(batches)
    for posterior in (model.posterior_, stream.posterior_, model.fold_in(cells).posterior_):
        assert all(side.pattern.geometric is None for side in posterior.state.sides)
    assert list(stream.posterior_.rows.ids) == list(range(15, 30))


@pytest.mark.parametrize(
    ("first_data", "named_ids"),
    [
        (nmar.Regression(X[: FIRST[1]]), "columns 16, 17, 18 and 1 more"),
        (nmar.Regression(NAMED[: FIRST[1]]), "columns 16, 17, 18 and 1 more"),
        (nmar.Regressor(LinearRegression(), BY_ROW.to_numpy()[: FIRST[0]]), "rows 24, 25, 26 and 3 more"),
    ],
    ids=["array", "frame", "regressor"],
)
def test_new_lines_without_covariates_are_refused_by_id(first_data, named_ids):
    cells, first = drawn("regression")
    model = nmar.CCPF(first_data, "ignorable", factors=2, max_iter=3, random_state=0).fit(first)
    with pytest.raises(ValueError, match=rf"{named_ids}.*set_params"):
        model.partial_fit(cells)


@pytest.mark.parametrize(("name", "axis"), [("regression", "cols"), ("regression-cols", "rows"), ("regressor", "cols")])
def test_lines_with_covariates_are_not_folded_in(name, axis):
    cells, first = drawn(name)
    model = model_of(name, FIRST, max_iter=3).fit(first)
    new = cells.T.take_rows(np.arange(FIRST[1], SHAPE[1])).T.take_rows(np.arange(FIRST[0]))
    if axis == "rows":
        new = cells.take_rows(np.arange(FIRST[0], SHAPE[0])).T.take_rows(np.arange(FIRST[1])).T
    with pytest.raises(ValueError, match=rf"{'columns 16' if axis == 'cols' else 'rows 24'}.*cannot be folded in"):
        model.fold_in(new, axis=axis)


def test_another_data_model_is_refused():
    cells, first = drawn("full")
    model = model_of("full", max_iter=3).fit(first)
    for other in (nmar.Factorization(3), nmar.Effects("both"), nmar.Mixture(2)):
        with pytest.raises(ValueError, match="fit again"):
            model.set_params(data=other).partial_fit(cells)


def test_values_that_the_family_cannot_have_are_refused():
    cells, first = drawn("constant-binomial")
    model = model_of("constant-binomial", max_iter=3).fit(first)
    wrong = cells.map_values(lambda y: y + 8.0)
    with pytest.raises(ValueError, match="trials"):
        model.partial_fit(wrong)
    with pytest.raises(ValueError, match="trials"):
        model.fold_in(wrong.T.take_rows(np.arange(FIRST[1])).T)
