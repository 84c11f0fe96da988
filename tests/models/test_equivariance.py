"""Units change nothing: the fit of a·y + b is a times the fit of y, plus b."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from problems import sampled
from sklearn.linear_model import LinearRegression

import nmar
from nmar.fit.solvers.entrywise import Entrywise
from nmar.fit.solvers.schedule import Minibatch

pytestmark = pytest.mark.slow  # see CONTRIBUTING.md

SHAPE = (16, 11)
RNG = np.random.default_rng(5)
ROW_FEATURES, COL_FEATURES = RNG.normal(size=(SHAPE[0], 2)), RNG.normal(size=(SHAPE[1], 2))
MODELS = {
    "full": nmar.Factorization(2),
    "diagonal": nmar.Factorization(2, covariance="diagonal"),
    "plain": nmar.Factorization(1, bias=False),
    "mixture": nmar.Mixture(2, restarts=2),
    "effects": nmar.Effects("both"),
    "regression": nmar.Regression(COL_FEATURES),
    "constant": nmar.Constant("gaussian"),
    "constant-normal": nmar.Constant("gaussian", prior="normal"),
    "regressor": nmar.Regressor(LinearRegression(), ROW_FEATURES, COL_FEATURES),
}
LINKAGES = {
    **{name: name for name in ("ignorable", "linear", "exponential", "geometric", "free", "compound")},
    "free-shift": nmar.Free(mean="shift"),
}
UNITS = [(1e-3, 0.0), (1e3, 5.0), (1.0, 1e6)]


def table(family="gaussian"):
    """Values of a small matrix with effects of both sides, not centred, about half of them missing."""
    rng = np.random.default_rng(2)
    seen = rng.random(SHAPE) < 0.55
    level = 1.3 + rng.normal(size=(SHAPE[0], 1)) + 0.7 * rng.normal(size=SHAPE[1])
    noise = rng.normal(size=SHAPE) * rng.choice([0.5, 2.0], SHAPE)
    values = level + noise if family == "gaussian" else np.exp(0.3 * (level + noise))
    return np.where(seen, values, np.nan)


def fit(data, linkage, values, **settings):
    given = {"factors": 2, "max_iter": 5, "tol": 0.0, "starts": 1, "n_jobs": 1, "random_state": 0, **settings}
    return nmar.CCPF(data, linkage, **given).fit(nmar.Cells.from_dense(values))


@cache
def base(model, link):
    return fit(MODELS[model], LINKAGES[link], table())


def same(found, expected, size=1.0):
    """Equal to a millionth of each number, or of the size that such numbers have."""
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * size)


def agree(moved, model, a, b, values, dispersion_power=2.0):
    """Everything that a person reads of two fits, one of y and one of a·y + b, seen and unseen cells alike."""
    i, j = (part.ravel() for part in np.indices(SHAPE))
    mean, sd = model.predict_entries(i, j, return_std=True)
    found, spread = moved.predict_entries(i, j, return_std=True)
    same((found - b) / a, mean, np.abs(mean).max())
    same(spread / a, sd)
    same(moved.dispersion_, model.dispersion_ * a**dispersion_power)
    for plugin in (False, True):
        log_density = moved.log_density(nmar.Cells.from_dense(a * values + b), plugin)
        same(log_density + np.log(a), model.log_density(nmar.Cells.from_dense(values), plugin))
    if not isinstance(model.solver, Minibatch):  # which estimates the bound, and the number of cells in it
        cells = int(np.isfinite(values).sum())
        same(moved.bound_trace_ + cells * np.log(a), model.bound_trace_)
    same(moved.observed_probability(i, j), model.observed_probability(i, j))
    if moved.linkage_.shift is not None:
        same(np.array(moved.linkage_.shift) / a, model.linkage_.shift)
        same(moved.linkage_.shift_width / a, model.linkage_.shift_width)


@pytest.mark.parametrize(("a", "b"), sampled(UNITS, 3))
@pytest.mark.parametrize("link", LINKAGES)
@pytest.mark.parametrize("model", MODELS)
def test_units_of_a_gaussian(model, link, a, b):
    values = table()
    agree(fit(MODELS[model], LINKAGES[link], a * values + b), base(model, link), a, b, values)


@pytest.mark.parametrize("a", [1e-8, 1e8])
@pytest.mark.parametrize("link", ["ignorable", "linear", "geometric", "free", "compound"])
@pytest.mark.parametrize(("family", "power"), [("gamma", 0.0), ("inverse_gaussian", 0.5)])
def test_units_of_a_scale_family(family, power, link, a):
    values, data = table(family), nmar.Constant(family)
    agree(fit(data, link, a * values), fit(data, link, values), a, 0.0, values, power)


# --- other ways to fit, and to go on ------------------------------------------------------------------------------

A, B = 1e3, 5.0
WAYS = {
    "starts": (nmar.Effects("both"), nmar.Free(mean="shift"), {"starts": 2}),
    "converged": (nmar.Factorization(1), "linear", {"max_iter": 200, "tol": 1e-4}),
    "control": (nmar.Effects("both"), "geometric", {"control": True, "starts": 2}),
    "two-stage": (nmar.Effects("both"), "two-stage", {}),
    "auto": (nmar.Effects("rows"), "auto", {"max_iter": 3}),
    "minibatch": (nmar.Factorization(2), "linear", {"solver": Minibatch(batch_size=6, passes=3)}),
    "entrywise": (
        nmar.Factorization(2, covariance="diagonal"),
        "linear",
        {"solver": Entrywise(visits=500, t0=10.0, average=50)},
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_units_whatever_the_way_to_fit(way):
    values, (data, link, settings) = table(), WAYS[way]
    model, moved = (fit(data, link, y, **settings) for y in (values, A * values + B))
    agree(moved, model, A, B, values)
    assert moved.n_iter_ == model.n_iter_


def test_units_of_a_stream():
    values = table()

    def streamed(y):
        cells = nmar.Cells.from_dense(y)
        batches = [cells.take_rows(part) for part in (np.arange(0, 9), np.arange(9, 16))]
        settings = {"factors": 2, "random_state": 0, "n_jobs": 1, "solver": Minibatch(passes=2)}
        return nmar.CCPF(nmar.Effects("both"), "linear", **settings).fit(batches)

    model, moved = (streamed(y).fold_in(nmar.Cells.from_dense(y)) for y in (values, A * values + B))
    rows, cols = (part.ravel() for part in np.indices(SHAPE))
    same((moved.predict_entries(rows, cols) - B) / A, model.predict_entries(rows, cols), 1.0)
    units = moved.posterior_.units
    assert units.scale / A == pytest.approx(model.posterior_.units.scale)


def test_a_scale_of_the_mean_has_no_shift_but_has_units():
    values = table()
    for link in (nmar.Free(mean="scale"), nmar.Compound(mean="scale")):
        for data in (nmar.Factorization(1), nmar.Constant("gaussian")):
            model, moved = fit(data, link, values), fit(data, link, A * values)
            agree(moved, model, A, 0.0, values)
            assert moved.posterior_.units.center == 0.0


def test_units_of_growth():
    """Fold-in, partial_fit and transform; what comes later is read in the units of the first fit."""
    values = table()
    old, new = values[:11], 3.0 * values[11:] + 2.0

    def grown(a, b):
        first = fit(nmar.Factorization(2), "linear", a * old + b)
        ids = np.arange(len(old), SHAPE[0])
        more = nmar.Cells.from_dense(a * np.concatenate([np.full(old.shape, np.nan), new]) + b).take_rows(ids)
        folded, loadings = first.fold_in(more), first.transform(more)
        scale = first.posterior_.units.scale
        both = first.partial_fit(more, sweeps=3)
        assert both.posterior_.units.scale == scale
        i, j = (part.ravel() for part in np.indices(new.shape))
        answers = [(m.predict_entries(ids[i], j) - b) / a for m in (folded, both)]
        lead = first.posterior_.law.lead == 0
        return *answers, loadings / (1.0 if lead else a)

    for found, expected in zip(grown(A, B), grown(1.0, 0.0), strict=True):
        same(found, expected, np.abs(expected).max())


# --- what a person reads ------------------------------------------------------------------------------------------


def test_intervals_draws_and_recommendations_are_in_the_units_of_the_values():
    from nmar.evaluate.scoring import probability_integral

    values, i, j = table(), np.arange(11), np.arange(11)
    model, moved = base("full", "free-shift"), fit(MODELS["full"], LINKAGES["free-shift"], A * values + B)
    for asked in (lambda m: m.interval(i, j, 0.9), lambda m: m.sample(i, j, 5, seed=0)):
        same((np.array(asked(moved)) - B) / A, asked(model), 1.0)
    (which, score), (expected, best) = (m.recommend(i, n=3) for m in (moved, model))
    np.testing.assert_array_equal(which, expected)
    same((score - B) / A, best, 1.0)
    given = nmar.Cells.from_dense(A * values + B), nmar.Cells.from_dense(values)
    places = [probability_integral(m.posterior_, cells) for m, cells in zip((moved, model), given, strict=True)]
    same(places[0], places[1])


@pytest.mark.parametrize("family", ["gamma", "inverse_gaussian"])
def test_intervals_of_scale_families(family):
    values, i = table(family), np.arange(4)
    model, moved = (fit(nmar.Constant(family), "linear", a * values) for a in (1.0, 1e8))
    same(np.array(moved.interval(i, i)) / 1e8, model.interval(i, i))
    same(moved.sample(i, i, 5, seed=0) / 1e8, model.sample(i, i, 5, seed=0))


def test_coefficients_effects_and_profiles_are_in_the_units_of_the_values():
    values = table()
    found, expected = fit(MODELS["regression"], "linear", A * values + B), base("regression", "linear")
    same(found.coefficients_.mean / A, expected.coefficients_.mean, 1.0)
    same(found.coefficients_.sd / A, expected.coefficients_.sd)
    rows = nmar.Effects("rows")
    effects = [fit(rows, "linear", a * values + b).transform(a * values + b) / a for a, b in ((A, B), (1.0, 0.0))]
    same(effects[0], effects[1], 1.0)


def test_a_given_shift_is_in_the_units_of_the_values():
    """δ starts where the user says, and its width is what he says."""
    values = table()
    link = nmar.Ignorable(mean="shift", levels=3, shift=(0.0, 1.5, 1.0), shift_width=0.7)
    scaled = nmar.Ignorable(mean="shift", levels=3, shift=(0.0, A * 1.5, A * 1.0), shift_width=A * 0.7)
    model, moved = fit(nmar.Effects("both"), link, values), fit(nmar.Effects("both"), scaled, A * values)
    agree(moved, model, A, 0.0, values)
    assert model.linkage_.shift_width == pytest.approx(0.7)


def test_files_and_checkpoints_keep_the_units(tmp_path):
    values, i = table(), np.arange(5)
    cells = nmar.Cells.from_dense(A * values + B)
    settings = {"factors": 2, "tol": 0.0, "starts": 1, "n_jobs": 1, "random_state": 0}
    model = nmar.CCPF(nmar.Effects("both"), "linear", max_iter=4, **settings).fit(cells)
    model.save(tmp_path / "model.nmar")
    again = nmar.load(tmp_path / "model.nmar")
    np.testing.assert_array_equal(again.predict_entries(i, i), model.predict_entries(i, i))
    assert again.dispersion_ == model.dispersion_
    nmar.CCPF(nmar.Effects("both"), "linear", max_iter=2, **settings).fit(cells, checkpoint=tmp_path / "run")
    resumed = nmar.CCPF(nmar.Effects("both"), "linear", max_iter=4, **settings)
    resumed.fit(cells, checkpoint=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(resumed.predict_entries(i, i), model.predict_entries(i, i))
    np.testing.assert_array_equal(resumed.bound_trace_, model.bound_trace_)


# --- values far from 0, far from 1, and far from each other -------------------------------------------------------


def test_a_constant_far_from_zero():
    rng = np.random.default_rng(0)
    values = np.where(rng.random((30, 20)) < 0.5, 1e8 + rng.normal(size=(30, 20)), np.nan)
    model = fit(nmar.Constant("gaussian"), "ignorable", values)
    mean, sd = model.predict_entries([0], [0], return_std=True)
    assert mean[0] == pytest.approx(np.nanmean(values), abs=1e-6)
    assert sd[0] == pytest.approx(np.nanstd(values), rel=0.02)


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("family", ["gamma", "inverse_gaussian"])
def test_a_scale_family_reaches_its_optimum_whatever_its_scale(family, size):
    """Mean and κ of maximum likelihood; the priors weigh some four cells among 600."""
    rng = np.random.default_rng(1)
    y = rng.gamma(3.0, 2.0, (40, 30)) if family == "gamma" else rng.wald(2.0, 9.0, (40, 30))
    values = np.where(rng.random(y.shape) < 0.5, size * y, np.nan)
    model = fit(nmar.Constant(family), "ignorable", values, max_iter=60)
    mean = model.predict_entries([0], [0])[0]
    assert mean == pytest.approx(np.nanmean(values), rel=0.01)
    unit_free = model.dispersion_ if family == "gamma" else model.dispersion_**2 / size
    assert unit_free == pytest.approx(3.0 if family == "gamma" else 9.0, rel=0.15)


def test_values_that_are_all_alike():
    values = np.where(np.isfinite(table()), 0.1, np.nan)
    for a in (1.0, 1e6):
        model = fit(nmar.Effects("both"), "linear", a * values)
        mean, sd = model.predict_entries([0, 3], [1, 2], return_std=True)
        same(mean / a, 0.1)
        assert np.all(sd / a < 0.02)


def outlying(at):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 30))
    values[rng.random(values.shape) < 0.5] = np.nan
    values[3, 4] = at
    return values


@pytest.mark.parametrize(("link", "noise"), [("free", "constant"), ("ignorable", "rows+cols")])
def test_an_outlier_is_not_the_unit_of_all_other_values(link, noise):
    """σ² has a prior in units of the values' spread: one value a million times larger must not widen all others."""
    values = outlying(1e6)
    i, j = np.nonzero(np.isfinite(values) & (values < 100.0))
    model = fit(nmar.Effects("both"), link, values, noise=noise, max_iter=30)
    error = model.predict_entries(i, j) - values[i, j]
    assert np.sqrt(np.mean(error**2)) < 1.1
    assert model.dispersion_ < 1.5


def test_an_outlier_too_large_for_single_precision_is_named():
    with pytest.raises(FloatingPointError, match=r"outliers .* dtype='float64'"):
        fit(nmar.Factorization(2), "free", outlying(1e6), noise="constant", dtype="float32", max_iter=30, starts=2)
    for noise in ("constant", "rows+cols"):
        assert np.isfinite(
            fit(nmar.Factorization(2), "free", outlying(1e6), noise=noise, max_iter=30).bound_trace_
        ).all()
