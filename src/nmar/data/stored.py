"""Observed cells that stay on disk: one orientation as files, of which lines are read when they are needed.

Enters: a folder of shards (data/manifest.py). Leaves: lines as `Compressed` in memory, and sums over all cells taken a
piece at a time. Whatever would need all cells in memory at once is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from nmar.arrays import Array
from nmar.data.compact import all_finite
from nmar.data.compressed import Compressed
from nmar.data.ids import as_positions
from nmar.data.storage import as_array

PIECE = 1 << 20  # cells that are in memory together while sums over all of them are taken
AHEAD = 4  # the system is told to read so many times the last length in advance


class NeedsMemory(TypeError):
    """A step that needs all cells at once was asked of cells on disk."""


class Files(Protocol):
    """A folder whose files are read by ranges of bytes."""

    def path(self, name: str) -> str:
        """Where a file lies."""

    def read_into(self, name: str, start: int, target: memoryview, ahead: int = 0) -> None:
        """Fill ``target`` with the bytes of a file from ``start`` on; ``ahead`` bytes more will be needed soon."""


@dataclass(frozen=True, eq=False)
class StoredArray:
    """A long array in several files, read a slice at a time.

    Attributes
    ----------
    storage : Files
        Where its parts lie.
    names : tuple of str
        Names of its parts.
    starts : ndarray
        (parts + 1) place of the first entry of each part, and the length of all.
    stored : dtype
        Dtype on disk.
    below : int
        No entry may reach it (positions on the other axis), or 0 where that is not checked.
    change : callable or None
        Function of the entries of any slice, applied as they are read, or None.
    dtype : dtype
        Dtype of what is read.
    """

    storage: Files
    names: tuple[str, ...]
    starts: NDArray[np.int64]
    stored: np.dtype[Any]
    below: int = 0
    change: Callable[[Array], Array] | None = None
    narrow: bool = False  # what ``change`` gives is kept as float32, which holds each number exactly

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of what is read."""
        return self[0:0].dtype

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, which: Any) -> Array:
        if isinstance(which, slice):
            start, stop, step = which.indices(len(self))
            if step == 1:
                return self._changed(self.read(start, max(start, stop)))
        elif isinstance(which, np.ndarray) and which.dtype.kind in "iu":
            return self._changed(self._pick(which))
        raise self._refusal()

    def changed(self, change: Callable[[Array], Array]) -> StoredArray:
        """The array whose slices are ``change`` of these, kept as float32 where that holds every number."""
        made = StoredArray(self.storage, self.names, self.starts, self.stored, self.below, change)
        exact = (_exact(made[part]) for part in self.pieces())
        return StoredArray(self.storage, self.names, self.starts, self.stored, self.below, change, all(exact))

    def pieces(self, size: int = PIECE) -> Iterator[slice]:
        """Slices that cover the array."""
        return (slice(start, min(start + size, len(self))) for start in range(0, len(self), size))

    def _changed(self, raw: Array) -> Array:
        if self.change is None:
            return raw
        made = self.change(raw.astype(np.float64))
        return made.astype(np.float32) if self.narrow else made

    def read(self, start: int, stop: int) -> Array:
        """Entries as they are stored; the system is told which will come next."""
        width, made = self.stored.itemsize, bytearray((stop - start) * self.stored.itemsize)
        target = memoryview(made)
        part = int(np.searchsorted(self.starts, start, side="right")) - 1
        place = start
        while place < stop:
            first, last = int(self.starts[part]), min(int(self.starts[part + 1]), stop)
            if last > place:
                room = target[(place - start) * width : (last - start) * width]
                self.storage.read_into(self.names[part], (place - first) * width, room, AHEAD * len(room))
                self._check(room, self.names[part])
                place = last
            part += 1
        return as_array(made, self.stored)

    def _check(self, data: memoryview, name: str) -> None:
        """Refuse positions that no loop may use, for kernels read memory without asking, and values that are none."""
        found, wrong = np.frombuffer(data, self.stored), ""
        if self.below and not (found.min() >= 0 and found.max() < self.below):
            wrong = f"a position outside 0 … {self.below - 1}"
        elif not self.below and not all_finite(found):
            wrong = "a number that is not finite"
        if wrong:
            raise ValueError(
                f"file {self.storage.path(name)!r} is damaged: it holds {wrong}; restore it, or build the dataset again"
            )

    def _pick(self, places: Array) -> Array:
        """Single entries, by one pass over the array."""
        made = np.empty(len(places), self.stored)
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        for piece in self.pieces():
            some = slice(*np.searchsorted(ordered, (piece.start, piece.stop)))
            if some.stop > some.start:
                made[order[some]] = self.read(piece.start, piece.stop)[ordered[some] - piece.start]
        return made

    def _refusal(self) -> NeedsMemory:
        return NeedsMemory(
            f"this needs all {len(self)} cells in memory at once, and a Dataset leaves them on disk; if they fit, load"
            " them: dataset.to_cells()"
        )

    def astype(self, *_: Any, **__: Any) -> NoReturn:
        """Refused: it would load everything."""
        raise self._refusal()

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise self._refusal()


