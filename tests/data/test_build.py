"""What is refused, with which words, and how duplicates are settled."""

import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sparse

from nmar.data import Axis, Cells
from nmar.data.compressed import Compressed

ROW, COL, VALUE = [2, 0, 2, 0, 2], [1, 0, 1, 1, 1], [1.0, 2.0, 4.0, 8.0, 10.0]


@pytest.mark.parametrize(("policy", "expected"), [("last", 10.0), ("mean", 5.0), ("sum", 15.0)])
@pytest.mark.parametrize("shape", [(3, 2), (3, 10**7)])  # the second is sorted by keys, not by counting
def test_duplicates_are_settled(policy, expected, shape):
    cells = Cells.from_arrays(ROW, COL, VALUE, shape=shape, duplicates=policy)
    assert cells.row_index.tolist() == [0, 0, 2]
    assert cells.col_index.tolist() == [0, 1, 1]
    assert cells.values.tolist() == [2.0, 8.0, expected]


def test_last_is_last_in_the_order_given():
    rng = np.random.default_rng(0)
    row, col = rng.integers(0, 20, 5000), rng.integers(0, 15, 5000)
    wanted = np.full((20, 15), np.nan)
    for place in range(5000):
        wanted[row[place], col[place]] = place
    cells = Cells.from_arrays(row, col, np.arange(5000), duplicates="last")
    np.testing.assert_array_equal(wanted[cells.positions()], cells.values)
    assert cells.n_observed == np.isfinite(wanted).sum()


def test_equal_columns_in_neighbouring_rows_are_no_duplicates():
    assert Cells.from_arrays([0, 1, 4], [3, 3, 3], [1.0, 2.0, 3.0], shape=(6, 4)).n_observed == 3


