"""Ordinal values: a bound that never falls, cut points at rest, recovery, and predictions that follow the levels."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import nmar
from nmar.evaluate.scoring import probability_integral
from nmar.fit.executor import threads
from nmar.fit.problem import begin
from nmar.kernels.choose import choose
from nmar.models.bound import bound
from nmar.models.context import Context
from nmar.models.half_sweep import half_sweep
from nmar.models.missingness import Pattern
from nmar.models.noise import Noise
from nmar.models.shared import balanced_noise, update_shared
from nmar.models.state import State
from nmar.posterior import levels
from nmar.prob.cuts import EXTRA, better_cuts, log_prior
from nmar.prob.truncated import truncated
from nmar.report.single import model_page

CUTS = {"one": [[-1.5, -0.2, 0.5, 2.0]], "two": [[-1.5, -0.2, 0.5, 2.0], [-2.5, -1.0, 1.4, 1.6]]}
MODELS = {
    "full": nmar.Factorization(2, family="levels"),
    "diagonal": nmar.Factorization(2, covariance="diagonal", family="levels"),
    "effects": nmar.Effects("both", family="levels"),
    "mixture": nmar.Mixture(2, restarts=1, family="levels"),
}
NOISES = {"constant": None, "by line": Noise()}


def rated(shape=(40, 30), seed=0, share=0.5, cuts="two", values=(1.0, 2.0, 3.0, 4.0, 5.0)):
    """Ratings of a low-rank table through cut points, which rows take in turn, and the latent values."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(shape[0], 2)) @ rng.normal(size=(2, shape[1])) + 0.7 * rng.normal(size=shape)
    place = np.stack([np.searchsorted(CUTS[cuts][i % len(CUTS[cuts])], row) for i, row in enumerate(latent)])
    row, col = np.nonzero(rng.random(shape) < share)
    return nmar.Cells.from_arrays(row, col, np.array(values)[place[row, col]], shape), latent


def started(model, cells, noise=None, styles=1, by="rows"):
    settings = replace(MODELS[model], styles=styles, styles_by=by)
    data, levels = settings.build(cells), settings.level_settings()
    return begin(cells, data, nmar.Ignorable(), Pattern(2), seed=1, noise=noise, levels=levels)


def bounds_of(problem, sweeps, threads_=1):
    """The bound before every half sweep and after every update of what all cells share."""
    state, found = problem.state, []
    with threads(threads_) as executor:
        context = Context(problem.observed, problem.law, choose("numba"), executor)
        for _ in range(sweeps):
            for axis in (problem.law.lead, 1 - problem.law.lead):
                side, info, _ = half_sweep(axis, state, context)
                found.append(bound(state, info.log_z, problem.law))
                state = state.with_side(axis, side)
                state = balanced_noise(axis, State(state.sides, update_shared(axis, state, info, problem.law)))
    return np.array(found), state


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("styles", "by"), [(1, "rows"), (2, "rows"), (3, "cols")])
@pytest.mark.parametrize("model", MODELS)
def test_the_bound_never_falls(model, styles, by, noise):
    cells, _ = rated()
    cells = cells.with_weights(np.random.default_rng(2).choice([0.5, 1.0, 2.0], len(cells)))
    found, _ = bounds_of(started(model, cells, NOISES[noise], styles, by), 12)
    steps = np.diff(found)
    assert np.all(steps > -1e-9 * np.abs(found[0])), steps.min()
    assert found[-1] > found[2]


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_few_levels(levels):
    """One level has nothing to learn, two are a probit, three have both cut points anchored."""
    cells, _ = rated()
    few = cells.with_values(np.minimum(cells.values, float(levels)))
    found, state = bounds_of(started("full", few, Noise()), 10)
    assert np.all(np.diff(found) > -1e-9 * np.abs(found[0]))
    assert state.shared.reader.cuts.shape == (1, levels - 1)