def _exact(values: Array) -> bool:
    """Whether float32 holds every number."""
    with np.errstate(over="ignore", under="ignore"):
        return bool(np.array_equal(values.astype(np.float32), values))


@dataclass(frozen=True, eq=False)
class StoredLines(Compressed):
    """One orientation of cells on disk; see :class:`Compressed`. ``indices`` and ``values`` are read by slices."""

    _sums: dict[str, Any] = field(default_factory=dict, compare=False)  # of all values, once they were asked for

    def with_values(self, values: Any) -> StoredLines:
        """The same cells with other values, on disk too."""
        return StoredLines(self.indptr, self.indices, values, self.n_other)

    def take(self, lines: Any) -> Compressed:
        """The chosen lines, read into memory."""
        chosen = as_positions(lines, self.n)
        counts = np.diff(self.indptr)[chosen]
        indptr = np.zeros(len(chosen) + 1, dtype=np.int64)
        np.cumsum(counts, out=indptr[1:])
        spans = [slice(int(self.indptr[k]), int(self.indptr[k + 1])) for k in chosen]
        indices, values = (_joined([array[span] for span in spans], array) for array in (self.indices, self.values))
        return Compressed(indptr, indices, values, self.n_other)

    def blocks(self) -> Iterator[tuple[int, Compressed]]:
        """All lines, some at a time: the first line's number, and these lines in memory."""
        for start, stop in self.chunks(PIECE):
            yield start, self.lines(start, stop)

    def value_parts(self) -> Iterator[Array]:
        """All values, in order, a piece at a time."""
        return (self.values[part] for part in self.values.pieces())  # type: ignore[attr-defined]

    def total(self, weights: Any = None) -> float:
        """Σ y, each as often as it counts."""
        parts = self.values.pieces()  # type: ignore[attr-defined]
        if weights is None:
            return float(sum(float(np.sum(self.values[part], dtype=np.float64)) for part in parts))
        return float(sum(float(self.values[part].astype(np.float64) @ weights[part]) for part in parts))

    def mean(self) -> float:
        """Mean of the values."""
        if "mean" not in self._sums:
            self._sums["mean"] = self.total() / len(self.values)
        return self._sums["mean"]

    def variance(self) -> float:
        """Variance of the values about their mean."""
        if "variance" not in self._sums:
            mean, square = self.mean(), 0.0
            for values in self.value_parts():
                square += float(np.sum((values.astype(np.float64) - mean) ** 2))
            self._sums["variance"] = square / len(self.values)
        return self._sums["variance"]

    def line_sums(self) -> Array:
        """Σ y of each line."""
        made = np.zeros(self.n)
        for start, part in self.blocks():
            made[start : start + part.n] = part.line_sums()
        return made

    def some_values(self, count: int) -> Array:
        """All values, or so many of them, evenly spread."""
        if len(self.values) <= count:
            return self.values[0 : len(self.values)]
        return self.values[np.linspace(0, len(self.values) - 1, count).astype(np.int64)]


def _joined(parts: list[Array], like: Any) -> Array:
    return np.concatenate(parts) if parts else like[0:0]
