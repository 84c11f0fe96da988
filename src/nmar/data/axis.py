"""Ids of the outside world, and the positions 0..n-1 that the models count with.

Enters: ids of any hashable kind (integers, strings, dates, tuples, mixtures). Leaves: an `Axis`, which
translates both ways, and int64 positions. No model ever sees an id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nmar.data.ids import (
    Positions,
    as_ids,
    as_positions,
    decode,
    distinct,
    encode,
    object_array,
    to_int64,
    unknown_ids,
)

Unknown = Literal["error", "prior"]


@dataclass(frozen=True, eq=False, repr=False)
class Axis:
    """The ids of one side of the matrix, in the order of their positions.

    Build it with `Axis.range` or `Axis.from_values`. Ids are unique and never change place.

    Examples
    --------
    >>> from nmar.data import Axis
    >>> axis, positions = Axis.from_values(["b", "a", "b"])
    >>> axis.ids.tolist(), positions.tolist()
    (['a', 'b'], [1, 0, 1])
    >>> axis.positions(["a", "z"], unknown="prior").tolist()
    [0, -1]
    """

    size: int
    table: NDArray[Any] | None = None  # None: the ids are 0..size-1, and no table is needed
    name: str | None = None  # what the ids are called where they came from, as a pandas index is; no part of equality
    _cache: dict[str, Any] = field(default_factory=dict)  # lookup structures, built at the first question

    @classmethod
    def range(cls, n: int) -> Axis:
        """The axis whose ids are the integers 0..n-1.

        Parameters
        ----------
        n : int
            Number of positions, at least 0.

        Returns
        -------
        Axis
        """
        if n < 0:
            raise ValueError(f"n={n} is negative; an axis needs n >= 0")
        return cls(int(n))

    @classmethod
    def from_values(cls, values: Any) -> tuple[Axis, Positions]:
        """The axis of the distinct ids in `values`, and where each value lies on it.

        Parameters
        ----------
        values : array-like of ids
            One id per observation; repeats are expected. Missing ids (None, NaN) are refused.

        Returns
        -------
        axis : Axis
            Distinct ids: sorted if they can be compared, otherwise in order of first appearance.
        positions : int64 array
            ``axis.ids[positions]`` equals `values`.
        """
        ids, positions = distinct(as_ids(values))
        return _from_table(ids), positions.astype(np.int64, copy=False)

    @classmethod
    def from_ids(cls, ids: Any) -> Axis:
        """The axis of distinct `ids`, in the order given."""
        axis, positions = cls.from_values(ids)
        if len(axis) < len(positions):
            raise ValueError(f"ids: {len(positions) - len(axis)} are repeated; an axis holds each id once")
        return axis.take(positions)

    def called(self, name: Any) -> Axis:
        """The same axis under a name; names that are no text are left out."""
        return replace(self, name=name) if isinstance(name, str) else self

    @property
    def ids(self) -> NDArray[Any]:
        """The ids in the order of their positions (int64, or object for strings and mixtures)."""
        return np.arange(self.size, dtype=np.int64) if self.table is None else self.table

    def id_at(self, position: int) -> Any:
        """The id at one position, as a plain Python object."""
        return position if self.table is None else self.table[position : position + 1].tolist()[0]

    def positions(
        self,
        ids: Any,
        unknown: Unknown = "error",
        argument: str = "ids",
        remedy: str = "remove them, or pass unknown='prior'",
    ) -> Positions:
        """Where the given ids lie.

        Parameters
        ----------
        ids : array-like or object
            Ids, or one id.
        unknown : {"error", "prior"}, default="error"
            What to do with an id that is not on the axis: raise, or return -1 for it (the model then answers from its
            prior).
        argument, remedy : str
            What the error calls the ids, and what it says to do.

        Returns
        -------
        int64 array
        """
        if unknown not in ("error", "prior"):
            raise ValueError(f"unknown={unknown!r} is not a policy; use 'error' or 'prior'")
        array = as_ids(ids)
        found = self._find(array)
        if unknown == "error" and (found < 0).any():
            raise unknown_ids(argument, array[found < 0], remedy)
        return found

    def take(self, positions: Any) -> Axis:
        """The axis of the ids at `positions` (integers, each once, or a boolean mask), in that order."""
        chosen = as_positions(positions, self.size)
        if self.table is None and np.array_equal(chosen, np.arange(len(chosen))):
            return Axis.range(len(chosen)).called(self.name)
        if len(chosen) and np.bincount(chosen).max() > 1:
            raise ValueError("positions: some are repeated, and ids must stay unique; pass each position once")
        return _from_table(self.ids[chosen]).called(self.name)

    def extend(self, new_ids: Any) -> Axis:
        """A new axis with every old id in its place and the unseen `new_ids` appended.

        Examples
        --------
        >>> from nmar.data import Axis
        >>> Axis.range(2).extend([1, 7, 5]).ids.tolist()
        [0, 1, 5, 7]
        """
        array = as_ids(new_ids)
        fresh = array[self._find(array) < 0]
        if len(fresh) == 0:
            return self
        added = Axis.from_values(fresh)[0].ids
        old = self.ids
        dates = old.dtype.kind == added.dtype.kind == "M"  # of two units: they meet in the finer one
        # 1 and "1" must stay different ids, so no numeric or string promotion.
        if old.dtype != added.dtype and not dates:
            old, added = old.astype(object), added.astype(object)
        return _from_table(np.concatenate([old, added])).called(self.name)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The axis as plain arrays, none of object dtype (so they can be stored without pickle)."""
        return self._id_arrays() | ({} if self.name is None else {"name": np.array(self.name)})

    def _id_arrays(self) -> dict[str, NDArray[Any]]:
        if self.table is None:
            return {"kind": np.array("range"), "ids": np.array(self.size, dtype=np.int64)}
        if self.table.dtype != object:
            return {"kind": np.array("array"), "ids": self.table}
        listed = self.table.tolist()
        # A NumPy unicode array drops trailing NULs, which would change the id.
        if all(type(value) is str and not value.endswith("\0") for value in listed):
            return {"kind": np.array("str"), "ids": np.array(listed, dtype=np.str_)}
        return {"kind": np.array("json"), "ids": np.array([encode(v) for v in listed], dtype=np.str_)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Axis:
        """The inverse of `to_arrays`; arrays that describe no axis are refused."""
        if wrong := (set(arrays) - {"name"}) ^ {"kind", "ids"}:
            raise ValueError(f"an axis has the parts kind, ids and name, not {sorted(wrong)}")
        axis = cls._of_ids(str(arrays["kind"]), np.asarray(arrays["ids"]))
        return axis.called(str(arrays["name"])) if "name" in arrays else axis

    @classmethod
    def _of_ids(cls, kind: str, ids: NDArray[Any]) -> Axis:
        if kind == "range":
            if ids.shape != () or ids.dtype.kind not in "iu":
                raise ValueError(f"ids of shape {ids.shape} and dtype {ids.dtype} in place of how many there are")
            return cls.range(int(ids))
        if ids.ndim != 1:
            raise ValueError(f"ids of shape {ids.shape}; an axis has one list of them")
        if kind == "array" and ids.dtype.kind in "iufbmM":
            made = _from_table(ids)
        elif kind == "str" and ids.dtype.kind == "U":
            made = _from_table(object_array(ids.tolist()))
        elif kind == "json" and ids.dtype.kind == "U":
            made = _from_table(object_array([decode(text) for text in ids.tolist()]))
        else:
            raise ValueError(f"kind={kind!r} of {ids.dtype} is not an axis; expected 'range', 'array', 'str' or 'json'")
        if made.table is not None and len(distinct(made.table)[0]) < len(made):
            raise ValueError("ids that are repeated; an axis holds each id once")
        return made

    def __len__(self) -> int:
        return self.size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Axis):
            return NotImplemented
        if self.size != other.size or (self.table is None) != (other.table is None):
            return False  # a table that equals 0..n-1 is never stored
        return self is other or self.table is None or bool(np.array_equal(self.ids, other.ids))

    def __repr__(self) -> str:
        shown = ", ".join(repr(self.id_at(place)) for place in range(min(3, self.size)))
        return f"Axis({self.size} ids: {shown}{', …' if self.size > 3 else ''})"

    def _find(self, array: NDArray[Any]) -> Positions:
        """Positions of `array`, -1 where unknown."""
        if self.table is None:
            return _find_in_range(array, self.size)
        if self.table.dtype != object and self.table.dtype.kind == array.dtype.kind:
            return self._find_sorted(array)
        if "index" not in self._cache:
            self._cache["index"] = {value: place for place, value in enumerate(self.table.tolist())}
        index = self._cache["index"]
        return np.fromiter((index.get(value, -1) for value in array.tolist()), np.int64, len(array))

    def _find_sorted(self, array: NDArray[Any]) -> Positions:
        assert self.table is not None
        if "places" not in self._cache:
            self._cache["places"] = _places_of(self.table)
        if self._cache["places"] is not None:
            places, low = self._cache["places"]
            inside = (array >= low) & (array < low + len(places))
            return np.where(inside, places[np.where(inside, array - low, 0)], -1)
        if "sorter" not in self._cache:
            self._cache["sorter"] = np.argsort(self.table, kind="stable")
            self._cache["sorted"] = self.table[self._cache["sorter"]]
        ordered = self._cache["sorted"]
        if len(ordered) == 0:
            return np.full(len(array), -1, dtype=np.int64)
        place = np.minimum(np.searchsorted(ordered, array), len(ordered) - 1)
        return np.where(ordered[place] == array, self._cache["sorter"][place], -1).astype(np.int64, copy=False)