def sums_of(cuts, m, sd, level, style):
    """What cells give to a step of the cut points, and their log probability."""
    ends = np.pad(cuts, ((0, 0), (1, 1)), constant_values=((0, 0), (-np.inf, np.inf)))
    law = truncated((ends[style, level] - m) / sd, (ends[style, level + 1] - m) / sd)
    out = np.zeros((len(cuts), cuts.shape[1] + 1, 4))
    np.add.at(out, (style, level), np.stack([np.ones_like(m), law.at_low / sd, law.at_high / sd, 1.0 / sd**2], axis=1))
    return out, float(law.log_mass.sum()) + log_prior(cuts)


@pytest.mark.parametrize("styles", [1, 2])
@pytest.mark.parametrize("levels", [3, 4, 6])
def test_steps_of_cut_points_raise_the_bound_to_where_it_is_flat(levels, styles):
    rng = np.random.default_rng(levels)
    m, sd, style = rng.normal(size=500), rng.gamma(3.0, 0.3, 500) + 0.1, rng.integers(0, styles, 500)
    level = np.minimum(rng.integers(0, levels + 1, 500), levels - 1)
    level[level == 1] = 0  # nobody uses this one
    cuts = np.sort(rng.normal(size=(styles, levels - 1)), axis=1)
    share = np.bincount(style, minlength=styles) + EXTRA
    held = [(share[:, None] * cuts[:, [0, -1]]).sum(axis=0)]
    values = []
    for _ in range(400):
        sums, value = sums_of(cuts, m, sd, level, style)
        values.append(value)
        cuts = better_cuts(cuts, sums)
        assert np.all(np.diff(cuts, axis=1) > 0.0)
    assert np.all(np.diff(values) > -1e-10 * abs(values[0]))
    np.testing.assert_allclose((share[:, None] * cuts[:, [0, -1]]).sum(axis=0), held[0], rtol=1e-9)
    slope = np.zeros_like(cuts)
    for at in np.ndindex(*cuts.shape):
        move = np.zeros_like(cuts)
        move[at] = 1e-5
        slope[at] = (sums_of(cuts + move, m, sd, level, style)[1] - sums_of(cuts - move, m, sd, level, style)[1]) / 2e-5
    for end in (0, -1):  # along what is held the slope of every style is its share of one number
        slope[:, end] -= share * (slope[:, end] @ share) / (share @ share)
    assert np.abs(slope).max() < 1e-3


def fitted(cells, **given):
    settings = {"random_state": 0, "factors": 2, "max_iter": 150, "tol": 1e-6, "n_jobs": 1} | given
    data = settings.pop("data", nmar.Factorization(2, family="levels"))
    return nmar.CCPF(data, **settings).fit(cells)


def test_other_numbers_for_the_levels_change_nothing_but_the_numbers():
    cells, _ = rated(cuts="one")
    other = cells.with_values(np.array([-7.0, 0.1, 0.2, 50.0, 1e6])[cells.values.astype(int) - 1])
    ask = np.repeat(np.arange(10), 3), np.tile(np.arange(3), 10)
    one, two = (fitted(each, max_iter=20) for each in (cells, other))
    np.testing.assert_array_equal(one.bound_trace_, two.bound_trace_)
    np.testing.assert_array_equal(one.predict_levels(*ask), two.predict_levels(*ask))
    assert one.log_likelihood(cells) == two.log_likelihood(other)


