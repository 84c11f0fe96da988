"""Ids of any kind as arrays, without changing what they are.

Enters: whatever a user calls an id (arrays, lists, series; integers, strings, dates, tuples, mixtures).
Leaves: one-dimensional arrays, the distinct ids among them, and errors that show the offending ids.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import uuid
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]
# Kinds of ids whose text says all of them, by the name that a file calls them: the type, and what reads the text.
NAMED: dict[str, tuple[type, Callable[[str], Any]]] = {
    "date": (datetime.date, datetime.date.fromisoformat),
    "datetime": (datetime.datetime, datetime.datetime.fromisoformat),
    "uuid": (uuid.UUID, uuid.UUID),
}


def as_ids(values: Any) -> NDArray[Any]:
    """Ids as a one-dimensional array that has not changed their kind: strings and mixtures become object.

    Dates become datetime64, those with a time zone in UTC, so that one instant is one id wherever it comes from.
    """
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if isinstance(values, np.ndarray | np.generic):
        array = np.atleast_1d(values)
        if array.ndim != 1:
            raise ValueError(f"ids of shape {array.shape}: pass a one-dimensional array")
        if array.dtype.kind in "US":
            return object_array(array.tolist())
        return _dates(array) if array.dtype == object else to_int64(array)
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        listed = [values]  # one id
    else:
        listed = list(values)
    kinds = set(map(type, listed))
    if any(kind.__hash__ is None for kind in kinds):
        raise _unhashable("a list in place of an id")
    # np.asarray would turn [1, "a"] into strings, so only lists of one plain kind are handed to it.
    if kinds and all(kind is int or issubclass(kind, np.integer) for kind in kinds):
        numbers = np.array(listed)
        if numbers.dtype.kind in "iu":  # numbers of both signs beyond 63 bits would become floats
            return to_int64(numbers)
    return _dates(object_array(listed))


def _dates(array: NDArray[Any]) -> NDArray[Any]:
    """Objects that are all days, or all instants (of the same kind of clock), as datetime64; others as they are."""
    if not len(array) or not isinstance(array[0], datetime.date | np.datetime64):
        return array
    listed = array.tolist()
    if all(type(value) is datetime.date for value in listed):
        return np.array(listed, dtype="datetime64[D]")
    if not all(isinstance(value, datetime.datetime | np.datetime64) for value in listed):
        return array
    if len({getattr(value, "tzinfo", None) is None for value in listed}) > 1:
        return array  # a time without a zone may be any of several instants
    return np.array([_instant(value) for value in listed])


def _instant(value: Any) -> np.datetime64:
    """A time as datetime64, in UTC if it has a zone; pandas' keep their nanoseconds."""
    if isinstance(value, np.datetime64):
        return value
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    found: np.datetime64 = value.to_datetime64() if hasattr(value, "to_datetime64") else np.datetime64(value)
    return found


def to_int64(array: NDArray[Any]) -> NDArray[Any]:
    """Any integer array as int64 where its values fit (a uint64 above 2**63 stays what it is)."""
    if array.dtype.kind not in "iu" or array.dtype == np.int64:
        return array
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        return array
    return array.astype(np.int64)


def object_array(listed: list[Any]) -> NDArray[Any]:
    """A one-dimensional array of these objects, each as it is."""
    array = np.empty(len(listed), dtype=object)
    for place, value in enumerate(listed):  # slice assignment would spread tuples over a second dimension
        array[place] = value
    return array


def distinct(array: NDArray[Any]) -> tuple[NDArray[Any], Positions]:
    """The distinct ids, sorted if they can be compared, and the number of each id among them.

    Missing ids (None, NaN, NaT) are refused.
    """
    if array.dtype == object:
        return _distinct_objects(array)
    _check_no_missing(array)
    if array.dtype.kind in "iu":
        return _distinct_integers(array)
    return np.unique(array, return_inverse=True)


def _distinct_integers(array: NDArray[Any]) -> tuple[NDArray[Any], Positions]:
    if len(array) == 0:
        return array.astype(np.int64), np.empty(0, dtype=np.int64)
    low, span = int(array.min()), int(array.max()) - int(array.min()) + 1
    if span > 4 * len(array) + 1024:
        return np.unique(array, return_inverse=True)
    # Ids that are nearly dense need no sort: mark those present, then number the marks.
    offset = array - low
    present = np.zeros(span, dtype=bool)
    present[offset] = True
    number = np.cumsum(present, dtype=np.int64) - 1
    return np.flatnonzero(present).astype(array.dtype) + low, number[offset]


