"""Completed tables, their ids and types; shifts; bounds; errors that say what to do."""

from types import SimpleNamespace

import numpy as np
import pandas
import pytest
from scipy.stats import kstest
from scipy.stats import t as student

import nmar
from nmar.evaluate.scoring import probability_integral
from nmar.evaluate.sensitivity import bent

SETTINGS = {"factors": 2, "random_state": 0, "max_iter": 20, "n_jobs": 1}


@pytest.fixture(scope="module")
def wide():
    """A frame of people by items, some missing, and a model of it."""
    rng = np.random.default_rng(0)
    table = 3.0 + rng.normal(size=(30, 1)) + rng.normal(size=(30, 5))
    table[rng.random(table.shape) < 0.3] = np.nan
    people, items = [f"p{k}" for k in range(30)], [f"i{k}" for k in range(5)]
    i, j = np.nonzero(~np.isnan(table))
    long = {"person": np.array(people)[i], "item": np.array(items)[j], "y": table[i, j]}
    cells = nmar.Cells.from_frame(long, row="person", col="item", value="y")
    return nmar.CCPF(nmar.Effects("both"), "ignorable", **SETTINGS).fit(cells), cells


@pytest.fixture(scope="module")
def ratings():
    """Ratings from 1 to 5 and a model that knows it."""
    rng = np.random.default_rng(1)
    values = np.clip(np.round(4.0 + rng.normal(size=(60, 1)) + rng.normal(size=(60, 12))), 1.0, 5.0)
    cells = nmar.Cells.from_dense(np.where(rng.random(values.shape) < 0.6, values, np.nan))
    models = [nmar.CCPF(nmar.Effects("both"), "ignorable", bounds=b, **SETTINGS).fit(cells) for b in ("auto", None)]
    return (*models, cells)


def test_a_completed_table_has_the_ids_and_the_observed_values(wide):
    model, cells = wide
    completed = model.impute(3, seed=0)
    table = completed.table(1)
    assert list(table.index) == cells.row_ids.tolist() and list(table.columns) == cells.col_ids.tolist()
    assert not table.isna().any().any()
    np.testing.assert_array_equal(table.to_numpy()[cells.positions()], cells.values)
    frame = completed.frame()
    assert list(frame.columns) == ["row", "col", "0", "1", "2"] and len(frame) == 150 - len(cells)
    first = frame.iloc[0]
    assert table.loc[first["row"], first["col"]] == first["1"]
    assert "like an observed one" in repr(completed) and len(list(completed.tables())) == len(completed) == 3