def test_predictions_follow_from_the_probabilities_of_the_levels():
    cells, _ = rated()
    model = fitted(cells, data=nmar.Factorization(2, family="levels", styles=2), max_iter=15)
    rows, cols = cells.pairs()
    chance, numbers = model.predict_levels(rows, cols), np.arange(1.0, 6.0)
    np.testing.assert_allclose(chance.sum(axis=1), 1.0)
    mean, sd = model.predict_entries(rows, cols, return_std=True)
    np.testing.assert_allclose(mean, chance @ numbers)
    np.testing.assert_allclose(sd, np.sqrt(chance @ numbers**2 - mean**2), atol=1e-9)
    own = chance[np.arange(len(cells)), cells.values.astype(int) - 1]
    np.testing.assert_allclose(model.log_likelihood(cells, per_cell=True), np.log(own))
    low, high = model.interval(rows, cols, level=0.8)
    assert set(np.unique([low, high])) <= set(numbers)
    below = np.cumsum(chance, axis=1)
    at = np.arange(len(cells))
    assert np.all(below[at, low.astype(int) - 1] >= 0.1 - 1e-9)
    assert np.all(below[at, high.astype(int) - 1] >= 0.9 - 1e-9)
    drawn = model.sample(rows[:20], cols[:20], n=4000, seed=0)
    for k in range(5):
        share = np.mean(drawn == numbers[k], axis=1)
        np.testing.assert_allclose(share, chance[:20, k], atol=4.5 * np.sqrt(0.25 / 4000))


def test_cut_points_styles_and_factors_are_recovered():
    cells, latent = rated((300, 120), cuts="two", seed=5)
    model = fitted(cells, data=nmar.Factorization(2, family="levels", styles=2), max_iter=200)
    reader, rows = model.posterior_.state.shared.reader, model.posterior_.state.sides[0]
    style = rows.reading.probability.argmax(axis=1)
    match = [np.mean(style[k::2] == style[k]) for k in (0, 1)]
    assert style[0] != style[1]
    assert min(match) > 0.95
    found = reader.cuts[[style[0], style[1]]].ravel()
    true = np.ravel(CUTS["two"])
    assert np.corrcoef(found, true)[0, 1] > 0.995  # y* has no units of its own
    known = model.posterior_.cells(*np.indices((300, 120)).reshape(2, -1))
    assert np.corrcoef(known.mean[:, 0], latent.ravel())[0, 1] > 0.85


def test_levels_nobody_uses_have_little_probability():
    cells, _ = rated()
    model = fitted(cells, data=nmar.Effects("both", family="levels", levels=np.arange(0.0, 6.5, 0.5)), max_iter=10)
    chance = model.predict_levels(*cells.pairs())
    used = np.isin(model.levels_, np.unique(cells.values))
    assert chance.shape[1] == 13
    assert 0.0 < chance[:, ~used].sum(axis=1).mean() < 0.03
    assert model.interval(*cells.pairs())[0].min() >= 0.0


def test_probability_integrals_are_uniform():
    cells, _ = rated((200, 80), seed=3)
    train, _, test = cells.split(test=0.3, valid=0.0, seed=0)
    model = fitted(train, data=nmar.Factorization(2, family="levels", styles=2))
    at = np.sort(probability_integral(model.posterior_, test))
    gap = np.abs(at - (np.arange(len(at)) + 0.5) / len(at)).max()
    assert gap < 1.63 / np.sqrt(len(at))  # Kolmogorov's bound at 1 %


def test_transposed_ratings_have_the_transposed_answer():
    cells, _ = rated()
    turned = nmar.Cells.from_arrays(cells.col_index, cells.row_index, cells.values, cells.shape[::-1])
    one = fitted(cells, data=nmar.Factorization(2, family="levels", styles=2), max_iter=10)
    two = fitted(turned, data=nmar.Factorization(2, family="levels", styles=2, styles_by="cols"), max_iter=10)
    rows, cols = cells.pairs()
    np.testing.assert_allclose(one.predict_levels(rows, cols), two.predict_levels(cols, rows), rtol=1e-9)


def test_threads_and_backends_agree():
    cells, _ = rated()
    data = nmar.Factorization(2, family="levels", styles=2)
    one, two, slow = (
        fitted(cells, data=data, max_iter=5, **more) for more in ({}, {"n_jobs": 3}, {"backend": "reference"})
    )
    np.testing.assert_array_equal(one.bound_trace_, two.bound_trace_)
    np.testing.assert_allclose(one.bound_trace_, slow.bound_trace_, rtol=1e-9)


