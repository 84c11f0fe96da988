"""Recommendations, draws and quantiles against brute force on tiny fitted models."""

from functools import cache

import numpy as np
import pandas
import pytest
from scipy.stats import kstest

import nmar
from nmar.posterior.posterior import DRAWS, log_density, quantiles

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


@cache
def simple_fit(data, link):
    cells = nmar.simulate((30, 25), data, nmar.Linear(0.3), 0.3, seed=0)[0]
    settings = {"factors": 2, "starts": 1, "max_iter": 4, "random_state": 0}
    return cells, nmar.CCPF(data, link, **settings).fit(cells)


@pytest.mark.parametrize("by", ["value", "observed", "expected"])
@pytest.mark.parametrize("size", [1, 100, 1 << 20])
def test_blocks_of_rows_are_ranked_like_single_ones(by, size, monkeypatch):
    """Whatever the block, and where columns tie, as Effects("rows") makes them: then the first of them are named."""
    monkeypatch.setattr("nmar.posterior.recommend.BLOCK", size)
    for data, link in ((nmar.Factorization(2), "free"), (nmar.Effects("rows"), nmar.Free(mean="shift"))):
        cells, model = simple_fit(data, link)
        ids, scores = model.recommend(np.arange(30), n=5, by=by)
        for row in range(0, 30, 4):
            unseen = np.setdiff1d(np.arange(25), cells.col_index[cells.row_index == row])
            value = model.predict_entries(np.full(len(unseen), row), unseen)
            chance = model.observed_probability(np.full(len(unseen), row), unseen)
            score = {"value": value, "observed": chance, "expected": value * chance}[by]
            np.testing.assert_allclose(scores[row], np.sort(score)[::-1][:5], rtol=1e-10)
            np.testing.assert_allclose(score[np.searchsorted(unseen, ids[row].astype(int))], scores[row], rtol=1e-10)
        if by == "value" and link == "free":
            _, alike = simple_fit(nmar.Constant("gaussian"), "ignorable")
            first, _ = alike.recommend([0], n=4, exclude_seen=False)
            assert first[0].tolist() == [0, 1, 2, 3]


# --- draws and quantiles --------------------------------------------------------------------------------------------

KINDS = {
    "gaussian": (nmar.Factorization(2), "linear"),
    "gaussian-open": (nmar.Factorization(2), nmar.Geometric(0.3)),
    "poisson": (nmar.Factorization(2, family="poisson"), "ignorable"),
    "poisson-constant": (nmar.Constant("poisson"), "compound"),
    "binomial-constant": (nmar.Constant("binomial", trials=5), "ignorable"),
    "gamma-constant": (nmar.Constant("gamma"), "linear"),
    "inverse-gaussian-constant": (nmar.Constant("inverse_gaussian"), "free"),
}
COUNTS = ("poisson", "poisson-constant", "binomial-constant")
CELL = ([0], [2])
LEVELS = (0.05, 0.3, 0.5, 0.95)


@cache
def fitted(kind):
    data, link = KINDS[kind]
    settings = {"factors": 2, "max_iter": 5, "starts": 1, "n_jobs": 1, "random_state": 0}
    return nmar.CCPF(data, link, **settings).fit(nmar.Cells.from_dense(VALUES))


@cache
def distribution(kind):
    """Places and P(Y ≤ place) of one unseen cell, summed from densities alone."""
    model = fitted(kind)
    if kind in COUNTS:
        places = np.arange(0.0, 400.0)
    else:
        places = np.linspace(-60.0, 70.0, 260_001) if "gauss" in kind[:5] else np.geomspace(1e-5, 1e5, 200_001)
    at = np.zeros(len(places), int)
    density = np.exp(log_density(model.posterior_, at, at + 2, places))
    if kind in COUNTS:
        mass = np.cumsum(density)
    else:
        mass = np.append(0.0, np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(places)))
    assert mass[-1] == pytest.approx(1.0, abs=1e-4)
    return places, mass


@pytest.mark.parametrize("kind", KINDS)
def test_draws_have_the_distribution_of_the_densities(kind):
    """200,000 draws: the largest distance of the two distribution functions, at a chance of 1e-3."""
    drawn = np.sort(fitted(kind).sample(*CELL, n=200_000, seed=3)[0])
    places, mass = distribution(kind)
    if kind in COUNTS:
        assert np.array_equal(drawn, np.round(drawn))
        found = np.searchsorted(drawn, places, side="right") / len(drawn)
        assert np.abs(found - mass).max() < 1.95 / np.sqrt(len(drawn))
    else:
        assert kstest(np.interp(drawn, places, mass), "uniform").statistic < 1.95 / np.sqrt(len(drawn))