def test_the_seed_decides_and_blocks_have_noise_of_their_own(wide):
    model, _ = wide
    first, again, other = (model.impute(2, seed=s).values for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.all(first != other)
    blocks = [model.impute(2, seed=0, rows=[name]) for name in ("p0", "p1", "p0")]
    np.testing.assert_array_equal(blocks[0].values, blocks[2].values)
    assert blocks[0].table(0).shape == (1, 5) and blocks[0].table(0).index[0] == "p0"


def test_blocks_of_one_seed_share_the_draws_of_the_lines():
    """One constant for all cells, known from few: what two blocks have in common is its draw."""
    values = np.full((6, 4), np.nan)
    values[:2, :2] = [[0.0, 4.0], [4.0, 0.0]]
    model = nmar.CCPF(nmar.Constant("gaussian"), "ignorable", **SETTINGS).fit(nmar.Cells.from_dense(values))
    drawn = {"n": 200, "sweeps": 0}
    blocks = [model.impute(seed=0, rows=rows, **drawn).values.mean(axis=0) for rows in ([2, 3], [4, 5])]
    strangers = model.impute(seed=1, rows=[4, 5], **drawn).values.mean(axis=0)
    assert 0.4 < np.corrcoef(blocks)[0, 1] < 0.95  # the draw in common, noise of their own
    assert abs(np.corrcoef(blocks[0], strangers)[0, 1]) < 0.25


def test_counts_and_ratings_stay_whole(ratings):
    cells, _ = nmar.simulate((20, 6), nmar.Constant("poisson"), "ignorable", density=0.6, seed=0)
    counts = nmar.CCPF(nmar.Constant("poisson"), "ignorable", **SETTINGS).fit(cells).impute(2, seed=0)
    assert counts.table(0).dtypes.unique().tolist() == [np.dtype("int64")]
    bounded, free, _ = ratings
    completed = bounded.impute(4, seed=0)
    assert set(np.unique(completed.values)) <= {1.0, 2.0, 3.0, 4.0, 5.0}
    assert completed.table(0).dtypes.unique().tolist() == [np.dtype("int64")]
    assert np.any(free.impute(4, seed=0).values > 5.0)


def test_pooling_a_statistic_is_pooling_its_values(wide):
    model, _ = wide
    completed = model.impute(4, seed=0)
    pairs = [(t["i0"].mean(), t["i0"].var() / 30) for t in completed.tables()]
    found = completed.pool(lambda t: (t["i0"].mean(), t["i0"].var() / 30), df=29)
    exact = nmar.pool(*zip(*pairs, strict=True), df=29)
    assert (found.estimate, found.total, found.low) == (exact.estimate, exact.total, exact.low)
    with pytest.raises(ValueError, match="return \\(estimate, variance\\)"):
        completed.pool(lambda t: t["i0"].mean())


def test_a_shift_moves_a_mean_by_the_share_that_is_missing(wide):
    model, cells = wide
    share = 1.0 - np.mean(cells.col_index == 0) * len(cells) / 30.0
    found = model.sensitivity([-2.0, 0.0, 1.0], lambda t: t["i0"].mean(), n=3, unit="value")
    np.testing.assert_allclose(np.diff(found.estimate), share * np.array([2.0, 1.0]), rtol=1e-9)
    in_sd = model.sensitivity([0.0, 1.0], lambda t: t["i0"].mean(), n=3)
    np.testing.assert_allclose(np.diff(in_sd.estimate), share * in_sd.step, rtol=1e-9)
    assert in_sd.step == pytest.approx(np.sqrt(model.dispersion_), rel=0.3)
    middle = float(found.estimate[1] + 0.5 * share)
    assert found.tipping_point(middle) == pytest.approx(0.5)
    assert found.tipping_point(1e9) is None
    ends = model.sensitivity([0.0, 1.0], lambda t: (t["i0"].mean(), 0.01), n=3)
    normal = model.sensitivity([0.0, 1.0], lambda t: (t["i0"].mean(), 0.01), n=3, df=np.inf)
    np.testing.assert_array_equal(normal.low, ends.low)
    assert list(ends.frame().columns) == ["delta", "shift", "estimate", "low", "high"]
    assert nmar.plot.sensitivity(ends).get_xlabel().startswith("shift")


def test_shifted_ratings_keep_to_their_levels(ratings):
    bounded, _, _ = ratings
    found = bounded.impute(2, seed=0).shifted(1.7).values
    assert set(np.unique(found)) <= {1.0, 2.0, 3.0, 4.0, 5.0}


def test_ratings_are_shifted_before_they_are_put_on_their_levels(ratings):
    """The same fit without bounds draws the same values, as they were before they were rounded."""
    bounded, free, _ = ratings
    completed, latent = bounded.impute(4, seed=0), free.impute(4, seed=0).values
    for shift in (-1.2, 0.0, 0.3):
        found = completed.shifted(shift)
        np.testing.assert_array_equal(found.values, np.clip(np.round(latent + shift), 1.0, 5.0))
        np.testing.assert_array_equal(found.shifted(-shift).values, completed.values)
    moved = bounded.sensitivity([0.0, 0.3], lambda t: t.to_numpy().mean(), n=4)
    assert moved.estimate[1] > moved.estimate[0] + 0.02


@pytest.fixture(scope="module")
def counts():
    cells, _ = nmar.simulate((40, 20), nmar.Constant("poisson"), "ignorable", density=0.4, seed=0)
    return nmar.CCPF(nmar.Constant("poisson"), "ignorable", **SETTINGS).fit(cells)


def test_the_mean_of_counts_moves_by_the_shift_until_it_meets_0(counts):
    completed = counts.impute(20, seed=0)
    values = completed.values
    assert values.size > 9000
    np.testing.assert_array_equal(completed.shifted(0.0).values, values)
    np.testing.assert_array_equal(completed.shifted(2.0).values, values + 2.0)
    before = values
    for shift in (0.1, 0.3, 0.9):
        found = completed.shifted(shift).values
        assert np.all(found == np.round(found)) and np.all(found >= before)  # the same rounding at all shifts
        assert found.mean() - values.mean() == pytest.approx(shift, abs=4.0 * 0.5 / np.sqrt(values.size))
        before = found
    down = completed.shifted(-0.3).values
    assert down.min() == 0.0 and np.all((values - down)[values > 0] <= 1.0)
    some = values[values > 0] - down[values > 0]
    assert some.mean() == pytest.approx(0.3, abs=4.0 * 0.5 / np.sqrt(some.size))


@pytest.fixture(scope="module")
def positive():
    """A model of positive values, one row of which is complete."""
    rng = np.random.default_rng(0)
    values = rng.gamma(0.8, size=(20, 6))
    values[1:][rng.random((19, 6)) < 0.4] = np.nan
    return nmar.CCPF(nmar.Constant("gamma"), "ignorable", **SETTINGS).fit(values)


def test_shifted_positive_values_stay_above_0_whatever_else_was_drawn(positive):
    few, many = (positive.impute(n, seed=0) for n in (2, 20))
    np.testing.assert_array_equal(few.values, many.values[:, :2])
    before = np.zeros_like(many.values)
    for shift in (-1e6, -0.5, -0.1, 0.0, 0.5):
        found = many.shifted(shift).values
        assert np.all(found > 0.0) and np.all(found >= before)
        np.testing.assert_array_equal(few.shifted(shift).values, found[:, :2])
        before = found
    np.testing.assert_array_equal(many.shifted(0.0).values, many.values)
    assert many.shifted(-1e6).values.max() < 0.01 * np.median(many.values)


def test_a_shift_of_nothing(positive):
    found = positive.sensitivity([-1.0, 0.0], lambda t: t.to_numpy().mean(), n=2, rows=[0])
    assert found.estimate[0] == found.estimate[1]


def test_observed_values_are_not_replaced_by_draws_of_them(wide):
    model, cells = wide
    rows, cols = (ids.ravel() for ids in np.meshgrid(cells.row_ids, cells.col_ids, indexing="ij"))
    completed = model.impute(2, seed=0, cells=(rows, cols))
    np.testing.assert_array_equal(completed.table(1).to_numpy()[cells.positions()], cells.values)
    assert len(completed.frame()) == 150 and not completed.table(1).isna().any().any()


def test_bounds_hold_predictions_intervals_and_draws(ratings, tmp_path):
    bounded, free, cells = ratings
    i, j = np.indices(cells.shape).reshape(2, -1)
    low, high = bounded.interval(i, j)
    assert low.min() >= 1.0 and high.max() <= 5.0 and np.all(low == np.round(low))
    assert np.mean(free.interval(i, j)[1] > 5.0) > 0.2
    mean, sd = bounded.predict_entries(i, j, return_std=True)
    draws = bounded.sample(i, j, 4000, seed=0)
    assert set(np.unique(draws)) <= {1.0, 2.0, 3.0, 4.0, 5.0}
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=0.1)
    np.testing.assert_allclose(draws.std(axis=1), sd, atol=0.1)
    np.testing.assert_array_equal(bounded.log_density(cells), free.log_density(cells))
    bounded.save(tmp_path / "m.nmar")
    np.testing.assert_array_equal(nmar.load(tmp_path / "m.nmar").predict_entries(i, j), mean)


