"""Tables of covariates as people have them: missing entries of every kind, ids that do not fit."""

import numpy as np
import pandas as pd
import pytest

from nmar.data.axis import Axis
from nmar.data.covariates import design
from nmar.data.levels import level_design

AXIS = Axis.range(6)
READERS = pytest.mark.parametrize("read", [design, level_design])


def frame(column, ids=range(6)):
    return pd.DataFrame({"a": column}, index=pd.Index(list(ids), name="id"))


@READERS
@pytest.mark.parametrize("dtype", ["string", "boolean", "Int64", "category", object])
def test_missing_entries_of_every_pandas_type_are_missing(read, dtype):
    entries = [True, False] * 3 if dtype == "boolean" else [1, 2] * 3
    column = pd.Series(entries if dtype in ("boolean", "Int64") else [str(one) for one in entries], dtype=dtype)
    column[[0, 3]] = None if dtype in (object, "category") else pd.NA
    made = read(frame(column.array), AXIS, "rows")
    assert made.names[-1] == "a missing"
    indicator = made.x[:, -1]
    assert set(np.flatnonzero(indicator == indicator.max())) == {0, 3}


@READERS
def test_repeated_ids_are_refused_by_the_name_of_the_argument(read):
    with pytest.raises(ValueError, match=r"pattern rows: .*1 .*repeated.*one line for each id"):
        read(frame(np.arange(7.0), [0, 1, 2, 3, 4, 5, 5]), AXIS, "pattern rows")


@READERS
def test_a_table_of_other_ids_is_refused(read):
    with pytest.raises(ValueError, match=r"rows has no line for any .* 0, 1, 2 … .* '0', '1', '2' …"):
        read(frame(np.arange(6.0), "012345"), AXIS, "rows")


@READERS
def test_a_line_that_comes_later_may_have_none(read):
    made = read(frame(np.arange(6.0)), AXIS, "rows")
    with pytest.warns(UserWarning, match="no line for 1 of 1 ids, 9; they get the mean"):
        np.testing.assert_array_equal(
            made.lines(Axis.from_ids([9]), "rows")[0], made.typical + np.zeros(made.x.shape[1])
        )


@READERS
def test_a_table_without_some_ids_is_warned_of(read):
    made = read(frame(np.arange(4.0), range(4)), AXIS, "rows")
    with pytest.warns(UserWarning, match="no line for 2 of 6 ids"):
        assert made.lines(AXIS, "rows").shape[0] == 6