@pytest.mark.parametrize("kind", KINDS)
def test_quantiles_invert_the_distribution_function(kind):
    model, (places, mass) = fitted(kind), distribution(kind)
    found = quantiles(model.posterior_, *(np.array(part) for part in CELL), LEVELS)[0]
    off = 4.0 * np.sqrt(np.multiply(LEVELS, np.subtract(1.0, LEVELS)) / DRAWS) if "constant" in kind else 1e-5
    if kind in COUNTS:  # the smallest count with so much mass up to it
        assert np.array_equal(found, np.round(found))
        at = found.astype(int)
        assert np.all(mass[at] >= LEVELS - np.asarray(off))
        assert np.all(np.where(at > 0, mass[np.maximum(at - 1, 0)], 0.0) < LEVELS + np.asarray(off))
    else:
        assert np.all(np.abs(np.interp(found, places, mass) - LEVELS) < off)
    low, high = model.interval(*CELL, level=0.9)
    assert (low[0], high[0]) == pytest.approx((found[0], found[-1]), rel=1e-14)  # (1 − 0.9) / 2 is not quite 0.05


@pytest.fixture(scope="module")
def mixed():
    """Rows called 1, "1" and (2, "b")."""
    ids = [1, "1", (2, "b")]
    table = {"row": [ids[i] for i in (0, 0, 1, 1, 2, 2)], "col": [0, 1, 0, 2, 1, 2], "value": [1.0, 2, 8, 9, 4, 5]}
    cells = nmar.Cells.from_frame(table, row="row", col="col", value="value")
    assert cells.row_ids.tolist() == ids
    return nmar.CCPF(nmar.Effects("rows"), "linear", factors=2, max_iter=5, n_jobs=1, random_state=0).fit(cells)


def test_ids_of_mixed_kinds_are_asked_about_as_they_are(mixed):
    ids = mixed.posterior_.rows.ids
    each = [mixed.predict_entries(ids[k : k + 1], [0])[0] for k in range(3)]
    assert len(set(each)) == 3
    assert mixed.predict_entries([1, "1", (2, "b")], [0, 0, 0]).tolist() == each
    scores = mixed.recommend(ids, n=1, exclude_seen=False)[1].tolist()
    assert mixed.recommend([1, "1", (2, "b")], n=1, exclude_seen=False)[1].tolist() == scores
    alike = mixed.similar(ids, n=1, axis="rows", by="observed")[0].tolist()
    assert mixed.similar([1, "1", (2, "b")], n=1, axis="rows", by="observed")[0].tolist() == alike
    assert mixed.impute(2, rows=[1, "1"], sweeps=0).rows.size == 3
    assert mixed.impute(2, cells=([1, "1", (2, "b")], [0, 0, 0]), sweeps=0).values.shape == (3, 2)


def test_a_list_in_place_of_an_id_is_refused(mixed):
    with pytest.raises(ValueError, match=r"hashable.*tuples"):
        mixed.predict_entries([[1, "1"]], [0])


@pytest.mark.parametrize("plugin", [False, True])
@pytest.mark.parametrize("data", [nmar.Factorization(2, "poisson"), nmar.Mixture(2, family="poisson")])
def test_values_that_are_no_counts_have_no_probability(data, plugin):
    cells = nmar.Cells.from_dense(VALUES)
    settings = {"factors": 2, "max_iter": 3, "starts": 1, "n_jobs": 1, "random_state": 0}
    model = nmar.CCPF(data, "exponential", **settings).fit(cells)
    asked = nmar.Cells.from_arrays([0, 1, 2, 3], [0, 2, 3, 0], [1.5, -2.0, 3.0, 0.0], VALUES.shape)
    found = model.log_density(asked, plugin)
    assert np.isneginf(found[:2]).all() and np.isfinite(found[2:]).all()


def test_weights_of_a_table_count(model):
    table = pandas.DataFrame({"row": [0, 1, 2], "col": [0, 2, 3], "value": [1.0, 5.0, 9.0], "weight": [1.0, 0.0, 3.0]})
    each = model.log_likelihood(table, per_cell=True)
    assert model.log_likelihood(table) == model.score(table) == pytest.approx((each[0] + 3.0 * each[2]) / 4.0)


def test_fewer_columns_than_asked_for_are_all_recommended(model):
    cols, _ = model.recommend([0], exclude_seen=False)
    assert sorted(cols[0]) == [0, 1, 2, 3, 4]
    assert model.recommend([0])[0].shape == (1, 2)
    assert sorted(model.similar([0])[0][0]) == [1, 2, 3, 4]
    assert sorted(model.similar([0], axis="rows")[0][0]) == [1, 2, 3]
    for ask in (model.recommend, model.similar):
        for n in (0, -1, 1.5):
            with pytest.raises(ValueError, match=f"n={n!r}; give a whole number of at least 1"):
                ask([0], n=n)
