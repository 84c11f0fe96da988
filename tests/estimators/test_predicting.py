"""``predict`` for what people pass, and scikit-learn's own scores: no nan."""

from __future__ import annotations

import numpy as np
import pandas
import polars
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score

import nmar

MODEL = nmar.CCPF("factorization:2", factors=2, max_iter=5, random_state=0)


@pytest.fixture(scope="module")
def cells():
    found = nmar.simulate((50, 12), nmar.Factorization(2), nmar.Linear(0.4), 0.5, seed=0)[0]
    return nmar.Cells.from_frame(
        found.to_frame().assign(row=lambda table: "u" + table.row.astype(str)), "row", "col", "value"
    )


@pytest.fixture(scope="module")
def model(cells):
    return clone(MODEL).fit(cells)


def test_pairs_in_every_form(cells, model):
    row, col = (ids[:20] for ids in cells.pairs())
    exact = model.predict_entries(row, col)
    frame = pandas.DataFrame({"movieId": col, "user_id": row, "timestamp": 0.0})
    pairs = list(zip(row.tolist(), col.tolist(), strict=True))
    two = frame[["user_id", "movieId"]].set_axis(["who", "what"], axis=1)
    array = np.array(pairs, dtype=object)
    for one in (frame, two, polars.from_pandas(frame), polars.from_pandas(two).lazy(), pairs, array):
        np.testing.assert_array_equal(model.predict(one), exact)
    _, sd = model.predict(pairs, return_std=True)
    np.testing.assert_array_equal(sd, model.predict_entries(row, col, return_std=True)[1])
    np.testing.assert_array_equal(model.predict(cells)[:20], exact)
    assert model.predict([]).shape == (0,)
    np.testing.assert_array_equal(model.predict(pairs, target="all"), model.predict_entries(row, col, target="all"))


def test_unknown_ids_have_the_prior_and_are_told(model):
    with pytest.warns(UserWarning, match="1 of 2 pairs have .* such as the row 'nobody'"):
        found = model.predict([("u1", 3), ("nobody", 3)])
    assert found[1] == model.predict_entries(["nobody"], [3], unknown="prior")[0]
    with pytest.raises(ValueError, match="nobody"):
        model.predict([("nobody", 3)], unknown="error")


def test_a_matrix_is_folded_in_and_completed(cells):
    matrix = np.full(cells.shape, np.nan)
    matrix[cells.positions()] = cells.values
    model = clone(MODEL).fit(matrix)
    found = model.predict(matrix[:4])
    new = model.fold_in(matrix[:4])
    assert found.shape == (4, 12)
    np.testing.assert_array_equal(found[2], new.predict_entries(np.full(12, 2), np.arange(12)))
    np.testing.assert_allclose(np.vstack([model.predict(matrix[:2]), model.predict(matrix[2:4])]), found, rtol=1e-9)


def test_pairs_and_values_are_scikit_learns_x_and_y(cells):
    table = cells.to_frame("user", "item", "stars")
    X, y = table[["user", "item"]], table["stars"]
    exact = clone(MODEL).fit(cells)
    for given in (X, X.to_numpy(), X.to_numpy().tolist()):
        np.testing.assert_array_equal(clone(MODEL).fit(given, y).bound_trace_, exact.bound_trace_)
    assert exact.score(X, y) == exact.log_likelihood(cells)
    folds = KFold(3, shuffle=True, random_state=0)
    error = cross_val_score(MODEL, X, y, cv=folds, scoring="neg_root_mean_squared_error")
    train, test = next(folds.split(X))
    by_hand = clone(MODEL).fit(X.iloc[train], y.iloc[train]).predict(X.iloc[test])
    assert error[0] == pytest.approx(-nmar.metrics.rmse(y.iloc[test], by_hand), rel=1e-12)
    assert np.isfinite(error).all() and np.isfinite(cross_val_score(MODEL, X, y, cv=folds)).all()
    assert cross_val_predict(MODEL, X, y, cv=folds).shape == y.shape
    found = GridSearchCV(MODEL, {"data__rank": [1, 2]}, cv=folds, scoring="r2").fit(X, y)
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()
    np.testing.assert_array_equal(found.predict(X), found.best_estimator_.predict(cells))


def test_scorers_of_cells(cells):
    folds = nmar.EntryKFold(3, random_state=0)
    train, test = next(folds.split(cells))
    first = clone(MODEL).fit(cells[train])
    mean = first.predict(cells[test])
    exact = {
        nmar.metrics.rmse_scorer: -nmar.metrics.rmse(cells[test].values, mean),
        nmar.metrics.mae_scorer: -nmar.metrics.mae(cells[test].values, mean),
        nmar.metrics.log_density_scorer: first.score(cells[test]),
    }
    for scorer, value in exact.items():
        assert cross_val_score(MODEL, cells, cv=folds, scoring=scorer)[0] == value
    scoring = {"rmse": nmar.metrics.rmse_scorer, "nats": nmar.metrics.log_density_scorer}
    search = GridSearchCV(MODEL, {"data__rank": [1, 2]}, cv=folds, scoring=scoring, refit="rmse").fit(cells)
    assert np.isfinite(search.cv_results_["mean_test_rmse"]).all()
    weighted = cells.with_weights(np.linspace(0.0, 2.0, len(cells)))
    assert nmar.metrics.rmse_scorer(first, weighted) != nmar.metrics.rmse_scorer(first, cells)
    with pytest.raises(ValueError, match="X is a list without values"):
        nmar.metrics.rmse_scorer(first, [("u1", 2)])


def test_folds_of_rows_are_refused_for_cells(cells):
    """scikit-learn's usual folds would take as many of the first cells as there are rows."""
    with pytest.raises(ValueError, match=r"positions of 49 rows.*pass cv=nmar.EntryKFold\(5\)"):
        cross_val_score(MODEL, cells)
    for shuffle in (False, True):
        for folds in (2, 6, 12):
            for train, test in nmar.EntryKFold(folds, shuffle, random_state=0 if shuffle else None).split(cells):
                assert len(cells[train, ...]) + len(cells[test, ...]) == len(cells)
