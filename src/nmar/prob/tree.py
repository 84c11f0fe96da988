"""Records of arrays as trees: dataclasses and tuples whose leaves are arrays with one entry per line.

Enters: records. Leaves: records of the same types with other arrays, or the arrays themselves. Sides of a model are
such records; taking lines, joining blocks, copying, moving to a device and counting bytes are written here once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from nmar.arrays import Array
from nmar.prob.arrays import is_array

__all__ = ["LineRecord", "alike", "arrays_of", "join", "map_arrays"]


def arrays_of(record: Any) -> list[Array]:
    """All arrays of a record, in the order of its fields.

    Examples
    --------
    >>> [part.tolist() for part in arrays_of((np.zeros(1), (np.ones(2), "no array")))]
    [[0.0], [1.0, 1.0]]
    """
    if is_array(record):
        return [record]
    return [array for part in _parts(record).values() for array in arrays_of(part)]


def map_arrays(record: Any, change: Callable[[Array], Array]) -> Any:
    """The record with ``change`` applied to each of its arrays; whatever else it holds stays."""
    if is_array(record):
        return change(record)
    if type(record) is tuple:
        return tuple(map_arrays(part, change) for part in record)
    if not hasattr(record, "__dataclass_fields__"):
        return record
    return type(record)(**{name: map_arrays(part, change) for name, part in _parts(record).items()})


def join(parts: list[Any]) -> Any:
    """Concatenate the lines of records of one type, field by field; a field that is None in any part is None."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if any(part is None for part in parts):
        return None
    if is_array(first):
        return np.concatenate(parts)
    return type(first)(**{name: join([getattr(part, name) for part in parts]) for name in _parts(first)})


def alike(one: Any, other: Any) -> bool:
    """Whether two records are of one type, with arrays of the same shapes and types."""
    if type(one) is not type(other):
        return False
    mine, theirs = arrays_of(one), arrays_of(other)
    return len(mine) == len(theirs) and all(
        a.shape == b.shape and a.dtype == b.dtype for a, b in zip(mine, theirs, strict=True)
    )


def _parts(record: Any) -> dict[Any, Any]:
    """The parts of a tuple or of a dataclass by name; none of anything else."""
    if type(record) is tuple:
        return dict(enumerate(record))
    return {name: getattr(record, name) for name in getattr(record, "__dataclass_fields__", ())}


class LineRecord:
    """A dataclass whose arrays all have one entry per line."""

    def take(self, lines: slice | Array) -> Self:
        """The chosen lines."""
        return map_arrays(self, lambda array: array[lines])