def test_new_rows_find_their_style():
    cells, _ = rated((200, 60), seed=4)
    data = nmar.Factorization(2, family="levels", styles=2)
    model = fitted(cells.take_rows(range(150)), data=data)
    new = model.fold_in(cells.take_rows(range(150, 200)))
    style = new.posterior_.state.sides[0].reading.probability.argmax(axis=1)
    old = model.posterior_.state.sides[0].reading.probability.argmax(axis=1)
    assert np.mean(style[::2] == old[0]) > 0.9
    assert np.mean(style[1::2] == old[1]) > 0.9
    grown = model.partial_fit(cells.take_rows(range(150, 200)), sweeps=3)
    assert grown.posterior_.state.sides[0].reading.probability.shape == (200, 2)
    assert np.all(np.diff(grown.bound_trace_) > 0.0)
    stranger = grown.predict_levels(["nobody"], [0], unknown="prior")
    assert stranger.sum() == pytest.approx(1.0)


def test_files_hold_levels_and_styles(tmp_path):
    cells, _ = rated()
    model = fitted(cells, data=nmar.Factorization(2, family="levels", styles=2), max_iter=5)
    model.save(tmp_path / "m.nmar")
    read = nmar.load(tmp_path / "m.nmar")
    np.testing.assert_array_equal(read.predict_levels(*cells.pairs()), model.predict_levels(*cells.pairs()))


def test_hidden_cells_are_no_missing_ones():
    cells, _ = rated()
    train, _, test = cells.split(test=0.3, valid=0.0, seed=0)
    model = fitted(train, max_iter=5)
    hiding = nmar.CCPF(model.data, random_state=0, factors=2, max_iter=5, tol=1e-6).fit(train, hidden=test)
    assert hiding.observed_probability(*test.pairs()).mean() > model.observed_probability(*test.pairs()).mean()


def test_imputed_tables_hold_levels():
    cells, _ = rated()
    model = fitted(cells, data=nmar.Factorization(2, family="levels", styles=2), max_iter=10)
    for sweeps in (0, 2):
        tables = model.impute(n=3, sweeps=sweeps, seed=0)
        assert set(np.unique(tables.array(0))) <= set(range(1, 6))
        assert np.mean(tables.shifted(1.0).array(1)) > np.mean(tables.array(1))


def test_the_number_of_styles_is_chosen():
    cells, _ = rated((120, 60), seed=4)
    one, _ = rated((120, 60), cuts="one", seed=4)
    for given, expected in ((cells, 2), (one, 1)):
        model = fitted(given, data=nmar.Factorization(2, family="levels", styles="auto"), max_iter=5)
        assert model.styles_.cuts.shape == (model.choices_[0].value, 4)
        assert (model.choices_[0].value >= 2) == (expected == 2)
        assert [choice.setting for choice in model.choices_] == ["styles"] * len(model.choices_)


def test_levels_are_compared_by_the_probability_of_the_level():
    cells, _ = rated()
    rare = cells.values.copy()
    rare[0] = 6.0  # a level that may be in no training cell
    result = nmar.compare(
        cells.with_values(rare), "levels-factorization:2:styles-2", seeds=1, factors=2, max_iter=5, verbose=0
    )
    assert [row.name for row in result.rows] == ["ignorable", "taste", "taste (shuffled)"]
    assert result.rows[0].log_likelihood > -np.log(6.0) - 1.0
    assert "log P(level)" in result.text()
    assert "nats of log P(level) per cell" in result.unit
    assert "levels=(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)" in result.verdict.line
    with pytest.raises(ValueError, match="beside models of numbers"):
        nmar.compare(cells, ["factorization:2", "levels-factorization:2"])


