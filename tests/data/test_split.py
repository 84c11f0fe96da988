"""Parts of the cells: by the formula, disjoint, complete."""

import numpy as np
import pytest

from nmar.data import Cells, EntryKFold, split, split_arrays


@pytest.fixture
def cells():
    rng = np.random.default_rng(3)
    row, col = np.nonzero(rng.random((25, 18)) < 0.4)
    order = rng.permutation(len(row))
    return Cells.from_arrays(row[order], col[order], np.arange(len(row)), shape=(30, 18))


def keys(part):
    return set(zip(part.row_index.tolist(), part.col_index.tolist(), part.values.tolist(), strict=True))


@pytest.mark.parametrize("seed", [0, 5])
def test_split_arrays_is_the_formula(seed):
    n = 1038  # 207.6 test cells: rounded, not cut
    p = np.random.default_rng(seed).permutation(n)
    train, valid, test = split_arrays(n, test=0.2, valid=0.01, seed=seed)
    np.testing.assert_array_equal(test, p[:208])
    np.testing.assert_array_equal(valid, p[208:218])
    np.testing.assert_array_equal(train, p[218:])


def test_split_follows_the_row_major_order(cells):
    numbers = split_arrays(len(cells), 0.2, 0.05, 7)
    parts = split(cells, test=0.2, valid=0.05, seed=7)
    for number, part, again in zip(numbers, parts, cells.split(test=0.2, valid=0.05, seed=7), strict=True):
        np.testing.assert_array_equal(part.values, cells.values[np.sort(number)])
        np.testing.assert_array_equal(part.col_index, cells.col_index[np.sort(number)])
        np.testing.assert_array_equal(part.row_index, cells.row_index[np.sort(number)])
        np.testing.assert_array_equal(again.values, part.values)


def test_parts_are_disjoint_complete_and_on_the_same_axes(cells):
    parts = cells.split(test=0.2, valid=0.05, seed=1)
    assert sum(len(part) for part in parts) == len(cells)
    assert set.union(*map(keys, parts)) == keys(cells)
    for part in parts:
        assert part.rows is cells.rows
        assert part.cols is cells.cols
        assert part.by(1).n == 18


def test_a_part_not_asked_for_is_empty(cells):
    train, valid, test = cells.split(test=0.5, valid=0, seed=1)
    assert len(valid) == 0
    assert valid.shape == cells.shape
    assert len(train) + len(test) == len(cells)
    assert valid.by(1).n_cells == 0


@pytest.mark.parametrize(
    ("n", "test", "valid", "message"),
    [
        (100, -0.1, 0.1, "test=-0.1 is not a fraction; pass 0 <= test < 1"),
        (100, 0.1, 1.5, "valid=1.5 is not a fraction"),
        (100, float("nan"), 0.1, "test=nan"),
        (100, 0.6, 0.4, "sum must be below 1"),
        (10, 0.2, 0.01, "valid=0.01 of 10 cells is no cell.*pass valid=0"),
        (10, 0.01, 0.2, "test=0.01 of 10 cells is no cell"),
        (1, 0.9, 0, "leave none to train on; lower"),
    ],
)
def test_fractions_are_checked(n, test, valid, message):
    with pytest.raises(ValueError, match=message):
        split_arrays(n, test, valid)


@pytest.mark.parametrize("shuffle", [True, False])
def test_entry_k_fold(cells, shuffle):
    folds = EntryKFold(n_splits=4, shuffle=shuffle, random_state=2)
    assert folds.get_n_splits() == 4
    pairs = [(cells[train], cells[test]) for train, test in folds.split(cells)]
    assert len(pairs) == 4
    for train, test in pairs:
        assert keys(train) | keys(test) == keys(cells)
        assert not keys(train) & keys(test)
        assert train.rows is cells.rows
    assert sum(len(test) for _, test in pairs) == len(cells)
    assert set.union(*(keys(test) for _, test in pairs)) == keys(cells)
    assert max(len(test) for _, test in pairs) - min(len(test) for _, test in pairs) <= 1
    again = list(folds.split(cells))
    assert all(keys(a[1]) == keys(cells[b[1]]) for a, b in zip(pairs, again, strict=True))
    contiguous = bool((np.diff(np.flatnonzero(np.isin(cells.values, pairs[0][1].values))) == 1).all())
    assert contiguous is not shuffle


def test_entry_k_fold_checks_its_arguments(cells):
    with pytest.raises(ValueError, match=r"n_splits=1: pass at least 2"):
        EntryKFold(1)
    with pytest.raises(ValueError, match=r"exceeds the 2 observed cells"):
        next(EntryKFold(3).split(cells.select(np.arange(len(cells)) < 2)))
    with pytest.raises(TypeError, match="X is a ndarray; EntryKFold splits"):
        next(EntryKFold(3).split(np.ones((3, 4))))


# --- by rows, by time, one of each row ------------------------------------------------------------------------------


def test_whole_rows(cells):
    parts = split(cells, test=0.2, valid=0.1, seed=2, by="rows")
    rows = [set(part.row_index.tolist()) for part in parts]
    assert [len(one) for one in rows[1:]] == [2, 5] and not (
        rows[0] & rows[1] or rows[0] & rows[2] or rows[1] & rows[2]
    )
    assert set.union(*map(keys, parts)) == keys(cells)


def test_the_latest_cells(cells):
    when = cells.with_values(np.random.default_rng(0).integers(0, 20, len(cells)))  # many at one time
    train, valid, test = cells.split(test=0.3, valid=0.1, by="time", time=when)
    assert len(test) == round(0.3 * len(cells)) and len(valid) == round(0.1 * len(cells))
    times = [when.values[np.isin(cells.values, part.values)] for part in (train, valid, test)]
    assert times[0].max() <= times[1].min() and times[1].max() <= times[2].min()
    other = cells.split(test=0.3, valid=0.1, by="time", time=when, seed=1)[2]
    assert keys(other) != keys(test)  # cells of one time
    turned = Cells(when.by(0), when.rows, when.cols).align(when.rows.take(np.arange(29, -1, -1)))
    assert keys(cells.split(test=0.3, valid=0.1, by="time", time=turned)[2]) == keys(test)


@pytest.mark.parametrize("timed", [True, False])
def test_one_cell_of_each_row_is_left_out(cells, timed):
    when = cells.with_values(np.random.default_rng(0).permutation(len(cells))) if timed else None
    train, test = cells.leave_one_out(time=when, seed=3)
    degree = np.diff(cells.by(0).indptr)
    np.testing.assert_array_equal(np.diff(test.by(0).indptr), degree > 1)
    assert keys(train) | keys(test) == keys(cells) and len(train) + len(test) == len(cells)
    if timed:
        for row, value in zip(test.row_index, test.values, strict=True):
            mine = cells.row_index == row
            assert value == cells.values[mine][when.values[mine].argmax()]


def test_times_are_checked(cells):
    with pytest.raises(ValueError, match="by='time' needs time="):
        split(cells, by="time")
    with pytest.raises(ValueError, match="a time for each of the cells"):
        split(cells, by="time", time=cells[np.arange(5)])
    with pytest.raises(TypeError, match="time is a ndarray"):
        split(cells, by="time", time=np.arange(len(cells)))
    with pytest.raises(ValueError, match="by='week'"):
        split(cells, by="week")
    with pytest.raises(ValueError, match="no row has two cells"):
        Cells.from_arrays([0, 1], [0, 0], [1.0, 2.0]).leave_one_out()