def test_probability_integrals_of_ratings_are_uniform(ratings):
    """Values drawn from the model itself, rounded and clipped."""
    bounded, _, cells = ratings
    i, j = np.indices(cells.shape).reshape(2, -1)
    drawn = nmar.Cells.from_arrays(i, j, bounded.sample(i, j, 1, seed=3)[:, 0], cells.shape)
    found = probability_integral(bounded.posterior_, drawn, 0)
    assert kstest(found, "uniform").pvalue > 0.001


def test_bounds_need_values_that_keep_to_them():
    cells, _ = nmar.simulate((20, 6), nmar.Constant("poisson"), "ignorable", density=0.6, seed=0)
    with pytest.raises(ValueError, match="Gaussian"):
        nmar.CCPF(nmar.Constant("poisson"), "ignorable", bounds=(0, 9), **SETTINGS).fit(cells)
    with pytest.raises(ValueError, match="but a value is"):
        nmar.CCPF(nmar.Effects("rows"), "ignorable", bounds=(0, 0.5), **SETTINGS).fit(cells)


def test_a_bent_linkage_is_held_there():
    cells, _ = nmar.simulate((40, 15), nmar.Effects("rows"), nmar.Linear(0.3), density=0.5, seed=0)
    train, _, test = cells.split(seed=0)
    model = nmar.CCPF(nmar.Effects("rows"), "free", starts=1, **SETTINGS).fit(train, hidden=test)
    found = model.linkage_sensitivity([0.0, 1.0], test)
    plain = nmar.CCPF(nmar.Effects("rows"), "ignorable", tail=False, **SETTINGS).fit(train, hidden=test)
    assert found.log_likelihood[0] == pytest.approx(plain.log_likelihood(test), abs=1e-6)
    assert found.name == "bend" and found.gain[0] == 0.0
    curve = bent(nmar.Linear(0.1, learn=True), 0.3)
    assert curve.c == 0.3 and not curve.learn
    with pytest.raises(ValueError, match="no parameter"):
        bent(nmar.Compound(), 0.3)


