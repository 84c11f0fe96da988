"""Memory for the lines that half sweeps make: two sets of arrays for each side, written in turn."""

from __future__ import annotations

from typing import Any

from nmar.arrays import Array
from nmar.kernels.spec import Kernels, Room
from nmar.models.state import Side
from nmar.prob.tree import alike, arrays_of, map_arrays


class LineBuffers:
    """Arrays for new lines, owned by one run.

    A half sweep reads one side and writes the next one. Fresh memory is slow to touch for the first time, as slow as
    the sweep itself where lines are short, so the two sets of arrays of an axis are written in turn. A state of the
    run is therefore overwritten two sweeps later: whoever keeps one for longer copies it (:meth:`State.copy`).

    Parameters
    ----------
    kernels : Kernels
        Whose arrays they are.
    room : Room or None, default=None
        Makes an array that is not initialised; None: the kernels do.
    """

    def __init__(self, kernels: Kernels, room: Room | None = None) -> None:
        self._room = room or kernels.empty
        self._sides: dict[int, list[Side]] = {0: [], 1: []}
        self._scratch: dict[Any, Array] = {}

    def side(self, axis: int, old: Side) -> Side:
        """A side like ``old`` in arrays that ``old`` is not made of."""
        mine = arrays_of(old)
        for made in self._sides[axis]:
            if not any(a is b for a in arrays_of(made) for b in mine) and alike(made.data, old.data):
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
    if not alike(lines, out):
        return False
    for source, target in zip(arrays_of(lines), arrays_of(out), strict=True):
        target[...] = source
    return True
