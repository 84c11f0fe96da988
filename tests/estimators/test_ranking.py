"""Seen cells after loading, similar lines by brute force, factors with standard deviations; what model files keep."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas
import pytest

import nmar

OPTIONS = {"factors": 2, "max_iter": 4, "starts": 1, "random_state": 0, "n_jobs": 1}


@pytest.fixture(scope="module")
def cells():
    found = nmar.simulate((40, 15), nmar.Factorization(2), nmar.Linear(0.3), 0.4, seed=0)[0]
    return nmar.Cells(found.by(0), nmar.data.Axis.from_ids([f"u{k}" for k in range(40)]), found.cols)


@pytest.fixture(scope="module")
def model(cells):
    return nmar.CCPF(nmar.Factorization(2), "linear", **OPTIONS).fit(cells)


def test_seen_cells_of_a_loaded_model(cells, model, tmp_path):
    model.save(tmp_path / "bare")
    model.save(tmp_path / "whole", seen=True)
    rows = cells.row_ids
    exact = model.recommend(rows, n=15)
    bare, whole = nmar.load(tmp_path / "bare"), nmar.load(tmp_path / "whole")
    with pytest.raises(ValueError, match=r"pass them as seen=, or save the model with save\(path, seen=True\)"):
        bare.recommend(rows)
    with pytest.raises(ValueError, match="seen=True: this model does not hold its training cells"):
        bare.save(tmp_path / "again", seen=True)
    more = cells.concat(nmar.Cells.from_frame({"r": ["new"], "c": [99], "y": [1.0]}, "r", "c", "y"))
    for found in (
        whole.recommend(rows, n=15),
        bare.recommend(rows, n=15, seen=more),
        bare.recommend(rows, 15, seen=cells),
    ):
        for a, b in zip(exact, found, strict=True):
            np.testing.assert_array_equal(a, b)
    assert bare.recommend(rows, n=15, exclude_seen=False)[0].shape == (40, 15)
    with pytest.raises(ValueError, match="contradict each other"):
        bare.recommend(rows, exclude_seen=False, seen=cells)


def test_a_seen_column_never_takes_the_place_of_a_missing_one(cells, model):
    """Row 0 has seen all columns but one: that one, and nothing, are all there is."""
    wide = nmar.Cells.from_arrays(np.zeros(14, int), np.arange(14), np.ones(14), (40, 15))
    wide = nmar.Cells(wide.by(0), cells.rows, cells.cols)
    ids, scores = model.recommend(["u0", "u1"], n=3, seen=wide)
    assert ids[0].tolist() == [14, None, None] and np.isnan(scores[0, 1:]).all()
    assert None not in ids[1].tolist()
    everything = nmar.Cells.from_arrays(*np.divmod(np.arange(600), 15), np.ones(600), (40, 15))
    ids, _ = model.recommend(["u0"], n=3, seen=nmar.Cells(everything.by(0), cells.rows, cells.cols))
    assert ids.shape == (1, 0)


def test_a_model_saved_with_its_cells_goes_on_and_knows_its_rows(cells, model, tmp_path):
    number = np.arange(len(cells))
    hidden = cells.select(number < 5)
    first = nmar.CCPF(nmar.Factorization(2), "linear", **OPTIONS).fit(cells.select(number >= 20), hidden=hidden)
    first.save(tmp_path / "m", seen=True)
    second = nmar.load(tmp_path / "m")
    for one in (first, second):
        one.random_state = 0
        one.partial_fit(cells.select((number >= 5) & (number < 20)), sweeps=2)
    np.testing.assert_array_equal(first.bound_trace_, second.bound_trace_)


def test_lists_by_regression_are_those_of_the_formula(cells):
    model = nmar.CCPF(nmar.PatternOnly(), **OPTIONS).fit(cells)
    weights = model.posterior_.state.sides[1].pattern.weights.mean
    x = np.zeros(cells.shape)
    x[cells.positions()] = 1.0
    gram = weights.T @ weights
    gram += 0.1 * np.trace(gram) / len(gram) * np.eye(len(gram))
    chance = model.observed_probability(np.repeat(cells.row_ids, 15), np.tile(np.arange(15), 40))
    exact = 0.5 * (chance.reshape(40, 15) + x @ weights @ np.linalg.solve(gram, weights.T))
    scores = model.recommend(cells.row_ids, n=15, by="regression", exclude_seen=False)[1]
    np.testing.assert_allclose(scores, np.sort(exact, axis=1)[:, ::-1], rtol=1e-12)
    exact[x > 0] = np.nan
    scores = model.recommend(cells.row_ids, n=2, by="regression")[1]
    np.testing.assert_allclose(scores[:, 0], np.nanmax(exact, axis=1), rtol=1e-12)
    none = cells.select(np.zeros(len(cells), bool))
    scores = model.recommend(cells.row_ids, n=15, by="regression", seen=none)[1]
    np.testing.assert_allclose(scores, 0.5 * np.sort(chance.reshape(40, 15), axis=1)[:, ::-1], rtol=1e-12)


def test_only_candidates_are_listed(cells, model):
    every = model.recommend(cells.row_ids, n=15, exclude_seen=False, by="observed")[0]
    some = [11, 3, 7]
    ids, scores = model.recommend(cells.row_ids, n=15, exclude_seen=False, by="observed", candidates=some)
    np.testing.assert_array_equal(ids, every[np.isin(every, some)].reshape(40, 3))
    assert (np.diff(scores, axis=1) <= 0.0).all()
    unseen = model.recommend(cells.row_ids, n=15, by="observed", candidates=cells)[0]
    assert unseen.shape == (40, 0)
    own = model.recommend(cells.row_ids, n=15, exclude_seen=False, by="observed", candidates=cells)[0]
    for row, listed in zip(range(40), own.tolist(), strict=True):
        assert set(listed) - {None} == set(cells.by(0).lines(row, row + 1).indices.tolist())
    with pytest.raises(ValueError, match=r"candidates: 1 unknown on this axis: 99; name columns that were fitted"):
        model.recommend(["u0"], candidates=[1, 99])


@pytest.mark.parametrize("axis", ["rows", "cols"])
@pytest.mark.parametrize("by", ["value", "observed"])
def test_similar_lines_are_those_with_correlated_expectations(cells, model, axis, by):
    rows, cols = np.repeat(np.arange(40), 15), np.tile(np.arange(15), 40)
    known = model.posterior_
    if by == "value":
        expected = model.predict_entries(cells.row_ids[rows], cols).reshape(40, 15)
    else:
        expected = known.rates(rows, cols).reshape(40, 15)
    profiles = expected if axis == "rows" else expected.T
    exact = np.corrcoef(profiles - profiles.mean(axis=0))
    np.fill_diagonal(exact, -np.inf)
    ids = known.rows.ids if axis == "rows" else known.cols.ids
    found, similarity = model.similar(ids, n=4, axis=axis, by=by)
    np.testing.assert_allclose(similarity, np.sort(exact, axis=1)[:, ::-1][:, :4], atol=1e-9)
    position = {key: place for place, key in enumerate(ids.tolist())}
    taken = np.array([[exact[k, position[key]] for key in line] for k, line in enumerate(found.tolist())])
    np.testing.assert_allclose(taken, similarity, atol=1e-9)


def test_similar_refuses(model):
    with pytest.raises(ValueError, match=r"ids: 1 unknown on this axis: 'x'; name rows that were fitted"):
        model.similar("x", axis="rows")
    with pytest.raises(ValueError, match="n=0; give a whole number of at least 1"):
        model.similar([0], n=0)
    assert model.similar([0], n=15)[0].shape == (1, 14)
    with pytest.raises(ValueError, match="axis='up'"):
        model.similar([0], axis="up")
    pattern = nmar.CCPF(nmar.PatternOnly(), **OPTIONS).fit(nmar.simulate((20, 10), density=0.3, seed=0)[0])
    assert pattern.similar([0], n=2, by="observed")[0].shape == (1, 2)
    with pytest.raises(ValueError, match=r"has no factors of rows and columns; use by='observed'"):
        pattern.similar([0], n=2)


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_factors_have_standard_deviations(family):
    cells = nmar.simulate((40, 15), nmar.Factorization(2, family=family), density=0.4, seed=0)[0]
    model = nmar.CCPF(nmar.Factorization(2, family=family, bias=False), "ignorable", **OPTIONS).fit(cells)
    rows, cols = model.row_factors_, model.col_factors_
    assert rows.mean.shape == rows.sd.shape == (40, 2) and (rows.sd > 0).all() and (cols.sd > 0).all()
    i, j = np.divmod(np.arange(600), 15)
    product = (rows.mean @ cols.mean.T).ravel() + model.posterior_.units.center * (family == "gaussian")
    np.testing.assert_allclose(product, model.predict_entries(i, j), rtol=1e-6, atol=1e-8)
    frame = rows.frame()
    assert list(frame.columns) == ["factor 1", "factor 2", "factor 1 sd", "factor 2 sd"] and frame.shape == (40, 4)
    away = np.abs(rows.mean - rows.mean.mean(axis=0)) / rows.sd
    assert rows.top(1)["factor 2"][0][0] == int(away[:, 1].argmax())
    high, low = rows.top(40, "high")["factor 1"], rows.top(40, "low")["factor 1"]
    assert high == low[::-1]
    weights = model.posterior_.state.sides[0].pattern.weights
    np.testing.assert_allclose(model.row_pattern_.sd**2, weights.alpha / weights.beta**2)


def test_models_without_factors_have_none(cells):
    model = nmar.CCPF(nmar.Mixture(2, "rows"), "ignorable", **OPTIONS).fit(cells)
    with pytest.raises(AttributeError, match="exist for data models with factors"):
        model.row_factors_  # noqa: B018


# --- model files keep everything ------------------------------------------------------------------------------------


def test_a_regression_on_a_frame_comes_back(cells, tmp_path):
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(15, 2)), index=rng.permutation(15), columns=["age", "size"])
    model = nmar.CCPF(nmar.Regression(frame), "linear", **OPTIONS).fit(cells)
    model.save(tmp_path / "m")
    found = nmar.load(tmp_path / "m")
    np.testing.assert_array_equal(found.predict_entries(*cells.pairs()), model.predict_entries(*cells.pairs()))
    assert found.coefficients_.names == ("intercept", "age", "size")
    np.testing.assert_array_equal(found.coefficients_.mean, model.coefficients_.mean)
    found.save(tmp_path / "again")
    refitted = nmar.load(tmp_path / "again").set_params(random_state=0).fit(cells)
    np.testing.assert_array_equal(refitted.bound_trace_, model.bound_trace_)


def test_names_choices_and_weights_come_back(tmp_path):
    found = nmar.simulate((30, 8), nmar.Factorization(2), density=0.6, seed=0)[0]
    matrix = np.full((30, 8), np.nan)
    matrix[found.positions()] = found.values
    frame = pandas.DataFrame(matrix, columns=[f"i{k}" for k in range(8)])
    weighted = nmar.CCPF(nmar.Factorization(2), "linear", target="all", **OPTIONS).fit(frame)
    weighted.save(tmp_path / "m")
    assert nmar.load(tmp_path / "m").effective_cells_ == weighted.effective_cells_ > 0
    model = nmar.CCPF(nmar.Factorization(2), "auto", **OPTIONS).fit(frame)
    model.save(tmp_path / "m")
    loaded = nmar.load(tmp_path / "m")
    assert loaded.choices_ == model.choices_ and len(loaded.choices_) > 1 and loaded.n_features_in_ == 8
    assert loaded.feature_names_in_.tolist() == model.feature_names_in_.tolist()
    np.testing.assert_array_equal(loaded.transform(frame), model.transform(frame))
    with pytest.raises(ValueError, match="feature names"):
        loaded.transform(frame.rename(columns={"i0": "z"}))


@dataclass(frozen=True)
class Own:
    """Settings of one's own with a table that files cannot hold."""

    table: object
    rank: int = 2

    def build(self, cells):
        return nmar.Factorization(self.rank).build(cells)

    def describe(self):
        return "own"

    def portable(self, rows, cols):
        return Own(tuple(self.table), self.rank)


