"""Ids of any kind as arrays, without changing what they are.

Enters: whatever a user calls an id (arrays, lists, series; integers, strings, dates, tuples, mixtures).
Leaves: one-dimensional arrays, the distinct ids among them, and errors that show the offending ids.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]


def as_ids(values: Any) -> NDArray[Any]:
    """Ids as a one-dimensional array that has not changed their kind: strings and mixtures become object."""
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if isinstance(values, np.ndarray | np.generic):
        array = np.atleast_1d(values)
        if array.ndim != 1:
            raise ValueError(f"ids of shape {array.shape}: pass a one-dimensional array")
        if array.dtype.kind in "US":
            return object_array(array.tolist())
        return to_int64(array)
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        listed = [values]  # one id
    else:
        listed = list(values)
    # np.asarray would turn [1, "a"] into strings, so only lists of one plain kind are handed to it.
    if listed and all(type(value) is int for value in listed):
        return to_int64(np.array(listed))
    return object_array(listed)


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
    return np.flatnonzero(present) + low, number[offset]


def _distinct_objects(array: NDArray[Any]) -> tuple[NDArray[Any], Positions]:
    listed = array.tolist()
    try:
        found = list(dict.fromkeys(listed))
    except TypeError as error:
        raise ValueError(f"ids must be hashable ({error}); use integers, strings or tuples") from None
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


def _missing_ids(count: int, first: int) -> ValueError:
    """The error for null ids."""
    return ValueError(f"ids: {count} missing (None or NaN), first at position {first}; drop or name those entries")


def _check_no_missing(array: NDArray[Any]) -> None:
    """Refuse NaN and NaT in a float or date array of ids (object arrays are checked while numbered)."""
    if array.dtype.kind in "fcmM":
        bad = np.isnan(array) if array.dtype.kind in "fc" else np.isnat(array)
        if bad.any():
            raise _missing_ids(int(bad.sum()), int(bad.argmax()))


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA."""
    # pandas.NA and NaT are recognised by name, because pandas need not be installed.
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def encode(value: Any) -> str:
    """An id as JSON text; tuples become lists of such texts."""
    if isinstance(value, tuple):
        return json.dumps([encode(part) for part in value])
    if isinstance(value, bool | int | float | str):
        return json.dumps(value)
    raise ValueError(
        f"id {value!r} of type {type(value).__name__} cannot be stored; "
        "use integers, strings, numbers or tuples of these"
    )


def decode(text: str) -> Any:
    """The inverse of `encode`."""
    value = json.loads(text)
    return tuple(decode(part) for part in value) if isinstance(value, list) else value
