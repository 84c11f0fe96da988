"""Values in float32 where nothing is lost by it: every number comes back exactly, whatever was done to the cells."""

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sparse

from nmar.data import Axis, Cells, EntryKFold, compact

EXACT = np.array([0.5, 3.0, -0.25, 4.5, 0.0, 5.0])
TENTHS = np.array([0.1, 3.0, 0.7, 4.5, 0.0, 1.1])
MIXED = np.array([0.5, 3.0, 0.1, 4.5, 0.0, 5.0])  # one needs float64, so all have it
ROW, COL = np.array([2, 0, 1, 0, 2, 1]), np.array([1, 0, 2, 3, 0, 1])
each_kind = pytest.mark.parametrize(
    ("given", "dtype"),
    [(EXACT, np.float32), (TENTHS, np.float64), (MIXED, np.float64)],
    ids=["exact", "tenths", "mixed"],
)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of four numbers, so that few values fill several."""
    monkeypatch.setattr(compact, "BLOCK", 4)


def holding(given):
    return Cells.from_arrays(ROW, COL, given, shape=(3, 4))


def numbers(cells):
    """Value of each cell by its ids, as Python floats, read from both orientations, which must agree."""
    rows, cols = cells.by(0), cells.by(1)
    assert rows.values.dtype == cols.values.dtype
    assert rows.values.dtype in (np.float32, np.float64)
    ids = cells.row_ids.tolist(), cells.col_ids.tolist()
    by_row = {
        (ids[0][i], ids[1][j]): v for i, j, v in zip(rows.major(), rows.indices, rows.values.tolist(), strict=True)
    }
    by_col = {
        (ids[0][i], ids[1][j]): v for j, i, v in zip(cols.major(), cols.indices, cols.values.tolist(), strict=True)
    }
    assert by_row == by_col
    assert list(by_row.values()) == cells.values.tolist()
    assert cells.values.dtype == np.float64
    return by_row


def expected(given):
    return {(i, j): v for i, j, v in zip(ROW.tolist(), COL.tolist(), given.tolist(), strict=True)}


def stored(cells):
    return cells.by(0).values.dtype


# --- which dtype ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (0.5, np.float32),
        (0.1, np.float64),
        (2**24, np.float32),
        (2**24 + 1, np.float64),
        (-(2.0**100), np.float32),
        (3.5e38, np.float64),  # above the largest float32
        (1e300, np.float64),
        (2.0**-149, np.float32),  # the smallest float32
        (1e-46, np.float64),  # below it
        (5e-324, np.float64),
        (-0.0, np.float32),
        (True, np.float32),
        (np.float16(0.1), np.float32),
        (np.float32(0.1), np.float32),
        (np.uint8(255), np.float32),
        (np.int64(2**53), np.float32),
        (np.int64(2**53 - 1), np.float64),
    ],
)
def test_the_dtype_of_one_value(value, dtype):
    cells = Cells.from_arrays([0, 1], [0, 0], np.array([value, 1], dtype=np.asarray(value).dtype))
    assert cells.by(0).values.dtype == cells.by(1).values.dtype == dtype
    assert cells.values.dtype == np.float64
    assert cells.values.tolist() == [float(value), 1.0]
    assert np.signbit(cells.values[0]) == np.signbit(np.float64(value))


@pytest.mark.parametrize("place", range(11))
def test_one_value_anywhere_decides(place, small_blocks):
    values = np.arange(11.0)
    assert compact.compact(values).dtype == np.float32
    values[place] = 0.1
    kept = compact.compact(values)
    assert kept.dtype == np.float64
    assert kept.tolist() == values.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_no_bit_is_lost(seed, small_blocks):
    rng = np.random.default_rng(seed)
    narrow = rng.integers(0, 2**32, 50, dtype=np.uint32).view(np.float32)
    narrow = narrow[np.isfinite(narrow)].astype(np.float64)
    wide = rng.integers(0, 2**64, 50, dtype=np.uint64).view(np.float64)
    wide = wide[np.isfinite(wide)]
    for values, dtype in ((narrow, np.float32), (wide, np.float64), (rng.permutation([*narrow, *wide]), np.float64)):
        kept = compact.compact(values)
        assert kept.dtype == dtype
        np.testing.assert_array_equal(kept.astype(np.float64).view(np.uint64), values.view(np.uint64))


def test_a_value_that_is_not_finite_is_found_in_any_block(small_blocks):
    values = np.arange(11.0)
    values[[6, 9]] = np.nan, np.inf
    with pytest.raises(ValueError, match=r"value: 2 NaN or infinite, first nan at position 6"):
        Cells.from_arrays(np.arange(11), np.zeros(11, int), values)


# --- every way in -----------------------------------------------------------------------------------------------------


def frame(make):
    return lambda given: Cells.from_frame(make({"u": ROW, "i": COL, "y": given}), "u", "i", "y")


def from_dense(given):
    array = np.full((3, 4), np.nan)
    array[ROW, COL] = given
    return Cells.from_dense(array)


CONSTRUCTORS = {
    "arrays": holding,
    "keys": lambda given: Cells.from_arrays(ROW, COL, given, shape=(3, 1_100_000)),  # not sorted by counting
    "dict": frame(dict),
    "pandas": frame(pd.DataFrame),
    "polars": frame(pl.DataFrame),
    "objects": lambda given: Cells.from_frame({"u": ROW, "i": COL, "y": given.astype(object)}, "u", "i", "y"),
    "coo": lambda given: Cells.from_scipy(sparse.coo_array((given, (ROW, COL)), shape=(3, 4))),
    "csc": lambda given: Cells.from_scipy(sparse.csc_matrix((given, (ROW, COL)), shape=(3, 4))),
    "dense": from_dense,
}


@each_kind
@pytest.mark.parametrize("make", CONSTRUCTORS.values(), ids=CONSTRUCTORS)
def test_every_constructor_is_exact(make, given, dtype):
    cells = make(given)
    assert numbers(cells) == expected(given)
    assert stored(cells) == dtype


def test_integers_of_any_width_are_exact():
    for dtype in (np.int8, np.uint16, np.int32, np.int64):
        cells = holding(np.array([1, 2, 3, 4, 5, 100], dtype=dtype))
        assert stored(cells) == np.float32
        assert cells.values.tolist() == [2.0, 4.0, 100.0, 3.0, 5.0, 1.0]
        assert stored(Cells.from_dense(np.array([[1, 2], [3, 4]], dtype=dtype))) == np.float32


# --- duplicates -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("policy", "values", "merged", "kind"),
    [
        ("sum", [2**24, 1, 1], 2.0**24 + 2, np.float32),  # adding in float32 would give 2**24
        ("sum", [2**24, 1, 0], 2.0**24 + 1, np.float64),
        ("mean", [2**24, 2, 1], (2.0**24 + 3) / 3, np.float64),
        ("mean", [0, 0, 1], 1 / 3, np.float64),
        ("mean", [0, 1, 2], 1.0, np.float32),
        ("last", [1, 0, 2**24], 2.0**24, np.float32),
    ],
)
def test_duplicates_are_merged_in_float64(dtype, policy, values, merged, kind):
    cells = Cells.from_arrays([0, 1, 1, 1], [0, 1, 1, 1], np.array([7, *values], dtype=dtype), duplicates=policy)
    assert numbers(cells) == {(0, 0): 7.0, (1, 1): merged}
    assert stored(cells) == kind


@pytest.mark.parametrize(
    ("policy", "merged", "dtype"),
    [("last", 0.5, np.float32), ("sum", 1.0, np.float32), ("mean", 1 / 3, np.float64)],
)
def test_what_is_left_of_duplicates_is_compact_again(policy, merged, dtype):
    cells = Cells.from_arrays([0, 0, 0], [0, 0, 0], [0.3, 0.2, 0.5], duplicates=policy)
    assert cells.values.tolist() == [merged]
    assert stored(cells) == dtype


# --- cells from cells -------------------------------------------------------------------------------------------------


CHANGES = {
    "transposed": lambda cells: cells.T.T,
    "aligned": lambda cells: cells.align(rows=Axis.from_ids([2, 5, 1, 0]), cols=Axis.from_ids([3, 2, 1, 0])),
    "selected": lambda cells: cells.select(np.ones(6, bool)),
    "taken": lambda cells: cells.take_rows([1, 2, 0]),
    "mapped": lambda cells: cells.map_values(lambda values: values),
    "with_values": lambda cells: cells.with_values(cells.values.tolist()),
    "scipy": lambda cells: Cells.from_scipy(cells.to_scipy()),
    "frame": lambda cells: Cells.from_frame(cells.to_frame(), "row", "col", "value"),
    "joined": lambda cells: cells.select(np.arange(6) < 3).concat(cells.select(np.arange(6) >= 3)),
    "last": lambda cells: cells.concat(cells, duplicates="last"),
    "mean": lambda cells: cells.concat(cells, duplicates="mean"),
}


@each_kind
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_same_cells_another_way(change, given, dtype):
    cells = change(holding(given))
    assert numbers(cells) == expected(given)
    assert stored(cells) == dtype


@each_kind
def test_parts_are_exact_and_complete(given, dtype):
    cells = holding(given)
    halves = cells.select(np.arange(6) % 2 == 0), cells.select(np.arange(6) % 2 == 1)
    rows = cells.take_rows([1]), cells.take_rows([2, 0])
    folds = tuple(cells[test] for _, test in EntryKFold(3, random_state=0).split(cells))
    for parts in (halves, rows, folds, cells.split(test=0.4, valid=0.2, seed=1)):
        joined = {}
        for part in parts:
            joined |= numbers(part)
            assert stored(part) == dtype
        assert joined == expected(given)


def test_joined_cells_keep_what_either_needs():
    halves, tenths = Cells.from_arrays([0], [0], [0.5]), Cells.from_arrays([1], [0], [0.1])
    for both in (halves.concat(tenths), tenths.concat(halves)):
        assert numbers(both) == {(0, 0): 0.5, (1, 0): 0.1}
        assert stored(both) == np.float64
    assert stored(halves.concat(tenths.with_values([0.25]))) == np.float32


def test_with_values_decides_anew_in_both_orientations():
    cells = holding(EXACT)
    cells.by(1), cells.order(1)
    changed = cells.with_values(np.arange(6) / 10)
    assert changed.by(0).values.dtype == changed.by(1).values.dtype == np.float64
    assert changed.values.tolist() == (np.arange(6) / 10).tolist()
    assert changed.by(1).values.tolist() == (np.arange(6) / 10)[cells.order(1)].tolist()
    assert stored(changed.with_values(np.arange(6))) == np.float32


# --- what the user sees -----------------------------------------------------------------------------------------------


@each_kind
def test_values_leave_as_float64_copies(given, dtype):
    cells = holding(given)
    assert stored(cells) == dtype
    matrix = cells.to_scipy()
    for array in (cells.values, matrix.data):
        assert array.dtype == np.float64
        array[:] = 9.0
    matrix.indices[:] = 0
    assert cells.to_frame()["value"].dtype == np.float64
    assert numbers(cells) == expected(given)


def test_float32_given_by_the_user_is_not_shared():
    values = EXACT.astype(np.float32)
    cells = holding(values)
    changed = cells.with_values(values)
    values[:] = 9.0
    assert numbers(cells) == expected(EXACT)
    assert changed.values.tolist() == EXACT.tolist()


def test_the_summary_is_computed_in_float64():
    cells = Cells.from_arrays([0, 1], [0, 0], np.array([3e38, 3e38], dtype=np.float32))
    assert repr(cells).endswith("values mean 3e+38 sd 0)")


# --- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("positions", "values", "most"),
    [
        (np.int32, np.float32, 16),  # two sorts of 8 bytes
        (np.int64, np.float64, 20),  # the same, and narrowed values
    ],
)
def test_building_makes_no_hidden_copies(positions, values, most):
    n, shape = 300_000, (3000, 2000)
    rng = np.random.default_rng(0)
    row, col = np.divmod(rng.choice(shape[0] * shape[1], n, replace=False), shape[1])
    row, col, given = row.astype(positions), col.astype(positions), rng.integers(1, 6, n).astype(values)
    tracemalloc.start()
    try:
        cells = Cells.from_arrays(row, col, given, shape)
        first = tracemalloc.get_traced_memory()[1] / n
        kept = tracemalloc.get_traced_memory()[0] / n
        tracemalloc.reset_peak()
        cells.by(1)
        second = tracemalloc.get_traced_memory()[1] / n - kept
    finally:
        tracemalloc.stop()
    assert first < most + 1.5  # bytes per cell; the rest is pointers and blocks
    assert kept < 8.5
    assert second < 8.5