def _distinct_objects(array: NDArray[Any]) -> tuple[NDArray[Any], Positions]:
    listed = array.tolist()
    try:
        found = list(dict.fromkeys(listed))
    except TypeError as error:
        raise _unhashable(str(error)) from None
    missing = sum(is_missing(value) for value in found)
    if missing:
        places = [place for place, value in enumerate(listed) if is_missing(value)]
        raise _missing_ids(len(places), places[0])
    with contextlib.suppress(TypeError):  # mixed kinds cannot be compared: order of first appearance
        found = sorted(found)
    index = {value: place for place, value in enumerate(found)}
    positions = np.fromiter(map(index.__getitem__, listed), np.int64, len(listed))
    plain = [value.item() if isinstance(value, np.generic) else value for value in found]
    if all(type(value) is int and -(2**63) <= value < 2**63 for value in plain):
        return np.array(plain, dtype=np.int64), positions
    return object_array(plain), positions


def as_positions(positions: Any, size: int) -> Positions:
    """Positions on an axis of `size` ids as int64, from integers or a boolean mask; refuses those outside."""
    array = np.atleast_1d(np.asarray(positions))
    if array.dtype == bool:
        if array.shape != (size,):
            raise ValueError(f"positions: a mask of shape {array.shape} for {size} lines; lengths must agree")
        return np.flatnonzero(array).astype(np.int64, copy=False)
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind not in "iu":
        raise ValueError(f"positions of dtype {array.dtype}: pass integers (translate ids with Axis.positions)")
    if array.min() < 0 or array.max() >= size:
        raise ValueError(f"positions: found {array.min()}..{array.max()}, allowed 0..{size - 1}")
    return array.astype(np.int64, copy=False)


def unknown_ids(argument: str, ids: NDArray[Any], remedy: str) -> ValueError:
    """The error for ids that are not on an axis: which argument, the first of them, how many, what to do."""
    distinct = list(dict.fromkeys(ids.tolist()))
    first = ", ".join(repr(value) for value in distinct[:5]) + (", …" if len(distinct) > 5 else "")
    return ValueError(f"{argument}: {len(distinct)} unknown on this axis: {first}; {remedy}")


def _unhashable(what: str) -> ValueError:
    """The error for lists and the like in place of ids."""
    return ValueError(f"ids must be hashable ({what}); use integers, strings or tuples")


def _missing_ids(count: int, first: int) -> ValueError:
    """The error for null ids."""
    return ValueError(f"ids: {count} missing (None or NaN), first at position {first}; drop or name those entries")


def _check_no_missing(array: NDArray[Any]) -> None:
    """Refuse NaN and NaT in a float or date array of ids (object arrays are checked while numbered)."""
    if array.dtype.kind in "fcmM":
        bad = np.isnan(array) if array.dtype.kind in "fc" else np.isnat(array)
        if bad.any():
            raise _missing_ids(int(bad.sum()), int(bad.argmax()))


def not_a_number(listed: list[Any]) -> Any:
    """The first value that is no number and no text of one; where all are texts of numbers, the first of them."""
    others = [value for value in listed if not isinstance(value, int | float)]
    for value in others:
        try:
            float(value)
        except (TypeError, ValueError):
            return value
    return others[0] if others else None


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA."""
    # pandas.NA and NaT are recognised by name, because pandas need not be installed.
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def encode(value: Any) -> str:
    """An id as JSON text; tuples become lists of such texts, dates and UUIDs objects that name their kind."""
    if isinstance(value, tuple):
        return json.dumps([encode(part) for part in value])
    for kind, (known, _) in NAMED.items():
        if type(value) is known:
            return json.dumps({kind: str(value)})
    if isinstance(value, bool | int | float | str):
        return json.dumps(value)
    raise ValueError(
        f"id {value!r} of type {type(value).__name__} cannot be stored; "
        "use integers, strings, numbers, dates, UUIDs or tuples of these"
    )


def decode(text: str) -> Any:
    """The inverse of `encode`."""
    value = json.loads(text)
    if isinstance(value, dict):
        ((kind, written),) = value.items()
        return NAMED[kind][1](written)
    return tuple(decode(part) for part in value) if isinstance(value, list) else value
