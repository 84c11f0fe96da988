"""Measures by their definitions, row by row and pair by pair."""

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, ndcg_score, roc_auc_score

import nmar
from nmar import metrics


@pytest.fixture(scope="module")
def case():
    """Lists of distinct columns for 12 rows, two of which have nothing held out, and their held-out cells."""
    rng = np.random.default_rng(0)
    listed = np.array([rng.permutation(30)[:8] for _ in range(12)])
    row, col = np.nonzero(rng.random((12, 30)) < 0.2)
    kept = ~np.isin(row, [3, 7])
    test = nmar.Cells.from_arrays(row[kept], col[kept], rng.integers(1, 6, kept.sum()), (12, 30))
    return listed, test


def relevant_of(test, row, at_least):
    least = -np.inf if at_least is None else at_least
    return {int(j) for i, j, y in zip(*test.positions(), test.values, strict=True) if i == row and y >= least}


@pytest.mark.parametrize("k", [1, 5, 8, 20])
@pytest.mark.parametrize("at_least", [None, 3.0])
def test_measures_of_lists(case, k, at_least):
    listed, test = case
    recall, ndcg, precision = [], [], []
    for row, line in enumerate(listed.tolist()):
        good = relevant_of(test, row, at_least)
        if not good:
            continue
        hits = [col in good for col in line[:k]]
        recall.append(sum(hits) / len(good))
        gain = sum(hit / np.log2(place + 2) for place, hit in enumerate(hits))
        ndcg.append(gain / sum(1 / np.log2(place + 2) for place in range(min(k, len(good)))))
        sums = sum(sum(hits[: place + 1]) / (place + 1) for place, hit in enumerate(hits) if hit)
        precision.append(sums / min(k, len(good)))
    assert 5 < len(recall) <= 10
    arguments = (listed, np.arange(12), test, k, at_least)
    assert metrics.recall(*arguments) == pytest.approx(np.mean(recall), rel=1e-13)
    assert metrics.ndcg(*arguments) == pytest.approx(np.mean(ndcg), rel=1e-13)
    assert metrics.average_precision(*arguments) == pytest.approx(np.mean(precision), rel=1e-13)


@pytest.mark.parametrize("at_least", [None, 3.0])
def test_measures_of_lists_by_inverse_propensity(case, at_least):
    listed, test = case
    chance = np.random.default_rng(2).uniform(0.05, 1.0, len(test))
    inverse = 1.0 / chance
    inverse = dict(
        zip(zip(*test.positions(), strict=True), np.minimum(inverse, np.quantile(inverse, 0.99)), strict=True)
    )
    recall, ndcg = [], []
    for row, line in enumerate(listed.tolist()):
        good = {col: inverse[row, col] for col in relevant_of(test, row, at_least)}
        if not good:
            continue
        gains = [good.get(col, 0.0) for col in line[:5]]
        recall.append(sum(gains) / sum(good.values()))
        best = sorted(good.values(), reverse=True)[:5]
        dcg = [sum(gain / np.log2(place + 2) for place, gain in enumerate(each)) for each in (gains, best)]
        ndcg.append(dcg[0] / dcg[1])
    arguments = (listed, np.arange(12), test, 5, at_least)
    matrix = np.ones(test.shape)
    matrix[test.positions()] = chance
    for given in (chance, matrix, lambda row, col: matrix[row, col]):
        assert metrics.recall(*arguments, propensity=given) == pytest.approx(np.mean(recall), rel=1e-12)
        assert metrics.ndcg(*arguments, propensity=given) == pytest.approx(np.mean(ndcg), rel=1e-12)
    with pytest.raises(ValueError, match="propensity holds 0"):
        metrics.ndcg(*arguments, propensity=np.zeros(len(test)))


def test_ndcg_is_that_of_scikit_learn():
    rng = np.random.default_rng(1)
    score, truth = rng.random((6, 10)), rng.random((6, 10)) < 0.3
    truth[:, 0] = True
    test = nmar.Cells.from_arrays(*np.nonzero(truth), np.ones(truth.sum()), truth.shape)
    listed = np.argsort(-score, axis=1)
    assert metrics.ndcg(listed, np.arange(6), test, k=4) == pytest.approx(ndcg_score(truth, score, k=4), rel=1e-12)


def test_lists_that_end_early_and_ids_of_any_kind():
    frame = {"r": ["a", "a", "b"], "c": ["x", "y", "z"], "v": [1.0, 1.0, 1.0]}
    test = nmar.Cells.from_frame(frame, "r", "c", "v")
    listed = np.array([["x", None, None], ["q", "z", None], ["x", "y", "z"]], object)
    assert metrics.recall(listed, ["a", "b", "nobody"], test, k=3) == pytest.approx((0.5 + 1.0) / 2)
    with pytest.raises(ValueError, match="no relevant cell"):
        metrics.recall(listed, ["n", "m", "o"], test)
    with pytest.raises(ValueError, match=r"listed has shape \(3, 3\), but there are 2 rows"):
        metrics.recall(listed, ["a", "b"], test)
    with pytest.raises(ValueError, match="k=0"):
        metrics.ndcg(listed, ["a", "b", "c"], test, k=0)


def test_errors_coverage_and_area():
    rng = np.random.default_rng(2)
    y, at, weight = rng.normal(size=(3, 50))
    weight = np.abs(weight)
    assert metrics.rmse(y, at, weight) == pytest.approx(np.sqrt((weight * (y - at) ** 2).sum() / weight.sum()))
    assert metrics.mae(y, at) == pytest.approx(mean_absolute_error(y, at))
    assert metrics.coverage(y, at - 1, at + 1) == np.mean(np.abs(y - at) <= 1)
    seen, score = y > 0, np.round(at, 1)
    assert metrics.auc(seen, score) == pytest.approx(roc_auc_score(seen, score), rel=1e-13)
    with pytest.raises(ValueError, match="both kinds are needed"):
        metrics.auc([True], [1.0])
    with pytest.raises(ValueError, match=r"lengths .* differ"):
        metrics.rmse([1.0], [1.0, 2.0])