def test_errors_say_what_to_do(wide, tmp_path, monkeypatch):
    model, _ = wide
    with pytest.raises(ValueError, match="not both"):
        model.impute(2, cells=(["p0"], ["i0"]), rows=["p0"])
    with pytest.raises(ValueError, match="pair"):
        model.impute(2, cells=["p0", "i0"])
    with pytest.raises(ValueError, match="nobody"):
        model.impute(2, rows=["nobody"])
    with pytest.raises(ValueError, match="k=5"):
        model.impute(2, seed=0).table(5)
    with pytest.raises(ValueError, match="unit="):
        model.sensitivity([0], lambda t: 0.0, unit="cm")
    monkeypatch.setattr("nmar.evaluate.imputer.MOST", 100)
    with pytest.raises(ValueError, match="cells=\\(rows, cols\\)"):
        model.impute(2)
    model.save(tmp_path / "m.nmar")
    loaded = nmar.load(tmp_path / "m.nmar")
    with pytest.raises(ValueError, match="cells="):
        loaded.impute(2)
    with pytest.raises(ValueError, match="sweeps=3"):
        loaded.impute(2, cells=(["p0"], ["i0"]), sweeps=3)
    completed = loaded.impute(2, seed=0, cells=(["p0"], ["i0"]))
    assert completed.sweeps == 0 and completed.frame().shape == (1, 4)
    with pytest.raises(ValueError, match="frame"):
        completed.table(0)


def test_lines_that_were_folded_in_leave_the_others_as_they_are(wide):
    model, cells = wide
    folded = model.fold_in(cells.take_rows([0, 1]))
    assert folded.impute(2, seed=0).sweeps == 0


def test_bends_are_tried_with_the_cells_hidden_that_were_hidden_from_the_fit():
    cells, _ = nmar.simulate((40, 20), nmar.Effects("rows"), nmar.Linear(0.3), density=0.4, seed=0)
    train, away, test = cells.split(test=0.2, valid=0.2, seed=0)
    fixed = nmar.CCPF(nmar.Effects("rows"), nmar.Linear(0.3, learn=False), **SETTINGS)
    found = fixed.fit(train, hidden=away).linkage_sensitivity([0.3], test)
    by_hand = fixed.fit(train, hidden=away.concat(test))
    assert found.log_likelihood[0] == by_hand.log_likelihood(test)


def test_bends_are_compared_from_one_start():
    """Two fits of the same bend do not differ, though no seed was given."""
    cells, _ = nmar.simulate((40, 20), nmar.Factorization(2), nmar.Linear(0.3), density=0.4, seed=0)
    train, _, test = cells.split(test=0.2, valid=0.0, seed=0)
    for seed in (None, np.random.default_rng(0)):
        settings = {**SETTINGS, "max_iter": 3, "random_state": seed}
        model = nmar.CCPF(nmar.Factorization(2), nmar.Linear(0.3), **settings).fit(train, hidden=test)
        assert model.linkage_sensitivity([0.2, 0.2], test).gain.tolist() == [0.0, 0.0]


