"""Memory for the lines that half sweeps make: two sets of arrays for each side, written in turn."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from nmar.kernels.spec import Kernels, Room
from nmar.models.state import Side, map_arrays
from nmar.prob.arrays import is_array

Array = NDArray[Any]


class LineBuffers:
    """Arrays for new lines, owned by one run.

    A half sweep reads one side and writes the next one. Fresh memory is slow to touch for the first time, as slow as
    the sweep itself where lines are short, so the two sets of arrays of an axis are written in turn. A state of the
    run is therefore overwritten two sweeps later: whoever keeps one for longer copies it (:meth:`State.copy`).

    Parameters
    ----------
    kernels : whose arrays they are
    room : makes an array that is not initialised; None: the kernels do
    """

    def __init__(self, kernels: Kernels, room: Room | None = None) -> None:
        self._room = room or kernels.empty
        self._sides: dict[int, list[Side]] = {0: [], 1: []}
        self._scratch: dict[Any, Array] = {}

    def side(self, axis: int, old: Side) -> Side:
        """A side like ``old`` in arrays that ``old`` is not made of."""
        mine = _arrays(old)
        for made in self._sides[axis]:
            if not any(a is b for a in _arrays(made) for b in mine) and _alike(made.data, old.data):
                return map_arrays(made, lambda array: array)  # new records: sums they remember belong to old lines
        fresh = empty_side(old, self._room)
        self._sides[axis] = [*self._sides[axis], fresh][-2:]
        return fresh

    def scratch(self, name: Any, shape: tuple[int, ...], dtype: Any) -> Array:
        """An uninitialised array for use within one half sweep."""
        kept = self._scratch.get(name)
        if kept is None or kept.shape != shape or kept.dtype != dtype:
            kept = self._scratch[name] = self._room(shape, dtype)
        return kept


def empty_side(old: Side, room: Room) -> Side:
    """A side like ``old``, with the tables of its pattern, in new arrays."""
    rest = map_arrays((old.data, old.noise, old.reading, old.detection), lambda array: room(array.shape, array.dtype))
    return Side(old.pattern.empty(room), *rest)


def write_lines(lines: Any, out: Any) -> bool:
    """Copy the lines of a record to a like one; False, and nothing is written, where shapes or types differ."""
    if not _alike(lines, out):
        return False
    for source, target in zip(_arrays(lines), _arrays(out), strict=True):
        target[...] = source
    return True


def _arrays(record: Any) -> list[Array]:
    """All arrays of a record, in the order of its fields."""
    if is_array(record):
        return [record]
    if type(record) is tuple:
        return [array for part in record for array in _arrays(part)]
    if not hasattr(record, "__dataclass_fields__"):
        return []
    return [array for name in record.__dataclass_fields__ for array in _arrays(getattr(record, name))]


def _alike(one: Any, other: Any) -> bool:
    """Whether two records are of one type, with arrays of the same shapes and types."""
    if type(one) is not type(other):
        return False
    mine, theirs = _arrays(one), _arrays(other)
    return len(mine) == len(theirs) and all(
        a.shape == b.shape and a.dtype == b.dtype for a, b in zip(mine, theirs, strict=True)
    )