def _from_table(ids: NDArray[Any]) -> Axis:
    ids = to_int64(ids)
    n = len(ids)
    # The ends first: the full comparison makes a temporary, and most tables fail at once.
    if ids.dtype == np.int64 and n and ids[0] == 0 and ids[-1] == n - 1 and np.array_equal(ids, np.arange(n)):
        return Axis.range(n)
    return Axis(n, ids) if n else Axis.range(0)


def _places_of(ids: NDArray[Any]) -> tuple[Positions, int] | None:
    """Positions of all integers from the smallest id on, −1 where there is none; None where ids lie far apart."""
    if ids.dtype != np.int64 or not len(ids) or int(ids.max()) - int(ids.min()) > 8 * len(ids) + 1024:
        return None
    low = int(ids.min())
    places = np.full(int(ids.max()) - low + 1, -1, dtype=np.int64)
    places[ids - low] = np.arange(len(ids))
    return places, low


def _find_in_range(array: NDArray[Any], size: int) -> Positions:
    if array.dtype == object:
        same = (isinstance(value, int | float | np.number) and 0 <= value < size for value in array)
        inside = np.fromiter(same, bool, len(array))
        array = np.where(inside, array, -1).astype(np.float64)
    if array.dtype.kind not in "iuf":
        return np.full(len(array), -1, dtype=np.int64)
    known = (array >= 0) & (array < size)
    if array.dtype.kind == "f":
        known &= array == np.floor(array)
    return np.where(known, array, -1).astype(np.int64)