def test_bends_are_stopped_as_the_fit_was():
    """On its validation cells, unless those are the ones that judge."""
    cells, _ = nmar.simulate((40, 20), nmar.Factorization(3), nmar.Linear(0.3), density=0.4, seed=0)
    train, valid, test = cells.split(test=0.2, valid=0.2, seed=0)
    fixed = nmar.CCPF(nmar.Factorization(3), nmar.Linear(0.3, learn=False), patience=1, **SETTINGS)
    model = fixed.fit(train, valid=valid)
    found, judged = model.linkage_sensitivity([0.3], test), model.linkage_sensitivity([0.3], valid)
    again = fixed.fit(train, valid=valid, hidden=test)
    assert again.stop_reason_ == "validation" and found.log_likelihood[0] == again.log_likelihood(test)
    assert judged.log_likelihood[0] == fixed.fit(train, hidden=valid).log_likelihood(valid)


def test_bends_are_not_judged_by_training_cells():
    cells, _ = nmar.simulate((40, 20), nmar.Effects("rows"), nmar.Linear(0.3), density=0.4, seed=0)
    model = nmar.CCPF(nmar.Effects("rows"), "linear", starts=1, **SETTINGS).fit(cells)
    with pytest.raises(ValueError, match=r"cells and the training cells have 5 of .* in common"):
        model.linkage_sensitivity([0.0], cells[np.arange(5)])


def test_shifted_counts_of_trials_stay_among_the_trials():
    data = nmar.Constant("binomial", trials=3)
    cells, _ = nmar.simulate((30, 12), data, "ignorable", density=0.5, dispersion=3, seed=0)
    model = nmar.CCPF(data, "ignorable", **SETTINGS).fit(cells)
    for shift, end in ((9.0, 3.0), (-9.0, 0.0)):
        assert np.all(model.impute(2, seed=0).shifted(shift).values == end)


def test_names_of_index_and_columns_are_kept(tmp_path):
    """Also through a file, and in blocks of rows."""
    pandas = pytest.importorskip("pandas")
    values = np.random.default_rng(0).normal(size=(12, 5))
    values[::3, 1] = np.nan
    index = pandas.Index([f"s{k}" for k in range(12)], name="sample")
    frame = pandas.DataFrame(values, index, pandas.Index(list("abcde"), name="gene"))
    model = nmar.CCPF(nmar.Effects("both"), "ignorable", factors=2, max_iter=5, random_state=0).fit(frame)
    model.save(tmp_path / "m.nmar", seen=True)
    for one in (model, nmar.load(tmp_path / "m.nmar")):
        table = one.impute(n=1, seed=0, rows=["s3", "s0"]).table(0)
        assert (table.index.name, table.columns.name) == ("sample", "gene")
        assert list(table.index) == ["s3", "s0"]


@pytest.mark.parametrize(("mean", "shape"), [(0.0, (30, 20)), (0.003, (200, 100))])
def test_joint_draws_of_sparse_counts_are_as_small_as_predictions(mean, shape):
    """Rates of lines without counts were drawn near 0, and their lines without bound."""
    rng = np.random.default_rng(0)
    mask = rng.random(shape) < 0.3
    row, col = np.nonzero(mask)
    cells = nmar.Cells.from_arrays(row, col, rng.poisson(mean, len(row)).astype(float), shape=shape)
    model = nmar.CCPF(nmar.Factorization(2, family="poisson"), "ignorable", **SETTINGS).fit(cells)
    away = np.nonzero(~mask)
    predicted = model.predict_entries(*away).mean()
    for sweeps in (0, 5):
        drawn = model.impute(10, seed=1, cells=away, sweeps=sweeps).values
        assert drawn.max() <= (0 if mean == 0.0 else 10)
        assert drawn.mean() == pytest.approx(predicted, rel=0.2, abs=1e-4)


