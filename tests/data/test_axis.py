"""Ids in, positions out, and back."""

import datetime
import uuid

import numpy as np
import pandas as pd
import pytest

from nmar.data import Axis, Cells

MIXED = ["b", 3, ("x", 1), 2.5, "b", 3]


@pytest.mark.parametrize(
    ("values", "ids"),
    [
        ([5, 3, 5, 9], [3, 5, 9]),
        (np.array([5, 3, 5], dtype=np.uint8), [3, 5]),
        ([10**15, -4, 10**15], [-4, 10**15]),
        (["b", "a", "b"], ["a", "b"]),
        (np.array(["b", "a", "b"]), ["a", "b"]),
        (pd.Series(["b", "a", "b"]), ["a", "b"]),
        (MIXED, ["b", 3, ("x", 1), 2.5]),
        ([1.5, 0.5], [0.5, 1.5]),
        ([True, False], [False, True]),
    ],
)
def test_from_values_numbers_every_kind_of_id(values, ids):
    axis, positions = Axis.from_values(values)
    assert axis.ids.tolist() == ids
    assert positions.dtype == np.int64
    assert axis.ids[positions].tolist() == list(values)
    np.testing.assert_array_equal(axis.positions(values), positions)
    assert [axis.id_at(place) for place in range(len(axis))] == ids


def test_dates_are_ids():
    dates = np.array(["2020-02-01", "2020-01-01"], dtype="datetime64[ns]")
    axis, positions = Axis.from_values(dates)
    assert positions.tolist() == [1, 0]
    assert axis.positions(dates).tolist() == [1, 0]
    assert Axis.from_arrays(axis.to_arrays()) == axis


def test_one_and_the_text_one_are_different_ids():
    axis, positions = Axis.from_values([1, "1", 1])
    assert len(axis) == 2
    assert positions.tolist() == [0, 1, 0]


def test_range_stores_no_table_and_equals_the_same_ids():
    axis = Axis.range(2**40)
    assert axis.table is None
    assert axis.positions([0, 2**40 - 1, 2**40, -1], unknown="prior").tolist() == [0, 2**40 - 1, -1, -1]
    assert Axis.from_values([2, 1, 0])[0] == Axis.range(3)
    assert Axis.range(3) != Axis.range(4)
    assert Axis.from_values(["a"])[0] != Axis.range(1)
    assert "1099511627776 ids: 0, 1, 2, …" in repr(axis)


@pytest.mark.parametrize("table", [Axis.range(4), Axis.range(2).extend([3, 2]), Axis.range(3).extend([7])])
def test_numbers_of_another_kind_find_integer_ids(table):
    assert table.positions(np.array([1.0, 1.5, np.nan]), unknown="prior").tolist() == [1, -1, -1]
    assert table.positions(np.array([1, "a", None], dtype=object), unknown="prior").tolist() == [1, -1, -1]
    assert table.positions(["1"], unknown="prior").tolist() == [-1]


def test_one_id_alone():
    axis = Axis.from_values(["ann", "bob"])[0]
    assert axis.positions("bob").tolist() == [1]
    assert Axis.range(3).positions(2).tolist() == [2]


def test_unknown_ids_are_named_counted_and_remedied():
    axis = Axis.from_values(["a", "b"])[0]
    with pytest.raises(ValueError, match=r"ids: 2 unknown.*'z', 7; .*unknown='prior'"):
        axis.positions(["a", "z", 7, "z"])
    assert axis.positions(["b", "z"], unknown="prior").tolist() == [1, -1]
    with pytest.raises(ValueError, match=r"unknown='skip'.*'error' or 'prior'"):
        axis.positions(["a"], unknown="skip")


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT])
def test_missing_ids_are_refused(missing):
    with pytest.raises(ValueError, match=r"1 missing.*first at position 1; drop"):
        Axis.from_values(["a", missing, "b"])


def test_missing_ids_in_plain_arrays_are_refused():
    with pytest.raises(ValueError, match=r"2 missing.*position 1"):
        Axis.from_values(np.array([1.0, np.nan, np.nan]))
    with pytest.raises(ValueError, match=r"1 missing.*position 0"):
        Axis.from_values(np.array(["NaT"], dtype="datetime64[s]"))


def test_unhashable_ids_and_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match=r"hashable.*tuples"):
        Axis.from_values([[1], [2]])
    with pytest.raises(ValueError, match=r"one-dimensional"):
        Axis.from_values(np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"n=-1"):
        Axis.range(-1)


def test_from_ids_keeps_the_order_given():
    assert Axis.from_ids(["b", "a"]).ids.tolist() == ["b", "a"]
    with pytest.raises(ValueError, match=r"1 are repeated"):
        Axis.from_ids(["b", "b"])


def test_take():
    axis = Axis.from_values(["a", "b", "c"])[0]
    assert axis.take([2, 0]).ids.tolist() == ["c", "a"]
    assert axis.take(np.array([True, False, True])).ids.tolist() == ["a", "c"]
    assert Axis.range(5).take([0, 1]).table is None
    assert Axis.range(5).take([4, 1]).ids.tolist() == [4, 1]
    with pytest.raises(ValueError, match=r"repeated.*once"):
        axis.take([0, 0])
    with pytest.raises(ValueError, match=r"0\.\.3, allowed 0\.\.2"):
        axis.take([0, 3])
    with pytest.raises(ValueError, match=r"dtype.*integers"):
        axis.take([0.5])
    with pytest.raises(ValueError, match=r"mask of shape"):
        axis.take(np.array([True]))