def test_duplicates_error_names_count_example_and_remedy():
    with pytest.raises(ValueError, match=r"duplicates: 2 entries.*row 2, column 1; pass duplicates='last'"):
        Cells.from_arrays(ROW, COL, VALUE)
    columns = {"u": ["a", "a"], "i": ["x", "x"], "y": [1.0, 3.0]}
    with pytest.raises(ValueError, match=r"1 entries.*row 'a', column 'x'"):
        Cells.from_frame(columns, "u", "i", "y")
    for make in (lambda: Cells.from_arrays(ROW, COL, VALUE, duplicates="first"),
                 lambda: Cells.from_frame(columns, "u", "i", "y", duplicates="first")):  # fmt: skip
        with pytest.raises(ValueError, match=r"duplicates='first'.*'error', 'last', 'mean' or 'sum'"):
            make()
    matrix = sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(1, 2))
    with pytest.raises(ValueError, match=r"1 entries repeat"):
        Cells.from_scipy(matrix)
    assert Cells.from_scipy(matrix, duplicates="sum").values.tolist() == [3.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [0, 1], [1.0, np.nan]), "value: 1 NaN or infinite, first nan at position 1; drop"),
        (([0, 1], [0, 1], [-np.inf, np.inf]), "value: 2 NaN or infinite, first -inf at position 0"),
        (([], [], []), "empty input: row has 0.*at least one"),
        (([0, -3], [0, 1], [1.0, 2.0]), "row has a negative index -3 at position 1; count from 0"),
        (([0, 1], [0, -1], [1.0, 2.0]), "col has a negative index -1"),
        (([0, 2], [0, 1], [1.0, 2.0], (2, 2)), r"row has index 2 at position 1.*0\.\.1; enlarge shape"),
        (([0, 1], [9, 1], [1.0, 2.0], (2, 2)), "col has index 9 at position 0"),
        (([0.0, 1.0], [0, 1], [1.0, 2.0]), "row has dtype float64, not integers.*from_frame"),
        ((["a", "b"], [0, 1], [1.0, 2.0]), "row has dtype.*'a'.*from_frame"),
        (([0, 1], [True, False], [1.0, 2.0]), "col has dtype bool"),
        (([0, 1, 2], [0, 1], [1.0, 2.0]), "lengths differ: row has 3, col has 2, value has 2"),
        (([0, 1], [0, 1], ["x", "2"]), "value is not numeric.*'x'.*convert"),
        (([0, 1], [0, 1], [None, "2"]), "value is not numeric"),
        (([0, 1], [0, 1], [1j, 2j]), "value is not numeric"),
        (([0, 1], [0, 1], [1.0, 2.0], (0, 2)), r"shape=\(0, 2\).*at least 1"),
        (([0, 1], [0, 1], [1.0, 2.0], (2,)), r"shape=\(2,\)"),
        (([[0], [1]], [0, 1], [1.0, 2.0]), "row has shape.*one-dimensional"),
        (([0, 1], [0, 1], [[1.0], [2.0]]), "value has shape.*one-dimensional"),
        (([0, 10**12], [0, 1], [1.0, 2.0]), "row has index 1000000000000 for only 2 cells.*from_frame"),
    ],
)
def test_from_arrays_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        Cells.from_arrays(*arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": "stars"}, r"value='stars' is not a column; available: \['u', 'i', 'y'\]"),
        ({"row": "user"}, "row='user' is not a column"),
    ],
)
@pytest.mark.parametrize("make", [dict, pd.DataFrame])
def test_from_frame_names_the_missing_column(change, message, make):
    names = {"row": "u", "col": "i", "value": "y"} | change
    with pytest.raises(ValueError, match=message):
        Cells.from_frame(make({"u": [1], "i": [2], "y": [3.0]}), **names)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"u": ["a", None]}, "row: ids: 1 missing.*position 1; drop"),
        ({"i": [1.0, np.nan]}, "col: ids: 1 missing.*position 1; drop"),
        ({"y": [np.nan, 1.0]}, "value='y': 1 NaN or infinite, first nan at position 0"),
        ({"y": ["low", "high"]}, "value='y' is not numeric.*'low'"),
        ({"u": [], "i": [], "y": []}, "empty input"),
    ],
)
@pytest.mark.parametrize("make", [dict, pd.DataFrame])
def test_from_frame_refuses(change, message, make):
    columns = {"u": ["a", "b"], "i": [1, 2], "y": [3.0, 4.0]} | change
    with pytest.raises(ValueError, match=message):
        Cells.from_frame(make(columns), "u", "i", "y")


def test_from_frame_refuses_what_is_no_table():
    with pytest.raises(ValueError, match=r"df of type list is not a table; pass a pandas"):
        Cells.from_frame([1, 2], "u", "i", "y")


def test_from_frame_without_narwhals(monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals", None)
    with pytest.raises(ImportError, match=r"pip install narwhals"):
        Cells.from_frame(pd.DataFrame({"u": [1]}), "u", "u", "u")


def test_matrices_are_refused():
    with pytest.raises(ValueError, match=r"X of type ndarray.*from_dense"):
        Cells.from_scipy(np.eye(2))
    with pytest.raises(ValueError, match=r"X in format 'dia'"):
        Cells.from_scipy(sparse.dia_array(np.eye(2)))
    with pytest.raises(ValueError, match=r"X stores no entries"):
        Cells.from_scipy(sparse.csr_array((2, 2)))
    with pytest.raises(ValueError, match=r"A has shape"):
        Cells.from_dense(np.zeros(3))
    with pytest.raises(ValueError, match=r"A has no observed cell"):
        Cells.from_dense(np.full((2, 2), np.nan))
    with pytest.raises(ValueError, match=r"A: 1 NaN or infinite, first inf"):
        Cells.from_dense(np.array([[np.inf, 1.0]]))
    with pytest.raises(ValueError, match=r"A is not numeric"):
        Cells.from_dense([["x", "y"]])


def test_axes_must_agree_with_the_lines():
    lines = Compressed(np.array([0, 1]), np.array([0]), np.array([1.0]), 1)
    with pytest.raises(ValueError, match=r"by_row is 1 x 1 but the axes are 2 x 1"):
        Cells(lines, Axis.range(2), Axis.range(1))