def test_settings_of_ones_own_may_say_how_they_are_kept(cells, tmp_path, monkeypatch):
    from nmar.posterior import store

    monkeypatch.setattr(store, "REGISTERED", dict(store.REGISTERED))
    nmar.register(Own)
    nmar.CCPF(Own({"a": 1}), "linear", **OPTIONS).fit(cells).save(tmp_path / "m")
    assert nmar.load(tmp_path / "m").data == Own(("a",), 2)


TITLES = {0: "Alien", 1: "Brazil", 2: "Casablanca"}


def test_lists_and_factors_have_names(cells, model):
    ids, scores = model.recommend(["u0", "u1"], n=15, exclude_seen=False)
    titles, same = model.recommend(["u0", "u1"], n=15, exclude_seen=False, labels=TITLES)
    np.testing.assert_array_equal(scores, same)
    assert titles.tolist() == [[TITLES.get(one, str(one)) for one in row] for row in ids.tolist()]
    like, named = (model.similar([0], n=14, labels=labels)[0] for labels in (None, pandas.Series(TITLES)))
    assert named.tolist() == [[TITLES.get(one, str(one)) for one in like[0].tolist()]]
    frame = model.col_factors_.frame(labels=pandas.DataFrame({"film": [0, 1], "title": ["Alien", "Brazil"]}))
    assert frame["label"].tolist() == ["Alien", "Brazil", *map(str, range(2, 15))]
    assert {"Alien", "Brazil"} <= {name for name, _ in model.col_factors_.top(15, labels=TITLES)["factor 1"]}
    with pytest.raises(ValueError, match="none of the ids has a label; ids are like 0, and labels are those of ids"):
        model.col_factors_.frame(labels={"0": "Alien"})
    with pytest.raises(TypeError, match="labels is a list; pass a dict"):
        model.recommend(["u0"], labels=["Alien"])


def test_lists_as_a_frame(model):
    frame = model.recommend_frame(["u1", "u0"], n=2, labels=TITLES)
    assert frame.columns.tolist() == ["row", "rank", "col", "label", "score"]
    assert frame["row"].tolist() == ["u1", "u1", "u0", "u0"] and frame["rank"].tolist() == [1, 2, 1, 2]
    ids, scores = model.recommend(["u1", "u0"], n=2)
    assert frame["col"].tolist() == ids.ravel().tolist() and frame["score"].tolist() == scores.ravel().tolist()
    everybody = model.recommend_frame(n=1)
    assert everybody["row"].tolist() == model.posterior_.rows.ids.tolist() and "label" not in everybody
    np.testing.assert_array_equal(model.recommend(n=1)[0].ravel(), everybody["col"])