def test_extend_leaves_old_positions_unchanged():
    old = Axis.from_values(["m", "k"])[0]
    new = old.extend(["a", "m", "z", "a"])
    assert new.ids.tolist() == ["k", "m", "a", "z"]
    np.testing.assert_array_equal(new.positions(old.ids), np.arange(2))
    assert new.positions(["z", "a"]).tolist() == [3, 2]
    assert old.extend(["k"]) is old
    assert Axis.range(2).extend([2, 3]) == Axis.range(4)
    mixed = Axis.range(2).extend(["1", 9])
    assert mixed.ids.tolist() == [0, 1, "1", 9]
    assert mixed.positions([1, "1"]).tolist() == [1, 2]
    kept = Axis.range(2).extend(np.array([0.5])).ids.tolist()
    assert [type(value) for value in kept] == [int, int, float]  # not promoted to 0.0, 1.0
    unsorted = Axis.from_values([10, 20])[0].extend([5])
    assert unsorted.positions([5, 10, 20, 15], unknown="prior").tolist() == [2, 0, 1, -1]


@pytest.mark.parametrize(
    ("values", "kind", "dtype"),
    [
        ([0, 1, 2], "range", "i"),
        ([7, 5], "array", "i"),
        ([0.5, 2.0], "json", "U"),
        (np.array([0.5, 2.0]), "array", "f"),
        (["é", "b"], "str", "U"),
        (["a\0", "b"], "json", "U"),
        (MIXED, "json", "U"),
        ([("a", ("b", 1)), ("a", ("b", 2))], "json", "U"),
    ],
)
def test_serialisation_without_objects(values, kind, dtype, tmp_path):
    axis = Axis.from_values(values)[0]
    np.savez(tmp_path / "axis.npz", **axis.to_arrays())
    with np.load(tmp_path / "axis.npz", allow_pickle=False) as stored:
        assert str(stored["kind"]) == kind
        assert stored["ids"].dtype.kind == dtype
        again = Axis.from_arrays(stored)
    assert again == axis
    assert [type(v) for v in again.ids.tolist()] == [type(v) for v in axis.ids.tolist()]


def test_what_cannot_be_stored_says_so():
    with pytest.raises(ValueError, match=r"frozenset cannot be stored; use integers"):
        Axis.from_values([frozenset([1])])[0].to_arrays()
    with pytest.raises(ValueError, match=r"kind='heap'"):
        Axis.from_arrays({"kind": np.array("heap"), "ids": np.array([1])})


def test_axis_is_frozen():
    with pytest.raises(AttributeError):
        Axis.range(3).size = 4


DAY, NOON = datetime.date(2024, 3, 1), datetime.datetime(2024, 3, 1, 12)
ZONE = datetime.timezone(datetime.timedelta(hours=2))


@pytest.mark.parametrize(
    "ids",
    [
        [DAY, datetime.date(2024, 1, 1)],
        [NOON, datetime.datetime(2024, 3, 1, 11)],
        [DAY, NOON, "x"],
        [(DAY, 1), (uuid.UUID(int=1), 2)],
        [uuid.UUID(int=5), uuid.UUID(int=1)],
        [2**63 + 5, 2**63 + 1],
        [-1, 2**63 + 1],
        [2**70, 1],
    ],
)
def test_dates_uuids_and_large_numbers_are_found_and_stored(ids):
    axis, positions = Axis.from_values(ids)
    assert axis.ids[positions].tolist() == ids
    again = Axis.from_arrays(axis.to_arrays())
    assert again == axis
    for asked in (ids, axis.ids[positions], np.array([*ids, None], dtype=object)[:-1]):
        assert again.positions(asked).tolist() == positions.tolist()


def test_an_instant_is_one_id_in_every_zone_and_container():
    times = [pd.Timestamp("2024-03-01 12:00:00.000000001", tz=ZONE), pd.Timestamp("2024-03-02", tz=ZONE)]
    frame = pd.DataFrame({"row": times, "col": [0, 1], "value": [1.0, 2.0]})
    rows = Cells.from_frame(frame, "row", "col", "value").rows
    for asked in (times, frame["row"], frame["row"].dt.tz_convert("UTC"), pd.DatetimeIndex(times), rows.ids):
        assert rows.positions(asked).tolist() == [0, 1]
    noon = Axis.from_values([NOON.replace(tzinfo=datetime.UTC)])[0]
    assert noon.positions([NOON.replace(hour=14, tzinfo=ZONE)]).tolist() == [0]
    assert len(Axis.from_values([NOON, NOON.replace(tzinfo=ZONE)])[0]) == 2


def test_dates_of_two_units_extend_an_axis():
    axis = Axis.from_ids(np.array(["2024-01-02", "2024-01-01"], "datetime64[ns]")).extend([NOON])
    assert axis.positions(np.array(["2024-01-01", "2024-03-01T12"], "datetime64[s]")).tolist() == [1, 2]


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_integers_far_from_all_ids_are_unknown(step):
    ids = 7 + step * np.random.default_rng(0).permutation(50)
    axis = Axis.from_ids(ids)
    far = np.array([-(2**63), -1, 0, 6, 7 + step * 50, 2**63 - 1])
    np.testing.assert_array_equal(axis.positions(far, unknown="prior"), -1)
    np.testing.assert_array_equal(axis.positions(ids), np.arange(50))
    between = np.arange(7, 7 + step * 50)
    found = axis.positions(between, unknown="prior")
    np.testing.assert_array_equal(found >= 0, np.isin(between, ids))