def test_a_fitted_model_is_pooled_with_its_names(wide):
    """Whatever has params and cov_params(), as the results of statsmodels do."""
    completed = wide[0].impute(n=4, seed=0)
    names = ["level", "slope"]

    def regression(table):
        x, y = (table.iloc[:, k].to_numpy(float) for k in (0, 1))
        design = np.column_stack([np.ones(len(x)), x])
        inverse = np.linalg.inv(design.T @ design)
        params = inverse @ design.T @ y
        noise = np.sum((y - design @ params) ** 2) / (len(y) - 2)
        frame = pandas.DataFrame(noise * inverse, names, names)
        return SimpleNamespace(params=pandas.Series(params, names), cov_params=lambda: frame)

    found = completed.pool(regression, df=len(completed.lines) - 2)
    assert found.frame().index.tolist() == names
    assert found.covariance.shape == (2, 2) and 0.0 <= found.test(which=["slope"]).p_value <= 1.0
    by_hand = [regression(table) for table in completed.tables()]
    np.testing.assert_allclose(found.estimate, np.mean([one.params for one in by_hand], axis=0))


def test_a_tipping_table_shifts_each_group_by_itself(wide):
    model, _ = wide
    completed = model.impute(n=3, seed=0)
    people = completed.rows.ids
    groups = {"first": people[:15], "second": people[15:]}

    def difference(table):
        one, other = (table.loc[ids].to_numpy().mean(axis=1) for ids in groups.values())
        return one.mean() - other.mean(), one.var(ddof=1) / 15 + other.var(ddof=1) / 15

    table = completed.tipping_table(difference, [-2.0, 0.0, 2.0], groups, df=28)
    assert (table.index.name, table.columns.name) == ("first", "second") and table.shape == (3, 3)
    by_hand = completed.pool(difference, df=28)
    t = abs(by_hand.estimate) / by_hand.se
    assert table.loc[0.0, 0.0] == pytest.approx(2.0 * student.sf(t, by_hand.df))
    one = completed.shifted(2.0 * completed.noise * np.isin(people[completed.row], groups["first"])[:, None])
    pooled = one.pool(difference, df=28)
    assert table.loc[2.0, 0.0] == pytest.approx(2.0 * student.sf(abs(pooled.estimate) / pooled.se, pooled.df))
    assert pooled.estimate > by_hand.estimate
    with pytest.raises(ValueError, match="groups has 1 groups; give two"):
        completed.tipping_table(difference, [0.0], {"first": people})


def test_a_conclusion_moves_with_the_slope_and_tips():
    rng = np.random.default_rng(0)
    full = rng.normal(size=(80, 1)) + rng.normal(size=(1, 8)) + 0.5 * rng.normal(size=(80, 8))
    seen = rng.random(full.shape) < 1.0 / (1.0 + np.exp(-1.0 - full))
    cells = nmar.Cells.from_dense(np.where(seen, full, np.nan))
    model = nmar.CCPF(nmar.Effects("both"), mechanism="value", factors=2, random_state=0, max_iter=20).fit(cells)

    def mean(table):
        return table.to_numpy().mean(), 1e-4

    found = model.mechanism_sensitivity([0.0, 0.5, 1.5], mean, n=4)
    assert (np.diff(found.estimate) < 0.0).all()  # missing values are lower, the more values decide
    fixed = nmar.CCPF(nmar.Effects("both"), mechanism=nmar.ByValue(0.5), factors=2, random_state=0, max_iter=20).fit(
        cells
    )
    assert found.estimate[1] == pytest.approx(fixed.impute(4, 0).pool(mean).estimate)
    middle = found.estimate[:2].mean()
    tips = found.tipping_point(float(middle))
    assert 0.0 < tips < 0.5
    assert list(found.frame().columns) == ["slope", "estimate", "low", "high"]
    assert found.text().startswith("Slope Γ of P(observed | value)") and "fixed" in found.text()
    assert nmar.plot.sensitivity(found).get_xlabel().startswith("slope Γ")
    with pytest.raises(ValueError, match="slope="):
        model.mechanism_sensitivity([np.nan], mean)


def test_slopes_cannot_be_tried_without_cells(tmp_path):
    cells, _ = nmar.simulate(shape=(30, 6), data=nmar.Effects("both"), density=0.6, seed=0)
    nmar.CCPF(nmar.Effects("both"), factors=2, random_state=0, max_iter=3).fit(cells).save(tmp_path / "m.nmar")
    with pytest.raises(ValueError, match="training cells"):
        nmar.load(tmp_path / "m.nmar").mechanism_sensitivity([0.0], lambda table: 0.0)
