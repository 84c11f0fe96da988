"""Recommendations, draws and quantiles against brute force on tiny fitted models."""

import numpy as np
import pytest

import nmar

VALUES = np.array(
    [
        [1.0, 4.0, np.nan, 3.0, np.nan],
        [2.0, np.nan, 5.0, 2.0, 4.0],
        [3.0, 2.0, 1.0, np.nan, 1.0],
        [np.nan, 1.0, 2.0, 2.0, np.nan],
    ]
)


@pytest.fixture(scope="module")
def model():
    settings = {"factors": 2, "max_iter": 5, "n_jobs": 1, "random_state": 0}
    return nmar.CCPF(nmar.Factorization(2), "linear", **settings).fit(nmar.Cells.from_dense(VALUES))


def ranked(model, row, by, exclude_seen=True):
    """All columns of a row, best first, one by one."""
    found = []
    for col in range(VALUES.shape[1]):
        if exclude_seen and np.isfinite(VALUES[row, col]):
            continue
        value, chance = model.predict_entries([row], [col])[0], model.observed_probability([row], [col])[0]
        found.append(({"value": value, "observed": chance, "expected": value * chance}[by], col))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("by", ["value", "observed", "expected"])
@pytest.mark.parametrize("exclude_seen", [True, False])
def test_recommendations_are_the_best_columns(model, by, exclude_seen):
    for row in range(len(VALUES)):
        expected = ranked(model, row, by, exclude_seen)
        cols, scores = model.recommend([row], n=len(expected), by=by, exclude_seen=exclude_seen)
        np.testing.assert_array_equal(cols[0], [col for _, col in expected])
        np.testing.assert_allclose(scores[0], [score for score, _ in expected], rtol=1e-12)


def test_no_more_than_the_unseen_columns_are_recommended(model):
    """Rows 0 and 3 have two unseen columns, rows 1 and 2 one."""
    cols, scores = model.recommend([0], n=4)
    assert cols.shape == scores.shape == (1, 2)
    assert np.all(np.isnan(VALUES[0, cols[0]])) and np.all(np.isfinite(scores))
    cols, scores = model.recommend([0, 1], n=4)
    assert cols.shape == scores.shape == (2, 2)
    assert cols[1, 1] is None and np.isnan(scores[1, 1])
    assert [cols[1, 0]] == [col for _, col in ranked(model, 1, "value")]
    cols, _ = model.recommend([0, 3], n=2)
    assert cols.dtype == model.posterior_.cols.ids.dtype
