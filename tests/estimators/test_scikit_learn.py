"""scikit-learn's conformance checks, its cross-validation, and matrices whose rows are others than those of the fit."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import nmar

ZEROS = "dia and bsr matrices cannot tell a stored 0 from a missing cell, and are refused with the remedy"
EXPECTED = {"check_estimator_sparse_array": ZEROS, "check_estimator_sparse_matrix": ZEROS}
MODEL = nmar.CCPF(nmar.Factorization(2), "free", factors=2, starts=1, max_iter=10, random_state=0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:all cells are observed:UserWarning")
@pytest.mark.filterwarnings("ignore:rank=:UserWarning")
@parametrize_with_checks([MODEL], expected_failed_checks=lambda estimator: EXPECTED)
def test_the_conventions_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def cells():
    return nmar.simulate((60, 12), nmar.Factorization(2), nmar.Linear(0.4), 0.5, seed=0)[0]


@pytest.fixture(scope="module")
def matrix(cells):
    found = np.full(cells.shape, np.nan)
    found[cells.positions()] = cells.values
    return found


def test_folds_of_cells(cells):
    folds = nmar.EntryKFold(3, random_state=0)
    scores = cross_val_score(MODEL, cells, cv=folds)
    exact = [clone(MODEL).fit(cells[train]).score(cells[test]) for train, test in folds.split(cells)]
    np.testing.assert_array_equal(scores, exact)


def test_a_search_over_parameters_of_parameters(cells):
    grid = {"data__rank": [1, 2], "linkage": ["ignorable", nmar.Free(levels=4)], "factors": [2]}
    found = GridSearchCV(MODEL, grid, cv=nmar.EntryKFold(2, random_state=0)).fit(cells)
    assert found.best_estimator_.data.rank == found.best_params_["data__rank"]
    assert len(found.cv_results_["params"]) == 4


def test_parameters_of_parameters():
    model = nmar.CCPF().set_params(data__rank=3, max_iter=7)
    assert model.data == nmar.Factorization(3) and model.max_iter == 7
    assert model.get_params()["data__covariance"] == "full"
    assert clone(model).data == model.data
    with pytest.raises(ValueError, match=r"data__rang is no parameter: .* has bias, center, cols, covariance"):
        model.set_params(data__rang=2)
    with pytest.raises(ValueError, match="linkage__c is no parameter"):
        model.set_params(linkage__c=2)


def test_rows_of_another_matrix_are_folded_in(matrix):
    """By position, the rows 40 … would be taken for the first ones: each half is predicted from the other instead."""
    model = clone(MODEL).set_params(noise="constant").fit(matrix[:30])
    new = matrix[30:]
    cells = nmar.Cells.from_dense(new)
    half = np.random.default_rng(0).permutation(len(cells)) % 2 == 0
    parts = cells.select(half), cells.select(~half)
    exact = [model.fold_in(a).log_density(b) for a, b in (parts, parts[::-1])]
    assert model.score(new) == pytest.approx(np.concatenate(exact).mean(), rel=1e-14)
    assert model.score(new) > model.score(cells) + 0.2  # Cells are by id: rows 0, 1, …
    with pytest.raises(ValueError, match="rows of a matrix that the model was not fitted to"):
        model.log_density(new)
    assert len(cross_val_score(MODEL, matrix, cv=KFold(2))) == 2


def test_rows_of_the_same_matrix_are_scored_as_they_are(matrix):
    rng = np.random.default_rng(1)
    held_out = np.isfinite(matrix) & (rng.random(matrix.shape) < 0.2)
    train, test = np.where(held_out, np.nan, matrix), np.where(held_out, matrix, np.nan)
    model = clone(MODEL).fit(train)
    assert model.score(test) == model.log_likelihood(nmar.Cells.from_dense(test))
    assert model.score(train) == model.log_likelihood(nmar.Cells.from_dense(train))


def test_a_loaded_model_refuses_a_matrix_of_as_many_rows(matrix, tmp_path):
    clone(MODEL).fit(matrix).save(tmp_path / "m")
    with pytest.raises(ValueError, match="loaded model has no training cells"):
        nmar.load(tmp_path / "m").score(matrix)


def test_transform_in_a_pipeline_with_names(matrix):
    new = matrix[:5].copy()
    new[2] = np.nan  # nothing is known of this row
    model = clone(MODEL).fit(matrix)
    found = model.transform(new)
    assert found.shape == (5, 2) and np.isfinite(found).all()
    with pytest.raises(ValueError, match="X has 11 features, but CCPF is expecting 12 features"):
        model.transform(new[:, 1:])
    assert list(model.get_feature_names_out()) == ["ccpf0", "ccpf1"]
    frame = model.set_output(transform="pandas").transform(new)
    assert list(frame.columns) == ["ccpf0", "ccpf1"]
    chained = make_pipeline(clone(MODEL), StandardScaler()).fit_transform(matrix)
    assert chained.shape == (60, 2)


def test_a_full_matrix_is_fitted_as_ignorable():
    full = np.random.default_rng(0).normal(size=(20, 6))
    with pytest.warns(UserWarning, match="all cells are observed, so there is no missingness to model"):
        model = clone(MODEL).fit(full)
    assert model.linkage_.name == "ignorable"


def test_a_fit_that_has_not_converged_says_so(cells):
    told = r"tol=0\.0001 of itself after max_iter=2 sweeps; raise it, or go on with warm_start=True"
    with pytest.warns(ConvergenceWarning, match=told):
        clone(MODEL).set_params(max_iter=2).fit(cells)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(MODEL).set_params(max_iter=2, tol=0).fit(cells)  # as many sweeps as asked for
        model = clone(MODEL).set_params(max_iter=500, tol=1e-3).fit(cells)
    assert model.stop_reason_ == "converged"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_warm_starts_go_on_from_the_present_model(cells):
    exact = clone(MODEL).set_params(max_iter=8, tol=0).fit(cells)
    model = clone(MODEL).set_params(max_iter=4, tol=0, warm_start=True).fit(cells)
    first = model.bound_trace_
    model.fit(cells)
    np.testing.assert_allclose(np.append(first, model.bound_trace_), exact.bound_trace_, rtol=1e-9)
    cold = clone(MODEL).set_params(max_iter=4, tol=0).fit(cells)
    np.testing.assert_array_equal(cold.fit(cells).bound_trace_, first)
    with pytest.raises(ValueError, match="warm_start=True takes no valid, checkpoint or callbacks"):
        model.fit(cells[np.arange(1, len(cells))], valid=cells[[0]])
    more = cells.concat(nmar.Cells.from_frame({"r": [99], "c": [0], "v": [0.5]}, "r", "c", "v"))
    assert model.fit(more).posterior_.rows.ids[-1] == 99


def test_data_models_and_linkages_by_name(cells, tmp_path):
    """As on the command line and in compare."""
    model = nmar.CCPF("factorization:2", "linear:0.3", factors=2, max_iter=3, random_state=0).fit(cells)
    exact = nmar.CCPF(nmar.Factorization(2), nmar.Linear(0.3), factors=2, max_iter=3, random_state=0).fit(cells)
    np.testing.assert_array_equal(model.bound_trace_, exact.bound_trace_)
    assert clone(model).set_params(data__rank=4).data == nmar.Factorization(4)
    model.save(tmp_path / "m.nmar")
    assert nmar.load(tmp_path / "m.nmar").data == "factorization:2"
    with pytest.raises(ValueError, match="data 'factorisation:2'; use factorization:RANK"):
        nmar.CCPF("factorisation:2").fit(cells)