def test_simulated_levels_are_recovered():
    data = nmar.Factorization(2, family="levels", levels=range(1, 6), styles=2)
    cells, truth = nmar.simulate((300, 120), data, "ignorable", 0.4, seed=1, noise="rows")
    assert set(np.unique(cells.values)) == set(range(1, 6))
    train, _, test = cells.split(test=0.2, valid=0.0, seed=0)
    model = fitted(train, data=data, factors=5, max_iter=60)
    best = truth.posterior.state.shared.reader.cuts
    exact = np.log(levels.probabilities(truth.posterior, *test.positions()))
    gap = exact[np.arange(len(test)), test.values.astype(int) - 1].mean() - model.log_likelihood(test)
    parameters = (300 + 120) * (2 + 1 + 1)  # factors, bias and noise of each line; half a nat each is lost on average
    assert 0.0 < gap < parameters / len(train)
    order = model.styles_.probability[truth.posterior.state.sides[0].reading.probability[:, 0] == 1.0].mean(axis=0)
    found = model.styles_.cuts[np.argsort(-order)]
    assert np.corrcoef(found.ravel(), best.ravel())[0, 1] > 0.98
    with pytest.raises(ValueError, match="give all levels"):
        nmar.simulate((30, 20), nmar.Effects(family="levels"), "ignorable")
    with pytest.raises(ValueError, match="linkage='linear'"):
        nmar.simulate((30, 20), data)


def test_ratings_that_are_taken_for_numbers_are_noticed(caplog):
    cells, _ = rated()
    said = "values are 5 levels from 1 to 5, taken for numbers"
    with caplog.at_level("INFO", "nmar"):
        fitted(cells, data=nmar.Factorization(2), max_iter=2)
    assert said in caplog.text
    caplog.clear()
    with caplog.at_level("INFO", "nmar"):
        fitted(cells, max_iter=2)
        fitted(cells.with_values(cells.values + 0.1 * np.arange(len(cells))), data=nmar.Factorization(2), max_iter=2)
        fitted(cells.with_values(cells.values), data=nmar.Factorization(2, family="poisson"), max_iter=2)
    assert "levels from" not in caplog.text


def test_a_page_shows_how_levels_are_used():
    cells, _ = rated()
    model = fitted(cells, data=nmar.Factorization(2, family="levels", styles=2), max_iter=5)
    page = model_page(model, cells)
    assert "Cut points of the levels" in page
    assert "typical rows" in page
    assert "log P(level)" in page
    ax = nmar.plot.levels(model, [0, 1], [2, 3])
    heights = [bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(heights, model.predict_levels([0, 1], [2, 3]).ravel())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"linkage": "free"}, "linkage='free'"),
        ({"linkage": "auto"}, "linkage='auto'"),
        ({"tail": True}, "tail=True"),
        ({"control": "tail"}, "control='tail'"),
        ({"solver": "minibatch"}, "solver='minibatch'"),
        ({"bounds": "auto"}, "bounds='auto'"),
    ],
)
def test_what_levels_cannot_have_is_refused_by_name(given, message):
    cells, _ = rated()
    with pytest.raises(ValueError, match=message):
        nmar.CCPF(nmar.Factorization(2, family="levels"), **given).fit(cells)


def test_values_that_are_no_levels_are_refused():
    cells, _ = rated()
    with pytest.raises(ValueError, match="contains 5, which is none of the levels 1, 2, 3, 4"):
        fitted(cells, data=nmar.Effects(family="levels", levels=[1, 2, 3, 4]))
    with pytest.raises(ValueError, match="each above the one before"):
        fitted(cells, data=nmar.Effects(family="levels", levels=[3, 2, 1, 4, 5]))
    with pytest.raises(ValueError, match="distinct numbers"):
        fitted(cells.with_values(np.arange(float(len(cells)))), data=nmar.Effects(family="levels"))
    with pytest.raises(ValueError, match="styles=2 is for family='levels'"):
        nmar.Factorization(2, styles=2)
    model = fitted(cells, max_iter=2)
    with pytest.raises(ValueError, match=r"contains 2\.5"):
        model.log_likelihood(cells.with_values(cells.values - 0.5))


def test_bounds_pair():
    """The bound of a fit is that of its sweeps: it rises in the trace too."""
    cells, _ = rated()
    trace = fitted(cells, data=nmar.Factorization(2, family="levels", styles=2), max_iter=30, tol=0.0).bound_trace_
    assert all(after >= before for before, after in pairwise(trace))
