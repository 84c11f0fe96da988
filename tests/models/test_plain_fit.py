"""``CCPF().fit(cells)``, a fit that is told nothing: what it promises, on one table whose truth is known."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from scipy.stats import norm

import nmar
from nmar import CCPF, Cells, metrics

SHAPE = (220, 70)
OLD = 200  # rows of the fit; the others come later
ROWS = np.array([f"u{k:03d}" for k in range(SHAPE[0])])
COLS = np.array([f"film {k:02d}" for k in range(SHAPE[1])])


class Table:
    """Rank 2, noise by row and column, and a pattern of two groups that has nothing to do with the values."""

    def __init__(self) -> None:
        rng = np.random.default_rng(11)
        self.mean = 3.0 + 0.8 * rng.normal(size=(SHAPE[0], 2)) @ rng.normal(size=(2, SHAPE[1]))
        self.mean += 0.5 * rng.normal(size=(SHAPE[0], 1)) + 0.7 * rng.normal(size=SHAPE[1])
        self.log_precision = [0.7 * rng.normal(size=size) for size in SHAPE]
        spread = 0.8 * np.exp(-0.5 * np.add.outer(*self.log_precision))
        self.values = self.mean + spread * rng.normal(size=SHAPE)
        groups = [rng.integers(0, 2, size) for size in SHAPE]
        rate = np.where(np.equal.outer(*groups), 1.2, 0.25) * rng.gamma(3.0, 1.0 / 3.0, (SHAPE[0], 1))
        self.chance = -np.expm1(-rate)
        seen = rng.random(SHAPE) < self.chance
        held = seen & (rng.random(SHAPE) < 0.25)
        self.train, self.test, self.later = (
            self.cells(part)
            for part in (
                seen & ~held & (np.arange(SHAPE[0])[:, None] < OLD),
                held & (np.arange(SHAPE[0])[:, None] < OLD),
                seen & ~held & (np.arange(SHAPE[0])[:, None] >= OLD),
            )
        )
        self.missing = ~seen & (np.arange(SHAPE[0])[:, None] < OLD)

    def cells(self, which: np.ndarray) -> Cells:
        """The chosen cells, by id."""
        i, j = np.nonzero(which)
        return Cells.from_frame(
            pandas.DataFrame({"user": ROWS[i], "film": COLS[j], "stars": self.values[i, j]}), "user", "film", "stars"
        )

    def at(self, table: np.ndarray, cells: Cells) -> np.ndarray:
        """Entries of a table at the cells."""
        rows, cols = cells.pairs()
        return table[np.searchsorted(ROWS, rows), np.searchsorted(COLS, cols)]


@pytest.fixture(scope="module")
def table():
    return Table()


@pytest.fixture(scope="module")
def model(table):
    return CCPF(random_state=0).fit(table.train, hidden=table.test)


def test_it_is_one_run_with_noise_by_row_and_column(table, model):
    shared = model.posterior_.state.shared
    assert shared.linkage.name == "ignorable" and shared.noise.freedom and model.choices_ == ()
    short = CCPF(random_state=0, max_iter=3, tol=0.0).fit(table.train, hidden=table.test)
    assert short.n_iter_ == 3 == len(short.bound_trace_)
    again, other = (CCPF(random_state=k, max_iter=3, tol=0.0).fit(table.train, hidden=table.test) for k in (0, 1))
    np.testing.assert_array_equal(short.bound_trace_, again.bound_trace_)
    assert short.bound_trace_[-1] != other.bound_trace_[-1]


def test_it_beats_column_means(table, model):
    """In the mean, and in log density beside normal values around them."""
    _, cols = table.train.pairs()
    parts = {col: table.train.values[cols == col] for col in np.unique(cols)}
    test_cols = table.test.pairs()[1]
    mean, spread = (np.array([f(parts[col]) for col in test_cols]) for f in (np.mean, np.std))
    found = model.predict_entries(*table.test.pairs())
    assert metrics.rmse(table.test.values, found) < 0.85 * metrics.rmse(table.test.values, mean)
    assert model.log_likelihood(table.test) > norm.logpdf(table.test.values, mean, spread).mean() + 0.25


def test_it_recovers_the_values_behind_missing_cells(table, model):
    i, j = np.nonzero(table.missing)
    found, true = model.predict_entries(ROWS[i], COLS[j]), table.mean[i, j]
    assert np.corrcoef(found, true)[0, 1] > 0.9
    assert np.mean((found - true) ** 2) < 0.2 * np.var(true)
    assert abs(np.mean(found - true)) < 0.05


def test_it_recovers_the_noise_of_rows_and_columns(table, model):
    for found, ids, truth in zip((model.row_noise_, model.col_noise_), (ROWS, COLS), table.log_precision, strict=True):
        true = -0.5 * truth[np.searchsorted(ids, found.ids)]
        assert np.corrcoef(np.log(found.level), true)[0, 1] > 0.7


def test_its_intervals_cover_what_they_say(table, model):
    """90 %, in all and for the fifths of the rows by length, within four binomial standard errors."""
    low, high = model.interval(*table.test.pairs(), level=0.9)
    inside = (low <= table.test.values) & (table.test.values <= high)
    length = np.diff(table.train.by(0).indptr)[table.train.rows.positions(table.test.pairs()[0])]
    fifth = np.searchsorted(np.quantile(length, [0.2, 0.4, 0.6, 0.8]), length)
    for some in (inside, *(inside[fifth == k] for k in range(5))):
        assert abs(some.mean() - 0.9) < 4.0 * np.sqrt(0.09 / len(some))


def test_its_pattern_is_that_of_what_is_observed(table, model):
    """P(observed) ranks test cells above missing ones, nearly as well as the truth, and better than shares do."""
    i, j = np.nonzero(table.missing)
    rows, cols = (np.append(a, b) for a, b in zip(table.test.pairs(), (ROWS[i], COLS[j]), strict=True))
    seen = np.arange(len(rows)) < len(table.test)
    true = metrics.auc(seen, np.append(table.at(table.chance, table.test), table.chance[i, j]))
    found = metrics.auc(seen, model.observed_probability(rows, cols))
    ids, counts = np.unique(table.train.pairs()[0], return_counts=True)
    share = metrics.auc(seen, counts[np.searchsorted(ids, rows)])
    assert found > true - 0.03
    assert found > share + 0.1


def test_it_predicts_by_id(table, model):
    """Cells in another order, under the same ids, are the same cells."""
    mixed = np.random.default_rng(0).permutation(len(table.test))
    rows, cols = (ids[mixed] for ids in table.test.pairs())
    np.testing.assert_array_equal(model.predict_entries(rows, cols), model.predict_entries(*table.test.pairs())[mixed])
    density = model.log_density(table.test)
    assert density.mean() == model.log_likelihood(table.test)
    with pytest.raises(ValueError, match="nobody"):
        model.predict_entries(["nobody"], COLS[:1])


def test_a_file_of_it_says_the_same(table, model, tmp_path):
    model.save(tmp_path / "plain.nmar")
    loaded = nmar.load(tmp_path / "plain.nmar")
    pairs = table.test.pairs()
    for ask in ("predict_entries", "observed_probability", "interval"):
        np.testing.assert_array_equal(getattr(loaded, ask)(*pairs), getattr(model, ask)(*pairs))
    np.testing.assert_array_equal(loaded.row_noise_.level, model.row_noise_.level)


def test_it_grows_by_rows_that_come_later(table):
    """New rows are predicted from their own cells, known ones hardly move."""
    model = CCPF(random_state=0).fit(table.train, hidden=table.test)
    before = model.predict_entries(*table.test.pairs())
    model.partial_fit(table.later)
    after = model.predict_entries(*table.test.pairs())
    assert np.sqrt(np.mean((after - before) ** 2)) < 0.2 * np.std(before)
    i, j = np.nonzero(table.chance[OLD:] > 0.0)
    true = table.mean[OLD:][i, j]
    found = model.predict_entries(ROWS[OLD:][i], COLS[j])
    assert np.mean((found - true) ** 2) < 0.35 * np.var(true)
    assert len(model.row_noise_.level) == SHAPE[0]
